//! A small dataset of tones.

use std::f32::consts::TAU;
use std::fs;
use std::path::Path;

const CLIPS: u32 = 24;
const RATE: u32 = 22_050;

const SENTENCES: [&str; 4] = [
    "The river runs past the old mill.",
    "She paid $3.50 for 2 apples.",
    "We leave at noon.",
    "Dr. Smith came on May 4, 1999.",
];

pub(crate) fn write(folder: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(folder.join("wavs"))?;
    let mut manifest = String::new();
    for clip in 0..CLIPS {
        let text = SENTENCES[clip as usize % SENTENCES.len()];
        manifest.push_str(&format!("c{clip:03}|{text}\n"));
        let samples = RATE * (7 + clip % 9) / 10;
        let wav = tone(samples, 200.0 + 10.0 * clip as f32);
        fs::write(folder.join(format!("wavs/c{clip:03}.wav")), wav)?;
    }
    Ok(fs::write(folder.join("metadata.csv"), manifest)?)
}

/// 16-bit mono.
fn tone(samples: u32, hz: f32) -> Vec<u8> {
    let bytes = 2 * samples;
    let mut wav = Vec::new();
    wav.extend(b"RIFF");
    wav.extend((36 + bytes).to_le_bytes());
    wav.extend(b"WAVEfmt ");
    wav.extend(16_u32.to_le_bytes());
    // Whole numbers, one channel.
    wav.extend([1, 0, 1, 0]);
    wav.extend(RATE.to_le_bytes());
    wav.extend((2 * RATE).to_le_bytes());
    wav.extend([2, 0, 16, 0]);
    wav.extend(b"data");
    wav.extend(bytes.to_le_bytes());
    for sample in 0..samples {
        let turn = hz * sample as f32 / RATE as f32;
        let value = ((TAU * turn).sin() * 8_000.0) as i16;
        wav.extend(value.to_le_bytes());
    }
    wav
}
