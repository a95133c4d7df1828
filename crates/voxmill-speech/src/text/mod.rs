//! placeholder

pub mod english;
