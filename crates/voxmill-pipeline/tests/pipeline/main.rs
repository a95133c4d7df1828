//! Pipelines that are run as their users run them.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot set itself up has failed"
)]

mod account;
mod basics;
mod budgets;
mod case;
mod common;
mod ending;
mod events;
mod faults;
mod gate;
mod kill;
mod live_change;
mod random_runs;
mod resume;
mod slots;
mod test_items;
mod threads;
mod watchdog;
