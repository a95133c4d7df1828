//! What must hold of any plan.

use std::collections::BTreeSet;
use std::num::NonZeroU8;

use proptest::prelude::*;

use super::shapes::LeastPadding;
use super::tests::{clip, nonzero};
use super::*;

prop_compose! {
    fn any_clips()(
        lengths in prop::collection::vec((1u32..1_200, 1u32..200, 0u32..4), 1..200),
        outlier in prop::option::of(1u32..100_000),
    ) -> Vec<PlanClip> {
        let mut clips: Vec<_> = lengths
            .into_iter()
            .enumerate()
            .map(|(number, (frames, tokens, speaker))| PlanClip { tokens, speaker, ..clip(number, frames) })
            .collect();
        clips.extend(outlier.map(|frames| clip(999, frames)));
        clips
    }
}

prop_compose! {
    fn any_settings()(
        batch_size in prop_oneof![1u32..40, Just(u32::MAX)],
        bucket_count in 1u8..=20,
        pad_to_fixed_length in prop::bool::weighted(0.1),
        frame_multiple in 1u32..20,
        token_multiple in 1u32..20,
        reference_frames in prop_oneof![1u32..400, Just(u32::MAX)],
        seed: u64,
        first in prop::bool::weighted(0.3),
    ) -> BatchSettings {
        BatchSettings {
            batch_size: nonzero(batch_size),
            bucket_count: NonZeroU8::new(bucket_count).unwrap(),
            pad_to_fixed_length,
            frame_multiple: nonzero(frame_multiple),
            token_multiple: nonzero(token_multiple),
            reference_frames: nonzero(reference_frames),
            seed,
            shape_choice: match first {
                true => ShapeChoice::Bucketed,
                false => ShapeChoice::NoWorseThanRandom,
            },
        }
    }
}

