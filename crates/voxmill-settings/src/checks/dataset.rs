//! What of the dataset is left out, and what is held out.

use super::{Check, Facts, Level, Longest, all_of, count, percent};
use crate::config::keys;

/// From this share on, clips left out are worth a warning.
const MANY: f64 = 0.01;

all_of!(
    too_long,
    text_too_long,
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

fn too_long(facts: &Facts<'_>) -> Option<Check> {
    let data = facts.data.as_ref()?;
    let n = data.filtered.audio_too_long;
    if n == 0 {
        return None;
    }
    let limit = facts.settings.data.max_mel_frames;
    let audio = &facts.settings.data.audio;
    let seconds =
        |frames: u32| f64::from(frames) * audio.hop_length as f64 / f64::from(audio.sample_rate);
    let (left_out, at) = (share(n, data.rows), seconds(limit));
    let what = format!("{left_out}: longer than {limit} frames ({at:.1} s)");
    let check = facts.about(level(n, data.rows), &keys::MAX_MEL_FRAMES, what);
    let Some(Longest { frames, .. }) = data.longest else {
        return Some(check);
    };
    let costs = format!("the longest has {frames} frames ({:.1} s)", seconds(frames));
    Some(check.costs(costs).suggest(&keys::MAX_MEL_FRAMES, frames))
}

fn text_too_long(facts: &Facts<'_>) -> Option<Check> {
    let data = facts.data.as_ref()?;
    let n = data.filtered.text_too_long;
    if n == 0 {
        return None;
    }
    let (limit, left_out) = (facts.settings.data.max_text_length, share(n, data.rows));
    let what = format!("{left_out}: text of more than {limit} characters");
    let check = facts.about(level(n, data.rows), &keys::MAX_TEXT_LENGTH, what);
    let Some(Longest { characters, .. }) = data.longest else {
        return Some(check);
    };
    let costs = format!("the longest text has {characters} characters");
    let check = check.costs(costs);
    Some(check.suggest(&keys::MAX_TEXT_LENGTH, characters))
}

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
    Some(check.suggest(&keys::VAL_FRACTION, format!("{:.0}%", 100.0 * needed)))
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
    use super::super::tests::{Machine, finding, found};
    use super::*;

    #[test]
    fn a_dataset_without_faults_has_no_findings() {
        assert!(check(&Machine::with("", 2).facts()).is_empty());
    }

    #[test]
    fn clips_left_out_are_counted_and_the_limit_that_takes_them_is_suggested() {
        let mut machine = Machine::with("--max-mel-frames 700", 2);
        machine.filtered.audio_too_long = 20;
        machine.longest = Some(Longest {
            frames: 861,
            characters: 0,
        });
        let check = found(&machine.facts(), &keys::MAX_MEL_FRAMES).unwrap();
        assert_eq!(check.level, Level::Warning);
        let what = check.what;
        assert!(
            what.starts_with("20 clips of 100 are left out, 20 %"),
            "{what}"
        );
        assert_eq!(check.suggestions[0].flag().unwrap(), "--max-mel-frames 861");
        machine.filtered.text_too_long = 1;
        let text = found(&machine.facts(), &keys::MAX_TEXT_LENGTH).unwrap();
        assert_eq!(text.level, Level::Note, "one of a hundred");
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
