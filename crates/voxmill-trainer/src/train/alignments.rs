//! Alignments that the device need not be waited for.
//!
//! The search runs on the host and needs scores from the device: on a GPU the host would have to wait
//! for them in every step, and the GPU for the host. So once the model knows roughly what belongs
//! where, a clip is trained with the alignment of its last visit, and its new scores are read while
//! the next step runs; what is found is for its next visit. Clips that have none yet, and all clips as
//! long as the prior still pulls, are aligned within the step. Once alignments hardly move, most epochs
//! keep them as they are (`settling`).
//!
//! What is found is taken over one step later, whether or not a checkpoint was written in between: how
//! often a run is saved changes nothing.

use std::collections::BTreeMap;
use std::mem;
use std::sync::Arc;

use burn::tensor::{Tensor, TensorData};

use crate::align::{self, Durations, Lengths};
use crate::checkpoint::{PendingDurations, StoredAlignments};
use crate::device::{Coming, Reader};
use crate::prepare::ReadyBatch;
use crate::train::settling::Settling;

/// What is known of each clip, by the plan's numbers.
#[derive(Debug, Default)]
pub(super) struct Alignments {
    /// `None` on a CPU, where reading does not mean waiting for a device: the search then runs within the step.
    reader: Option<Arc<Reader>>,
    known: BTreeMap<usize, Vec<u32>>,
    settling: Settling,
    /// As it was before the step under way.
    settling_before: Settling,
    /// Clips that nothing is known of are taken for aligned, and nothing is searched.
    assumes: bool,
    /// Of the last step, and of the one under way.
    pending: Vec<PendingScores>,
    /// How many of them are of the step under way.
    of_this_step: usize,
}

/// The scores of a batch on their way from the device, or what was found in them.
#[derive(Debug)]
struct PendingScores {
    clips: Vec<Option<usize>>,
    state: DurationState,
}

/// The durations of each row.
#[derive(Debug)]
enum DurationState {
    Reading(Coming<Vec<Vec<u32>>>),
    Found(Vec<Vec<u32>>),
}

impl Alignments {
    pub(super) fn new(reader: Option<Arc<Reader>>, stored: StoredAlignments) -> Self {
        // Where the search runs within the step, what was kept before would be out of date later.
        let stored = match reader {
            Some(_) => stored,
            None => StoredAlignments::default(),
        };
        let pending = stored.pending.into_iter().map(|found| PendingScores {
            clips: found.clips,
            state: DurationState::Found(found.durations),
        });
        Self {
            reader,
            known: stored.known.into_iter().collect(),
            settling: stored.settling,
            settling_before: stored.settling,
            assumes: false,
            pending: pending.collect(),
            of_this_step: 0,
        }
    }

    /// As they are once they have settled, for measuring: every clip has one, with its frames spread evenly. On a CPU
    /// nothing changes, for there every step searches.
    pub(super) fn assumed(reader: Option<Arc<Reader>>) -> Self {
        Self {
            assumes: true,
            ..Self::new(reader, StoredAlignments::default())
        }
    }

    /// The alignment to train a batch with, if all of its clips have one and the prior is gone.
    pub(super) fn of(&self, batch: &ReadyBatch, prior_weight: f32) -> Option<Durations> {
        if self.reader.is_none() || prior_weight > 0.0 {
            return None;
        }
        let [_, tokens] = batch.prepared.tokens.dims();
        let mut all = Vec::with_capacity(batch.clips.len() * tokens);
        for (clip, lengths) in batch.clips.iter().zip(&batch.prepared.lengths) {
            let begin = all.len();
            if let Some(clip) = clip {
                if self.assumes {
                    all.extend(even(*lengths));
                    all.resize(begin + tokens, 0);
                    continue;
                }
                let known = self.known.get(clip)?;
                // A clip whose file has changed is aligned anew.
                let fits = known.len() == lengths.tokens
                    && known.iter().sum::<u32>() as usize == lengths.frames;
                if !fits {
                    return None;
                }
                all.extend_from_slice(known);
            }
            all.resize(begin + tokens, 0);
        }
        Some(Durations::new(all, tokens))
    }

    /// Whether the scores of a batch that has an alignment are worth having; to be asked for every batch.
    pub(super) fn are_due(&mut self, batch: &ReadyBatch) -> bool {
        !self.assumes && self.settling.is_due(batch.position.epoch)
    }

    fn push(&mut self, clips: Vec<Option<usize>>, state: DurationState) {
        self.of_this_step += 1;
        self.pending.push(PendingScores { clips, state });
    }

    /// What a step found by itself.
    pub(super) fn found(&mut self, batch: &ReadyBatch, durations: &Durations) {
        if self.reader.is_some() {
            let found = rows(durations, &batch.prepared.lengths);
            self.push(batch.clips.clone(), DurationState::Found(found));
        }
    }

    /// Begins to read the scores of a batch that was trained with a known alignment: rows × time × tokens.
    pub(super) fn read_later(&mut self, batch: &ReadyBatch, scores: Tensor<3>) {
        let reader = self.reader.as_ref().expect("no alignment is known without");
        let lengths = batch.prepared.lengths.clone();
        let coming = reader.read(scores, move |scores, _| search(scores, &lengths));
        self.push(batch.clips.clone(), DurationState::Reading(coming));
    }

