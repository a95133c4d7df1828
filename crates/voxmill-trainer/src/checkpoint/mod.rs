//! A run on disk: the voice, and all that is needed to resume as if nothing had happened.
//!
//! ```text
//! checkpoints/
//!   step-000001200/
//!     checkpoint.json        everything that is not a tensor, with the hashes of all three
//!     voice.safetensors      the weights to speak with (their running mean), by their paths;
//!                            with checkpoint.json it is a voice that can be handed on
//!     training.safetensors   weight/…, first/…, second/… by the same paths; updates; lengths; loss_scale
//!     alignments.safetensors durations of clips, where a run keeps them: on a GPU
//!   best.json                which of them had the lowest loss on the held-out clips
//! ```
//!
//! A checkpoint is written under another name, synced and renamed: it is there as a whole or not
//! at all. All tensors are 32-bit floats, row after row; a matrix is inputs × outputs. Durations are whole numbers.

mod durations;
mod files;
mod ownership;
mod place;
#[cfg(test)]
mod tests;
mod untrusted;
mod weights;
mod writer;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Instant;

use burn::tensor::Device;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use voxmill_audio::AudioSettings;
use voxmill_data::batch_plan::Position;
use voxmill_text::symbols::SymbolTable;

pub(crate) use files::Written;
pub use files::{Checkpoints, FoundCheckpoint};
pub use ownership::RUN_ID;
pub use place::KnownFolder;
pub(crate) use writer::{CheckpointWriter, NotWritten};

use crate::device::Precision;
use crate::model::{ModelShape, ModelSize, Vocabulary, Voice};
use crate::optimizer::OptimizerState;
use crate::prepare::MelStatistics;
use crate::train::Settling;
use files::StoredFacts;
use weights::HostTensor;

/// Changes when a program that reads the old layout would misread the new one, or take it for damaged. Older ones
/// are read.
pub const CHECKPOINT_VERSION: u32 = 2;
/// Of a checkpoint without alignments, which older programs read as well.
const WITHOUT_ALIGNMENTS: u32 = 1;

pub(crate) const JSON: &str = "checkpoint.json";
const VOICE: &str = "voice.safetensors";
const TRAINING: &str = "training.safetensors";
const ALIGNMENTS: &str = "alignments.safetensors";

/// What a voice is, apart from its weights.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VoiceFacts {
    pub size: ModelSize,
    pub shape: ModelShape,
    pub vocabulary: Vocabulary,
    pub symbols: SymbolTable,
    pub audio: AudioSettings,
    pub mel_statistics: MelStatistics,
    /// How much longer the training clips are than their predicted durations: predictions of
    /// logarithms come out short.
    pub length_scale: f64,
    /// The mean style of each speaker, by name.
    pub speakers: BTreeMap<String, Vec<f32>>,
    /// The speaker with the most clips.
    pub main_speaker: String,
    /// Languages that were trained on, by code, and who has the most clips in each. Empty where an older program
    /// wrote it: then nothing is known of them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub languages: BTreeMap<String, String>,
    /// How the recordings sound, which speech is scaled to. Older programs stored nothing of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recordings: Option<Recordings>,
}

/// What a model does not say of the recordings that it learnt from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Recordings {
    /// The median of their integrated loudness.
    pub loudness_lufs: f32,
    /// The log-mel frame of a pause: the mean of their quietest frames.
    pub pause: Vec<f32>,
}

/// Where a run stands.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// Steps done; the next one has this number.
    pub step: u64,
    /// Time spent training, over all starts of the run.
    pub seconds: f64,
    /// The next batch.
    pub position: Position,
    /// The same as the feed counts it, batches done out of turn included.
    pub feed: Value,
    /// Of the last validation and of the best one.
    pub validation: Option<f64>,
    pub best: Option<Best>,
    /// Validations since the best one.
    pub since_best: u32,
    /// Steps that did not count because their gradients were not finite.
    pub bad_steps: u64,
}

/// The validation that was best so far.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Best {
    pub step: u64,
    pub loss: f64,
}

/// All of a checkpoint that is not a tensor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CheckpointFacts {
    pub voice: VoiceFacts,
    pub progress: Progress,
    /// The run's settings, as its program wrote them.
    pub settings: Value,
    /// Clips that were left out when the epoch began, by id.
    pub quarantine: Vec<String>,
    #[serde(flatten)]
    pub alignments: StoredAlignments,
    /// Where waveforms become frames: it changes their rounding, so a run keeps to it.
    pub prepare_on: PrepareOn,
    /// What the model was computed in.
    #[serde(default)]
    pub precision: Precision,
}

/// Where the search runs within the step, as on the CPU, they are empty. They have a file of their own
/// (`durations`); checkpoints of version 1 have them among the facts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StoredAlignments {
    /// Frames of each token of each clip, by the plan's numbers, as they were last found.
    #[serde(rename = "alignments", default, skip_serializing_if = "Vec::is_empty")]
    pub known: Vec<(usize, Vec<u32>)>,
    /// What the last step found; it counts from the step after the next one on.
    #[serde(rename = "pending_durations")]
    pub pending: Vec<PendingDurations>,
    /// Whether the alignments still move.
    #[serde(default)]
    pub settling: Settling,
}

/// Durations of one batch that wait to be used.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PendingDurations {
    /// The plan's number of each row's clip; `None` is a masked row.
    pub clips: Vec<Option<usize>>,
    pub durations: Vec<Vec<u32>>,
}

/// Where sound becomes log-mel frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PrepareOn {
    /// In the workers, or from the cache.
    #[default]
    Host,
    /// On the device that prepares batches.
    Data,
    /// On the device that trains.
    Model,
}

