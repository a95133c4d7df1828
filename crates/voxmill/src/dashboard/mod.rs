//! The terminal of `voxmill train` while the dashboard is shown: `shell` owns it and the thread that draws. What is
//! drawn is in the report crate. The training thread locks the state only for as long as it takes to change numbers.

mod shell;

pub(crate) use shell::{Dashboard, restore_terminal};
pub(crate) use voxmill_report::dashboard::{BestValidation, DeviceLoad, Goal, StepTimes};
