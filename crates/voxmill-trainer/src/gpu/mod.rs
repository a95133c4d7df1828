//! What a GPU does better in few kernels of our own: blocks of the model, looked-up rows, the update of all weights.
//!
//! Written with the library's single operations, a step of a small model is some thousand kernels, each of which takes
//! longer to launch than to run. Products stay the library's, which tunes them; what lies between two of them is one
//! kernel here, and each operation has its own backward pass. The CPU has its own (`crate::cpu`); both are compared with
//! the same blocks in single operations.
//!
//! An operation is declared for the bare backend and, where kernels are fused, for the backend around it: there it waits
//! in the queue with all others, in their order.

mod block_kernels;
mod block_op;
mod launch;
mod look_up_kernels;
mod look_up_op;
mod stand_in_op;
mod update_kernels;
mod update_op;

pub(crate) use block_op::{BlockInputs, block};
pub(crate) use look_up_op::look_up;
pub(crate) use stand_in_op::stand_in;
pub(crate) use update_op::{PLACED_AT_ONCE, adam, place};
