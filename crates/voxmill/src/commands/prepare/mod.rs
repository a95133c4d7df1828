//! `voxmill prepare`: check a dataset, compute what is missing of its features, say what is there.

mod lists;

use std::collections::{BTreeMap, HashSet};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use voxmill_data::cache::{
    Cache, CacheError, CacheWriter, Collected, Warning, WriterOptions, clip_bytes, free_space,
};
use voxmill_data::manifest::Manifest;
use voxmill_report::results::prepare::{self as result, PreparedDataset};
use voxmill_report::terminal::prepared_text;
use voxmill_telemetry::event::Outcome;
use voxmill_telemetry::recorder::Recorder;

use super::{paint, print_json, print_output, should_run, status, warning};
use crate::exit::Exit;
use crate::interrupt;
use crate::progress::ClipProgress;
use crate::session::dataset::{folders, scan};
use crate::session::recording::Recording;
use voxmill_data::DatasetFolder;
use voxmill_data::Recipe;
use voxmill_data::build::{BuildError, Building, Built, Fingerprints, Staleness};
use voxmill_settings::args::PrepareArgs;
use voxmill_settings::error::UserError;
use voxmill_settings::error::of_library::{OWN_FOLDER, front_end, of_cache};
use voxmill_settings::results::prepare::{FolderFacts, Timing, counts_by};
use voxmill_settings::{PrepareSettings, no_room_for_cache};

pub(crate) fn run(args: PrepareArgs) -> anyhow::Result<Exit> {
    let show = args.flags.show_settings;
    let settings = PrepareSettings::resolve(args)?;
    if !should_run(&settings.notes, &settings.resolved, show, settings.json)? {
        return Ok(Exit::Done);
    }
    let stop = interrupt::watch()?;
    rayon::ThreadPoolBuilder::new()
        .num_threads(settings.workers)
        .thread_name(|number| format!("scan-{number}"))
        .build_global()
        .context("cannot start worker threads")?;
    let recipe = Recipe {
        front_end: Arc::new(front_end(settings.data.text.clone())?),
        audio: Arc::new(settings.data.audio.clone()),
        language: settings.data.language,
    };

    let recording = Recording::start(
        "prepare",
        &settings.spread.plan(),
        BTreeMap::new(),
        Vec::new(),
        Vec::new(),
        settings.log.as_deref(),
        settings.trace.as_deref(),
    )?;
    let outcome = prepare(&settings, &recipe, &recording.recorder(), stop);
    recording.finish(match &outcome {
        Ok(code) if *code == Exit::Done => Outcome::Finished,
        Ok(_) => Outcome::Interrupted,
        Err(_) => Outcome::Failed,
    });
    outcome
}

/// All folders, and what came of them.
fn prepare(
    settings: &PrepareSettings,
    recipe: &Recipe,
    recorder: &Recorder,
    stop: &AtomicBool,
) -> anyhow::Result<Exit> {
    let mut prepared: Vec<PreparedSet> = Vec::new();
    let (mut failure, mut interrupted) = (None, false);
    for folder in folders(&settings.data)? {
        let spent = prepared.iter().map(|folder| folder.report.cache.bytes);
        let spent: u64 = spent.sum();
        let budget = settings.data.cache_budget;
        let preparing = PrepareRun {
            settings,
            recipe,
            folder: &folder,
            budget: budget.map(|budget| budget.saturating_sub(spent)),
            recorder,
            stop,
        };
        match preparing.run() {
            Ok(folder) => prepared.push(folder),
            Err(error) => failure = Some(error),
        }
        interrupted = prepared.iter().any(|folder| folder.interrupted);
        if failure.is_some() || interrupted {
            break;
        }
    }
    if settings.json && !prepared.is_empty() {
        let datasets = prepared.iter().map(|folder| folder.report.clone());
        print_json(&result::PrepareResult {
            version: result::VERSION,
            datasets: datasets.collect(),
        })?;
    } else {
        for folder in &prepared {
            print_output(&prepared_text(&folder.report, paint()))?;
        }
    }
    if let Some(error) = failure {
        return Err(error);
    }
    if interrupted {
        status!("interrupted: what is done is kept; the same command continues from here");
        return Ok(Exit::Interrupted);
    }
    match prepared.into_iter().find_map(|folder| folder.refusal) {
        Some(refusal) => Err(refusal.into()),
        None => Ok(Exit::Done),
    }
}

struct PrepareRun<'a> {
    settings: &'a PrepareSettings,
    recipe: &'a Recipe,
    folder: &'a DatasetFolder,
    /// Bytes that this folder's cache may have.
    budget: Option<u64>,
    recorder: &'a Recorder,
    stop: &'a AtomicBool,
}

