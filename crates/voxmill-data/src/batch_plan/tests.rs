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
    let numbered = (0..).zip(lengths);
    let clips = numbered.map(|(number, frames)| clip(number, frames));
    clips.collect()
}

fn shape(frames: u32, tokens: u32, rows: u32) -> Shape {
    Shape {
        frames,
        tokens,
        rows,
    }
}

fn waste(plan: &BatchPlan, epoch: u64) -> PaddingWaste {
    PaddingWaste::of_epoch(plan, &plan.epoch(epoch))
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
    planned_with(clips, |settings| settings.batch_size = nonzero(batch_size))
}

fn planned_with(clips: Vec<PlanClip>, change: impl FnOnce(&mut BatchSettings)) -> BatchPlan {
    let mut settings = BatchSettings::default();
    change(&mut settings);
    BatchPlan::new(clips, settings).unwrap()
}

#[test]
fn bad_input_is_named() {
    use BatchPlanError::*;
    let mut textless = clip(1, 10);
    textless.tokens = 0;
    let id = || "clip-00001".to_owned();
    let twice = vec![clip(1, 10), clip(2, 20), clip(1, 30)];
    for (clips, error) in [
        (vec![], NoClips),
        (twice, DuplicateClip(id())),
        (vec![clip(1, 0)], NoFrames(id())),
        (vec![textless], NoTokens(id())),
        (vec![clip(1, u32::MAX)], TooLong(id())),
    ] {
        let refused = BatchPlan::new(clips, BatchSettings::default());
        assert_eq!(refused.unwrap_err(), error);
    }
    let (number, world) = (2, 2);
    assert_eq!(Rank::new(2, 2), Err(RankError { number, world }));
    assert!(Rank::new(0, 0).is_err());
}

#[test]
fn one_clip_is_one_row_that_refers_to_itself() {
    let plan = planned(vec![clip(0, 100)], 16);
    let epoch = plan.epoch(0);
    assert_eq!(epoch.shapes, [shape(104, 24, 1)]);
    let itself = Reference {
        clip: 0,
        start_frame: 0,
        frames: 100,
    };
    assert_eq!(epoch.batches[0].rows[0].reference, itself);
}

#[test]
fn clips_of_one_length_need_one_shape_of_the_batch_size() {
    let plan = planned(with_lengths([160; 64]), 16);
    assert_eq!(plan.buckets().len(), 1);
    assert_eq!(plan.buckets()[0].shape.rows, 16);
    assert_eq!(plan.batches_per_epoch(), 4);
    assert_eq!(waste(&plan, 0).frames.waste(), 0.0);
}

#[test]
fn fewer_clips_than_a_batch_make_one_batch_without_masked_rows() {
    let plan = planned(with_lengths([100, 110, 120]), 16);
    let epoch = plan.epoch(0);
    assert_eq!(epoch.shapes, [shape(120, 24, 3)]);
    assert_eq!(epoch.batches.len(), 1);
}

#[test]
fn an_outlier_gets_a_shape_of_its_own_and_spoils_no_other() {
    let mut clips = speech_like(500);
    clips.push(clip(500, 20_000));
    let plan = planned(clips, 16);
    let last = plan.buckets().last().unwrap();
    assert_eq!((last.shape.rows, last.shape.frames), (1, 20_000));
    let padded = last.clips.len();
    assert!(padded <= 2, "{padded} clips padded to the outlier");
}

#[test]
fn few_clips_use_fewer_shapes_and_a_fixed_length_uses_one() {
    let used = |count| planned(speech_like(count), 16).buckets().len();
    let counts = [20, 100, 500, 13_100].map(used);
    assert!(counts.is_sorted(), "{counts:?}");
    assert!(counts[0] < 3, "{counts:?}");
    assert_eq!(counts[3], 8);

    let plan = planned_with(speech_like(500), |s| s.pad_to_fixed_length = true);
    assert_eq!(plan.buckets().len(), 1);
    assert_eq!(plan.buckets()[0].shape.rows, 16);
    assert_eq!(plan.batches_per_epoch(), 32);
}

#[test]
fn waste_is_near_the_optimum_last_batches_included() {
    let clips = speech_like(13_100);
    let random = PaddingWaste::of_random_batches(&clips, &BatchSettings::default());
    let longest = PaddingWaste::of_longest(&clips, &BatchSettings::default());
    for shapes in [8, 12] {
        let bucket_count = NonZeroU8::new(shapes).unwrap();
        let plan = planned_with(clips.clone(), |s| s.bucket_count = bucket_count);
        let waste = waste(&plan, 5).frames.waste();
        let optimum = least_padded_frames(&clips, shapes.into()).waste();
        let near = optimum..optimum + 0.005;
        assert!(
            waste > optimum && near.contains(&waste),
            "{waste}: {near:?}"
        );
        for other in [random, longest] {
            assert!(waste < other.frames.waste() / 2.0, "{waste}: {other:?}");
        }
    }
}

#[test]
fn waste_counts_masked_rows() {
    // 3 clips of 80 frames in batches of 2: the second batch has a masked row.
    let plan = planned_with(with_lengths([80; 3]), |settings| {
        settings.batch_size = nonzero(2);
        settings.pad_to_fixed_length = true;
    });
    let frames = waste(&plan, 0).frames;
    assert_eq!((frames.valid, frames.padded), (240, 320));
    assert_eq!(frames.waste(), 0.25);
}

