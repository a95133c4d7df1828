//! Watches a device's pools while a run trains: the limit holds, and growth is noticed.

use std::sync::Arc;

use super::PoolUsage;
use crate::device::{Device, memory_in_use};

/// More than this share above what it settled at is growth.
const GROWTH: f64 = 0.05;

/// Who reads the pools: the model's thread, or that of the data device.
#[derive(Debug)]
pub enum Pools {
    Model(Device),
    Data(Arc<PoolUsage>),
}

/// What was noticed at a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryFinding {
    /// The pools hold more than the limit allows: the run must end.
    AboveLimit { bytes: u64, limit: u64 },
    /// They held more, until they released what was only kept for later. Found once.
    WasAboveLimit { most: u64, limit: u64 },
    /// More than at the step where they had settled. Found once.
    Grows { since: u64, steps: u64, bytes: u64 },
}

/// Looks at a device's pools from step to step, for a limit and for growth that does not end.
#[derive(Debug)]
pub struct MemoryWatch {
    pools: Pools,
    limit: Option<u64>,
    last: u64,
    peak: u64,
    /// Where growth is counted from: after all shapes have come by.
    settled: Option<(u64, u64)>,
    settle_after: u64,
    found_growth: bool,
    found_excess: bool,
}

impl MemoryWatch {
    /// `settle_after`: steps until every shape has been seen in steps as they will be from then on.
    pub fn new(pools: Pools, limit: Option<u64>, settle_after: u64) -> Self {
        Self {
            pools,
            limit,
            last: 0,
            peak: 0,
            settled: None,
            settle_after,
            found_growth: false,
            found_excess: false,
        }
    }

    /// What they may hold, where that was given.
    pub fn limit(&self) -> Option<u64> {
        self.limit
    }

    /// Bytes at the last check; `None` where the backend does not report it.
    pub fn now(&self) -> Option<u64> {
        (self.last > 0).then_some(self.last)
    }

    /// The most that the pools held; `None` where the backend does not report it.
    pub fn peak(&self) -> Option<u64> {
        (self.peak > 0).then_some(self.peak)
    }

    /// Looks now; each finding is reported once.
    pub fn check(&mut self, step: u64) -> Option<MemoryFinding> {
        let (bytes, most) = match &self.pools {
            Pools::Model(device) => reserved(device, self.limit)?,
            Pools::Data(pools) if pools.most() > 0 => (pools.last(), pools.most()),
            Pools::Data(_) => return None,
        };
        self.last = bytes;
        self.peak = self.peak.max(most);
        if let Some(limit) = self.limit.filter(|limit| bytes > *limit) {
            return Some(MemoryFinding::AboveLimit { bytes, limit });
        }
        if let Some(limit) = self.limit.filter(|limit| most > *limit)
            && !self.found_excess
        {
            self.found_excess = true;
            return Some(MemoryFinding::WasAboveLimit { most, limit });
        }
        self.growth(step, bytes)
    }

    fn growth(&mut self, step: u64, reserved: u64) -> Option<MemoryFinding> {
        let Some((since, before)) = self.settled else {
            if step >= self.settle_after {
                self.settled = Some((step, reserved));
            }
            return None;
        };
        let bytes = reserved.saturating_sub(before);
        if self.found_growth || (bytes as f64) < GROWTH * before as f64 {
            return None;
        }
        self.found_growth = true;
        let steps = (step - since).max(1);
        Some(MemoryFinding::Grows {
            since,
            steps,
            bytes,
        })
    }
}

/// Bytes that a device's pools hold, and what they held before they released what was only kept for later, which
/// they do above the limit.
fn reserved(device: &Device, limit: Option<u64>) -> Option<(u64, u64)> {
    let most = memory_in_use(device)?.reserved;
    if limit.is_none_or(|limit| most <= limit) {
        return Some((most, most));
    }
    device.memory_cleanup();
    Some((memory_in_use(device)?.reserved, most))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_is_found_once_and_only_after_all_shapes_have_come_by() {
        let cpu = Pools::Model(crate::device::cpu());
        let mut watch = MemoryWatch::new(cpu, None, 100);
        assert_eq!(watch.growth(50, 10_000_000), None);
        assert_eq!(watch.growth(100, 100_000_000), None, "it settles here");
        assert_eq!(watch.growth(200, 104_000_000), None);
        let grows = MemoryFinding::Grows {
            since: 100,
            steps: 200,
            bytes: 20_000_000,
        };
        assert_eq!(watch.growth(300, 120_000_000), Some(grows));
        assert_eq!(watch.growth(400, 140_000_000), None);
    }

    #[test]
    fn a_data_device_above_its_limit_is_found() {
        let pools = Arc::new(PoolUsage::default());
        let mut watch = MemoryWatch::new(Pools::Data(Arc::clone(&pools)), Some(1_000_000), 100);
        assert_eq!(watch.check(1), None, "nothing was read yet");
        assert_eq!(watch.now(), None);
        pools.record(900_000);
        assert_eq!(watch.check(2), None);
        pools.record(1_100_000);
        pools.record(900_000);
        let was_above = MemoryFinding::WasAboveLimit {
            most: 1_100_000,
            limit: 1_000_000,
        };
        assert_eq!(watch.check(3), Some(was_above));
        assert_eq!(watch.check(4), None, "found once");
        pools.record(2_000_000);
        let above = MemoryFinding::AboveLimit {
            bytes: 2_000_000,
            limit: 1_000_000,
        };
        assert_eq!(watch.check(3), Some(above));
        assert_eq!([watch.now(), watch.peak()], [Some(2_000_000); 2]);
    }
}
