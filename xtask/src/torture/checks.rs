//! What must hold after every round, compared with a run that nobody disturbed.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};

use super::dataset;
use super::program::{Verb, Voxmill};

/// Of every run.
pub(crate) const STEPS: u64 = 24;

/// What comes out when nothing happens.
#[derive(Debug)]
pub(crate) struct Undisturbed {
    values: BTreeMap<u64, String>,
    content: String,
    pub(crate) train_took: Duration,
    pub(crate) prepare_took: Duration,
}

impl Undisturbed {
    pub(crate) fn new(program: &Voxmill, folder: &Path) -> anyhow::Result<Undisturbed> {
        dataset::write(&folder.join("data"))?;
        // The shortest of some: moments are drawn within it, and after the end nothing is hit.
        let mut prepare_took = Duration::MAX;
        for _ in 0..5 {
            let _ = fs::remove_dir_all(cache(folder));
            let began = Instant::now();
            program.start(&Verb::prepare(folder))?.expect(0)?;
            prepare_took = prepare_took.min(began.elapsed());
        }
        let content = program.content(&cache(folder))?;
        ensure!(!content.is_empty(), "the cache is empty");
        let began = Instant::now();
        program.start(&Verb::train(folder))?.expect(0)?;
        let train_took = began.elapsed();
        let values = steps_in_log(&folder.join("run"))?;
        let values: BTreeMap<u64, String> = values.into_iter().collect();
        ensure!(
            values.keys().copied().eq(1..=STEPS),
            "the undisturbed run has no step of its own in the log for each of {STEPS}"
        );
        Ok(Undisturbed {
            values,
            content,
            train_took,
            prepare_took,
        })
    }

    pub(crate) fn steps(&self) -> usize {
        self.values.len()
    }

    /// A run that has come to its end: every step is in its log, with the same losses, however often it was done.
    pub(crate) fn check_run(&self, run: &Path) -> anyhow::Result<()> {
        let found = steps_in_log(run)?;
        for (step, values) in &found {
            let expected = self.values.get(step);
            ensure!(
                expected == Some(values),
                "step {step} differs:\n  {values}\n  {} undisturbed",
                expected.map_or("no such step", String::as_str)
            );
        }
        let missing = self.values.keys();
        let missing: Vec<u64> = { missing }
            .filter(|step| !found.iter().any(|(found, _)| found == *step))
            .copied()
            .collect();
        ensure!(
            missing.is_empty(),
            "steps missing from the log: {missing:?}"
        );
        let last = checkpoints(run)?.pop();
        let last = last.context("the run has no checkpoint")?;
        ensure!(
            last.ends_with(last_checkpoint()),
            "the last checkpoint is {}",
            last.display()
        );
        Ok(())
    }

    pub(crate) fn check_cache(&self, program: &Voxmill, folder: &Path) -> anyhow::Result<()> {
        let content = program.content(&cache(folder))?;
        ensure!(
            content == self.content,
            "the cache holds something else:\n{content}"
        );
        Ok(())
    }
}

pub(crate) fn cache(folder: &Path) -> PathBuf {
    folder.join("data/voxmill-cache/features")
}

/// The name of the checkpoint with which a run is over.
pub(crate) fn last_checkpoint() -> String {
    format!("step-{STEPS:09}")
}

pub(crate) fn log(run: &Path) -> PathBuf {
    run.join("events.jsonl")
}

/// The checkpoints of a run, oldest first.
pub(crate) fn checkpoints(run: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let folder = run.join("checkpoints");
    if !folder.exists() {
        return Ok(Vec::new());
    }
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with("step-") {
            found.push(entry.path());
        }
    }
    found.sort();
    Ok(found)
}

/// Every file of a run with its content, except for locks, which say who was there last.
pub(crate) fn contents(run: &Path) -> anyhow::Result<BTreeMap<PathBuf, Vec<u8>>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![run.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_none_or(|end| end != "lock") {
                let content = fs::read(&path)?;
                found.insert(path, content);
            }
        }
    }
    Ok(found)
}

/// Each whole line of a step: its number and its values as they are written. Numbers are written with all their digits,
/// so that equal text is equal to the bit.
fn steps_in_log(run: &Path) -> anyhow::Result<Vec<(u64, String)>> {
    let path = log(run);
    let bytes = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let text = String::from_utf8_lossy(&bytes);
    let mut found = Vec::new();
    for line in text.lines() {
        if !line.contains(r#""event":"step""#) || !line.ends_with("}}") {
            continue;
        }
        let number = between(line, r#""step":"#, ",");
        let values = between(line, r#""values":{"#, "}");
        let (Some(number), Some(values)) = (number, values) else {
            continue;
        };
        found.push((number.parse()?, values.to_owned()));
    }
    Ok(found)
}

fn between<'a>(line: &'a str, before: &str, after: &str) -> Option<&'a str> {
    let (_, rest) = line.split_once(before)?;
    let (found, _) = rest.split_once(after)?;
    Some(found)
}
