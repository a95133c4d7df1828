//! What must hold of any plan, and what is worth seeing of some.

use std::collections::BTreeSet;
use std::num::{NonZeroU8, NonZeroU32};

use proptest::prelude::*;

use super::shapes::LeastPadding;
use super::*;
use crate::draw::{below, draw, unit};

fn nonzero(n: u32) -> NonZeroU32 {
    NonZeroU32::new(n).unwrap()
}

fn clip(number: usize, frames: u32) -> PlanClip {
    PlanClip {
        id: format!("clip-{number:05}"),
        frames,
        tokens: frames / 6 + 1,
        speaker: 0,
    }
}

fn with_lengths(lengths: impl IntoIterator<Item = u32>) -> Vec<PlanClip> {
    let numbered = lengths.into_iter().enumerate();
    numbered
        .map(|(number, frames)| clip(number, frames))
        .collect()
}

/// 1.1 to 10.1 s with a hump near 7 s.
fn speech_like(count: usize) -> Vec<PlanClip> {
    with_lengths((0..count).map(|number| {
        let even = |part| unit(draw(0, 0, &number.to_string(), part));
        let place = (even("a").max(even("b")) + even("c")) / 2.0;
        ((1.1 + 9.0 * place) * 86.13) as u32
    }))
}

fn planned(clips: Vec<PlanClip>, batch_size: u32) -> BatchPlan {
    let batch_size = nonzero(batch_size);
    let settings = BatchSettings {
        batch_size,
        ..BatchSettings::default()
    };
    BatchPlan::new(clips, settings).unwrap()
}

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
    ) -> BatchSettings {
        BatchSettings {
            batch_size: nonzero(batch_size),
            bucket_count: NonZeroU8::new(bucket_count).unwrap(),
            pad_to_fixed_length,
            frame_multiple: nonzero(frame_multiple),
            token_multiple: nonzero(token_multiple),
            reference_frames: nonzero(reference_frames),
            seed,
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
            .map(|rank| epoch.batches_from(start, Shard::new(rank, world).unwrap()).collect())
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
        let shard = Shard::new(world - 1, world).unwrap();
        let epochs = [plan.epoch(0), plan.epoch(1)];
        let walk = |start: Position| -> Vec<_> {
            epochs.iter().flat_map(|epoch| epoch.batches_from(start, shard)).collect()
        };
        let whole = walk(Position::default());
        let mut position = Position::default();
        for &(at, _) in whole.iter().take(stop) {
            prop_assert_eq!(position, at);
            position = epochs[at.epoch as usize].next(position, shard);
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

#[test]
fn bad_input_is_named() {
    let settings = BatchSettings::default();
    let refused = |clips| BatchPlan::new(clips, settings).unwrap_err();
    assert_eq!(refused(vec![]), BatchPlanError::NoClips);
    let twice = vec![clip(1, 10), clip(2, 20), clip(1, 30)];
    assert_eq!(
        refused(twice),
        BatchPlanError::DuplicateClip("clip-00001".into())
    );
    assert_eq!(
        refused(vec![clip(1, 0)]),
        BatchPlanError::NoFrames("clip-00001".into())
    );
    let textless = PlanClip {
        tokens: 0,
        ..clip(1, 10)
    };
    assert_eq!(
        refused(vec![textless]),
        BatchPlanError::NoTokens("clip-00001".into())
    );
    let endless = clip(1, u32::MAX);
    assert_eq!(
        refused(vec![endless]),
        BatchPlanError::TooLong("clip-00001".into())
    );
    assert_eq!(Shard::new(2, 2), Err(ShardError { rank: 2, world: 2 }));
    assert!(Shard::new(0, 0).is_err());
}

#[test]
fn one_clip_is_one_row_that_refers_to_itself() {
    let plan = planned(vec![clip(0, 100)], 16);
    let epoch = plan.epoch(0);
    assert_eq!(
        epoch.shapes,
        [Shape {
            frames: 104,
            tokens: 24,
            rows: 1
        }]
    );
    let row = epoch.batches[0].rows[0];
    assert_eq!(
        row.reference,
        Reference {
            clip: 0,
            start_frame: 0,
            frames: 100
        }
    );
}

#[test]
fn clips_of_one_length_need_one_shape_of_the_batch_size() {
    let plan = planned(with_lengths([160; 64]), 16);
    assert_eq!(plan.buckets().len(), 1);
    assert_eq!(plan.buckets()[0].shape.rows, 16);
    assert_eq!(plan.batches_per_epoch(), 4);
    assert_eq!(
        PaddingWaste::of_epoch(&plan, &plan.epoch(0)).frames.waste(),
        0.0
    );
}

#[test]
fn fewer_clips_than_a_batch_make_one_batch_without_masked_rows() {
    let plan = planned(with_lengths([100, 110, 120]), 16);
    let epoch = plan.epoch(0);
    assert_eq!(
        epoch.shapes,
        [Shape {
            frames: 120,
            tokens: 24,
            rows: 3
        }]
    );
    assert_eq!(epoch.batches.len(), 1);
}

#[test]
fn an_outlier_gets_a_shape_of_its_own_and_spoils_no_other() {
    let mut clips = speech_like(500);
    clips.push(clip(500, 20_000));
    let plan = planned(clips, 16);
    let last = plan.buckets().last().unwrap();
    assert_eq!(last.shape.rows, 1);
    assert_eq!(last.shape.frames, 20_000);
    assert!(
        last.clips.len() <= 2,
        "{} clips padded to the outlier",
        last.clips.len()
    );
}

#[test]
fn few_clips_use_fewer_shapes_and_a_fixed_length_uses_one() {
    let used = |count| planned(speech_like(count), 16).buckets().len();
    let counts = [20, 100, 500, 13_100].map(used);
    assert!(counts.is_sorted(), "{counts:?}");
    assert!(counts[0] < 3, "{counts:?}");
    assert_eq!(counts[3], 8);

    let settings = BatchSettings {
        pad_to_fixed_length: true,
        ..BatchSettings::default()
    };
    let plan = BatchPlan::new(speech_like(500), settings).unwrap();
    assert_eq!(plan.buckets().len(), 1);
    assert_eq!(plan.buckets()[0].shape.rows, 16);
    assert_eq!(plan.batches_per_epoch(), 32);
}

#[test]
fn waste_is_near_the_optimum_last_batches_included() {
    let clips = speech_like(13_100);
    for (shapes, apart) in [(8, 0.005), (12, 0.005)] {
        let settings = BatchSettings {
            bucket_count: NonZeroU8::new(shapes).unwrap(),
            ..BatchSettings::default()
        };
        let plan = BatchPlan::new(clips.clone(), settings).unwrap();
        let waste = PaddingWaste::of_epoch(&plan, &plan.epoch(5)).frames.waste();
        let optimum = least_padded_frames(&clips, shapes.into()).waste();
        assert!(
            waste > optimum && waste < optimum + apart,
            "{waste} against {optimum}"
        );
        assert!(
            waste
                < PaddingWaste::of_random_batches(&clips, 16, 0)
                    .frames
                    .waste()
                    / 2.0
        );
        assert!(waste < PaddingWaste::of_longest(&clips).frames.waste() / 2.0);
    }
}

#[test]
fn waste_counts_masked_rows() {
    // 3 clips of 80 frames in batches of 2: the second batch has a masked row.
    let settings = BatchSettings {
        batch_size: nonzero(2),
        pad_to_fixed_length: true,
        ..BatchSettings::default()
    };
    let plan = BatchPlan::new(with_lengths([80; 3]), settings).unwrap();
    let waste = PaddingWaste::of_epoch(&plan, &plan.epoch(0));
    assert_eq!(
        waste.frames,
        Padded {
            valid: 240,
            padded: 320
        }
    );
    assert_eq!(waste.frames.waste(), 0.25);
}

#[test]
fn epochs_and_seeds_change_the_batches_and_not_the_waste() {
    let plan = planned(speech_like(500), 16);
    let (first, second) = (plan.epoch(0), plan.epoch(1));
    assert_eq!(first, plan.epoch(0));
    assert_ne!(first.batches, second.batches);
    assert_eq!(first.shapes, second.shapes);
    assert_eq!(
        PaddingWaste::of_epoch(&plan, &first),
        PaddingWaste::of_epoch(&plan, &second)
    );
    // Not only the order: other clips come together.
    let company = |epoch: &EpochPlan| -> BTreeSet<BTreeSet<usize>> {
        let clips = |batch: &PlannedBatch| batch.rows.iter().map(|row| row.clip).collect();
        epoch.batches.iter().map(clips).collect()
    };
    assert!(company(&first).is_disjoint(&company(&second)));

    let settings = BatchSettings {
        seed: 1,
        ..*plan.settings()
    };
    let reseeded = BatchPlan::new(speech_like(500), settings).unwrap();
    assert_ne!(reseeded.epoch(0).batches, first.batches);
}

#[test]
fn shapes_are_mixed_over_the_epoch() {
    let plan = planned(speech_like(2_000), 16);
    let epoch = plan.epoch(0);
    let changes = epoch
        .batches
        .windows(2)
        .filter(|pair| pair[0].shape != pair[1].shape)
        .count();
    assert!(
        changes > epoch.batches.len() / 2,
        "{changes} of {}",
        epoch.batches.len()
    );
}

#[test]
fn draws_of_references_reach_every_other_clip() {
    let plan = planned(with_lengths([100; 5]), 4);
    let mut met = BTreeSet::new();
    for epoch in 0..100 {
        for row in plan
            .epoch(epoch)
            .batches
            .iter()
            .flat_map(|batch| &batch.rows)
        {
            met.insert((row.clip, row.reference.clip));
        }
    }
    assert_eq!(met.len(), 5 * 4);
}

#[test]
fn a_hundred_thousand_clips_of_as_many_lengths_are_planned() {
    // Quadratic dynamic programming would take minutes here.
    let lengths =
        (0..100_000).map(|n| 1 + below(draw(0, 0, &n.to_string(), "length"), 1 << 20) as u32);
    let settings = BatchSettings {
        frame_multiple: nonzero(1),
        ..BatchSettings::default()
    };
    let plan = BatchPlan::new(with_lengths(lengths), settings).unwrap();
    assert_eq!(plan.buckets().len(), 8);
    let rows: usize = plan
        .epoch(0)
        .batches
        .iter()
        .map(|batch| batch.rows.len())
        .sum();
    assert_eq!(rows, 100_000);
}

#[test]
fn positions_and_shapes_keep_their_json() {
    let position = Position {
        epoch: 3,
        batch: 41,
    };
    assert_eq!(
        serde_json::to_string(&position).unwrap(),
        r#"{"epoch":3,"batch":41}"#
    );
    let shape: Shape = serde_json::from_str(r#"{"frames":288,"tokens":72,"rows":31}"#).unwrap();
    assert_eq!(
        shape,
        Shape {
            frames: 288,
            tokens: 72,
            rows: 31
        }
    );
}
