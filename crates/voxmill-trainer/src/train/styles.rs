//! How each speaker sounds: the mean style over some of their clips, for speaking without a
//! reference.

use std::collections::BTreeMap;

use burn::tensor::{Device, Tensor};

use crate::device::read;
use crate::model::{Spans, Voice};
use crate::prepare::ReadyBatch;

/// Excerpts that are kept of all speakers together: 2,000 of 1.5 s are about 80 MB.
const MOST: usize = 2_000;
const MOST_PER_SPEAKER: usize = 16;

/// Keeps the first few reference excerpts of each speaker that come by, on the device.
#[derive(Debug)]
pub(super) struct Styles {
    per_speaker: usize,
    kept: BTreeMap<u32, Vec<Excerpt>>,
}

#[derive(Debug)]
struct Excerpt {
    /// 1 × time × channels, normalised.
    mel: Tensor<3>,
    frames: u32,
}

/// Of each speaker, at the most.
pub(crate) fn excerpts_per_speaker(speakers: usize) -> usize {
    (MOST / speakers.max(1)).clamp(1, MOST_PER_SPEAKER)
}

impl Styles {
    pub(super) fn new(speakers: usize) -> Self {
        Self {
            per_speaker: excerpts_per_speaker(speakers),
            kept: BTreeMap::new(),
        }
    }

    pub(super) fn add(&mut self, batch: &ReadyBatch) {
        let reference = &batch.prepared.reference;
        let lengths = batch.prepared.reference_spans.lengths();
        for (row, &speaker) in batch.speakers.iter().enumerate() {
            let of_speaker = self.kept.entry(speaker).or_default();
            if lengths[row] > 0 && of_speaker.len() < self.per_speaker {
                of_speaker.push(Excerpt {
                    // A sum makes a tensor of its own: a part would keep the whole batch alive.
                    mel: reference.clone().narrow(0, row, 1) + 0.0,
                    frames: lengths[row] as u32,
                });
            }
        }
    }

    /// The mean style of each speaker so far.
    pub(super) fn means(&self, model: &Voice, device: &Device) -> Vec<(usize, Vec<f32>)> {
        let means = self.kept.iter().filter_map(|(&speaker, excerpts)| {
            let first = excerpts.first()?;
            let [_, time, _] = first.mel.dims();
            let lengths: Vec<u32> = excerpts.iter().map(|excerpt| excerpt.frames).collect();
            let mel = excerpts.iter().map(|excerpt| excerpt.mel.clone());
            let spans = Spans::new(&lengths, time, device);
            let styles = model.style(Tensor::cat(mel.collect(), 0), &spans);
            Some((speaker as usize, mean_of_finite(styles)?))
        });
        means.collect()
    }
}

/// A single number that is not finite would spoil the mean: such rows are left out.
fn mean_of_finite(styles: Tensor<2>) -> Option<Vec<f32>> {
    let [_, size] = styles.dims();
    let values = read(styles);
    let fine = |row: &&[f32]| row.iter().all(|value| value.is_finite());
    let rows: Vec<&[f32]> = values.chunks_exact(size).filter(fine).collect();
    let mean = |at: usize| rows.iter().map(|row| row[at]).sum::<f32>() / rows.len() as f32;
    (!rows.is_empty()).then(|| (0..size).map(mean).collect())
}
