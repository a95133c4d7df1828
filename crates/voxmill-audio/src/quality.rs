//! Whether a clip holds speech worth learning from, by its log-mel frames: how far its level ranges, and whether
//! it holds a tone.

/// What is measured of a clip's frames.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quality {
    /// From the level that 5 % of the frames stay below to that which 5 % exceed, in dB. Where the clip has pauses
    /// this is its signal-to-noise ratio. Below 6: its level hardly changes, as in a tone, noise or silence.
    pub snr_db: f32,
    /// The longest time for which the spectrum holds still. Above 0.15: a beep.
    pub still_seconds: f32,
}

/// A frame is tonal if this share of its power is in [`TONE_CHANNELS`] channels.
const TONE_SHARE: f64 = 0.95;
const TONE_CHANNELS: usize = 8;
/// Quieter frames, in dB below the loudest one, are no beep.
const LOUD_DB: f64 = 40.0;
/// Channels this many dB below the loudest of their frame are not compared.
const CARRIED_DB: f64 = 15.0;
/// The level of a channel that holds still, in dB to either side.
const STILL_DB: f64 = 1.0;

/// dB of a natural logarithm of an amplitude.
const DB: f64 = 20.0 / std::f64::consts::LN_10;

/// `mel` is frame after frame, natural logarithms of amplitudes, not empty.
pub fn measure_quality(mel: &[f32], channels: usize, seconds_per_frame: f64) -> Quality {
    let frames: Vec<&[f32]> = mel.chunks_exact(channels).collect();
    let mut powers = vec![0.0; channels];
    let spectra = frames.iter().map(|frame| Spectrum::of(frame, &mut powers));
    let spectra: Vec<Spectrum> = spectra.collect();
    let levels: Vec<f64> = spectra.iter().map(|spectrum| spectrum.level_db).collect();
    let mut sorted = levels.clone();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().saturating_sub(1) as f64;
    let at = |share: f64| sorted.get((share * last).round() as usize).copied();
    let range = at(0.95).unwrap_or(0.0) - at(0.05).unwrap_or(0.0);
    let loudest = sorted.last().copied().unwrap_or(0.0);
    let tonal: Vec<bool> = spectra
        .iter()
        .map(|spectrum| spectrum.level_db > loudest - LOUD_DB && spectrum.is_tonal)
        .collect();
    let still = (0..frames.len()).map(|start| {
        let run = (start..frames.len())
            .take_while(|&frame| tonal[frame] && holds_still(frames[start], frames[frame]));
        run.count()
    });
    let still = still.max().unwrap_or(0) as f64 * seconds_per_frame;
    // As a list has it, so that a limit finds the same clips there.
    let rounded = |value: f64, parts: f64| ((value * parts).round() / parts) as f32;
    Quality {
        snr_db: rounded(range, 10.0),
        still_seconds: rounded(still, 1000.0),
    }
}

/// What one frame says. All clips pass through here: exponentials and orders are computed once, and no more of them
/// than is asked for.
struct Spectrum {
    level_db: f64,
    is_tonal: bool,
}

impl Spectrum {
    /// `powers` is scratch, one for each channel.
    fn of(frame: &[f32], powers: &mut [f32]) -> Spectrum {
        for (power, amplitude) in powers.iter_mut().zip(frame) {
            *power = (2.0 * amplitude).exp();
        }
        let sum = |powers: &[f32]| powers.iter().map(|&power| f64::from(power)).sum::<f64>();
        let all = sum(powers);
        let most = match powers.len() > TONE_CHANNELS {
            true => {
                powers.select_nth_unstable_by(TONE_CHANNELS - 1, |a, b| b.total_cmp(a));
                sum(&powers[..TONE_CHANNELS])
            }
            false => all,
        };
        Spectrum {
            level_db: 10.0 * all.log10(),
            is_tonal: most >= TONE_SHARE * all,
        }
    }
}

