//! What a run learns from: the dataset, its features, and the batches of both splits.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use voxmill_data::manifest::{Manifest, Quarantine, Split};
use voxmill_data::store::{CacheHome, PlannedLengths};
use voxmill_data::{DatasetFolder, FeatureStore, Loader, LoaderError, LoaderSettings, Recipe};
use voxmill_telemetry::recorder::Recorder;
use voxmill_text::detect::detect;
use voxmill_text::language::Language;
use voxmill_trainer::checkpoint::PrepareOn;

use super::dataset::{folders, scan};
use super::on_all_threads;
use crate::commands::note;
use voxmill_settings::TrainSettings;
use voxmill_settings::error::UserError;
use voxmill_settings::error::of_library::{front_end, of_loader};
use voxmill_settings::hint_for_bad;
use voxmill_settings::unwanted::unwanted;

/// Of the memory for feeding, what features may take that wait for the cache; the rest is for batches.
const HELD_SHARE: u64 = 4;
/// And what batches of held-out clips may take.
const VALIDATION_SHARE: u64 = 8;

/// The dataset, scanned, and how features are computed from it.
pub(crate) struct Data {
    pub(crate) folder: DatasetFolder,
    pub(crate) train: Manifest,
    /// Of its manifest, good and bad.
    pub(crate) rows: usize,
    /// Left out for their sound or as suspicious when the run began, by id.
    pub(crate) dropped: Vec<String>,
    /// Of another folder, where one is given.
    held_out: Option<(DatasetFolder, Manifest)>,
    pub(crate) recipe: Recipe,
}

impl Data {
    /// `frozen`: clips that a resumed run left out when it began. What is left out then does not change.
    pub(crate) fn open(
        settings: &TrainSettings,
        frozen: Option<&[String]>,
    ) -> anyhow::Result<Data> {
        on_all_threads(settings, || Self::scanned(settings, frozen))
    }

    fn scanned(settings: &TrainSettings, frozen: Option<&[String]>) -> anyhow::Result<Data> {
        let mut all = folders(&settings.data)?.into_iter();
        let folder = all.next().context("there is always a folder to train on")?;
        let mut train = scan(&folder, &settings.data)?;
        let rows = train.rows();
        if let Some(bad) = train.too_many_bad(settings.data.max_bad) {
            let list = folder.quarantine_list();
            let list = format!(
                "`voxmill prepare` lists them in `{}`; correct them",
                list.display()
            );
            return Err(UserError::new(bad.to_string(), hint_for_bad(&bad, &list)).into());
        }
        let dropped = match frozen {
            None => unwanted(&train, &folder, &settings.data)?,
            Some(_) => Vec::new(),
        };
        let held_out = all.next().map(|folder| held_out(folder, settings));
        let held_out = held_out.transpose()?;
        train.exclude(frozen.unwrap_or(&dropped));
        if settings.shuffle_texts {
            train.shuffle_texts(settings.data.batches.seed);
        }
        if train.clips_of(Split::Train).next().is_none() {
            let what = format!("no clip of `{}` is left to train on", folder.path.display());
            let hint = "`voxmill prepare` on the same folder says why";
            return Err(UserError::new(what, hint).into());
        }
        Ok(Data {
            folder,
            train,
            rows,
            dropped,
            held_out,
            recipe: Recipe {
                front_end: Arc::new(front_end(settings.data.text.clone())?),
                audio: Arc::new(settings.data.audio.clone()),
                language: settings.data.language,
            },
        })
    }

    /// The manifest that has the held-out clips.
    pub(crate) fn held_out(&self) -> &Manifest {
        let other = self.held_out.as_ref();
        other.map_or(&self.train, |(_, manifest)| manifest)
    }

    /// How many clips the cache can have: all, without those that `prepare` found bad in decoding them. A list that
    /// cannot be read is as good as none: the next `prepare` writes it anew.
    pub(crate) fn to_cache(&self, store: &FeatureStore) -> usize {
        let listed = Quarantine::read_csv(&self.folder.quarantine_list()).unwrap_or_default();
        let listed: BTreeSet<&str> = listed.entries().iter().map(|entry| &*entry.clip).collect();
        let clips = store.clips();
        let bad = clips.iter().filter(|clip| listed.contains(&*clip.id));
        // A clip that was mended since may be in the cache, and in the list still.
        clips.len() - bad.count().min(clips.len() - store.found_in_cache())
    }

