//! Moves workers and buffer capacity towards the stage that limits, while the road runs.
//!
//! What it does, in five sentences:
//! 1. It measures the road with one setting, for as long as the scatter of the measure asks for, and
//!    is content if the consumer waits less than 2 % of its time.
//! 2. Otherwise it tries the change that promises most: workers for the slowest stages, as many as the
//!    ratio of busy times says and, once the budget is used up, from stages with a surplus; or larger
//!    buffers where a buffer was full at one time and empty at another.
//! 3. It measures again and takes the change back if the consumer was not served better beyond the noise;
//!    a setting that was left is not tried again, and a stage that more workers do not help is tried
//!    with fewer.
//! 4. When nothing untried promises a gain, it settles, and says what limits.
//! 5. It looks again only when the rate, a stage's time for an item or the consumer's waiting differs
//!    clearly, twice in a row, from what it was when it settled.
//!
//! It has no clock, no thread and no randomness: the same snapshots give the same decisions.

mod measure;
mod settings;
mod trial;

#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;

use std::time::Duration;

use voxmill_telemetry::event::{DecidedChange, Decision};
use voxmill_telemetry::plan::Plan;

use crate::counters::Snapshot;
use measure::{Estimate, Measurement, Meter};
use settings::{Hold, Road, Settings, Stage};
use trial::{FED, Kind, Load, Scaling, Trial, percent};

/// A gain or loss of less is none, however well it was measured.
const NEGLIGIBLE: f64 = 0.01;
/// Standard errors that a difference must exceed: when there is still time to look longer (so that
/// looking often does not find a difference by chance), and at last.
const EARLY: f64 = 4.0;
const AT_LAST: f64 = 2.0;
/// A predicted gain of so many standard errors is tried without looking longer: a fifth of it
/// would still be seen.
const LARGE_GAIN: f64 = 10.0;
/// The share of its predicted gain that a raise must bring for the stage to count as one that scales.
const PAYS: f64 = 0.8;
/// By how much the load must differ to look again, and how often in a row.
const CLEAR_CHANGE: f64 = 0.2;
const CLEAR_WAITING: f64 = 0.08;
const IN_A_ROW: u32 = 2;
/// So many trials find whatever there is to find.
const MOST_TRIALS: usize = 40;
const SHORTEST_LOOK: Duration = Duration::from_millis(50);
const LONGEST_LOOK: Duration = Duration::from_secs(1);

/// A decision, and what the engine has to do for it, if anything.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    pub action: Option<Action>,
    pub decision: Decision,
}

/// `stage` is the index in the plan's stages; a capacity is that of the buffer behind the stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Workers {
        stage: usize,
        from: usize,
        to: usize,
    },
    Capacity {
        stage: usize,
        from: usize,
        to: usize,
    },
}

/// Decides from snapshots what to change. See the head of this file for how.
#[derive(Clone, Debug)]
pub struct Controller {
    road: Road,
    /// What was asked for last; unknown before the first snapshot.
    now: Option<Settings>,
    meter: Meter,
    phase: Phase,
    /// Settings that were left for a better one.
    tried: Vec<Settings>,
    scaling: Vec<Scaling>,
    trials: usize,
    /// A large predicted gain may be tried before the measure is sure.
    hasty: bool,
    look: Duration,
}

#[derive(Clone, Debug)]
enum Phase {
    /// With the rate that this setting had before another one was tried and left.
    Looking {
        again: Option<Estimate>,
    },
    Trying {
        before: Settings,
        measured_before: Measurement,
        trial: Trial,
    },
    Settled {
        reference: Reference,
        changed: u32,
    },
}

/// The load at the time of settling.
#[derive(Clone, Debug)]
struct Reference {
    rate: Estimate,
    services: Vec<Estimate>,
    fed: Estimate,
}

