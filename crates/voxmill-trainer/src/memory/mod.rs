//! What a run takes of its devices while it runs: admitted before it comes, polled, and compared with limits.

mod gate;
mod watch;

use std::sync::atomic::{AtomicU64, Ordering};

pub use gate::{Admitted, MemoryGate, NoRoom};
pub use watch::{MemoryFinding, MemoryWatch, Pools};

/// Bytes that the pools held at the last check, and at the most; 0 before the first, or where the backend does
/// not report it.
#[derive(Debug, Default)]
pub struct PoolUsage {
    last: AtomicU64,
    most: AtomicU64,
}

impl PoolUsage {
    /// At the last check.
    pub fn last(&self) -> u64 {
        self.last.load(Ordering::Relaxed)
    }

    /// At any check.
    pub fn most(&self) -> u64 {
        self.most.load(Ordering::Relaxed)
    }

    /// Notes what a check found.
    pub fn record(&self, bytes: u64) {
        self.last.store(bytes, Ordering::Relaxed);
        self.most.fetch_max(bytes, Ordering::Relaxed);
    }
}
