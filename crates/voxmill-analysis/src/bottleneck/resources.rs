//! What costs time or memory apart from waiting for batches: cores, padding, gaps between steps, memory.

use voxmill_telemetry::event::Nanos;
use voxmill_telemetry::stage::StageId;

use super::{Advice, Cause, Diagnosis, Evidence, Finding, Level, evidence, setting, thresholds};
use crate::run::fact;

/// Of the time that steps take longer, the least that the data side must have worked.
const PLAUSIBLE_WORK: f64 = 0.3;

impl Diagnosis<'_> {
    /// Others take the cores.
    pub(super) fn rivals(&self) -> Option<Finding> {
        let load = self.run.core_load()?;
        let others = load.others();
        let (workers, threads) = (
            self.run.number(fact::WORKERS).unwrap_or(0.0),
            self.run.number(fact::COMPUTE_THREADS).unwrap_or(0.0),
        );
        if others > thresholds::RIVALS && load.all > 0.9 {
            let shown = evidence(
                "share of all cores that other programs took",
                others,
                thresholds::RIVALS,
            );
            let what = format!(
                "other programs took {:.1} of {:.0} cores, and none was free: what is measured here is not this program's own pace",
                others * load.cores,
                load.cores
            );
            let change = Advice::words("end the other programs, or measure when they are done");
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
        if asked > 2.0 * self.cores && load.all > 0.9 {
            let shown = evidence("threads for each core", asked / self.cores, 2.0);
            let what = format!(
                "{asked:.0} threads share {:.0} cores: {workers:.0} workers and {threads:.0} that compute",
                self.cores
            );
            let change = Advice::words(
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
    pub(super) fn interference(&self) -> Option<Finding> {
        let ratio = self.profile.feeding.interference?;
        let more = ratio.value - 1.0;
        if more < thresholds::INTERFERENCE || ratio.low < 1.0 + thresholds::INTERFERENCE / 2.0 {
            return None;
        }
        // Work of a millisecond does not take twenty from the model: that is the machine's own noise.
        let extra = more * self.profile.feeding.floor_ms? / 1e3;
        let work = self.data_seconds() / self.profile.steps.max(1) as f64;
        if work < PLAUSIBLE_WORK * extra {
            return None;
        }
        let mut shown = vec![evidence(
            "longer step while the workers work",
            more,
            thresholds::INTERFERENCE,
        )];
        let (cause, doing) = self.what_workers_do(&mut shown);
        let what = format!(
            "a step takes {:.0} % longer while the workers work, for they share the cores with the model: {doing}",
            100.0 * more
        );
        let changes = vec![
            Advice::words(
                "`voxmill prepare` once: with a warm cache the workers have little to do",
            ),
            Advice::words("fewer --num-workers, or a --compute-threads that leaves them a core"),
        ];
        // Who waits for the same workers has been told of them.
        let level = match self.line.stall() < thresholds::STALL {
            true => Level::Warning,
            false => Level::Note,
        };
        self.finding(cause, level, more / ratio.value, what, shown, changes)
    }

    /// Work that takes the cores from the model has a cause, too: what most of it is.
    fn what_workers_do(&self, shown: &mut Vec<Evidence>) -> (Cause, &'static str) {
        let whole = self.data_seconds();
        let of_stage = |name: StageId| {
            let stage = self.stage(name);
            stage.map_or(0.0, |stage| stage.ms.mean / 1e3 * stage.ms.count as f64)
        };
        let mut most = |measure: &str, seconds: f64| {
            let share = seconds / whole.max(1e-9);
            let is_most = share > 0.5;
            if is_most {
                shown.push(evidence(measure, share, 0.5));
            }
            is_most
        };
        if most(
            "share of the data side's work that is putting batches together",
            of_stage(StageId::Collate),
        ) {
            return (Cause::SlowCollating, "batches are put together");
        }
        if most(
            "share of the data side's work that is bringing batches to the device",
            of_stage(StageId::Prepare),
        ) {
            return (Cause::SlowTransfer, "batches are brought to the device");
        }
        if most(
            "share of the data side's work that is resampling",
            of_stage(StageId::Resample),
        ) {
            return (Cause::SlowResampling, "clips are resampled");
        }
        let made = of_stage(StageId::Decode) + of_stage(StageId::Mel);
        let cache = self.run.fact(fact::CACHE).unwrap_or("");
        if cache != "off"
            && most(
                "share of the data side's work that is decoding files and making frames",
                made,
            )
        {
            return (Cause::ColdCache, "the cache is cold, so files are decoded");
        }
        (Cause::Interference, "they make features")
    }

    pub(super) fn padding(&self) -> Option<Finding> {
        let waste = self.profile.padding_waste;
        if waste < thresholds::PADDING {
            return None;
        }
        let shown = evidence(
            "share of all frames that is padding",
            waste,
            thresholds::PADDING,
        );
        let change = match self.run.fact(fact::PADDING) {
            Some("fixed") => Advice::set(
                setting::PAD_TO_FIXED_LENGTH,
                false,
                "pad to a few shapes instead of to the longest clip",
            ),
            _ => Advice::set(
                setting::BUCKETS,
                16,
                "more shapes pad less; so do clips of like length (--max-mel-frames)",
            ),
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

    pub(super) fn gaps(&self) -> Option<Finding> {
        let gap = self.line.share(self.line.gap);
        if gap < thresholds::GAP {
            return None;
        }
        let shown = evidence("share of the time between steps", gap, thresholds::GAP);
        let what = format!(
            "{:.0} % of the time goes into what lies between steps: saving, validating, reading losses",
            100.0 * gap
        );
        let changes = vec![Advice::words(
            "larger --checkpoint-every, --evaluation-interval and --log-every",
        )];
        self.finding(Cause::Gaps, Level::Warning, gap, what, vec![shown], changes)
    }

    pub(super) fn variation(&self) -> Option<Finding> {
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
        let changes = vec![Advice::words(
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

    pub(super) fn data_device(&self) -> Option<Finding> {
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
        let changes = vec![Advice::words(
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

    pub(super) fn memory_hardly_used(&self) -> Option<Finding> {
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
        let change = Advice::set(
            setting::BATCH_SIZE,
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

    pub(super) fn swap(&self) -> Option<Finding> {
        let traffic = self.run.stats.host.swap_traffic.mean()?;
        if traffic <= 0.0 {
            return None;
        }
        let shown = evidence("bytes a second to and from swap", traffic, 0.0);
        let what = format!(
            "the machine is short of memory: {:.1} MB/s go to and from swap",
            traffic / 1e6
        );
        let changes = vec![Advice::words(
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
    pub(super) fn growth(&self) -> Option<Finding> {
        const LONG_ENOUGH_SECONDS: f64 = 300.0;
        let memory = &self.run.memory;
        let (first, last) = (memory.first()?.0, memory.last()?.0);
        if last.since(first).seconds() < LONG_ENOUGH_SECONDS {
            return None;
        }
        let mean = |part: &[(Nanos, u64)]| {
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
        let changes = vec![Advice::words(
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

    pub(super) fn pinned(&self) -> Option<Finding> {
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
        let changes = vec![Advice::words("give it more cores, if it was not meant so")];
        self.finding(
            Cause::CpuPinned,
            Level::Note,
            0.0,
            what,
            vec![shown],
            changes,
        )
    }

    pub(super) fn step_bound(&self) -> Finding {
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
