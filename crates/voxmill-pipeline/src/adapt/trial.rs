//! Which change is worth trying next: worker counts and capacities that the measures speak for.

use std::time::Duration;
use voxmill_format::percent;

use super::measure::Measurement;
use super::settings::{Bounds, Hold, Settings};
use crate::counters::StageCounters;

/// A consumer that waits less than this is the limit itself.
pub(super) const FED: f64 = 0.02;
/// A stage whose workers are busy this much has nothing left to give.
const SATURATED: f64 = 0.9;
/// Workers that are busy less than this are in nobody's way.
const IN_THE_WAY: f64 = 0.3;
/// A target so little above today's rate that the fewest workers reach it.
const ONE_STEP: f64 = 1.05;
/// A smaller gain than this is not worth a try.
const WORTH_TRYING: f64 = 1.02;
/// A stage gives a worker away only if it stays this much faster than the slowest is before it
/// gets one.
const COMFORT: f64 = 1.05;
/// A buffer between a stage that was blocked and one that starved, both for at least this share of
/// the time, was too small.
const BOTH_ENDS: f64 = 0.01;

/// A change to try, as the settings that it leads to.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Trial {
    pub(super) to: Settings,
    pub(super) kind: TrialKind,
    /// The stage that limits.
    pub(super) about: usize,
    /// The rate it may lead to, as a multiple of today's.
    pub(super) predicted: f64,
    pub(super) reason: String,
}

impl Trial {
    /// Whether a stage has fewer workers than before.
    pub(super) fn gives_away(&self, before: &Settings) -> bool {
        let workers = before.workers.iter().zip(&self.to.workers);
        workers.into_iter().any(|(before, after)| after < before)
    }

    /// Why a stage gets or gives.
    pub(super) fn reason_if(&self, gets: bool) -> String {
        let spare = match self.kind == TrialKind::Workers && !gets {
            true => "has workers to spare, and the budget is used up; ",
            false => "",
        };
        format!("{spare}{}", self.reason)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TrialKind {
    Workers,
    Capacity,
    /// Fewer workers for a stage that more did not help: they may be in each other's way.
    Fewer,
}

/// What is known of a stage's workers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum StageScaling {
    Unknown,
    /// More workers brought most of what was predicted.
    Pays,
    /// More workers brought something, but less: only one more at a time is worth trying.
    Doubtful,
    /// With this many workers the rate changed by only this share, or fell.
    Exhausted {
        workers: usize,
        gain: f64,
    },
}

/// What was measured of each stage, as shares of its workers' time.
#[derive(Clone, Debug)]
pub(super) struct Load {
    pub(super) busy: Vec<f64>,
    pub(super) starved: Vec<f64>,
    pub(super) blocked: Vec<f64>,
    pub(super) short_of_room: Vec<f64>,
    /// The consumer's share of waiting.
    pub(super) waits: f64,
}

impl Load {
    pub(super) fn of(measured: &Measurement, stages: usize) -> Load {
        let each = |way: fn(&StageCounters) -> Duration| {
            let shares = (0..stages).map(|stage| measured.share(stage, way));
            shares.collect()
        };
        Load {
            busy: each(|stage| stage.working),
            starved: each(|stage| stage.starved),
            blocked: each(|stage| stage.blocked),
            short_of_room: each(|stage| stage.short_of_room),
            waits: measured.share(stages, |consumer| consumer.starved),
        }
    }

    /// How much faster the pipeline would be if the consumer never waited.
    fn need(&self) -> f64 {
        1.0 / (1.0 - self.waits).max(0.01)
    }

    /// The stage whose workers are busiest.
    pub(super) fn limiting(&self) -> usize {
        let by_busy = (0..self.busy.len()).max_by(|&a, &b| self.busy[a].total_cmp(&self.busy[b]));
        by_busy.unwrap_or(0)
    }

    pub(super) fn is_saturated(&self, stage: usize) -> bool {
        self.busy[stage] >= SATURATED
    }

    /// The rate that a stage could keep up with this many workers, as a multiple of today's, if
    /// each worked as today's do.
    fn reach(&self, now: &Settings, stage: usize, workers: usize) -> f64 {
        workers as f64 / (now.workers[stage] as f64 * self.busy[stage].max(0.01))
    }

