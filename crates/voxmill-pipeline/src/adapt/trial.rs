//! Which change is worth trying next: worker counts and capacities that the measures speak for.

use super::measure::Measurement;
use super::settings::{Hold, Road, Settings};

/// A consumer that waits less than this is the limit itself.
pub(super) const FED: f64 = 0.02;
/// A stage whose workers are busy this much has nothing left to give.
const SATURATED: f64 = 0.9;
/// A smaller gain than this is not worth a try.
const WORTH_TRYING: f64 = 1.02;
/// A stage gives a worker away only if it stays this much faster than the one that gets it.
const COMFORT: f64 = 1.15;
/// A buffer between a stage that was blocked and one that starved, both for at least this share of
/// the time, was too small.
const BOTH_ENDS: f64 = 0.01;

/// A change to try, as the settings that it leads to.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Trial {
    pub(super) to: Settings,
    pub(super) kind: Kind,
    /// The stage that limits.
    pub(super) about: usize,
    /// The rate it may lead to, as a multiple of today's.
    pub(super) predicted: f64,
    pub(super) reason: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Workers,
    Capacity,
    /// Fewer workers for a stage that more did not help: they may be in each other's way.
    Fewer,
}

/// What is known of a stage's workers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Scaling {
    Unknown,
    /// More workers brought at least half of what was predicted.
    Pays,
    /// With this many workers the rate changed by only this share, or fell.
    Exhausted {
        workers: usize,
        gain: f64,
    },
}

/// What a measurement says of each stage, as shares of its workers' time.
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
        let each = |way: fn(&crate::counters::StageCounters) -> std::time::Duration| {
            (0..stages)
                .map(|stage| measured.share(stage, way))
                .collect()
        };
        Load {
            busy: each(|stage| stage.working),
            starved: each(|stage| stage.starved),
            blocked: each(|stage| stage.blocked),
            short_of_room: each(|stage| stage.short_of_room),
            waits: measured.share(stages, |consumer| consumer.starved),
        }
    }

    /// How much faster the road would be if the consumer never waited.
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

    /// The rate that a stage could keep up with so many workers, as a multiple of today's, if
    /// each worked as today's do.
    fn reach(&self, now: &Settings, stage: usize, workers: usize) -> f64 {
        workers as f64 / (now.workers[stage] as f64 * self.busy[stage].max(0.01))
    }

    fn lowest_reach(&self, now: &Settings, workers: &[usize]) -> (usize, f64) {
        let reaches = (0..workers.len()).map(|s| (s, self.reach(now, s, workers[s])));
        reaches
            .min_by(|a, b| a.1.total_cmp(&b.1))
            .unwrap_or((0, f64::INFINITY))
    }
}

/// The untried change with the greatest predicted gain.
pub(super) fn next(
    road: &Road,
    now: &Settings,
    load: &Load,
    scaling: &[Scaling],
    tried: &[Settings],
) -> Option<Trial> {
    let (_, today) = load.lowest_reach(now, &now.workers);
    let need = load.need();
    let movable = |stage: usize| {
        let exhausted = matches!(scaling[stage], Scaling::Exhausted { .. });
        road.stages[stage].workers == Hold::Free && !exhausted
    };
    let mut trials = Vec::new();
    trials.extend(more_workers(road, now, load, &movable, need));
    trials.extend(more_workers(
        road,
        now,
        load,
        &movable,
        need.min(today * 1.03),
    ));
    trials.extend(more_capacity(road, now, load));
    trials.extend(headroom(road, now, load, &movable));
    let fewer = fewer_workers(road, now, load, scaling);
    let untried = |trial: &Trial| !tried.contains(&trial.to);
    trials.retain(|trial| trial.predicted >= WORTH_TRYING && untried(trial));
    let best = trials.into_iter().reduce(|best, other| {
        if other.predicted > best.predicted {
            other
        } else {
            best
        }
    });
    best.or(fewer.filter(untried))
}