fn holds_still(first: &[f32], now: &[f32]) -> bool {
    let loudest = first.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let carried = |value: f32| f64::from(loudest - value) * DB < CARRIED_DB;
    let pairs = first.iter().zip(now).filter(|(first, _)| carried(**first));
    let mut distances = pairs.map(|(first, now)| f64::from((first - now).abs()) * DB);
    distances.all(|distance| distance < STILL_DB)
}

#[cfg(test)]
mod tests {
    use super::super::formats::fixture;
    use super::*;
    use crate::{AudioSettings, Featurizer, LogMel};

    fn quality(samples: &[f32]) -> Quality {
        let settings = AudioSettings::default();
        let mut mel = Vec::new();
        LogMel::new(&settings).unwrap().log_mel(samples, &mut mel);
        measure_quality(&mel, settings.n_mels, 256.0 / 22_050.0)
    }

    /// Even numbers in -1..1 that look like noise.
    fn noise(n: usize) -> f32 {
        let mut x = n as u64 ^ 0x9e37_79b9_7f4a_7c15;
        for _ in 0..3 {
            x = (x ^ (x >> 31)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        }
        (x >> 40) as f32 / (1 << 23) as f32 - 1.0
    }

    fn tone(hz: f32, samples: std::ops::Range<usize>) -> impl Iterator<Item = f32> {
        samples.map(move |n| 0.3 * (std::f32::consts::TAU * hz * n as f32 / 22_050.0).sin())
    }

    #[test]
    fn a_tone_holds_still_also_within_silence_and_noise() {
        for hz in [350.0, 440.0, 1000.0, 3000.0] {
            let beep: Vec<f32> = tone(hz, 0..11_025).collect();
            let found = quality(&beep);
            assert!(
                found.still_seconds > 0.4 && found.snr_db < 6.0,
                "{hz}: {found:?}"
            );
            let mut among: Vec<f32> = (0..44_100).map(|n| 0.001 * noise(n)).collect();
            for (sample, beep) in among[20_000..].iter_mut().zip(tone(hz, 0..6_615)) {
                *sample += beep;
            }
            let found = quality(&among);
            assert!(found.still_seconds > 0.2, "{hz}: {found:?}");
            assert!(found.snr_db > 30.0, "{hz}: {found:?}");
        }
        // Two tones at once, as a telephone's keys and bells have them.
        let two: Vec<f32> = tone(697.0, 0..11_025)
            .zip(tone(1209.0, 0..11_025))
            .map(|(a, b)| a + b)
            .collect();
        assert!(quality(&two).still_seconds > 0.4);
    }

    #[test]
    fn noise_has_no_range_and_no_tone() {
        let hiss: Vec<f32> = (0..44_100).map(|n| 0.1 * noise(n)).collect();
        let found = quality(&hiss);
        assert!(found.snr_db < 6.0 && found.still_seconds < 0.1, "{found:?}");
    }

    #[test]
    fn speech_has_range_and_never_holds_still() {
        let settings = AudioSettings::default();
        let mut featurizer = Featurizer::new(&settings).unwrap();
        let path = fixture("../mel/voice.wav");
        let speech = featurizer.featurize(&path).unwrap();
        let found = measure_quality(&speech.mel, settings.n_mels, 256.0 / 22_050.0);
        assert!(
            found.snr_db > 10.0 && found.still_seconds < 0.1,
            "{found:?}"
        );
    }

    #[test]
    fn louder_noise_leaves_less_of_the_range() {
        let settings = AudioSettings::default();
        let path = fixture("../mel/voice.wav");
        let speech = Featurizer::new(&settings).unwrap().waveform(&path).unwrap();
        let with = |level: f32| {
            let noisy = speech
                .iter()
                .enumerate()
                .map(|(n, sample)| sample + level * noise(n));
            quality(&noisy.collect::<Vec<_>>()).snr_db
        };
        assert!(
            with(0.0) > with(0.1) && with(0.1) > with(0.5),
            "{} {}",
            with(0.1),
            with(0.5)
        );
    }
}
