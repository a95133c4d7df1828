//! Moves workers and buffer capacity towards the stage that limits, while the pipeline runs.
//!
//! What it does, in five sentences:
//! 1. It measures the pipeline with one setting, for as long as the scatter of the measure asks for, and
//!    is content if the consumer waits less than 2 % of its time.
//! 2. Otherwise it tries the change that promises most: workers for the slowest stages, as many as the
//!    ratio of busy times suggests and, once the budget is used up, from stages with a surplus; or larger
//!    buffers where a buffer was full at one time and empty at another.
//! 3. It measures again and takes the change back unless the consumer is served better beyond the noise;
//!    a setting that was left is not tried again, and a stage that more workers do not help is tried
//!    with fewer.
//! 4. When nothing untried promises a gain, it settles, and reports what limits.
//! 5. It searches again only when the rate, a stage's time for an item or the consumer's waiting differs
//!    clearly, twice in a row, from what it was when it settled.
//!
//! It has no clock, no thread and no randomness: the same snapshots give the same decisions.

mod decision;
mod measure;
mod settings;
mod settled;
mod trial;

#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;

use std::time::Duration;
use voxmill_format::percent;

use voxmill_telemetry::event::{DecidedChange, Decision};

use crate::counters::RunSnapshot;
use crate::plan::Plan;
use measure::{CERTAIN, Estimate, MeasureWindow, Measurement};
use settings::{Bounds, Settings};
use settled::Baseline;
use trial::{FED, Load, StageScaling, Trial, TrialKind, TrialSearch};

/// A gain or loss of less is none, however well it was measured.
const NEGLIGIBLE: f64 = 0.01;
/// Standard errors that a difference must exceed when there is no more time to measure; before,
/// it must be [`CERTAIN`], so that checking often does not find one by chance.
const AT_LAST: f64 = 2.0;
/// A predicted gain of this many standard errors is tried without measuring longer: a fifth of it
/// would still be seen.
const LARGE_GAIN: f64 = 10.0;
/// A loss that is not more may be paid for a worker less: others may make more of it.
const PRICE_OF_FEWER: f64 = 0.025;
/// The share of its predicted gain that a raise must bring to be kept, and for the stage to count
/// as one that scales.
const MEAGRE: f64 = 0.05;
const PAYS: f64 = 0.8;
/// How often in a row the load must differ from that at settling.
const IN_A_ROW: u32 = 2;
/// So many trials find whatever there is to find.
const MOST_TRIALS: usize = 40;
/// A known setting whose rate is now another by more than this share has another load.
const OTHER_LOAD: f64 = 0.1;
const SHORTEST_INTERVAL: Duration = Duration::from_millis(50);
const LONGEST_INTERVAL: Duration = Duration::from_secs(1);

/// Decides from snapshots what to change. See the head of this file for how.
#[derive(Clone, Debug)]
pub(crate) struct Controller {
    bounds: Bounds,
    /// What was asked for last; unknown before the first snapshot.
    now: Option<Settings>,
    window: MeasureWindow,
    phase: Phase,
    /// Settings that were left for a better one.
    tried: Vec<Settings>,
    scaling: Vec<StageScaling>,
    trials: usize,
    /// A large predicted gain may be tried before the measure is sure.
    hasty: bool,
    interval: Duration,
}

#[derive(Clone, Debug)]
enum Phase {
    /// With the rate that this setting had before another one was tried and left.
    Searching {
        again: Option<Estimate>,
    },
    Trying {
        before: Settings,
        measured_before: Measurement,
        trial: Trial,
    },
    Settled {
        baseline: Baseline,
        changed: u32,
    },
}

impl Controller {
    /// `single` lists stages that cannot have more than one worker; the source is one anyhow.
    /// `None` where the plan does not adapt or its stages do not overlap.
    pub(crate) fn new(plan: &Plan, single: &[usize]) -> Option<Controller> {
        let bounds = Bounds::new(plan, single)?;
        Some(Controller {
            scaling: vec![StageScaling::Unknown; bounds.stages.len()],
            bounds,
            now: None,
            window: MeasureWindow::default(),
            phase: Phase::Searching { again: None },
            tried: Vec::new(),
            trials: 0,
            hasty: true,
            interval: SHORTEST_INTERVAL,
        })
    }

    /// After this time, and not much earlier, another snapshot is of use.
    pub(crate) fn next_snapshot(&self) -> Duration {
        self.interval
    }

