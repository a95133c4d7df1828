//! Which step of a profile is of which phase, and where its batches come from.
//!
//! Run, interference and floor take turns, forwards and backwards, so that a machine that gets slower or faster decides
//! nothing: each of them has as much before the middle as after it.

use voxmill_analysis::run::phase;

/// Where a step's batches come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// One batch of each shape.
    Shapes,
    /// The pipeline without overlap.
    OneByOne,
    Run,
    /// Batches that are on the device, the workers at work.
    Interference,
    /// The same, the workers at rest.
    Floor,
}

impl Source {
    fn phase(self) -> &'static str {
        match self {
            Source::Shapes => phase::WARM_UP,
            Source::OneByOne => phase::NO_OVERLAP,
            Source::Run => phase::RUN,
            Source::Interference => phase::INTERFERENCE,
            Source::Floor => phase::FLOOR,
        }
    }
}

/// Steps of one phase, one after another.
#[derive(Clone, Copy, Debug)]
struct Part {
    phase: &'static str,
    source: Source,
    steps: u64,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Phases(Vec<Part>);

/// The share of the steps that a side phase gets in each half, and the least it needs.
const SIDE_SHARE: u64 = 8;
const LEAST: u64 = 4;
/// Steps into a new phase that still pay for the old one.
const SETTLE: u64 = 1;
/// An even number: half of them go backwards.
const TURNS: u64 = 4;

impl Phases {
    /// `shapes`: steps that it takes to have trained on every shape once.
    pub(super) fn new(steps: u64, warm_up: u64, overlap: bool, shapes: u64) -> Phases {
        let side = (steps / SIDE_SHARE).max(LEAST);
        let mut phases = Phases::default();
        phases.add(Source::Shapes, 0, shapes);
        if overlap {
            phases.add(Source::OneByOne, 2, side);
        }
        for turn in 0..TURNS {
            let share = |all: u64| all * (turn + 1) / TURNS - all * turn / TURNS;
            let mut sources = match overlap {
                true => vec![Source::Run, Source::Interference, Source::Floor],
                false => vec![Source::Run, Source::Floor],
            };
            if turn % 2 == 1 {
                sources.reverse();
            }
            for source in sources {
                match source {
                    Source::Run if turn == 0 => phases.add(source, warm_up.max(1), share(steps)),
                    Source::Run => phases.add(source, SETTLE, share(steps)),
                    Source::Floor if !overlap => phases.add(source, SETTLE, share(side)),
                    _ => phases.add(source, SETTLE, share(2 * side)),
                }
            }
        }
        phases
    }

    /// Behind the others. What continues a phase needs no steps to settle.
    fn add(&mut self, source: Source, settle: u64, steps: u64) {
        let phase = source.phase();
        match self.0.last_mut() {
            _ if steps == 0 => {}
            Some(last) if last.source == source => last.steps += steps,
            _ => {
                let settling = Part {
                    phase: phase::WARM_UP,
                    source,
                    steps: settle,
                };
                let part = Part {
                    phase,
                    source,
                    steps,
                };
                let parts = [settling, part].into_iter();
                self.0.extend(parts.filter(|part| part.steps > 0));
            }
        }
    }

    pub(super) fn steps(&self) -> u64 {
        self.0.iter().map(|part| part.steps).sum()
    }

    /// `step` counts from 1; `None`: the run itself.
    pub(super) fn of(&self, step: u64) -> Option<&'static str> {
        let phase = self.at(step)?.phase;
        (phase != phase::RUN).then_some(phase)
    }

    /// Behind the last step: the floor.
    pub(super) fn source(&self, step: u64) -> Source {
        self.at(step).map_or(Source::Floor, |part| part.source)
    }

    /// The phase of a step; at the last one of a warm-up already that of the next.
    pub(super) fn to_announce(&self, step: u64) -> Option<&'static str> {
        let part = self.at(step)?;
        if part.phase != phase::WARM_UP {
            return Some(part.phase);
        }
        let next = self.at(step + 1);
        Some(next.map_or(phase::WARM_UP, |next| next.phase))
    }

    fn at(&self, step: u64) -> Option<&Part> {
        let mut before = 0;
        self.0.iter().find(|part| {
            before += part.steps;
            step <= before
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_phase_has_its_steps_and_a_warm_up_is_for_what_follows() {
        let phases = Phases::new(40, 5, true, 8);
        let of: Vec<_> = (1..=phases.steps()).map(|step| phases.of(step)).collect();
        let count = |name| of.iter().filter(|phase| **phase == name).count();
        assert_eq!(count(None), 40);
        assert_eq!(count(Some(phase::NO_OVERLAP)), 5);
        assert_eq!(count(Some(phase::FLOOR)), 10);
        assert_eq!(count(Some(phase::INTERFERENCE)), 10);
        assert_eq!(phases.source(1), Source::Shapes);
        assert_eq!(phases.source(9), Source::OneByOne);
        assert_eq!(phases.of(9), Some(phase::WARM_UP));
        assert_eq!(phases.source(16), Source::Run);
        assert_eq!(phases.of(16), Some(phase::WARM_UP));
        assert_eq!(phases.to_announce(19), Some(phase::WARM_UP));
        assert_eq!(phases.to_announce(20), Some(phase::RUN), "a step early");
        assert_eq!(phases.of(21), None);
        assert_eq!(phases.source(1_000), Source::Floor);
    }

    #[test]
    fn what_is_compared_takes_turns_and_no_drift_decides() {
        let phases = Phases::new(160, 5, true, 0);
        let all = 1..=phases.steps();
        // The mean place of a phase's steps: under an even drift, the time that it is measured at.
        let place = |phase: Option<&str>| {
            let of = all.clone().filter(|step| phases.of(*step) == phase);
            let of: Vec<u64> = of.collect();
            of.iter().sum::<u64>() as f64 / of.len() as f64
        };
        let run = place(None);
        for phase in [phase::FLOOR, phase::INTERFERENCE] {
            let apart = (place(Some(phase)) - run).abs() / phases.steps() as f64;
            assert!(apart < 0.02, "{phase}: {apart}");
        }
        let mut turns = 0;
        for step in all.clone().skip(1) {
            turns += u64::from(phases.of(step) == Some(phase::FLOOR))
                * u64::from(phases.of(step - 1) != Some(phase::FLOOR));
        }
        assert_eq!(turns, 2, "not all at once");
    }

    #[test]
    fn a_run_without_overlap_has_no_workers_to_interfere() {
        let phases = Phases::new(40, 5, false, 8);
        let of: Vec<_> = (1..=phases.steps()).map(|step| phases.of(step)).collect();
        assert!(!of.contains(&Some(phase::NO_OVERLAP)));
        assert!(!of.contains(&Some(phase::INTERFERENCE)));
        assert!(of.contains(&Some(phase::FLOOR)));
    }

    #[test]
    fn a_run_of_one_step_has_it() {
        let phases = Phases::new(1, 0, true, 3);
        let of = (1..=phases.steps()).map(|step| phases.of(step));
        assert_eq!(of.filter(Option::is_none).count(), 1);
    }
}
