//! Logs that are whole, cut, damaged, resumed or from the future.

use proptest::prelude::*;

use super::*;
use crate::event::{DeviceMemory, Nanos, Outcome};
use crate::examples;
use crate::shape::{Shape, StepShape};

fn started(log_version: u32) -> Stamped {
    Stamped {
        at: Nanos(0),
        event: Event::RunStarted(RunStarted {
            log_version,
            name: "demo".to_owned(),
            unix_seconds: 1.5e9,
            program: "voxmill 0.1.0".to_owned(),
            ..RunStarted::default()
        }),
    }
}

fn ended(at: u64) -> Stamped {
    Stamped {
        at: Nanos(at),
        event: Event::RunEnded {
            outcome: Outcome::Finished,
        },
    }
}

fn text(events: &[Stamped]) -> String {
    let line = |stamped| serde_json::to_string(stamped).unwrap() + "\n";
    events.iter().map(line).collect()
}

/// Opening it would wait for a writer, and reading the other would never end.
#[test]
fn what_is_no_file_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("events.jsonl");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.unwrap().success());
    for path in [pipe.as_path(), Path::new("/dev/zero")] {
        assert!(matches!(RunLog::read(path), Err(LogError::Open { .. })));
        assert!(!is_being_written(path));
    }
}

fn read(text: &[u8]) -> RunLog {
    RunLog::collect(LogReader::new("a log", text)).unwrap()
}

/// How many lines are truncated, and how many damaged.
fn flaws(log: &RunLog) -> (u64, u64) {
    (log.flaws.truncated, log.flaws.damaged)
}

#[test]
fn a_line_is_flat_json() {
    assert_eq!(
        text(&[ended(7)]),
        "{\"at\":7,\"event\":\"run_ended\",\"outcome\":\"finished\"}\n"
    );
}

#[test]
fn a_cut_last_line_is_reported_but_no_error() {
    let whole = text(&[started(1), ended(7)]);
    let log = read(&whole.as_bytes()[..whole.len() - 5]);
    assert_eq!((log.events().count(), flaws(&log)), (1, (1, 0)));
    // Only its line break is missing: nothing is.
    let log = read(&whole.as_bytes()[..whole.len() - 1]);
    assert_eq!(log.events().count(), 2);
    assert_eq!(log.flaws, Flaws::default());
}

#[test]
fn a_damaged_line_is_named_and_the_rest_is_read() {
    let mut bytes = text(&[started(1)]).into_bytes();
    bytes.extend(b"{\"at\":5,\"event\":\"step\",\"st\xff\xfe\n");
    bytes.extend(text(&[ended(7)]).into_bytes());
    let log = read(&bytes);
    assert_eq!((log.events().count(), flaws(&log)), (2, (0, 1)));
    assert_eq!(log.flaws.described[0].line, 2);
    // Damage at the end is not a cut: the line has its end.
    let log = read(&bytes[..bytes.len() - text(&[ended(7)]).len()]);
    assert_eq!(flaws(&log), (0, 1));
}

#[test]
fn events_of_later_versions_are_counted_and_skipped() {
    let later = "{\"at\":5,\"event\":\"eclipse\",\"sun\":[1,2]}\n";
    let log = read(format!("{}{later}{}", text(&[started(1)]), text(&[ended(7)])).as_bytes());
    assert_eq!((log.events().count(), flaws(&log)), (2, (0, 0)));
    assert_eq!(log.flaws.unknown, 1);
}

#[test]
fn a_newer_version_is_refused() {
    let bytes = text(&[started(1), ended(7), started(LOG_VERSION + 1), ended(8)]);
    let mut reader = LogReader::new("runs/a/events.jsonl", bytes.as_bytes());
    let error = reader.by_ref().find_map(Result::err).unwrap();
    assert_eq!(
        error.to_string(),
        "line 3 of the log runs/a/events.jsonl is of version 2; this program reads up to version 1"
    );
    assert!(reader.next().is_none(), "an error is the end");
}

#[test]
fn a_resumed_run_is_a_new_segment_even_after_a_cut_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("events.jsonl");
    let run_until = |at| {
        let mut writer = LogWriter::append(&path).unwrap();
        writer.write(&started(1)).unwrap();
        writer.write(&ended(at)).unwrap();
        writer
    };
    run_until(7).flush().unwrap();
    let whole = std::fs::read(&path).unwrap();
    std::fs::write(&path, &whole[..whole.len() - 4]).unwrap();

    let mut writer = run_until(9);
    writer.sync().unwrap();
    let log = RunLog::read(&path).unwrap();
    let counts: Vec<usize> = log.starts.iter().map(|s| s.events.len()).collect();
    assert_eq!((&counts[..], flaws(&log)), (&[1, 2][..], (1, 0)));
    let (starts, _) = replay(&path).unwrap();
    let times: Vec<Nanos> = starts.iter().map(Stats::run_time).collect();
    assert_eq!(times, [Nanos(0), Nanos(9)], "each by its own clock");
}

#[test]
fn a_file_that_is_not_a_log_is_left_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("manifest.jsonl");
    for manifest in [
        "{\"audio\":\"a.wav\",\"text\":\"A.\"}\n{\"at\":7,\"event\":\"run_ended\"}\n",
        "not JSON at all\n",
        "\n",
        "audio.wav",
    ] {
        std::fs::write(&path, manifest).unwrap();
        let error = LogWriter::append(&path).unwrap_err();
        assert!(matches!(error, LogError::NotALog { .. }), "{error}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), manifest);
    }
    // A log of a later version is one, and so is one that a kill cut in its very first line.
    for log in [
        "{\"at\":5,\"event\":\"eclipse\"}\n",
        "{\"at\":5,\"ev",
        "{\"a",
    ] {
        std::fs::write(&path, log).unwrap();
        LogWriter::append(&path).unwrap();
    }
}

