//! Small datasets of tones.

use std::f32::consts::TAU;
use std::fs;
use std::path::{Path, PathBuf};

use voxmill_audio::wav_bytes;

pub(crate) struct Dataset {
    folder: tempfile::TempDir,
}

const SENTENCES: [&str; 6] = [
    "The river runs past the old mill.",
    "She paid $3.50 for 2 apples.",
    "We leave at noon.",
    "Dr. Smith came on May 4, 1999.",
    "Nobody knew the name of the boat.",
    "It rained all day and all night.",
];

impl Dataset {
    /// `clips` clips of 0.7 to 1.5 s named c000, c001, …
    pub(crate) fn new(clips: usize) -> Dataset {
        let dataset = Dataset {
            folder: tempfile::tempdir().unwrap(),
        };
        fs::create_dir(dataset.path().join("wavs")).unwrap();
        let rows: Vec<_> = (0..clips)
            .map(|n| format!("c{n:03}|{}", SENTENCES[n % SENTENCES.len()]))
            .collect();
        dataset.manifest(&(rows.join("\n") + "\n"));
        for n in 0..clips {
            dataset.tone(n, 0.7 + 0.1 * (n % 9) as f32);
        }
        dataset
    }

    /// With noise under the tones, as in any recording: frames that a device computes of pure tones are too far off.
    pub(crate) fn noisy(clips: usize) -> Dataset {
        let dataset = Dataset::new(clips);
        for n in 0..clips {
            let mut wav = fs::read(dataset.wav(n)).unwrap();
            let mut noise = 1u32;
            for sample in wav[44..].chunks_exact_mut(2) {
                noise = noise.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let tone = i16::from_le_bytes([sample[0], sample[1]]);
                sample.copy_from_slice(&(tone + (noise >> 24) as i16).to_le_bytes());
            }
            fs::write(dataset.wav(n), wav).unwrap();
        }
        dataset
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn manifest(&self, text: &str) {
        fs::write(self.path().join("metadata.csv"), text).unwrap();
    }

    pub(crate) fn append(&self, row: &str) {
        let old = fs::read_to_string(self.path().join("metadata.csv")).unwrap();
        self.manifest(&format!("{old}{row}\n"));
    }

    pub(crate) fn wav(&self, n: usize) -> PathBuf {
        self.path().join(format!("wavs/c{n:03}.wav"))
    }

    pub(crate) fn hardly_audible_tone(&self, n: usize) {
        let mut wav = tone(1.0, 440.0);
        for sample in wav[44..].chunks_exact_mut(2) {
            let quiet = i16::from_le_bytes([sample[0], sample[1]]) / 1000;
            sample.copy_from_slice(&quiet.to_le_bytes());
        }
        fs::write(self.wav(n), wav).unwrap();
    }

    pub(crate) fn tone(&self, n: usize, seconds: f32) {
        fs::write(self.wav(n), tone(seconds, 200.0 + 10.0 * n as f32)).unwrap();
    }
}

/// 16-bit mono at 22,050 Hz.
pub(crate) fn tone(seconds: f32, hz: f32) -> Vec<u8> {
    let samples = 0..(seconds * 22_050.0) as u32;
    let turns = samples.map(|n| hz * n as f32 / 22_050.0);
    let sound: Vec<f32> = turns.map(|turn| (TAU * turn).sin() * 0.25).collect();
    wav_bytes(&sound, 22_050)
}

/// Name, size and time of change of every file below a folder.
pub(crate) fn listing(folder: &Path) -> Vec<(PathBuf, u64, std::time::SystemTime)> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let entry = entry.unwrap();
            let facts = entry.metadata().unwrap();
            if facts.is_dir() {
                folders.push(entry.path());
            } else {
                found.push((entry.path(), facts.len(), facts.modified().unwrap()));
            }
        }
    }
    found.sort();
    found
}
