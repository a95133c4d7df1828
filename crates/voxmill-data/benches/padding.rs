//! Padding waste of the batch plan on LJ Speech-like lengths, and what planning costs.
//!
//! `cargo bench -p voxmill-data --bench padding` prints the table kept in `benches/records/padding.md`.
//! Only transcripts of LJ Speech are at hand, so lengths are estimated, the same ones in each run:
//! 15.0 letters a second, with a hashed spread of 12 % (both as measured on the 32 recordings in
//! `ljspeech-32`), drawn again until within the 1.1–10.1 s that LJ Speech spans.
#![expect(clippy::print_stdout, reason = "a bench reports on stdout")]

use std::error::Error;
use std::hint::black_box;
use std::num::{NonZeroU8, NonZeroU32};
use std::path::Path;
use std::time::{Duration, Instant};

use voxmill_data::batch_plan::{
    BatchPlan, BatchSettings, PaddingWaste, PlanClip, least_padded_frames,
};
use voxmill_data::draw::{draw, unit};

const BATCH_SIZE: NonZeroU32 = NonZeroU32::new(16).expect("16 is not 0");

fn main() -> Result<(), Box<dyn Error>> {
    if !std::env::args().any(|arg| arg == "--bench") {
        // Under `cargo test --all-targets` it is enough that this compiles.
        return Ok(());
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../../shared/data/ljspeech-13100-transcripts.csv");
    let text = std::fs::read_to_string(&path)
        .map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    let estimated = |letters_per_second, spread| -> Vec<_> {
        text.lines()
            .filter_map(|line| estimated_clip(line, letters_per_second, spread))
            .collect()
    };
    let clips = estimated(15.0, 0.12);

    let seconds: Vec<f64> = clips.iter().map(|clip| seconds(clip.frames)).collect();
    let mean = seconds.iter().sum::<f64>() / seconds.len() as f64;
    let variance = seconds.iter().map(|s| (s - mean).powi(2)).sum::<f64>() / seconds.len() as f64;
    println!(
        "{} clips, mean {mean:.2} s, standard deviation {:.2} s, {:.2} to {:.2} s\n",
        clips.len(),
        variance.sqrt(),
        seconds.iter().copied().fold(f64::INFINITY, f64::min),
        seconds.iter().copied().fold(0.0, f64::max),
    );

    print_waste(&clips)?;
    println!("were the estimate another one (letters a second, spread):");
    for (letters_per_second, spread) in [(14.0, 0.12), (16.0, 0.12), (15.0, 0.06), (15.0, 0.18)] {
        let clips = estimated(letters_per_second, spread);
        let [eight, twelve] = [waste(&clips, 8)?, waste(&clips, 12)?];
        println!(
            "{letters_per_second}, {spread}: 8 shapes {} (optimum {}), 12 shapes {}",
            percent(eight),
            percent(least_padded_frames(&clips, 8).waste()),
            percent(twelve),
        );
    }
    println!();
    for count in [100, 500, 2_000] {
        print_small(&clips, count)?;
    }
    print_shapes(&clips)?;
    print_times(&clips)
}

/// Frames of the default mel (22,050 Hz, hop 256, centred).
fn frames(seconds: f64) -> u32 {
    (seconds * 22_050.0) as u32 / 256 + 1
}

fn seconds(frames: u32) -> f64 {
    f64::from(frames) * 256.0 / 22_050.0
}

fn estimated_clip(line: &str, letters_per_second: f64, spread: f64) -> Option<PlanClip> {
    let (id, rest) = line.split_once('|')?;
    let letters = rest.rsplit('|').next()?.chars().count();
    let estimate = |attempt: u64| {
        // The sum of four even draws is near enough to a bell; its deviation is √(1/3).
        let even = ["a", "b", "c", "d"].map(|part| unit(draw(0, attempt, id, part)) - 0.5);
        let bell: f64 = even.iter().sum();
        letters as f64 / letters_per_second * (1.0 + spread * bell * 3f64.sqrt())
    };
    let mut estimates = (0..32).map(estimate);
    let seconds = estimates.find(|seconds| (1.1..=10.1).contains(seconds));
    let seconds = seconds.unwrap_or_else(|| estimate(0).clamp(1.1, 10.1));
    Some(PlanClip {
        id: id.to_owned(),
        frames: frames(seconds),
        tokens: letters as u32,
        speaker: 0,
    })
}

fn settings(shapes: u8) -> BatchSettings {
    BatchSettings {
        batch_size: BATCH_SIZE,
        bucket_count: NonZeroU8::new(shapes).unwrap_or(NonZeroU8::MIN),
        ..BatchSettings::default()
    }
}

fn waste(clips: &[PlanClip], shapes: u8) -> Result<f64, Box<dyn Error>> {
    let plan = BatchPlan::new(clips.to_vec(), settings(shapes))?;
    Ok(PaddingWaste::of_epoch(&plan, &plan.epoch(0)).frames.waste())
}

fn percent(share: f64) -> String {
    format!("{:.2} %", 100.0 * share)
}

fn print_waste(clips: &[PlanClip]) -> Result<(), Box<dyn Error>> {
    println!(
        "| batches of 16 | frames wasted | optimum | apart (points) | tokens wasted | batches |"
    );
    println!("|---|---|---|---|---|---|");
    let without_optimum = |name: &str, waste: PaddingWaste, batches: u64| {
        let [frames, tokens] = [waste.frames, waste.tokens].map(|padded| percent(padded.waste()));
        println!("| {name} | {frames} | | | {tokens} | {batches} |");
    };
    let batches = clips.len().div_ceil(16) as u64;
    let longest = PaddingWaste::of_longest(clips, &settings(8));
    without_optimum("all padded to the longest", longest, batches);
    let random = PaddingWaste::of_random_batches(clips, &settings(8));
    without_optimum(
        "random, padded to the longest in the batch",
        random,
        batches,
    );
    for shapes in [1, 2, 4, 8, 12, 16, 32] {
        let plan = BatchPlan::new(clips.to_vec(), settings(shapes))?;
        let waste = PaddingWaste::of_epoch(&plan, &plan.epoch(0));
        let optimum = least_padded_frames(clips, shapes.into()).waste();
        println!(
            "| plan, {shapes} shapes (used: {}) | {} | {} | {:.2} | {} | {} |",
            plan.buckets().len(),
            percent(waste.frames.waste()),
            percent(optimum),
            100.0 * (waste.frames.waste() - optimum),
            percent(waste.tokens.waste()),
            plan.batches_per_epoch(),
        );
    }
    for multiple in [1, 4, 16, 32] {
        let mut settings = settings(8);
        settings.frame_multiple = NonZeroU32::new(multiple).unwrap_or(NonZeroU32::MIN);
        let plan = BatchPlan::new(clips.to_vec(), settings)?;
        let waste = PaddingWaste::of_epoch(&plan, &plan.epoch(0));
        let name = format!("plan, 8 shapes, multiples of {multiple} frames instead of 8");
        without_optimum(&name, waste, plan.batches_per_epoch());
    }
    println!();
    Ok(())
}

fn print_small(clips: &[PlanClip], count: usize) -> Result<(), Box<dyn Error>> {
    let some = &clips[..count.min(clips.len())];
    let plan = BatchPlan::new(some.to_vec(), settings(8))?;
    println!(
        "first {count} clips: {} of 8 shapes used, {} batches, {} wasted (random {})",
        plan.buckets().len(),
        plan.batches_per_epoch(),
        percent(PaddingWaste::of_epoch(&plan, &plan.epoch(0)).frames.waste()),
        percent(
            PaddingWaste::of_random_batches(some, &settings(8))
                .frames
                .waste()
        ),
    );
    Ok(())
}

fn print_shapes(clips: &[PlanClip]) -> Result<(), Box<dyn Error>> {
    let plan = BatchPlan::new(clips.to_vec(), settings(8))?;
    println!("\n| frames | tokens | rows | frames in a batch | clips | batches |");
    println!("|---|---|---|---|---|---|");
    for bucket in plan.buckets() {
        let (shape, clips, batches) = (bucket.shape, bucket.clips.len(), bucket.batches());
        let (frames, tokens, rows) = (shape.frames, shape.tokens, shape.rows);
        let in_batch = frames * rows;
        println!("| {frames} | {tokens} | {rows} | {in_batch} | {clips} | {batches} |");
    }
    println!();
    Ok(())
}

fn print_times(clips: &[PlanClip]) -> Result<(), Box<dyn Error>> {
    // Every id eight times over, with lengths as they are.
    let copied = |copy| {
        clips.iter().map(move |clip| PlanClip {
            id: format!("{}-{copy}", clip.id),
            ..clip.clone()
        })
    };
    let many: Vec<_> = (0..8).flat_map(copied).collect();
    for clips in [clips, &many] {
        let plan = BatchPlan::new(clips.to_vec(), settings(8))?;
        let shapes = median(|| BatchPlan::new(clips.to_vec(), settings(8)));
        let optimum = median(|| least_padded_frames(clips, 32));
        let mut number = 0;
        let epoch = median(|| {
            number += 1;
            plan.epoch(number)
        });
        println!(
            "{} clips, median of 11: shapes and copy of the list {shapes:.1?}, \
             one epoch {epoch:.1?}, optimum of 32 shapes on unrounded lengths {optimum:.1?}",
            clips.len(),
        );
    }
    Ok(())
}

fn median<T>(mut work: impl FnMut() -> T) -> Duration {
    let mut time = |_| {
        let start = Instant::now();
        black_box(work());
        start.elapsed()
    };
    let mut times: Vec<_> = (0..11).map(&mut time).collect();
    times.sort_unstable();
    times[times.len() / 2]
}
