//! What limits a run, by which evidence, and what to change.
//!
//! The thresholds that users know are [`thresholds`]. Which *cause* lies behind a wait is decided in
//! [`why_late`], from the stage that was late back to what held it up.

use serde::{Deserialize, Serialize};

use crate::profile::{Profile, StageTime, part_of_featurize};
use crate::run::{Run, fact};
use crate::timing::Line;

pub mod thresholds {
    /// Shares of the model thread's time.
    pub const LOAD: f64 = 0.20;
    pub const TRANSFER: f64 = 0.15;
    pub const TRAIN: f64 = 0.50;
    pub const MODEL_BUSY: f64 = 0.70;
    pub const DATA_BUSY: f64 = 0.80;
    pub const VARIATION: f64 = 0.30;
    /// From here on waiting is worth a line.
    pub const STALL: f64 = 0.05;
    pub const GAP: f64 = 0.15;
    pub const INTERFERENCE: f64 = 0.10;
    pub const PADDING: f64 = 0.25;
    /// Of the machine's cores, taken by others.
    pub const RIVALS: f64 = 0.25;
    /// Of the workers' time, spent waiting for bytes of the budget.
    pub const BYTES: f64 = 0.25;
    /// One item beside the usual ones.
    pub const HUGE: f64 = 8.0;
    /// Of a device's memory.
    pub const MEMORY_HARDLY_USED: f64 = 0.30;
    /// Of the memory, from the second quarter of a long run to its last.
    pub const MEMORY_GROWTH: f64 = 0.10;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    SlowDisk,
    FewWorkers,
    SlowWorkers,
    SmallBuffer,
    SlowResampling,
    HugeClip,
    SlowCollating,
    SlowTransfer,
    MemoryBudget,
    ColdCache,
    ModelTooSmall,
    Oversubscribed,
    Interference,
    Padding,
    NoOverlap,
    Variation,
    Gaps,
    DataDeviceFull,
    BatchTooSmall,
    SwapInUse,
    MemoryGrowing,
    CpuPinned,
    StepBound,
}

impl Cause {
    /// In one word, what a run with this cause is bound by.
    pub fn bound_by(self) -> &'static str {
        match self {
            Cause::SlowDisk => "fetch-bound",
            Cause::FewWorkers
            | Cause::SlowWorkers
            | Cause::SlowResampling
            | Cause::HugeClip
            | Cause::ColdCache
            | Cause::ModelTooSmall
            | Cause::Oversubscribed
            | Cause::CpuPinned => "CPU-bound",
            Cause::SlowCollating => "collate-bound",
            Cause::SlowTransfer | Cause::DataDeviceFull => "transfer-bound",
            Cause::MemoryBudget | Cause::SwapInUse | Cause::MemoryGrowing => "memory-bound",
            Cause::SmallBuffer | Cause::Variation => "jitter",
            Cause::Interference => "interference",
            Cause::NoOverlap | Cause::Gaps => "gaps",
            Cause::Padding | Cause::BatchTooSmall | Cause::StepBound => "step-bound",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    Bottleneck,
    Warning,
    Note,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    pub cause: Cause,
    pub bound_by: String,
    pub level: Level,
    /// The share of the time that it costs; what a change can gain at the most.
    pub costs: f64,
    pub what: String,
    pub evidence: Vec<Evidence>,
    pub changes: Vec<Change>,
}

/// A measure and what it is held against.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Evidence {
    pub measure: String,
    pub value: f64,
    pub threshold: f64,
}

/// What to do about it: words, and where there is one, the flag and the line of the file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Change {
    pub what: String,
    pub flag: Option<String>,
    pub config: Option<String>,
}

impl Change {
    fn words(what: impl Into<String>) -> Change {
        Change {
            what: what.into(),
            flag: None,
            config: None,
        }
    }

    /// A setting that is `--some-name` on the command line and `some_name` in the file.
    fn set(name: &str, value: impl ToString, what: impl Into<String>) -> Change {
        let value = value.to_string();
        let key = name.replace('-', "_");
        Change {
            what: what.into(),
            flag: Some(format!("--{name} {value}")),
            config: Some(format!("data: {{ {key}: {value} }}")),
        }
    }
}

fn evidence(measure: impl Into<String>, value: f64, threshold: f64) -> Evidence {
    Evidence {
        measure: measure.into(),
        value,
        threshold,
    }
}

