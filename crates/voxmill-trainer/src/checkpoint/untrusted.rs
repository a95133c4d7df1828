//! A checkpoint may come from anybody: its files are opened, and its facts believed, only as far as they fit.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::ops::RangeInclusive;
use std::path::Path;

use super::{
    ALIGNMENTS, CheckpointError, CheckpointFacts, Progress, StoredAlignments, TRAINING, VoiceFacts,
};
use crate::model::{ModelShape, ModelSize, Vocabulary};
use crate::prepare::LANGUAGES;

/// The alignments of 250,000 clips, of version 1: no other list in it is longer. What is parsed takes many times its
/// length in memory.
pub(super) const MOST_JSON: u64 = 1 << 28;
/// Those of more clips than that.
const MOST_ALIGNMENTS: u64 = 1 << 29;

/// Names and places of all tensors in a file take less.
const MOST_HEADER: u64 = 1_000_000;

/// More batches and steps than any run makes; sums of a few such numbers stay far below 64 bits.
const MOST_STEPS: u64 = 1 << 40;
const MOST_EPOCHS: u64 = 1 << 31;
/// Three centuries.
const MOST_SECONDS: f64 = 1e10;
/// Mean and deviation of log-mel values: those of real recordings are below 15.
const MOST_MEL: f32 = 100.0;
/// The model's own styles are within 1.
const MOST_STYLE: f32 = 10.0;

/// What a file of tensors may take, by the voice's shape.
pub(super) fn file_bytes(voice: &VoiceFacts, name: &str) -> RangeInclusive<u64> {
    if name == ALIGNMENTS {
        return 1..=MOST_ALIGNMENTS;
    }
    // With each weight its two moments.
    let floats = if name == TRAINING { 3 } else { 1 };
    let least = 4 * floats * voice.shape.parameters(voice.vocabulary) as u64;
    least..=least + MOST_HEADER
}

/// Anything but a plain file of a length that fits could be endless, never answer, or lie elsewhere.
fn open(path: &Path, fitting: &RangeInclusive<u64>) -> Result<(File, u64), CheckpointError> {
    let failed = |source: io::Error| CheckpointError::Read {
        path: path.to_owned(),
        source,
    };
    let found = fs::symlink_metadata(path).map_err(failed)?;
    if !found.is_file() {
        let why = "it is no plain file (a link, a folder or a device)";
        return Err(CheckpointError::damaged(path, why));
    }
    check_length(path, found.len(), fitting)?;
    Ok((File::open(path).map_err(failed)?, found.len()))
}

pub(super) fn check_length(
    path: &Path,
    bytes: u64,
    fitting: &RangeInclusive<u64>,
) -> Result<(), CheckpointError> {
    if fitting.contains(&bytes) {
        return Ok(());
    }
    let (least, most) = fitting.clone().into_inner();
    let why = format!("it has {bytes} bytes, where {least} to {most} are expected");
    Err(CheckpointError::damaged(path, why))
}

pub(super) fn read(path: &Path, fitting: &RangeInclusive<u64>) -> Result<Vec<u8>, CheckpointError> {
    let (file, length) = open(path, fitting)?;
    let mut bytes = Vec::new();
    let read = file.take(length).read_to_end(&mut bytes);
    read.map_err(|source| CheckpointError::Read {
        path: path.to_owned(),
        source,
    })?;
    Ok(bytes)
}

/// The length and hash of a file, without taking it into memory.
pub(super) fn hash(
    path: &Path,
    fitting: &RangeInclusive<u64>,
) -> Result<(u64, blake3::Hash), CheckpointError> {
    let (file, length) = open(path, fitting)?;
    let mut hasher = blake3::Hasher::new();
    let hashed = hasher.update_reader(file.take(length));
    hashed.map_err(|source| CheckpointError::Read {
        path: path.to_owned(),
        source,
    })?;
    Ok((hasher.count(), hasher.finalize()))
}

/// Whether facts fit each other and this program, or what does not.
pub(super) fn check(facts: &CheckpointFacts) -> Result<(), String> {
    check_voice(&facts.voice)?;
    check_progress(&facts.progress)?;
    check_alignments(&facts.alignments)
}