    /// How many batches of the step under way have come by.
    pub(super) fn of_this_step(&self) -> usize {
        self.of_this_step
    }

    /// Waits for what the step under way has begun to read; panics where the device could not make it.
    pub(super) fn wait(&mut self) {
        let begun = self.pending.len() - self.of_this_step;
        for batch in &mut self.pending[begun..] {
            batch.durations();
        }
    }

    /// Keeps the first `of_this_step` of this step: the pass over the others failed and is repeated.
    pub(super) fn back_to(&mut self, of_this_step: usize) {
        let failed = self.of_this_step - of_this_step;
        self.pending.truncate(self.pending.len() - failed);
        self.of_this_step = of_this_step;
    }

    /// The step under way is not finished: its batches come again, as if they had never come.
    pub(super) fn drop_step(&mut self) {
        self.back_to(0);
        self.settling = self.settling_before;
    }

    /// Called once in every step, after its own work has been asked for: what the step before found
    /// becomes known. By now its scores are there, and the device has other things to do.
    /// Under the prior alignments move with it, which says nothing of how they move without.
    pub(super) fn take_over(&mut self, prior_weight: f32) {
        let before = self.pending.len() - self.of_this_step;
        self.of_this_step = 0;
        for mut batch in self.pending.drain(..before) {
            let rows = mem::take(batch.durations());
            for (clip, durations) in batch.clips.into_iter().zip(rows) {
                let Some(clip) = clip else { continue };
                let before = self.known.get(&clip);
                let alike = before.filter(|before| before.len() == durations.len());
                if let (Some(before), true) = (alike, prior_weight == 0.0) {
                    self.settling.count(before, &durations);
                }
                self.known.insert(clip, durations);
            }
        }
        self.settling_before = self.settling;
    }

    /// For a checkpoint: what is known, and what will be after the next step.
    pub(super) fn stored(&mut self) -> StoredAlignments {
        let pending = self.pending.iter_mut().map(|batch| PendingDurations {
            durations: batch.durations().clone(),
            clips: batch.clips.clone(),
        });
        // Scores that could not be read left nothing: those clips are searched again.
        let pending = pending.filter(|found| found.durations.len() == found.clips.len());
        let pending: Vec<_> = pending.collect();
        let known = self.known.iter();
        StoredAlignments {
            pending,
            known: known
                .map(|(clip, durations)| (*clip, durations.clone()))
                .collect(),
            settling: self.settling,
        }
    }
}

impl PendingScores {
    /// Those of each row, waited for; panics where the device could not make the scores.
    fn durations(&mut self) -> &mut Vec<Vec<u32>> {
        if let DurationState::Reading(_) = self.state
            && let DurationState::Reading(coming) =
                mem::replace(&mut self.state, DurationState::Found(Vec::new()))
        {
            self.state = DurationState::Found(coming.wait());
        }
        match &mut self.state {
            DurationState::Found(durations) => durations,
            DurationState::Reading(_) => unreachable!("it was waited for"),
        }
    }
}

/// In scores of rows × time × tokens.
fn search(data: TensorData, lengths: &[Lengths]) -> Vec<Vec<u32>> {
    let [_, time, tokens] = data.shape().dims();
    let mut scores: Vec<f32> = data.iter::<f32>().collect();
    let durations = align::search(&mut scores, time, tokens, lengths, 0.0);
    rows(&durations, lengths)
}

/// As many frames for each token, the first ones one more.
fn even(lengths: Lengths) -> impl Iterator<Item = u32> {
    let tokens = lengths.tokens.max(1);
    let (each, left) = (lengths.frames / tokens, lengths.frames % tokens);
    (0..lengths.tokens).map(move |token| (each + usize::from(token < left)) as u32)
}

/// Each row's own tokens.
fn rows(durations: &Durations, lengths: &[Lengths]) -> Vec<Vec<u32>> {
    let rows = lengths.iter().enumerate();
    rows.map(|(row, lengths)| durations.row(row)[..lengths.tokens].to_vec())
        .collect()
}

#[cfg(test)]
mod tests {
    use burn::tensor::Device;

    use super::*;
    use crate::device::{cpu, is_cpu, read, test_devices};
    use crate::test_data::{TestClip, batch_of};
    use crate::train::tests::feed::prepared;

    fn batch() -> ReadyBatch {
        let (a, b) = (TestClip::new("a", 3, 9), TestClip::new("b", 2, 4));
        prepared(batch_of(&[Some(&a), None, Some(&b)], 4, 10, 8))
    }

    /// Something for a device to do before what is read.
    fn give_work(device: &Device) -> Tensor<2> {
        let size = if is_cpu(device) { 1 } else { 1024 };
        let wide = Tensor::<2>::ones([size, size], device);
        (0..6).fold(wide.clone(), |work, _| work.matmul(wide.clone()) * 1e-3)
    }

