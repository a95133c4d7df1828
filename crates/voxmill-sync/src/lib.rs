//! What the threads of a pipeline wait for: an item or room in a [`buffer`], bytes of a [`budget`], a
//! place on a device ([`slots`]), a [`turn`].
//!
//! A crate of its own, so that a model checker can put its primitives in the place of the real ones
//! (`--cfg loom`) without any of the API going away: only what is here is checked that way.

pub mod budget;
pub mod buffer;
mod primitives;
pub mod slots;
pub mod turn;

pub use primitives::lock;
