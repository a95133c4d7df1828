//! The screen of `voxmill train` on a terminal: where the run stands, how the loss falls, who waits for whom.
//!
//! `state` is what is known, `render` draws it, both without a terminal; `shell` owns the terminal and the thread
//! that draws. The training thread only ever locks the state for as long as it takes to change some numbers.

mod curve;
mod numbers;
mod panels;
mod render;
mod shell;
mod state;

pub(crate) use shell::{Dashboard, restore_terminal};
pub(crate) use state::{BestValidation, Budget, BufferLevel, DeviceLoad, Goal, StepTimes};