    /// Takes the pipeline's state and decides what to change. Decisions are to be carried out in their order:
    /// a stage gives workers up before another gets them, so their sum never exceeds the budget.
    pub(crate) fn observe(&mut self, snapshot: &RunSnapshot) -> Vec<Decision> {
        let is_ending = snapshot.stages.iter().any(|stage| stage.workers == 0);
        if is_ending || snapshot.stages.len() != self.bounds.stages.len() + 1 {
            return Vec::new();
        }
        let bounds = &self.bounds;
        let asked = self.now.get_or_insert_with(|| bounds.settings_in(snapshot));
        if !self.window.add(snapshot, asked) {
            return Vec::new();
        }
        // What the engine could not do is not there.
        *asked = bounds.settings_in(snapshot);
        let now = asked.clone();
        let measured = self.window.measurement().clone();
        let rate = measured.rate();
        if rate.value > 0.0 {
            let slice = Duration::from_secs_f64((8.0 / rate.value).min(60.0));
            self.interval = slice.clamp(SHORTEST_INTERVAL, LONGEST_INTERVAL);
        }
        match self.phase.clone() {
            Phase::Searching { again } => self.search_again(&now, &measured, again),
            Phase::Trying {
                before,
                measured_before,
                trial,
            } => self.judge(&now, &measured, &before, &measured_before, &trial),
            Phase::Settled { baseline, changed } => self.watch(&measured, baseline, changed),
        }
    }

    /// Back at a setting that is known: a trial was judged against a load that is no more, if the
    /// rate is now another.
    fn search_again(
        &mut self,
        now: &Settings,
        measured: &Measurement,
        known: Option<Estimate>,
    ) -> Vec<Decision> {
        if let Some(known) = known {
            if !measured.is_sure() {
                return Vec::new();
            }
            if measured.rate().differs_from(known, OTHER_LOAD) {
                self.forget();
            }
            self.phase = Phase::Searching { again: None };
        }
        self.search(now, measured)
    }

    fn forget(&mut self) {
        self.tried.clear();
        self.scaling.fill(StageScaling::Unknown);
    }

    fn search(&mut self, now: &Settings, measured: &Measurement) -> Vec<Decision> {
        let rate = measured.rate();
        if rate.value <= 0.0 {
            // The pipeline stands still: a pause, or the end. Nothing can be learnt from it.
            self.window.again();
            return Vec::new();
        }
        let load = Load::of(measured, self.bounds.stages.len());
        let fed = load.waits < FED;
        let trial = if fed || self.trials >= MOST_TRIALS {
            None
        } else {
            let search = TrialSearch {
                bounds: &self.bounds,
                now,
                load: &load,
                scaling: &self.scaling,
                tried: &self.tried,
            };
            search.next()
        };
        let large = |trial: &Trial| self.hasty && trial.predicted - 1.0 > LARGE_GAIN * rate.error;
        if !measured.is_sure() && !trial.as_ref().is_some_and(large) {
            return Vec::new();
        }
        let Some(trial) = trial else {
            return match measured.is_lasting() {
                true => vec![self.settle(now, measured, &load)],
                false => Vec::new(),
            };
        };
        self.trials += 1;
        let decisions = self.go(now, &trial.to, false, |gets| trial.reason_if(gets));
        self.phase = Phase::Trying {
            before: now.clone(),
            measured_before: measured.clone(),
            trial,
        };
        decisions
    }

    fn judge(
        &mut self,
        now: &Settings,
        measured: &Measurement,
        before: &Settings,
        measured_before: &Measurement,
        trial: &Trial,
    ) -> Vec<Decision> {
        // A larger buffer acts through the consumer's waiting alone, and waiting is not blurred by
        // how uneven the consumer itself is. Workers may also slow others down: only the rate shows it.
        // A buffer that is too large also costs less than a worker too many.
        let (quantity, at_last): (fn(&Measurement) -> Estimate, f64) = match trial.kind {
            TrialKind::Capacity => (Measurement::fed, 1.0),
            TrialKind::Workers | TrialKind::Fewer => (Measurement::rate, AT_LAST),
        };
        let (then, after) = (quantity(measured_before), quantity(measured));
        let gain = after.value / then.value - 1.0;
        let noise = after.error.hypot(then.error);
        let sure = measured.is_sure();
        let bound = NEGLIGIBLE.max(noise * if sure { at_last } else { CERTAIN });
        let (better, worse) = (gain > bound, gain < -bound);
        if !sure && !better && !worse {
            return Vec::new();
        }
        let meagre = trial.kind == TrialKind::Workers && gain < MEAGRE * (trial.predicted - 1.0);
        let keep = better && !meagre || trial.kind == TrialKind::Fewer && gain > -PRICE_OF_FEWER;
        // A gain that is lost in the noise of a hasty measurement deserves a second try.
        let conclusive = keep || gain <= 0.0 || measured_before.is_sure();
        if conclusive {
            self.learn(before, measured, gain, keep, trial);
        }
        if keep {
            // Workers that were only added may turn out to be in the way, and go again; not where they
            // brought so much that another load would have to explain it.
            let added = trial.kind == TrialKind::Workers && !trial.gives_away(before);
            if !added || gain > OTHER_LOAD {
                self.tried.push(before.clone());
            }
            self.hasty = true;
            self.phase = Phase::Searching { again: None };
            // The measure of the trial is that of the setting now in force.
            return self.search(now, measured);
        }
        if conclusive {
            self.tried.push(trial.to.clone());
        }
        self.hasty = false;
        self.phase = Phase::Searching {
            again: Some(measured_before.rate()),
        };
        let verdict = match (worse, better) {
            (true, _) => "worse",
            (false, true) => "hardly better",
            (false, false) => "no better beyond the noise",
        };
        let reason = format!(
            "{verdict}: {:.1} items/s instead of {:.1}, `{}` waited {} of the time instead of {} (noise {})",
            measured.rate().value,
            measured_before.rate().value,
            self.bounds.consumer,
            percent(1.0 - measured.fed().value),
            percent(1.0 - measured_before.fed().value),
            percent(noise * at_last),
        );
        self.go(now, before, true, |_| reason.clone())
    }

