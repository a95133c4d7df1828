//! Ratios of phases that took turns.
//!
//! A machine that is slow is slow for a while. A round has a block of each phase within seconds, so what slows the round
//! slows them all; how the ratio changes from round to round is what a repeat would change. The interval is that of the
//! jackknife over rounds, on the ratio's logarithm, with Student's t for as many rounds as there are.

use voxmill_telemetry::event::Step;

use crate::timing::{Ratio, matched_ratio, matched_value, mean};

/// With fewer, Student's t makes any interval useless.
pub(crate) const LEAST_ROUNDS: usize = 3;

/// How many rounds both took part in; 0 where they did not take turns.
pub fn rounds(ours: &[Step], theirs: &[Step]) -> usize {
    let (ours, theirs) = (blocks(ours).count(), blocks(theirs).count());
    if ours == theirs { ours } else { 0 }
}

/// How long `ours` took compared with `theirs`, shape by shape. Without rounds, as in logs of earlier versions, the interval
/// is that of [`matched_ratio`].
pub(crate) fn paired_ratio(ours: &[Step], theirs: &[Step]) -> Option<Ratio> {
    let rounds = rounds(ours, theirs);
    let paired = || {
        let value = matched_value(ours, theirs)?;
        let without: Vec<f64> = (0..rounds)
            .map(|round| {
                let rest = |steps| -> Vec<Step> {
                    let others = blocks(steps).enumerate().filter(|(n, _)| *n != round);
                    others.flat_map(|(_, block)| block).cloned().collect()
                };
                Some(matched_value(&rest(ours), &rest(theirs))?.ln())
            })
            .collect::<Option<_>>()?;
        let middle = mean(&without);
        let squares: f64 = without.iter().map(|log| (log - middle).powi(2)).sum();
        let count = rounds as f64;
        let error = ((count - 1.0) / count * squares).sqrt();
        let factor = (student_95(rounds - 1) * error).exp();
        let ratio = Ratio {
            value,
            low: value / factor,
            high: value * factor,
        };
        ratio.high.is_finite().then_some(ratio)
    };
    match rounds >= LEAST_ROUNDS {
        true => paired().or_else(|| matched_ratio(ours, theirs)),
        false => matched_ratio(ours, theirs),
    }
}

/// Steps of a phase without others between them.
fn blocks(steps: &[Step]) -> impl Iterator<Item = &[Step]> {
    steps.chunk_by(|a, b| b.step == a.step + 1)
}

/// Below it lie 95 % of Student's distribution.
fn student_95(degrees: usize) -> f64 {
    const FEW: [f64; 20] = [
        6.314, 2.920, 2.353, 2.132, 2.015, 1.943, 1.895, 1.860, 1.833, 1.812, 1.796, 1.782, 1.771,
        1.761, 1.753, 1.746, 1.740, 1.734, 1.729, 1.725,
    ];
    let few = degrees.checked_sub(1).and_then(|n| FEW.get(n)).copied();
    // Within 0.002 of the tables from here on.
    few.unwrap_or(1.645 + 1.6 / degrees.max(1) as f64)
}

#[cfg(test)]
mod tests {
    use voxmill_telemetry::event::Nanos;

    use super::*;
    use crate::timing::Draws;

    /// A profile on a machine that is slow for a while: each block has a pace of its own, and so has each round.
    fn profile(draws: &mut Draws, rounds: u64, ratio: f64) -> [Vec<Step>; 2] {
        let mut phases = [Vec::new(), Vec::new()];
        let mut number = 0;
        let mut noise = |size: f64| 1.0 + size * (draws.below(2_001) as f64 / 1_000.0 - 1.0);
        for _ in 0..rounds {
            let round = noise(0.4);
            for (phase, (steps, factor)) in phases.iter_mut().zip([(5, ratio), (2, 1.0)]) {
                number += 1;
                let block = noise(0.1);
                for n in 0..steps {
                    number += 1;
                    let big = (number + n) % 2 == 0;
                    let base = if big { 300e6 } else { 100e6 };
                    phase.push(Step {
                        step: number,
                        shape: if big { "2x400x80" } else { "8x100x20" }.parse().ok(),
                        service: Nanos((base * factor * round * block * noise(0.05)) as u64),
                        ..Step::default()
                    });
                }
            }
        }
        phases
    }

    #[test]
    fn nine_in_ten_intervals_have_the_true_ratio() {
        let mut draws = Draws::new(7);
        for rounds in [4, 8, 16] {
            let covered = (0..400).filter(|_| {
                let [ours, theirs] = profile(&mut draws, rounds, 1.2);
                let found = paired_ratio(&ours, &theirs).unwrap();
                !found.differs_from(1.2)
            });
            let covered = covered.count() as f64 / 400.0;
            assert!((0.85..=0.97).contains(&covered), "{rounds}: {covered}");
        }
    }

