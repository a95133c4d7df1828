//! What of the dataset is left out, and what is held out.

use voxmill_data::manifest::usual_rate;
use voxmill_format::whole_percent;

use super::{Check, ClipLengths, Facts, Level, all_of, count, percent, thousands};
use crate::config::keys::{self, Key};

/// From this share on, clips left out are worth a warning.
const MANY: f64 = 0.01;

all_of!(
    too_long,
    text_too_long,
    below_the_rate,
    bad,
    nothing_held_out,
    most_held_out
);

fn level(left_out: usize, rows: usize) -> Level {
    match left_out as f64 > MANY * rows as f64 {
        true => Level::Warning,
        false => Level::Note,
    }
}

fn share(left_out: usize, rows: usize) -> String {
    let percent = percent(left_out as f64 / rows.max(1) as f64);
    let verb = if left_out == 1 { "is" } else { "are" };
    let clips = count(left_out as u64, "clip");
    format!("{clips} of {rows} {verb} left out, {percent}")
}

/// No more than a note, and no line for the file: how much of the data a voice is trained on, and in how much memory,
/// is for a person to say.
fn other_limit(check: Check, key: &Key, limit: u32, usual: u32) -> Check {
    match usual > limit {
        true => check.hint(format!("`{}: {usual}` would keep 99 %", key.name)),
        false => check,
    }
}

fn too_long(facts: &Facts<'_>) -> Option<Check> {
    let data = facts.data.as_ref()?;
    let n = data.filtered.audio_too_long;
    if n == 0 {
        return None;
    }
    let (key, limit) = (&keys::MAX_MEL_FRAMES, facts.settings.data.max_mel_frames);
    let audio = &facts.settings.data.audio;
    let seconds =
        |frames: u32| f64::from(frames) * audio.hop_length as f64 / f64::from(audio.sample_rate);
    let (left_out, at) = (share(n, data.rows), seconds(limit));
    let what = format!("{left_out}: longer than {limit} frames ({at:.1} s)");
    let check = facts.note(key, what);
    let Some(ClipLengths { longest, usual }) = data.lengths else {
        return Some(check);
    };
    let [longest, usual] = [longest, usual].map(|length| length.frames);
    let costs = format!(
        "99 % of the clips have at most {usual} frames ({:.1} s), the longest has {longest} ({:.1} s)",
        seconds(usual),
        seconds(longest)
    );
    Some(other_limit(check.costs(costs), key, limit, usual))
}

fn text_too_long(facts: &Facts<'_>) -> Option<Check> {
    let data = facts.data.as_ref()?;
    let n = data.filtered.text_too_long;
    if n == 0 {
        return None;
    }
    let (key, limit) = (&keys::MAX_TEXT_LENGTH, facts.settings.data.max_text_length);
    let left_out = share(n, data.rows);
    let what = format!("{left_out}: text of more than {limit} characters");
    let check = facts.note(key, what);
    let Some(ClipLengths { longest, usual }) = data.lengths else {
        return Some(check);
    };
    let [longest, usual] = [longest, usual].map(|length| length.characters);
    let costs =
        format!("99 % of the texts have at most {usual} characters, the longest has {longest}");
    Some(other_limit(check.costs(costs), key, limit, usual))
}

