use voxmill_telemetry::event::{Event, Nanos, RunStarted, Stamped, Step};
use voxmill_telemetry::facts::{DatasetFacts, LengthCount, RecordedSetting};

use super::*;
use crate::simulate::what_if::parse;

/// A run as the ledger sees it: its settings, its clips and its steps.
#[derive(Clone)]
struct Made {
    at: f64,
    step_ms: u64,
    clips: u64,
    cache: &'static str,
    settings: Vec<(&'static str, &'static str, &'static str)>,
}

impl Default for Made {
    fn default() -> Made {
        Made {
            at: 1_000.0,
            step_ms: 100,
            clips: 50,
            cache: "cold",
            settings: vec![
                ("num_workers", "1", "default"),
                ("compute_threads", "2", "auto (one for each core)"),
                ("buffer_size", "50", "default"),
                ("ram_budget", "4GB", "default"),
                ("no_overlap", "false", "default"),
                ("enable_caching", "true", "default"),
                ("train_data", "/home/somebody/voices", "flag"),
            ],
        }
    }
}

impl Made {
    fn with(mut self, name: &'static str, value: &'static str) -> Made {
        let mut settings = self.settings.iter_mut();
        settings.find(|it| it.0 == name).unwrap().1 = value;
        self
    }

    fn later(self, step_ms: u64) -> Made {
        Made {
            at: self.at + 500.0,
            step_ms,
            ..self
        }
    }

