//! A batch on its way to the model: from lists on the host to tensors on the device, normalised.
//!
//! With two devices the data device does the work and the model device gets the result. The code is
//! the same with one: then both are the same device.

mod augment;
mod mel;
#[cfg(test)]
mod tests;
mod transfer;

use std::ops::Range;
use std::sync::Arc;

use burn::tensor::{Device, Int, Tensor, TensorData};
use rayon::ThreadPool;
use voxmill_audio::AudioSettings;
use voxmill_data::batch::{Batch, Sound};
use voxmill_data::batch_plan::{Position, Shape};
pub use voxmill_text::LANGUAGE_IDS as LANGUAGES;

pub use augment::Augment;
pub(crate) use mel::FramesOnDevice;
pub use transfer::{Transfer, time_transfer};
pub use voxmill_data::store::MelStatistics;

use crate::align::Lengths;
use crate::device;
use crate::model::Spans;
use augment::Augmenter;

/// What a loss is divided by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub frames: u64,
    pub tokens: u64,
}

impl Counts {
    /// Valid ones alone: padding counts nothing.
    pub fn of(batch: &Batch) -> Self {
        let sum = |counts: &[u32]| counts.iter().copied().map(u64::from).sum();
        Self {
            frames: sum(&batch.frame_counts),
            tokens: sum(&batch.token_counts),
        }
    }
}

impl std::ops::Add for Counts {
    type Output = Counts;

    fn add(self, other: Counts) -> Counts {
        Counts {
            frames: self.frames + other.frames,
            tokens: self.tokens + other.tokens,
        }
    }
}

impl std::ops::Mul<u64> for Counts {
    type Output = Counts;

    fn mul(self, times: u64) -> Counts {
        Counts {
            frames: self.frames * times,
            tokens: self.tokens * times,
        }
    }
}

/// A batch on the model device, ready to be trained on.
#[derive(Clone, Debug)]
pub struct ReadyBatch {
    pub position: Position,
    pub shape: Shape,
    /// The plan's number of each row's clip; `None` is a masked row.
    pub clips: Vec<Option<usize>>,
    pub speakers: Vec<u32>,
    pub counts: Counts,
    pub(crate) prepared: Prepared,
}

impl ReadyBatch {
    /// Until the device has it, whoever asked for it; in the device's words where it failed.
    pub fn wait(&self) -> Result<(), String> {
        let Prepared { mel, reference, .. } = &self.prepared;
        let sums = [mel, reference].map(|sound| sound.clone().sum());
        device::without_panic(|| device::read(Tensor::cat(sums.to_vec(), 0))).map(|_| ())
    }

    /// The same batch, to be asked for once by the thread that trains with it. Where kernels are fused, each use of a
    /// tensor that another thread has made is a question to the thread that launches them, and waits for the answer;
    /// uses of this copy are not.
    pub(crate) fn adopted(self) -> ReadyBatch {
        self.clone()
    }

    /// The same rows in this many batches, of equal size except for the last ones; at least one row in each.
    pub(crate) fn split(&self, parts: usize) -> Vec<ReadyBatch> {
        let rows = self.clips.len();
        let of_one = rows.div_ceil(parts.max(1)).max(1);
        let parts = (0..rows)
            .step_by(of_one)
            .map(|first| first..rows.min(first + of_one));
        parts.map(|rows| self.of_rows(rows)).collect()
    }

    fn of_rows(&self, rows: Range<usize>) -> ReadyBatch {
        let lengths = self.prepared.lengths[rows.clone()].to_vec();
        ReadyBatch {
            position: self.position,
            shape: Shape {
                rows: rows.len() as u32,
                ..self.shape
            },
            clips: self.clips[rows.clone()].to_vec(),
            speakers: self.speakers[rows.clone()].to_vec(),
            counts: Counts {
                frames: lengths.iter().map(|row| row.frames as u64).sum(),
                tokens: lengths.iter().map(|row| row.tokens as u64).sum(),
            },
            prepared: self.prepared.of_rows(rows, lengths),
        }
    }
}

