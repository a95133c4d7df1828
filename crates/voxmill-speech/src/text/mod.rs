//! placeholder

pub mod detect;
pub mod persian;