    /// The order of `profile`: forwards and backwards, the floor on batches of the run's last block. The pace goes on from
    /// step to step, and other programs come in bursts.
    fn bursts(draws: &mut Draws, rounds: u64, ratio: f64) -> [Vec<Step>; 2] {
        let mut phases = [Vec::new(), Vec::new()];
        let (mut number, mut pace, mut burst) = (0, 0.0_f64, 0);
        let mut batches: Vec<u64> = Vec::new();
        for round in 0..rounds {
            // The run, two blocks that are not looked at, the floor.
            let order = [Some((0, 5)), None, Some((1, 2 + round % 2)), None];
            let mut order = order.to_vec();
            if round % 2 == 1 {
                order.reverse();
            }
            for block in order {
                number += 1;
                let steps = block.map_or(2, |(_, steps)| steps);
                if let Some((0, _)) = block {
                    batches = (0..5).map(|_| draws.below(8) as u64).collect();
                }
                for n in 0..steps {
                    number += 1;
                    pace = 0.9 * pace + 0.1 * (draws.below(2_001) as f64 / 1_000.0 - 1.0);
                    burst = match draws.below(25) {
                        0 => 3,
                        _ => u64::saturating_sub(burst, 1),
                    };
                    let slowed = if burst > 0 { 2.0 } else { 1.0 };
                    let Some((phase, _)) = block else { continue };
                    let of_floor = 2 * (round % 2) + n;
                    let batch = batches[(if phase == 0 { n } else { of_floor } % 5) as usize];
                    let factor = if phase == 0 { ratio } else { 1.0 };
                    let took = (100.0 + 20.0 * batch as f64) * factor * pace.exp() * slowed;
                    phases[phase].push(Step {
                        step: number,
                        shape: format!("{}x{}x20", 8 - batch / 2, 100 + 20 * batch)
                            .parse()
                            .ok(),
                        service: Nanos((took * 1e6) as u64),
                        ..Step::default()
                    });
                }
            }
        }
        phases
    }

    #[test]
    fn intervals_hold_on_a_machine_with_bursts_of_other_work() {
        let mut draws = Draws::new(11);
        for rounds in [4, 8, 16] {
            let all = (0..400).filter_map(|_| {
                let [ours, theirs] = bursts(&mut draws, rounds, 1.0);
                paired_ratio(&ours, &theirs)
            });
            let all: Vec<Ratio> = all.collect();
            let covered = all.iter().filter(|ratio| !ratio.differs_from(1.0)).count();
            let covered = covered as f64 / all.len() as f64;
            let logs: Vec<f64> = all.iter().map(|ratio| ratio.value.ln()).collect();
            assert!(covered >= 0.85, "{rounds}: {covered}");
            assert!(mean(&logs).abs() < 0.02, "{rounds}: {}", mean(&logs));
        }
    }

    /// Why steps are paired: what slows a whole round is no difference between its phases.
    #[test]
    fn an_interval_from_unpaired_steps_is_wider() {
        let mut draws = Draws::new(7);
        let width = |ratio: Option<Ratio>| ratio.map_or(f64::NAN, |ratio| ratio.high - ratio.low);
        let widths = (0..100).map(|_| {
            let [ours, theirs] = profile(&mut draws, 16, 1.2);
            let both = [paired_ratio(&ours, &theirs), matched_ratio(&ours, &theirs)];
            both.map(width)
        });
        let [paired, unpaired] = widths.fold([0.0; 2], |sum, of| [sum[0] + of[0], sum[1] + of[1]]);
        assert!(paired < 0.8 * unpaired, "{paired} {unpaired}");
    }

    #[test]
    fn phases_that_did_not_take_turns_have_no_rounds() {
        let [ours, theirs] = profile(&mut Draws::new(1), 4, 1.0);
        assert_eq!(rounds(&ours, &theirs[..4]), 0);
        let [ours, theirs] = [&ours[..5], &theirs[..2]];
        assert_eq!(paired_ratio(ours, theirs), matched_ratio(ours, theirs));
    }

    #[test]
    fn students_table_goes_on_smoothly() {
        let all: Vec<f64> = (1..60).map(student_95).collect();
        assert!(all.windows(2).all(|pair| pair[0] > pair[1]), "{all:?}");
        assert!((student_95(30) - 1.697).abs() < 0.003);
    }
}
