//! Writes the event files of a run that was killed after step 19 and continued from step 10, for
//! `eval/check_tensorboard.py` and for looking at them.
//!
//! `cargo run -p voxmill-report --example event_files -- FOLDER`

use std::error::Error;
use std::path::PathBuf;

use voxmill_report::picture::{Labels, Mel, alignment_png, mel_png, two_mels_png};
use voxmill_report::tensorboard::{EventWriter, Moment, RunStart, WavFile};

const SAMPLE_RATE_HZ: u32 = 22_050;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args_os().nth(1).ok_or("give a folder")?;
    let folder = PathBuf::from(folder);
    for (start_seconds, steps, scale) in [
        (1_700_000_000.0, 0..20_u64, 1.0),
        (1_700_000_100.0, 10..30, 10.0),
    ] {
        let start = RunStart {
            wall_seconds: start_seconds,
            host: "example",
            process_id: std::process::id(),
            first_step: steps.start,
        };
        let mut writer = EventWriter::create(&folder, start)?;
        for step in steps {
            let at = Moment {
                wall_seconds: start_seconds + step as f64,
                step,
            };
            let loss = scale / (1.0 + step as f32);
            writer.scalars(at, &[("loss/total", loss), ("loss/mel", loss / 2.0)])?;
            if step % 10 == 5 {
                let mel = glide(200, step as f32);
                let mel = Mel::new(&mel, 80);
                let labels = Labels {
                    title: "real above spoken",
                    frame_seconds: 0.0116,
                };
                writer.picture(at, "mel", &mel_png(mel))?;
                writer.picture(at, "real above spoken", &two_mels_png(mel, mel, labels))?;
                writer.picture(at, "alignment", &alignment_png(&[3, 5, 2, 8]))?;
                let wav = tone(SAMPLE_RATE_HZ as usize / 2);
                let sound = WavFile {
                    wav: &wav,
                    sample_rate_hz: SAMPLE_RATE_HZ,
                    samples: u64::from(SAMPLE_RATE_HZ / 2),
                };
                writer.sound(at, "sample", sound)?;
                writer.text(at, "settings", "size: *tiny*")?;
            }
            writer.flush()?;
        }
    }
    Ok(())
}

/// A mel of one rising tone.
fn glide(frames: usize, offset: f32) -> Vec<f32> {
    (0..frames * 80)
        .map(|index| {
            let (frame, channel) = ((index / 80) as f32, (index % 80) as f32);
            -(channel - offset - frame * 0.2).abs()
        })
        .collect()
}

/// A wav file of 16-bit samples at 440 Hz.
fn tone(samples: usize) -> Vec<u8> {
    let bytes = samples as u32 * 2;
    let mut wav = Vec::new();
    wav.extend(b"RIFF");
    wav.extend((36 + bytes).to_le_bytes());
    wav.extend(b"WAVEfmt \x10\0\0\0\x01\0\x01\0");
    wav.extend(SAMPLE_RATE_HZ.to_le_bytes());
    wav.extend((SAMPLE_RATE_HZ * 2).to_le_bytes());
    wav.extend(b"\x02\0\x10\0data");
    wav.extend(bytes.to_le_bytes());
    for sample in 0..samples {
        let turns = 440.0 * sample as f32 / SAMPLE_RATE_HZ as f32;
        let value = (turns * std::f32::consts::TAU).sin() * 8_000.0;
        wav.extend((value as i16).to_le_bytes());
    }
    wav
}
