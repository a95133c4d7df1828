//! What sound costs and how true it is: copies of real clips by way of their log-mel frames, on
//! one thread. An item is a second of audio, so `1 / items per second` is the real-time factor.
//!
//!     cargo bench -p voxmill-audio --bench vocoder

mod common;

use std::path::PathBuf;

use divan::Bencher;
use divan::counter::ItemsCount;
use voxmill_audio::{AudioSettings, Featurizer, GriffinLim, ITERATIONS, LogMel};

fn main() {
    print_distances();
    divan::main();
}

/// The log-mel frames of the clips.
fn clips() -> Vec<Vec<f32>> {
    let mut featurizer = Featurizer::new(&AudioSettings::default()).expect("valid defaults");
    let mut log_mel = |path: &PathBuf| featurizer.featurize(path).expect("a readable clip").mel;
    common::clips().iter().map(&mut log_mel).collect()
}

/// How far the copies' log-mel frames are from the originals', after some numbers of rounds: the
/// mean difference in natural logarithms, and the spectral convergence (the difference of the mel
/// magnitudes as a share of the original's, both as root of the sum of squares).
#[expect(clippy::print_stdout, reason = "a bench reports on stdout")]
fn print_distances() {
    let clips = clips();
    let settings = AudioSettings::default();
    let mut vocoder = GriffinLim::new(&settings).expect("valid defaults");
    let mut log_mel = LogMel::new(&settings).expect("valid defaults");
    println!("copies of {} clips", clips.len());
    println!("rounds  mean |Δ ln|  spectral convergence");
    for iterations in [0, 8, ITERATIONS, 64] {
        let (mut off, mut values) = (0.0, 0);
        let (mut difference, mut energy) = (0.0, 0.0);
        let mut copy = Vec::new();
        for clip in &clips {
            log_mel.log_mel(&vocoder.reconstruct(clip, iterations), &mut copy);
            values += clip.len();
            for (was, is) in clip.iter().zip(&copy) {
                let (was, is) = (f64::from(*was), f64::from(*is));
                off += (was - is).abs();
                difference += (was.exp() - is.exp()).powi(2);
                energy += was.exp().powi(2);
            }
        }
        let convergence = (difference / energy).sqrt();
        println!(
            "{iterations:6}  {:11.4}  {convergence:.4}",
            off / values as f64
        );
    }
}

#[divan::bench(args = [0, ITERATIONS], sample_count = 10)]
fn reconstruct(bencher: Bencher<'_, '_>, iterations: usize) {
    let clips = clips();
    let frames: usize = clips.iter().map(|clip| clip.len() / 80).sum();
    let seconds = frames * 256 / 22_050;
    let mut vocoder = GriffinLim::new(&AudioSettings::default()).expect("valid defaults");
    bencher.counter(ItemsCount::new(seconds)).bench_local(|| {
        for clip in &clips {
            divan::black_box(vocoder.reconstruct(clip, iterations));
        }
    });
}