impl Controller {
    /// `single` lists stages that cannot have more than one worker; the source is one anyhow.
    /// `None` where the plan does not adapt or its stages do not overlap.
    pub fn new(plan: &Plan, single: &[usize]) -> Option<Controller> {
        let road = Road::new(plan, single)?;
        Some(Controller {
            scaling: vec![Scaling::Unknown; road.stages.len()],
            road,
            now: None,
            meter: Meter::default(),
            phase: Phase::Looking { again: None },
            tried: Vec::new(),
            trials: 0,
            hasty: true,
            look: SHORTEST_LOOK,
        })
    }

    /// After this time, and not much earlier, another snapshot is of use.
    pub fn next_look(&self) -> Duration {
        self.look
    }

    /// Takes the road's state and says what to change. Actions are to be carried out in their order:
    /// a stage gives workers up before another gets them, so their sum never exceeds the budget.
    pub fn observe(&mut self, snapshot: &Snapshot) -> Vec<Change> {
        if snapshot.stages.len() != self.road.stages.len() + 1 {
            return Vec::new();
        }
        let road = &self.road;
        let asked = self.now.get_or_insert_with(|| road.settings_in(snapshot));
        if !self.meter.add(snapshot, asked) {
            return Vec::new();
        }
        // What the engine could not do is not there.
        *asked = road.settings_in(snapshot);
        let now = asked.clone();
        let measured = self.meter.measurement().clone();
        let rate = measured.rate();
        if rate.value > 0.0 {
            let slice = Duration::from_secs_f64((8.0 / rate.value).min(60.0));
            self.look = slice.clamp(SHORTEST_LOOK, LONGEST_LOOK);
        }
        match self.phase.clone() {
            Phase::Looking { again } => self.look_again(&now, &measured, again),
            Phase::Trying {
                before,
                measured_before,
                trial,
            } => self.judge(&now, &measured, &before, &measured_before, &trial),
            Phase::Settled { reference, changed } => self.watch(&measured, reference, changed),
        }
    }

    /// Back at a setting that is known: a trial was judged against a load that is no more, if the
    /// rate is now another.
    fn look_again(
        &mut self,
        now: &Settings,
        measured: &Measurement,
        known: Option<Estimate>,
    ) -> Vec<Change> {
        if let Some(known) = known {
            if !measured.is_sure() {
                return Vec::new();
            }
            if differs(measured.rate(), known, CLEAR_CHANGE / 2.0) {
                self.forget();
            }
            self.phase = Phase::Looking { again: None };
        }
        self.look_for_more(now, measured)
    }

    fn forget(&mut self) {
        self.tried.clear();
        self.scaling.fill(Scaling::Unknown);
    }

    fn look_for_more(&mut self, now: &Settings, measured: &Measurement) -> Vec<Change> {
        let rate = measured.rate();
        if rate.value <= 0.0 {
            // The road stands still: a pause, or the end. Nothing can be learnt from it.
            self.meter.again();
            return Vec::new();
        }
        let load = Load::of(measured, self.road.stages.len());
        let fed = load.waits < FED;
        let trial = if fed || self.trials >= MOST_TRIALS {
            None
        } else {
            trial::next(&self.road, now, &load, &self.scaling, &self.tried)
        };
        let large = |trial: &Trial| self.hasty && trial.predicted - 1.0 > LARGE_GAIN * rate.error;
        if !measured.is_sure() && !trial.as_ref().is_some_and(large) {
            return Vec::new();
        }
        let Some(trial) = trial else {
            if !measured.is_lasting() {
                return Vec::new();
            }
            return vec![self.settle(now, measured, &load)];
        };
        self.trials += 1;
        let changes = self.go(now, &trial.to, |action| trial_decision(action, &trial));
        self.phase = Phase::Trying {
            before: now.clone(),
            measured_before: measured.clone(),
            trial,
        };
        changes
    }

