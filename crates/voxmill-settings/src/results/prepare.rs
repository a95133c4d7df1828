//! What `prepare` found and did, as the result that is printed.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use voxmill_data::batch_plan::{BatchPlan, PaddingWaste, PlanClip};
use voxmill_data::cache::{Cache, Collected, Warning};
use voxmill_data::manifest::{
    Clip, FilterReason, FilteredClip, Manifest, Split, Suspicious, source_formats,
};
use voxmill_report::results::prepare::{
    CacheFacts, ClipCounts, ClipGroup, CollectedFacts, PaddedShape, Percentiles, PlannedBatches,
    PreparedDataset, RepairedFacts, SourceGroup, TimeFacts,
};

use crate::PrepareSettings;
use voxmill_data::DatasetFolder;
use voxmill_data::build::KnownClip;

/// What `prepare` knows of a folder when it is done.
#[derive(Debug)]
pub struct FolderFacts<'a> {
    pub folder: &'a DatasetFolder,
    pub manifest: &'a Manifest,
    pub rows: usize,
    /// By clip number; `None` for a clip that turned out bad or was not reached.
    pub known: &'a [Option<KnownClip>],
    /// Those of the manifest, and those that are too long once their frames are known.
    pub filtered_clips: &'a [FilteredClip],
    pub suspicious: &'a [Suspicious],
    pub suspicious_ids: HashSet<&'a str>,
    pub settings: &'a PrepareSettings,
    pub cache: &'a Cache,
    pub budget: Option<u64>,
    /// Clips made in this run, by reason.
    pub rebuilt: BTreeMap<String, usize>,
    pub not_cached: usize,
    pub audio_kept: usize,
    pub collected: Option<Collected>,
    pub repaired: &'a [Warning],
    pub timing: Timing,
}

/// How long that took.
#[derive(Debug)]
pub struct Timing {
    pub scan: Duration,
    pub build: Duration,
    pub total: Duration,
    pub built_clips: usize,
    pub built_audio_seconds: f64,
}

/// How often each name comes.
pub fn counts_by(names: impl Iterator<Item = String>) -> BTreeMap<String, usize> {
    names.fold(BTreeMap::new(), |mut counts, name| {
        *counts.entry(name).or_default() += 1;
        counts
    })
}