struct PreparedSet {
    report: PreparedDataset,
    /// Why nothing should be trained on it.
    refusal: Option<UserError>,
    interrupted: bool,
}

/// What writing brought.
#[derive(Default)]
struct WrittenWork {
    built: Built,
    /// Clip numbers with the reason to make them.
    stale: BTreeMap<usize, String>,
    collected: Option<Collected>,
    /// What was damaged, and no longer is.
    repaired: Vec<Warning>,
    /// Making and writing alone, without the wait for the lock.
    time: Duration,
    interrupted: bool,
}

impl WrittenWork {
    fn interrupted() -> WrittenWork {
        WrittenWork {
            interrupted: true,
            ..WrittenWork::default()
        }
    }
}

fn print_warnings(warnings: &[Warning]) {
    for warning in warnings {
        warning!("{warning}");
    }
}

impl PrepareRun<'_> {
    fn run(&self) -> anyhow::Result<PreparedSet> {
        let begin = Instant::now();
        let mut manifest = scan(self.folder, &self.settings.data)?;
        let scan_time = begin.elapsed();
        let rows = manifest.rows();
        let quarantine_file = self.folder.quarantine_list();
        let refusal = |manifest: &Manifest, usable: usize| {
            self.settings.refusal(manifest, rows, usable, self.folder)
        };
        if let Some(refusal) = refusal(&manifest, manifest.clips.len()) {
            // Nothing is built on a dataset that will be refused; the list says why.
            lists::write_quarantine(&manifest.quarantine, &quarantine_file)?;
            return Err(refusal.into());
        }

        let cache = Cache::open(&self.folder.cache_dir()).map_err(of_cache)?;
        let mut work = match self.prints(&manifest, &cache) {
            None => WrittenWork::interrupted(),
            Some(prints) => {
                let staleness = Staleness::find(&manifest.clips, &prints, &cache, self.recipe);
                let damage = cache.warnings();
                let all_there = staleness.nothing_to_write() && !self.settings.gc;
                if all_there && damage.is_empty() {
                    WrittenWork::default()
                } else {
                    match self.write(&manifest, &prints, &cache) {
                        // What is damaged is not needed here; a folder that cannot be written is still good.
                        Err(error) if all_there => {
                            print_warnings(&damage);
                            warning!("the cache is not repaired: {error:#}");
                            WrittenWork::default()
                        }
                        written => written?,
                    }
                }
            }
        };
        let cache = Cache::open(&self.folder.cache_dir()).map_err(of_cache)?;

        let built = &work.built.known;
        let mut known = lists::all_known(&manifest.clips, &cache, built, work.stale.keys());
        let usable = known.iter().flatten().count();
        let reasons = built.iter().filter_map(|(clip, _)| work.stale.remove(clip));
        let rebuilt = counts_by(reasons);
        let bad = std::mem::take(&mut work.built.bad);
        manifest.quarantine.extend(bad);
        lists::write_quarantine(&manifest.quarantine, &quarantine_file)?;
        let list = self.folder.quality_list();
        lists::measure(&manifest.clips, &mut known, &cache, self.recipe, &list);
        let (list, min_snr) = (self.folder.suspicious_list(), self.settings.data.min_snr);
        let suspicious = lists::write_suspicious(&manifest, &known, self.recipe, min_snr, &list)?;
        let built = work.built.known.iter();
        let built_audio = built.map(|&(clip, _)| manifest.clips[clip].header.seconds());
        let interrupted = work.interrupted || work.built.interrupted;
        let limit = self.settings.data.max_mel_frames;
        let list = self.folder.filtered_list();
        let filtered_clips = lists::write_filtered(&manifest, &known, limit, &list)?;
        let report = FolderFacts {
            filtered_clips: &filtered_clips,
            folder: self.folder,
            manifest: &manifest,
            rows,
            known: &known,
            suspicious: &suspicious,
            suspicious_ids: suspicious.iter().map(|one| &*one.clip).collect(),
            settings: self.settings,
            cache: &cache,
            budget: self.budget,
            rebuilt,
            not_cached: work.built.not_cached,
            audio_kept: work.built.audio_kept,
            collected: work.collected,
            repaired: &work.repaired,
            timing: Timing {
                scan: scan_time,
                build: work.time,
                total: begin.elapsed(),
                built_clips: work.built.known.len(),
                built_audio_seconds: built_audio.sum(),
            },
        }
        .result()?;
        let refusal = refusal(&manifest, usable).filter(|_| !interrupted);
        Ok(PreparedSet {
            report,
            refusal,
            interrupted,
        })
    }

    /// What each clip is made from now; with `--verify`, from what is in the files.
    fn prints(&self, manifest: &Manifest, cache: &Cache) -> Option<Fingerprints> {
        let verify = self.settings.verify;
        if verify {
            status!("comparing the contents of all files");
            cache.check_shards();
        } else {
            cache.check_some();
        }
        let mut progress = ClipProgress::new(manifest.clips.len());
        let prints = Fingerprints::take(&manifest.clips, self.recipe, verify, self.stop, |clip| {
            progress.clip(clip.header.seconds())
        });
        progress.finish();
        prints
    }

    /// Takes the cache's lock, looks at what is stale now (another run may have just made it), and makes it. What
    /// was `found` damaged is cleared away.
    fn write(
        &self,
        manifest: &Manifest,
        prints: &Fingerprints,
        found: &Cache,
    ) -> anyhow::Result<WrittenWork> {
        let settings = self.settings;
        let dir = self.folder.cache_dir();
        std::fs::create_dir_all(&dir).map_err(|error| {
            let what = format!("cannot make the cache folder `{}`", dir.display());
            let hint = OWN_FOLDER;
            UserError::new(what, hint).because(error)
        })?;
        let mut writer = match self.lock(&dir) {
            Err(CacheError::Locked { .. }) if self.stop.load(Ordering::Relaxed) => {
                return Ok(WrittenWork::interrupted());
            }
            writer => writer.map_err(of_cache)?,
        };
        // Opened under the lock: frames taken over from it are those that the comparison below saw.
        let before = Cache::open(&dir).map_err(of_cache)?;
        writer.learn_damage(found);
        if settings.verify || settings.gc {
            // Collecting copies rows: a damaged shard must be known before, so that its clips are remade.
            writer.cache().check_shards();
        }
        let repaired = writer.cache().warnings();
        print_warnings(&repaired);
        let staleness = Staleness::find(&manifest.clips, prints, writer.cache(), self.recipe);
        self.check_room(manifest, &staleness, writer.cache(), &dir)?;
        let stale = staleness.stale.iter();
        let stale = stale.map(|stale| (stale.clip, stale.reason.to_string()));
        let stale = stale.collect();
        let begin = Instant::now();
        let mut progress = ClipProgress::new(staleness.stale.len());
        let building = Building {
            clips: &manifest.clips,
            recipe: self.recipe,
            before,
            spread: &settings.spread,
            recorder: self.recorder.clone(),
            stop: self.stop,
            within_budget: self.budget.is_some(),
        };
        let built = building.build(staleness, &mut writer, |clip| {
            progress.clip(clip.header.seconds())
        });
        progress.finish();
        let built = match built {
            Err(BuildError::Cache(error)) => return Err(of_cache(error)),
            built => built?,
        };
        let time = begin.elapsed();
        let mut collected = None;
        if settings.gc && !built.interrupted {
            let ids: HashSet<&str> = manifest.clips.iter().map(|clip| &*clip.id).collect();
            collected = Some(writer.gc(|id| ids.contains(id)).map_err(of_cache)?);
        }
        Ok(WrittenWork {
            built,
            stale,
            collected,
            repaired,
            time,
            interrupted: false,
        })
    }

    fn lock(&self, dir: &Path) -> Result<CacheWriter, CacheError> {
        let options = WriterOptions {
            budget_bytes: self.budget,
            ..WriterOptions::default()
        };
        let mut reported = false;
        CacheWriter::open_waiting(dir, self.recipe.feature_settings(), options, |holder| {
            if !std::mem::replace(&mut reported, true) {
                let who = holder.map_or("another run".to_owned(), |pid| format!("process {pid}"));
                status!("waiting for {who}, which is writing this cache");
            }
            match self.stop.load(Ordering::Relaxed) {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        })
    }

    /// Before anything is written: a disk that fills up in the middle is a worse way to learn it.
    fn check_room(
        &self,
        manifest: &Manifest,
        staleness: &Staleness,
        cache: &Cache,
        dir: &Path,
    ) -> anyhow::Result<()> {
        let audio = &self.settings.data.audio;
        let bytes = staleness.stale.iter().map(|stale| {
            let clip = &manifest.clips[stale.clip];
            let letters = clip.text.len() as u64;
            let frames = audio.frames_for_header(&clip.header) as u64;
            clip_bytes(frames, audio.n_mels as u64, letters, letters)
        });
        let mut needed: u64 = bytes.sum();
        if let Some(budget) = self.budget {
            let left = budget.saturating_sub(cache.disk_bytes().unwrap_or(0));
            needed = needed.min(left);
        }
        let free = free_space(dir).context("cannot find out how much space is free")?;
        match needed > free {
            true => Err(no_room_for_cache(needed, free, dir).into()),
            false => Ok(()),
        }
    }
}
