//! What a running pipeline knows of itself: where its workers' time went.

use std::time::Duration;

use crate::budget::BudgetUsage;

/// The state of a pipeline at one moment. All times are sums since its start, over all workers of a
/// stage, and include waits that have not ended; two snapshots make an observation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunSnapshot {
    pub at: Duration,
    /// In the order of the pipeline; the source first, the consumer last.
    pub stages: Vec<StageCounters>,
    pub budgets: Vec<BudgetUsage>,
}

/// What a stage has done so far.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StageCounters {
    pub name: String,
    /// Items that left the stage, gaps included.
    pub items: u64,
    /// Workers there are, idle or not.
    pub workers: usize,
    /// Items in hand.
    pub working: Duration,
    /// The buffer before was empty: an earlier stage is late.
    pub starved: Duration,
    /// The budget was used up, or all slots were taken.
    pub short_of_room: Duration,
    /// The buffer behind was full: a later stage is slower.
    pub blocked: Duration,
    /// Items in the buffer behind the stage, and how many it may hold. Both 0 for the consumer.
    pub buffered: usize,
    pub capacity: usize,
}