impl FolderFacts<'_> {
    /// By its length after trimming: those too long by their header alone are filtered already.
    fn is_too_long(&self, known: &KnownClip) -> bool {
        known.frames > self.settings.data.max_mel_frames
    }

    fn usable(&self) -> impl Iterator<Item = (&Clip, KnownClip)> {
        let clips = self.manifest.clips.iter().zip(self.known);
        let clips = clips.filter_map(|(clip, known)| Some((clip, (*known)?)));
        clips.filter(|(clip, known)| !self.is_too_long(known) && !self.is_dropped(clip, known))
    }

    /// Left out by `--drop-suspicious` or `--min-snr`, as `train` would.
    fn is_dropped(&self, clip: &Clip, known: &KnownClip) -> bool {
        let data = &self.settings.data;
        let snr = known.quality.map(|quality| f64::from(quality.snr_db));
        let noisy = (data.min_snr).is_some_and(|min| snr.is_some_and(|snr| snr < min));
        noisy || data.drop_suspicious && self.suspicious_ids.contains(&*clip.id)
    }

    /// As `voxmill prepare` prints it.
    pub fn result(self) -> anyhow::Result<PreparedDataset> {
        let facts = self;
        let manifest = facts.manifest;
        let usable: Vec<_> = facts.usable().collect();
        let seconds = || usable.iter().map(|(clip, _)| clip.header.seconds());
        let mut languages = BTreeMap::<&str, ClipGroup>::new();
        let mut speakers = BTreeMap::<&str, ClipGroup>::new();
        for (clip, known) in &usable {
            for (groups, name) in [
                (&mut languages, known.language.code()),
                (&mut speakers, manifest.speaker(clip)),
            ] {
                let group = groups.entry(name).or_default();
                group.clips += 1;
                group.hours += clip.header.seconds() / 3600.0;
            }
        }
        let to_train_on = usable.iter().filter(|(clip, _)| clip.split == Split::Train);
        let training = to_train_on.count();
        let (bad, mut filtered) = (manifest.quarantine.len(), manifest.filtered);
        filtered.audio_too_long += facts.filtered_clips.len() - manifest.filtered_clips.len();
        let filtered_file = facts.folder.filtered_list();
        let clips = manifest.clips.iter().zip(facts.known);
        let clips = clips.filter_map(|(clip, known)| Some((clip, (*known)?)));
        let dropped = clips
            .filter(|(clip, known)| !facts.is_too_long(known) && facts.is_dropped(clip, known));
        let dropped = dropped.count();
        let reached = usable.len() + bad + filtered.total() + dropped;
        let counts = ClipCounts {
            rows: facts.rows,
            usable: usable.len(),
            training,
            validation: usable.len() - training,
            bad,
            filtered: filtered.total() + dropped,
            not_reached: facts.rows.saturating_sub(reached),
        };
        let time = &facts.timing;
        let build_seconds = time.build.as_secs_f64();
        let rate = |amount: f64| (time.built_clips > 0).then(|| amount / build_seconds);
        Ok(PreparedDataset {
            folder: facts.folder.path.display().to_string(),
            demo: facts.folder.demo,
            hours: seconds().sum::<f64>() / 3600.0,
            seconds: percentiles(seconds()),
            tokens: percentiles(usable.iter().map(|(_, known)| f64::from(known.tokens))),
            batches: batches(&facts)?,
            trimmed: facts.settings.data.audio.trim_db.is_some(),
            sources: source_formats(usable.iter().map(|(clip, _)| *clip))
                .into_iter()
                .map(|source| SourceGroup {
                    sample_rate: source.sample_rate,
                    channels: source.channels,
                    codec: source.codec,
                    clips: source.clips,
                    hours: source.seconds / 3600.0,
                })
                .collect(),
            sample_rate: facts.settings.data.audio.sample_rate,
            languages: named(languages),
            speakers: named(speakers),
            quarantine: (manifest.quarantine.counts().into_iter())
                .map(|(reason, n)| (reason.as_str().to_owned(), n))
                .collect(),
            quarantine_file: facts.folder.quarantine_list().display().to_string(),
            filtered_file: (!facts.filtered_clips.is_empty())
                .then(|| filtered_file.display().to_string()),
            filtered: [
                (FilterReason::AudioTooLong.as_str(), filtered.audio_too_long),
                (
                    FilterReason::AudioTooShort.as_str(),
                    filtered.audio_too_short,
                ),
                (FilterReason::TextTooLong.as_str(), filtered.text_too_long),
                ("noisy or suspicious", dropped),
            ]
            .into_iter()
            .filter(|(_, n)| *n > 0)
            .map(|(reason, n)| (reason.to_owned(), n))
            .collect(),
            suspicious: counts_by(facts.suspicious.iter().map(|one| one.suspicion.to_string())),
            suspicious_file: facts.folder.suspicious_list().display().to_string(),
            cache: CacheFacts {
                folder: facts.cache.dir().display().to_string(),
                clips: facts.cache.len(),
                bytes: facts.cache.disk_bytes()?,
                budget: facts.budget,
                reused: facts.known.iter().flatten().count() - time.built_clips,
                rebuilt: time.built_clips,
                reasons: facts.rebuilt,
                frames_kept: facts.audio_kept,
                not_cached_for_budget: facts.not_cached,
                up_to_date: counts.usable > 0
                    && time.built_clips == 0
                    && counts.not_reached == 0
                    && facts.repaired.is_empty()
                    && (facts.collected).is_none_or(|collected| collected.clips_removed == 0),
                collected: facts.collected.map(|collected| CollectedFacts {
                    clips: collected.clips_removed,
                    bytes_freed: collected.bytes_freed,
                }),
                repaired: (!facts.repaired.is_empty()).then(|| repaired(facts.repaired)),
            },
            time: TimeFacts {
                scan_seconds: time.scan.as_secs_f64(),
                features_seconds: build_seconds,
                total_seconds: time.total.as_secs_f64(),
                clips_per_second: rate(time.built_clips as f64),
                audio_hours_per_hour: rate(time.built_audio_seconds),
            },
            clips: counts,
        })
    }
}

