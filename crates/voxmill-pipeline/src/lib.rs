//! Moves items of any kind through stages, with bounded buffers between them. Knows nothing of speech
//! or of tensors.
//!
//! A [`Plan`](voxmill_telemetry::plan::Plan) says which stages there are; a [`Road`](road::Road) puts
//! functions to their names and is started; [`Running`](run::Running) is what the consumer iterates.

#[cfg(not(feature = "loom"))]
pub mod adapt;
pub mod budget;
pub mod buffer;
pub mod counters;
pub mod position;
pub mod slots;

#[cfg(not(feature = "loom"))]
mod assembly;
#[cfg(not(feature = "loom"))]
pub mod control;
#[cfg(not(feature = "loom"))]
pub mod group;
#[cfg(not(feature = "loom"))]
mod intake;
#[cfg(not(feature = "loom"))]
pub mod item;
#[cfg(not(feature = "loom"))]
mod meter;
#[cfg(not(feature = "loom"))]
mod monitor;
#[cfg(not(feature = "loom"))]
mod pool;
#[cfg(not(feature = "loom"))]
pub mod road;
#[cfg(not(feature = "loom"))]
pub mod run;
#[cfg(not(feature = "loom"))]
mod source;
#[cfg(not(feature = "loom"))]
pub mod stage;
mod sync;
pub mod turn;
