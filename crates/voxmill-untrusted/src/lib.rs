//! What others wrote: a file may be endless, and a text may be commands to a terminal.
//!
//! [`file`] is how a file is read that somebody gave to the program, [`shown`] how a text leaves it.

#![warn(missing_docs)]

pub mod file;
pub mod shown;