    /// rows × time × tokens that favour a frame for each token and the rest for the last.
    fn scores(device: &Device) -> Tensor<3> {
        let score = |at: usize| if at / 4 % 10 == at % 4 { 1.0 } else { 0.0 };
        let values: Vec<f32> = (0..3 * 10 * 4).map(score).collect();
        Tensor::from_data(TensorData::new(values, [3, 10, 4]), device)
    }

    fn reader() -> Option<Arc<Reader>> {
        Some(Arc::new(Reader::start()))
    }

    fn empty() -> Alignments {
        Alignments::new(reader(), StoredAlignments::default())
    }

    fn known(known: [(usize, Vec<u32>); 2]) -> StoredAlignments {
        StoredAlignments {
            known: known.into(),
            ..StoredAlignments::default()
        }
    }

    #[test]
    fn what_a_step_found_is_known_after_the_next_one() {
        let batch = batch();
        let mut alignments = empty();
        assert_eq!(alignments.of(&batch, 0.0), None);
        alignments.read_later(&batch, scores(&cpu()));
        alignments.take_over(0.0);
        let of_step = alignments.of(&batch, 0.0);
        assert_eq!(of_step, None, "the step has only just been asked for");
        alignments.take_over(0.0);
        let durations = alignments.of(&batch, 0.0).unwrap();
        assert_eq!(durations.row(0).iter().sum::<u32>(), 9);
        assert_eq!(durations.row(1), [0; 4]);
        assert_eq!(durations.row(2).iter().sum::<u32>(), 4);
        let under_prior = alignments.of(&batch, 0.5);
        assert_eq!(under_prior, None, "as long as the prior pulls");
    }

    /// A GPU copies them where they stand in the order of its work; they are read a step later.
    #[test]
    fn scores_that_are_read_later_are_those_of_their_time_on_every_device() {
        let batch = batch();
        let found = test_devices().into_iter().map(|device| {
            let mut alignments = empty();
            let mut scores = scores(&device);
            let _at_work = give_work(&device);
            alignments.read_later(&batch, scores.clone());
            for _ in 0..3 {
                // The same memory, written anew.
                scores = scores * -2.0;
            }
            alignments.take_over(0.0);
            alignments.take_over(0.0);
            assert_eq!(read(scores)[0], -8.0);
            alignments.of(&batch, 0.0).unwrap()
        });
        for durations in found {
            assert_eq!(durations.row(0), [1, 1, 7, 0]);
            assert_eq!(durations.row(2), [1, 3, 0, 0]);
        }
    }

    #[test]
    fn a_checkpoint_in_between_changes_nothing() {
        let batch = batch();
        let run = |saves: bool| {
            let mut alignments = empty();
            alignments.read_later(&batch, scores(&cpu()));
            alignments.take_over(0.0);
            if saves {
                let stored = alignments.stored();
                assert!(stored.known.is_empty());
                alignments = Alignments::new(reader(), stored);
            }
            let before = alignments.of(&batch, 0.0);
            alignments.take_over(0.0);
            (before, alignments.of(&batch, 0.0))
        };
        assert_eq!(run(true), run(false));
    }

    /// It found scores, and came to a new epoch.
    #[test]
    fn a_step_that_is_dropped_leaves_nothing() {
        let mut batch = batch();
        let mut alignments = empty();
        for _ in 0..2 {
            assert!(alignments.are_due(&batch));
            alignments.read_later(&batch, scores(&cpu()));
            alignments.take_over(0.0);
        }
        let before = alignments.stored();
        batch.position.epoch = 1;
        alignments.are_due(&batch);
        alignments.read_later(&batch, scores(&cpu()));
        assert_ne!(alignments.stored(), before);
        alignments.drop_step();
        assert_eq!(alignments.stored(), before);
        // Nor does a step that is done, where none is under way.
        alignments.drop_step();
        assert_eq!(alignments.stored(), before);
    }

    #[test]
    fn what_is_assumed_is_known_from_the_first_visit_and_never_searched() {
        let batch = batch();
        let mut alignments = Alignments::assumed(reader());
        assert!(!alignments.are_due(&batch));
        let durations = alignments.of(&batch, 0.0).unwrap();
        assert_eq!(durations.row(0), [3, 3, 3, 0]);
        assert_eq!(durations.row(1), [0; 4]);
        assert_eq!(durations.row(2), [2, 2, 0, 0]);
        let on_cpu = Alignments::assumed(None).of(&batch, 0.0);
        assert_eq!(on_cpu, None, "the CPU searches in every step");
    }

    #[test]
    fn a_clip_that_has_changed_is_aligned_anew() {
        let batch = batch();
        let of = |stored| Alignments::new(reader(), stored).of(&batch, 0.0);
        assert_eq!(of(known([(0, vec![3, 3, 4]), (2, vec![2, 2])])), None);
        assert!(of(known([(0, vec![3, 3, 3]), (2, vec![2, 2])])).is_some());
        let on_cpu = Alignments::default().of(&batch, 0.0);
        assert_eq!(on_cpu, None, "the CPU does not wait anyway");
    }
}
