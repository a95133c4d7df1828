//! What the CPU does better by hand: whole blocks of the model as one operation with its own
//! backward pass.
//!
//! Written with the library's single operations, a block walks through memory some thirty times,
//! and every result in between is kept for the backward pass. Here a segment of frames goes
//! through the whole block while it is in the cache, padding is never touched, and only what the
//! backward pass cannot cheaply make again is kept. Other devices take the same block written
//! with single operations (`model::block`); tests compare the two.

mod adam;
mod block;
mod block_op;
mod expand_op;
mod matrix;
mod rows;

pub(crate) use adam::{StepNumbers, adam};
pub(crate) use block::NORM_EPSILON;
pub(crate) use block_op::{BlockInputs, block};
pub(crate) use expand_op::expand;
