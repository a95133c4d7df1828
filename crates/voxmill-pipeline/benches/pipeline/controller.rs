//! The controller finds the workers that a load needs.

pub(crate) fn run() {}
