//! Clips that a person should listen to: listed, and dropped only where that is asked for.
//!
//! The surest sign that a text belongs to another audio file is its pace. Tokens per second vary
//! little within a speaker and a language (tokens are phones in one and characters in another), so a clip
//! far from the median of both, measured in their own spread, is odd. Median and median absolute deviation are used because the odd clips are in the
//! data too, and would pull a mean towards themselves; logarithms, so that half and double the
//! pace are equally far.

use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::path::Path;

use voxmill_audio::AudioSettings;
use voxmill_text::language::Language;

use super::audio_settings_mark;
use super::table::{TableError, read_table, write_table};
use crate::features::{Levels, Quality};

/// Fewer clips give no norm: such speakers are compared with the norm of all clips of the language.
const MIN_CLIPS_FOR_NORM: usize = 8;
/// Both must be passed: many deviations (or a lively speaker's list would be long) and a plain
/// factor (or a machine-even speaker's would).
const MAX_DEVIATIONS: f64 = 6.0;
const MAX_PACE_FACTOR: f64 = 1.8;
/// Nobody's liveliness goes further than this. Prompts of one word to many have deviations so large that six of them
/// reach from 1.5 to 76 tokens a second; of 568 such prompts, whole sentences and single letters, those beyond a
/// factor of 3 were eleven, none of which was what its text says.
const MAX_FACTOR_OF_ANYBODY: f64 = 3.0;
/// The deviation of a normal distribution in median absolute deviations.
const DEVIATION_PER_MAD: f64 = 1.4826;

const MAX_CLIPPED_SHARE: f32 = 0.001;
const MIN_RMS_DBFS: f32 = -50.0;
const MIN_PEAK: f32 = 0.01;
/// Speech holds still for less than 0.1 s: 0.06 s at most in 32 clips of LJ Speech, 0.05 s in 50 of espeak-ng.
const MAX_STILL_SECONDS: f32 = 0.15;
/// Speech ranges over more: 29 dB at least in 32 clips of LJ Speech. Tones, noise and silence stay below 4.
const MIN_RANGE_DB: f32 = 6.0;

const HEADER: [&str; 7] = [
    "clip",
    "speaker",
    "suspicion",
    "value",
    "usual",
    "unit",
    "audio_settings",
];

/// What is known of a clip once its features are computed.
#[derive(Clone, Copy, Debug)]
pub struct MeasuredClip<'a> {
    pub clip: &'a str,
    pub speaker: &'a str,
    pub language: Language,
    /// Phones (characters where the front-end has none), pauses and word boundaries.
    pub tokens: usize,
    pub seconds: f64,
    pub levels: Levels,
    pub quality: Quality,
    /// Kinds of characters in its text that are not read.
    pub unread: usize,
}

/// What is odd about a clip.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Suspicion {
    /// More text than the audio has room for.
    TooFast,
    /// Less text than the audio has room for.
    TooSlow,
    Clipped,
    NearlySilent,
    /// A tone that holds still.
    Beep,
    /// A tone, noise or silence from end to end.
    NoSpeech,
    /// Below the limit that was given.
    Noisy,
    /// Something in the text is heard in the audio, or not, but never given to the model.
    Unread,
}

impl fmt::Display for Suspicion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Suspicion::TooFast => "text too long for audio",
            Suspicion::TooSlow => "text too short for audio",
            Suspicion::Clipped => "clipped",
            Suspicion::NearlySilent => "nearly silent",
            Suspicion::Beep => "beep",
            Suspicion::NoSpeech => "no speech",
            Suspicion::Noisy => "noisy",
            Suspicion::Unread => "text not read in full",
        })
    }
}

/// A clip that a person should listen to, with the measure that says so.
#[derive(Clone, Debug, PartialEq)]
pub struct Suspicious {
    pub clip: String,
    pub speaker: String,
    pub suspicion: Suspicion,
    pub value: f64,
    /// The speaker's median pace, or the limit of the level.
    pub usual: f64,
    /// Of both numbers.
    pub unit: &'static str,
}

