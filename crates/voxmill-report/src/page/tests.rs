//! What must hold of a page: data is inert, nothing comes from elsewhere, it stays small, and what a log lacks is
//! named.

use std::collections::BTreeMap;

use voxmill_analysis::compare::{Candidate, compare};
use voxmill_analysis::profile::profile;
use voxmill_analysis::synthetic::SyntheticRun;
use voxmill_telemetry::event::{
    DecidedChange, Decision, Event, Nanos, Outcome, RunStarted, Stamped, Step, Validated,
};
use voxmill_telemetry::facts::{BucketFacts, DatasetFacts, LengthCount, RecordedSetting};
use voxmill_telemetry::shape::Shape;

use super::*;

const EVIL: &str = "</script></style><script>alert(1)</script>\"'><img src=x onerror=alert(2)>\u{1b}]52;c;QQ==\u{7}";

fn reported(name: &str, events: &[Stamped]) -> Reported {
    let run = Run::of(events);
    Reported {
        name: name.to_owned(),
        profile: profile(&run),
        run,
        history: History::of(events),
        in_progress: false,
        samples: Samples::default(),
    }
}

fn at(ms: u64, event: Event) -> Stamped {
    Stamped {
        at: Nanos(ms * 1_000_000),
        event,
    }
}

fn step(number: u64, end_ms: u64, loss: f64) -> Stamped {
    let step = Step {
        step: number,
        ended: Some(Nanos(end_ms * 1_000_000)),
        service: Nanos(90_000_000),
        waited: Nanos(10_000_000),
        late: Some("featurize".to_owned()),
        shape: format!("8x{}x20", 100 + 20 * (number % 9)).parse().ok(),
        values: BTreeMap::from([("loss".to_owned(), loss), ("frames".to_owned(), 700.0)]),
        ..Step::default()
    };
    at(end_ms, Event::Step(step))
}

/// A run with everything that a log can have.
fn everything(text: &str) -> Vec<Stamped> {
    let setting = RecordedSetting {
        section: "data".to_owned(),
        name: "train_data".to_owned(),
        value: text.to_owned(),
        origin: "flag".to_owned(),
        given: Some(text.to_owned()),
    };
    let started = RunStarted {
        name: "train".to_owned(),
        program: "voxmill 0.1.0".to_owned(),
        unix_seconds: 1.79e9,
        facts: BTreeMap::from([("device".to_owned(), text.to_owned())]),
        settings: vec![setting],
        ..RunStarted::default()
    };
    let dataset = DatasetFacts {
        rows: 100,
        clips: 90,
        validation: 8,
        lengths: vec![LengthCount {
            seconds: 2.0,
            count: 90,
        }],
        buckets: vec![BucketFacts {
            shape: Shape::default(),
            clips: 90,
            batches: 12,
        }],
        quarantine: BTreeMap::from([(text.to_owned(), 2)]),
        filtered: BTreeMap::new(),
    };
    let mut events = vec![
        at(0, Event::RunStarted(started)),
        at(0, Event::Dataset(dataset)),
    ];
    for n in 1..=40 {
        events.push(step(n, n * 100, 2.0 / n as f64));
        events.push(at(
            n * 100,
            Event::BufferLevel {
                buffer: text.to_owned(),
                items: n % 10,
                capacity: 10,
            },
        ));
    }
    events.push(at(
        2_000,
        Event::Decision(Decision {
            subject: text.to_owned(),
            change: DecidedChange::Capacity { from: 10, to: 20 },
            reason: text.to_owned(),
        }),
    ));
    events.push(at(
        3_000,
        Event::Validated(Validated {
            step: 30,
            losses: BTreeMap::from([("loss".to_owned(), 1.25), ("mel".to_owned(), 0.5)]),
            ..Validated::default()
        }),
    ));
    let outcome = Outcome::Finished;
    events.push(at(4_100, Event::RunEnded { outcome }));
    events
}

fn with_sample(mut run: Reported, text: &str) -> Reported {
    run.samples.spoken.push(Sample {
        name: text.to_owned(),
        text: Some(text.to_owned()),
        wav: b"RIFF".to_vec(),
        mel: Some(b"PNG".to_vec()),
        recording: Some(b"RIFF".to_vec()),
    });
    run
}

/// Tags of a page, without what is in the program's own style and script.
fn tags(page: &str) -> Vec<&str> {
    let after = |text: &'static str| page.split_once(text).unwrap().1;
    let body = after("<body");
    let body = body.split_once(SCRIPT).unwrap().0;
    body.split('<')
        .skip(1)
        .map(|tag| tag.split('>').next().unwrap())
        .collect()
}

#[test]
fn whatever_data_says_the_page_has_the_same_markup() {
    let names = |text: &str| -> Vec<String> {
        let run = with_sample(reported(text, &everything(text)), text);
        let page = page(&[run], None);
        assert!(
            !page.contains('\u{1b}') && !page.contains("<img src=x"),
            "{text}"
        );
        let name = |tag: &str| tag.split(' ').next().unwrap_or_default().to_owned();
        tags(&page).into_iter().map(name).collect()
    };
    assert_eq!(names(EVIL), names("harmless"));
}