fn repaired(damage: &[Warning]) -> RepairedFacts {
    let is_shard = |warning: &&Warning| matches!(warning, Warning::DamagedShard(..));
    let shards = damage.iter().filter(is_shard).count();
    RepairedFacts {
        indexes: damage.len() - shards,
        shards,
    }
}

fn named(groups: BTreeMap<&str, ClipGroup>) -> Vec<ClipGroup> {
    let named = |(name, group): (&str, ClipGroup)| ClipGroup {
        name: name.to_owned(),
        ..group
    };
    let mut groups: Vec<_> = groups.into_iter().map(named).collect();
    groups.sort_by(|a, b| b.clips.cmp(&a.clips).then_with(|| a.name.cmp(&b.name)));
    groups
}

/// Nearest-rank percentiles: every figure is the length of a clip that exists.
fn percentiles(values: impl Iterator<Item = f64>) -> Percentiles {
    let mut sorted: Vec<f64> = values.collect();
    sorted.sort_by(f64::total_cmp);
    let at = |share: f64| {
        let rank = (share * sorted.len() as f64).ceil() as usize;
        sorted.get(rank.max(1) - 1).copied().unwrap_or_default()
    };
    Percentiles {
        min: at(0.0),
        p5: at(0.05),
        p50: at(0.5),
        p95: at(0.95),
        max: at(1.0),
    }
}

/// The plan of the training clips that are not too long, as `train` makes it from the cache.
fn batches(facts: &FolderFacts) -> anyhow::Result<Option<PlannedBatches>> {
    let settings = facts.settings;
    let clips: Vec<_> = (facts.usable())
        .filter(|(clip, _)| clip.split == Split::Train)
        .map(|(clip, known)| PlanClip {
            id: clip.id.to_string(),
            frames: known.frames,
            tokens: known.tokens,
            speaker: clip.speaker,
        })
        .collect();
    if clips.is_empty() {
        return Ok(None);
    }
    let plan = BatchPlan::new(clips, settings.data.batches)?;
    let batch_size = settings.data.batches.batch_size.get();
    let random = PaddingWaste::of_random_batches(plan.clips(), plan.settings());
    let longest = PaddingWaste::of_longest(plan.clips(), plan.settings());
    let shapes = plan.buckets().iter().map(|bucket| PaddedShape {
        frames: bucket.shape.frames,
        tokens: bucket.shape.tokens,
        rows: bucket.shape.rows,
        clips: bucket.clips.len(),
        batches: bucket.batches(),
    });
    Ok(Some(PlannedBatches {
        batch_size,
        per_epoch: plan.batches_per_epoch(),
        shapes: shapes.collect(),
        padding_waste: PaddingWaste::of_epoch(&plan, &plan.epoch(0)).frames.waste(),
        padding_waste_of_random_batches: random.frames.waste(),
        padding_waste_of_padding_to_the_longest: longest.frames.waste(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_lengths_that_exist() {
        let p = percentiles((1..=100).map(f64::from));
        assert_eq!(
            (p.min, p.p5, p.p50, p.p95, p.max),
            (1.0, 5.0, 50.0, 95.0, 100.0)
        );
        let one = percentiles([3.0].into_iter());
        assert_eq!((one.min, one.p50, one.max), (3.0, 3.0, 3.0));
    }
}
