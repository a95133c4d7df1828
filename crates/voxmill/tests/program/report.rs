//! `report`, on runs that were made for it; the pages themselves are tested in `voxmill-report`.

use std::fs;

use serde_json::Value;

use crate::train::Run;
use crate::{expect, expect_refusal, transcript, voxmill};

/// What a run writes when it ends is what `report` makes of its log, and of its log alone on another machine.
#[test]
fn a_run_ends_with_a_page_that_its_log_gives_again() {
    let run = Run::new();
    let said = run.trained("--max-steps 6");
    assert!(said.contains("report    "), "{said}");
    let path = run.dir().join("report.html");
    let written = fs::read_to_string(&path).unwrap();
    for part in [
        "<h2>Time line</h2>",
        "<h2>Learning</h2>",
        "<h2>Dataset</h2>",
        "held out",
        "batch_size",
    ] {
        assert!(written.contains(part), "{part}");
    }
    // Samples with sound and mel, the held-out clip with its alignment.
    for sound_or_picture in [
        "data:audio/wav;base64,",
        "Mel of final-1",
        "Alignment of a held-out clip",
    ] {
        assert!(written.contains(sound_or_picture), "{sound_or_picture}");
    }
    assert!(!written.contains("Not on this page"));
    fs::remove_file(&path).unwrap();
    let dir = run.dir().display().to_string();
    expect(&mut voxmill(format!("report {dir}")), 0, &["report    "]);
    assert_eq!(fs::read_to_string(&path).unwrap(), written);

    let elsewhere = tempfile::tempdir().unwrap();
    let log = elsewhere.path().join("sent.jsonl");
    fs::copy(run.dir().join("events.jsonl"), &log).unwrap();
    let page = elsewhere.path().join("page.html");
    let command = format!("report {} --output {}", log.display(), page.display());
    expect(&mut voxmill(command), 0, &[]);
    let page = fs::read_to_string(page).unwrap();
    assert!(page.contains("<li>samples: none lie in the run&#39;s folder</li>"));
    assert!(page.contains("<h2>Dataset</h2>") && page.contains("batch_size"));

    let svg = voxmill(format!("report {dir} --svg step-time"))
        .output()
        .unwrap();
    let svg = String::from_utf8(svg.stdout).unwrap();
    assert!(
        svg.starts_with("<svg xmlns=") && svg.trim_end().ends_with("</svg>"),
        "{svg}"
    );
}

#[test]
fn a_report_that_cannot_be_written_is_a_warning_and_no_end_of_a_run() {
    let run = Run::new();
    // A folder in its place, which no file replaces.
    fs::create_dir_all(run.dir().join("report.html").join("x")).unwrap();
    let output = run.train("--max-steps 3 --no-evaluation").output().unwrap();
    let text = transcript(&output);
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(text.contains("warning: the report "), "{text}");
}

#[test]
fn validations_and_settings_are_in_the_log() {
    let run = Run::new();
    run.trained("--max-steps 4 --evaluation-interval 2");
    let log = fs::read_to_string(run.dir().join("events.jsonl")).unwrap();
    let events: Vec<Value> = log
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let of = |kind: &str| {
        events
            .iter()
            .filter(|event| event["event"] == kind)
            .collect::<Vec<_>>()
    };
    let validated = of("validated");
    assert!(
        !validated.is_empty()
            && validated
                .iter()
                .all(|event| event["losses"]["mel"].is_f64())
    );
    let dataset = &of("dataset")[0];
    let buckets = dataset["buckets"].as_array().unwrap();
    let clips: u64 = buckets
        .iter()
        .map(|bucket| bucket["clips"].as_u64().unwrap())
        .sum();
    assert_eq!(dataset["clips"], clips);
    let lengths = dataset["lengths"].as_array().unwrap();
    let counted: u64 = lengths
        .iter()
        .map(|group| group["count"].as_u64().unwrap())
        .sum();
    assert_eq!(counted, clips);
    let settings = of("run_started")[0]["settings"].as_array().unwrap();
    let batch_size = settings
        .iter()
        .find(|setting| setting["name"] == "batch_size")
        .unwrap();
    assert_eq!(
        (&batch_size["value"], &batch_size["origin"]),
        (&"4".into(), &"flag".into())
    );
}

#[test]
fn what_cannot_be_reported_is_refused() {
    let home = tempfile::tempdir().unwrap();
    let empty = home.path().display();
    expect_refusal(
        &mut voxmill(format!("report {empty}")),
        &["has no events.jsonl"],
    );
    expect_refusal(
        &mut voxmill("report a b --svg timeline"),
        &["--svg draws a chart of one run"],
    );
}
