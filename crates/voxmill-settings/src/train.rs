//! The settings of `train`.

use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::time::Duration;

use voxmill_pipeline::plan::Order;

use super::prepare::spread;
use super::resolver::{Repairs, Resolver, SettingNote};
use super::threads;
use super::{
    AvailableDevices, DataSettings, DeviceSettings, Devices, ModelSize, Optimization, Origin,
    ResolvedSetting, steps_between_checkpoints, steps_between_samples,
};
use crate::args::TrainArgs;
use crate::config::file::ConfigFile;
use crate::config::keys::{self, Key, Verbs};
use crate::error::UserError;
use crate::note::Note;
use voxmill_data::featurize::InjectedDelays;
use voxmill_telemetry::probes::cores;

/// The settings of `train`, valid as a whole; `profile`, `analyze` and `validate` resolve the same.
#[derive(Clone, Debug)]
pub struct TrainSettings {
    /// Its `batches.seed` is the seed of everything.
    pub data: DataSettings,
    pub feeding: FeedingSettings,
    pub devices: DeviceSettings,
    /// Threads of the pool that the model computes on.
    pub compute_threads: usize,
    pub model_size: ModelSize,
    pub gradient_checkpointing: bool,
    pub stop_at: StopAt,
    pub optimization: Optimization,
    /// Steps that may be skipped for numbers that are not finite.
    pub max_bad_steps: u64,
    /// Control experiment: texts are shuffled among the clips.
    pub shuffle_texts: bool,
    /// For measuring the floor: all batches are in memory and the workers gone before the first step.
    pub replay: bool,
    pub start: Start,
    pub checkpoints: CheckpointSettings,
    /// `None`: never evaluate the held-out clips.
    pub evaluation: Option<Evaluation>,
    /// Steps between spoken samples; `None`: none.
    pub sample_every: Option<NonZero<u64>>,
    /// Sentences to speak, one a line; `None`: some that are held out.
    pub sample_text: Option<PathBuf>,
    /// Steps between two readings of the loss.
    pub log_every: NonZero<u64>,
    pub run_folder: RunFolder,
    /// `None`: the run's folder.
    pub tensorboard_log_dir: Option<PathBuf>,
    /// `None`: where standard error is a terminal.
    pub dashboard: Option<bool>,
    pub trace: Option<PathBuf>,
    pub json: bool,
    pub notes: Vec<Note>,
    /// Of the notes, those that are about one setting.
    pub setting_notes: Vec<SettingNote>,
    pub resolved: Vec<ResolvedSetting>,
}

/// How batches come to the model.
#[derive(Clone, Debug)]
pub struct FeedingSettings {
    pub workers: usize,
    /// Bytes of all host buffers together.
    pub ram_budget: u64,
    pub order: Order,
    pub overlap: bool,
    pub adapt: bool,
    /// Collated batches that may wait in memory for the device; the adaptive controller begins here.
    pub buffered_batches: usize,
    /// Batches ahead on the device.
    pub device_slots: usize,
    /// Threads that prepare batches where the CPU is the data device.
    pub lane_threads: usize,
    /// The longest that step 1 waits for full device slots.
    pub start_delay: Duration,
    /// Whether features are kept in the cache and taken from it.
    pub caching: bool,
    /// Only in a profile that is to find them.
    pub delays: Option<InjectedDelays>,
    /// Workers and compute threads that this machine gets by default.
    pub usual_threads: (usize, usize),
}

/// Where a run ends: at what is reached first. At least one of them is there.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StopAt {
    pub steps: Option<u64>,
    pub minutes: Option<f64>,
    pub epochs: Option<u64>,
}

/// What the first step builds on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Start {
    New {
        /// A run or checkpoint whose weights are the first ones.
        init_from: Option<PathBuf>,
        /// Checkpoints that lie in the folder already may be replaced.
        reset: bool,
    },
    Resume {
        /// A run or checkpoint; `None`: the newest run.
        from: Option<PathBuf>,
    },
}

impl Start {
    /// The voice that a run fine-tunes; of a resumed one its settings say it.
    pub fn init_from(&self) -> Option<&Path> {
        match self {
            Start::New { init_from, .. } => init_from.as_deref(),
            Start::Resume { .. } => None,
        }
    }
}

/// Where and how often a run saves, and what it keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckpointSettings {
    /// `None`: `checkpoints` in the run's folder.
    pub dir: Option<PathBuf>,
    /// Steps from one to the next.
    pub every: NonZero<u64>,
    /// How many of the last to keep, in addition to the best.
    pub keep: NonZero<usize>,
    /// Failures in a row to write one that end the run.
    pub max_failed: NonZero<u32>,
}

