//! A message that is printed once, with its level.

use std::fmt;

use crate::checks::Level;

/// One line for standard error. Its level is printed in front of it, and is what `validate` counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    pub level: Level,
    pub text: String,
}

impl Note {
    /// A note of that level.
    pub fn warning(text: impl Into<String>) -> Note {
        Note {
            level: Level::Warning,
            text: text.into(),
        }
    }
}

impl From<String> for Note {
    fn from(text: String) -> Note {
        Note {
            level: Level::Note,
            text,
        }
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.level.name(), self.text)
    }
}
