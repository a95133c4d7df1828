//! What costs time or memory apart from waiting for batches: cores, padding, gaps between steps, memory.

use voxmill_format::{percent, size, whole_percent};
use voxmill_telemetry::event::Nanos;
use voxmill_telemetry::stage::StageId;

use super::thresholds::{
    DATA_BUSY, GAP, INTERFERENCE, LAUNCH_BUSY, LAUNCH_IDLE, MEMORY_GROWTH, MEMORY_HARDLY_USED,
    PADDING, RIVALS, STALL, VARIATION,
};
use super::{Advice, Cause, Diagnosis, Finding, Level};
use crate::profile::DriverMemory;
use crate::run::{CPU, fact};
use crate::setting::AdvisedSetting;

/// Samples of a driver, one a second: fewer may all have hit the same moment of a step.
const LEAST_SAMPLES: usize = 3;

/// Of the time that steps take longer, the least that the data side must have worked.
const PLAUSIBLE_WORK: f64 = 0.3;

impl Diagnosis<'_> {
    /// Other programs, or too many threads of our own, take the cores.
    pub(super) fn rivals(&self) -> Option<Finding> {
        let load = self.run.core_load()?;
        if !load.has_none_free() {
            return None;
        }
        let others = load.others();
        if load.is_oversubscribed() {
            let what = format!(
                "other programs took {:.1} of {:.1} cores, and none was free: what is measured here is not this program's own pace",
                others * load.cores,
                load.cores
            );
            let found = Finding::new(Cause::Oversubscribed, Level::Bottleneck, others, what)
                .because(
                    "share of all cores that other programs took",
                    others,
                    RIVALS,
                )
                .advise("end the other programs, or measure when they are done");
            return Some(found);
        }
        let threads_of = |name| self.run.number(name).unwrap_or(0.0);
        let (workers, threads) = (threads_of(fact::WORKERS), threads_of(fact::COMPUTE_THREADS));
        let (asked, cores) = (workers + threads, self.cores);
        if asked <= 2.0 * cores {
            return None;
        }
        let what = format!(
            "{asked:.0} threads share {cores:.0} cores: {workers:.0} workers and {threads:.0} that compute"
        );
        let costs = (1.0 - cores / asked).min(0.5);
        let found = Finding::new(Cause::Oversubscribed, Level::Warning, costs, what)
            .because("threads for each core", asked / cores, 2.0)
            .advise(format!(
                "leave {} and {} out: the cores are then shared out",
                AdvisedSetting::NumWorkers,
                AdvisedSetting::ComputeThreads
            ));
        Some(found)
    }

    /// The model is slower while the workers work.
    pub(super) fn interference(&self) -> Option<Finding> {
        let ratio = self.profile.feeding.interference?;
        let more = ratio.value - 1.0;
        if more < INTERFERENCE || ratio.low < 1.0 + INTERFERENCE / 2.0 {
            return None;
        }
        // Work of a millisecond does not take twenty from the model: that is the machine's own noise.
        let extra = more * self.profile.feeding.floor_ms? / 1e3;
        let work = self.data_seconds() / self.profile.steps.max(1) as f64;
        if work < PLAUSIBLE_WORK * extra {
            return None;
        }
        let (cause, doing, most) = self.what_workers_do();
        let what = format!(
            "a step takes {} longer while the workers work, for they share the cores with the model: {doing}",
            whole_percent(more)
        );
        // A finding about waiting names the same workers already.
        let level = match self.line.stall() < STALL {
            true => Level::Warning,
            false => Level::Note,
        };
        let mut found = Finding::new(cause, level, more / ratio.value, what)
            .because("longer step while the workers work", more, INTERFERENCE)
            .advise("`voxmill prepare` once: with a warm cache the workers have little to do")
            .advise(format!(
                "fewer {}, or a {} that leaves them a core",
                AdvisedSetting::NumWorkers,
                AdvisedSetting::ComputeThreads
            ));
        if let Some((part, share)) = most {
            let measure = format!("share of the data side's work that is {part}");
            found = found.because(&measure, share, 0.5);
        }
        Some(found)
    }

    /// Work that takes the cores from the model has a cause, too: what most of it is, and its share.
    fn what_workers_do(&self) -> (Cause, &'static str, Option<(&'static str, f64)>) {
        let whole = self.data_seconds().max(1e-9);
        let counted = self.run.counted_over(self.line.seconds);
        let work = |stage| self.stage(stage).map_or(0.0, |stage| stage.work_seconds());
        let share = |stage| work(stage) / counted / whole;
        let cached = self.run.fact(fact::CACHE) != Some("off");
        let decoded = share(StageId::Decode) + share(StageId::Mel);
        let causes = [
            (
                Cause::SlowCollating,
                "batches are put together",
                "putting batches together",
                share(StageId::Collate),
            ),
            (
                Cause::SlowTransfer,
                "batches are transferred to the device",
                "bringing batches to the device",
                share(StageId::Prepare),
            ),
            (
                Cause::SlowResampling,
                "clips are resampled",
                "resampling",
                share(StageId::Resample),
            ),
            (
                Cause::ColdCache,
                "the cache is cold, so files are decoded",
                "decoding files and computing frames",
                if cached { decoded } else { 0.0 },
            ),
        ];
        let most = causes.into_iter().find(|(.., share)| *share > 0.5);
        match most {
            Some((cause, doing, part, share)) => (cause, doing, Some((part, share))),
            None => (Cause::Interference, "they compute features", None),
        }
    }

    pub(super) fn padding(&self) -> Option<Finding> {
        let waste = self.profile.padding_waste;
        if waste < PADDING {
            return None;
        }
        let change = match self.run.fact(fact::PADDING) {
            Some("fixed") => Advice::set(
                AdvisedSetting::PadToFixedLength,
                false,
                "pad to a few shapes instead of to the longest clip",
            ),
            _ => Advice::set(
                AdvisedSetting::Buckets,
                16,
                format!(
                    "more shapes pad less; so do clips of like length ({})",
                    AdvisedSetting::MaxMelFrames
                ),
            ),
        };
        let what = format!(
            "{} of what the model computes is padding",
            whole_percent(waste)
        );
        let costs = waste * self.line.busy();
        let found = Finding::new(Cause::Padding, Level::Bottleneck, costs, what)
            .because("share of all frames that is padding", waste, PADDING)
            .advise(change);
        Some(found)
    }

    pub(super) fn gaps(&self) -> Option<Finding> {
        let gap = self.line.share(self.line.gap);
        if gap < GAP {
            return None;
        }
        let what = format!(
            "{} of the time goes into what lies between steps: saving, validating, reading losses",
            whole_percent(gap)
        );
        let found = Finding::new(Cause::Gaps, Level::Warning, gap, what)
            .because("share of the time between steps", gap, GAP)
            .advise(format!(
                "larger {}, {} and {}",
                AdvisedSetting::CheckpointEvery,
                AdvisedSetting::EvaluationInterval,
                AdvisedSetting::LogEvery
            ));
        Some(found)
    }

    pub(super) fn variation(&self) -> Option<Finding> {
        let variation = self.profile.variation?;
        // What waiting and other programs do to the steps are findings of their own.
        let crowded = (self.profile.other_programs).is_some_and(|others| others.oversubscribed);
        if variation < VARIATION || self.line.stall() >= STALL || crowded {
            return None;
        }
        let what = format!(
            "steps of the same shape vary by {}, though batches are there: something else takes the device at times",
            whole_percent(variation)
        );
        let measure = "standard deviation of the step time within a shape, of its mean";
        let found = Finding::new(Cause::Variation, Level::Warning, 0.0, what)
            .because(measure, variation, VARIATION)
            .advise("see what else runs on this machine; `voxmill profile --trace FILE` shows each step");
        Some(found)
    }

    pub(super) fn data_device(&self) -> Option<Finding> {
        let busy = self.profile.data_device_busy?;
        if busy < DATA_BUSY {
            return None;
        }
        let what = format!(
            "the data device is busy {} of the time: it has almost no spare time",
            whole_percent(busy)
        );
        let measure = "share of the time that the data device was preparing";
        let change = "let the workers and the cache compute the frames";
        let found = Finding::new(
            Cause::DataDeviceFull,
            Level::Warning,
            self.line.stall(),
            what,
        )
        .because(measure, busy, DATA_BUSY)
        .advise(Advice::set(AdvisedSetting::PrepareOn, "host", change));
        Some(found)
    }

    /// The GPU always has a step to do, and yet its driver sees kernels run for a part of the time only: each is over
    /// before the host has launched the next.
    pub(super) fn launches(&self) -> Option<Finding> {
        let model = self.model_gpu()?;
        let samples = self.run.utilisation(model);
        let busy = self.line.busy();
        if samples.len() < LEAST_SAMPLES || busy < LAUNCH_BUSY {
            return None;
        }
        let running = samples.iter().sum::<f64>() / samples.len() as f64 / 100.0;
        let idle = 1.0 - running / busy;
        if idle < LAUNCH_IDLE {
            return None;
        }
        let what = format!(
            "{model} was busy {} of the time, and by its driver kernels ran {} of it: they are so short that \
             the GPU waits for the next to be launched",
            whole_percent(busy),
            whole_percent(running)
        );
        let measure = "share of the busy time in which the driver saw no kernel run";
        let fewer = match model.starts_with("wgpu") {
            true => {
                "fewer kernels: a build with --features vulkan (or cuda) fuses them, `wgpu` does not"
                    .to_owned()
            }
            false => {
                format!(
                    "fewer kernels: {} and {} launch more of them for the same clips; leave them out where the memory \
                     allows",
                    AdvisedSetting::GradientAccumulationSteps,
                    AdvisedSetting::EnableGradientCheckpointing
                )
            }
        };
        let found = Finding::new(Cause::LaunchBound, Level::Warning, busy - running, what)
            .because(
                "share of the time that the device was busy",
                busy,
                LAUNCH_BUSY,
            )
            .because(measure, idle, LAUNCH_IDLE)
            .advise(self.twice_the_batch(
                "larger batches give each kernel more to do; `voxmill scale` measures by how much",
            ))
            .advise(fewer);
        Some(found)
    }

    fn model_gpu(&self) -> Option<&str> {
        self.run.fact(fact::DEVICE).filter(|name| *name != CPU)
    }

    fn twice_the_batch(&self, what: &str) -> Advice {
        let batch = self.run.number(fact::BATCH_SIZE).unwrap_or(16.0);
        Advice::set(AdvisedSetting::BatchSize, (batch * 2.0) as u64, what)
    }

    pub(super) fn memory_hardly_used(&self) -> Option<Finding> {
        let model = self.model_gpu()?;
        let devices = &self.profile.memory.devices;
        let share = |memory: &DriverMemory| {
            let total = memory.total.filter(|total| *total > 0)?;
            Some(memory.peak? as f64 / total as f64)
        };
        let used = match self.run.knows_its_devices() {
            true => {
                let card = self.run.identity(model)?.sampled_as.as_ref()?;
                share(devices.get(card)?)?
            }
            // A log of an earlier version does not tell which of the driver's devices the model is on. Where even the
            // fullest of them is hardly used, so is the model's; one that does not report its memory may be it.
            false => {
                let shares: Vec<f64> = devices.values().map(share).collect::<Option<_>>()?;
                shares.into_iter().max_by(f64::total_cmp)?
            }
        };
        if used > MEMORY_HARDLY_USED {
            return None;
        }
        let what = format!(
            "at most {} of {model}'s memory was used",
            whole_percent(used)
        );
        let measure = "share of the device's memory in use at the most";
        let found = Finding::new(Cause::BatchTooSmall, Level::Note, 0.0, what)
            .because(measure, used, MEMORY_HARDLY_USED)
            .advise(self.twice_the_batch(
                "larger batches use the device better; `voxmill scale` measures by how much",
            ));
        Some(found)
    }

    pub(super) fn swap(&self) -> Option<Finding> {
        let traffic = self.run.stats.host.swap_traffic.mean()?;
        if traffic <= 0.0 {
            return None;
        }
        let what = format!(
            "the machine is short of memory: {}/s go to and from swap",
            size(traffic as u64)
        );
        let found = Finding::new(Cause::SwapInUse, Level::Warning, self.line.stall(), what)
            .because("bytes a second to and from swap", traffic, 0.0)
            .advise(format!(
                "a smaller {} or {}, or end other programs",
                AdvisedSetting::RamBudget,
                AdvisedSetting::BufferSize
            ));
        Some(found)
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
        if growth < MEMORY_GROWTH {
            return None;
        }
        let what = format!(
            "memory grew by {} in the second half of the run",
            size((late - early) as u64)
        );
        let measure = "growth of the process's memory over the second half";
        let found = Finding::new(Cause::MemoryGrowing, Level::Warning, 0.0, what)
            .because(measure, growth, MEMORY_GROWTH)
            .advise("please report it with the run's events.jsonl");
        Some(found)
    }

    pub(super) fn pinned(&self) -> Option<Finding> {
        let machine = self.run.number(fact::MACHINE_CORES)?;
        if machine <= self.cores {
            return None;
        }
        let what = format!(
            "the process may use {:.0} of {machine:.0} cores (taskset, a container's limit)",
            self.cores
        );
        let measure = "cores that this process may use, of the machine's";
        let found = Finding::new(Cause::CpuPinned, Level::Note, 0.0, what)
            .because(measure, self.cores, machine)
            .advise("give it more cores, unless this limit is intended");
        Some(found)
    }

    pub(super) fn step_bound(&self) -> Finding {
        let (busy, stall) = (self.line.busy(), self.line.stall());
        let what = format!(
            "no major bottleneck: the model trained {} of the time and waited {}; what would help is a faster \
             device or a smaller model",
            percent(busy),
            percent(stall)
        );
        Finding::new(Cause::StepBound, Level::Note, 0.0, what).because(
            "share of the time that the model waited",
            stall,
            STALL,
        )
    }
}