/// A batch as the model takes it.
#[derive(Clone, Debug)]
pub(crate) struct Prepared {
    pub(crate) lengths: Vec<Lengths>,
    pub(crate) tokens: Tensor<2, Int>,
    pub(crate) token_spans: Spans,
    pub(crate) languages: Tensor<1, Int>,
    pub(crate) mel: Tensor<3>,
    pub(crate) frame_spans: Spans,
    pub(crate) reference: Tensor<3>,
    pub(crate) reference_spans: Spans,
}

/// With zeros in place of padding.
pub(crate) fn normalise(by: MelStatistics, mel: Tensor<3>, spans: &Spans) -> Tensor<3> {
    (mel - by.mean) * (1.0 / by.deviation) * spans.mask()
}

pub(crate) fn denormalise(by: MelStatistics, mel: Tensor<3>) -> Tensor<3> {
    mel * by.deviation + by.mean
}

/// How batches come to the model device by way of the data device. Neither carries gradients: these
/// are inputs.
#[derive(Clone, Debug)]
pub struct Preparation {
    pub data: Device,
    pub model: Device,
    pub statistics: MelStatistics,
    pub audio: AudioSettings,
    /// Changes references a little, each time differently, by the seed.
    pub augment: Augment,
    pub seed: u64,
}

impl Preparation {
    /// To be made on the thread that does all the preparing: each device keeps work in the order of
    /// the thread that asked for it, and the model's own work then never waits behind a transfer.
    pub fn preparer(&self) -> Preparer {
        let augmenter = (self.augment != Augment::default())
            .then(|| Augmenter::new(self.augment, self.seed, &self.audio, &self.data));
        Preparer {
            how: self.clone(),
            frames: None,
            augmenter,
            lane: None,
            copies: false,
        }
    }
}

/// Does it.
#[derive(Debug)]
pub struct Preparer {
    how: Preparation,
    /// Made when the first batch of samples comes.
    frames: Option<FramesOnDevice>,
    augmenter: Option<Augmenter>,
    lane: Option<Arc<ThreadPool>>,
    copies: bool,
}

impl Preparer {
    /// Where the data device is the CPU: computes on these threads.
    pub fn in_lane(mut self, lane: Arc<ThreadPool>) -> Self {
        self.lane = Some(lane);
        self
    }

    /// Where both devices are the CPU: two real devices would have to copy, so these do.
    pub fn copying(mut self) -> Self {
        self.copies = true;
        self
    }

    /// The work is asked for and set going, not waited for.
    pub fn prepare(&mut self, batch: Batch) -> ReadyBatch {
        if batch.sound.framing().is_some() && self.frames.is_none() {
            self.frames = Some(FramesOnDevice::new(&self.how.audio, &self.how.data));
        }
        let (position, shape) = (batch.position, batch.shape);
        let (clips, speakers) = (batch.clips.clone(), batch.speakers.clone());
        let counts = Counts::of(&batch);
        let mut prepared = match &self.lane {
            Some(lane) => lane.install(|| self.on_data_device(batch)),
            None => self.on_data_device(batch),
        };
        let Preparation { data, model, .. } = &self.how;
        if data != model {
            // From this thread, whatever the lane: a device keeps to the threads that it knows.
            prepared = prepared.to_device(model);
            set_going(model);
        } else if self.copies {
            prepared = prepared.copied();
        }
        set_going(data);
        ReadyBatch {
            position,
            shape,
            clips,
            speakers,
            counts,
            prepared,
        }
    }

    fn on_data_device(&self, batch: Batch) -> Prepared {
        let Preparation {
            data, statistics, ..
        } = &self.how;
        let changes = self.augmenter.as_ref().map(|a| a.draw(&batch));
        let mut prepared = prepare(batch, *statistics, self.frames.as_ref(), data);
        if let (Some(augmenter), Some(changes)) = (&self.augmenter, changes) {
            let spans = &prepared.reference_spans;
            prepared.reference = augmenter.apply(prepared.reference, spans, &changes, *statistics);
        }
        prepared
    }
}

/// What a device was asked for must not lie in a queue until somebody asks for more. A device that
/// failed reports it where its results are read.
fn set_going(device: &Device) {
    let _ = device.flush();
}

