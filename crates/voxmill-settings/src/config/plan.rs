//! Reads the file of `voxmill plan`: stage times with their units, each fault with its line.
//!
//! ```yaml
//! steps: 100000
//! clips: 16
//! slots: 2
//! stages:
//!   load:     { time: 20 ms, spread: 30 %, workers: 2, buffer: 50 }
//!   frames:   { time: 2 ms, each: clip, on: device }
//!   transfer: { time: 15 ms, with: two devices }
//! train:      { time: 150 ms, spread: 5 % }
//! exchange:   { time: 12 ms }
//! ```

use std::path::Path;

use saphyr::{MarkedYaml, YamlData};
use saphyr_parser::Marker;

use voxmill_analysis::plan::{Each, PlannedRun, PlannedStage, Timed, With};
use voxmill_untrusted::file::read_text;

use super::bounds;
use super::file::{FileProblem, FileProblems, brief, found, scalar_text, to_error};
use crate::error::UserError;

const MOST_BYTES: u64 = 1_000_000;
const MOST_STAGES: usize = 50;
/// A day: what takes longer is a wrong unit.
const LONGEST_MS: f64 = 86_400_000.0;
const TIME: &str = "write a time with its unit: 20 ms, 1.5 s or 300 us";
const KEYS: &str = "the keys are steps, clips, slots, stages, train and exchange";
const OF_A_STAGE: &str = "a stage has time, spread, each, workers, buffer, with and on";

/// The run that a file states.
pub fn read(path: &Path) -> anyhow::Result<PlannedRun> {
    let text = read_text(path, MOST_BYTES).map_err(|error| {
        let what = format!("cannot read the plan `{}`", path.display());
        let hint =
            "give a YAML file with stages and their times; voxmill plan --help has an example";
        UserError::new(what, hint).because(error)
    })?;
    parse(&text, path)
}

fn parse(text: &str, path: &Path) -> anyhow::Result<PlannedRun> {
    let refused = |fault| to_error(FileProblems::of(fault), text, path);
    let documents = bounds::load(text).map_err(refused)?;
    let Some(document) = documents.first() else {
        let hint = "write stages: and train: with their times";
        return Err(UserError::new(format!("the plan `{}` is empty", path.display()), hint).into());
    };
    run(document).map_err(refused)
}

type Found<T> = Result<T, FileProblem>;

fn fault(node: &MarkedYaml, what: impl Into<String>, hint: impl Into<String>) -> FileProblem {
    let width = scalar_text(node).map_or(1, |text| text.chars().count());
    FileProblem::at(node.span.start, width, what.into(), hint.into())
}

/// Names and their values, in the order of the file.
fn entries<'a>(
    node: &'a MarkedYaml<'a>,
    of: &str,
    hint: &str,
) -> Found<Vec<(&'a str, &'a MarkedYaml<'a>, Marker)>> {
    let YamlData::Mapping(entries) = &node.data else {
        let what = format!("{of} must hold keys, but found {}", found(&node.data));
        return Err(fault(node, what, hint));
    };
    let named = entries.iter().map(|(name, value)| {
        let at = name.span.start;
        let name = scalar_text(name).ok_or_else(|| fault(name, "this is not a name", hint))?;
        Ok((brief(name), value, at))
    });
    named.collect()
}

fn unknown(name: &str, at: Marker, hint: &str) -> FileProblem {
    FileProblem::at(
        at,
        name.chars().count(),
        format!("unknown key `{name}`"),
        hint.to_owned(),
    )
}

fn run(document: &MarkedYaml) -> Found<PlannedRun> {
    let mut run = PlannedRun {
        steps: 100_000,
        clips: 16,
        stages: Vec::new(),
        train: Timed::default(),
        slots: 2,
        exchange: None,
    };
    let (mut train, mut stages) = (None, None);
    for (name, value, at) in entries(document, "the plan", KEYS)? {
        match name {
            "steps" => run.steps = whole(name, value, 1_000_000_000_000)?,
            "clips" => run.clips = whole(name, value, 10_000)?,
            "slots" => run.slots = whole(name, value, 1_000)? as usize,
            "stages" => stages = Some(value),
            "train" => train = Some(timed(name, value)?),
            "exchange" => run.exchange = Some(timed(name, value)?),
            _ => return Err(unknown(name, at, KEYS)),
        }
    }
    run.train = train.ok_or_else(|| {
        fault(
            document,
            "the plan does not say how long training takes",
            "write train: { time: 150 ms }",
        )
    })?;
    let hint = "write stages: and below it, for each stage, load: { time: 20 ms }";
    let of = stages.ok_or_else(|| fault(document, "the plan has no stages", hint))?;
    let named = entries(of, "`stages`", hint)?;
    if named.is_empty() || named.len() > MOST_STAGES {
        let what = format!(
            "the plan has {} stages, and 1 to {MOST_STAGES} can be planned",
            named.len()
        );
        return Err(fault(of, what, hint));
    }
    for (name, value, at) in named {
        let stage = stage(name, value)?;
        let by_batch = run.stages.iter().any(|before| before.each == Each::Batch);
        if stage.each == Each::Clip && by_batch {
            let what = format!("`{name}` works on clips behind a stage that works on batches");
            let hint = "stages of clips come first: there, clips are not together yet";
            return Err(FileProblem::at(at, name.chars().count(), what, hint.into()));
        }
        run.stages.push(stage);
    }
    Ok(run)
}

