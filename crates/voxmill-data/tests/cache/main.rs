//! The cache from outside: what it promises, under everything that may happen to it.

#![expect(
    clippy::unwrap_used,
    reason = "a test that meets the unexpected should stop there"
)]

mod behaviour;
mod damage;
mod full_disk;
mod kill;
mod memory;
mod model;
mod pyarrow;
mod race;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use voxmill_data::cache::{
    Added, AudioStamp, Cache, CacheError, CacheWriter, ClipView, FeatureSettings, Fingerprint,
    Hash128, WriterOptions,
};
use voxmill_data::features::{AudioFeatures, Levels, TextFeatures};
use voxmill_text::language::Language;

/// A synthetic clip whose every value follows from its id and version, so that what is read can be
/// checked against nothing but itself.
#[derive(Clone, Debug, PartialEq)]
struct Synthetic {
    fingerprint: Fingerprint,
    text: TextFeatures,
    audio: AudioFeatures,
}

impl Synthetic {
    fn new(id: &str, version: i64, frames: usize) -> Self {
        let seed = Hash128::of(format!("{id} {version}").as_bytes());
        let mut state = u64::from_le_bytes(seed.0[..8].try_into().unwrap());
        let mut next = || {
            state = next_random(state);
            (state >> 40) as u32
        };
        let languages = [Language::English, Language::Persian, "ckb".parse().unwrap()];
        let raw = format!("text {version} of {id}: سلام");
        Synthetic {
            fingerprint: Fingerprint {
                audio: AudioStamp {
                    bytes: u64::from(next()),
                    modified_ns: version,
                    content: (version % 2 == 0).then_some(seed),
                },
                text: Hash128::of_text(&raw, None),
            },
            text: TextFeatures {
                language: languages[next() as usize % 3],
                normalized: raw,
                tokens: (0..next() % 40).map(|_| next() as u16).collect(),
            },
            audio: AudioFeatures {
                mel: Vec::from_iter((0..frames * 80).map(|_| next() as f32 * 1e-3 - 11.5)),
                mel_channels: 80,
                levels: Levels {
                    peak: 0.5,
                    rms_dbfs: [f32::NEG_INFINITY, -20.0, -20.0][version as usize % 3],
                    clipped_share: 0.0,
                },
            },
        }
    }

    fn view(&self) -> ClipView<'_> {
        ClipView::new(&self.text, &self.audio)
    }
}

fn next_random(state: u64) -> u64 {
    state
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1)
}

fn settings() -> FeatureSettings {
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    FeatureSettings {
        audio: BTreeMap::from([pair("hop_length", "256"), pair("n_mels", "80")]),
        text: BTreeMap::from([pair("lexicon", "none")]),
    }
}

fn small_shards(shard_clips: usize) -> WriterOptions {
    WriterOptions {
        shard_clips,
        ..WriterOptions::default()
    }
}

fn try_writer(dir: impl AsRef<Path>, shard_clips: usize) -> Result<CacheWriter, CacheError> {
    CacheWriter::open(dir.as_ref(), settings(), small_shards(shard_clips))
}

fn writer(dir: impl AsRef<Path>, shard_clips: usize) -> CacheWriter {
    try_writer(dir, shard_clips).unwrap()
}

/// Adds the synthetic clip.
fn add(writer: &mut CacheWriter, id: &str, version: i64, frames: usize) -> Added {
    let clip = Synthetic::new(id, version, frames);
    writer.add(id, &clip.fingerprint, clip.view()).unwrap()
}

fn open(dir: impl AsRef<Path>) -> Cache {
    Cache::open(dir.as_ref()).unwrap()
}

/// The cache has the synthetic clip, bit for bit.
#[track_caller]
fn assert_holds(cache: &Cache, id: &str, version: i64, frames: usize) {
    let clip = cache.get(id).unwrap().unwrap();
    assert_eq!(clip, Synthetic::new(id, version, frames).view(), "{id}");
}

#[track_caller]
fn assert_all_hold(cache: &Cache, version: i64, frames: usize) {
    for (id, _) in cache.entries() {
        assert_holds(cache, id, version, frames);
    }
}

/// A folder in memory where there is one: these tests sync thousands of times.
fn fast_dir() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    match memory.is_dir() {
        true => tempfile::tempdir_in(memory).unwrap(),
        false => tempfile::tempdir().unwrap(),
    }
}

/// Names of the files that begin so, sorted.
fn files(dir: impl AsRef<Path>, prefix: &str) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(dir.as_ref())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.starts_with(prefix))
        .collect();
    names.sort();
    names
}

/// Another process that runs one of the ignored tests of this binary.
fn child(test: &str, dir: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([test, "--exact", "--ignored", "--nocapture"]);
    command.env(CHILD_DIR, dir);
    command
}

const CHILD_DIR: &str = "VOXMILL_CACHE_TEST_DIR";

fn child_dir() -> std::path::PathBuf {
    std::env::var_os(CHILD_DIR)
        .expect("this test is the child of another one; run that")
        .into()
}