/// Recordings of a lower rate have nothing above half of it: the model would learn to say nothing there.
fn below_the_rate(facts: &Facts<'_>) -> Option<Check> {
    let data = facts.data.as_ref()?;
    let audio = &facts.settings.data.audio;
    let rate = audio.sample_rate;
    let below = data
        .sources
        .iter()
        .filter(|source| source.sample_rate < rate);
    let below: usize = below.map(|source| source.clips).sum();
    let all: usize = data.sources.iter().map(|source| source.clips).sum();
    if 2 * below <= all {
        return None;
    }
    let usual = usual_rate(&data.sources)?;
    let hertz = |rate: u32| format!("{} Hz", thousands(rate));
    let what = format!(
        "{below} of {all} clips were recorded at less than {}, most of them at {} or less",
        hertz(rate),
        hertz(usual)
    );
    let (top, f_max) = (usual / 2, audio.f_max.round() as u32);
    if top >= f_max {
        // The mel filters see all that there is.
        return None;
    }
    let (top, f_max) = (hertz(top), hertz(f_max));
    let costs =
        format!("the spectrum from {top} to {f_max} is empty in them, and will be in the voice");
    let check = facts.warning(&keys::SAMPLE_RATE, what).costs(costs);
    let better = audio.at_rate(usual.max(LEAST_RATE));
    let Some(better) = better.filter(|better| better.sample_rate < rate) else {
        return Some(check);
    };
    let suggest = |check: Check, (key, new, old): (&'static Key, f64, f64)| match new == old {
        true => check,
        false => check.suggest(key, new),
    };
    let changes = [
        (
            &keys::SAMPLE_RATE,
            f64::from(better.sample_rate),
            f64::from(rate),
        ),
        (&keys::N_FFT, better.n_fft as f64, audio.n_fft as f64),
        (
            &keys::HOP_LENGTH,
            better.hop_length as f64,
            audio.hop_length as f64,
        ),
        (&keys::N_MELS, better.n_mels as f64, audio.n_mels as f64),
        (
            &keys::F_MAX,
            f64::from(better.f_max),
            f64::from(audio.f_max),
        ),
    ];
    Some(changes.into_iter().fold(check, suggest))
}

/// The lowest that the setting takes.
const LEAST_RATE: u32 = 8_000;

/// More than `max_bad` of them are refused when the manifest is read.
fn bad(facts: &Facts<'_>) -> Option<Check> {
    let data = facts.data.as_ref()?;
    let n = data.bad;
    if n == 0 {
        return None;
    }
    let left_out = share(n, data.rows);
    let what = format!("{left_out}: no such audio, not decodable, no text and the like");
    let check = facts.about(level(n, data.rows), &keys::TRAIN_DATA, what);
    Some(check.hint("`voxmill prepare` on the same folder lists them with row and reason"))
}

fn nothing_held_out(facts: &Facts<'_>) -> Option<Check> {
    let data = facts.data.as_ref()?;
    let evaluation = facts.settings.evaluation.as_ref()?;
    if data.held_out > 0 {
        return None;
    }
    let (level, what) = match evaluation.patience.is_some() {
        true => (
            Level::Error,
            "no clip is held out, so the run cannot stop when nothing gets better",
        ),
        false => (
            Level::Note,
            "no clip is held out: nothing is evaluated, and the last weights are the best",
        ),
    };
    let check = facts.about(level, &keys::VAL_FRACTION, what);
    // So that one clip is, at the least.
    let needed = (1.5 / data.rows.max(1) as f64).clamp(0.05, 0.5);
    Some(check.suggest(&keys::VAL_FRACTION, whole_percent(needed).replace(' ', "")))
}

/// One clip always stays for training, whatever the fraction.
fn most_held_out(facts: &Facts<'_>) -> Option<Check> {
    let data = facts.data.as_ref()?;
    let left = data.plan.clips().len();
    if data.held_out <= left || !facts.given(&keys::VAL_FRACTION) {
        return None;
    }
    let (held_out, all) = (data.held_out, data.held_out + left);
    let left = count(left as u64, "clip");
    let what = format!("{held_out} of {all} clips are held out: {left} to train on");
    let check = facts.warning(&keys::VAL_FRACTION, what);
    let check = check.costs("the voice learns from the clips that are left, and from no others");
    Some(check.suggest(&keys::VAL_FRACTION, "5%"))
}

#[cfg(test)]
mod tests {
    use voxmill_data::manifest::SourceFormat;

    use super::super::tests::{Machine, finding, found};
    use super::super::{Length, Suggestion};
    use super::*;

    #[test]
    fn a_dataset_without_faults_has_no_findings() {
        assert!(check(&Machine::with("", 2).facts()).is_empty());
    }

    fn lengths(usual: u32, longest: u32) -> Option<ClipLengths> {
        let [usual, longest] = [usual, longest].map(|frames| Length {
            frames,
            characters: frames / 2,
        });
        Some(ClipLengths { longest, usual })
    }

