//! Events → findings. Pure: no clock, no printing, no files but the log that is read and the ledger of predictions.
//!
//! [`run`] reads a log, [`timing`] turns it into numbers, [`bottleneck`] finds what limits, and
//! [`profile`] is all of it together. [`compare`] compares runs, [`scaling`] sizes of one run, both by
//! [`resampling`]. [`simulate`] predicts what a change would gain, [`plan`] a run that is only stated, and [`ledger`]
//! keeps what was predicted until a run shows how it is. [`phases`] plans what a profile measures. The same log always
//! gives the same findings.

pub mod bottleneck;
pub mod compare;
pub mod data_side;
pub mod history;
pub mod ledger;
pub mod paired;
pub mod phases;
pub mod plan;
pub mod profile;
pub mod resampling;
pub mod run;
pub mod scaling;
pub mod scorecard;
pub mod setting;
pub mod simulate;
#[cfg(any(test, feature = "made-up"))]
pub mod synthetic;
pub mod timing;
