//! Rows of the plan: what the loader's stages do with each, and the bytes that it takes.

use std::ops::Range;
use std::sync::Arc;

use voxmill_audio::{Effort, Framing};
use voxmill_pipeline::group::Group;
use voxmill_text::language::Language;

use super::epochs::{Epochs, PlacedRow};
use crate::batch::{Batch, BatchForm, BatchRow, collate, crop, named_frames};
use crate::batch_plan::{BatchPlan, PlannedRow, Position, Shape};
use crate::featurize::{ClipFeaturizer, decoding_bytes, largest_bytes, lost};
use crate::manifest::Clip;
use crate::store::{BadClip, FeatureStore, NewAudio, mel_bytes};

/// What a row takes in addition to its values.
const ROW_BYTES: u64 = 256;

/// A worker's featurizer, and what it has computed and spent on one row.
struct RowWork<'a> {
    featurizer: &'a mut ClipFeaturizer,
    new: Vec<NewAudio>,
    efforts: Vec<Effort>,
}

/// What the stages share.
#[derive(Debug)]
pub(super) struct RowSource {
    pub(super) store: Arc<FeatureStore>,
    pub(super) plan: Arc<BatchPlan>,
    pub(super) epochs: Epochs,
    /// The store's number of each clip of the plan.
    pub(super) numbers: Arc<[usize]>,
    /// Of the samples in the batches; `None`: log-mel frames are in them.
    pub(super) framing: Option<Framing>,
    pub(super) too_long: usize,
}

/// A row between `featurize` and `collate`.
#[derive(Debug)]
pub(super) struct FeaturizedRow {
    number: u64,
    /// `None`: the clip is bad.
    features: Option<RowFeatures>,
    pub(super) new: Vec<NewAudio>,
    /// Of the row and of its part of the batch that it goes into.
    bytes: u64,
    /// Of what is new, as far as it was reserved: a clip that the cache seemed to have, in a shard that
    /// proves damaged, comes unforeseen and must not be lost for that.
    pub(super) new_bytes: u64,
}

#[derive(Debug)]
struct RowFeatures {
    tokens: Vec<u16>,
    language: Language,
    /// Both as they lie in a batch.
    sound: Vec<f32>,
    reference: Vec<f32>,
}

impl FeaturizedRow {
    pub(super) fn bytes(&self) -> u64 {
        self.bytes + self.new_bytes
    }
}

impl RowSource {
    pub(super) fn clip(&self, plan_clip: usize) -> &Clip {
        &self.store.clips()[self.numbers[plan_clip]]
    }

    pub(super) fn form(&self, position: Position, shape: Shape) -> BatchForm {
        BatchForm {
            position,
            shape,
            mel_channels: self.store.recipe().audio.n_mels as u16,
            reference_frames: self.plan.settings().reference_frames.get(),
            framing: self.framing,
        }
    }

    /// What a row is called where it is slow or fails: its clip, with what makes one slow.
    pub(super) fn name(&self, number: u64) -> String {
        let Some(row) = self.epochs.row(number).row else {
            return "no clip".to_owned();
        };
        let clip = self.clip(row.clip);
        let (id, seconds) = (&clip.id, clip.header.seconds());
        let kilohertz = f64::from(clip.header.sample_rate) / 1e3;
        format!("{id} ({seconds:.1} s, {kilohertz} kHz)")
    }

    pub(super) fn compute(
        &self,
        number: u64,
        featurizer: &mut ClipFeaturizer,
    ) -> (FeaturizedRow, Vec<Effort>) {
        let placed = self.epochs.row(number);
        // Not more than was reserved, for clips come into the cache and never leave it.
        let reserved = placed.row.map_or(0, |row| self.computing_bytes_of_row(row));
        let mut work = RowWork {
            featurizer,
            new: Vec::new(),
            efforts: Vec::new(),
        };
        let features = placed.row.map(|row| self.features(row, &placed, &mut work));
        let RowWork { new, efforts, .. } = work;
        let new_bytes: u64 = new.iter().map(|new| mel_bytes(&new.audio)).sum();
        let row = FeaturizedRow {
            number,
            features: features.and_then(Result::ok),
            new,
            new_bytes: new_bytes.min(reserved),
            bytes: self.row_bytes(placed.shape) + self.share(&placed),
        };
        (row, efforts)
    }

    fn features(
        &self,
        row: PlannedRow,
        placed: &PlacedRow,
        work: &mut RowWork<'_>,
    ) -> Result<RowFeatures, BadClip> {
        let shape = placed.shape;
        let layout = self.form(placed.position, shape).layout();
        let number = self.numbers[row.clip];
        // A file that changed since its header was read may be longer.
        let fitting = |count: usize| 0..count.min(shape.frames as usize);
        let sound = self.frames(number, layout, fitting, work)?;
        let (language, mut tokens) = self.store.tokens(number)?;
        tokens.truncate(shape.tokens as usize);
        let other = self.numbers[row.reference.clip];
        let of_itself = || crop(&sound, layout, row.reference).to_vec();
        let reference = if other == number {
            of_itself()
        } else {
            let named = |count| named_frames(row.reference, count);
            self.frames(other, layout, named, work)
                // The voice is the same: what a speaker's only clip does, this one can do.
                .unwrap_or_else(|BadClip| of_itself())
        };
        Ok(RowFeatures {
            tokens,
            language,
            sound,
            reference,
        })
    }

