//! What to write: a setting as a line of the file and as a flag.

use crate::config::keys::Key;

/// A setting as it should stand.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    pub key: &'static Key,
    /// `None`: leave it out.
    pub value: Option<String>,
}

impl Line {
    /// `num_workers: 1`
    pub fn in_file(&self) -> Option<String> {
        let value = self.value.as_ref()?;
        Some(format!("{}: {value}", self.key.name))
    }

    /// `--num-workers 1`
    pub fn flag(&self) -> Option<String> {
        Some(self.key.flag_with(self.value.as_deref()?))
    }
}
