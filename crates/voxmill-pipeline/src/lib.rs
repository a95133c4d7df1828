//! Moves items of any kind through stages, with bounded buffers between them. Knows nothing of speech
//! or of tensors.
//!
//! A [`Pipeline`] is declared stage by stage; its [`Plan`](plan::Plan) can be shown before anything runs;
//! [`Running`](run::Running) is what the consumer iterates once it is started.

mod adapt;
mod assembly;
pub mod builder;
pub mod control;
pub mod counters;
pub mod group;
mod intake;
pub mod item;
mod meter;
mod monitor;
pub mod plan;
mod pool;
pub mod resume;
pub mod run;
mod source;
pub mod stage;

pub use builder::{Pipeline, StartError};
pub use voxmill_sync::{budget, buffer, slots, turn};