#[test]
fn epochs_and_seeds_change_the_batches_and_not_the_waste() {
    let plan = planned(speech_like(500), 16);
    let (first, second) = (plan.epoch(0), plan.epoch(1));
    assert_eq!(first, plan.epoch(0));
    assert_ne!(first.batches, second.batches);
    assert_eq!(first.shapes, second.shapes);
    assert_eq!(waste(&plan, 0), waste(&plan, 1));
    // Not only the order: other clips come together.
    let company = |epoch: &EpochPlan| -> BTreeSet<BTreeSet<usize>> {
        let clips = |batch: &PlannedBatch| batch.rows.iter().map(|row| row.clip).collect();
        epoch.batches.iter().map(clips).collect()
    };
    assert!(company(&first).is_disjoint(&company(&second)));

    let reseeded = planned_with(speech_like(500), |settings| settings.seed = 1);
    assert_ne!(reseeded.epoch(0).batches, first.batches);
}

#[test]
fn shapes_are_mixed_over_the_epoch() {
    let plan = planned(speech_like(2_000), 16);
    let epoch = plan.epoch(0);
    let (batches, pairs) = (epoch.batches.len(), epoch.batches.windows(2));
    let changes = pairs.filter(|pair| pair[0].shape != pair[1].shape).count();
    assert!(changes > batches / 2, "{changes} of {batches}");
}

#[test]
fn draws_of_references_reach_every_other_clip() {
    let plan = planned(with_lengths([100; 5]), 4);
    let mut met = BTreeSet::new();
    for batch in (0..100).flat_map(|epoch| plan.epoch(epoch).batches) {
        let pairs = batch.rows.iter().map(|row| (row.clip, row.reference.clip));
        met.extend(pairs);
    }
    assert_eq!(met.len(), 5 * 4);
}

#[test]
fn a_hundred_thousand_clips_of_as_many_lengths_are_planned() {
    // Quadratic dynamic programming would take minutes here.
    let drawn = |n: u32| draw(0, 0, &n.to_string(), "length");
    let lengths = (0..100_000).map(|n| 1 + below(drawn(n), 1 << 20) as u32);
    let plan = planned_with(with_lengths(lengths), |s| s.frame_multiple = nonzero(1));
    assert_eq!(plan.buckets().len(), 8);
    let batches = plan.epoch(0).batches;
    let rows: usize = batches.iter().map(|batch| batch.rows.len()).sum();
    assert_eq!(rows, 100_000);
}

#[test]
fn positions_and_shapes_keep_their_json() {
    let (epoch, batch) = (3, 41);
    let json = serde_json::to_string(&Position { epoch, batch }).unwrap();
    assert_eq!(json, r#"{"epoch":3,"batch":41}"#);
    let read: Shape = serde_json::from_str(r#"{"frames":288,"tokens":72,"rows":31}"#).unwrap();
    assert_eq!(read, shape(288, 72, 31));
}

#[test]
fn few_clips_waste_no_more_than_random_batches() {
    // Five batches' worth of clips with a long tail: merged buckets pad the short ones to the long ones.
    let lengths = [60, 64, 70, 90, 100, 130, 150, 300, 310, 480, 500, 1400];
    let settings = |shape_choice| BatchSettings {
        shape_choice,
        batch_size: nonzero(3),
        ..BatchSettings::default()
    };
    let clips = with_lengths(lengths.into_iter().chain([65, 75, 1300]));
    let waste_of = |choice| {
        let plan = BatchPlan::new(clips.clone(), settings(choice)).unwrap();
        waste(&plan, 0).frames.padded
    };
    let random = PaddingWaste::of_random_batches(&clips, &settings(ShapeChoice::default()));
    assert!(waste_of(ShapeChoice::NoWorseThanRandom) <= random.frames.padded);
}

#[test]
fn a_plan_that_stays_as_it_was_keeps_its_fingerprint() {
    let of = |clips: Vec<PlanClip>, batch_size, shape_choice| {
        let plan = planned_with(clips, |settings| {
            settings.shape_choice = shape_choice;
            settings.batch_size = nonzero(batch_size);
        });
        (plan.fingerprint(), plan.buckets().to_vec())
    };
    for (count, batch_size) in [
        (5, 16),
        (50, 16),
        (500, 16),
        (20, 4),
        (13, 3),
        (9, 2),
        (7, 1),
    ] {
        let [first, second] = [ShapeChoice::Bucketed, ShapeChoice::NoWorseThanRandom]
            .map(|choice| of(speech_like(count), batch_size, choice));
        assert_eq!(
            first.0 == second.0,
            first.1 == second.1,
            "{count}, {batch_size}"
        );
    }
    // What the first version hashed: checkpoints have such fingerprints.
    assert_eq!(
        BatchSettings::default().words(),
        "BatchSettings { batch_size: 16, bucket_count: 8, pad_to_fixed_length: false, frame_multiple: 8, \
         token_multiple: 8, reference_frames: 129, seed: 0 }"
    );
    let (first, _) = of(speech_like(500), 16, ShapeChoice::Bucketed);
    assert_eq!(first, "e38afb86c9dc50df");
    assert_eq!(ShapeChoice::of_number(None), ShapeChoice::Bucketed);
    for choice in [ShapeChoice::Bucketed, ShapeChoice::NoWorseThanRandom] {
        assert_eq!(ShapeChoice::of_number(Some(choice.number())), choice);
    }
}