    fn judge(
        &mut self,
        now: &Settings,
        measured: &Measurement,
        before: &Settings,
        measured_before: &Measurement,
        trial: &Trial,
    ) -> Vec<Change> {
        // A larger buffer acts through the consumer's waiting alone, and waiting is not blurred by
        // how uneven the consumer itself is. Workers may also slow others down: only the rate tells.
        // A buffer that is too large also costs less than a worker too many.
        let (quantity, at_last): (fn(&Measurement) -> Estimate, f64) = match trial.kind {
            Kind::Capacity => (Measurement::fed, 1.0),
            Kind::Workers | Kind::Fewer => (Measurement::rate, AT_LAST),
        };
        let (then, after) = (quantity(measured_before), quantity(measured));
        let gain = after.value / then.value - 1.0;
        let noise = after.error.hypot(then.error);
        let sure = measured.is_sure();
        let bound = NEGLIGIBLE.max(noise * if sure { at_last } else { EARLY });
        let better = gain > bound;
        let worse = gain < -bound;
        if !sure && !better && !worse {
            return Vec::new();
        }
        let keep = better || trial.kind == Kind::Fewer && gain > -NEGLIGIBLE;
        // A gain that is lost in the noise of a hasty look deserves a second try.
        let conclusive = keep || gain <= 0.0 || measured_before.is_sure();
        if conclusive {
            self.learn(before, measured, gain, keep, trial);
        }
        if keep {
            self.tried.push(before.clone());
            self.hasty = true;
            self.phase = Phase::Looking { again: None };
            // The measure of the trial is that of the setting now in force.
            return self.look_for_more(now, measured);
        }
        if conclusive {
            self.tried.push(trial.to.clone());
        }
        self.hasty = false;
        self.phase = Phase::Looking {
            again: Some(measured_before.rate()),
        };
        let verdict = if worse {
            "worse"
        } else {
            "no better beyond the noise"
        };
        let reason = format!(
            "{verdict}: {:.1} items/s instead of {:.1}, `{}` waited {} of the time instead of {} (noise {})",
            measured.rate().value,
            measured_before.rate().value,
            self.road.consumer,
            percent(1.0 - measured.fed().value),
            percent(1.0 - measured_before.fed().value),
            percent(noise * at_last),
        );
        self.go(now, before, |action| back_decision(action, reason.clone()))
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
        if trial.kind == Kind::Fewer && keep {
            // What was no help while these were in the way may be one now.
            for stage in (0..self.scaling.len()).filter(|&stage| stage != trial.about) {
                self.scaling[stage] = Scaling::Unknown;
            }
        }
        if trial.kind != Kind::Workers {
            return;
        }
        let load = Load::of(measured, self.road.stages.len());
        let raised = before.workers.iter().zip(&trial.to.workers);
        let alone = raised.into_iter().filter(|(from, to)| to > from).count() == 1;
        for stage in 0..self.scaling.len() {
            let (from, workers) = (before.workers[stage], trial.to.workers[stage]);
            if workers <= from {
                continue;
            }
            let saturated = load.is_saturated(stage);
            if keep && gain >= PAYS * (trial.predicted - 1.0) {
                self.scaling[stage] = Scaling::Pays;
            } else if keep && saturated {
                self.scaling[stage] = Scaling::Doubtful;
            } else if saturated && alone && workers == from + 1 {
                self.scaling[stage] = Scaling::Exhausted { workers, gain };
            }
        }
    }

    fn watch(&mut self, measured: &Measurement, reference: Reference, changed: u32) -> Vec<Change> {
        if !measured.is_lasting() {
            return Vec::new();
        }
        let difference = self.difference(measured, &reference);
        self.meter.again();
        let changed = difference.as_ref().map_or(0, |_| changed + 1);
        self.phase = Phase::Settled { reference, changed };
        let Some(reason) = difference.filter(|_| changed >= IN_A_ROW) else {
            return Vec::new();
        };
        self.phase = Phase::Looking { again: None };
        self.forget();
        self.trials = 0;
        self.hasty = true;
        vec![Change {
            action: None,
            decision: Decision {
                subject: String::new(),
                change: DecidedChange::Reopened,
                reason,
            },
        }]
    }