/// How often the held-out clips are looked at, and when that ends the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Evaluation {
    /// Steps from one to the next.
    pub every: NonZero<u64>,
    /// Evaluations without a better one after which the run stops.
    pub patience: Option<u32>,
}

/// Where a new run is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunFolder {
    /// `None`: `<time>-<name>` in `runs_dir`.
    pub dir: Option<PathBuf>,
    pub runs_dir: PathBuf,
    pub name: String,
}

/// How long the voice of the built-in corpus is trained: with what comes before and after, it
/// stays below ten minutes.
const DEMO_MINUTES: f64 = 9.0;

impl TrainSettings {
    /// Refuses what contradicts itself or cannot be had on this machine.
    pub fn resolve(args: TrainArgs) -> anyhow::Result<TrainSettings> {
        Self::resolve_on(args, cores(), &AvailableDevices::detect())
    }

    /// Without opening the devices: nothing is known of their memory then.
    pub fn resolve_closed(args: TrainArgs) -> anyhow::Result<TrainSettings> {
        Self::resolve_on(args, cores(), &AvailableDevices::detect_closed())
    }

    /// Threads for what goes through all clips before the first step.
    pub fn scan_threads(&self) -> usize {
        threads::scanning(cores(), self.feeding.workers, self.compute_threads)
    }

    /// On a machine with this many cores and these devices.
    pub(crate) fn resolve_on(
        args: TrainArgs,
        cores: usize,
        available: &AvailableDevices,
    ) -> anyhow::Result<TrainSettings> {
        let resolver = Resolver::new(args.flags.clone(), Verbs::TRAIN)?;
        Self::resolve_by(args, resolver, cores, available)
    }

    /// With a file that was read already, and some settings otherwise than they were given.
    pub fn resolve_repaired(
        args: TrainArgs,
        file: ConfigFile,
        repairs: Repairs,
        cores: usize,
        available: &AvailableDevices,
    ) -> anyhow::Result<TrainSettings> {
        let resolver = Resolver::repaired(args.flags.clone(), file, repairs);
        Self::resolve_by(args, resolver, cores, available)
    }

    fn resolve_by(
        args: TrainArgs,
        mut resolver: Resolver,
        cores: usize,
        available: &AvailableDevices,
    ) -> anyhow::Result<TrainSettings> {
        let r = &mut resolver;
        let of_other_voice = r.given::<PathBuf>(&keys::INIT_FROM).is_some();
        let data = DataSettings::resolve(r, of_other_voice || args.resume().is_some())?;
        let devices = DeviceSettings::resolve(r, available)?;
        let (feeding, compute_threads) = feeding(r, &data, cores, devices.devices)?;
        let model_size = r.pick(&keys::SIZE);
        let gradient_checkpointing = r.pick(&keys::ENABLE_GRADIENT_CHECKPOINTING);
        let stop_at = stop_at(r, data.train_data.is_none(), model_size);
        let optimization = Optimization::resolve(r, model_size, stop_at.steps, of_other_voice)?;
        let max_bad_steps = r.pick(&keys::MAX_BAD_STEPS);
        let shuffle_texts = r.on(&keys::SHUFFLE_TEXTS);
        let replay = r.on(&keys::REPLAY);
        if replay && stop_at.steps.is_none() {
            let what = "--replay takes all batches of the run into memory: it must know how many";
            let hint = "give --max-steps";
            return Err(UserError::new(what, hint).into());
        }
        let (start, checkpoints) = checkpoints(r, args.resume(), model_size)?;
        let evaluation = evaluation(r, model_size)?;
        let usual = steps_between_samples(model_size);
        let sample_every = r.auto(&keys::SAMPLE_EVERY, usual, BY_SIZE);
        let sample_text = r.optional(&keys::SAMPLE_TEXT);
        let log_every = r.pick(&keys::LOG_EVERY);
        let resumes = matches!(start, Start::Resume { .. });
        let run_folder = run_folder(r, &data, model_size, resumes)?;
        let tensorboard_log_dir = r.optional(&keys::TENSORBOARD_LOG_DIR);
        r.refuse_contradiction(&keys::DASHBOARD)?;
        let dashboard = r.optional(&keys::DASHBOARD);
        Ok(TrainSettings {
            data,
            feeding,
            devices,
            compute_threads,
            model_size,
            gradient_checkpointing,
            stop_at,
            optimization,
            max_bad_steps,
            shuffle_texts,
            replay,
            start,
            checkpoints,
            evaluation,
            sample_every: NonZero::new(sample_every),
            sample_text,
            log_every,
            run_folder,
            tensorboard_log_dir,
            dashboard,
            trace: args.trace,
            json: args.json,
            notes: resolver.notes(),
            setting_notes: resolver.setting_notes,
            resolved: resolver.resolved,
        })
    }
}

const BY_SIZE: &str = "by size";