    #[test]
    fn what_a_limit_leaves_out_is_a_note_that_names_another_limit() {
        for given in ["", "--max-mel-frames 800 --max-text-length 300"] {
            let mut machine = Machine::with(given, 2);
            machine.filtered.audio_too_long = 20;
            machine.filtered.text_too_long = 1;
            machine.lengths = lengths(1861, 6318);
            for (key, left_out, hint) in [
                (
                    &keys::MAX_MEL_FRAMES,
                    "20 clips of 100 are left out, 20 %",
                    1861,
                ),
                (&keys::MAX_TEXT_LENGTH, "1 clip of 100 is left out", 930),
            ] {
                let check = found(&machine.facts(), key).unwrap();
                assert_eq!(check.level, Level::Note);
                assert!(check.suggestions.is_empty(), "nobody else sets limits");
                assert!(check.what.starts_with(left_out), "{}", check.what);
                let hint = format!("`{}: {hint}` would keep 99 %", key.name);
                assert_eq!(check.hint.unwrap(), hint);
            }
            // Where the limit holds for 99 % already, none is named: one long clip moves nothing.
            machine.lengths = lengths(290, 6318);
            let check = found(&machine.facts(), &keys::MAX_MEL_FRAMES).unwrap();
            assert!(check.hint.is_none());
        }
    }

    #[test]
    fn recordings_below_the_rate_get_the_better_one() {
        let source = |sample_rate, clips| SourceFormat {
            sample_rate,
            channels: 1,
            codec: "wav".to_owned(),
            clips,
            seconds: 9.0,
        };
        let mut machine = Machine::with("", 2);
        machine.sources = vec![source(8_000, 60), source(22_050, 40)];
        let check = found(&machine.facts(), &keys::SAMPLE_RATE).unwrap();
        assert_eq!(check.level, Level::Warning);
        let flags = check.suggestions.iter().filter_map(Suggestion::flag);
        let flags = flags.collect::<Vec<_>>().join(" ");
        assert_eq!(
            flags,
            "--sample-rate 8000 --n-fft 256 --hop-length 64 --f-max 4000"
        );
        // As they stand, and without a further word on the rate.
        let mut at_once = Machine::with(&flags, 2);
        at_once.sources = machine.sources.clone();
        assert!(found(&at_once.facts(), &keys::SAMPLE_RATE).is_none());
        assert!(check.costs.unwrap().contains("from 4,000 Hz to 8,000 Hz"));
        // The filters end at 8,000 Hz: nothing is missing of what was recorded at 16,000.
        let whole = vec![source(16_000, 60), source(22_050, 40)];
        for enough in [vec![source(8_000, 40), source(44_100, 60)], vec![], whole] {
            machine.sources = enough;
            assert!(found(&machine.facts(), &keys::SAMPLE_RATE).is_none());
        }
    }

    #[test]
    fn bad_clips_come_with_the_command_that_lists_them() {
        let mut machine = Machine::with("", 2);
        machine.bad = 3;
        let check = found(&machine.facts(), &keys::TRAIN_DATA).unwrap();
        assert!(check.hint.unwrap().contains("voxmill prepare"));
    }

    #[test]
    fn a_fraction_that_leaves_little_to_train_on_is_a_warning() {
        let clips = Machine::with("", 2)
            .facts()
            .data
            .unwrap()
            .plan
            .clips()
            .len();
        for (flags, held_out, warned) in [
            ("--val-fraction 1", clips + 1, true),
            ("--val-fraction 0.5", clips, false),
            ("--val-data elsewhere", clips + 1, false),
        ] {
            let mut machine = Machine::with(flags, 2);
            machine.held_out = held_out;
            let check = found(&machine.facts(), &keys::VAL_FRACTION);
            assert_eq!(check.is_some(), warned, "{flags}");
            assert!(check.is_none_or(|check| check.level == Level::Warning));
        }
    }

    #[test]
    fn patience_needs_clips_that_are_held_out() {
        assert!(finding("--early-stopping-patience 3", &keys::VAL_FRACTION).is_none());
        for (flags, level) in [
            ("--early-stopping-patience 3", Level::Error),
            ("", Level::Note),
        ] {
            let mut machine = Machine::with(flags, 2);
            machine.held_out = 0;
            let check = found(&machine.facts(), &keys::VAL_FRACTION).unwrap();
            assert_eq!(check.level, level, "{flags}");
        }
    }
}