#[test]
#[cfg(unix)]
fn a_log_has_one_writer_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("events.jsonl");
    let first = LogWriter::append(&path).unwrap();
    let refused = LogWriter::append(&path).unwrap_err();
    assert!(matches!(refused, LogError::InUse { .. }), "{refused}");
    // Reading is free.
    RunLog::read(&path).unwrap();
    drop(first);
    LogWriter::append(&path).unwrap();
}

#[test]
fn a_line_without_end_is_damage_and_not_memory() {
    let end = text(&[ended(7)]);
    for length in [LONGEST_LINE, LONGEST_LINE + 1, 3 * LONGEST_LINE] {
        let mut bytes = text(&[started(1)]).into_bytes();
        bytes.resize(bytes.len() + length, b'x');
        bytes.extend(format!("\n{end}").into_bytes());
        let mut reader = LogReader::new("a log", bytes.as_slice());
        assert_eq!(reader.by_ref().filter(|event| event.is_ok()).count(), 2);
        assert_eq!((reader.flaws().truncated, reader.flaws().damaged), (0, 1));
        assert_eq!(reader.flaws().described[0].line, 2);
        assert!(reader.bytes.capacity() <= 2 * LONGEST_LINE);
    }
}

#[test]
fn a_loss_that_is_not_a_number_is_kept() {
    let values = [
        ("loss".to_owned(), f64::NAN),
        ("norm".to_owned(), f64::INFINITY),
        ("worse".to_owned(), f64::NEG_INFINITY),
        ("fine".to_owned(), 0.1),
    ];
    let step = Stamped {
        at: Nanos(1),
        event: Event::Step(crate::event::Step {
            values: values.into(),
            ..Default::default()
        }),
    };
    let log = read(text(&[step]).as_bytes());
    let Event::Step(step) = &log.events().next().unwrap().event else {
        panic!("a step was written");
    };
    assert!(step.values["loss"].is_nan());
    assert_eq!(step.values["norm"], f64::INFINITY);
    assert_eq!(step.values["worse"], f64::NEG_INFINITY);
    assert_eq!(step.values["fine"], 0.1);
}

proptest! {
    #[test]
    fn every_event_reads_back_the_same(events in prop::collection::vec(examples::stamped(), 0..20)) {
        let log = read(text(&events).as_bytes());
        prop_assert_eq!(&log.flaws, &Flaws::default());
        prop_assert!(log.events().eq(events.iter()));
    }

    #[test]
    fn a_log_cut_anywhere_holds_all_whole_lines(
        events in prop::collection::vec(examples::stamped(), 1..10),
        share in 0.0f64..1.0,
    ) {
        let whole = text(&events).into_bytes();
        let cut = &whole[..(whole.len() as f64 * share) as usize];
        let log = read(cut);
        let lines = cut.iter().filter(|&&byte| byte == b'\n').count();
        let read = log.events().count();
        prop_assert!(read == lines || read == lines + 1);
        prop_assert_eq!(log.flaws.damaged, 0);
        prop_assert!(log.events().eq(events[..read].iter()));
    }

    #[test]
    fn no_bytes_make_the_reader_fail(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        read(&bytes);
    }
}

/// Lines as the program of log version 1 wrote them before shapes, devices and their memory were types.
#[test]
fn a_log_of_an_earlier_program_is_read_as_the_types_of_this_one() {
    let log = read(include_bytes!("earlier.jsonl"));
    assert_eq!(log.flaws, Flaws::default());
    let events: Vec<&Event> = log.events().map(|stamped| &stamped.event).collect();
    let shapes = events.iter().filter_map(|event| match event {
        Event::Step(step) => Some(step.shape),
        _ => None,
    });
    let shape = StepShape::Batch(Shape {
        frames: 640,
        tokens: 96,
        rows: 16,
    });
    let expected = [Some(shape), Some(StepShape::Batches(2)), None, None];
    assert_eq!(shapes.collect::<Vec<_>>(), expected);
    let memory = |limit| {
        Event::DeviceMemory(DeviceMemory {
            device: "vulkan:0".into(),
            bytes: 300,
            limit,
            peak: 400,
        })
    };
    assert!(events.contains(&&memory(Some(1_000))), "{events:?}");
    assert!(events.contains(&&memory(None)), "{events:?}");
    let mut stats = Stats::default();
    for stamped in log.events() {
        stats.absorb(stamped);
    }
    assert_eq!(stats.budgets.keys().collect::<Vec<_>>(), ["host memory"]);
    assert_eq!(stats.device_memory["vulkan:0"].peak, 400);
    let sampled: Vec<_> = (stats.devices.iter())
        .map(|(device, stats)| (device.as_str(), stats.memory_used.peak()))
        .collect();
    assert_eq!(sampled, [("nvidia0", Some(500.0))]);
    assert_eq!(stats.host.allowed_cores, None);
    // This program writes the same strings, and an earlier one skips what it does not know.
    let step = serde_json::to_string(&log.starts[0].events[4]).unwrap();
    assert!(step.contains(r#""shape":"16x640x96""#), "{step}");
    let line = include_str!("earlier.jsonl").lines().nth(9).unwrap();
    assert_eq!(
        serde_json::to_string(&log.starts[0].events[9]).unwrap(),
        line
    );
}