/// Ahead of the one in training. With fewer, steps of uneven length make one device wait for the other.
pub(crate) const LEAST_SLOTS_OF_A_PAIR: usize = 3;

fn feeding(
    r: &mut Resolver,
    data: &DataSettings,
    cores: usize,
    devices: Devices,
) -> anyhow::Result<(FeedingSettings, usize)> {
    let caching: bool = r.pick(&keys::ENABLE_CACHING);
    let typed = [&keys::CACHE_DIR, &keys::CACHE_BUDGET];
    if let Some(key) = typed.into_iter().find(|key| !caching && r.is_typed(key)) {
        let what = format!("{} has no effect without a cache", r.label(key));
        return Err(UserError::new(what, "leave it out, or keep the cache")
            .fix(key, None)
            .into());
    }
    if !r.pick::<bool>(&keys::ENABLE_STATIC_SHAPES) {
        let what =
            "static shapes cannot be turned off: every batch is padded to one of a few shapes";
        let hint = "leave them on; to pad less, allow more shapes with --buckets (up to 64)";
        return Err(UserError::new(what, hint)
            .fix(&keys::ENABLE_STATIC_SHAPES, Some("true"))
            .into());
    }
    let workload = match devices {
        Devices::Single(device) if device.is_cpu() => threads::Workload::Model,
        devices if devices.are_lanes() => threads::Workload::TwoLanes,
        devices if devices.model().is_cpu() => threads::Workload::Model,
        _ => threads::Workload::Workers,
    };
    let given = |key| r.given(key).map(|(threads, _)| threads);
    let (workers, compute) = (given(&keys::NUM_WORKERS), given(&keys::COMPUTE_THREADS));
    let divided = threads::divide(cores, workload, workers, compute);
    let spread = spread(r, divided.workers, divided.workers_why);
    let compute = divided.compute;
    let compute_threads = r.auto(&keys::COMPUTE_THREADS, compute, divided.compute_why);
    let usual = threads::divide(cores, workload, None, None);
    let buffered_batches = r.pick(&keys::BUFFER_SIZE);
    let (slots, why) = usual_slots(data.batches.batch_size, devices.is_pair());
    let mut device_slots = r.auto(&keys::PREFETCH_BUFFER_SIZE, slots, why);
    if devices.is_pair() && device_slots < LEAST_SLOTS_OF_A_PAIR {
        let note = format!(
            "{} {device_slots} is too few for two devices: {LEAST_SLOTS_OF_A_PAIR} are used, ahead of the one in training",
            r.label(&keys::PREFETCH_BUFFER_SIZE)
        );
        r.add_note(&keys::PREFETCH_BUFFER_SIZE, Note::warning(note));
        device_slots = LEAST_SLOTS_OF_A_PAIR;
    }
    let start_delay = r.pick(&keys::MODEL_START_DELAY);
    let feeding = FeedingSettings {
        workers: spread.workers,
        ram_budget: spread.ram_budget,
        order: spread.order,
        overlap: spread.overlap,
        adapt: spread.adapt,
        buffered_batches,
        device_slots,
        lane_threads: cores.saturating_sub(compute_threads).max(1),
        start_delay: Duration::from_secs_f64(start_delay),
        caching,
        delays: None,
        usual_threads: (usual.workers, usual.compute),
    };
    Ok((feeding, compute_threads))
}

/// Batches on the device ahead of the one in training, by default, and the rule.
pub(crate) fn usual_slots(batch_size: NonZero<u32>, is_pair: bool) -> (usize, &'static str) {
    let (least, why) = match is_pair {
        true => (LEAST_SLOTS_OF_A_PAIR, "64 / batch_size, from 3 to 8"),
        false => (2, "64 / batch_size, from 2 to 8"),
    };
    ((64 / batch_size.get() as usize).clamp(least, 8), why)
}

fn stop_at(r: &mut Resolver, demo: bool, size: ModelSize) -> StopAt {
    let epochs = r.optional(&keys::EPOCHS);
    let mut steps = r.given(&keys::MAX_STEPS);
    let mut minutes = r.given(&keys::MAX_MINUTES);
    if epochs.is_none() && steps.is_none() && minutes.is_none() {
        if demo {
            minutes = Some((DEMO_MINUTES, Origin::Auto("the built-in corpus")));
        } else {
            steps = Some((size.usual_steps(), Origin::Auto(BY_SIZE)));
        }
    }
    StopAt {
        steps: r.record_optional(&keys::MAX_STEPS, steps, "no limit"),
        minutes: r.record_optional(&keys::MAX_MINUTES, minutes, "no limit"),
        epochs,
    }
}

