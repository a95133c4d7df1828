//! The model waited: from the stage that was late back to what held it up.

use super::thresholds::{BYTES, HUGE, LOAD, STALL, TRAIN, TRANSFER};
use super::{Advice, Cause, Diagnosis, Finding, Level};
use crate::profile::{StageTime, data_work, part_of_featurize};
use crate::run::fact;
use crate::setting::AdvisedSetting;
use voxmill_format::percent;
use voxmill_telemetry::event::Wait;
use voxmill_telemetry::stage::StageId;

/// The question whose answer is what a warm cache gains.
const WARM: &str = "cache=warm";

impl Diagnosis<'_> {
    /// The model waited for batches.
    pub(super) fn waiting(&self) -> Option<Finding> {
        let stall = self.line.stall();
        let (stage, _) = self.line.latest_stage()?;
        if stall < STALL {
            return None;
        }
        let most = match *stage == StageId::Prepare {
            true => TRANSFER,
            false => LOAD,
        };
        let level = match stall > most || self.line.busy() < TRAIN {
            true => Level::Bottleneck,
            false => Level::Warning,
        };
        let late = self.why_late(stage);
        let what = format!(
            "the model waited {} of the time, for `{stage}`: {}",
            percent(stall),
            late.what
        );
        let measure = "share of the time that the model waited";
        let mut found = Finding::new(late.cause, level, stall, what).because(measure, stall, most);
        found.evidence.extend(late.evidence);
        found.changes = late.changes;
        Some(found)
    }

    /// From the late stage back to what held it up. How much that costs is left to the caller.
    fn why_late(&self, stage: &str) -> Finding {
        if self.run.fact(fact::OVERLAP) == Some("off") {
            let change = "let the stages run at the same time";
            return cause(Cause::NoOverlap).advise(Advice::set(
                AdvisedSetting::NoOverlap,
                false,
                change,
            ));
        }
        if *stage == StageId::Prepare {
            return self.slow_transfer();
        }
        if *stage == StageId::Collate || *stage == StageId::Batch {
            return self.slow_collating();
        }
        let Some(featurize) = self.stage(StageId::Featurize) else {
            return cause(Cause::SlowWorkers);
        };
        let worker_seconds = featurize.workers as f64 * self.line.seconds.max(1e-9);
        let for_bytes = featurize
            .waits_ms
            .get(Wait::Bytes.name())
            .copied()
            .unwrap_or(0.0);
        let bytes = for_bytes / 1e3 * featurize.ms.count as f64 / worker_seconds;
        if bytes > BYTES {
            let measure = "share of the workers' time spent waiting for memory";
            return cause(Cause::MemoryBudget)
                .because(measure, bytes, BYTES)
                .advise(format!(
                    "give {} more, or leave it out: a quarter of the memory",
                    AdvisedSetting::RamBudget
                ))
                .advise(format!(
                    "or make batches smaller with {} and {}",
                    AdvisedSetting::BatchSize,
                    AdvisedSetting::GradientAccumulationSteps
                ));
        }
        // What a full buffer bridges, and what there is to bridge.
        let busy = featurize.busy;
        let step_ms = self.line.train * 1e3 / self.profile.steps.max(1) as f64;
        let ahead = self.run.number(fact::BUFFER).unwrap_or(0.0)
            + self.run.number(fact::SLOTS).unwrap_or(0.0);
        if busy < 0.75 && ahead * step_ms < 2.0 * featurize.ms.max {
            return self.small_buffer(busy, ahead * step_ms, featurize.ms.max);
        }
        let usual = featurize.ms.p95.max(1e-6);
        let huge = featurize.ms.max / usual;
        if huge > HUGE && featurize.ms.mean > 1.5 * featurize.ms.p50 {
            return self.huge_clip(huge);
        }
        let read = part_of_featurize(self.run, StageId::Read);
        if read > 0.5 {
            return cause(Cause::SlowDisk)
                .because(
                    "share of computing features that is reading files",
                    read,
                    0.5,
                )
                .advise(Advice::asking(
                    WARM,
                    "`voxmill prepare` once: then features come from the cache, not from the files",
                ))
                .advise(Advice::asking(
                    "disk=2x",
                    format!(
                        "or put the dataset or {} on a faster disk (the gain is that of one twice as fast)",
                        AdvisedSetting::CacheDir
                    ),
                ))
                .advise(self.more_workers(featurize));
        }
        let resample = part_of_featurize(self.run, StageId::Resample);
        if resample > 0.5 {
            return cause(Cause::SlowResampling)
                .because(
                    "share of computing features that is resampling",
                    resample,
                    0.5,
                )
                .advise(Advice::asking(
                    WARM,
                    "`voxmill prepare` once: the cache keeps what is resampled",
                ))
                .advise(self.more_workers(featurize));
        }
        self.slow_workers(featurize)
    }

    fn slow_workers(&self, featurize: &StageTime) -> Finding {
        let steps = self.profile.steps as f64;
        let data_work = self.data_seconds() / steps;
        let step = self.line.train / steps;
        let for_each_core = data_work / self.cores;
        let decoded = self.stage(StageId::Decode).map_or(0, |part| part.ms.count);
        let share = decoded as f64 / featurize.ms.count.max(1) as f64;
        let cache = self.run.fact(fact::CACHE).unwrap_or("");
        if share > 0.25 && cache != "off" && cache != "warm" {
            return cause(Cause::ColdCache)
                .because("share of clips whose file was decoded", share, 0.25)
                .advise("the next epoch finds them in the cache: it is over by itself")
                .advise(Advice::asking(
                    WARM,
                    "`voxmill prepare` computes all of it ahead",
                ));
        }
        if for_each_core > 0.8 * step {
            let measure = "seconds of data work a step, for each core, compared with a step's own";
            return cause(Cause::ModelTooSmall)
                .because(measure, for_each_core, 0.8 * step)
                .advise(format!(
                    "a larger {} has more to do with each clip",
                    AdvisedSetting::ModelSize
                ))
                .advise(format!(
                    "keep features in the cache (leave {} out), so that there is less to do",
                    AdvisedSetting::EnableCaching
                ));
        }
        let few = (featurize.workers as f64) < self.cores;
        let (found, advice) = match few {
            true => (Cause::FewWorkers, self.more_workers(featurize)),
            false => (
                Cause::SlowWorkers,
                "keep features in the cache (`voxmill prepare`), or use a machine with more cores"
                    .into(),
            ),
        };
        let measure = "share of the workers' time that was work";
        cause(found)
            .because(measure, featurize.busy, 0.75)
            .advise(advice)
    }

    /// All stages of the plan, their workers together; parts are in their stage.
    pub(super) fn data_seconds(&self) -> f64 {
        data_work(&self.profile.stages) / self.run.counted_over(self.line.seconds)
    }

    /// As many as the model's own pace needs, and a tenth to spare.
    fn more_workers(&self, featurize: &StageTime) -> Advice {
        let steps = self.profile.steps.max(1) as f64;
        let counted = self.run.counted_over(self.line.seconds);
        let rows = featurize.ms.count as f64 / counted / steps;
        let step_ms = self.line.train * 1e3 / steps;
        let enough = (1.1 * rows * featurize.ms.mean / step_ms.max(1e-6)).ceil();
        let enough = enough.max(featurize.workers as f64 + 1.0);
        let what = format!(
            "a step's {rows:.0} clips take {:.0} ms of work, and a step {step_ms:.0} ms: {enough:.0} workers keep up",
            rows * featurize.ms.mean
        );
        Advice::set(AdvisedSetting::NumWorkers, enough as u64, what)
    }

    fn slow_transfer(&self) -> Finding {
        let measure = "share of the time in which batches were transferred to the device";
        let change = "let the workers compute the frames";
        cause(Cause::SlowTransfer)
            .because(measure, self.stage_busy(StageId::Prepare), 0.75)
            .advise(Advice::set(AdvisedSetting::PrepareOn, "host", change))
            .advise("see `voxmill devices` for how the devices are linked; one device has no transfer between two")
    }

    fn slow_collating(&self) -> Finding {
        let measure = "share of the time that batches were being put together";
        cause(Cause::SlowCollating)
            .because(measure, self.stage_busy(StageId::Collate), 0.75)
            .advise(format!(
                "smaller batches ({} with {}) are put together faster",
                AdvisedSetting::BatchSize,
                AdvisedSetting::GradientAccumulationSteps
            ))
            .advise(format!(
                "fewer workers leave collating more of the CPU: {}",
                AdvisedSetting::NumWorkers
            ))
    }

    fn small_buffer(&self, busy: f64, bridged_ms: f64, longest_ms: f64) -> Finding {
        let spare = "share of the workers' time that was work; they had time to spare";
        let bridged = "milliseconds that full buffers bridge, compared with twice the slowest clip";
        let buffer = self.run.number(fact::BUFFER).unwrap_or(1.0);
        let larger = (buffer * 4.0).max(50.0) as u64;
        let what = "workers wait for room at times and the model for batches at others: a larger buffer bridges that";
        cause(Cause::SmallBuffer)
            .because(spare, busy, 0.75)
            .because(bridged, bridged_ms, 2.0 * longest_ms)
            .advise(Advice::set(AdvisedSetting::BufferSize, larger, what))
    }

    fn huge_clip(&self, times: f64) -> Finding {
        let slow = self.run.slow.iter();
        let slow = slow.filter(|slow| *slow.stage == StageId::Featurize);
        let name = slow
            .max_by_key(|slow| slow.service)
            .map_or(String::new(), |slow| format!(", such as {}", slow.name));
        let measure = "the slowest clip, as a multiple of p95";
        cause(Cause::HugeClip)
            .because(measure, times, HUGE)
            .advise(format!("a few clips delay all clips after them{name}: leave them out with {}, or `voxmill prepare` once", AdvisedSetting::MaxMelFrames))
            .advise(Advice::set(AdvisedSetting::Unordered, true, "or let others overtake them"))
    }
}

/// A cause with its words, before it is known how much it costs.
fn cause(cause: Cause) -> Finding {
    let words = match cause {
        Cause::SlowDisk => "reading the files is slow",
        Cause::FewWorkers => "too few workers compute features",
        Cause::SlowWorkers => "all cores compute features and do not keep up",
        Cause::SmallBuffer => "the buffer is too small to bridge uneven clips",
        Cause::SlowResampling => "clips are resampled, and that is slow",
        Cause::HugeClip => "a few clips take very much longer than the rest",
        Cause::SlowCollating => "putting batches together is slow",
        Cause::SlowTransfer => "bringing batches to the device is slow",
        Cause::MemoryBudget => "the memory budget lets too little be computed ahead",
        Cause::ColdCache => "the cache is cold, so files are decoded",
        Cause::ModelTooSmall => {
            "the model is done with a batch before this machine can prepare the next"
        }
        Cause::NoOverlap => {
            let words = format!(
                "the stages run one after another ({})",
                AdvisedSetting::NoOverlap
            );
            return Finding::new(cause, Level::Note, 0.0, words);
        }
        _ => "see the evidence",
    };
    Finding::new(cause, Level::Note, 0.0, words)
}