    /// What is clearly different from the time of settling, if the consumer waits.
    fn difference(&self, measured: &Measurement, reference: &Reference) -> Option<String> {
        let load = Load::of(measured, self.road.stages.len());
        if load.waits < FED {
            return None;
        }
        let rate = measured.rate();
        if differs(rate, reference.rate, CLEAR_CHANGE) {
            return Some(format!(
                "`{}` now takes {:.1} items/s; it took {:.1} when the settings were found",
                self.road.consumer, rate.value, reference.rate.value
            ));
        }
        let (fed, then) = (measured.fed(), reference.fed);
        let noise = EARLY * (fed.value * fed.error).hypot(then.value * then.error);
        if then.value - fed.value > CLEAR_WAITING.max(noise) {
            return Some(format!(
                "`{}` now waits {} of the time; it waited {} when the settings were found",
                self.road.consumer,
                percent(1.0 - fed.value),
                percent(1.0 - then.value)
            ));
        }
        let services = (0..).zip(&reference.services);
        services.into_iter().find_map(|(stage, &then)| {
            let service = measured.service(stage);
            // What a stage with time to spare does changes nothing for the others.
            (load.is_saturated(stage) && differs(service, then, CLEAR_CHANGE)).then(|| {
                format!(
                    "`{}` now works {:.1} ms on an item; it worked {:.1} ms when the settings were found",
                    self.road.stages[stage].name,
                    service.value * 1e3,
                    then.value * 1e3
                )
            })
        })
    }

    fn settle(&mut self, now: &Settings, measured: &Measurement, load: &Load) -> Change {
        let stages = 0..self.road.stages.len();
        let reference = Reference {
            rate: measured.rate(),
            services: stages.map(|stage| measured.service(stage)).collect(),
            fed: measured.fed(),
        };
        self.phase = Phase::Settled {
            reference,
            changed: 0,
        };
        self.meter.again();
        let fed = load.waits < FED;
        let limiting = &self.road.stages[load.limiting()].name;
        Change {
            action: None,
            decision: Decision {
                subject: if fed { String::new() } else { limiting.clone() },
                change: DecidedChange::Settled,
                reason: self.why_settled(now, load),
            },
        }
    }

    fn why_settled(&self, now: &Settings, load: &Load) -> String {
        let waits = format!(
            "`{}` waited {} of the time",
            self.road.consumer,
            percent(load.waits)
        );
        if load.waits < FED {
            return format!("feeding is not the limit: {waits}");
        }
        let limiting = load.limiting();
        let Stage {
            name,
            workers: hold,
            ..
        } = &self.road.stages[limiting];
        let workers = now.workers[limiting];
        let limits = format!("`{name}` limits with {}", count(workers, "worker"));
        if load.busy[limiting] < 1.0 - load.waits || !load.is_saturated(limiting) {
            return format!(
                "{waits} because the stages are uneven; {}",
                self.why_no_capacity(now, load)
            );
        }
        let why = match (hold, self.scaling[limiting]) {
            (Hold::Single | Hold::Slots, _) => "it cannot have more".to_owned(),
            (Hold::Fixed, _) => "the user fixed their number".to_owned(),
            (Hold::Free, Scaling::Exhausted { workers, gain }) => {
                format!("with {workers} the rate changed by {:+.1} %", gain * 100.0)
            }
            (Hold::Free, _) if now.total_workers() >= self.road.most_workers => {
                format!(
                    "the budget of {} is used up",
                    count(self.road.most_workers, "worker")
                )
            }
            (Hold::Free, _) => "nothing that was tried brought more".to_owned(),
        };
        format!(
            "{limits}, busy {} of the time: {why}; {waits}",
            percent(load.busy[limiting])
        )
    }