/// What there is to say, the most expensive first. Where nothing limits but the model, that is said.
pub fn find(profile: &Profile, run: &Run) -> Vec<Finding> {
    if profile.steps == 0 {
        return Vec::new();
    }
    let sight = Sight::new(profile, run);
    let mut findings: Vec<Finding> = [
        sight.waiting(),
        sight.rivals(),
        sight.interference(),
        sight.padding(),
        sight.gaps(),
        sight.variation(),
        sight.data_device(),
        sight.memory_hardly_used(),
        sight.swap(),
        sight.growth(),
        sight.pinned(),
    ]
    .into_iter()
    .flatten()
    .collect();
    findings.sort_by(|a, b| a.level.cmp(&b.level).then(b.costs.total_cmp(&a.costs)));
    if findings.iter().all(|finding| finding.level == Level::Note) {
        findings.insert(0, sight.step_bound());
    }
    findings
}

struct Sight<'a> {
    profile: &'a Profile,
    run: &'a Run,
    line: Line,
    cores: f64,
}

impl<'a> Sight<'a> {
    fn new(profile: &'a Profile, run: &'a Run) -> Sight<'a> {
        Sight {
            profile,
            run,
            line: Line::of(&run.steps),
            cores: run.number(fact::CORES).unwrap_or(1.0).max(1.0),
        }
    }

    fn stage(&self, name: &str) -> Option<&StageTime> {
        self.profile.stages.iter().find(|stage| stage.name == name)
    }

    fn finding(
        &self,
        cause: Cause,
        level: Level,
        costs: f64,
        what: String,
        evidence: Vec<Evidence>,
        changes: Vec<Change>,
    ) -> Option<Finding> {
        Some(Finding {
            bound_by: cause.bound_by().to_owned(),
            cause,
            level,
            costs,
            what,
            evidence,
            changes,
        })
    }

    /// The model waited for batches.
    fn waiting(&self) -> Option<Finding> {
        let stall = self.line.stall();
        let (stage, _) = self.line.latest_stage()?;
        if stall < thresholds::STALL {
            return None;
        }
        let transfer = stage == "prepare";
        let most = match transfer {
            true => thresholds::TRANSFER,
            false => thresholds::LOAD,
        };
        let level = match stall > most || self.line.busy() < thresholds::TRAIN {
            true => Level::Bottleneck,
            false => Level::Warning,
        };
        let (cause, mut shown, changes) = self.why_late(stage);
        shown.insert(
            0,
            evidence("share of the time that the model waited", stall, most),
        );
        let what = format!(
            "the model waited {:.1} % of the time, for `{stage}`: {}",
            100.0 * stall,
            in_words(cause)
        );
        self.finding(cause, level, stall, what, shown, changes)
    }

    /// From the late stage back to what held it up.
    fn why_late(&self, stage: &str) -> (Cause, Vec<Evidence>, Vec<Change>) {
        if self.run.fact(fact::OVERLAP) == Some("off") {
            let change = Change::words("leave --no-overlap out");
            return (Cause::NoOverlap, Vec::new(), vec![change]);
        }
        if stage == "prepare" {
            return self.slow_transfer();
        }
        if stage == "collate" || stage == "batch" {
            return self.slow_collating();
        }
        let Some(featurize) = self.stage("featurize") else {
            return (Cause::SlowWorkers, Vec::new(), Vec::new());
        };
        let worker_seconds = featurize.workers as f64 * self.line.seconds.max(1e-9);
        let share_of_wait = |name: &str| {
            let each = featurize.waits_ms.get(name).copied().unwrap_or(0.0);
            each / 1e3 * featurize.ms.count as f64 / worker_seconds
        };
        let bytes = share_of_wait("bytes");
        if bytes > thresholds::BYTES {
            let shown = evidence(
                "share of the workers' time spent waiting for memory",
                bytes,
                thresholds::BYTES,
            );
            let changes = vec![
                Change::words(
                    "give --ram-budget more (data: { ram_budget: … }), or leave it out: a quarter of the memory",
                ),
                Change::words("or make batches smaller with --batch-size and --grad-accum"),
            ];
            return (Cause::MemoryBudget, vec![shown], changes);
        }
        let usual = featurize.ms.p95.max(1e-6);
        let huge = featurize.ms.max / usual;
        if huge > thresholds::HUGE && featurize.ms.mean > 1.5 * featurize.ms.p50 {
            return self.huge_clip(huge);
        }
        let busy = featurize.busy;
        if busy < 0.75 && share_of_wait("output") > 0.05 {
            return self.small_buffer(busy);
        }
        let read = part_of_featurize(self.run, "read");
        if read > 0.5 {
            return self.slow_disk(read);
        }
        let resample = part_of_featurize(self.run, "resample");
        if resample > 0.5 {
            let shown = evidence("share of making features that is resampling", resample, 0.5);
            let changes = vec![
                Change::words("`voxmill prepare` once: the cache keeps what is resampled"),
                self.more_workers(featurize),
            ];
            return (Cause::SlowResampling, vec![shown], changes);
        }
        self.slow_workers(featurize)
    }

    fn slow_workers(&self, featurize: &StageTime) -> (Cause, Vec<Evidence>, Vec<Change>) {
        let steps = self.profile.steps as f64;
        let data_work = self.data_seconds() / steps;
        let step = self.line.train / steps;
        let for_each_core = data_work / self.cores;
        let decoded = self
            .stage("featurize.decode")
            .map_or(0, |part| part.ms.count);
        let share = decoded as f64 / featurize.ms.count.max(1) as f64;
        let cache = self.run.fact(fact::CACHE).unwrap_or("");
        if share > 0.25 && cache != "off" && cache != "warm" {
            let shown = evidence("share of clips whose file was decoded", share, 0.25);
            let changes = vec![
                Change::words("the next epoch finds them in the cache: it is over by itself"),
                Change::words("`voxmill prepare` makes all of it ahead"),
            ];
            return (Cause::ColdCache, vec![shown], changes);
        }
        if for_each_core > 0.8 * step {
            let shown = evidence(
                "seconds of data work a step, for each core, against a step's own",
                for_each_core,
                0.8 * step,
            );
            let changes = vec![
                Change::words("a larger --model-size has more to do with each clip"),
                Change::words(
                    "keep features in the cache (leave --no-cache out), so that there is less to do",
                ),
            ];
            return (Cause::ModelTooSmall, vec![shown], changes);
        }
        let shown = evidence(
            "share of the workers' time that was work",
            featurize.busy,
            0.75,
        );
        if (featurize.workers as f64) < self.cores {
            let changes = vec![self.more_workers(featurize)];
            return (Cause::FewWorkers, vec![shown], changes);
        }
        let changes = vec![Change::words(
            "keep features in the cache (`voxmill prepare`), or use a machine with more cores",
        )];
        (Cause::SlowWorkers, vec![shown], changes)
    }

    /// All stages of the plan, their workers together; parts are in their stage.
    fn data_seconds(&self) -> f64 {
        let stages = self.profile.stages.iter();
        let whole = stages.filter(|stage| !stage.name.contains('.'));
        whole
            .map(|stage| stage.ms.mean / 1e3 * stage.ms.count as f64)
            .sum()
    }

    /// As many as the model's own pace needs, and a tenth to spare.
    fn more_workers(&self, featurize: &StageTime) -> Change {
        let steps = self.profile.steps.max(1) as f64;
        let rows = featurize.ms.count as f64 / steps;
        let step_ms = self.line.train * 1e3 / steps;
        let enough = (1.1 * rows * featurize.ms.mean / step_ms.max(1e-6)).ceil();
        let enough = enough.max(featurize.workers as f64 + 1.0);
        let what = format!(
            "a step's {rows:.0} clips take {:.0} ms of work, and a step {step_ms:.0} ms: {enough:.0} workers keep up",
            rows * featurize.ms.mean
        );
        Change::set("num-workers", enough as u64, what)
    }

    fn slow_disk(&self, read: f64) -> (Cause, Vec<Evidence>, Vec<Change>) {
        let shown = evidence("share of making features that is reading files", read, 0.5);
        let mut changes = vec![
            Change::words(
                "`voxmill prepare` once: then features come from the cache, not from the files",
            ),
            Change::words("or put the dataset or --cache-dir on a faster disk"),
        ];
        if let Some(featurize) = self.stage("featurize") {
            changes.push(self.more_workers(featurize));
        }
        (Cause::SlowDisk, vec![shown], changes)
    }

    fn slow_transfer(&self) -> (Cause, Vec<Evidence>, Vec<Change>) {
        let prepare = self.stage("prepare");
        let busy = prepare.map_or(0.0, |stage| stage.busy);
        let shown = evidence(
            "share of the time that batches were being brought to the device",
            busy,
            0.75,
        );
        let changes = vec![
            Change::words(
                "let the workers make the frames: --prepare-on host (data: { prepare_on: host })",
            ),
            Change::words(
                "see `voxmill devices` for how the devices are linked; one device has no transfer between two",
            ),
        ];
        (Cause::SlowTransfer, vec![shown], changes)
    }

    fn slow_collating(&self) -> (Cause, Vec<Evidence>, Vec<Change>) {
        let collate = self.stage("collate");
        let busy = collate.map_or(0.0, |stage| stage.busy);
        let shown = evidence(
            "share of the time that batches were being put together",
            busy,
            0.75,
        );
        let changes = vec![
            Change::words(
                "smaller batches (--batch-size with --grad-accum) are put together faster",
            ),
            Change::words("fewer workers leave collating more of the CPU: --num-workers"),
        ];
        (Cause::SlowCollating, vec![shown], changes)
    }

    fn small_buffer(&self, busy: f64) -> (Cause, Vec<Evidence>, Vec<Change>) {
        let shown = evidence(
            "share of the workers' time that was work; they had time to spare",
            busy,
            0.75,
        );
        let buffer = self.run.number(fact::BUFFER).unwrap_or(1.0);
        let larger = (buffer * 4.0).max(50.0) as u64;
        let what = "workers wait for room at times and the model for batches at others: a larger buffer bridges that";
        (
            Cause::SmallBuffer,
            vec![shown],
            vec![Change::set("buffer-size", larger, what)],
        )
    }

    fn huge_clip(&self, times: f64) -> (Cause, Vec<Evidence>, Vec<Change>) {
        let shown = evidence(
            "the slowest clip, in times of the slow ones (p95)",
            times,
            thresholds::HUGE,
        );
        let slowest = self
            .run
            .slow
            .iter()
            .filter(|slow| slow.stage == "featurize");
        let name = slowest
            .max_by_key(|slow| slow.service)
            .map_or(String::new(), |slow| format!(" (`{}`)", slow.name));
        let changes = vec![
            Change::words(format!(
                "a few clips hold up all that comes after them{name}: leave them out with --max-mel-frames, or `voxmill prepare` once"
            )),
            Change::words("or let others overtake them: --unordered (data: { unordered: true })"),
        ];
        (Cause::HugeClip, vec![shown], changes)
    }

    /// Others take the cores.
    fn rivals(&self) -> Option<Finding> {
        let host = self.profile.host_cpu_percent? / 100.0;
        let own = self.run.stats.host.process_cpu_percent.mean()? / 100.0 / self.cores;
        let others = host - own;
        let (workers, threads) = (
            self.run.number(fact::WORKERS).unwrap_or(0.0),
            self.run.number(fact::COMPUTE_THREADS).unwrap_or(0.0),
        );
        if others > thresholds::RIVALS && host > 0.9 {
            let shown = evidence(
                "share of all cores that other programs took",
                others,
                thresholds::RIVALS,
            );
            let what = format!(
                "other programs took {:.1} of {:.0} cores, and none was free: what is measured here is not this program's own pace",
                others * self.cores,
                self.cores
            );
            let change = Change::words("end the other programs, or measure when they are done");
            return self.finding(
                Cause::Oversubscribed,
                Level::Bottleneck,
                others,
                what,
                vec![shown],
                vec![change],
            );
        }
        let asked = workers + threads;
        if asked > 2.0 * self.cores && host > 0.9 {
            let shown = evidence("threads for each core", asked / self.cores, 2.0);
            let what = format!(
                "{asked:.0} threads share {:.0} cores: {workers:.0} workers and {threads:.0} that compute",
                self.cores
            );
            let change = Change::words(
                "leave --num-workers and --compute-threads out: the cores are then shared out",
            );
            let costs = 1.0 - self.cores / asked;
            return self.finding(
                Cause::Oversubscribed,
                Level::Warning,
                costs.min(0.5),
                what,
                vec![shown],
                vec![change],
            );
        }
        None
    }

    /// The model is slower while the workers work.
    fn interference(&self) -> Option<Finding> {
        let ratio = self.profile.feeding.interference?;
        let more = ratio.value - 1.0;
        if more < thresholds::INTERFERENCE || ratio.low < 1.0 + thresholds::INTERFERENCE / 2.0 {
            return None;
        }
        let shown = evidence(
            "longer step while the workers work",
            more,
            thresholds::INTERFERENCE,
        );
        let what = format!(
            "a step takes {:.0} % longer while the workers work: they share the cores or the memory with the model",
            100.0 * more
        );
        let changes = vec![
            Change::words(
                "`voxmill prepare` once: with a warm cache the workers have little to do",
            ),
            Change::words("fewer --num-workers, or a --compute-threads that leaves them a core"),
        ];
        self.finding(
            Cause::Interference,
            Level::Warning,
            more / ratio.value,
            what,
            vec![shown],
            changes,
        )
    }

    fn padding(&self) -> Option<Finding> {
        let waste = self.profile.padding_waste;
        if waste < thresholds::PADDING {
            return None;
        }
        let shown = evidence(
            "share of all frames that is padding",
            waste,
            thresholds::PADDING,
        );
        let fixed = self.run.fact(fact::PADDING) == Some("fixed");
        let change = match fixed {
            true => Change::set(
                "pad-to-fixed-length=false",
                "",
                "pad to a few shapes instead of to the longest clip",
            ),
            false => Change::set(
                "buckets",
                16,
                "more shapes pad less; so do clips of like length (--max-mel-frames)",
            ),
        };
        let change = match fixed {
            true => Change {
                flag: Some("--pad-to-fixed-length=false".to_owned()),
                config: Some("data: { pad_to_fixed_length: false }".to_owned()),
                ..change
            },
            false => change,
        };
        let what = format!(
            "{:.0} % of what the model computes is padding",
            100.0 * waste
        );
        let costs = waste * self.line.busy();
        self.finding(
            Cause::Padding,
            Level::Bottleneck,
            costs,
            what,
            vec![shown],
            vec![change],
        )
    }

    fn gaps(&self) -> Option<Finding> {
        let gap = self.line.share(self.line.gap);
        if gap < thresholds::GAP {
            return None;
        }
        let shown = evidence("share of the time between steps", gap, thresholds::GAP);
        let what = format!(
            "{:.0} % of the time goes into what lies between steps: saving, validating, reading losses",
            100.0 * gap
        );
        let changes = vec![Change::words(
            "larger --checkpoint-every, --evaluation-interval and --log-every",
        )];
        self.finding(Cause::Gaps, Level::Warning, gap, what, vec![shown], changes)
    }

    fn variation(&self) -> Option<Finding> {
        let variation = self.profile.variation;
        // What waiting does to the steps is told there.
        if variation < thresholds::VARIATION || self.line.stall() >= thresholds::STALL {
            return None;
        }
        let shown = evidence(
            "standard deviation of the step time within a shape, of its mean",
            variation,
            thresholds::VARIATION,
        );
        let what = format!(
            "steps of the same shape vary by {:.0} %, though batches are there: something else takes the device at times",
            100.0 * variation
        );
        let changes = vec![Change::words(
            "see what else runs on this machine; `voxmill profile --trace FILE` shows each step",
        )];
        self.finding(
            Cause::Variation,
            Level::Warning,
            0.0,
            what,
            vec![shown],
            changes,
        )
    }

    fn data_device(&self) -> Option<Finding> {
        let busy = self.profile.data_device_busy?;
        if busy < thresholds::DATA_BUSY {
            return None;
        }
        let shown = evidence(
            "share of the time that the data device was preparing",
            busy,
            thresholds::DATA_BUSY,
        );
        let what = format!(
            "the data device is busy {:.0} % of the time: it has hardly anything left",
            100.0 * busy
        );
        let changes = vec![Change::words(
            "--prepare-on host lets the workers and the cache make the frames",
        )];
        self.finding(
            Cause::DataDeviceFull,
            Level::Warning,
            self.line.stall(),
            what,
            vec![shown],
            changes,
        )
    }

    fn memory_hardly_used(&self) -> Option<Finding> {
        let model = self.run.fact(fact::DEVICE)?;
        let memory = self.profile.memory.devices.get(model)?;
        let used = memory.peak? as f64 / memory.total.filter(|total| *total > 0)? as f64;
        if used > thresholds::MEMORY_HARDLY_USED {
            return None;
        }
        let batch = self.run.number(fact::BATCH_SIZE).unwrap_or(16.0);
        let shown = evidence(
            "share of the device's memory in use at the most",
            used,
            thresholds::MEMORY_HARDLY_USED,
        );
        let what = format!("only {:.0} % of {model}'s memory was used", 100.0 * used);
        let change = Change::set(
            "batch-size",
            (batch * 2.0) as u64,
            "larger batches use the device better; `voxmill scale` measures by how much",
        );
        self.finding(
            Cause::BatchTooSmall,
            Level::Note,
            0.0,
            what,
            vec![shown],
            vec![change],
        )
    }

    fn swap(&self) -> Option<Finding> {
        let traffic = self.run.stats.host.swap_traffic.mean()?;
        if traffic <= 0.0 {
            return None;
        }
        let shown = evidence("bytes a second to and from swap", traffic, 0.0);
        let what = format!(
            "the machine is short of memory: {:.1} MB/s go to and from swap",
            traffic / 1e6
        );
        let changes = vec![Change::words(
            "a smaller --ram-budget or --buffer-size, or end other programs",
        )];
        self.finding(
            Cause::SwapInUse,
            Level::Warning,
            self.line.stall(),
            what,
            vec![shown],
            changes,
        )
    }

    /// Only in a run that is long enough for every shape to have come by.
    fn growth(&self) -> Option<Finding> {
        const LONG_ENOUGH_SECONDS: f64 = 300.0;
        let memory = &self.run.memory;
        let (first, last) = (memory.first()?.0, memory.last()?.0);
        if last.since(first).seconds() < LONG_ENOUGH_SECONDS {
            return None;
        }
        let mean = |part: &[(voxmill_telemetry::event::Nanos, u64)]| {
            part.iter().map(|(_, bytes)| *bytes as f64).sum::<f64>() / part.len().max(1) as f64
        };
        let quarter = memory.len() / 4;
        let early = mean(&memory[quarter..2 * quarter]);
        let late = mean(&memory[3 * quarter..]);
        let growth = late / early.max(1.0) - 1.0;
        if growth < thresholds::MEMORY_GROWTH {
            return None;
        }
        let shown = evidence(
            "growth of the process's memory over the second half",
            growth,
            thresholds::MEMORY_GROWTH,
        );
        let what = format!(
            "memory grew by {:.0} MB in the second half of the run",
            (late - early) / 1e6
        );
        let changes = vec![Change::words(
            "please report it with the run's events.jsonl",
        )];
        self.finding(
            Cause::MemoryGrowing,
            Level::Warning,
            0.0,
            what,
            vec![shown],
            changes,
        )
    }

    fn pinned(&self) -> Option<Finding> {
        let machine = self.run.number(fact::MACHINE_CORES)?;
        if machine <= self.cores {
            return None;
        }
        let shown = evidence(
            "cores that this process may use, of the machine's",
            self.cores,
            machine,
        );
        let what = format!(
            "the process may use {:.0} of {machine:.0} cores (taskset, a container's limit)",
            self.cores
        );
        let changes = vec![Change::words("give it more cores, if it was not meant so")];
        self.finding(
            Cause::CpuPinned,
            Level::Note,
            0.0,
            what,
            vec![shown],
            changes,
        )
    }

    fn step_bound(&self) -> Finding {
        let busy = self.line.busy();
        Finding {
            cause: Cause::StepBound,
            bound_by: Cause::StepBound.bound_by().to_owned(),
            level: Level::Note,
            costs: 0.0,
            what: format!(
                "no major bottleneck: the model trained {:.1} % of the time and waited {:.1} %; what would help is a faster \
                 device or a smaller model",
                100.0 * busy,
                100.0 * self.line.stall()
            ),
            evidence: vec![evidence(
                "share of the time that the model waited",
                self.line.stall(),
                thresholds::STALL,
            )],
            changes: Vec::new(),
        }
    }
}

fn in_words(cause: Cause) -> &'static str {
    match cause {
        Cause::SlowDisk => "reading the files is slow",
        Cause::FewWorkers => "too few workers make features",
        Cause::SlowWorkers => "all cores make features and do not keep up",
        Cause::SmallBuffer => "the buffer is too small to bridge uneven clips",
        Cause::SlowResampling => "clips are resampled, and that is slow",
        Cause::HugeClip => "a few clips take very much longer than the rest",
        Cause::SlowCollating => "putting batches together is slow",
        Cause::SlowTransfer => "bringing batches to the device is slow",
        Cause::MemoryBudget => "the memory budget lets too little be made ahead",
        Cause::ColdCache => "the cache is cold, so files are decoded",
        Cause::ModelTooSmall => {
            "the model is done with a batch before this machine can make the next"
        }
        Cause::NoOverlap => "one thing is done after another (--no-overlap)",
        _ => "see the evidence",
    }
}
