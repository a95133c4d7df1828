//! The configuration file: which keys there are, what each does, and where a bad one stands.

pub(crate) mod file;
pub(crate) mod keys;
pub(crate) mod value;
