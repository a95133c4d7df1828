//! Workers and compute threads compared with the cores that there are.

use super::{Check, Facts, count};
use crate::config::keys;
use crate::oversubscribed;

pub(super) fn check(facts: &Facts<'_>) -> Vec<Check> {
    crowded(facts).or_else(|| idle(facts)).into_iter().collect()
}

fn crowded(facts: &Facts<'_>) -> Option<Check> {
    let (cores, settings) = (facts.cores, facts.settings);
    let (workers, compute) = (settings.feeding.workers, settings.compute_threads);
    let (usual_workers, usual_compute) = settings.feeding.usual_threads;
    let workers_given = facts.given(&keys::NUM_WORKERS);
    let compute_given = facts.given(&keys::COMPUTE_THREADS);
    if !oversubscribed(cores, workers, compute) || !(workers_given || compute_given) {
        return None;
    }
    // The one that is out of proportion is pointed at.
    let by_workers = workers_given && (workers > usual_workers || !compute_given);
    let (key, many, usual) = match by_workers {
        true => (
            &keys::NUM_WORKERS,
            count(workers as u64, "worker"),
            usual_workers,
        ),
        false => {
            let threads = count(compute as u64, "compute thread");
            (&keys::COMPUTE_THREADS, threads, usual_compute)
        }
    };
    let what = format!("{many} on {}", count(cores as u64, "core"));
    let threads = workers + compute;
    let costs = format!(
        "{workers} of feeding and {compute} of the model are {threads} threads, {:.1} for each core: they take the cores from each other",
        threads as f64 / cores as f64
    );
    let check = facts.warning(key, what).costs(costs);
    Some(check.suggest(key, usual))
}

/// Fewer workers than usual are only worth a note where nobody else takes the cores.
fn idle(facts: &Facts<'_>) -> Option<Check> {
    let settings = facts.settings;
    let (workers, compute) = (settings.feeding.workers, settings.compute_threads);
    let (usual_workers, _) = settings.feeding.usual_threads;
    let threads = workers + compute;
    if threads >= facts.cores || workers >= usual_workers {
        return None;
    }
    let what = format!(
        "{} and {} leave cores idle",
        count(workers as u64, "worker"),
        count(compute as u64, "compute thread")
    );
    let costs = format!("{threads} threads on {}", count(facts.cores as u64, "core"));
    let check = facts.note(&keys::NUM_WORKERS, what).costs(costs);
    Some(check.suggest(&keys::NUM_WORKERS, usual_workers))
}

#[cfg(test)]
mod tests {
    use super::super::Level;
    use super::super::tests::{Machine, finding, found};
    use super::*;

    #[test]
    fn more_workers_than_cores_are_a_warning_with_the_usual_number() {
        let check = finding("--num-workers 12", &keys::NUM_WORKERS).expect("too many workers");
        assert_eq!(check.level, Level::Warning);
        assert_eq!(check.what, "12 workers on 2 cores");
        let costs = check.costs.as_ref().unwrap();
        assert!(costs.contains("14 threads, 7.0 for each core"));
        assert_eq!(check.suggestions[0].flag().unwrap(), "--num-workers 1");
    }

    #[test]
    fn compute_threads_are_pointed_at_when_they_are_too_many() {
        let machine = Machine::with("--compute-threads 9", 4);
        let check = found(&machine.facts(), &keys::COMPUTE_THREADS).expect("too many threads");
        assert_eq!(
            check.suggestions[0].in_file().unwrap(),
            "compute_threads: 3"
        );
    }

    #[test]
    fn what_the_machine_is_given_by_itself_is_right() {
        for cores in [1, 2, 3, 8, 64] {
            let machine = Machine::with("", cores);
            assert!(check(&machine.facts()).is_empty(), "{cores}");
        }
        let same = Machine::with("--num-workers 1 --compute-threads 2", 2);
        assert!(check(&same.facts()).is_empty());
    }

    #[test]
    fn cores_that_nobody_uses_are_a_note() {
        let machine = Machine::with("--num-workers 1 --compute-threads 2", 16);
        let check = found(&machine.facts(), &keys::NUM_WORKERS).expect("13 idle cores");
        assert_eq!(check.level, Level::Note);
        assert_eq!(check.costs.as_deref(), Some("3 threads on 16 cores"));
    }
}