    /// Why no buffer is raised although the consumer waits.
    fn why_no_capacity(&self, now: &Settings, load: &Load) -> String {
        let stages = 0..self.road.stages.len();
        let lost = |stage: usize| load.lost_at(stage).max(load.short_of_room[stage]);
        let worst = stages
            .max_by(|&a, &b| lost(a).total_cmp(&lost(b)))
            .unwrap_or(0);
        let Stage {
            name,
            capacity: hold,
            ..
        } = &self.road.stages[worst];
        let capacity = now.capacity[worst];
        match hold {
            Hold::Slots => format!("the {} ahead are set by the plan", count(capacity, "slot")),
            _ if load.short_of_room[worst] > load.blocked[worst] => format!(
                "`{name}` was short of bytes for {} of the time, so larger buffers cannot help",
                percent(load.short_of_room[worst])
            ),
            Hold::Fixed => format!("the user fixed the buffer behind `{name}` at {capacity}"),
            _ if capacity >= self.road.most_buffered => {
                format!("the buffer behind `{name}` is at its limit of {capacity}")
            }
            _ => "larger buffers or more workers brought nothing, or promise nothing".to_owned(),
        }
    }

    /// Goes from one setting to another; who gives comes before who gets.
    fn go(
        &mut self,
        from: &Settings,
        to: &Settings,
        decide: impl Fn(Action) -> (DecidedChange, String),
    ) -> Vec<Change> {
        let workers = (0..).zip(from.workers.iter().zip(&to.workers));
        let workers = workers.map(|(stage, (&from, &to))| Action::Workers { stage, from, to });
        let capacity = (0..).zip(from.capacity.iter().zip(&to.capacity));
        let capacity = capacity.map(|(stage, (&from, &to))| Action::Capacity { stage, from, to });
        let mut actions: Vec<Action> = workers
            .chain(capacity)
            .filter(|a| a.from() != a.to())
            .collect();
        actions.sort_by_key(|action| action.to() > action.from());
        self.now = Some(to.clone());
        self.meter.after_change();
        let changes = actions.into_iter().map(|action| {
            let (change, reason) = decide(action);
            Change {
                action: Some(action),
                decision: Decision {
                    subject: self.road.stages[action.stage()].name.clone(),
                    change,
                    reason,
                },
            }
        });
        changes.collect()
    }
}

impl Action {
    pub fn stage(self) -> usize {
        match self {
            Action::Workers { stage, .. } | Action::Capacity { stage, .. } => stage,
        }
    }

    pub fn from(self) -> usize {
        match self {
            Action::Workers { from, .. } | Action::Capacity { from, .. } => from,
        }
    }

    pub fn to(self) -> usize {
        match self {
            Action::Workers { to, .. } | Action::Capacity { to, .. } => to,
        }
    }
}

fn trial_decision(action: Action, trial: &Trial) -> (DecidedChange, String) {
    let (from, to) = (action.from() as u64, action.to() as u64);
    match action {
        Action::Workers { .. } if to < from && trial.kind == Kind::Workers => (
            DecidedChange::Workers { from, to },
            format!(
                "has workers to spare, and the budget is used up; {}",
                trial.reason
            ),
        ),
        Action::Workers { .. } => (DecidedChange::Workers { from, to }, trial.reason.clone()),
        Action::Capacity { .. } => (DecidedChange::Capacity { from, to }, trial.reason.clone()),
    }
}

fn back_decision(action: Action, reason: String) -> (DecidedChange, String) {
    let (from, to) = (action.from() as u64, action.to() as u64);
    match action {
        Action::Workers { .. } => (DecidedChange::WorkersBack { from, to }, reason),
        Action::Capacity { .. } => (DecidedChange::CapacityBack { from, to }, reason),
    }
}

/// Clearly different, and not by chance.
fn differs(now: Estimate, then: Estimate, by: f64) -> bool {
    if then.value <= 0.0 {
        return false;
    }
    let change = (now.value / then.value - 1.0).abs();
    change > by.max(EARLY * now.error.hypot(then.error))
}

fn count(number: usize, thing: &str) -> String {
    format!("{number} {thing}{}", if number == 1 { "" } else { "s" })
}
