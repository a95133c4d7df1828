//! What a person sees when something is wrong: what, where, why, and the next move.

use std::fmt;

use crate::config::keys::Key;

/// An error that knows its hint. Printed as `error: …`, causes, a blank line, `hint: …`.
#[derive(Debug)]
pub(crate) struct Complaint {
    what: String,
    hint: String,
    source: Option<anyhow::Error>,
    mends: Vec<Mend>,
}

/// A setting that, written so, ends a complaint.
#[derive(Clone, Debug)]
pub(crate) struct Mend {
    pub(crate) key: &'static Key,
    /// `None`: leave it out.
    pub(crate) value: Option<String>,
}

impl Complaint {
    pub(crate) fn new(what: impl Into<String>, hint: impl Into<String>) -> Self {
        Complaint {
            what: what.into(),
            hint: hint.into(),
            source: None,
            mends: Vec::new(),
        }
    }

    /// What `voxmill validate` may write in place of the setting that is complained of.
    pub(crate) fn mend(mut self, key: &'static Key, value: Option<&str>) -> Self {
        let value = value.map(str::to_owned);
        self.mends.push(Mend { key, value });
        self
    }

    pub(crate) fn hint(&self) -> &str {
        &self.hint
    }

    pub(crate) fn mends(&self) -> &[Mend] {
        &self.mends
    }

    pub(crate) fn because(mut self, source: impl Into<anyhow::Error>) -> Self {
        self.source = Some(source.into());
        self
    }
}

impl fmt::Display for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl std::error::Error for Complaint {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_ref().map(|cause| cause.as_ref() as _)
    }
}

/// The whole text for standard error, colours left out: it reads the same in a log.
pub(crate) fn describe(error: &anyhow::Error) -> String {
    let mut text = format!("error: {error}");
    let mut last = error.to_string();
    for cause in error.chain().skip(1) {
        let cause = cause.to_string();
        // Libraries often repeat their cause in their own message.
        if !last.contains(&cause) {
            text.push_str("\n  because: ");
            text.push_str(&cause);
        }
        last = cause;
    }
    let hint = error
        .chain()
        .find_map(|cause| cause.downcast_ref::<Complaint>());
    if let Some(complaint) = hint {
        text.push_str("\n\nhint: ");
        text.push_str(&complaint.hint);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_complaint_names_the_thing_the_cause_and_the_next_move() {
        let io = std::io::Error::other("disk on fire");
        let error =
            anyhow::Error::new(Complaint::new("cannot write `a`", "buy a disk").because(io));
        assert_eq!(
            describe(&error),
            "error: cannot write `a`\n  because: disk on fire\n\nhint: buy a disk"
        );
    }
}
