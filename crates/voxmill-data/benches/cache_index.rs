//! What a second run on LJ Speech pays before it can start: opening a cache of 13,100 clips and
//! asking of each whether it is fresh. Run with `cargo bench -p voxmill-data --bench cache_index`.

use std::sync::LazyLock;

use divan::{Bencher, black_box};
use voxmill_data::cache::{
    AudioStamp, Cache, CacheWriter, ClipView, FeatureSettings, Fingerprint, Freshness, Hash128,
    WriterOptions,
};
use voxmill_data::features::Levels;
use voxmill_text::language::Language;

const CLIPS: usize = 13_100;
/// As many shards as 64 MB each would make of LJ Speech.
const CLIPS_A_SHARD: usize = 370;

fn main() {
    divan::main();
}

fn id(number: usize) -> String {
    format!("LJ{:03}-{:04}", number / 260 + 1, number % 260)
}

fn fingerprint(number: usize) -> Fingerprint {
    Fingerprint {
        audio: AudioStamp {
            bytes: 300_000 + number as u64,
            modified_ns: 1_500_000_000_000_000_000 + number as i64,
            content: Some(Hash128::of(&number.to_le_bytes())),
        },
        text: Hash128::of_text(&id(number), None),
    }
}

fn settings() -> FeatureSettings {
    let names = "sample_rate n_fft hop_length n_mels f_min f_max trim".split(' ');
    let named = names.map(|name| (name.to_owned(), "256".to_owned()));
    FeatureSettings {
        audio: named.collect(),
        text: Default::default(),
    }
}

/// The mel is short: opening does not touch it.
static FOLDER: LazyLock<tempfile::TempDir> = LazyLock::new(|| {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let options = WriterOptions {
        shard_clips: CLIPS_A_SHARD,
        ..WriterOptions::default()
    };
    let mut writer = CacheWriter::open(dir.path(), settings(), options).expect("a new cache");
    fill(&mut writer, CLIPS, &[-5.0; 10 * 80]);
    dir
});

fn fill(writer: &mut CacheWriter, clips: usize, mel: &[f32]) {
    let clip = ClipView {
        language: Language::English,
        normalized: "in being comparatively modern.",
        tokens: &[7; 100],
        mel,
        mel_channels: 80,
        levels: Levels {
            peak: 0.7,
            rms_dbfs: -22.0,
            clipped_share: 0.0,
        },
    };
    for number in 0..clips {
        let added = writer.add(&id(number), &fingerprint(number), clip);
        added.expect("room on disk");
    }
    writer.commit().expect("room on disk");
}

#[divan::bench]
fn open(bencher: Bencher<'_, '_>) {
    let dir = FOLDER.path();
    bencher.bench(|| {
        let cache = Cache::open(dir).expect("a valid cache");
        assert_eq!(cache.len(), CLIPS);
        cache
    });
}

#[divan::bench]
fn freshness_of_all(bencher: Bencher<'_, '_>) {
    let cache = Cache::open(FOLDER.path()).expect("a valid cache");
    let clips: Vec<_> = (0..CLIPS).map(|n| (id(n), fingerprint(n))).collect();
    let settings = settings();
    bencher.bench(|| {
        for (id, print) in &clips {
            assert_eq!(cache.freshness(id, print, &settings), Freshness::Reuse);
        }
    });
}

/// Every shard is checked already: what a training step pays per clip, without the page faults.
#[divan::bench]
fn get_all(bencher: Bencher<'_, '_>) {
    let cache = Cache::open(FOLDER.path()).expect("a valid cache");
    cache.check_shards();
    let ids: Vec<String> = (0..CLIPS).map(id).collect();
    bencher.bench(|| {
        for id in &ids {
            let clip = cache.get(id).expect("a whole shard");
            black_box(clip.expect("a known clip").mel[0]);
        }
    });
}

/// The first read of a shard of 64 MB, warm in the page cache: mapping it and hashing all of it.
#[divan::bench]
fn check_a_shard_of_64_mb(bencher: Bencher<'_, '_>) {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let mut writer =
        CacheWriter::open(dir.path(), settings(), WriterOptions::default()).expect("a new cache");
    fill(&mut writer, 250, &[-5.0; 800 * 80]);
    bencher
        .counter(divan::counter::BytesCount::of_many::<f32>(250 * 800 * 80))
        .with_inputs(|| Cache::open(dir.path()).expect("a valid cache"))
        .bench_refs(|cache| cache.check_shards());
}
