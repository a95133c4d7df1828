//! The settings as data: the table of them, values as people write them, and the configuration file.

mod bounds;
#[cfg(test)]
pub(crate) mod documents;
pub mod edit;
pub mod file;
pub mod keys;
pub mod legacy;
pub mod plan;
pub mod value;
