//! Manifests, and the audio files that they name.

use std::fs;
use std::path::Path;

use voxmill_audio::{AudioSettings, decode_mono, read_header, wav_bytes};
use voxmill_data::Dataset;
use voxmill_data::manifest::{Limits, Quarantine};

use crate::{FuzzFolder, kind, project_root, size};

/// Between two files of a manifest: `metadata_train.csv` before it, `metadata_eval.csv` after it.
const NEXT_FILE: u8 = 0x1c;

pub(crate) fn read_manifest(place: &FuzzFolder, bytes: &[u8]) -> String {
    let folder = place.path().join("dataset");
    if !folder.exists() {
        fs::create_dir_all(folder.join("wavs")).expect("the folder can be written");
        for (name, samples) in [("a", 2_000), ("b", 300), ("c d", 1)] {
            let wav = wav_bytes(&vec![0.1; samples], 22_050);
            place.put(&format!("dataset/wavs/{name}.wav"), &wav);
        }
    }
    let files = ["metadata.csv", "metadata_train.csv", "metadata_eval.csv"];
    for name in files {
        let _ = fs::remove_file(folder.join(name));
    }
    match bytes.iter().position(|byte| *byte == NEXT_FILE) {
        None => {
            place.put("dataset/metadata.csv", bytes);
        }
        Some(at) => {
            place.put("dataset/metadata_train.csv", &bytes[..at]);
            place.put("dataset/metadata_eval.csv", &bytes[at + 1..]);
        }
    }
    let listed = Quarantine::read_csv(&place.put("quarantine.csv", bytes));
    let listed = listed.map_or_else(|error| kind(&error), |list| size(list.len()).to_string());
    match Dataset::open(&folder, None, &Limits::default(), 0.3) {
        Ok(dataset) => {
            let manifest = &dataset.manifest;
            let reasons = manifest.quarantine.counts().into_iter();
            let reasons: Vec<_> = reasons.map(|(why, _)| why.as_str().to_owned()).collect();
            let (clips, notes) = (size(manifest.clips.len()), dataset.notes.len());
            format!("{clips} {notes} {reasons:?} {listed}")
        }
        Err(error) => format!("{} {} {listed}", kind(&error), kind(&error.hint())),
    }
}

pub(crate) fn manifest_seeds(_: &FuzzFolder) -> Vec<Vec<u8>> {
    // The beginning of a real one.
    let path = project_root().join("crates/voxmill-data/data/demo/grammar.txt");
    let lines = fs::read_to_string(path).unwrap_or_default();
    let rows = (lines.lines().take(5).enumerate()).map(|(row, text)| format!("{row}|{text}\n"));
    vec![rows.collect::<String>().into_bytes()]
}

/// A minute at most, so that what a header promises stays within the bound.
pub(crate) fn settings() -> AudioSettings {
    AudioSettings {
        max_seconds: 60.0,
        ..AudioSettings::default()
    }
}

fn read_audio(place: &FuzzFolder, name: &str, bytes: &[u8]) -> String {
    let path = place.put(name, bytes);
    let header = match read_header(&path) {
        Ok(header) => header,
        Err(error) => return format!("{} {}", error.kind(), kind(&error)),
    };
    // Who decodes without a limit believes the header, so only a short one is tried.
    let decoded = (header.samples < 1 << 22).then(|| match decode_mono(&path) {
        Ok(waveform) => {
            let samples = waveform.samples.len() as u64;
            assert_eq!(samples, header.samples, "a header is a promise");
            "whole".to_owned()
        }
        Err(error) => kind(&error),
    });
    let frames = match place.featurizer().featurize(&path) {
        Ok(features) => {
            let expected = settings().frames_for_header(&header);
            assert_eq!(features.frames(), expected, "frames follow from the header");
            assert!(features.mel.iter().all(|value| value.is_finite()));
            size(features.frames()).to_string()
        }
        Err(error) => kind(&error),
    };
    let (channels, rate) = (header.channels, size(header.sample_rate as usize));
    format!("{channels} {rate} {decoded:?} {frames}")
}

macro_rules! containers {
    ($($read:ident $seeds:ident $extension:literal;)*) => {
        $(pub(crate) fn $read(place: &FuzzFolder, bytes: &[u8]) -> String {
            read_audio(place, concat!("clip.", $extension), bytes)
        }

        pub(crate) fn $seeds(_: &FuzzFolder) -> Vec<Vec<u8>> {
            fixtures($extension)
        })*
    };
}

containers! {
    read_wav wav_seeds "wav";
    read_flac flac_seeds "flac";
    read_ogg ogg_seeds "ogg";
    read_mp3 mp3_seeds "mp3";
}

/// The files that the decoders' own tests read.
fn fixtures(extension: &str) -> Vec<Vec<u8>> {
    let folder = project_root().join("crates/voxmill-audio/data/fixtures/audio/formats");
    let is_wanted = |path: &Path| path.extension().is_some_and(|found| found == extension);
    let files = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut files: Vec<_> = files.map(|file| file.path()).collect();
    files.retain(|path| is_wanted(path));
    files.sort();
    files.iter().flat_map(fs::read).collect()
}
