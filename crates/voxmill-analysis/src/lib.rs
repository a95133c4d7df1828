//! Events → findings. Pure: no clock, no printing, no files but the log that is read.
//!
//! [`run`] takes a log apart, [`timing`] makes numbers of it, [`bottleneck`] says what they mean, and
//! [`profile`] is all of it together. [`compare`] holds runs against each other, [`scaling`] sizes of one
//! run, both by [`resampling`]. The same log always gives the same findings.

pub mod bottleneck;
pub mod compare;
pub mod data_side;
#[cfg(any(test, feature = "made-up"))]
pub mod made_up;
pub mod profile;
pub mod resampling;
pub mod run;
pub mod scaling;
pub mod scorecard;
pub mod timing;
