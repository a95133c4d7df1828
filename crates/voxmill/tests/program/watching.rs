//! Runs seen from another terminal: `runs` and `watch`; and what a shell is told of the program.

use std::fs;
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::train::Run;
use crate::{assert_fits_page, assert_has, expect, expect_refusal, json_of, transcript, voxmill};

const VERBS: [&str; 17] = [
    "prepare",
    "train",
    "profile",
    "analyze",
    "validate",
    "devices",
    "selftest",
    "synthesize",
    "runs",
    "watch",
    "compare",
    "scale",
    "text",
    "completions",
    "report",
    "plan",
    "ledger",
];

#[test]
fn runs_are_listed_with_how_they_stand() {
    let run = Run::new();
    run.trained("--max-steps 4 --evaluation-interval 2");
    let home = run.home.path();
    let cut = home.join("cut");
    fs::create_dir(&cut).unwrap();
    let log = fs::read_to_string(run.dir().join("events.jsonl")).unwrap();
    let without_end = log.lines().filter(|line| !line.contains("run_ended"));
    let without_end: Vec<&str> = without_end.collect();
    fs::write(cut.join("events.jsonl"), without_end.join("\n") + "\n").unwrap();

    let args = format!("runs --runs-dir {}", home.display());
    let text = expect(&mut voxmill(&args), 0, &["finished", "stopped (killed)"]);
    assert_fits_page(&text);
    let list = json_of(voxmill(&args).arg("--json"), "runs");
    let runs = list["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 2, "{list:#}");
    let of = |name: &str| runs.iter().find(|run| run["name"] == name).unwrap();
    let (whole, cut) = (of("run"), of("cut"));
    assert_eq!(whole["state"], "finished");
    assert_eq!(whole["verb"], "train");
    assert_eq!(whole["step"], 4);
    let best = whole["best_held_out"]["mel"].as_f64().unwrap();
    assert!(best > 0.0 && best.is_finite());
    assert!(
        whole["bytes"].as_u64().unwrap() > 100_000,
        "checkpoints too"
    );
    assert_eq!(
        (&cut["state"], &cut["killed"]),
        (&"stopped".into(), &true.into())
    );

    let empty = tempfile::tempdir().unwrap();
    let args = format!("runs --runs-dir {}", empty.path().display());
    expect(&mut voxmill(args), 0, &["no runs in"]);
}

#[test]
fn a_run_that_has_ended_is_shown_as_it_ended() {
    let run = Run::new();
    run.trained("--max-steps 4 --evaluation-interval 2");
    let home = run.home.path().display();
    let says = [
        "step     4",
        "loss",
        "the run finished at step 4",
        "best held-out mel",
    ];
    let watched = expect(
        &mut voxmill(format!("watch run --runs-dir {home}")),
        0,
        &says,
    );
    let newest = expect(&mut voxmill(format!("watch --runs-dir {home}")), 0, &says);
    assert_eq!(watched, newest);
    let hint = ["there is no `other`", "voxmill runs"];
    expect_refusal(
        &mut voxmill(format!("watch other --runs-dir {home}")),
        &hint,
    );
}

#[test]
fn warnings_of_a_run_reach_who_watches_it() {
    let run = Run::new();
    let trained = run.trained("--max-steps 2 --num-workers 200");
    let warned = |text: &str| -> Vec<String> {
        let lines = text.lines().filter(|line| line.starts_with("warning: "));
        lines.map(str::to_owned).collect()
    };
    let warnings = warned(&trained);
    assert!(
        warnings.iter().any(|line| line.contains("200 workers")),
        "{trained}"
    );
    let home = run.home.path().display();
    let watched = expect(&mut voxmill(format!("watch run --runs-dir {home}")), 0, &[]);
    assert_eq!(warned(&watched), warnings);
}

/// It follows a run that trains, and leaves when that ends.
#[test]
fn a_run_is_watched_to_its_end() {
    let run = Run::new();
    let mut training = run.train("--max-steps 12");
    let training = training.stderr(Stdio::null()).stdout(Stdio::null()).spawn();
    let mut training = training.unwrap();
    let log = run.dir().join("events.jsonl");
    let begin = Instant::now();
    while !log.is_file() && begin.elapsed() < Duration::from_secs(300) {
        std::thread::sleep(Duration::from_millis(20));
    }
    let home = run.home.path().display();
    let watched = voxmill(format!("watch --runs-dir {home}"))
        .output()
        .unwrap();
    assert!(training.wait().unwrap().success());
    let text = transcript(&watched);
    assert_has(
        &text,
        &["exit: 0", "watching  run", "the run finished at step 12"],
    );
}

#[test]
fn shells_are_told_verbs_and_flags() {
    for shell in ["bash", "zsh", "fish"] {
        let script = expect(&mut voxmill(format!("completions {shell}")), 0, &VERBS);
        let values = ["plateau_breaker", "nano", "vulkan"];
        assert_has(&script, &["train-data", "checkpoint"]);
        assert_has(&script, &values);
    }
    expect(
        &mut voxmill("completions tcsh"),
        2,
        &["[possible values: bash, zsh, fish]"],
    );
}

/// No line is wrapped a second time, and the short help is short.
#[test]
fn help_fits_the_terminal() {
    for verb in VERBS {
        let help = |flag: &str| {
            let mut command = voxmill(format!("{verb} {flag}"));
            let output = command.env("COLUMNS", "80").output().unwrap();
            assert!(output.status.success());
            String::from_utf8(output.stdout).unwrap()
        };
        let (short, long) = (help("-h"), help("--help"));
        assert_fits_page(&short);
        assert_fits_page(&long);
        let lines = |text: &str| text.lines().count();
        if lines(&long) > 60 {
            assert!(2 * lines(&short) < lines(&long), "{verb}:\n{short}");
        }
    }
}
