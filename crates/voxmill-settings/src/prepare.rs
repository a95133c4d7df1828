//! The settings of `prepare`, and how work is spread over threads and memory.

mod refusals;

use std::path::PathBuf;

use voxmill_pipeline::plan::Order;
use voxmill_telemetry::probes::{Roots, cores, usable_memory};

pub use refusals::{hint_for_bad, no_room_for_cache};

use super::resolver::Resolver;
use super::{DataSettings, ResolvedSetting};
use crate::args::PrepareArgs;
use crate::config::keys::{self, Verbs};
use crate::note::Note;
use voxmill_data::build::BuildSettings;

/// The settings of `prepare`, valid as a whole.
#[derive(Debug)]
pub struct PrepareSettings {
    pub data: DataSettings,
    pub verify: bool,
    pub gc: bool,
    /// Threads that read headers and make features.
    pub workers: usize,
    pub spread: BuildSettings,
    pub log: Option<PathBuf>,
    pub trace: Option<PathBuf>,
    pub json: bool,
    pub notes: Vec<Note>,
    pub resolved: Vec<ResolvedSetting>,
}

impl PrepareSettings {
    /// Refuses what contradicts itself or cannot be had.
    pub fn resolve(args: PrepareArgs) -> anyhow::Result<PrepareSettings> {
        let mut r = Resolver::new(args.flags, Verbs::PREPARE)?;
        let data = DataSettings::resolve(&mut r, false)?;
        let spread = spread(&mut r, cores(), "one for each core");
        Ok(PrepareSettings {
            data,
            verify: args.verify,
            gc: args.gc,
            workers: spread.workers,
            spread,
            log: args.log,
            trace: args.trace,
            json: args.json,
            notes: r.notes(),
            resolved: r.resolved,
        })
    }
}

/// How much memory to count on where the system does not say how much there is.
const UNKNOWN_MEMORY: u64 = 8 << 30;

/// `workers` is how many to start by default, for the reason given.
pub(super) fn spread(r: &mut Resolver, workers: usize, why: &'static str) -> BuildSettings {
    let workers = r.auto(&keys::NUM_WORKERS, workers, why);
    let memory = usable_memory(&Roots::default()).unwrap_or(UNKNOWN_MEMORY);
    // In as many digits as it is shown with.
    let quarter = match memory / 4 {
        quarter @ 1_000_000_000.. => quarter - quarter % 100_000_000,
        quarter => quarter.next_multiple_of(1_000_000),
    };
    let ram_budget = r.auto(&keys::RAM_BUDGET, quarter, "a quarter of the memory");
    let unordered: bool = r.pick(&keys::UNORDERED);
    let no_overlap: bool = r.pick(&keys::NO_OVERLAP);
    BuildSettings {
        workers,
        ram_budget,
        order: if unordered { Order::Free } else { Order::Kept },
        overlap: !no_overlap,
        adapt: r.pick(&keys::AUTO_TUNE_PERFORMANCE),
    }
}
