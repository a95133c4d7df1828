//! What a run learns from: the dataset, its features, and the batches of both splits.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use voxmill_speech::draw::draw;
use voxmill_speech::manifest::{Clip, Manifest, Quarantine, Split};
use voxmill_telemetry::recorder::Recorder;

use super::Resumed;
use super::complaints::of_feed;
use crate::commands::tell;
use crate::complaint::Complaint;
use crate::dataset::{Folder, folders};
use crate::feed::Recipe;
use crate::feed::train::{BatchFeed, CacheHome, FeedSettings, Shelf};
use crate::settings::TrainSettings;

/// Of the memory for feeding, what features may take that wait for the cache; the rest is for batches.
const HELD_SHARE: u64 = 4;
/// And what batches of held-out clips may take.
const VALIDATION_SHARE: u64 = 8;

/// The dataset, scanned.
pub(crate) struct Data {
    pub(crate) folder: Folder,
    pub(crate) train: Manifest,
    /// Of its manifest, good and bad.
    pub(crate) rows: usize,
    /// Of another folder, where one is given.
    pub(crate) held_out: Option<(Folder, Manifest)>,
}

impl Data {
    pub(crate) fn held_out(&self) -> &Manifest {
        self.held_out
            .as_ref()
            .map_or(&self.train, |(_, manifest)| manifest)
    }
}

pub(in crate::commands) fn read_data(
    settings: &TrainSettings,
    resumed: Option<&Resumed>,
) -> anyhow::Result<Data> {
    let frozen = resumed.map(|resumed| &resumed.checkpoint.facts().quarantine);
    read(settings, frozen.map_or(&[], Vec::as_slice))
}

/// Without the clips that are out of it already.
pub(crate) fn read(settings: &TrainSettings, frozen: &[String]) -> anyhow::Result<Data> {
    let mut all = folders(&settings.data)?.into_iter();
    let folder = all.next().context("there is always a folder to train on")?;
    let mut train = folder.scan(&settings.data)?;
    let rows = train.clips.len() + train.quarantine.len() + train.filtered.total();
    if let Some(bad) = train.quarantine.too_many(rows, settings.data.max_bad) {
        let list = folder.home.join("quarantine.csv");
        let hint = format!(
            "`voxmill prepare` lists them in `{}`; mend them, or allow more with --max-bad",
            list.display()
        );
        return Err(Complaint::new(bad.to_string(), hint).into());
    }
    let held_out = match all.next() {
        Some(folder) => {
            let manifest = folder.scan(&settings.data)?;
            let rows = manifest.clips.len() + manifest.quarantine.len() + manifest.filtered.total();
            if let Some(bad) = manifest.quarantine.too_many(rows, settings.data.max_bad) {
                let what = format!("of `{}`, {bad}", folder.path.display());
                return Err(Complaint::new(what, "mend them, or allow more with --max-bad").into());
            }
            if manifest.clips.is_empty() {
                return Err(Complaint::new(
                    format!(
                        "no clip of `{}` is left to validate on",
                        folder.path.display()
                    ),
                    "leave --val-data out: a share of the clips is then held out",
                )
                .into());
            }
            Some((folder, manifest))
        }
        None => None,
    };
    // The plan must be the one that the run began with: what was bad then stays out.
    let frozen: HashSet<&str> = frozen.iter().map(String::as_str).collect();
    train.clips.retain(|clip| !frozen.contains(&*clip.id));
    if settings.shuffle_texts {
        shuffle_texts(&mut train.clips, settings.data.batches.seed);
    }
    if !train.clips.iter().any(|clip| clip.split == Split::Train) {
        return Err(Complaint::new(
            format!("no clip of `{}` is left to train on", folder.path.display()),
            "`voxmill prepare` on the same folder says why",
        )
        .into());
    }
    Ok(Data {
        folder,
        train,
        rows,
        held_out,
    })
}

