//! One file a verb.

pub(crate) mod analyze;
pub(crate) mod compare;
pub(crate) mod devices;
pub(crate) mod prepare;
pub(crate) mod profile;
pub(crate) mod scale;
pub(crate) mod synthesize;
pub(crate) mod text;
pub(crate) mod train;
pub(crate) mod validate;

use std::io::{IsTerminal as _, Write as _};

use voxmill_report::terminal::Paint;

use voxmill_settings::Shown;
use voxmill_settings::note::Note;

/// Writes to standard output: data only. A reader that has gone (`| head`) is no error.
pub(crate) fn say(text: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    match writeln!(out, "{text}").and_then(|()| out.flush()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        done => Ok(done?),
    }
}

/// A result, for programs.
pub(crate) fn say_json(result: &impl serde::Serialize) -> anyhow::Result<()> {
    say(&serde_json::to_string_pretty(result)?)
}

/// Writes to standard error: everything that is not data. Nobody to hear it is no error.
pub(crate) fn tell(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

/// Colours where a person looks and has not asked for none.
pub(crate) fn paint() -> Paint {
    let asked_for_none = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    Paint {
        colour: std::io::stdout().is_terminal() && !asked_for_none,
    }
}

/// Prints the notes of the settings. Whether the verb should run: with `--show-settings` they are printed
/// instead.
fn should_run(notes: &[Note], shown: &[Shown], show: bool, json: bool) -> anyhow::Result<bool> {
    for note in notes {
        tell(&note.to_string());
    }
    if show {
        show_settings(shown, json)?;
    }
    Ok(!show)
}

/// `--show-settings`: the notes about the file, then each value with its origin.
pub(crate) fn show_settings(shown: &[Shown], json: bool) -> anyhow::Result<()> {
    if json {
        let lines = shown.iter().map(|line| {
            serde_json::json!({"name": line.key.name, "value": line.value, "origin": line.origin.to_string()})
        });
        return say_json(&lines.collect::<Vec<_>>());
    }
    let width = |cell: fn(&Shown) -> usize| shown.iter().map(cell).max().unwrap_or(0);
    let names = width(|line| line.key.name.chars().count());
    let values = width(|line| line.value.chars().count());
    let lines: Vec<_> = shown
        .iter()
        .map(|line| {
            format!(
                "{:names$}  {:values$}  {}",
                line.key.name, line.value, line.origin
            )
        })
        .collect();
    say(&lines.join("\n"))
}
