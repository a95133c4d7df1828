//! `voxmill prepare`: check a dataset, compute what is missing of its features, say what is there.

mod demo_folder;
mod report;
mod table;

use std::collections::{BTreeMap, HashSet};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use anyhow::Context as _;
use voxmill_speech::cache::{
    Cache, CacheError, CacheWriter, Collected, WriterOptions, clip_bytes, free_space,
};
use voxmill_speech::manifest::{
    Clip, Limits, Manifest, ManifestError, Measured, Quarantine, Split, Suspicious,
    find_suspicious, write_suspicious,
};
use voxmill_speech::text::FrontEnd;

use self::report::{FolderFacts, FolderReport, Timing};
use super::{say, show_settings, tell};
use crate::args::PrepareArgs;
use crate::complaint::Complaint;
use crate::feed::{self, Building, Built, Known, Recipe, Scan, Staleness};
use crate::interrupt::{self, EXIT_INTERRUPTED};
use crate::progress::ClipProgress;
use crate::settings::{Origin, PrepareSettings};

/// Clips shorter than this hold no speech worth aligning; they are filtered.
const MIN_SECONDS: f64 = 0.1;

pub(crate) fn run(args: PrepareArgs) -> anyhow::Result<ExitCode> {
    let show = args.config.show_settings;
    let settings = PrepareSettings::resolve(args)?;
    if show {
        show_settings(&settings.shown)?;
        return Ok(ExitCode::SUCCESS);
    }
    for note in &settings.notes {
        tell(&format!("note: {note}"));
    }
    let stop = interrupt::watch()?;
    rayon::ThreadPoolBuilder::new()
        .num_threads(settings.workers)
        .thread_name(|number| format!("scan-{number}"))
        .build_global()
        .context("cannot start worker threads")?;
    let front_end = FrontEnd::new(settings.text.clone())?;
    let recipe = Recipe {
        front_end: &front_end,
        audio: &settings.audio,
        language: settings.language,
    };

    let mut outcomes = Vec::new();
    for (folder, given, cache_home) in folders(&settings)? {
        let outcome = Preparing {
            settings: &settings,
            recipe: &recipe,
            stop,
        }
        .folder(&folder, given, &cache_home)?;
        let interrupted = outcome.interrupted;
        outcomes.push(outcome);
        if interrupted {
            break;
        }
    }
    if settings.json {
        let reports: Vec<_> = outcomes.iter().map(|outcome| &outcome.report).collect();
        say(&serde_json::to_string_pretty(
            &serde_json::json!({ "version": 1, "datasets": reports }),
        )?)?;
    } else {
        for outcome in &outcomes {
            say(&table::render(&outcome.report))?;
        }
    }
    if outcomes.iter().any(|outcome| outcome.interrupted) {
        tell("interrupted: what is done is kept; the same command goes on from here");
        return Ok(ExitCode::from(EXIT_INTERRUPTED));
    }
    for outcome in &outcomes {
        if let Some(complaint) = outcome.too_many_bad(settings.max_bad) {
            return Err(complaint.into());
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The folders to prepare, each with the split that the caller gives it and the home of its cache.
fn folders(settings: &PrepareSettings) -> anyhow::Result<Vec<(PathBuf, Option<Split>, PathBuf)>> {
    let train = match &settings.train_data {
        Some(folder) => folder.clone(),
        None => demo_folder::unpack()?,
    };
    let home = |folder: &Path| {
        settings
            .cache_dir
            .clone()
            .unwrap_or_else(|| folder.join("voxmill-cache"))
    };
    let mut folders = vec![(
        train.clone(),
        settings.val_data.is_some().then_some(Split::Train),
        home(&train),
    )];
    if let Some(val) = &settings.val_data {
        if same_folder(&train, val) {
            let what = format!(
                "--train-data and --val-data are the same folder, `{}`",
                val.display()
            );
            return Err(Complaint::new(
                what,
                "leave --val-data out: a share of the clips is then held out by itself",
            )
            .into());
        }
        let home = match &settings.cache_dir {
            Some(dir) => dir.join("validation"),
            None => home(val),
        };
        folders.push((val.clone(), Some(Split::Validation), home));
    }
    Ok(folders)
}

fn same_folder(a: &Path, b: &Path) -> bool {
    match (a.canonicalize(), b.canonicalize()) {
        (Ok(a), Ok(b)) => a == b,
        _ => false,
    }
}

struct Preparing<'a> {
    settings: &'a PrepareSettings,
    recipe: &'a Recipe<'a>,
    stop: &'a AtomicBool,
}

struct Outcome {
    report: FolderReport,
    quarantine: Quarantine,
    quarantine_file: PathBuf,
    rows: usize,
    interrupted: bool,
}

impl Outcome {
    fn too_many_bad(&self, max_bad: f64) -> Option<Complaint> {
        let bad = self.quarantine.too_many(self.rows, max_bad)?;
        Some(Complaint::new(
            bad.to_string(),
            format!(
                "mend the rows listed in `{}`, or allow more with --max-bad",
                self.quarantine_file.display()
            ),
        ))
    }
}

impl Preparing<'_> {
    fn folder(
        &self,
        folder: &Path,
        given: Option<Split>,
        cache_home: &Path,
    ) -> anyhow::Result<Outcome> {
        let begin = Instant::now();
        let Scan {
            mut manifest,
            has_own_split,
            notes,
        } = feed::scan(folder, given, &self.limits(), self.settings.val_fraction)
            .map_err(manifest_complaint)?;
        for note in notes {
            tell(&format!("note: {note}"));
        }
        if has_own_split && self.settings.val_fraction_origin == Origin::Flag {
            let what = format!(
                "--val-fraction has no effect: `{}` has a split of its own (metadata_eval.csv)",
                folder.display()
            );
            return Err(Complaint::new(what, "leave the flag out").into());
        }
        let rows = manifest.rows();
        let scanned = begin.elapsed();
        let quarantine_file = cache_home.join("quarantine.csv");
        if manifest.too_many_bad(self.settings.max_bad).is_some() || manifest.clips.is_empty() {
            // Nothing is built on a dataset that will be refused; the list tells why.
            write_quarantine(&manifest.quarantine, &quarantine_file)?;
            return Err(refusal(
                &manifest,
                rows,
                self.settings.max_bad,
                folder,
                &quarantine_file,
            ));
        }

        let cache_dir = cache_home.join("features");
        let cache = Cache::open(&cache_dir).map_err(cache_complaint)?;
        if self.settings.verify {
            cache.check_shards();
        }
        for warning in cache.warnings() {
            tell(&format!("warning: {warning}"));
        }
        let staleness =
            feed::find_stale(&manifest.clips, &cache, self.recipe, self.settings.verify);
        let mut work = Work::default();
        if staleness.nothing_to_write() && !self.settings.gc {
            work.cache = Some(cache);
        } else {
            work = self.write(&manifest, &cache, work)?;
        }
        let cache = work
            .cache
            .take()
            .context("the cache was not opened again after writing")?;
        let build_time = begin.elapsed() - scanned;

        let Built {
            known: made,
            bad,
            not_cached,
            audio_kept,
            interrupted,
        } = work.built;
        manifest.quarantine.extend(bad);
        write_quarantine(&manifest.quarantine, &quarantine_file)?;
        let known = all_known(&manifest.clips, &cache, &made, work.stale.keys());
        let mut rebuilt = BTreeMap::new();
        for (clip, _) in &made {
            if let Some(reason) = work.stale.remove(clip) {
                *rebuilt.entry(reason).or_default() += 1;
            }
        }
        let suspicious = suspicious_clips(&manifest, &known);
        let suspicious_file = cache_home.join("suspicious.csv");
        if !suspicious.is_empty() || suspicious_file.exists() {
            write_suspicious(&suspicious_file, &suspicious)
                .context("cannot write the list of suspicious clips")?;
        }
        let report = FolderReport::new(FolderFacts {
            folder,
            demo: self.settings.train_data.is_none()
                && given.is_none_or(|split| split == Split::Train),
            manifest: &manifest,
            rows,
            known: &known,
            suspicious: &suspicious,
            settings: self.settings,
            cache: &cache,
            cache_home,
            rebuilt,
            not_cached,
            audio_kept,
            collected: work.collected,
            timing: Timing {
                scan: scanned,
                build: build_time,
                total: begin.elapsed(),
                built_clips: made.len(),
                built_audio_seconds: made
                    .iter()
                    .map(|&(clip, _)| manifest.clips[clip].header.seconds())
                    .sum(),
            },
        })?;
        Ok(Outcome {
            report,
            quarantine: manifest.quarantine,
            quarantine_file,
            rows,
            interrupted,
        })
    }

    /// Takes the cache's lock, looks again at what is stale (another run may have just made it), and makes it.
    fn write(&self, manifest: &Manifest, before: &Cache, mut work: Work) -> anyhow::Result<Work> {
        let settings = self.settings;
        let cache_dir = before.dir();
        std::fs::create_dir_all(cache_dir).map_err(|error| {
            Complaint::new(
                format!("cannot write the cache folder `{}`", cache_dir.display()),
                "give a folder of your own with --cache-dir",
            )
            .because(error)
        })?;
        let mut told = false;
        let options = WriterOptions {
            budget_bytes: settings.cache_budget,
            ..WriterOptions::default()
        };
        let mut writer = CacheWriter::open_waiting(
            cache_dir,
            self.recipe.feature_settings(),
            options,
            |holder| {
                if !std::mem::replace(&mut told, true) {
                    let who =
                        holder.map_or("another run".to_owned(), |pid| format!("process {pid}"));
                    tell(&format!("waiting for {who}, which is writing this cache"));
                }
                if self.stop.load(Ordering::Relaxed) {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                }
            },
        )
        .map_err(cache_complaint)?;
        if settings.verify {
            writer.cache().check_shards();
        }
        let staleness = feed::find_stale(
            &manifest.clips,
            writer.cache(),
            self.recipe,
            settings.verify,
        );
        self.check_room(manifest, &staleness, writer.cache(), cache_dir)?;
        for stale in &staleness.stale {
            work.stale.insert(stale.clip, stale.reason.to_string());
        }
        let mut progress = ClipProgress::new(staleness.stale.len());
        let building = Building {
            clips: &manifest.clips,
            recipe: self.recipe,
            before,
            workers: settings.workers,
            stop: self.stop,
        };
        let built = building.build(staleness, &mut writer, |clip| {
            progress.clip(clip.header.seconds())
        });
        progress.finish();
        work.built = match built {
            Err(feed::BuildError::Cache(error)) => return Err(cache_complaint(error)),
            built => built?,
        };
        if settings.gc && !work.built.interrupted {
            let ids: HashSet<&str> = manifest.clips.iter().map(|clip| &*clip.id).collect();
            work.collected = Some(writer.gc(|id| ids.contains(id)).map_err(cache_complaint)?);
        }
        drop(writer);
        work.cache = Some(Cache::open(cache_dir).map_err(cache_complaint)?);
        Ok(work)
    }

    /// Before anything is written: a disk that fills up in the middle is a worse way to learn it.
    fn check_room(
        &self,
        manifest: &Manifest,
        staleness: &Staleness,
        cache: &Cache,
        dir: &Path,
    ) -> anyhow::Result<()> {
        let channels = self.settings.audio.n_mels as u64;
        let needed: u64 = staleness
            .stale
            .iter()
            .map(|stale| {
                let clip = &manifest.clips[stale.clip];
                let letters = clip.text.len() as u64;
                clip_bytes(
                    self.settings.audio.frames_for_header(&clip.header) as u64,
                    channels,
                    letters,
                    letters,
                )
            })
            .sum();
        let left_of_budget = match self.settings.cache_budget {
            Some(budget) => budget.saturating_sub(cache.disk_bytes().unwrap_or(0)),
            None => u64::MAX,
        };
        let needed = needed.min(left_of_budget);
        let free = free_space(dir).context("cannot tell how much space is free")?;
        if needed > free {
            let what = format!(
                "the cache needs {} in `{}`, where {} are free",
                table::bytes(needed),
                dir.display(),
                table::bytes(free)
            );
            return Err(Complaint::new(
                what,
                "free some space, move it with --cache-dir, or bound it with --cache-budget",
            )
            .into());
        }
        Ok(())
    }

    fn limits(&self) -> Limits {
        Limits {
            audio: self.settings.audio.clone(),
            max_mel_frames: Some(self.settings.max_mel_frames as usize),
            max_text_length: Some(self.settings.max_text_length as usize),
            min_seconds: MIN_SECONDS,
        }
    }
}

/// What writing brought.
#[derive(Default)]
struct Work {
    cache: Option<Cache>,
    built: Built,
    /// Clip numbers with the reason to make them.
    stale: BTreeMap<usize, String>,
    collected: Option<Collected>,
}

/// What is known of each clip, by clip number: from this run where it was made, else from the cache's index.
fn all_known<'a>(
    clips: &[Clip],
    cache: &Cache,
    made: &[(usize, Known)],
    stale: impl Iterator<Item = &'a usize>,
) -> Vec<Option<Known>> {
    let mut known: Vec<Option<Known>> = clips
        .iter()
        .map(|clip| {
            cache.entry(&clip.id).map(|entry| Known {
                language: entry.language,
                tokens: entry.token_count,
                levels: entry.levels,
            })
        })
        .collect();
    // A stale clip that was not made (bad, or not reached) may still have an old entry: that is not what it is now.
    for &clip in stale {
        known[clip] = None;
    }
    for &(clip, now) in made {
        known[clip] = Some(now);
    }
    known
}