impl PrepareOn {
    /// In the order in which help texts name them.
    pub const ALL: [PrepareOn; 3] = [Self::Host, Self::Data, Self::Model];

    /// As it is typed.
    pub fn name(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::Data => "data",
            Self::Model => "model",
        }
    }
}

/// A run on its device, between two steps.
#[derive(Debug)]
pub(crate) struct TrainingState<'a> {
    pub(crate) model: &'a Voice,
    pub(crate) optimizer: &'a OptimizerState,
    /// Running sums of true and of predicted frames.
    pub(crate) lengths: [f32; 2],
    /// [`LossScale::stored`](crate::optimizer::LossScale::stored), of a run in f16.
    pub(crate) loss_scale: Option<[f32; 2]>,
}

/// A run on the host, ready to be written: nothing in it is the device's any more.
#[derive(Debug)]
pub(crate) struct Snapshot {
    begun: Instant,
    facts: CheckpointFacts,
    voice: Vec<HostTensor>,
    training: Vec<HostTensor>,
}

impl Snapshot {
    /// Waits for the device and copies all that training changes.
    pub(crate) fn of(facts: CheckpointFacts, state: &TrainingState<'_>) -> Self {
        let begun = Instant::now();
        let [voice, training] = weights::tensors(state);
        Self {
            begun,
            facts,
            voice,
            training,
        }
    }

    fn step(&self) -> u64 {
        self.facts.progress.step
    }
}

/// What a run resumes with.
#[derive(Debug)]
pub(crate) struct Restored {
    pub(crate) facts: CheckpointFacts,
    pub(crate) model: Voice,
    pub(crate) optimizer: OptimizerState,
    pub(crate) lengths: [f32; 2],
    pub(crate) loss_scale: Option<[f32; 2]>,
}

#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    #[error("cannot read `{}`", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("cannot write `{}`", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("cannot remove `{}`", path.display())]
    Remove { path: PathBuf, source: io::Error },
    #[error("there is no checkpoint in `{}`", .0.display())]
    None(PathBuf),
    #[error("`{}` is another run's", .0.display())]
    OfAnotherRun(PathBuf),
    #[error("`{}` is of version {found}; this program reads versions 1 to {CHECKPOINT_VERSION}", path.display())]
    Version { path: PathBuf, found: u32 },
    #[error("`{}` is damaged: {why}", path.display())]
    Damaged { path: PathBuf, why: String },
}

impl CheckpointError {
    fn damaged(path: &Path, why: impl ToString) -> Self {
        Self::Damaged {
            path: path.to_owned(),
            why: why.to_string(),
        }
    }
}

/// A folder with one checkpoint in it.
#[derive(Clone, Debug)]
pub struct CheckpointFolder {
    path: PathBuf,
    stored: StoredFacts,
}

impl CheckpointFolder {
    /// Reads what is not a tensor and checks that the rest is unharmed.
    pub fn open(path: &Path) -> Result<Self, CheckpointError> {
        let mut opened = Self::open_files(path, &[VOICE, TRAINING])?;
        opened.stored.read_alignments(path)?;
        Ok(opened)
    }

    /// The same for the voice alone, which can be handed on without what only training needs. Its facts then name no
    /// alignments.
    pub fn open_voice(path: &Path) -> Result<Self, CheckpointError> {
        Self::open_files(path, &[VOICE])
    }

    fn open_files(path: &Path, files: &[&str]) -> Result<Self, CheckpointError> {
        let stored = files::read(path, files)?;
        Ok(Self {
            path: path.to_owned(),
            stored,
        })
    }

    /// The folder that it is in.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// All of it that is not a tensor.
    pub fn facts(&self) -> &CheckpointFacts {
        &self.stored.facts
    }

    /// The voice alone, to speak with.
    pub fn voice(&self, device: &Device) -> Result<Voice, CheckpointError> {
        let (path, bytes) = self.read(VOICE)?;
        weights::load_voice(&self.stored.facts.voice, &path, &bytes, device)
    }

    /// Whether training could resume from it, without starting any.
    pub fn check_training(&self, device: &Device) -> Result<(), CheckpointError> {
        self.restore(device).map(drop)
    }

    pub(crate) fn restore(&self, device: &Device) -> Result<Restored, CheckpointError> {
        let files = [self.read(TRAINING)?, self.read(VOICE)?];
        weights::load_training(files, device, self.stored.facts.clone())
    }

    fn read(&self, name: &str) -> Result<(PathBuf, Vec<u8>), CheckpointError> {
        let path = self.path.join(name);
        let fitting = untrusted::file_bytes(&self.stored.facts.voice, name);
        let bytes = untrusted::read(&path, &fitting)?;
        Ok((path, bytes))
    }
}

/// A voice from the bytes of its two files. Hashes are not compared: they find damage, and who means harm
/// writes right ones.
pub(crate) fn voice_from_bytes(
    json: &[u8],
    voice: &[u8],
    device: &Device,
) -> Result<(VoiceFacts, Voice), CheckpointError> {
    let facts = StoredFacts::parse(json, Path::new(JSON))?.facts.voice;
    let path = Path::new(VOICE);
    untrusted::check_length(
        path,
        voice.len() as u64,
        &untrusted::file_bytes(&facts, VOICE),
    )?;
    let model = weights::load_voice(&facts, path, voice, device)?;
    Ok((facts, model))
}

/// About how much a checkpoint of a model takes on disk.
pub fn checkpoint_bytes(parameters: usize) -> u64 {
    // The voice, the weights and two moments; names and numbers are little next to them.
    4 * 4 * parameters as u64 + 1_000_000
}
