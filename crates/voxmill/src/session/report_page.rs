//! The page of a run: from its log and the samples in its folder.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use voxmill_analysis::history::History;
use voxmill_report::page::{Reported, Sample, Samples, page, room_for_samples};
use voxmill_telemetry::log::{LogError, is_being_written};

use crate::commands::warning;
use voxmill_settings::advice;
use voxmill_settings::run_folder::{EVENTS, SAMPLES, Staged};

/// The page that `train` and `profile` write.
pub(crate) const REPORT: &str = "report.html";

/// Pictures of the model on a held-out clip, as the last validation left them.
pub(crate) const HELD_OUT: &str = "held-out.png";
pub(crate) const ALIGNMENT: &str = "held-out-alignment.png";

/// Everything of a run but its samples, for which room is known only then.
pub(crate) fn read(log: &Path, name: String) -> Result<Reported, LogError> {
    // Asked before the log is read: a run that ends meanwhile has said so in what is read.
    let in_progress = is_being_written(log);
    let (run, history) = History::read(log)?;
    Ok(Reported {
        name,
        profile: advice::profile(&run),
        run,
        history,
        in_progress,
        samples: Samples::default(),
    })
}

/// Writes the page of a run that has just ended, and says where. What goes wrong is a warning: the run itself is done.
pub(crate) fn write(folder: &Path) -> Option<PathBuf> {
    let path = folder.join(REPORT);
    let written = || -> anyhow::Result<Option<()>> {
        let mut run = read(&folder.join(EVENTS), name_of(folder))?;
        if run.run.steps.is_empty() {
            return Ok(None);
        }
        // Its log is still ours when this asks.
        run.in_progress = false;
        add_samples(&mut [(&mut run, Some(folder.to_owned()))]);
        Staged::write(&path, &page(&[run], None))?.put()?;
        Ok(Some(()))
    };
    match written() {
        Ok(written) => written.map(|()| path.clone()),
        Err(error) => {
            let path = path.display();
            warning!("the report `{path}` could not be written: {error:#}");
            None
        }
    }
}

pub(crate) fn name_of(folder: &Path) -> String {
    let whole = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    let name = whole.file_name().unwrap_or(whole.as_os_str());
    name.to_string_lossy().into_owned()
}

/// Embeds samples as far as all runs together have room.
pub(crate) fn add_samples(runs: &mut [(&mut Reported, Option<PathBuf>)]) {
    let steps = runs.iter().map(|(run, _)| run.history.steps.len()).sum();
    let room = room_for_samples(runs.len(), steps) / runs.len().max(1) as u64;
    for (run, folder) in runs {
        if let Some(folder) = folder {
            run.samples = samples(&folder.join(SAMPLES), room);
        }
    }
}

/// The newest first: `final` is newer than any `step-…`.
fn samples(folder: &Path, mut room: u64) -> Samples {
    let mut found: BTreeMap<(bool, String), Vec<(u64, PathBuf)>> = BTreeMap::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let stem = path.file_stem().unwrap_or_default();
        let stem = stem.to_string_lossy().into_owned();
        let is_wav = path.extension().is_some_and(|end| end == "wav");
        let Some((group, number)) = stem.rsplit_once('-').filter(|_| is_wav) else {
            continue;
        };
        if let (Ok(number), false) = (number.parse(), group == "recording") {
            let key = (group == "final", group.to_owned());
            found.entry(key).or_default().push((number, path));
        }
    }
    let mut samples = Samples {
        held_out: take(&folder.join(HELD_OUT), &mut room),
        alignment: take(&folder.join(ALIGNMENT), &mut room),
        ..Samples::default()
    };
    let mut has_recording = Vec::new();
    for mut group in found.into_values().rev() {
        group.sort();
        for (number, path) in group {
            let Some(wav) = take(&path, &mut room) else {
                samples.left_out += 1;
                continue;
            };
            // Each recording once, next to the newest sample of its sentence.
            let recording = match has_recording.contains(&number) {
                true => None,
                false => take(&folder.join(format!("recording-{number}.wav")), &mut room),
            };
            if recording.is_some() {
                has_recording.push(number);
            }
            let stem = path.file_stem().unwrap_or_default();
            let text = path.with_extension("txt");
            samples.spoken.push(Sample {
                name: stem.to_string_lossy().into_owned(),
                text: voxmill_untrusted::file::read_text(&text, LONGEST_TEXT).ok(),
                mel: take(&path.with_extension("png"), &mut room),
                wav,
                recording,
            });
        }
    }
    samples
}

/// A sentence is hardly longer.
const LONGEST_TEXT: u64 = 20_000;

/// A file's bytes, where it is there and there is room for it.
fn take(path: &Path, room: &mut u64) -> Option<Vec<u8>> {
    let file = voxmill_untrusted::file::open(path).ok()?;
    let size = file.metadata().ok()?.len();
    if size > *room {
        return None;
    }
    let mut bytes = Vec::new();
    std::io::Read::read_to_end(&mut std::io::Read::take(file, *room), &mut bytes).ok()?;
    *room = room.saturating_sub(bytes.len() as u64);
    Some(bytes)
}