fn stage(name: &str, node: &MarkedYaml) -> Found<PlannedStage> {
    let mut stage = PlannedStage {
        name: name.to_owned(),
        time: Timed::default(),
        each: Each::Batch,
        workers: 1,
        buffer: 2,
        with: With::Any,
        on_device: false,
    };
    let (mut time, mut spread) = (None, None);
    for (key, value, at) in entries(node, &format!("`{name}`"), OF_A_STAGE)? {
        match key {
            "time" => time = Some(milliseconds(key, value)?),
            "spread" => spread = Some(share(key, value)?),
            "workers" => stage.workers = whole(key, value, 1_000)? as usize,
            "buffer" => stage.buffer = whole(key, value, 100_000)? as usize,
            "each" => {
                stage.each = one_of(key, value, &[("batch", Each::Batch), ("clip", Each::Clip)])?
            }
            "on" => stage.on_device = one_of(key, value, &[("host", false), ("device", true)])?,
            "with" => {
                let known = [
                    ("one device", With::OneDevice),
                    ("two devices", With::TwoDevices),
                    ("any", With::Any),
                ];
                stage.with = one_of(key, value, &known)?;
            }
            _ => return Err(unknown(key, at, OF_A_STAGE)),
        }
    }
    stage.time = Timed {
        milliseconds: time.ok_or_else(|| fault(node, format!("`{name}` has no time"), TIME))?,
        spread: spread.unwrap_or(0.0),
    };
    Ok(stage)
}

fn timed(name: &str, node: &MarkedYaml) -> Found<Timed> {
    let (mut time, mut spread) = (None, None);
    let hint = format!("`{name}` has time and spread");
    for (key, value, at) in entries(node, &format!("`{name}`"), &hint)? {
        match key {
            "time" => time = Some(milliseconds(key, value)?),
            "spread" => spread = Some(share(key, value)?),
            _ => return Err(unknown(key, at, &hint)),
        }
    }
    Ok(Timed {
        milliseconds: time.ok_or_else(|| fault(node, format!("`{name}` has no time"), TIME))?,
        spread: spread.unwrap_or(0.0),
    })
}

/// A single value as it is written.
fn scalar<'a>(name: &str, node: &'a MarkedYaml, hint: &str) -> Found<&'a str> {
    scalar_text(node).ok_or_else(|| {
        let what = format!(
            "`{name}` must be a single value, but found {}",
            found(&node.data)
        );
        fault(node, what, hint)
    })
}

fn whole(name: &str, node: &MarkedYaml, most: u64) -> Found<u64> {
    let hint = format!("write a whole number from 1 to {most}");
    let text = scalar(name, node, &hint)?;
    let number = text
        .parse()
        .ok()
        .filter(|number| (1..=most).contains(number));
    number.ok_or_else(|| {
        fault(
            node,
            format!("`{name}`: `{}` is not such a number", brief(text)),
            hint,
        )
    })
}

fn milliseconds(name: &str, node: &MarkedYaml) -> Found<f64> {
    let text = scalar(name, node, TIME)?.trim();
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit() && c != '.');
    let unit = text[digits.len()..].trim();
    let wrong = |what: String| fault(node, format!("`{name}`: {what}"), TIME);
    let times = match unit {
        "ms" => 1.0,
        "s" => 1e3,
        "us" | "µs" | "μs" => 1e-3,
        "" => return Err(wrong(format!("`{}` has no unit", brief(text)))),
        unit => return Err(wrong(format!("`{}` is no unit of time", brief(unit)))),
    };
    let number: Option<f64> = digits.parse().ok();
    let time = number
        .map(|number| number * times)
        .filter(|ms| (0.0..=LONGEST_MS).contains(ms));
    time.ok_or_else(|| wrong(format!("`{}` is not a time up to a day", brief(text))))
}

