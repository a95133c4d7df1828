//! `plan`, and `profile --what-if`, as a person runs them.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::{assert_fits_page, expect, json_of, voxmill};

const WORKED_EXAMPLE: &str = "\
steps: 100000
stages:
  load:       { time: 20 ms }
  preprocess: { time: 10 ms, with: two devices }
  transfer:   { time: 15 ms, with: two devices }
train: { time: 150 ms }
";

fn plan(folder: &Path, text: &str, more: &str) -> Command {
    fs::write(folder.join("plan.yaml"), text).unwrap();
    let mut command = voxmill(format!("plan plan.yaml {more}"));
    command.current_dir(folder);
    command
}

#[test]
fn the_worked_example_comes_out_exactly() {
    let home = tempfile::tempdir().unwrap();
    let planned = json_of(&mut plan(home.path(), WORKED_EXAMPLE, "--json"), "plan");
    let ways = planned["ways"].as_array().unwrap();
    let steps: Vec<f64> = ways
        .iter()
        .map(|way| way["pace"]["step_ms"].as_f64().unwrap())
        .collect();
    assert_eq!(steps, [170.0, 195.0, 150.0, 150.0]);
    let output = plan(home.path(), WORKED_EXAMPLE, "--steps 1000")
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_fits_page(&text);
    assert!(
        text.contains("A run of 1,000 steps") && text.contains("bound by training"),
        "{text}"
    );
}

#[test]
fn a_wrong_unit_is_shown_with_its_line() {
    let home = tempfile::tempdir().unwrap();
    let wrong = WORKED_EXAMPLE.replace("15 ms", "15 MB");
    let phrases = [
        "`MB` is no unit of time",
        "plan.yaml:5:",
        "hint: write a time with its unit",
    ];
    expect(&mut plan(home.path(), &wrong, ""), 1, &phrases);
    expect(
        &mut voxmill("plan nowhere.yaml"),
        1,
        &["cannot read the plan `nowhere.yaml`"],
    );
}

#[test]
fn what_cannot_be_predicted_is_refused_before_anything_is_measured() {
    for (question, phrase) in [
        ("batch_size=32", "`batch_size` cannot be predicted"),
        ("speed=2x", "there is no change `speed`"),
    ] {
        let mut command = voxmill("profile --what-if");
        expect(command.arg(question), 1, &[phrase, "\n\nhint: "]);
    }
}