/// Gives workers to whichever stage has the lowest reach, one by one, until the lowest is enough.
/// Several stages may be equally slow, and then only all of them together make a difference.
fn more_workers(
    road: &Road,
    now: &Settings,
    load: &Load,
    movable: &impl Fn(usize) -> bool,
    target: f64,
) -> Option<Trial> {
    let (limiting, today) = load.lowest_reach(now, &now.workers);
    let mut workers = now.workers.clone();
    loop {
        let (slowest, reach) = load.lowest_reach(now, &workers);
        // A worker more for a rate that is less than half a per cent short is none too few.
        if reach * 1.005 >= target || !movable(slowest) {
            break;
        }
        if workers.iter().sum::<usize>() >= road.most_workers {
            let raised = load.reach(now, slowest, workers[slowest] + 1);
            let left = |stage: usize| load.reach(now, stage, workers[stage] - 1);
            let giver = (0..workers.len())
                .filter(|&s| s != slowest && road.stages[s].workers == Hold::Free)
                .filter(|&s| workers[s] > 1 && left(s) > COMFORT * raised.min(target))
                .max_by(|&a, &b| left(a).total_cmp(&left(b)));
            let Some(giver) = giver else { break };
            workers[giver] -= 1;
        }
        workers[slowest] += 1;
    }
    // Where the workers ran out between equals, those who got one in vain give it back.
    let (_, reached) = load.lowest_reach(now, &workers);
    for stage in 0..workers.len() {
        while workers[stage] > now.workers[stage]
            && load.reach(now, stage, workers[stage] - 1) >= reached
        {
            workers[stage] -= 1;
        }
    }
    let predicted = (reached.min(load.need()) / today).max(1.0);
    (workers != now.workers).then(|| Trial {
        kind: Kind::Workers,
        about: limiting,
        predicted,
        reason: format!(
            "`{}` limits: its workers were busy {} of the time, and `{}` waited {}; {:.2} times the rate is expected",
            road.stages[limiting].name,
            percent(load.busy[limiting]),
            road.consumer,
            percent(load.waits),
            predicted,
        ),
        to: Settings { workers, capacity: now.capacity.clone() },
    })
}

/// Raises the buffers that were full at one time and empty at another, and so lost time at both ends.
fn more_capacity(road: &Road, now: &Settings, load: &Load) -> Option<Trial> {
    let lost = |buffer: usize| {
        let behind = load.starved.get(buffer + 1).copied().unwrap_or(load.waits);
        load.blocked[buffer].min(behind)
    };
    let may_grow = |buffer: usize| {
        road.stages[buffer].capacity == Hold::Free
            && now.capacity[buffer] < road.most_buffered
            && load.short_of_room[buffer] <= load.blocked[buffer]
            && lost(buffer) >= BOTH_ENDS
    };
    let buffers = (0..now.capacity.len()).filter(|&buffer| may_grow(buffer));
    let worst = buffers
        .clone()
        .max_by(|&a, &b| lost(a).total_cmp(&lost(b)))?;
    let mut capacity = now.capacity.clone();
    for buffer in buffers.filter(|&buffer| lost(buffer) >= lost(worst) / 2.0) {
        capacity[buffer] = (2 * capacity[buffer]).max(8).min(road.most_buffered);
    }
    // Without any waiting, whoever is busiest would be busy all the time.
    let busiest = load.busy[load.limiting()].max(1.0 - load.waits);
    Some(Trial {
        to: Settings {
            workers: now.workers.clone(),
            capacity,
        },
        kind: Kind::Capacity,
        about: worst,
        predicted: 1.0 / busiest.max(0.01),
        reason: format!(
            "the stages are fast enough in the mean but uneven: `{}` was blocked {} of the time by a full \
             buffer, those behind starved {} of the time, and `{}` waited {}",
            road.stages[worst].name,
            percent(load.blocked[worst]),
            percent(load.starved.get(worst + 1).copied().unwrap_or(load.waits)),
            road.consumer,
            percent(load.waits),
        ),
    })
}

/// One worker more than the mean needs, where unevenness makes the consumer wait. The gain can
/// only be guessed: half of what is lost.
fn headroom(
    road: &Road,
    now: &Settings,
    load: &Load,
    movable: &impl Fn(usize) -> bool,
) -> Option<Trial> {
    let stage = load.limiting();
    if !movable(stage) || load.is_saturated(stage) || now.total_workers() >= road.most_workers {
        return None;
    }
    let mut to = now.clone();
    to.workers[stage] += 1;
    Some(Trial {
        to,
        kind: Kind::Workers,
        about: stage,
        predicted: (1.0 + (load.need() - 1.0) / 2.0).min(1.1),
        reason: format!(
            "`{}` is the busiest stage with {}, and `{}` waited {} of the time: a worker more may even it out",
            road.stages[stage].name,
            percent(load.busy[stage]),
            road.consumer,
            percent(load.waits),
        ),
    })
}

fn fewer_workers(road: &Road, now: &Settings, load: &Load, scaling: &[Scaling]) -> Option<Trial> {
    let stage = load.limiting();
    let workers = now.workers[stage];
    let may_be_too_many = load.is_saturated(stage)
        && road.stages[stage].workers == Hold::Free
        && scaling[stage] != Scaling::Pays
        && workers > 1;
    if !may_be_too_many {
        return None;
    }
    let mut to = now.clone();
    to.workers[stage] -= (workers / 4).max(1);
    Some(Trial {
        to,
        kind: Kind::Fewer,
        about: stage,
        predicted: 1.0,
        reason: format!(
            "`{}` limits and more workers are no help: its {workers} may be in each other's way",
            road.stages[stage].name,
        ),
    })
}

pub(super) fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}
