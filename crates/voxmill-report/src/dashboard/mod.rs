//! The screen of `voxmill train` and `voxmill watch`: where the run stands, how the loss falls, who waits for whom.
//!
//! `state` is what is known, `render` draws it, both without a terminal.

mod curve;
mod panels;
mod render;
mod state;
mod watched;

pub use curve::Curve;
pub use render::render;
pub use state::{
    BestValidation, BudgetLevel, BufferLevel, DashboardState, DeviceLoad, Goal, Look, ShownMessage,
    StepTimes, View, Watching,
};
pub use watched::{StepLine, WatchedRun, doing, ended, step_line};
