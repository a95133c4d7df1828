//! One file for each verb, and what they print with.

pub(crate) mod analyze;
pub(crate) mod compare;
pub(crate) mod completions;
pub(crate) mod devices;
pub(crate) mod ledger;
pub(crate) mod plan;
pub(crate) mod prepare;
pub(crate) mod profile;
pub(crate) mod report;
pub(crate) mod runs;
pub(crate) mod scale;
pub(crate) mod selftest;
pub(crate) mod synthesize;
pub(crate) mod text;
pub(crate) mod train;
pub(crate) mod validate;
pub(crate) mod watch;

use std::io::{Error, ErrorKind, IsTerminal as _, Write as _};
use std::sync::{Mutex, PoisonError};

use serde::Serialize;
use voxmill_report::format::fit;
use voxmill_report::terminal::{Paint, settings_text};

use voxmill_settings::ResolvedSetting;
use voxmill_settings::note::Note;
use voxmill_untrusted::shown;

use crate::hang_up::has_hung_up;

/// Writes to standard output: results only. What a terminal would obey in ids, names and texts is written
/// out on the way, here and in [`print_status`]: nothing else in this program prints.
pub(crate) fn print_output(text: &str) -> anyhow::Result<()> {
    write_output(&paint().harmless(text))
}

pub(crate) fn print_json(result: &impl Serialize) -> anyhow::Result<()> {
    write_output(&shown::json(&serde_json::to_string_pretty(result)?))
}

/// One of many results.
fn print_json_line(result: &impl Serialize) -> anyhow::Result<()> {
    write_output(&shown::json(&serde_json::to_string(result)?))
}

/// A reader that has gone (`| head`, a closed terminal) is no error.
fn write_output(text: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    let has_gone = |error: &Error| error.kind() == ErrorKind::BrokenPipe || has_hung_up();
    match writeln!(out, "{text}").and_then(|()| out.flush()) {
        Err(error) if has_gone(&error) => Ok(()),
        done => Ok(done?),
    }
}

/// The result of a verb: as JSON for a program, as text for a person.
fn print_result<T: Serialize>(
    result: &T,
    json: bool,
    text: impl FnOnce(&T) -> String,
) -> anyhow::Result<()> {
    match json {
        true => print_json(result),
        false => print_output(&text(result)),
    }
}

/// Writes one line to standard error: everything that is not a result. A line end in what it shows is
/// written out, so that no name can add a line of its own.
macro_rules! status {
    ($($text:tt)*) => { $crate::commands::print_status(format_args!($($text)*)) };
}
pub(crate) use status;

/// A warning on standard error, which a dashboard shows as well.
macro_rules! warning {
    ($($text:tt)*) => {
        $crate::commands::print_note(&voxmill_settings::note::Note::warning(format!($($text)*)))
    };
}
pub(crate) use warning;

/// What is worth knowing, likewise.
macro_rules! note {
    ($($text:tt)*) => {
        $crate::commands::print_note(&voxmill_settings::note::Note::from(format!($($text)*)))
    };
}
pub(crate) use note;

/// Warnings and notes so far, for a dashboard that covers them.
static SAID: Mutex<Vec<Note>> = Mutex::new(Vec::new());
const MOST_SAID: usize = 100;

pub(crate) fn said() -> Vec<Note> {
    SAID.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

pub(crate) fn print_note(note: &Note) {
    let mut said = SAID.lock().unwrap_or_else(PoisonError::into_inner);
    if said.len() < MOST_SAID {
        said.push(note.clone());
    }
    drop(said);
    print_status(format_args!("{note}"));
}

/// Whether standard error is a terminal on which lines can be drawn again.
pub(crate) fn can_redraw() -> bool {
    std::io::stderr().is_terminal() && !is_dumb()
}

fn is_dumb() -> bool {
    std::env::var_os("TERM").is_some_and(|term| term == "dumb")
}

pub(crate) fn print_status(line: std::fmt::Arguments<'_>) {
    write_status(&shown::line(&line.to_string()));
}

/// A text of several lines, whose parts have no line ends of others.
pub(crate) fn print_lines(text: &str) {
    write_status(&shown::lines(text));
}

/// Nobody to read it is no error.
fn write_status(text: &str) {
    let text = match columns() {
        Some(columns) => {
            let paint = painted(std::io::stderr().is_terminal());
            let lines = text.split('\n');
            let lines = lines.map(|line| paint.message(&fit(line, columns)));
            lines.collect::<Vec<_>>().join("\n")
        }
        None => text.to_owned(),
    };
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

/// Longer lines are hard to read, however wide the terminal is.
const WIDEST: u16 = 100;

/// Of the terminal that standard error is, where it is one.
fn columns() -> Option<usize> {
    if !std::io::stderr().is_terminal() {
        return None;
    }
    let (columns, _) = ratatui::crossterm::terminal::size().ok()?;
    (columns > 0).then_some(usize::from(columns.min(WIDEST)))
}

/// Colours where a person looks and has not asked for none.
pub(crate) fn paint() -> Paint {
    painted(std::io::stdout().is_terminal())
}

fn painted(is_terminal: bool) -> Paint {
    let asked_for_none = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    Paint {
        colour: is_terminal && !asked_for_none && !is_dumb(),
    }
}

/// Prints the notes of the settings. Whether the verb should run: with `--show-settings` they are printed
/// instead.
fn should_run(
    notes: &[Note],
    settings: &[ResolvedSetting],
    show: bool,
    json: bool,
) -> anyhow::Result<bool> {
    for note in notes {
        print_note(note);
    }
    if show {
        show_settings(settings, json)?;
    }
    Ok(!show)
}

/// `--show-settings`: each value with its origin.
fn show_settings(settings: &[ResolvedSetting], json: bool) -> anyhow::Result<()> {
    if json {
        let lines = settings.iter().map(|line| {
            serde_json::json!({"name": line.key.name, "value": line.value, "origin": line.origin.to_string()})
        });
        return print_json(&lines.collect::<Vec<_>>());
    }
    let lines = settings.iter();
    let lines = lines.map(|line| (line.key.name, line.value.clone(), line.origin.to_string()));
    print_output(&settings_text(&lines.collect::<Vec<_>>(), paint()))
}