#[test]
fn nothing_comes_from_elsewhere() {
    let run = with_sample(reported("a", &everything("b")), "c");
    let page = page(&[run], None);
    let policy = "default-src &#39;none&#39;; style-src &#39;unsafe-inline&#39;; img-src data:; media-src data:; script-src &#39;sha256-";
    assert!(page.contains(policy));
    for tag in tags(&page) {
        for source in ["src=\"", "href=\""] {
            if let Some((_, rest)) = tag.split_once(source) {
                assert!(rest.starts_with("data:") || rest.starts_with('#'), "{tag}");
            }
        }
    }
    assert!(!STYLE.contains("url(") && !STYLE.contains("@import"));
    for request in [
        "fetch(",
        "XMLHttpRequest",
        "import(",
        "WebSocket",
        "EventSource",
        "innerHTML",
        "eval(",
    ] {
        assert!(!SCRIPT.contains(request), "{request}");
    }
}

#[test]
fn each_part_is_there_and_what_an_older_log_lacks_is_named() {
    let whole = page(&[with_sample(reported("a", &everything("b")), "c")], None);
    let w = &ENGLISH;
    let headings = [
        w.verdict,
        w.timeline,
        w.step_times,
        w.buffers,
        w.learning,
        w.samples,
        w.dataset,
        w.settings,
    ];
    let places = headings.map(|heading| whole.find(&format!("<h2>{heading}</h2>")));
    assert!(places.iter().all(Option::is_some), "{places:?}");
    assert!(places.is_sorted());
    assert!(!whole.contains(w.absent_note));
    let older = page(&[reported("a", &SyntheticRun::default().events())], None);
    for absent in [w.absent_buffers, w.absent_dataset, w.absent_settings] {
        assert!(older.contains(&format!("<li>{absent}</li>")), "{absent}");
    }
    // A profile learns nothing.
    assert!(!older.contains(w.absent_held_out) && !older.contains(w.losses));
    let empty = page(&[reported("a", &everything("b")[..1])], None);
    assert!(
        empty.contains(w.no_findings) && empty.contains(&format!("<li>{}</li>", w.absent_steps))
    );
}

#[test]
fn a_run_that_was_killed_and_resumed_is_shown_as_such() {
    let killed = "id=\"killed\"";
    let once = everything("a");
    assert!(!page(&[reported("a", &once)], None).contains(killed));
    let cut = &once[..once.len() - 1];
    let twice = [cut, &once].concat();
    let shown = page(&[reported("a", &twice)], None);
    assert!(shown.contains(killed) && shown.contains(ENGLISH.killed));
    assert!(shown.contains(ENGLISH.new_start));
}

#[test]
fn several_runs_are_compared_as_compare_does() {
    let runs = [("one", 100), ("two", 130)].map(|(name, step_ms)| {
        let made_up = SyntheticRun {
            step_ms,
            ..SyntheticRun::default()
        };
        reported(name, &made_up.events())
    });
    let candidates = runs.clone().map(|run| Candidate {
        name: run.name,
        run: run.run,
        in_progress: false,
        settings: None,
    });
    let comparison = compare(&candidates, None);
    let page = page(&runs, Some(&comparison));
    let change = comparison.against_first[0].differences[0].change.unwrap();
    let shown = crate::format::signed(100.0 * change.value, 1);
    assert!(
        page.contains(&format!("<td dir=\"auto\">{shown} %</td>")),
        "{shown}"
    );
    assert!(page.contains(ENGLISH.worse) && page.contains("two against one"));
    assert!(page.contains("id=\"run-2\""));
}

#[test]
fn a_long_run_stays_below_the_limit_with_as_many_samples_as_there_is_room_for() {
    let mut events = vec![at(0, Event::RunStarted(RunStarted::default()))];
    for n in 1..=100_000 {
        let spike = if n == 54_321 { 1e6 } else { 0.0 };
        events.push(step(n, n * 100, 2.0 + (n % 7) as f64 + spike));
        if n % 10 == 0 {
            for buffer in ["rows", "featurize", "keep", "batch", "collate", "prepare"] {
                events.push(at(
                    n * 100,
                    Event::BufferLevel {
                        buffer: buffer.to_owned(),
                        items: n / 10 % 11,
                        capacity: 10,
                    },
                ));
            }
        }
    }
    let mut run = reported("long", &events);
    let room = room_for_samples(1, run.history.steps.len());
    run.samples.spoken.push(Sample {
        wav: vec![7; room as usize],
        ..Sample::default()
    });
    let page = page(&[run], None);
    assert!(page.len() < MOST_BYTES, "{}", page.len());
    assert!(room > 100_000, "{room}");
    // Its axis reaches up to the one step that stands out.
    assert!(page.contains(">1,000,000</span>") || page.contains(">500,000</span>"));
}

#[test]
fn a_picture_stands_by_itself() {
    let run = reported("a", &everything(EVIL));
    for which in [Picture::StepTime, Picture::Timeline, Picture::Buffers] {
        let svg = picture(&run, which).unwrap();
        assert!(svg.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\""));
        assert!(
            !svg.contains("<script") && !svg.contains("<img"),
            "{which:?}"
        );
    }
    let older = reported("a", &SyntheticRun::default().events());
    assert_eq!(picture(&older, Picture::Buffers), None);
}