    fn run(&self) -> Run {
        let setting = |(name, value, origin): &(&str, &str, &str)| RecordedSetting {
            name: (*name).to_owned(),
            value: (*value).to_owned(),
            origin: (*origin).to_owned(),
            ..RecordedSetting::default()
        };
        let facts = [("cache", self.cache), ("cores", "2"), ("device", "cpu")];
        let facts = facts.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let started = RunStarted {
            name: "train".to_owned(),
            unix_seconds: self.at,
            program: "voxmill 1".to_owned(),
            settings: self.settings.iter().map(setting).collect(),
            facts: facts.into(),
            ..RunStarted::default()
        };
        let dataset = DatasetFacts {
            lengths: vec![LengthCount {
                seconds: 2.5,
                count: self.clips,
            }],
            ..DatasetFacts::default()
        };
        let at = |event| Stamped {
            at: Nanos(0),
            event,
        };
        let mut events = vec![at(Event::RunStarted(started)), at(Event::Dataset(dataset))];
        events.extend((1..=40).map(|number| {
            at(Event::Step(Step {
                step: number,
                service: Nanos(self.step_ms * 1_000_000),
                ..Step::default()
            }))
        }));
        Run::of(&events)
    }
}

fn prediction(changes: &[&str], measured: f64, value: f64) -> Prediction {
    let pace = |step_ms| Pace {
        step_ms,
        busy: 1.0,
        stall: 0.0,
    };
    let likely = |value: f64, off: f64| Likely {
        value,
        low: value - off,
        high: value + off,
    };
    Prediction {
        changes: changes.iter().map(ToString::to_string).collect(),
        measured: pace(measured),
        replayed: pace(measured),
        replay_error: 0.0,
        predicted: pace(value),
        step_ms: likely(value, 5.0),
        gain: likely(1.0 - value / measured, 0.05),
        bound_by: "train".to_owned(),
        batch_memory: 0,
        assumes: Vec::new(),
    }
}

fn forecast(of: &Made, changes: &[&str], step_ms: f64) -> Forecast {
    assert!(parse(&changes.join(",")).is_ok());
    let asked = prediction(changes, of.step_ms as f64, step_ms);
    Forecast::new(&of.run(), &asked, "profile", of.at + 100.0).unwrap()
}

#[test]
fn a_run_that_makes_the_change_and_nothing_else_is_its_measurement() {
    let before = Made::default();
    let asked = forecast(&before, &["num_workers=4"], 60.0);
    let measured = |run: Made| asked.measured_by(&run.run());
    let done = before.clone().with("num_workers", "4").later(62);
    let found = measured(done.clone()).unwrap();
    assert_eq!((found.step_ms, found.steps), (62.0, 37));

    let mut chosen = done.clone().with("compute_threads", "1");
    assert!(measured(chosen.clone()).is_some(), "the program chose it");
    chosen.settings[1].2 = "flag";
    assert!(measured(chosen).is_none(), "somebody asked for it");
    let others = [
        ("nothing changed", before.clone().later(62)),
        ("another number", done.clone().with("num_workers", "3")),
        ("one more change", done.clone().with("buffer_size", "10")),
        (
            "other clips",
            Made {
                clips: 51,
                ..done.clone()
            },
        ),
        (
            "a warm cache",
            Made {
                cache: "warm",
                ..done.clone()
            },
        ),
        ("before it was asked", Made { at: 900.0, ..done }),
    ];
    for (what, run) in others {
        assert!(measured(run).is_none(), "{what}");
    }
}

#[test]
fn a_change_is_known_in_other_words_and_units() {
    let before = Made::default();
    let made = |change: &str, run: Made| {
        let asked = forecast(&before, &[change], 90.0);
        asked.measured_by(&run.later(90).run()).is_some()
    };
    let done = |name, value| before.clone().with(name, value);
    assert!(made("ram_budget=8000MB", done("ram_budget", "8GB")));
    assert!(!made("ram_budget=9GB", done("ram_budget", "8GB")));
    assert!(made("no_overlap=yes", done("no_overlap", "true")));
    let warm = Made {
        cache: "warm",
        ..before.clone()
    };
    assert!(made("cache=warm", warm));
    assert!(!made("disk=2x", before.clone()), "no setting does that");
}

#[test]
fn predictions_are_kept_once_and_scored_by_the_first_measurement() {
    let folder = tempfile::tempdir().unwrap();
    let before = Made::default();
    let mut ledger = Ledger::open(folder.path()).unwrap();
    for _ in 0..2 {
        let asked = forecast(&before, &["num_workers=4"], 60.0);
        ledger.predict(asked).unwrap();
    }
    ledger
        .predict(forecast(&before, &["disk=2x"], 80.0))
        .unwrap();
    ledger
        .predict(forecast(&before, &["buffer_size=9"], 70.0))
        .unwrap();
    let done = before.clone().with("num_workers", "4").later(64);
    assert_eq!(ledger.measure(&done.run()).unwrap(), 1);
    assert_eq!(ledger.measure(&done.later(99).run()).unwrap(), 0);

    let read = Ledger::open(folder.path()).unwrap();
    let found = report(&read);
    assert_eq!(found, report(&ledger));
    assert_eq!(
        (found.predictions, found.never, found.waiting.len()),
        (3, 1, 1)
    );
    let [scored] = &found.scored[..] else {
        panic!("{found:?}")
    };
    assert!((scored.error - (60.0 / 64.0 - 1.0)).abs() < 1e-12);
    assert!((scored.gain - 0.36).abs() < 1e-12);
    assert_eq!((scored.right_sign, scored.inside), (Some(true), true));
    assert_eq!(found.mean_absolute_error, Some(scored.error.abs()));
    let text = std::fs::read_to_string(read.path()).unwrap();
    assert!(!text.contains("somebody"), "{text}");
}

#[test]
fn a_small_change_has_no_sign_and_an_interval_can_be_missed() {
    let before = Made::default();
    let score = |step_ms: u64| {
        let mut ledger = Ledger::open(tempfile::tempdir().unwrap().path()).unwrap();
        ledger
            .predict(forecast(&before, &["num_workers=4"], 90.0))
            .unwrap();
        let done = before.clone().with("num_workers", "4").later(step_ms);
        ledger.measure(&done.run()).unwrap();
        let scored = report(&ledger).scored.remove(0);
        (scored.right_sign, scored.inside)
    };
    assert_eq!(score(99), (None, false));
    assert_eq!(score(110), (Some(false), false));
    assert_eq!(score(92), (Some(true), true));
}

#[test]
fn a_ledger_that_is_damaged_costs_what_is_damaged() {
    let folder = tempfile::tempdir().unwrap();
    let mut ledger = Ledger::open(folder.path()).unwrap();
    ledger
        .predict(forecast(&Made::default(), &["num_workers=4"], 60.0))
        .unwrap();
    let whole = std::fs::read_to_string(ledger.path()).unwrap();
    let later = whole.replacen("\"version\":1", "\"version\":99", 1);
    std::fs::write(ledger.path(), format!("{{half\n{later}{whole}")).unwrap();
    let read = Ledger::open(folder.path()).unwrap();
    assert_eq!((read.forecasts.len(), read.unread), (1, 2));
    std::fs::remove_file(ledger.path()).unwrap();
    std::fs::create_dir(ledger.path()).unwrap();
    assert!(Ledger::open(folder.path()).is_err());
    let asked = forecast(&Made::default(), &["num_workers=5"], 60.0);
    assert!(ledger.predict(asked).is_err());
}