/// For a control experiment: every training clip gets another one's text. A voice trained so must
/// not be understood.
fn shuffle_texts(clips: &mut [Clip], seed: u64) {
    let mut of_training: Vec<usize> = (0..clips.len())
        .filter(|&clip| clips[clip].split == Split::Train)
        .collect();
    of_training.sort_by_key(|&clip| draw(seed, 0, &clips[clip].id, "shuffle texts"));
    let Some(&first) = of_training.first() else {
        return;
    };
    let first_text = clips[first].text.clone();
    for pair in of_training.windows(2) {
        clips[pair[0]].text = clips[pair[1]].text.clone();
    }
    if let Some(&last) = of_training.last() {
        clips[last].text = first_text;
    }
}

pub(crate) fn open_shelf(
    settings: &TrainSettings,
    recipe: &Recipe,
    folder: &Folder,
    manifest: &Manifest,
) -> Arc<Shelf> {
    // Shuffled texts are for one experiment: they must not get into the dataset's cache.
    let caching = settings.feeding.caching && !settings.shuffle_texts;
    let home = caching.then(|| CacheHome {
        dir: folder.cache_dir(),
        budget_bytes: settings.data.cache_budget,
    });
    shelf_at(home, settings, recipe, manifest)
}

/// Every file is decoded, once.
pub(in crate::commands) fn open_shelf_without_cache(
    settings: &TrainSettings,
    recipe: &Recipe,
    manifest: &Manifest,
) -> Arc<Shelf> {
    shelf_at(None, settings, recipe, manifest)
}

fn shelf_at(
    home: Option<CacheHome>,
    settings: &TrainSettings,
    recipe: &Recipe,
    manifest: &Manifest,
) -> Arc<Shelf> {
    let hold = settings.feeding.ram_budget / HELD_SHARE;
    // Bad clips are told and recorded by whoever watches the run.
    let off = Recorder::off();
    Arc::new(Shelf::open(
        manifest.clips.clone(),
        recipe.clone(),
        home,
        hold,
        off,
    ))
}

/// The held-out clips, where there are any and they are wanted.
pub(super) fn held_out_feed(
    settings: &TrainSettings,
    data: &Data,
    shelf: &Arc<Shelf>,
) -> anyhow::Result<Option<BatchFeed>> {
    let Some(evaluation) = settings.evaluation else {
        return Ok(None);
    };
    let held_out = |clip: &Clip| clip.split == Split::Validation;
    if !data.held_out().clips.iter().any(held_out) {
        if let Some(patience) = evaluation.patience {
            return Err(Complaint::new(
                format!(
                    "the run cannot stop after {patience} evaluations without a better one: no clip is held out"
                ),
                "hold some out with --val-fraction or --val-data, or leave the patience out",
            )
            .into());
        }
        tell("note: no clip is held out, so nothing is evaluated; --val-fraction holds some out");
        return Ok(None);
    }
    // It runs beside the other road, for moments: a few batches ahead are enough.
    let ours = FeedSettings {
        buffer_size: 2,
        slots: 2,
        held_at_once: 1,
        start_delay: Duration::ZERO,
        ram_budget: settings.feeding.ram_budget / VALIDATION_SHARE,
        ..feed_settings(settings)
    };
    let feed = BatchFeed::new(shelf, Split::Validation, settings.data.batches, ours);
    Ok(Some(feed.map_err(of_feed)?))
}

/// The clips that are out of this run's plan for good: the plan must not change while it runs.
pub(super) fn frozen_quarantine(resumed: Option<&Resumed>, bad: &Quarantine) -> Vec<String> {
    let before = resumed
        .iter()
        .flat_map(|resumed| resumed.checkpoint.facts().quarantine.clone());
    let now = bad.entries().iter().map(|bad| bad.clip.to_string());
    let all: BTreeSet<String> = before.chain(now).collect();
    all.into_iter().collect()
}

pub(crate) fn feed_settings(settings: &TrainSettings) -> FeedSettings {
    let feeding = &settings.feeding;
    FeedSettings {
        workers: feeding.workers,
        buffer_size: feeding.buffered_batches,
        ram_budget: feeding.ram_budget
            - feeding.ram_budget / HELD_SHARE
            - feeding.ram_budget / VALIDATION_SHARE,
        order: feeding.order,
        overlap: feeding.overlap,
        adapt: feeding.adapt,
        slots: settings.slots_ahead(),
        start_delay: feeding.start_delay,
        held_at_once: settings.optimization.gradient_accumulation_steps.get() as usize,
        hindrance: feeding.hindrance,
    }
}