/// Standard deviation over mean.
fn share(name: &str, node: &MarkedYaml) -> Found<f64> {
    const HINT: &str = "write the standard deviation in per cent of the time: 30 %";
    let text = scalar(name, node, HINT)?.trim();
    let wrong = |what: &str| fault(node, format!("`{name}`: `{}` {what}", brief(text)), HINT);
    let digits = text
        .strip_suffix('%')
        .ok_or_else(|| wrong("is not in per cent"))?;
    let number: Option<f64> = digits.trim().parse().ok();
    let number = number.filter(|number| (0.0..=1_000.0).contains(number));
    Ok(number.ok_or_else(|| wrong("is not between 0 and 1000 %"))? / 100.0)
}

fn one_of<T: Copy>(name: &str, node: &MarkedYaml, known: &[(&str, T)]) -> Found<T> {
    let words: Vec<&str> = known.iter().map(|(word, _)| *word).collect();
    let hint = format!("write one of: {}", words.join(", "));
    let text = scalar(name, node, &hint)?;
    let value = known
        .iter()
        .find(|(word, _)| *word == text)
        .map(|(_, value)| *value);
    value.ok_or_else(|| {
        fault(
            node,
            format!("`{name}`: there is no `{}`", brief(text)),
            hint,
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::describe;

    const WHOLE: &str = "\
steps: 1000
clips: 8
slots: 3
stages:
  load: { time: 2.5 ms, spread: 30 %, each: clip, workers: 2, buffer: 50 }
  frames: { time: 1 s, on: device }
  transfer:
    time: 300 us
    with: two devices
train: { time: 150 ms, spread: 5 % }
exchange: { time: 12 ms }
";

    fn refused(text: &str) -> String {
        describe(&parse(text, Path::new("plan.yaml")).unwrap_err())
    }

    #[test]
    fn every_key_is_read() {
        let run = parse(WHOLE, Path::new("plan.yaml")).unwrap();
        assert_eq!((run.steps, run.clips, run.slots), (1000, 8, 3));
        let load = &run.stages[0];
        assert_eq!((load.time.milliseconds, load.time.spread), (2.5, 0.3));
        assert_eq!((load.each, load.workers, load.buffer), (Each::Clip, 2, 50));
        assert!(run.stages[1].on_device);
        assert_eq!(run.stages[1].time.milliseconds, 1000.0);
        assert_eq!(
            (run.stages[2].with, run.stages[2].time.milliseconds),
            (With::TwoDevices, 0.3)
        );
        assert_eq!((run.train.milliseconds, run.train.spread), (150.0, 0.05));
        assert_eq!(run.exchange.map(|time| time.milliseconds), Some(12.0));
    }

    #[test]
    fn what_is_wrong_is_shown_with_its_line() {
        for (right, wrong, line, what) in [
            ("time: 300 us", "time: 300", 8, "`time`: `300` has no unit"),
            (
                "time: 300 us",
                "time: 300 MB",
                8,
                "`time`: `MB` is no unit of time",
            ),
            (
                "time: 300 us",
                "time: -3 ms",
                8,
                "`time`: `-3 ms` is not a time up to a day",
            ),
            (
                "spread: 5 %",
                "spread: 5",
                10,
                "`spread`: `5` is not in per cent",
            ),
            (
                "slots: 3",
                "slots: 0",
                3,
                "`slots`: `0` is not such a number",
            ),
            ("clips: 8", "clip: 8", 2, "unknown key `clip`"),
            (
                "with: two devices",
                "with: three devices",
                9,
                "`with`: there is no `three devices`",
            ),
            (
                "on: device",
                "each: clip, workers: two",
                6,
                "`workers`: `two` is not such a number",
            ),
            (
                "steps: 1000",
                "steps: [1]",
                1,
                "`steps` must be a single value, but found a list",
            ),
        ] {
            assert!(WHOLE.contains(right), "{right}");
            let text = refused(&WHOLE.replace(right, wrong));
            assert!(text.contains(what), "{text}");
            assert!(text.contains(&format!("plan.yaml:{line}:")), "{text}");
            assert!(text.contains("\n\nhint: "), "{text}");
        }
        let behind = WHOLE
            .replace("on: device", "each: batch")
            .replace("    time: 300 us", "    each: clip\n    time: 300 us");
        assert!(refused(&behind).contains("works on clips behind a stage that works on batches"));
        assert!(refused("stages: { load: { time: 1 ms } }").contains("how long training takes"));
        assert!(refused("train: { time: 1 ms }").contains("the plan has no stages"));
        assert!(refused("").contains("is empty"));
        assert!(refused("train: {").contains("not valid YAML"));
    }
}
