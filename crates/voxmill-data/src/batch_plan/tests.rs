//! Plans worth looking at one by one; what holds of all of them is in `properties`.

use std::collections::BTreeSet;
use std::num::{NonZeroU8, NonZeroU32};

use super::*;
use crate::draw::{below, draw, unit};

pub(super) fn nonzero(n: u32) -> NonZeroU32 {
    NonZeroU32::new(n).unwrap()
}

pub(super) fn clip(number: usize, frames: u32) -> PlanClip {
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