    /// Some of a clip's frames, as they lie in a batch; `which` of as many as there are.
    fn frames(
        &self,
        number: usize,
        layout: Framing,
        which: impl FnOnce(usize) -> Range<usize>,
        work: &mut RowWork<'_>,
    ) -> Result<Vec<f32>, BadClip> {
        let (store, featurizer) = (&self.store, &mut *work.featurizer);
        if self.framing.is_some() {
            let laid_out = store.with_waveform(number, featurizer, |samples| {
                layout.lay_out(samples, which(layout.frames_of_clip(samples.len())))
            })?;
            work.efforts.push(featurizer.effort);
            return Ok(laid_out);
        }
        let (frames, new) = store.with_mel(number, featurizer, |mel| {
            let frames = which(layout.frames_in(mel.len()));
            layout.under(mel, frames).to_vec()
        })?;
        work.efforts.extend(new.iter().map(|new| new.audio.effort));
        work.new.extend(new);
        Ok(frames)
    }

    pub(super) fn collate(&self, group: Group<FeaturizedRow>) -> Batch {
        let numbers = group.members.iter().map(|member| match member {
            Ok(row) => row.number,
            Err(gap) => gap.number,
        });
        let placed: Vec<PlacedRow> = numbers.map(|number| self.epochs.row(number)).collect();
        let first = placed.first().expect("a group has members");
        let form = self.form(first.position, first.shape);
        let rows = group.members.iter().zip(&placed).map(|(member, placed)| {
            let plan_clip = placed.row?.clip;
            match member {
                Ok(row) => row.features.as_ref().map(|features| BatchRow {
                    clip: plan_clip,
                    tokens: &features.tokens,
                    sound: &features.sound,
                    language: features.language,
                    speaker: self.clip(plan_clip).speaker,
                    reference: &features.reference,
                }),
                Err(gap) => {
                    let why = lost(self.clip(plan_clip), &gap.fault);
                    self.store.add_bad(self.numbers[plan_clip], why);
                    None
                }
            }
        });
        collate(form, rows)
    }

    /// What a row takes until it is part of a batch.
    fn row_bytes(&self, shape: Shape) -> u64 {
        self.form(Position::default(), shape).sound_bytes_of_a_row()
            + u64::from(shape.tokens) * size_of::<u16>() as u64
            + ROW_BYTES
    }

    /// A row's part of the bytes of its batch.
    fn share(&self, placed: &PlacedRow) -> u64 {
        let batch = self.form(placed.position, placed.shape).bytes();
        batch.div_ceil(u64::from(placed.planned_rows.max(1)))
    }

    /// What the rows of a batch have reserved for it. One that failed in its stage released its part,
    /// so a batch with masked rows may hold less than it takes.
    pub(super) fn held_by(&self, batch: &Batch) -> u64 {
        let position = self.epochs.batches_before(batch.position);
        let placed = self.epochs.row(self.epochs.first_row(position));
        let held = self.share(&placed) * batch.clip_count() as u64;
        held.min(batch.bytes())
    }

    /// What decoding and transforming a clip takes, unless the cache has it. It never has samples.
    fn computing_bytes(&self, plan_clip: usize) -> u64 {
        let (clip, audio) = (self.clip(plan_clip), &self.store.recipe().audio);
        if self.framing.is_some() {
            decoding_bytes(clip, audio)
        } else if self.store.is_in_cache(self.numbers[plan_clip]) {
            0
        } else {
            largest_bytes(clip, audio)
        }
    }

    pub(super) fn most_for_a_row(&self, number: u64) -> u64 {
        let placed = self.epochs.row(number);
        self.row_bytes(placed.shape)
            + self.share(&placed)
            + placed.row.map_or(0, |row| self.computing_bytes_of_row(row))
    }

    fn computing_bytes_of_row(&self, row: PlannedRow) -> u64 {
        self.computing_bytes(row.clip) + self.computing_bytes(row.reference.clip)
    }

    /// What the largest batch takes while its last row is computed. Less would not do.
    pub(super) fn most_for_a_batch(&self) -> u64 {
        let batch = |shape: Shape| {
            let rows = u64::from(shape.rows);
            // Each share is rounded up.
            rows * (self.row_bytes(shape) + 1) + self.form(Position::default(), shape).bytes()
        };
        let buckets = self.plan.buckets().iter();
        let largest = buckets.map(|bucket| batch(bucket.shape)).max().unwrap_or(0);
        let clips = 0..self.numbers.len();
        let computing = clips.map(|clip| self.computing_bytes(clip)).max();
        largest + 2 * computing.unwrap_or(0)
    }
}
