//! How the cores are divided between the model and the workers that feed it.

/// Threads, each number with the reason for it where it is not given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Threads {
    pub(super) workers: usize,
    pub(super) workers_why: &'static str,
    pub(super) compute: usize,
    pub(super) compute_why: &'static str,
}

/// Who needs the cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Workload {
    /// The model trains on the CPU.
    Model,
    /// The model trains in one half of the CPU, batches are prepared in the other.
    TwoLanes,
    /// The model trains on a GPU: the host only makes batches, and the threads that search
    /// alignments are others.
    Workers,
}

/// Divides `cores`; what is given stays.
///
/// One worker makes the features of some hundred clips a second (`benches/records/data-side.md`),
/// far more than a model takes that trains on the same CPU, and with a warm cache it only copies.
/// So the model gets most cores. With one or two, a worker that had a core to itself would take it
/// from the model and be idle on it: there the two share.
pub(super) fn divide(
    cores: usize,
    workload: Workload,
    workers: Option<usize>,
    compute: Option<usize>,
) -> Threads {
    let quarter = (cores / 4).max(1);
    let little = "a quarter of the cores: it takes little to feed a model on the CPU";
    let (usual_workers, workers_why, usual_compute, compute_why) = match workload {
        Workload::Model if cores <= 2 => (
            1,
            "with so few cores one is enough",
            cores,
            "one for each core; the worker is idle most of the time",
        ),
        Workload::Model => {
            let left = cores.saturating_sub(compute.unwrap_or(0)).max(1);
            let usual = quarter.min(left);
            let left = cores.saturating_sub(workers.unwrap_or(usual)).max(1);
            (usual, little, left, "the cores that the workers leave")
        }
        Workload::TwoLanes => (
            quarter,
            little,
            (cores / 2).max(1),
            "half the cores; the other half is the lane that prepares",
        ),
        Workload::Workers => (
            cores.saturating_sub(1).max(1),
            "all cores but one: the model is on a GPU",
            1,
            "the model is on a GPU; the workers have the rest",
        ),
    };
    Threads {
        workers: workers.unwrap_or(usual_workers),
        workers_why,
        compute: compute.unwrap_or(usual_compute),
        compute_why,
    }
}

/// Threads for what is read and computed of all clips before the first step, when nobody else is at work: those of the
/// workers and of the model together, but no more than there are cores or the model computes on anyway.
pub(super) fn scanning(cores: usize, workers: usize, compute: usize) -> usize {
    (workers + compute).min(cores.max(compute)).max(1)
}

/// Whether there are more threads than the rule above gives.
pub fn oversubscribed(cores: usize, workers: usize, compute: usize) -> bool {
    let most = if cores <= 2 { cores + 1 } else { cores };
    workers + compute > most
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(cores: usize, workers: Option<usize>, compute: Option<usize>) -> (usize, usize) {
        let threads = divide(cores, Workload::Model, workers, compute);
        (threads.workers, threads.compute)
    }

    #[test]
    fn above_two_cores_there_are_never_more_threads_than_cores() {
        assert_eq!(numbers(4, None, None), (1, 3));
        assert_eq!(numbers(8, None, None), (2, 6));
        for cores in 3..=64 {
            let (workers, compute) = numbers(cores, None, None);
            assert_eq!(workers + compute, cores);
            assert!(
                !oversubscribed(cores, workers, compute)
                    && oversubscribed(cores, workers + 1, compute)
            );
        }
    }

    #[test]
    fn two_lanes_halve_the_cores_and_a_gpu_leaves_them_to_the_workers() {
        let of = |cores, workload| {
            let threads = divide(cores, workload, None, None);
            (threads.workers, threads.compute)
        };
        assert_eq!(of(2, Workload::TwoLanes), (1, 1));
        assert_eq!(of(8, Workload::TwoLanes), (2, 4));
        assert_eq!(of(8, Workload::Workers), (7, 1));
        assert_eq!(of(1, Workload::Workers), (1, 1));
    }

    #[test]
    fn a_scan_takes_the_threads_of_all_and_no_more_than_there_are_cores() {
        for cores in 1..=64 {
            for workload in [Workload::Model, Workload::Workers] {
                let threads = divide(cores, workload, None, None);
                assert_eq!(scanning(cores, threads.workers, threads.compute), cores);
            }
        }
        assert_eq!(scanning(8, 2, 1), 3, "fewer were asked for");
        assert_eq!(scanning(2, 1, 4), 4, "more were asked for");
    }

    #[test]
    fn on_one_or_two_cores_the_worker_shares_with_the_model() {
        assert_eq!(numbers(2, None, None), (1, 2));
        assert_eq!(numbers(1, None, None), (1, 1));
        assert!(!oversubscribed(2, 1, 2) && oversubscribed(2, 2, 2));
    }

    #[test]
    fn what_is_given_stays_and_the_rest_goes_to_the_other() {
        assert_eq!(numbers(8, Some(4), None), (4, 4));
        assert_eq!(numbers(8, None, Some(7)), (1, 7));
        assert_eq!(numbers(8, None, Some(2)), (2, 2));
        assert_eq!(numbers(8, None, Some(20)), (1, 20));
        assert_eq!(numbers(4, Some(9), None), (9, 1));
        assert_eq!(numbers(8, Some(3), Some(3)), (3, 3));
    }
}
