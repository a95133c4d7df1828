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
    AudioStamp, CacheWriter, ClipView, FeatureSettings, Fingerprint, Hash128, WriterOptions,
};
use voxmill_data::features::{AudioFeatures, Levels, TextFeatures};
use voxmill_text::language::Language;

/// A clip whose every value follows from its id and version, so that what is read can be checked
/// against nothing but itself.
#[derive(Clone, Debug, PartialEq)]
struct Made {
    fingerprint: Fingerprint,
    text: TextFeatures,
    audio: AudioFeatures,
}

impl Made {
    fn new(id: &str, version: i64, frames: usize) -> Self {
        let seed = Hash128::of(format!("{id} {version}").as_bytes());
        let mut state = u64::from_le_bytes(seed.0[..8].try_into().unwrap());
        let mut next = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 40) as u32
        };
        let languages = [Language::English, Language::Persian, "ckb".parse().unwrap()];
        let raw = format!("text {version} of {id}: سلام");
        Made {
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
                mel: (0..frames * 80)
                    .map(|_| next() as f32 * 1e-3 - 11.5)
                    .collect(),
                mel_channels: 80,
                levels: Levels {
                    peak: 0.5,
                    rms_dbfs: if version % 3 == 0 {
                        f32::NEG_INFINITY
                    } else {
                        -20.0
                    },
                    clipped_share: 0.0,
                },
            },
        }
    }

    fn view(&self) -> ClipView<'_> {
        ClipView::new(&self.text, &self.audio)
    }
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

fn writer(dir: &Path, shard_clips: usize) -> CacheWriter {
    CacheWriter::open(dir, settings(), small_shards(shard_clips)).unwrap()
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
fn files(dir: &Path, prefix: &str) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(dir)
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