    /// The languages of the training clips, and who has the most clips in each.
    pub(crate) fn languages(&self, usual: Option<Language>) -> BTreeMap<String, String> {
        let mut clips: BTreeMap<(Language, u32), usize> = BTreeMap::new();
        for clip in self.train.clips_of(Split::Train) {
            let language = clip.language.or(usual);
            let language = language.unwrap_or_else(|| detect(&clip.text));
            *clips.entry((language, clip.speaker)).or_default() += 1;
        }
        let mut most: BTreeMap<Language, (usize, u32)> = BTreeMap::new();
        for ((language, speaker), count) in clips {
            let best = most.entry(language).or_default();
            if count > best.0 {
                *best = (count, speaker);
            }
        }
        let names = &self.train.speakers;
        most.into_iter()
            .map(|(language, (_, speaker))| {
                (language.code().to_owned(), names[speaker as usize].clone())
            })
            .collect()
    }

    pub(crate) fn store(&self, settings: &TrainSettings) -> Arc<FeatureStore> {
        Arc::new(self.store_of(&self.train, cache_home(settings, &self.folder), settings))
    }

    /// For a run that planned its batches by these lengths when it began.
    pub(crate) fn store_with_lengths(
        &self,
        settings: &TrainSettings,
        lengths: PlannedLengths,
    ) -> Arc<FeatureStore> {
        let home = cache_home(settings, &self.folder);
        Arc::new(
            self.store_of(&self.train, home, settings)
                .with_lengths(lengths),
        )
    }

    /// Every file is decoded, once.
    pub(crate) fn store_without_cache(&self, settings: &TrainSettings) -> Arc<FeatureStore> {
        Arc::new(self.store_of(&self.train, None, settings))
    }

    fn store_of(
        &self,
        manifest: &Manifest,
        home: Option<CacheHome>,
        settings: &TrainSettings,
    ) -> FeatureStore {
        let hold = settings.feeding.ram_budget / HELD_SHARE;
        // Bad clips are reported and recorded by whoever observes the run.
        let off = Recorder::off();
        let (clips, recipe) = (manifest.clips.clone(), self.recipe.clone());
        on_all_threads(settings, || {
            FeatureStore::open(clips, recipe, home, hold, off)
        })
    }

    /// Batches of the held-out clips, where there are any and they are wanted. `store` has the training clips.
    pub(crate) fn validation_loader(
        &self,
        settings: &TrainSettings,
        store: &Arc<FeatureStore>,
    ) -> anyhow::Result<Option<Loader>> {
        let Some(evaluation) = settings.evaluation else {
            return Ok(None);
        };
        if self.held_out().clips_of(Split::Validation).next().is_none() {
            if let Some(patience) = evaluation.patience {
                let what = format!(
                    "the run cannot stop after {patience} evaluations without a better one: no clip is held out"
                );
                let hint =
                    "hold some out with --val-fraction or --val-data, or leave the patience out";
                return Err(UserError::new(what, hint).into());
            }
            note!("no clip is held out, so nothing is evaluated; --val-fraction holds some out",);
            return Ok(None);
        }
        let store = match &self.held_out {
            Some((folder, manifest)) => {
                &Arc::new(self.store_of(manifest, cache_home(settings, folder), settings))
            }
            None => store,
        };
        // It runs next to the training loader, for moments: a few batches ahead are enough.
        let ours = LoaderSettings {
            buffer_size: 2,
            slots: 2,
            start_delay: Duration::ZERO,
            ram_budget: settings.feeding.ram_budget / VALIDATION_SHARE,
            ..loader_settings(settings)
        };
        let loader = loader_of(settings, store, Split::Validation, ours);
        Ok(Some(loader.map_err(of_loader)?))
    }
}