impl Prepared {
    fn to_device(&self, device: &Device) -> Prepared {
        Prepared {
            lengths: self.lengths.clone(),
            tokens: self.tokens.clone().to_device(device),
            token_spans: self.token_spans.to_device(device),
            languages: self.languages.clone().to_device(device),
            mel: self.mel.clone().to_device(device),
            frame_spans: self.frame_spans.to_device(device),
            reference: self.reference.clone().to_device(device),
            reference_spans: self.reference_spans.to_device(device),
        }
    }

    fn of_rows(&self, rows: Range<usize>, lengths: Vec<Lengths>) -> Prepared {
        let (first, count) = (rows.start, rows.len());
        Prepared {
            lengths,
            tokens: self.tokens.clone().narrow(0, first, count),
            token_spans: self.token_spans.of_rows(rows.clone()),
            languages: self.languages.clone().narrow(0, first, count),
            mel: self.mel.clone().narrow(0, first, count),
            frame_spans: self.frame_spans.of_rows(rows.clone()),
            reference: self.reference.clone().narrow(0, first, count),
            reference_spans: self.reference_spans.of_rows(rows),
        }
    }

    /// In other memory.
    fn copied(&self) -> Prepared {
        fn copy<const D: usize>(tensor: &Tensor<D>) -> Tensor<D> {
            let data = TensorData::new(device::read(tensor.clone()), tensor.shape());
            Tensor::from_data(data, &tensor.device())
        }
        fn copy_ids<const D: usize>(tensor: &Tensor<D, Int>) -> Tensor<D, Int> {
            let values: Vec<i32> = tensor.to_data().iter::<i32>().collect();
            Tensor::from_data(TensorData::new(values, tensor.shape()), &tensor.device())
        }
        Prepared {
            tokens: copy_ids(&self.tokens),
            languages: copy_ids(&self.languages),
            mel: copy(&self.mel),
            reference: copy(&self.reference),
            ..self.clone()
        }
    }
}

/// On one device, which carries no gradients. `frames` makes log-mel frames of samples, where the
/// batch has those.
pub(crate) fn prepare(
    batch: Batch,
    statistics: MelStatistics,
    frames: Option<&FramesOnDevice>,
    device: &Device,
) -> Prepared {
    let rows = batch.clips.len();
    let channels = usize::from(batch.mel_channels);
    let (tokens, frame_count) = (batch.shape.tokens as usize, batch.shape.frames as usize);
    let reference_frames = batch.reference_frames as usize;
    let lengths = (batch.token_counts.iter().zip(&batch.frame_counts))
        .map(|(&tokens, &frames)| Lengths {
            tokens: tokens as usize,
            frames: frames as usize,
        })
        .collect();
    let frame_spans = Spans::new(&batch.frame_counts, frame_count, device);
    let reference_spans = Spans::new(&batch.reference_counts, reference_frames, device);
    let log_mel = |values: Vec<f32>, time: usize| {
        Tensor::<3>::from_data(TensorData::new(values, [rows, time, channels]), device)
    };
    let (mel, reference) = match batch.sound {
        Sound::LogMel { frames, reference } => (
            log_mel(frames, frame_count),
            log_mel(reference, reference_frames),
        ),
        Sound::Samples {
            rows: samples,
            reference,
            ..
        } => {
            let frames = frames.expect("samples come only where frames are made of them");
            (
                frames.of_samples(samples, rows, frame_count),
                frames.of_samples(reference, rows, reference_frames),
            )
        }
    };
    let ids: Vec<i32> = batch.tokens.iter().map(|&id| i32::from(id)).collect();
    let languages = batch.languages.iter().map(|language| language.id() as i32);
    let languages: Vec<i32> = languages.collect();
    Prepared {
        lengths,
        tokens: Tensor::from_data(TensorData::new(ids, [rows, tokens]), device),
        token_spans: Spans::new(&batch.token_counts, tokens, device),
        languages: Tensor::from_data(TensorData::new(languages, [rows]), device),
        mel: normalise(statistics, mel, &frame_spans),
        frame_spans,
        reference: normalise(statistics, reference, &reference_spans),
        reference_spans,
    }
}
