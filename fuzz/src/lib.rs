//! What is read from others, as one function of bytes for each kind of file.
//!
//! A [`Target`] puts bytes where the program would find them and reads them as the program does. It must come
//! back, with features or with an error: no panic, no abort, not more memory or time than a bound allows. The
//! runner (`tests/fuzz`) gives it inputs.
//!
//! What a target returns says in a few words what became of the input. The runner keeps an input whose words are
//! new, and changes it further.

mod audio;
mod cache;
mod checkpoint;
mod log;
mod place;
mod settings;
mod text;

use std::path::{Path, PathBuf};

pub use place::FuzzFolder;

/// A kind of input, and what reads it.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    pub name: &'static str,
    /// Reads an input as the program does, and says what became of it.
    pub read: fn(&FuzzFolder, &[u8]) -> String,
    /// Inputs do not grow beyond this: what takes long because it is long says nothing.
    pub longest: usize,
    /// Inputs to begin with, in addition to those of the corpus: they follow the formats when these change.
    seeds: fn(&FuzzFolder) -> Vec<Vec<u8>>,
}

fn no_seeds(_: &FuzzFolder) -> Vec<Vec<u8>> {
    Vec::new()
}

const LONG: usize = 64 << 10;
/// Of texts each word is read by a model.
const SHORT: usize = 4 << 10;

#[rustfmt::skip]
pub const TARGETS: [Target; 12] = [
    Target { name: "manifest", read: audio::read_manifest, longest: LONG, seeds: audio::manifest_seeds },
    Target { name: "config", read: settings::read_config, longest: LONG, seeds: settings::config_seeds },
    Target { name: "wav", read: audio::read_wav, longest: LONG, seeds: audio::wav_seeds },
    Target { name: "flac", read: audio::read_flac, longest: LONG, seeds: audio::flac_seeds },
    Target { name: "ogg", read: audio::read_ogg, longest: LONG, seeds: audio::ogg_seeds },
    Target { name: "mp3", read: audio::read_mp3, longest: LONG, seeds: audio::mp3_seeds },
    Target { name: "shard", read: cache::read_shard, longest: LONG, seeds: cache::shard_seeds },
    Target { name: "index", read: cache::read_index, longest: LONG, seeds: cache::index_seeds },
    Target { name: "checkpoint", read: checkpoint::read_checkpoint, longest: LONG, seeds: checkpoint::checkpoint_seeds },
    Target { name: "log", read: log::read_log, longest: LONG, seeds: no_seeds },
    Target { name: "lexicon", read: text::read_lexicon, longest: SHORT, seeds: no_seeds },
    Target { name: "text", read: text::read_text, longest: SHORT, seeds: text::text_seeds },
];

impl Target {
    pub fn named(name: &str) -> Option<Target> {
        TARGETS.into_iter().find(|target| target.name == name)
    }

    /// Where inputs are kept: small ones to begin with, and every one that once failed.
    pub fn corpus_folder(&self) -> PathBuf {
        project_root().join("fuzz/corpus").join(self.name)
    }

    /// The inputs of the corpus by their names, then the seeds.
    pub fn inputs(&self, place: &FuzzFolder) -> anyhow::Result<Vec<(String, Vec<u8>)>> {
        let mut inputs = Vec::new();
        // Without a folder where the seeds are enough so far.
        let files = std::fs::read_dir(self.corpus_folder());
        for entry in files.into_iter().flatten() {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            inputs.push((name.into_owned(), std::fs::read(&path)?));
        }
        inputs.sort();
        let seeds = (self.seeds)(place).into_iter().enumerate();
        inputs.extend(seeds.map(|(number, seed)| (format!("seed {number}"), seed)));
        Ok(inputs)
    }
}

fn project_root() -> &'static Path {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here)
}

/// A message without the numbers, hashes and quoted names in it, so that equal faults are equal.
fn kind(message: &dyn std::fmt::Display) -> String {
    let message = message.to_string();
    let unquoted = message.split('`').step_by(2);
    let words = unquoted.flat_map(|part| part.split(|c: char| !c.is_alphanumeric()));
    let plain = words.filter(|word| word.chars().all(char::is_alphabetic));
    plain.take(16).collect::<Vec<_>>().join(" ")
}

/// An order of magnitude: counts that differ by less are the same to the runner.
fn size(count: usize) -> u32 {
    count.checked_ilog2().map_or(0, |size| size + 1)
}
