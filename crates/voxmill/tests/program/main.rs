//! Runs the real program as a person would and looks at what it says, leaves on disk and exits with.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot set itself up has failed"
)]

mod bad_input;
mod compare;
mod dataset;
mod devices;
mod measuring;
#[cfg(feature = "wgpu")]
mod on_gpu;
mod prepare;
mod road;
mod scale;
mod schema;
mod survival;
mod text;
mod train;
mod two_devices;
mod validate;

use std::path::Path;
use std::process::{Command, Output};

/// The program with a quiet, reproducible environment and no home to write into.
fn voxmill(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_voxmill"));
    command
        .args(args)
        .env_remove("HOME")
        .env_remove("XDG_CACHE_HOME")
        .env("NO_COLOR", "1");
    command
}

fn prepare(folder: &Path, more: &[&str]) -> Command {
    let folder = folder.to_str().unwrap();
    let mut args = vec!["prepare", "--train-data", folder];
    args.extend(more);
    voxmill(&args)
}

/// Exit code, standard output and standard error, as one text to look at.
fn said(output: &Output) -> String {
    format!(
        "exit: {}\n--- stdout\n{}--- stderr\n{}",
        output
            .status
            .code()
            .map_or("killed".to_owned(), |code| code.to_string()),
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

fn json(output: &Output) -> serde_json::Value {
    assert!(output.status.success(), "{}", said(output));
    let mut report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    schema::assert_fits(&report, "prepare");
    report["datasets"][0].take()
}

/// Snapshots what was said, with what differs from run to run replaced.
macro_rules! assert_said {
    ($output:expr, $folder:expr) => {{
        let folder = $folder.to_str().unwrap().to_owned();
        insta::with_settings!({filters => vec![
            (regex_escape(&folder).as_str(), "[folder]"),
            (r"\d+\.\d\d s: scan \d+\.\d\d s, features \d+\.\d\d s", "[time]"),
            (r"; [\d,]+ clips/s, [\d,]+ hours of audio an hour", "; [rate]"),
            (r"\d+(\.\d+)? [kM]?B in", "[size] in"),
        ]}, {
            insta::assert_snapshot!($crate::said(&$output));
        });
    }};
}
pub(crate) use assert_said;

fn regex_escape(text: &str) -> String {
    text.chars()
        .flat_map(|c| {
            if c.is_alphanumeric() || c == '/' {
                vec![c]
            } else {
                vec!['\\', c]
            }
        })
        .collect()
}