fn suspicious_clips(manifest: &Manifest, known: &[Option<Known>]) -> Vec<Suspicious> {
    let measured: Vec<Measured> = manifest
        .clips
        .iter()
        .zip(known)
        .filter_map(|(clip, known)| {
            let known = (*known)?;
            Some(Measured {
                clip: &clip.id,
                speaker: manifest.speaker(clip),
                phones: known.tokens as usize,
                seconds: clip.header.seconds(),
                levels: known.levels,
            })
        })
        .collect();
    find_suspicious(&measured)
}

/// Written when it says something new, so that a second run leaves the folder as it is.
fn write_quarantine(quarantine: &Quarantine, file: &Path) -> anyhow::Result<()> {
    let same = match Quarantine::read_csv(file) {
        Ok(before) => before.entries() == quarantine.entries(),
        Err(_) => quarantine.is_empty() && !file.exists(),
    };
    if same {
        return Ok(());
    }
    if let Some(home) = file.parent() {
        std::fs::create_dir_all(home).map_err(|error| {
            Complaint::new(
                format!("cannot write into `{}`", home.display()),
                "give a folder of your own with --cache-dir",
            )
            .because(error)
        })?;
    }
    quarantine
        .write_csv(file)
        .context("cannot write the quarantine list")
}

fn refusal(
    manifest: &Manifest,
    rows: usize,
    max_bad: f64,
    folder: &Path,
    file: &Path,
) -> anyhow::Error {
    if let Some(bad) = manifest.quarantine.too_many(rows, max_bad) {
        let hint = format!(
            "mend the rows listed in `{}`, or allow more with --max-bad",
            file.display()
        );
        return Complaint::new(bad.to_string(), hint).into();
    }
    Complaint::new(
        format!(
            "no clip of `{}` is left: {} of {rows} rows are filtered for their length",
            folder.display(),
            manifest.filtered.total()
        ),
        "raise --max-mel-frames or --max-text-length",
    )
    .into()
}

fn manifest_complaint(error: ManifestError) -> anyhow::Error {
    let hint = error.hint();
    with_causes(error, hint)
}

fn cache_complaint(error: CacheError) -> anyhow::Error {
    let hint = error
        .hint()
        .unwrap_or("give a folder of your own with --cache-dir");
    with_causes(error, hint.to_owned())
}

/// The error's own words as the complaint, its causes below it.
fn with_causes(
    error: impl std::error::Error + Send + Sync + 'static,
    hint: String,
) -> anyhow::Error {
    let complaint = Complaint::new(error.to_string(), hint);
    match error.source() {
        Some(_) => complaint.because(anyhow::Error::new(error)).into(),
        None => complaint.into(),
    }
}
