//! How long the run is, against what is to happen in it.

use super::{Check, Facts, all_of, count, thousands};
use crate::config::keys;

all_of!(warmup, checkpoints);

/// Where the run's length is known in steps.
pub(crate) fn steps(facts: &Facts<'_>) -> Option<u64> {
    let settings = facts.settings;
    let accumulate = u64::from(settings.optimization.gradient_accumulation_steps.get());
    let of_epochs = settings.stop_at.epochs.and_then(|epochs| {
        let batches = facts.data.as_ref()?.plan.batches_per_epoch();
        Some((epochs * batches).div_ceil(accumulate))
    });
    settings.stop_at.steps.into_iter().chain(of_epochs).min()
}

fn warmup(facts: &Facts<'_>) -> Option<Check> {
    let steps = steps(facts)?;
    let warmup = facts.settings.optimization.warmup_steps;
    if warmup < steps || warmup == 0 {
        return None;
    }
    let (length, warm_up) = (count(steps, "step"), thousands(warmup));
    let what = format!(
        "the run ends after {length} and warms up for {warm_up}: the learning rate never reaches its highest"
    );
    let lr = facts.settings.optimization.peak_learning_rate;
    let reached = lr * steps as f64 / warmup as f64;
    let costs = format!("it ends at {reached:.1e} instead of {lr:.1e}");
    let check = facts.warning(&keys::WARMUP_STEPS, what).costs(costs);
    Some(check.suggest(&keys::WARMUP_STEPS, steps / 10))
}

fn checkpoints(facts: &Facts<'_>) -> Option<Check> {
    let steps = steps(facts)?;
    let every = facts.settings.checkpoints.every.get();
    if every <= steps {
        return None;
    }
    let (often, length) = (thousands(every), thousands(steps));
    let what = format!(
        "a checkpoint every {often} steps, and the run has {length}: only its end is saved"
    );
    let costs = format!("a kill loses up to {}", count(steps, "step"));
    let check = facts.note(&keys::CHECKPOINT_EVERY, what).costs(costs);
    Some(check.suggest(&keys::CHECKPOINT_EVERY, (steps / 4).max(1)))
}

#[cfg(test)]
mod tests {
    use super::super::Level;
    use super::super::tests::{Machine, finding};
    use super::*;

    #[test]
    fn epochs_that_end_before_the_warm_up_are_a_warning() {
        let check = finding("--epochs 1 --warmup-steps 500", &keys::WARMUP_STEPS).unwrap();
        let what = check.what;
        assert!(what.starts_with("the run ends after"), "{what}");
        assert!(finding("--epochs 100", &keys::WARMUP_STEPS).is_none());
    }

    #[test]
    fn a_run_that_never_saves_on_the_way_is_a_note() {
        let check = finding("--max-steps 200", &keys::CHECKPOINT_EVERY).unwrap();
        assert_eq!(check.level, Level::Note);
        assert_eq!(
            check.suggestions[0].in_file().unwrap(),
            "checkpoint_every: 50"
        );
        assert!(finding("--max-steps 2000", &keys::CHECKPOINT_EVERY).is_none());
    }

    #[test]
    fn a_run_by_the_clock_has_no_length_in_steps() {
        assert_eq!(steps(&Machine::with("--max-minutes 3", 2).facts()), None);
    }
}
