//! How many batches an epoch has, and how much of them is padding.

use std::num::NonZero;

use voxmill_data::batch_plan::{BatchPlan, BatchSettings, Padded};

use super::{Check, Facts, Level, all_of, count, percent};
use crate::config::keys;

/// With fewer batches an epoch, steps are few and large.
const LEAST_BATCHES: u64 = 8;
/// More padding than this is worth trying more shapes.
const MUCH_PADDING: f64 = 0.15;
/// More shapes must save at least this much.
const WORTH_IT: f64 = 0.03;
/// As many as the setting takes.
const MOST_SHAPES: NonZero<u8> = NonZero::<u8>::MIN.saturating_add(63);

all_of!(few_batches, padding);

/// The share of all frames that is padding, in every epoch: who is in which batch makes no difference
/// to it, so no epoch has to be drawn.
pub fn waste(plan: &BatchPlan) -> f64 {
    let valid = plan.clips().iter().map(|clip| u64::from(clip.frames));
    let padded = plan.buckets().iter().map(|bucket| {
        bucket.batches() * u64::from(bucket.shape.rows) * u64::from(bucket.shape.frames)
    });
    let (valid, padded) = (valid.sum(), padded.sum());
    Padded { valid, padded }.waste()
}

fn few_batches(facts: &Facts<'_>) -> Option<Check> {
    let data = facts.data.as_ref()?;
    let batches = data.plan.batches_per_epoch();
    let size = data.plan.settings().batch_size.get();
    if batches >= LEAST_BATCHES {
        return None;
    }
    let enough = enough_batches(data.plan, size, batches);
    let (better, more) = enough.filter(|(_, more)| *more > batches)?;
    let (of, steps) = (count(batches, "batch"), count(batches, "step"));
    let what =
        format!("an epoch has only {of} of {size} clips: the model learns in few large steps");
    let costs = format!("{steps} an epoch; batches of {better} give {more}");
    let check = facts.warning(&keys::BATCH_SIZE, what).costs(costs);
    Some(check.suggest(&keys::BATCH_SIZE, better))
}

/// A batch size that gives enough batches, and how many. Batches grow in number as they get smaller,
/// except for rounding, so the first guess is near.
fn enough_batches(plan: &BatchPlan, size: u32, batches: u64) -> Option<(u32, u64)> {
    let guess = u64::from(size) * batches / LEAST_BATCHES;
    let mut better = u32::try_from(guess).ok()?.clamp(1, size);
    loop {
        let planned = planned(plan, |settings| {
            settings.batch_size = NonZero::<u32>::MIN.saturating_add(better - 1)
        })?;
        let batches = planned.batches_per_epoch();
        if batches >= LEAST_BATCHES || better == 1 {
            return Some((better, batches));
        }
        better = (better * 7 / 8).max(1);
    }
}

fn padding(facts: &Facts<'_>) -> Option<Check> {
    let data = facts.data.as_ref()?;
    let now = data.plan.settings();
    let padded = waste(data.plan);
    let usual = BatchSettings::default().bucket_count;
    if now.pad_to_fixed_length {
        let buckets = now.bucket_count.max(usual);
        let better = planned(data.plan, |settings| {
            settings.pad_to_fixed_length = false;
            settings.bucket_count = buckets;
        })?;
        let shapes = count(better.buckets().len() as u64, "shape");
        let better = waste(&better);
        if padded - better < 0.01 {
            return None;
        }
        let what = "every batch is padded to the longest clip";
        let (padded, better) = (percent(padded), percent(better));
        let costs = format!("{padded} of all frames are padding; with {shapes} it is {better}");
        let key = &keys::PAD_TO_FIXED_LENGTH;
        let check = facts.warning(key, what).costs(costs);
        return Some(check.suggest(key, false));
    }
    let few = now.bucket_count < usual;
    if !few && padded < MUCH_PADDING {
        return None;
    }
    // Fewer shapes than usual are somebody's choice; else twice as many are tried.
    let more = if few {
        usual
    } else {
        now.bucket_count
            .saturating_add(now.bucket_count.get())
            .min(MOST_SHAPES)
    };
    let better = planned(data.plan, |settings| settings.bucket_count = more)?;
    let saved = padded - waste(&better);
    if saved < WORTH_IT {
        return None;
    }
    let shapes = count(data.plan.buckets().len() as u64, "shape");
    let padded = percent(padded);
    let what = format!("{shapes} for all batches: {padded} of all frames are padding");
    let costs = format!(
        "with up to {more} it is {}, in {} an epoch instead of {}",
        percent(waste(&better)),
        count(better.batches_per_epoch(), "batch"),
        data.plan.batches_per_epoch()
    );
    let level = if few { Level::Warning } else { Level::Note };
    let check = facts.about(level, &keys::BUCKETS, what).costs(costs);
    Some(check.suggest(&keys::BUCKETS, more))
}

/// The plan of the same clips with other settings.
fn planned(plan: &BatchPlan, change: impl FnOnce(&mut BatchSettings)) -> Option<BatchPlan> {
    let mut settings = *plan.settings();
    change(&mut settings);
    BatchPlan::new(plan.clips().to_vec(), settings).ok()
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Machine, finding};
    use super::*;

    #[test]
    fn few_large_batches_get_a_better_size() {
        let check = finding("--batch-size 50", &keys::BATCH_SIZE).expect("2 batches");
        insta::assert_snapshot!(check.costs.unwrap());
        let machine = Machine::with("--batch-size 6", 2);
        assert!(few_batches(&machine.facts()).is_none());
    }

    #[test]
    fn padding_is_counted_as_an_epoch_has_it() {
        use voxmill_data::batch_plan::PaddingWaste;
        for flags in [
            "--batch-size 4",
            "--batch-size 7 --buckets 2",
            "--pad-to-fixed-length",
        ] {
            let plan = Machine::with(flags, 2).plan;
            let drawn = PaddingWaste::of_epoch(&plan, &plan.epoch(3)).frames.waste();
            assert!((waste(&plan) - drawn).abs() < 1e-12, "{flags}");
        }
    }

    #[test]
    fn padding_to_the_longest_says_what_it_wastes() {
        let check = finding(
            "--batch-size 4 --pad-to-fixed-length",
            &keys::PAD_TO_FIXED_LENGTH,
        )
        .unwrap();
        assert_eq!(check.level, Level::Warning);
        insta::assert_snapshot!(check.costs.unwrap());
        assert!(finding("--batch-size 4", &keys::PAD_TO_FIXED_LENGTH).is_none());
    }

    #[test]
    fn too_few_shapes_say_what_more_would_save() {
        let check = finding("--batch-size 4 --buckets 1", &keys::BUCKETS).unwrap();
        assert_eq!(check.level, Level::Warning);
        assert_eq!(check.suggestions[0].in_file().unwrap(), "buckets: 8");
        assert!(finding("--batch-size 4 --buckets 12", &keys::BUCKETS).is_none());
    }
}