proptest! {
    #[test]
    fn every_clip_is_in_an_epoch_once_and_fits_its_shape(
        clips in any_clips(), settings in any_settings(), epoch: u64,
    ) {
        let plan = BatchPlan::new(clips, settings).unwrap();
        let epoch = plan.epoch(epoch);
        let mut seen = vec![0; plan.clips().len()];
        for batch in &epoch.batches {
            let shape = epoch.shape(batch);
            prop_assert!((1..=shape.rows as usize).contains(&batch.rows.len()));
            for row in &batch.rows {
                seen[row.clip] += 1;
                prop_assert!(plan.clips()[row.clip].frames <= shape.frames);
                prop_assert!(plan.clips()[row.clip].tokens <= shape.tokens);
            }
        }
        prop_assert!(seen.iter().all(|&times| times == 1));
        prop_assert_eq!(epoch.batches.len() as u64, plan.batches_per_epoch());
    }

    #[test]
    fn shapes_are_few_rounded_and_ascending(clips in any_clips(), settings in any_settings()) {
        let plan = BatchPlan::new(clips, settings).unwrap();
        let shapes: Vec<_> = plan.buckets().iter().map(|bucket| bucket.shape).collect();
        prop_assert!(shapes.len() <= usize::from(settings.bucket_count.get()));
        prop_assert!(!settings.pad_to_fixed_length || shapes.len() == 1);
        for shape in &shapes {
            prop_assert_eq!(shape.frames % settings.frame_multiple, 0);
            prop_assert_eq!(shape.tokens % settings.token_multiple, 0);
            prop_assert!(shape.rows as usize <= plan.clips().len());
        }
        // Two buckets may share a length: equal clips can fall on both sides of a full batch.
        prop_assert!(shapes.is_sorted_by_key(|shape| shape.frames));
        // Masked rows are spread: at most one a batch, on average.
        let buckets = plan.buckets().iter().filter(|_| !settings.pad_to_fixed_length);
        for bucket in buckets {
            let rows = bucket.batches() * u64::from(bucket.shape.rows);
            prop_assert!(rows - (bucket.clips.len() as u64) < bucket.batches());
        }
    }

    #[test]
    fn frames_are_even_over_batches(clips in any_clips(), settings in any_settings()) {
        let settings = BatchSettings { pad_to_fixed_length: false, ..settings };
        let plan = BatchPlan::new(clips, settings).unwrap();
        let clips = plan.clips();
        let frames: u64 = clips.iter().map(|clip| u64::from(clip.frames)).sum();
        let target = settings.batch_size.get() as f64 * frames as f64 / clips.len() as f64;
        for bucket in plan.buckets() {
            let in_batch = f64::from(bucket.shape.rows) * f64::from(bucket.shape.frames);
            // Rounding to whole rows; one is the least there can be.
            let half_a_row = 0.5 * f64::from(bucket.shape.frames) + 0.001;
            prop_assert!(in_batch <= target + half_a_row || bucket.shape.rows == 1);
            // Only a bucket of a single batch may be smaller than half of the target.
            prop_assert!(in_batch >= 0.5 * (target - half_a_row) || bucket.batches() == 1);
        }
    }

    /// Where there may be as many shapes as there are batches; fewer shapes than that can always be beaten.
    #[test]
    fn a_small_plan_wastes_no_more_than_the_better_of_buckets_and_chance(
        lengths in prop::collection::vec(1u32..1_500, 1..64),
        batch_size in 1u32..24,
        seed: u64,
    ) {
        let clips: Vec<_> = (0..).zip(&lengths).map(|(number, &frames)| clip(number, frames)).collect();
        let settings = BatchSettings {
            batch_size: nonzero(batch_size),
            bucket_count: NonZeroU8::new(64).unwrap(),
            seed,
            ..BatchSettings::default()
        };
        let padded = |shape_choice| {
            let plan = BatchPlan::new(clips.clone(), BatchSettings { shape_choice, ..settings }).unwrap();
            PaddingWaste::of_epoch(&plan, &plan.epoch(0)).frames.padded
        };
        let ours = padded(ShapeChoice::NoWorseThanRandom);
        prop_assert!(ours <= padded(ShapeChoice::Bucketed));
        prop_assert!(ours <= PaddingWaste::of_random_batches(&clips, &settings).frames.padded);
    }

    /// The usual eight shapes, and clips for up to four batches.
    #[test]
    fn eight_shapes_are_enough_for_four_batches(
        lengths in prop::collection::vec(20u32..1_500, 1..64),
        seed: u64,
    ) {
        let clips: Vec<_> = (0..).zip(&lengths).map(|(number, &frames)| clip(number, frames)).collect();
        let settings = BatchSettings { seed, ..BatchSettings::default() };
        let plan = BatchPlan::new(clips.clone(), settings).unwrap();
        let ours = PaddingWaste::of_epoch(&plan, &plan.epoch(0)).frames.padded;
        prop_assert!(ours <= PaddingWaste::of_random_batches(&clips, &settings).frames.padded);
        prop_assert!(ours <= PaddingWaste::of_longest(&clips, &settings).frames.padded);
    }

    #[test]
    fn the_order_of_the_list_does_not_matter(
        (clips, shuffled) in any_clips().prop_flat_map(|clips| {
            (Just(clips.clone()), Just(clips).prop_shuffle())
        }),
        settings in any_settings(),
        epoch: u64,
    ) {
        let plan = BatchPlan::new(clips, settings).unwrap();
        let again = BatchPlan::new(shuffled, settings).unwrap();
        prop_assert_eq!(plan.buckets(), again.buckets());
        prop_assert_eq!(plan.epoch(epoch), again.epoch(epoch));
    }

    #[test]
    fn a_reference_is_another_clip_of_the_speaker_and_its_crop_is_inside(
        clips in any_clips(), settings in any_settings(), epoch: u64,
    ) {
        let plan = BatchPlan::new(clips, settings).unwrap();
        let clips = plan.clips();
        for row in plan.epoch(epoch).batches.iter().flat_map(|batch| &batch.rows) {
            let Reference { clip: other, start_frame, frames } = row.reference;
            let speaker = clips[row.clip].speaker;
            let alone = clips.iter().filter(|clip| clip.speaker == speaker).count() == 1;
            prop_assert_eq!(clips[other].speaker, speaker);
            prop_assert_eq!(other == row.clip, alone);
            prop_assert_eq!(frames, clips[other].frames.min(settings.reference_frames.get()));
            prop_assert!(start_frame + frames <= clips[other].frames);
        }
    }

    #[test]
    fn ranks_partition_what_is_left_and_go_in_step(
        clips in any_clips(), settings in any_settings(), world in 1u32..6, start in 0u64..40,
    ) {
        let plan = BatchPlan::new(clips, settings).unwrap();
        let epoch = plan.epoch(3);
        let start = Position { epoch: 3, batch: start };
        let ranks: Vec<Vec<_>> = (0..world)
            .map(|rank| epoch.batches_from(start, Rank::new(rank, world).unwrap()).collect())
            .collect();
        prop_assert!(ranks.iter().all(|batches| batches.len() == ranks[0].len()));
        let mut dealt = Vec::new();
        for round in 0..ranks[0].len() {
            for batches in &ranks {
                prop_assert_eq!(batches[round].0, ranks[0][round].0);
                dealt.push(batches[round].1);
            }
        }
        let left: Vec<_> = epoch.batches.iter().skip(start.batch as usize).collect();
        let (real, filling) = dealt.split_at(left.len());
        prop_assert_eq!(real, left.as_slice());
        prop_assert!(filling.len() < world as usize);
        prop_assert!(filling.iter().all(|batch| batch.rows.is_empty()));
    }

    #[test]
    fn walking_by_positions_is_walking_the_epochs(
        clips in any_clips(), settings in any_settings(), world in 1u32..4, stop in 0usize..60,
    ) {
        let plan = BatchPlan::new(clips, settings).unwrap();
        let rank = Rank::new(world - 1, world).unwrap();
        let epochs = [plan.epoch(0), plan.epoch(1)];
        let walk = |start: Position| -> Vec<_> {
            epochs.iter().flat_map(|epoch| epoch.batches_from(start, rank)).collect()
        };
        let whole = walk(Position::default());
        let mut position = Position::default();
        for &(at, _) in whole.iter().take(stop) {
            prop_assert_eq!(position, at);
            position = epochs[at.epoch as usize].next(position, rank);
            prop_assert!(position > at);
        }
        let tail = walk(position);
        prop_assert_eq!(tail.as_slice(), &whole[stop.min(whole.len())..]);
    }

    #[test]
    fn dynamic_programming_equals_brute_force(
        mut lengths in prop::collection::vec(1u32..40, 1..10),
    ) {
        lengths.sort_unstable();
        let mut padding = LeastPadding::new(&lengths);
        let mut savings = Vec::new();
        for shapes in 1..=lengths.len() {
            prop_assert_eq!(padding.padded_frames(), brute_force(&lengths, shapes));
            prop_assert_eq!(padded_frames(&lengths, &padding.ends(shapes)), padding.padded_frames());
            let before = padding.padded_frames();
            if !padding.add_shape() {
                let distinct: BTreeSet<_> = lengths.iter().collect();
                prop_assert_eq!(distinct.len(), shapes);
                break;
            }
            savings.push(before - padding.padded_frames());
        }
        // On this the search for the worthwhile number of shapes relies.
        prop_assert!(savings.is_sorted_by(|a, b| a >= b));
    }
}

fn padded_frames(lengths: &[u32], ends: &[usize]) -> u64 {
    let mut start = 0;
    let mut padded = 0;
    for &end in ends {
        padded += (end - start) as u64 * u64::from(lengths[end - 1]);
        start = end;
    }
    assert_eq!(start, lengths.len());
    padded
}

/// Tries every way to end at most `shapes` buckets.
fn brute_force(lengths: &[u32], shapes: usize) -> u64 {
    let inner = lengths.len() - 1;
    (0u32..1 << inner)
        .filter(|ends| (ends.count_ones() as usize) < shapes)
        .map(|ends| {
            let mut chosen: Vec<_> = (0..inner)
                .filter(|i| ends >> i & 1 == 1)
                .map(|i| i + 1)
                .collect();
            chosen.push(lengths.len());
            padded_frames(lengths, &chosen)
        })
        .min()
        .unwrap()
}
