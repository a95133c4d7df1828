//! Roads that are run as their users run them.

mod basics;
mod case;
mod random_runs;
mod watchdog;