/// `resume`: the run of `--resume`; without one, the newest.
fn checkpoints(
    r: &mut Resolver,
    resume: Option<Option<PathBuf>>,
    size: ModelSize,
) -> anyhow::Result<(Start, CheckpointSettings)> {
    let init_from = r.optional(&keys::INIT_FROM);
    let reset = r.given(&keys::RESET_TRAINING);
    let reset = reset.is_some_and(|(reset, _)| reset);
    let start = match resume {
        None => Start::New { init_from, reset },
        Some(from) => {
            // `init_from` in a file says how the run began; that is no contradiction.
            let clash = if reset {
                Some("--reset-training")
            } else {
                r.is_typed(&keys::INIT_FROM).then_some("--init-from")
            };
            if let Some(other) = clash {
                let what = format!("--resume continues a run, and {other} begins a new one");
                let hint = "leave one of the two out";
                return Err(UserError::new(what, hint).into());
            }
            let shown = from.clone().unwrap_or_else(|| "the newest run".into());
            r.record(&keys::RESUME, (shown, Origin::Flag));
            Start::Resume { from }
        }
    };
    r.on(&keys::RESET_TRAINING);
    let dir = r.optional(&keys::CHECKPOINT_DIR);
    let every = r.auto(&keys::CHECKPOINT_EVERY, often(size), BY_SIZE);
    let keep = r.pick(&keys::KEEP);
    let max_failed = r.pick(&keys::MAX_FAILED_CHECKPOINTS);
    let checkpoints = CheckpointSettings {
        dir,
        every,
        keep,
        max_failed,
    };
    Ok((start, checkpoints))
}

fn often(size: ModelSize) -> NonZero<u64> {
    NonZero::new(steps_between_checkpoints(size)).unwrap_or(NonZero::<u64>::MIN)
}

fn evaluation(r: &mut Resolver, size: ModelSize) -> anyhow::Result<Option<Evaluation>> {
    r.refuse_contradiction(&keys::ENABLE_EVALUATION)?;
    let enabled = r.pick(&keys::ENABLE_EVALUATION);
    let every = r.auto(&keys::EVALUATION_INTERVAL, often(size), BY_SIZE);
    let patience: Option<u32> = r.optional(&keys::EARLY_STOPPING_PATIENCE);
    if enabled {
        return Ok(Some(Evaluation { every, patience }));
    }
    // A flag beats the file, also where the file goes into more detail.
    let by_file = patience.is_some() && !r.is_typed(&keys::ENABLE_EVALUATION);
    let patience = &keys::EARLY_STOPPING_PATIENCE;
    let mut without_effect = [patience, &keys::EVALUATION_INTERVAL].into_iter();
    match without_effect.find(|&key| r.is_typed(key) || (by_file && key == patience)) {
        Some(key) => Err(UserError::new(
            format!("{} has no effect without evaluation", r.label(key)),
            "leave it out, or evaluate",
        )
        .fix(key, None)
        .into()),
        None => Ok(None),
    }
}

fn run_folder(
    r: &mut Resolver,
    data: &DataSettings,
    size: ModelSize,
    resumes: bool,
) -> anyhow::Result<RunFolder> {
    let dir: Option<PathBuf> = r.optional(&keys::RUN_DIR);
    let runs_dir = r.pick(&keys::RUNS_DIR);
    let dataset = dataset_name(data.train_data.as_deref());
    let usual = format!("{dataset}-{}", size.name());
    let name = r.auto(&keys::NAME, usual, "the dataset's name and the size");
    let typed = |keys: [&'static Key; 2]| keys.into_iter().find(|key| r.is_typed(key));
    if let Some(key) = typed([&keys::RUNS_DIR, &keys::NAME]).filter(|_| dir.is_some()) {
        let key = r.label(key);
        let what = format!("--run-dir says which folder the run has, and {key} too");
        return Err(UserError::new(what, "leave one of the two out").into());
    }
    if let Some(key) = typed([&keys::RUN_DIR, &keys::NAME]).filter(|_| resumes) {
        let key = r.label(key);
        let what = format!("--resume continues in the run's own folder: {key} has no effect");
        let hint = "leave it out; --resume itself takes the folder of a run";
        return Err(UserError::new(what, hint).into());
    }
    Ok(RunFolder {
        dir,
        runs_dir,
        name,
    })
}

/// The last part of the dataset's path, as a part of a folder's name.
fn dataset_name(folder: Option<&Path>) -> String {
    let Some(folder) = folder else {
        return "demo".into();
    };
    let whole = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    let last = whole.file_name().map(|name| name.to_string_lossy());
    let name: String = last
        .unwrap_or_default()
        .chars()
        .map(|c| if c.is_alphanumeric() { c } else { '-' })
        .take(40)
        .collect();
    let name = name.trim_matches('-');
    if name.is_empty() { "voice" } else { name }.into()
}
