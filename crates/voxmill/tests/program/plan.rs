//! `plan`, and `profile --what-if`, as a person runs them.

use std::fs;
use std::path::Path;
use std::process::Command;

use voxmill_analysis::ledger::{Forecast, Ledger};
use voxmill_analysis::run;
use voxmill_analysis::simulate::model::Pace;
use voxmill_analysis::simulate::what_if::{Likely, Prediction};

use crate::train::Run;
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

/// What `profile --what-if buffer_size=7` would have kept of this run, whatever the machine was doing.
fn predict(home: &Path, log: &Path) {
    let run = run::Run::read(log).unwrap();
    let step_ms = Likely {
        value: 100.0,
        low: 0.0,
        high: 1e9,
    };
    let prediction = Prediction {
        changes: vec!["buffer_size=7".to_owned()],
        measured: Pace::of_steps(&run.steps),
        replayed: Pace::default(),
        replay_error: 0.0,
        predicted: Pace::default(),
        step_ms,
        gain: Likely::default(),
        bound_by: "train".to_owned(),
        batch_memory: 0,
        assumes: Vec::new(),
    };
    let mut forecast = Forecast::new(&run, &prediction, "profile", 1.0).unwrap();
    // Other programs may be busy here: such an outcome is not scored.
    forecast.crowded = false;
    Ledger::open(home).unwrap().predict(forecast).unwrap();
}

#[test]
fn a_run_that_makes_a_predicted_change_is_in_the_ledger() {
    let run = Run::new();
    let home = run.home.path();
    let ledger = |more: &str| {
        let mut command = voxmill(format!("ledger --runs-dir . {more}"));
        command.current_dir(home);
        command
    };
    expect(&mut ledger(""), 0, &["no predictions yet"]);
    // Else the second run would find the features of the first.
    let steps = "--max-steps 24 --no-evaluation --epochs 100 --no-cache";
    expect(&mut run.train(steps), 0, &[]);
    predict(home, &run.dir().join("events.jsonl"));
    expect(
        &mut ledger(""),
        0,
        &["1 prediction: 0 scored, 1 waiting", "buffer_size=7"],
    );
    let other = format!("--run-dir {}/other {steps}", home.display());
    let text = expect(&mut run.train_anywhere(&other), 0, &[]);
    assert!(!text.contains("voxmill ledger"), "{text}");
    let made = other.replace("/other", "/made") + " --buffer-size 7";
    expect(&mut run.train_anywhere(made), 0, &["voxmill ledger"]);
    let found = json_of(&mut ledger("--export out.json --json"), "ledger");
    let known = found["scored"].as_array().unwrap().len() as u64;
    assert_eq!(known + found["crowded"].as_u64().unwrap(), 1, "{found}");
    let exported = fs::read_to_string(home.join("out.json")).unwrap();
    assert!(!exported.contains(home.to_str().unwrap()), "{exported}");
    let output = ledger("").output().unwrap();
    assert_fits_page(&String::from_utf8(output.stdout).unwrap());
}
