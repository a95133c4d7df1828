//! Roads that are run as their users run them.

mod basics;
mod budgets;
mod case;
mod ending;
mod faults;
mod random_runs;
mod threads;
mod watchdog;