fn held_out(
    folder: DatasetFolder,
    settings: &TrainSettings,
) -> anyhow::Result<(DatasetFolder, Manifest)> {
    let mut manifest = scan(&folder, &settings.data)?;
    if let Some(bad) = manifest.too_many_bad(settings.data.max_bad) {
        let what = format!("of `{}`, {bad}", folder.path.display());
        return Err(UserError::new(what, hint_for_bad(&bad, "correct them")).into());
    }
    let dropped = unwanted(&manifest, &folder, &settings.data)?;
    manifest.exclude(&dropped);
    if manifest.clips.is_empty() {
        let what = format!(
            "no clip of `{}` is left to validate on",
            folder.path.display()
        );
        let hint = "leave --val-data out: a share of the clips is then held out";
        return Err(UserError::new(what, hint).into());
    }
    Ok((folder, manifest))
}

/// `None` where nothing is cached.
fn cache_home(settings: &TrainSettings, folder: &DatasetFolder) -> Option<CacheHome> {
    // Shuffled texts are for one experiment: they must not get into the dataset's cache.
    let caching = settings.feeding.caching && !settings.shuffle_texts;
    caching.then(|| CacheHome {
        dir: folder.cache_dir(),
        budget_bytes: settings.data.cache_budget,
    })
}

pub(crate) fn training_loader(
    settings: &TrainSettings,
    store: &Arc<FeatureStore>,
    ours: LoaderSettings,
) -> Result<Loader, LoaderError> {
    loader_of(settings, store, Split::Train, ours)
}

/// Batches of frames, or of samples for a device that computes the frames itself.
fn loader_of(
    settings: &TrainSettings,
    store: &Arc<FeatureStore>,
    split: Split,
    ours: LoaderSettings,
) -> Result<Loader, LoaderError> {
    let of = match settings.devices.prepare_on {
        PrepareOn::Host => Loader::new,
        PrepareOn::Data | PrepareOn::Model => Loader::of_waveforms,
    };
    of(store, split, settings.data.batches, ours)
}

pub(crate) fn loader_settings(settings: &TrainSettings) -> LoaderSettings {
    let feeding = &settings.feeding;
    LoaderSettings {
        workers: feeding.workers,
        buffer_size: feeding.buffered_batches,
        ram_budget: feeding.ram_budget
            - feeding.ram_budget / HELD_SHARE
            - feeding.ram_budget / VALIDATION_SHARE,
        order: feeding.order,
        overlap: feeding.overlap,
        adapt: feeding.adapt,
        slots: settings.feeding.device_slots,
        start_delay: feeding.start_delay,
        max_frames: Some(settings.data.max_mel_frames),
        delays: feeding.delays,
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use voxmill_pipeline::run::Delivery;
    use voxmill_settings::args::{Cli, Verb};

    use super::*;

    #[test]
    fn held_out_batches_are_made_of_what_those_of_training_are() {
        let home = tempfile::tempdir().unwrap();
        let corpus = voxmill_data::demo::unpack(home.path()).unwrap().dir;
        for (place, of_samples) in [("host", false), ("model", true)] {
            let line = format!(
                "voxmill train --device cpu --train-data {} --no-cache --prepare-on {place}",
                corpus.display()
            );
            let cli = Cli::try_parse_from(line.split_whitespace()).unwrap();
            let Verb::Train(args) = cli.verb else {
                panic!("another verb")
            };
            let settings = TrainSettings::resolve(*args).unwrap();
            let data = Data::open(&settings, None).unwrap();
            let store = data.store(&settings);
            let train = training_loader(&settings, &store, loader_settings(&settings)).unwrap();
            let held_out = data.validation_loader(&settings, &store).unwrap().unwrap();
            for loader in [train, held_out] {
                let first = loader.one_pass(Recorder::off()).unwrap().next();
                let Some(Ok(Delivery::Item(batch))) = first else {
                    panic!("no batch")
                };
                let (batch, _) = batch.into_parts();
                assert_eq!(batch.sound.framing().is_some(), of_samples, "{place}");
            }
        }
    }
}
