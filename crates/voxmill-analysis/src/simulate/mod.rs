//! A pipeline without threads: the same rules in simulated time, so that a change can be tried before it is made.
//!
//! [`setup`] is what is simulated, [`engine`] runs it. The rules are those of `voxmill-pipeline` and `voxmill-sync`:
//! order kept, hand-off in eighths, bytes granted in item order, slots, start gate. Its property tests run random plans
//! through both. Workers that compute share the machine's cores; workers that wait do not.

mod belt;
#[cfg(test)]
mod closed_loop;
mod cores;
pub mod engine;
pub mod model;
pub mod setup;
#[cfg(test)]
mod tests;
pub mod times;
pub mod what_if;
