//! The settings of `prepare`, and how work is spread over threads and memory.

use std::path::PathBuf;

use voxmill_telemetry::plan::Order;
use voxmill_telemetry::probes::{Roots, usable_memory};

use super::resolver::Resolver;
use super::{DataSettings, Shown};
use crate::args::{PrepareArgs, WorkArgs};
use crate::config::keys;
use crate::feed::Spread;

#[derive(Debug)]
pub(crate) struct PrepareSettings {
    pub(crate) data: DataSettings,
    pub(crate) verify: bool,
    pub(crate) gc: bool,
    /// Threads that read headers and make features.
    pub(crate) workers: usize,
    pub(crate) spread: Spread,
    pub(crate) log: Option<PathBuf>,
    pub(crate) trace: Option<PathBuf>,
    pub(crate) json: bool,
    pub(crate) notes: Vec<String>,
    pub(crate) shown: Vec<Shown>,
}

impl PrepareSettings {
    pub(crate) fn resolve(args: PrepareArgs) -> anyhow::Result<PrepareSettings> {
        let mut r = Resolver::new(args.config.config.as_deref())?;
        let data = DataSettings::resolve(
            &mut r,
            args.dataset,
            args.text,
            &args.audio,
            &args.batches,
            args.cache,
        )?;
        let spread = spread(&mut r, &args.work, cores(), "one for each core");
        Ok(PrepareSettings {
            data,
            verify: args.check.verify,
            gc: args.check.gc,
            workers: spread.workers,
            spread,
            log: args.record.log,
            trace: args.record.trace,
            json: args.json,
            notes: r.notes(),
            shown: r.shown,
        })
    }
}

/// The cores that this process may use.
pub(crate) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// How much memory to count on where the system does not say how much there is.
const UNKNOWN_MEMORY: u64 = 8 << 30;

/// `workers` is how many to start where nobody says, for the reason given.
pub(super) fn spread(
    r: &mut Resolver,
    args: &WorkArgs,
    workers: usize,
    why: &'static str,
) -> Spread {
    let workers = r.auto(&keys::NUM_WORKERS, args.num_workers, workers, why);
    let memory = usable_memory(&Roots::default()).unwrap_or(UNKNOWN_MEMORY);
    let quarter = (memory / 4).next_multiple_of(1_000_000);
    let why = "a quarter of the memory";
    let ram_budget = r.auto(&keys::RAM_BUDGET, args.ram_budget, quarter, why);
    let unordered = r.pick(&keys::UNORDERED, args.unordered, false);
    let no_overlap = r.pick(&keys::NO_OVERLAP, args.no_overlap, false);
    let adapt = args.no_adapt.map(|not| !not);
    let adapt = r.pick(&keys::AUTO_TUNE_PERFORMANCE, adapt, true);
    Spread {
        workers,
        ram_budget,
        order: if unordered { Order::Free } else { Order::Kept },
        overlap: !no_overlap,
        adapt,
    }
}
