//! The settings as data: the table of them, values as people write them, and the configuration file.

#[cfg(test)]
mod documents;
pub(crate) mod file;
pub(crate) mod keys;
mod legacy;
pub(crate) mod value;