    /// Remembers what more workers did for the stages that got them.
    fn learn(
        &mut self,
        before: &Settings,
        measured: &Measurement,
        gain: f64,
        keep: bool,
        trial: &Trial,
    ) {
        if trial.kind == TrialKind::Fewer && keep {
            // What was no help while these were in the way may be one now.
            for stage in (0..self.scaling.len()).filter(|&stage| stage != trial.about) {
                self.scaling[stage] = StageScaling::Unknown;
            }
        }
        if trial.kind != TrialKind::Workers {
            return;
        }
        let load = Load::of(measured, self.bounds.stages.len());
        let raised = before.workers.iter().zip(&trial.to.workers);
        let alone = raised.into_iter().filter(|(from, to)| to > from).count() == 1;
        for stage in 0..self.scaling.len() {
            let (from, workers) = (before.workers[stage], trial.to.workers[stage]);
            if workers <= from {
                continue;
            }
            let saturated = load.is_saturated(stage);
            if keep && gain >= PAYS * (trial.predicted - 1.0) {
                self.scaling[stage] = StageScaling::Pays;
            } else if keep && saturated {
                self.scaling[stage] = StageScaling::Doubtful;
            } else if saturated && alone && workers == from + 1 {
                self.scaling[stage] = StageScaling::Exhausted { workers, gain };
            }
        }
    }

    fn watch(&mut self, measured: &Measurement, baseline: Baseline, changed: u32) -> Vec<Decision> {
        if !measured.is_lasting() {
            return Vec::new();
        }
        let difference = baseline.difference(&self.bounds, measured);
        self.window.again();
        let changed = difference.as_ref().map_or(0, |_| changed + 1);
        self.phase = Phase::Settled { baseline, changed };
        let Some(reason) = difference.filter(|_| changed >= IN_A_ROW) else {
            return Vec::new();
        };
        self.phase = Phase::Searching { again: None };
        self.forget();
        self.trials = 0;
        self.hasty = true;
        vec![Decision {
            subject: String::new(),
            change: DecidedChange::Reopened,
            reason,
        }]
    }

    fn settle(&mut self, now: &Settings, measured: &Measurement, load: &Load) -> Decision {
        let baseline = Baseline::of(measured, self.bounds.stages.len());
        self.phase = Phase::Settled {
            baseline,
            changed: 0,
        };
        self.window.again();
        let subject = match load.waits < FED {
            true => String::new(),
            false => self.bounds.stages[load.limiting()].name.clone(),
        };
        Decision {
            subject,
            change: DecidedChange::Settled,
            reason: settled::why(&self.bounds, now, load, &self.scaling),
        }
    }

    /// Goes from one setting to another; the reason may depend on whether a stage gets or gives.
    fn go(
        &mut self,
        from: &Settings,
        to: &Settings,
        back: bool,
        reason: impl Fn(bool) -> String,
    ) -> Vec<Decision> {
        self.now = Some(to.clone());
        self.window.after_change();
        let changes = decision::changes(from, to, back).into_iter();
        let decisions = changes.map(|(gets, stage, change)| Decision {
            subject: self.bounds.stages[stage].name.clone(),
            change,
            reason: reason(gets),
        });
        decisions.collect()
    }
}
