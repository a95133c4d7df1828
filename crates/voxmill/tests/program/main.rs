//! Runs the real program as a person would and checks what it prints, leaves on disk and exits with.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot set itself up has failed"
)]

mod at_once;
mod bad_input;
mod choosing;
mod compare;
mod dataset;
mod devices;
mod hostile_text;
mod measuring;
#[cfg(feature = "wgpu")]
mod on_gpu;
#[cfg(feature = "spirv")]
mod on_vulkan;
mod plan;
mod prepare;
mod prepare_pipeline;
mod report;
mod robustness;
mod saving;
mod scale;
mod schema;
mod selftest;
mod taken;
mod terminal;
mod text;
mod train;
mod two_devices;
mod validate;
mod watching;

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

/// The program with arguments that are separated by spaces, a quiet, reproducible environment and no
/// home to write into.
fn voxmill(args: impl AsRef<str>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_voxmill"));
    command
        .args(args.as_ref().split_whitespace())
        .env_remove("HOME")
        .env_remove("XDG_CACHE_HOME")
        .env("NO_COLOR", "1");
    command
}

fn prepare(folder: &Path, more: impl AsRef<str>) -> Command {
    let folder = folder.display();
    voxmill(format!("prepare --train-data {folder} {}", more.as_ref()))
}

/// The first dataset in the report of `prepare`.
fn prepared(folder: &Path, more: impl AsRef<str>) -> Value {
    let mut report = json_of(prepare(folder, more).arg("--json"), "prepare");
    report["datasets"][0].take()
}

/// Exit code, standard output and standard error, as one text.
fn transcript(output: &Output) -> String {
    let code = output.status.code();
    format!(
        "exit: {}\n--- stdout\n{}--- stderr\n{}",
        code.map_or("killed".to_owned(), |code| code.to_string()),
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

fn printed(command: &mut Command) -> String {
    transcript(&command.output().unwrap())
}

/// Asserts the exit code and that each phrase is printed.
fn expect(command: &mut Command, code: i32, phrases: &[&str]) -> String {
    let text = printed(command);
    assert!(text.starts_with(&format!("exit: {code}\n")), "{text}");
    assert_has(&text, phrases);
    text
}

/// An error with a hint, and no panic.
fn expect_refusal(command: &mut Command, phrases: &[&str]) -> String {
    let text = expect(command, 1, phrases);
    assert!(text.contains("hint: "), "{text}");
    assert!(!text.contains("panicked"), "{text}");
    text
}

fn assert_has(text: &str, phrases: &[&str]) {
    for phrase in phrases {
        assert!(text.contains(phrase), "no `{phrase}` in\n{text}");
    }
}

/// The page is 80 columns wide.
fn assert_fits_page(text: &str) {
    let fits = |line: &str| line.chars().count() <= 80;
    assert!(text.lines().all(fits), "{text}");
}

/// The JSON that a verb prints, compared with its schema.
fn json_of(command: &mut Command, verb: &str) -> Value {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", transcript(&output));
    parse_json(&output, verb)
}

fn parse_json(output: &Output, verb: &str) -> Value {
    let value = serde_json::from_slice(&output.stdout);
    let value = value.unwrap_or_else(|error| panic!("{error}\n{}", transcript(output)));
    schema::assert_fits(&value, verb);
    value
}

/// Snapshots what was printed, with what differs from run to run replaced.
macro_rules! assert_printed {
    ($text:expr, $folder:expr) => {{
        let folder = $folder.to_str().unwrap().to_owned();
        insta::with_settings!({filters => vec![
            (regex_escape(&folder).as_str(), "[folder]"),
            (r"\d+\.\d\d s: scan \d+\.\d\d s, features \d+\.\d\d s", "[time]"),
            (r"[\d,]+ clips/s, [\d,]+ hours of audio an hour", "[rate]"),
            (r"\d+(\.\d+)? [kM]?B in", "[size] in"),
        ]}, {
            insta::assert_snapshot!($text);
        });
    }};
}
pub(crate) use assert_printed;

fn regex_escape(text: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || c == '/';
    text.chars()
        .flat_map(|c| (!is_plain(c)).then_some('\\').into_iter().chain([c]))
        .collect()
}
