//! When nothing more is to be gained: why, and what would make it worth searching again.

use super::measure::{CERTAIN, Estimate, Measurement};
use super::settings::{Bounds, Hold, Settings};
use super::trial::{FED, Load, StageScaling};
use voxmill_format::{counted, percent, signed};

/// A rate or a time for an item that differs by this share is another load.
const CLEAR_CHANGE: f64 = 0.2;
/// So is a consumer that waits for so much more of its time.
const CLEAR_WAITING: f64 = 0.08;

/// The load at the time of settling.
#[derive(Clone, Debug)]
pub(super) struct Baseline {
    rate: Estimate,
    services: Vec<Estimate>,
    fed: Estimate,
}

impl Baseline {
    pub(super) fn of(measured: &Measurement, stages: usize) -> Baseline {
        Baseline {
            rate: measured.rate(),
            services: (0..stages).map(|stage| measured.service(stage)).collect(),
            fed: measured.fed(),
        }
    }

    /// What is clearly different from the time of settling, if the consumer waits.
    pub(super) fn difference(&self, bounds: &Bounds, measured: &Measurement) -> Option<String> {
        let load = Load::of(measured, bounds.stages.len());
        if load.waits < FED {
            return None;
        }
        let (name, rate) = (&bounds.consumer, measured.rate());
        if rate.differs_from(self.rate, CLEAR_CHANGE) {
            return Some(format!(
                "`{name}` now takes {:.1} items/s; it took {:.1} when the settings were found",
                rate.value, self.rate.value
            ));
        }
        let (fed, then) = (measured.fed(), self.fed);
        let noise = CERTAIN * (fed.value * fed.error).hypot(then.value * then.error);
        if then.value - fed.value > CLEAR_WAITING.max(noise) {
            return Some(format!(
                "`{name}` now waits {} of the time; it waited {} when the settings were found",
                percent(1.0 - fed.value),
                percent(1.0 - then.value)
            ));
        }
        // What a stage with time to spare does changes nothing for the others.
        let mut saturated = (0..self.services.len()).filter(|&stage| load.is_saturated(stage));
        saturated.find_map(|stage| {
            let (service, then) = (measured.service(stage), self.services[stage]);
            service.differs_from(then, CLEAR_CHANGE).then(|| {
                format!(
                    "`{}` now works {:.1} ms on an item; it worked {:.1} ms when the settings were found",
                    bounds.stages[stage].name,
                    service.value * 1e3,
                    then.value * 1e3
                )
            })
        })
    }
}

/// What limits, and why nothing more is tried.
pub(super) fn why(
    bounds: &Bounds,
    now: &Settings,
    load: &Load,
    scaling: &[StageScaling],
) -> String {
    let share = percent(load.waits);
    let waits = format!("`{}` waited {share} of the time", bounds.consumer);
    if load.waits < FED {
        return format!("feeding is not the limit: {waits}");
    }
    let limiting = load.limiting();
    if load.busy[limiting] < 1.0 - load.waits || !load.is_saturated(limiting) {
        let why = why_no_capacity(bounds, now, load);
        return format!("{waits} because the stages are uneven; {why}");
    }
    let stage = &bounds.stages[limiting];
    let why = match (stage.workers, scaling[limiting]) {
        (Hold::Single | Hold::Slots, _) => "it cannot have more".to_owned(),
        (Hold::Fixed, _) => "the user fixed their number".to_owned(),
        (Hold::Free, StageScaling::Exhausted { workers, gain }) => {
            format!(
                "with {workers} the rate changed by {} %",
                signed(100.0 * gain, 1)
            )
        }
        (Hold::Free, _) if now.total_workers() >= bounds.most_workers => {
            let most = counted(bounds.most_workers as u64, "worker");
            format!("the budget of {most} is used up")
        }
        (Hold::Free, _) => "nothing that was tried brought more".to_owned(),
    };
    format!(
        "`{}` limits with {}, busy {} of the time: {why}; {waits}",
        stage.name,
        counted(now.workers[limiting] as u64, "worker"),
        percent(load.busy[limiting])
    )
}

/// Why no buffer is raised although the consumer waits.
fn why_no_capacity(bounds: &Bounds, now: &Settings, load: &Load) -> String {
    let stages = 0..bounds.stages.len();
    let lost = |stage: usize| load.lost_at(stage).max(load.short_of_room[stage]);
    let worst = stages
        .max_by(|&a, &b| lost(a).total_cmp(&lost(b)))
        .unwrap_or(0);
    let (name, capacity) = (&bounds.stages[worst].name, now.capacity[worst]);
    match bounds.stages[worst].capacity {
        Hold::Slots => format!(
            "the {} ahead are set by the plan",
            counted(capacity as u64, "slot")
        ),
        _ if load.short_of_room[worst] > load.blocked[worst] => format!(
            "`{name}` was short of bytes for {} of the time, so larger buffers cannot help",
            percent(load.short_of_room[worst])
        ),
        Hold::Fixed => format!("the user fixed the buffer behind `{name}` at {capacity}"),
        _ if capacity >= bounds.most_buffered => {
            format!("the buffer behind `{name}` is at its limit of {capacity}")
        }
        _ => "larger buffers or more workers brought nothing, or promise nothing".to_owned(),
    }
}