/// In the order of `clips`; a clip may be suspicious for several reasons. `min_snr` is in dB.
pub fn find_suspicious(clips: &[MeasuredClip<'_>], min_snr: Option<f64>) -> Vec<Suspicious> {
    let of_speakers = usual_paces(clips, |clip| (clip.speaker, clip.language));
    let of_languages = usual_paces(clips, |clip| clip.language);

    let mut found = Vec::new();
    for clip in clips {
        let mut add = |suspicion, value, usual, unit| {
            found.push(Suspicious {
                clip: clip.clip.to_owned(),
                speaker: clip.speaker.to_owned(),
                suspicion,
                value,
                usual,
                unit,
            });
        };
        let of_speaker = of_speakers.get(&(clip.speaker, clip.language));
        let norm = of_speaker.or_else(|| of_languages.get(&clip.language));
        let pace = log_pace(clip);
        if let Some(norm) = norm
            && norm.is_far(pace)
        {
            let suspicion = match pace > norm.median {
                true => Suspicion::TooFast,
                false => Suspicion::TooSlow,
            };
            add(suspicion, pace.exp(), norm.median.exp(), "tokens/s");
        }
        let levels = clip.levels;
        if levels.clipped_share > MAX_CLIPPED_SHARE {
            let shares = [levels.clipped_share, MAX_CLIPPED_SHARE];
            let [value, usual] = shares.map(|share| f64::from(share) * 100.0);
            add(
                Suspicion::Clipped,
                value,
                usual,
                "% of samples at full scale",
            );
        }
        let silent = if levels.rms_dbfs < MIN_RMS_DBFS {
            Some(([levels.rms_dbfs, MIN_RMS_DBFS], "dBFS rms"))
        } else {
            (levels.peak < MIN_PEAK).then_some(([levels.peak, MIN_PEAK], "peak"))
        };
        if let Some((levels, unit)) = silent {
            let [value, usual] = levels.map(f64::from);
            add(Suspicion::NearlySilent, value, usual, unit);
        }
        let Quality {
            snr_db,
            still_seconds,
        } = clip.quality;
        if still_seconds > MAX_STILL_SECONDS {
            let [value, usual] = [still_seconds, MAX_STILL_SECONDS].map(f64::from);
            add(Suspicion::Beep, value, usual, "s without change");
        }
        let range = f64::from(snr_db);
        // Silence has a name of its own.
        if snr_db < MIN_RANGE_DB && silent.is_none() {
            let usual = f64::from(MIN_RANGE_DB);
            add(Suspicion::NoSpeech, range, usual, "dB from quiet to loud");
        } else if let Some(min) = min_snr.filter(|min| range < *min) {
            add(Suspicion::Noisy, range, min, "dB from quiet to loud");
        }
        if clip.unread > 0 {
            let unread = clip.unread as f64;
            add(Suspicion::Unread, unread, 0.0, "kinds of characters");
        }
    }
    found
}

/// Writes the list of what was found at these audio settings; an empty one makes no new file.
pub fn write_suspicious(
    path: &Path,
    audio: &AudioSettings,
    list: &[Suspicious],
) -> Result<(), TableError> {
    let mark = audio_settings_mark(audio);
    let rows = list.iter().map(|item| {
        [
            item.clip.clone(),
            item.speaker.clone(),
            item.suspicion.to_string(),
            format!("{:.3}", item.value),
            format!("{:.3}", item.usual),
            item.unit.to_owned(),
            mark.clone(),
        ]
    });
    write_table(path, HEADER, rows)
}

/// The clips that a list has. `None`: they were found at other audio settings, or by an older program, which does
/// not say.
pub fn read_suspicious_ids(
    path: &Path,
    audio: &AudioSettings,
) -> Result<Option<Vec<String>>, TableError> {
    let wanted = audio_settings_mark(audio);
    let rows = match read_table(path, HEADER) {
        Err(TableError::OtherColumns { .. }) => return Ok(None),
        rows => rows?.into_iter(),
    };
    let ids = rows.map(|(_, [clip, .., settings])| (settings == wanted).then_some(clip));
    Ok(ids.collect())
}

/// Infinite for a clip without tokens or without length.
fn log_pace(clip: &MeasuredClip<'_>) -> f64 {
    (clip.tokens as f64).ln() - clip.seconds.max(0.0).ln()
}

/// Of each group that has enough clips.
fn usual_paces<'a, K: Eq + Hash>(
    clips: &[MeasuredClip<'a>],
    group: impl Fn(&MeasuredClip<'a>) -> K,
) -> HashMap<K, UsualPace> {
    let mut paces: HashMap<K, Vec<f64>> = HashMap::new();
    for clip in clips {
        let pace = log_pace(clip);
        if pace.is_finite() {
            paces.entry(group(clip)).or_default().push(pace);
        }
    }
    let usual = paces.into_iter();
    usual
        .filter_map(|(group, mut paces)| Some((group, UsualPace::of(&mut paces)?)))
        .collect()
}

struct UsualPace {
    median: f64,
    deviation: f64,
}

impl UsualPace {
    fn of(paces: &mut [f64]) -> Option<UsualPace> {
        if paces.len() < MIN_CLIPS_FOR_NORM {
            return None;
        }
        let median = median(paces);
        let mut distances: Vec<f64> = paces.iter().map(|pace| (pace - median).abs()).collect();
        Some(UsualPace {
            median,
            deviation: DEVIATION_PER_MAD * self::median(&mut distances),
        })
    }

    fn is_far(&self, pace: f64) -> bool {
        let distance = (pace - self.median).abs();
        let allowed = (MAX_DEVIATIONS * self.deviation).min(MAX_FACTOR_OF_ANYBODY.ln());
        distance > allowed.max(MAX_PACE_FACTOR.ln())
    }
}

/// The upper one of the two middle values of an even number. `values` is not empty.
fn median(values: &mut [f64]) -> f64 {
    let middle = values.len() / 2;
    *values.select_nth_unstable_by(middle, f64::total_cmp).1
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const FINE: Levels = Levels {
        peak: 0.7,
        rms_dbfs: -22.0,
        clipped_share: 0.0,
    };

    const SPEECH: Quality = Quality {
        snr_db: 45.0,
        still_seconds: 0.05,
    };

    fn measured<'a>(
        clip: &'a str,
        speaker: &'a str,
        tokens: usize,
        seconds: f64,
    ) -> MeasuredClip<'a> {
        MeasuredClip {
            clip,
            speaker,
            language: Language::English,
            tokens,
            seconds,
            levels: FINE,
            quality: SPEECH,
            unread: 0,
        }
    }

    /// 20 clips around 12 tokens a second, within a tenth.
    fn usual(speaker: &str) -> Vec<MeasuredClip<'_>> {
        let clips = (0..20).map(|n| measured("usual", speaker, 110 + n, 9.5));
        clips.collect()
    }

    #[test]
    fn a_text_that_does_not_fit_its_audio_is_listed_with_the_usual_pace() {
        let mut clips = usual("ann");
        clips.push(measured("swapped", "ann", 120, 2.0));
        clips.push(measured("cut", "ann", 20, 9.0));
        clips.push(measured("no text", "ann", 0, 9.0));
        clips.push(measured("no audio", "ann", 20, 0.0));
        clips.push(measured("hurried", "ann", 120, 6.5));
        let found = find_suspicious(&clips, None);
        let pairs = found
            .iter()
            .map(|item| (item.clip.as_str(), item.suspicion));
        let expected = [
            ("swapped", Suspicion::TooFast),
            ("cut", Suspicion::TooSlow),
            ("no text", Suspicion::TooSlow),
            ("no audio", Suspicion::TooFast),
        ];
        assert_eq!(Vec::from_iter(pairs), expected);
        assert!((found[0].value - 60.0).abs() < 1e-9);
        assert!((11.0..14.0).contains(&found[0].usual));
    }

    #[test]
    fn each_speaker_has_a_norm_and_rare_speakers_take_the_common_one() {
        let mut clips = usual("ann");
        // A slow speaker is no suspect when they are always slow.
        clips.extend((0..12).map(|n| measured("slow", "bob", 40 + n, 9.5)));
        assert_eq!(find_suspicious(&clips, None), []);
        clips.push(measured("rare", "eve", 100, 0.1));
        let found = find_suspicious(&clips, None);
        assert_eq!((found.len(), found[0].clip.as_str()), (1, "rare"));
        // Nothing is known from seven clips.
        let few = (1..=7).map(|n| measured("few", "ann", n * n * n, 1.0));
        assert_eq!(find_suspicious(&Vec::from_iter(few), None), []);
    }

    #[test]
    fn each_language_has_a_pace_and_liveliness_has_an_end() {
        // Tokens of another language may be fewer: three a second are no suspects among its own.
        let mut clips = usual("ann");
        clips.extend((0..12).map(|n| MeasuredClip {
            language: Language::Persian,
            ..measured("other", "ann", 30 + n % 2, 9.5)
        }));
        assert_eq!(find_suspicious(&clips, None), []);
        clips.push(measured("slow", "ann", 30, 9.5));
        assert_eq!(find_suspicious(&clips, None)[0].clip, "slow");
        // From 5 to 20 tokens a second: six deviations reach beyond what anybody says.
        let lively = (0..40).map(|n| measured("lively", "bob", 50 + 4 * n, 10.0));
        let mut clips = Vec::from_iter(lively);
        assert_eq!(find_suspicious(&clips, None), []);
        clips.push(measured("silence", "bob", 25, 10.0));
        assert_eq!(
            find_suspicious(&clips, None)[0].suspicion,
            Suspicion::TooSlow
        );
    }

    #[test]
    fn beeps_noise_and_what_is_below_the_limit_are_listed() {
        let mut clips = usual("ann");
        clips[3].quality.still_seconds = 0.3;
        clips[4].quality.snr_db = 3.0;
        clips[5].quality.snr_db = 18.0;
        clips[6].quality.snr_db = 2.0;
        clips[6].levels.rms_dbfs = -90.0;
        let kinds = |min_snr| {
            let found = find_suspicious(&clips, min_snr).into_iter();
            Vec::from_iter(found.map(|item| item.suspicion))
        };
        let always = [
            Suspicion::Beep,
            Suspicion::NoSpeech,
            Suspicion::NearlySilent,
        ];
        assert_eq!(kinds(None), always);
        let with_limit = [
            Suspicion::Beep,
            Suspicion::NoSpeech,
            Suspicion::Noisy,
            Suspicion::NearlySilent,
            Suspicion::Noisy,
        ];
        assert_eq!(kinds(Some(20.0)), with_limit);
    }

    #[test]
    fn clipped_and_silent_clips_are_listed() {
        let mut clips = usual("ann");
        clips[3].levels.clipped_share = 0.02;
        clips[4].levels.rms_dbfs = f32::NEG_INFINITY;
        clips[5].levels.peak = 0.005;
        let found = find_suspicious(&clips, None);
        let pairs = found.iter().map(|item| (item.suspicion, item.unit));
        let expected = [
            (Suspicion::Clipped, "% of samples at full scale"),
            (Suspicion::NearlySilent, "dBFS rms"),
            (Suspicion::NearlySilent, "peak"),
        ];
        assert_eq!(Vec::from_iter(pairs), expected);

        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("suspicious.csv");
        let audio = AudioSettings::default();
        write_suspicious(&path, &audio, &found).unwrap();
        let read = |audio: &AudioSettings| read_suspicious_ids(&path, audio).unwrap();
        assert_eq!(read(&audio).unwrap(), ["usual"; 3]);
        let other = AudioSettings {
            hop_length: 128,
            ..audio.clone()
        };
        assert_eq!(read(&other), None);
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains("usual,ann,clipped,2.000,0.100,% of samples at full scale,"));
        assert!(text.contains("usual,ann,nearly silent,-inf,-50.000,dBFS rms,"));
        fs::write(&path, "clip,speaker,suspicion,value,usual,unit\n").unwrap();
        assert_eq!(read_suspicious_ids(&path, &audio).unwrap(), None);
    }
}
