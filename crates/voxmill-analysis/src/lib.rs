//! Events → findings. Pure: no clock, no printing, no files but the log that is read.
//!
//! [`run`] takes a log apart, [`timing`] makes numbers of it, [`bottleneck`] says what they mean, and
//! [`profile`] is all of it together. The same log always gives the same findings.

pub mod bottleneck;
pub mod data_side;
#[cfg(any(test, feature = "made-up"))]
pub mod made_up;
pub mod profile;
pub mod run;
pub mod scorecard;
pub mod timing;
