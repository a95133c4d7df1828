//! The model waited: from the stage that was late back to what held it up.

use super::{Advice, Cause, Diagnosis, Evidence, Finding, Level, evidence, setting, thresholds};
use crate::profile::{StageTime, part_of_featurize};
use crate::run::fact;
use voxmill_telemetry::stage::{StageId, is_part};

impl Diagnosis<'_> {
    /// The model waited for batches.
    pub(super) fn waiting(&self) -> Option<Finding> {
        let stall = self.line.stall();
        let (stage, _) = self.line.latest_stage()?;
        if stall < thresholds::STALL {
            return None;
        }
        let transfer = *stage == StageId::Prepare;
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
    fn why_late(&self, stage: &str) -> (Cause, Vec<Evidence>, Vec<Advice>) {
        if self.run.fact(fact::OVERLAP) == Some("off") {
            let change = Advice::words("leave --no-overlap out");
            return (Cause::NoOverlap, Vec::new(), vec![change]);
        }
        if *stage == StageId::Prepare {
            return self.slow_transfer();
        }
        if *stage == StageId::Collate || *stage == StageId::Batch {
            return self.slow_collating();
        }
        let Some(featurize) = self.stage(StageId::Featurize) else {
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
                Advice::words(
                    "give --ram-budget more (data: { ram_budget: … }), or leave it out: a quarter of the memory",
                ),
                Advice::words("or make batches smaller with --batch-size and --grad-accum"),
            ];
            return (Cause::MemoryBudget, vec![shown], changes);
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
        if huge > thresholds::HUGE && featurize.ms.mean > 1.5 * featurize.ms.p50 {
            return self.huge_clip(huge);
        }
        let read = part_of_featurize(self.run, StageId::Read);
        if read > 0.5 {
            return self.slow_disk(read);
        }
        let resample = part_of_featurize(self.run, StageId::Resample);
        if resample > 0.5 {
            let shown = evidence("share of making features that is resampling", resample, 0.5);
            let changes = vec![
                Advice::words("`voxmill prepare` once: the cache keeps what is resampled"),
                self.more_workers(featurize),
            ];
            return (Cause::SlowResampling, vec![shown], changes);
        }
        self.slow_workers(featurize)
    }

    fn slow_workers(&self, featurize: &StageTime) -> (Cause, Vec<Evidence>, Vec<Advice>) {
        let steps = self.profile.steps as f64;
        let data_work = self.data_seconds() / steps;
        let step = self.line.train / steps;
        let for_each_core = data_work / self.cores;
        let decoded = self.stage(StageId::Decode).map_or(0, |part| part.ms.count);
        let share = decoded as f64 / featurize.ms.count.max(1) as f64;
        let cache = self.run.fact(fact::CACHE).unwrap_or("");
        if share > 0.25 && cache != "off" && cache != "warm" {
            let shown = evidence("share of clips whose file was decoded", share, 0.25);
            let changes = vec![
                Advice::words("the next epoch finds them in the cache: it is over by itself"),
                Advice::words("`voxmill prepare` makes all of it ahead"),
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
                Advice::words("a larger --model-size has more to do with each clip"),
                Advice::words(
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
        let changes = vec![Advice::words(
            "keep features in the cache (`voxmill prepare`), or use a machine with more cores",
        )];
        (Cause::SlowWorkers, vec![shown], changes)
    }

    /// All stages of the plan, their workers together; parts are in their stage.
    pub(super) fn data_seconds(&self) -> f64 {
        let stages = self.profile.stages.iter();
        let whole = stages.filter(|stage| !is_part(&stage.name));
        whole
            .map(|stage| stage.ms.mean / 1e3 * stage.ms.count as f64)
            .sum()
    }

    /// As many as the model's own pace needs, and a tenth to spare.
    fn more_workers(&self, featurize: &StageTime) -> Advice {
        let steps = self.profile.steps.max(1) as f64;
        let rows = featurize.ms.count as f64 / steps;
        let step_ms = self.line.train * 1e3 / steps;
        let enough = (1.1 * rows * featurize.ms.mean / step_ms.max(1e-6)).ceil();
        let enough = enough.max(featurize.workers as f64 + 1.0);
        let what = format!(
            "a step's {rows:.0} clips take {:.0} ms of work, and a step {step_ms:.0} ms: {enough:.0} workers keep up",
            rows * featurize.ms.mean
        );
        Advice::set(setting::NUM_WORKERS, enough as u64, what)
    }

    fn slow_disk(&self, read: f64) -> (Cause, Vec<Evidence>, Vec<Advice>) {
        let shown = evidence("share of making features that is reading files", read, 0.5);
        let mut changes = vec![
            Advice::words(
                "`voxmill prepare` once: then features come from the cache, not from the files",
            ),
            Advice::words("or put the dataset or --cache-dir on a faster disk"),
        ];
        if let Some(featurize) = self.stage(StageId::Featurize) {
            changes.push(self.more_workers(featurize));
        }
        (Cause::SlowDisk, vec![shown], changes)
    }

    fn slow_transfer(&self) -> (Cause, Vec<Evidence>, Vec<Advice>) {
        let prepare = self.stage(StageId::Prepare);
        let busy = prepare.map_or(0.0, |stage| stage.busy);
        let shown = evidence(
            "share of the time that batches were being brought to the device",
            busy,
            0.75,
        );
        let changes = vec![
            Advice::words(
                "let the workers make the frames: --prepare-on host (data: { prepare_on: host })",
            ),
            Advice::words(
                "see `voxmill devices` for how the devices are linked; one device has no transfer between two",
            ),
        ];
        (Cause::SlowTransfer, vec![shown], changes)
    }

    fn slow_collating(&self) -> (Cause, Vec<Evidence>, Vec<Advice>) {
        let collate = self.stage(StageId::Collate);
        let busy = collate.map_or(0.0, |stage| stage.busy);
        let shown = evidence(
            "share of the time that batches were being put together",
            busy,
            0.75,
        );
        let changes = vec![
            Advice::words(
                "smaller batches (--batch-size with --grad-accum) are put together faster",
            ),
            Advice::words("fewer workers leave collating more of the CPU: --num-workers"),
        ];
        (Cause::SlowCollating, vec![shown], changes)
    }

    fn small_buffer(
        &self,
        busy: f64,
        bridged_ms: f64,
        longest_ms: f64,
    ) -> (Cause, Vec<Evidence>, Vec<Advice>) {
        let shown = vec![
            evidence(
                "share of the workers' time that was work; they had time to spare",
                busy,
                0.75,
            ),
            evidence(
                "milliseconds that full buffers bridge, against twice the slowest clip",
                bridged_ms,
                2.0 * longest_ms,
            ),
        ];
        let buffer = self.run.number(fact::BUFFER).unwrap_or(1.0);
        let larger = (buffer * 4.0).max(50.0) as u64;
        let what = "workers wait for room at times and the model for batches at others: a larger buffer bridges that";
        (
            Cause::SmallBuffer,
            shown,
            vec![Advice::set(setting::BUFFER_SIZE, larger, what)],
        )
    }

    fn huge_clip(&self, times: f64) -> (Cause, Vec<Evidence>, Vec<Advice>) {
        let shown = evidence(
            "the slowest clip, in times of the slow ones (p95)",
            times,
            thresholds::HUGE,
        );
        let slowest = self
            .run
            .slow
            .iter()
            .filter(|slow| *slow.stage == StageId::Featurize);
        let name = slowest
            .max_by_key(|slow| slow.service)
            .map_or(String::new(), |slow| format!(", such as {}", slow.name));
        let changes = vec![
            Advice::words(format!(
                "a few clips hold up all that comes after them{name}: leave them out with --max-mel-frames, or `voxmill prepare` once"
            )),
            Advice::words("or let others overtake them: --unordered (data: { unordered: true })"),
        ];
        (Cause::HugeClip, vec![shown], changes)
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
