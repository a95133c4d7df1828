//! What to write: a setting as a line of the file and as a flag.

use crate::config::keys::Key;

/// A setting as it should stand.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Line {
    pub(crate) key: &'static Key,
    /// `None`: leave it out.
    pub(crate) value: Option<String>,
}

impl Line {
    /// `num_workers: 1`
    pub(crate) fn in_file(&self) -> Option<String> {
        let value = self.value.as_ref()?;
        Some(format!("{}: {value}", self.key.name))
    }

    /// `--num-workers 1`
    pub(crate) fn flag(&self) -> Option<String> {
        Some(self.key.flag_with(self.value.as_deref()?))
    }
}
