//! What a person sees when something is wrong: what, where, why, and the next move.

pub mod of_library;

use std::fmt;

use voxmill_telemetry::event::{Failure, Shortage};
use voxmill_untrusted::shown::{shortened, unbroken};

use crate::checks::Suggestion;
use crate::config::keys::Key;

/// An error that knows its hint. Printed as `error: …`, causes, a blank line, `hint: …`.
#[derive(Debug)]
pub struct UserError {
    what: String,
    hint: String,
    source: Option<anyhow::Error>,
    /// The settings that cause it; the second is true where changing one so avoids it.
    about: Vec<(Suggestion, bool)>,
    shortage: Option<Shortage>,
    /// Whether the line ends in it are its own.
    in_lines: bool,
}

impl UserError {
    /// What is wrong, and the next move.
    pub fn new(what: impl Into<String>, hint: impl Into<String>) -> Self {
        UserError {
            what: what.into(),
            hint: hint.into(),
            source: None,
            about: Vec::new(),
            shortage: None,
            in_lines: false,
        }
    }

    /// Its text has several lines, and no line ends of others.
    pub(crate) fn in_lines(mut self) -> Self {
        self.in_lines = true;
        self
    }

    /// Settings that cause it, the most likely one first.
    pub fn about(mut self, keys: &[&'static Key]) -> Self {
        let about = |&key| (Suggestion { key, value: None }, false);
        self.about.extend(keys.iter().map(about));
        self
    }

    /// A setting that, written so, avoids the error: `voxmill validate --fix` writes it.
    pub fn fix(mut self, key: &'static Key, value: Option<&str>) -> Self {
        let value = value.map(str::to_owned);
        self.about.push((Suggestion { key, value }, true));
        self
    }

    /// The settings that it is about, the most likely one first.
    pub fn keys(&self) -> Vec<&'static Key> {
        self.about.iter().map(|(setting, _)| setting.key).collect()
    }

    /// The next move.
    pub fn hint(&self) -> &str {
        &self.hint
    }

    /// What to write so that it does not come.
    pub fn fixes(&self) -> Vec<Suggestion> {
        let fixes = self.about.iter().filter(|(_, is_fix)| *is_fix);
        fixes.map(|(setting, _)| setting.clone()).collect()
    }

    /// The numbers behind a refusal for lack of memory, for the program that started this one.
    pub fn short_of_memory(mut self, needs: u64, limit: u64) -> Self {
        self.shortage = Some(Shortage { needs, limit });
        self
    }

    /// What lies behind it.
    pub fn because(mut self, source: impl Into<anyhow::Error>) -> Self {
        self.source = Some(source.into());
        self
    }
}

impl fmt::Display for UserError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl std::error::Error for UserError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_ref().map(|cause| cause.as_ref() as _)
    }
}

/// The whole text for standard error, colours left out: it reads the same in a log.
pub fn describe(error: &anyhow::Error) -> String {
    let mut text = format!("error: {}", messages(error).join("\n  because: "));
    if let Some(error) = user_errors(error).next() {
        text.push_str("\n\nhint: ");
        text.push_str(&unbroken(&error.hint));
    }
    text
}

fn user_errors(error: &anyhow::Error) -> impl Iterator<Item = &UserError> {
    error.chain().filter_map(|cause| cause.downcast_ref())
}

/// A value that was typed or stands in a file is repeated in messages, whatever its length.
const LONGEST_MESSAGE: usize = 4_000;

/// The error and its causes, each in one line: a path or a name in it may have line ends, and would
/// otherwise speak for the program. Libraries often repeat their cause in their own message: then it is left out.
fn messages(error: &anyhow::Error) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    let mut last = None;
    for cause in error.chain() {
        let mut message = shortened(&cause.to_string(), LONGEST_MESSAGE).into_owned();
        let own: Option<&UserError> = cause.downcast_ref();
        if !own.is_some_and(|error| error.in_lines) {
            message = unbroken(&message).into_owned();
        }
        if !last.is_some_and(|last: String| last.contains(&message)) {
            all.push(message.clone());
        }
        last = Some(message);
    }
    all
}

/// A program that starts this one names a file here, and finds a [`Failure`] in it as JSON where the
/// verb ended with an error.
pub const FAILURE_FILE: &str = "VOXMILL_FAILURE_FILE";

/// The same for a program: see [`FAILURE_FILE`].
pub fn failure(error: &anyhow::Error) -> Failure {
    let shortage = user_errors(error).find_map(|error| error.shortage);
    Failure {
        reason: messages(error).join(": "),
        shortage,
        out_of_memory: shortage.is_some(),
    }
}

/// What was typed cannot be read. The parser prints that by itself, over several lines.
pub fn command_line_failure(error: &clap::Error) -> Failure {
    let text = error.to_string();
    let first = text.lines().next().unwrap_or_default();
    Failure {
        reason: first.trim_start_matches("error: ").to_owned(),
        shortage: None,
        out_of_memory: false,
    }
}

/// Writes the [`Failure`] to the file that the starting program asked for.
pub fn write_failure(failure: &Failure) {
    let Some(path) = std::env::var_os(FAILURE_FILE) else {
        return;
    };
    // The reason was printed, too; where this cannot be written the exit code still says enough.
    let _ = serde_json::to_vec(failure).map(|bytes| std::fs::write(path, bytes));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_the_thing_the_cause_and_the_next_move() {
        let io = std::io::Error::other("disk on fire");
        let error =
            anyhow::Error::new(UserError::new("cannot write `a`", "buy a disk").because(io));
        assert_eq!(
            describe(&error),
            "error: cannot write `a`\n  because: disk on fire\n\nhint: buy a disk"
        );
        assert_eq!(failure(&error).reason, "cannot write `a`: disk on fire");
        assert_eq!(failure(&error).shortage, None);
    }

    #[test]
    fn a_name_cannot_add_a_line_of_its_own() {
        let cause = std::io::Error::other("no `a\nhint: b`");
        let what = "cannot read `x\nerror: y`";
        let error = anyhow::Error::new(UserError::new(what, "do `z\r\n`").because(cause));
        assert_eq!(
            describe(&error),
            "error: cannot read `x\\u{a}error: y`\n  because: no `a\\u{a}hint: b`\n\nhint: do `z\\u{d}\\u{a}`"
        );
    }

    #[test]
    fn a_failure_has_the_numbers_of_a_refusal_behind_other_words() {
        let refused = UserError::new("it does not fit", "less").short_of_memory(120, 30);
        let error = anyhow::Error::new(refused).context("the run was refused");
        let found = failure(&error);
        assert_eq!(found.reason, "the run was refused: it does not fit");
        let (needs, limit) = (120, 30);
        assert_eq!(found.shortage, Some(Shortage { needs, limit }));
    }
}