    /// Time that was lost at both ends of a buffer: a larger one may win it back.
    pub(super) fn lost_at(&self, buffer: usize) -> f64 {
        self.blocked[buffer].min(self.starved_behind(buffer))
    }

    fn starved_behind(&self, buffer: usize) -> f64 {
        self.starved.get(buffer + 1).copied().unwrap_or(self.waits)
    }

    fn lowest_reach(&self, now: &Settings, workers: &[usize]) -> (usize, f64) {
        let reaches = (0..workers.len()).map(|s| (s, self.reach(now, s, workers[s])));
        reaches
            .min_by(|a, b| a.1.total_cmp(&b.1))
            .unwrap_or((0, f64::INFINITY))
    }
}

/// What the next trial is chosen from.
pub(super) struct TrialSearch<'a> {
    pub(super) bounds: &'a Bounds,
    pub(super) now: &'a Settings,
    pub(super) load: &'a Load,
    pub(super) scaling: &'a [StageScaling],
    /// Settings that are not tried again.
    pub(super) tried: &'a [Settings],
}

impl TrialSearch<'_> {
    /// The untried change with the greatest predicted gain.
    pub(super) fn next(&self) -> Option<Trial> {
        let (_, today) = self.load.lowest_reach(self.now, &self.now.workers);
        let need = self.load.need();
        let exhausted = |stage| matches!(self.scaling[stage], StageScaling::Exhausted { .. });
        let steps = |stage: usize| self.is_free(stage) && !exhausted(stage);
        let jumps = |stage: usize| steps(stage) && self.scaling[stage] != StageScaling::Doubtful;
        let one_step = need.min(today * ONE_STEP);
        let trials = [
            self.more_workers(&jumps, need),
            self.more_workers(&steps, one_step),
            self.more_capacity(),
            self.headroom(&steps),
        ];
        let trials = trials.into_iter().flatten();
        let best = trials
            .filter(|trial| trial.predicted >= WORTH_TRYING && self.is_untried(trial))
            .reduce(|best, other| match other.predicted > best.predicted {
                true => other,
                false => best,
            });
        best.or_else(|| self.fewer_workers())
    }

    fn is_free(&self, stage: usize) -> bool {
        self.bounds.stages[stage].workers == Hold::Free
    }

    fn is_untried(&self, trial: &Trial) -> bool {
        !self.tried.contains(&trial.to)
    }

    fn name(&self, stage: usize) -> &str {
        &self.bounds.stages[stage].name
    }

    /// Gives workers to whichever stage has the lowest reach, one by one, until the lowest is enough.
    /// Several stages may be equally slow, and then only all of them together make a difference.
    fn more_workers(&self, movable: &impl Fn(usize) -> bool, target: f64) -> Option<Trial> {
        let (now, load) = (self.now, self.load);
        let (limiting, today) = load.lowest_reach(now, &now.workers);
        let mut workers = now.workers.clone();
        loop {
            let (slowest, reach) = load.lowest_reach(now, &workers);
            if reach >= target * (1.0 - FED) || !movable(slowest) {
                break;
            }
            if workers.iter().sum::<usize>() >= self.bounds.most_workers {
                let left = |stage: usize| load.reach(now, stage, workers[stage] - 1);
                let giver = (0..workers.len())
                    .filter(|&s| s != slowest && self.is_free(s))
                    .filter(|&s| workers[s] > 1 && left(s) > COMFORT * reach)
                    .max_by(|&a, &b| left(a).total_cmp(&left(b)));
                let Some(giver) = giver else { break };
                workers[giver] -= 1;
            }
            workers[slowest] += 1;
        }
        // Where the workers ran out between equals, those who got one in vain give it back.
        let (_, reached) = load.lowest_reach(now, &workers);
        for (stage, given) in workers.iter_mut().enumerate() {
            while *given > now.workers[stage] && load.reach(now, stage, *given - 1) >= reached {
                *given -= 1;
            }
        }
        let predicted = (reached.min(load.need()) / today).max(1.0);
        (workers != now.workers).then(|| Trial {
            kind: TrialKind::Workers,
            about: limiting,
            predicted,
            reason: format!(
                "`{}` limits: its workers were busy {} of the time, and `{}` waited {}; \
                 {predicted:.2} times the rate is expected",
                self.name(limiting),
                percent(load.busy[limiting]),
                self.bounds.consumer,
                percent(load.waits),
            ),
            to: Settings {
                workers,
                capacity: now.capacity.clone(),
            },
        })
    }

    /// Raises the buffers that were full at one time and empty at another, and so lost time at both ends.
    fn more_capacity(&self) -> Option<Trial> {
        let (bounds, now, load) = (self.bounds, self.now, self.load);
        let lost = |buffer: usize| load.lost_at(buffer);
        let most = bounds.most_buffered;
        let grown = |buffer: usize| (2 * now.capacity[buffer]).clamp(8.min(most), most);
        let may_grow = |buffer: usize| {
            bounds.stages[buffer].capacity == Hold::Free
                && 2 * grown(buffer) >= 3 * now.capacity[buffer]
                && load.short_of_room[buffer] <= load.blocked[buffer]
                && lost(buffer) >= BOTH_ENDS
        };
        let buffers = (0..now.capacity.len()).filter(|&buffer| may_grow(buffer));
        let worst = buffers
            .clone()
            .max_by(|&a, &b| lost(a).total_cmp(&lost(b)))?;
        let mut to = now.clone();
        for buffer in buffers.filter(|&buffer| lost(buffer) >= lost(worst) / 2.0) {
            to.capacity[buffer] = grown(buffer);
        }
        // Without any waiting, whoever is busiest would be busy all the time.
        let busiest = load.busy[load.limiting()].max(1.0 - load.waits);
        Some(Trial {
            to,
            kind: TrialKind::Capacity,
            about: worst,
            predicted: 1.0 / busiest.max(0.01),
            reason: format!(
                "the stages are fast enough in the mean but uneven: `{}` was blocked {} of the time by a \
                 full buffer, those behind starved {} of the time, and `{}` waited {}",
                self.name(worst),
                percent(load.blocked[worst]),
                percent(load.starved_behind(worst)),
                bounds.consumer,
                percent(load.waits),
            ),
        })
    }

    /// One worker more than the mean needs, where unevenness makes the consumer wait. The gain can
    /// only be guessed: half of what is lost.
    fn headroom(&self, movable: &impl Fn(usize) -> bool) -> Option<Trial> {
        let (now, load) = (self.now, self.load);
        let stage = load.limiting();
        let used_up = now.total_workers() >= self.bounds.most_workers;
        if !movable(stage) || load.is_saturated(stage) || used_up {
            return None;
        }
        let mut to = now.clone();
        to.workers[stage] += 1;
        Some(Trial {
            to,
            kind: TrialKind::Workers,
            about: stage,
            predicted: (1.0 + (load.need() - 1.0) / 2.0).min(1.1),
            reason: format!(
                "`{}` is the busiest stage with {}, and `{}` waited {} of the time: a worker more may \
                 even it out",
                self.name(stage),
                percent(load.busy[stage]),
                self.bounds.consumer,
                percent(load.waits),
            ),
        })
    }

    /// Fewer workers for a busy stage, the busiest first. It need not be the one that limits: on a
    /// machine with few cores, workers are in the way of other stages too.
    fn fewer_workers(&self) -> Option<Trial> {
        let (now, load) = (self.now, self.load);
        let limiting = load.limiting();
        if !load.is_saturated(limiting) {
            return None;
        }
        let mut stages: Vec<usize> = (0..now.workers.len())
            .filter(|&stage| self.is_free(stage) && now.workers[stage] > 1)
            .filter(|&stage| load.busy[stage] >= IN_THE_WAY)
            .filter(|&stage| self.scaling[stage] != StageScaling::Pays)
            .collect();
        stages.sort_by(|&a, &b| load.busy[b].total_cmp(&load.busy[a]));
        let mut trials = stages.into_iter().map(|stage| {
            let workers = now.workers[stage];
            let mut to = now.clone();
            to.workers[stage] -= (workers / 4).max(1);
            Trial {
                to,
                kind: TrialKind::Fewer,
                about: stage,
                predicted: 1.0,
                reason: format!(
                    "`{}` limits and more workers are no help: the {workers} of `{}`, busy {} of the \
                     time, may be in the way",
                    self.name(limiting),
                    self.name(stage),
                    percent(load.busy[stage]),
                ),
            }
        });
        trials.find(|trial| self.is_untried(trial))
    }
}
