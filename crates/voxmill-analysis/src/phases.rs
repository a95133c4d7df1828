//! Which step of a profile is of which phase, and where its batches come from.
//!
//! The phases take turns in short blocks, forwards and backwards: a round has one block of each, so that what is compared
//! was measured within seconds, and a machine that gets slower or faster decides nothing. The n-th blocks of all phases
//! are round n, also in the log; a step to settle lies before each block, which keeps two of the same phase apart.

use crate::run::phase;

/// Where a step's batches come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchSource {
    /// One batch of each shape.
    Shapes,
    /// The pipeline without overlap.
    OneByOne,
    Run,
    /// Batches of the run's last block, on the device, the workers at work.
    Interference,
    /// Batches of the run's last block, the workers at rest.
    Floor,
}

impl BatchSource {
    /// What its steps are called in the log.
    pub fn phase(self) -> &'static str {
        match self {
            BatchSource::Shapes => phase::WARM_UP,
            BatchSource::OneByOne => phase::NO_OVERLAP,
            BatchSource::Run => phase::RUN,
            BatchSource::Interference => phase::INTERFERENCE,
            BatchSource::Floor => phase::FLOOR,
        }
    }
}

/// Steps of one phase, one after another.
#[derive(Clone, Copy, Debug)]
struct StepPart {
    phase: &'static str,
    source: BatchSource,
    steps: u64,
}

/// All steps of a profile, block by block.
#[derive(Clone, Debug, Default)]
pub struct Phases(Vec<StepPart>);

/// Steps of the run in a block, and how many rounds these make. Fewer rounds say little about what a repeat gives.
const BLOCK: u64 = 5;
const LEAST_ROUNDS: u64 = 4;
const MOST_ROUNDS: u64 = 16;
/// The least steps in a block of another phase.
const LEAST: u64 = 2;
/// Steps into a new block that still pay for the one before.
const SETTLE: u64 = 1;
/// The same where the model waited for the workers to come to rest: other programs had its cores meanwhile. With one step
/// the floor came out slower than the run on a busy machine.
const SETTLE_AT_REST: u64 = 3;

impl Phases {
    /// `shapes`: steps that it takes to have trained on every shape once.
    pub fn new(steps: u64, warm_up: u64, overlap: bool, shapes: u64) -> Phases {
        let rounds = (steps / BLOCK).clamp(LEAST_ROUNDS, MOST_ROUNDS);
        let rounds = rounds.min(steps).max(1);
        let mut phases = Phases::default();
        phases.add(BatchSource::Shapes, 0, shapes);
        for round in 0..rounds {
            let share = |all: u64| all * (round + 1) / rounds - all * round / rounds;
            let side = |all: u64| share(all.max(LEAST * rounds));
            let mut blocks = vec![(BatchSource::Run, share(steps))];
            if overlap {
                blocks.push((BatchSource::Interference, side(steps / 4)));
            }
            // Together as many as one of the two blocks of the run that they lie next to: all of its batches again.
            blocks.push((BatchSource::Floor, side(steps / 2)));
            if overlap {
                blocks.push((BatchSource::OneByOne, side(steps / 8)));
            }
            if round % 2 == 1 {
                blocks.reverse();
            }
            for (source, steps) in blocks {
                let settle = match source {
                    BatchSource::Run if round == 0 => warm_up.max(SETTLE),
                    BatchSource::Floor if round % 2 == 0 => SETTLE_AT_REST,
                    _ => SETTLE,
                };
                phases.add(source, settle, steps);
            }
        }
        phases
    }

    /// A block behind the others.
    fn add(&mut self, source: BatchSource, settle: u64, steps: u64) {
        let part = |phase, steps| StepPart {
            phase,
            source,
            steps,
        };
        let parts = [part(phase::WARM_UP, settle), part(source.phase(), steps)];
        let parts = parts.into_iter().filter(|part| part.steps > 0);
        self.0.extend(parts);
    }

    /// How many steps have their batches from there.
    pub fn steps_from(&self, source: BatchSource) -> u64 {
        let of_source = self.0.iter().filter(|part| part.source == source);
        of_source.map(|part| part.steps).sum()
    }

    /// Of all phases together.
    pub fn steps(&self) -> u64 {
        self.0.iter().map(|part| part.steps).sum()
    }

    /// `step` counts from 1; `None`: the run itself.
    pub fn of(&self, step: u64) -> Option<&'static str> {
        let phase = self.at(step)?.phase;
        (phase != phase::RUN).then_some(phase)
    }

    /// Behind the last step: the floor.
    pub fn source(&self, step: u64) -> BatchSource {
        self.at(step).map_or(BatchSource::Floor, |part| part.source)
    }

    /// The phase of a step; at the last one of a warm-up already that of the next.
    pub fn to_announce(&self, step: u64) -> Option<&'static str> {
        let part = self.at(step)?;
        if part.phase != phase::WARM_UP {
            return Some(part.phase);
        }
        let next = self.at(step + 1);
        Some(next.map_or(phase::WARM_UP, |next| next.phase))
    }

    fn at(&self, step: u64) -> Option<&StepPart> {
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
        assert_eq!(count(Some(phase::FLOOR)), 20);
        for side in [phase::NO_OVERLAP, phase::INTERFERENCE] {
            assert_eq!(count(Some(side)), 16, "{side}");
        }
        assert_eq!(phases.steps_from(BatchSource::OneByOne), 16 + 8);
        assert_eq!(phases.source(1), BatchSource::Shapes);
        assert_eq!(phases.source(9), BatchSource::Run);
        assert_eq!(phases.of(9), Some(phase::WARM_UP));
        assert_eq!(phases.to_announce(12), Some(phase::WARM_UP));
        assert_eq!(phases.to_announce(13), Some(phase::RUN), "a step early");
        assert_eq!(phases.of(14), None);
        assert_eq!(phases.source(1_000), BatchSource::Floor);
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
        for phase in [phase::FLOOR, phase::INTERFERENCE, phase::NO_OVERLAP] {
            let apart = (place(Some(phase)) - run).abs() / phases.steps() as f64;
            assert!(apart < 0.02, "{phase}: {apart}");
        }
    }

    #[test]
    fn each_round_has_one_block_of_each_phase() {
        for (steps, rounds) in [(1, 1), (4, 4), (16, 4), (40, 8), (100, 16), (1_000, 16)] {
            let phases = Phases::new(steps, 5, true, 3);
            let of: Vec<_> = (0..=phases.steps()).map(|step| phases.of(step)).collect();
            for phase in [
                None,
                Some(phase::FLOOR),
                Some(phase::INTERFERENCE),
                Some(phase::NO_OVERLAP),
            ] {
                let begins = |pair: &&[Option<&str>]| pair[0] != phase && pair[1] == phase;
                assert_eq!(
                    of.windows(2).filter(begins).count(),
                    rounds,
                    "{steps} {phase:?}"
                );
            }
        }
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