pub(super) fn check_alignments(alignments: &StoredAlignments) -> Result<(), String> {
    let known = alignments.known.iter().map(|(_, frames)| frames);
    let pending = alignments.pending.iter().flat_map(|p| &p.durations);
    for frames in known.chain(pending) {
        let sum = frames.iter().try_fold(0_u32, |sum, n| sum.checked_add(*n));
        sum.ok_or("the frames of an alignment are too many")?;
    }
    Ok(())
}

fn check_voice(voice: &VoiceFacts) -> Result<(), String> {
    let fits = |size: &ModelSize| is_within(&voice.shape, &size.shape());
    if !ModelSize::ALL.iter().any(fits) {
        let why = format!("`shape` is {:?}: no voice is like that", voice.shape);
        return Err(why);
    }
    let tokens = voice.symbols.symbols.len();
    let expected = Vocabulary {
        tokens,
        languages: LANGUAGES,
        mel_channels: voice.audio.n_mels,
    };
    if voice.vocabulary != expected || !(1..=usize::from(u16::MAX)).contains(&tokens) {
        let found = voice.vocabulary;
        return Err(format!("`vocabulary` is {found:?}, not {expected:?}"));
    }
    voice.audio.validate().map_err(|why| why.to_string())?;
    let statistics = voice.mel_statistics;
    let (mean, deviation) = (statistics.mean, statistics.deviation);
    let is_mel = (-MOST_MEL..=MOST_MEL).contains(&mean);
    if !is_mel || !(f32::MIN_POSITIVE..=MOST_MEL).contains(&deviation) {
        return Err(format!("`mel_statistics` are {mean} and {deviation}"));
    }
    if !(0.5..=2.0).contains(&voice.length_scale) {
        let scale = voice.length_scale;
        return Err(format!("`length_scale` is {scale}, not from 0.5 to 2"));
    }
    for (name, style) in &voice.speakers {
        let is_style = |value: &f32| value.abs() <= MOST_STYLE;
        if style.len() != voice.shape.style || !style.iter().all(is_style) {
            let length = voice.shape.style;
            return Err(format!(
                "the style of `{name}` is not {length} numbers from -{MOST_STYLE} to {MOST_STYLE}"
            ));
        }
    }
    if let Some(recordings) = &voice.recordings {
        let channels = voice.vocabulary.mel_channels;
        let pause = &recordings.pause;
        // As loud as any recording can be: a larger number overflows when it becomes sound.
        let is_quiet = |value: &f32| value.is_finite() && *value < 10.0;
        if pause.len() != channels || !pause.iter().all(is_quiet) {
            return Err(format!(
                "the frame of a pause is not {channels} log-mel values"
            ));
        }
        if !(-70.0..=0.0).contains(&recordings.loudness_lufs) {
            let lufs = recordings.loudness_lufs;
            return Err(format!(
                "the recordings' loudness is {lufs} LUFS, not from -70 to 0"
            ));
        }
    }
    Ok(())
}

/// Nowhere larger than the other, and nowhere empty.
fn is_within(shape: &ModelShape, largest: &ModelShape) -> bool {
    let fields = |shape: &ModelShape| {
        [
            shape.channels,
            shape.encoder_blocks,
            shape.encoder_widen,
            shape.decoder_blocks,
            shape.decoder_widen,
            shape.reference_channels,
            shape.reference_blocks,
            shape.style,
        ]
    };
    let mut pairs = fields(shape).into_iter().zip(fields(largest));
    pairs.all(|(found, most)| (1..=most).contains(&found))
}

fn check_progress(progress: &Progress) -> Result<(), String> {
    let Progress { step, position, .. } = *progress;
    let best = progress.best;
    let fits = step <= MOST_STEPS
        && position.epoch <= MOST_EPOCHS
        && position.batch <= MOST_STEPS
        && u64::from(progress.since_best) <= MOST_EPOCHS
        && (0.0..=MOST_SECONDS).contains(&progress.seconds)
        && best.is_none_or(|best| best.step <= step && best.loss.is_finite());
    match fits {
        true => Ok(()),
        false => Err(format!("`progress` cannot be: {progress:?}")),
    }
}
