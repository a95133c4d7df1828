//! Alignments as tensors: one number for each token of each clip is a long list, and JSON gives every number a line.
//!
//! `known/…` has a row for each clip, `pending/…` one for each row of the last step's batches: `clips`, the plan's
//! numbers; `tokens`, how many each row has; `frames`, those of all tokens, row after row. `pending/batches` is how
//! many rows each batch has.

use std::path::Path;

use safetensors::tensor::{Dtype, SafeTensors, TensorView};

use super::{CheckpointError, PendingDurations, StoredAlignments, untrusted};

const KNOWN: [&str; 3] = ["known/clips", "known/tokens", "known/frames"];
const PENDING: [&str; 3] = ["pending/clips", "pending/tokens", "pending/frames"];
const BATCHES: &str = "pending/batches";

/// In place of a clip's number: the row is masked.
const MASKED: u64 = u64::MAX;

/// The file's bytes; `None` where there is nothing to keep.
pub(super) fn file(alignments: &StoredAlignments) -> Option<Vec<u8>> {
    let StoredAlignments { known, pending, .. } = alignments;
    if known.is_empty() && pending.is_empty() {
        return None;
    }
    let masked_or = |clip: &Option<usize>| clip.map_or(MASKED, |clip| clip as u64);
    let clips = known.iter().map(|(clip, _)| *clip as u64);
    let pending_clips = pending.iter().flat_map(|batch| &batch.clips).map(masked_or);
    let rows = known.iter().map(|(_, durations)| durations);
    let pending_rows = pending.iter().flat_map(|batch| &batch.durations);
    let batches = pending.iter().map(|batch| batch.durations.len() as u64);
    let all = KNOWN
        .into_iter()
        .zip(row_tensors(clips, rows))
        .chain(
            PENDING
                .into_iter()
                .zip(row_tensors(pending_clips, pending_rows)),
        )
        .chain([(BATCHES, Numbers::new(batches, Dtype::U32))]);
    let all: Vec<(&str, Numbers)> = all.collect();
    let views = all.iter().map(|(name, numbers)| {
        let view = TensorView::new(numbers.dtype, vec![numbers.count], &numbers.bytes);
        (*name, view.expect("as many bytes as the shape says"))
    });
    Some(safetensors::serialize(views, None).expect("distinct names and sizes that fit"))
}

/// Clips, tokens, frames.
fn row_tensors<'a>(
    clips: impl Iterator<Item = u64>,
    rows: impl Iterator<Item = &'a Vec<u32>> + Clone,
) -> [Numbers; 3] {
    let frames = rows.clone().flatten().copied();
    // In 16 bits where no token lasts longer than they count.
    let narrow = frames.clone().all(|frames| u16::try_from(frames).is_ok());
    [
        Numbers::new(clips, Dtype::U64),
        Numbers::new(rows.map(|row| row.len() as u64), Dtype::U32),
        Numbers::new(
            frames.map(u64::from),
            if narrow { Dtype::U16 } else { Dtype::U32 },
        ),
    ]
}

struct Numbers {
    dtype: Dtype,
    count: usize,
    bytes: Vec<u8>,
}

impl Numbers {
    fn new(numbers: impl Iterator<Item = u64>, dtype: Dtype) -> Self {
        let (mut count, mut bytes) = (0, Vec::new());
        for number in numbers {
            count += 1;
            bytes.extend_from_slice(&number.to_le_bytes()[..dtype.bitsize() / 8]);
        }
        Self {
            dtype,
            count,
            bytes,
        }
    }
}

/// Puts a file's alignments into the facts of its checkpoint.
pub(super) fn load(
    into: &mut StoredAlignments,
    path: &Path,
    bytes: &[u8],
) -> Result<(), CheckpointError> {
    let loaded = SafeTensors::deserialize(bytes)
        .map_err(|why| why.to_string())
        .and_then(|tensors| LoadedDurations(tensors).alignments());
    let (known, pending) = loaded.map_err(|why| CheckpointError::damaged(path, why))?;
    (into.known, into.pending) = (known, pending);
    untrusted::check_alignments(into).map_err(|why| CheckpointError::damaged(path, why))
}

type KnownDurations = Vec<(usize, Vec<u32>)>;

struct LoadedDurations<'a>(SafeTensors<'a>);

impl LoadedDurations<'_> {
    fn alignments(&self) -> Result<(KnownDurations, Vec<PendingDurations>), String> {
        let is_known = |name: &str| KNOWN.contains(&name) || PENDING.contains(&name);
        let mut names = self.0.names().into_iter();
        if let Some(name) = names.find(|name| !is_known(name) && *name != BATCHES) {
            return Err(format!("it has a tensor that no checkpoint has: {name:?}"));
        }
        let (clips, rows) = self.rows(KNOWN)?;
        if !clips.is_sorted_by(|a, b| a < b) || clips.last() == Some(&MASKED) {
            return Err("`known/clips` are not in order".to_owned());
        }
        let known = clips.into_iter().map(|clip| clip as usize).zip(rows);
        let (clips, rows) = self.rows(PENDING)?;
        let clips = clips.into_iter();
        let clips = clips.map(|clip| (clip != MASKED).then_some(clip as usize));
        let mut rows = clips.zip(rows);
        let counts = self.take(BATCHES, &[Dtype::U32])?;
        if counts.iter().try_fold(0_u64, |sum, n| sum.checked_add(*n)) != Some(rows.len() as u64) {
            return Err(format!("`{BATCHES}` does not fit what it counts"));
        }
        let batches = counts.into_iter().map(|count| {
            let (clips, durations) = rows.by_ref().take(count as usize).unzip();
            PendingDurations { clips, durations }
        });
        Ok((known.collect(), batches.collect()))
    }

    /// Clips, and the frames of each one's tokens.
    fn rows(
        &self,
        [clips, tokens, frames]: [&str; 3],
    ) -> Result<(Vec<u64>, Vec<Vec<u32>>), String> {
        let clips = self.take(clips, &[Dtype::U64])?;
        let lengths = self.take(tokens, &[Dtype::U32])?;
        let all = self.take(frames, &[Dtype::U16, Dtype::U32])?;
        let sum = lengths.iter().try_fold(0_u64, |sum, n| sum.checked_add(*n));
        if clips.len() != lengths.len() || sum != Some(all.len() as u64) {
            return Err(format!("`{tokens}` does not fit what it counts"));
        }
        let mut all = all.into_iter().map(|frames| frames as u32);
        let row = |tokens: u64| all.by_ref().take(tokens as usize).collect();
        Ok((clips, lengths.into_iter().map(row).collect()))
    }

    /// The numbers of a list.
    fn take(&self, name: &str, kinds: &[Dtype]) -> Result<Vec<u64>, String> {
        let view = self.0.tensor(name).map_err(|why| why.to_string())?;
        if view.shape().len() != 1 || !kinds.contains(&view.dtype()) {
            let (dtype, shape) = (view.dtype(), view.shape());
            return Err(format!("`{name}` is {dtype:?} of {shape:?}"));
        }
        let number = |bytes: &[u8]| {
            let mut wide = [0; 8];
            wide[..bytes.len()].copy_from_slice(bytes);
            u64::from_le_bytes(wide)
        };
        let width = view.dtype().bitsize() / 8;
        Ok(view.data().chunks_exact(width).map(number).collect())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use serde_json::{Value, json};

    use super::super::tests::{facts, snapshot};
    use super::super::{ALIGNMENTS, CheckpointFacts, CheckpointFolder, Checkpoints, JSON};
    use super::*;

    /// What is found in a checkpoint with these alignments, the checkpoint's JSON, and the bytes of their file.
    fn stored(facts: &CheckpointFacts) -> (StoredAlignments, Value, u64) {
        let folder = tempfile::tempdir().unwrap();
        let checkpoints = Checkpoints::new(folder.path(), 1);
        let path = checkpoints.write(snapshot(facts)).unwrap().path;
        let json = serde_json::from_slice(&fs::read(path.join(JSON)).unwrap()).unwrap();
        let bytes = fs::metadata(path.join(ALIGNMENTS)).map_or(0, |found| found.len());
        let opened = CheckpointFolder::open(&path).unwrap();
        (opened.facts().alignments.clone(), json, bytes)
    }

    #[test]
    fn a_token_takes_two_bytes_and_no_line_of_json() {
        let mut facts = facts(3, None);
        let durations = |clip: usize| (0..90).map(|at| (clip * at % 300) as u32).collect();
        facts.alignments.known = (0..1_000).map(|clip| (3 * clip, durations(clip))).collect();
        let (found, json, bytes) = stored(&facts);
        assert!(found == facts.alignments);
        assert_eq!(json["version"], json!(2));
        assert_eq!(json.get("alignments"), None);
        let [tokens, clips] = [1_000 * 90 * 2, 1_000 * (8 + 4)];
        assert!((tokens + clips..tokens + clips + 1_000).contains(&bytes));
    }

    #[test]
    fn a_token_that_lasts_very_long_takes_more() {
        let mut facts = facts(3, None);
        facts.alignments.known.push((10, vec![0, 70_000, 1]));
        let (found, ..) = stored(&facts);
        assert_eq!(found, facts.alignments);
    }

    /// As on the CPU: older programs read it as well.
    #[test]
    fn without_alignments_nothing_is_new() {
        let mut facts = facts(3, None);
        facts.alignments = StoredAlignments::default();
        let (found, json, bytes) = stored(&facts);
        assert_eq!(found, facts.alignments);
        assert_eq!((&json["version"], bytes), (&json!(1), 0));
        assert_eq!(json["pending_durations"], json!([]));
    }

    #[test]
    fn a_checkpoint_with_them_in_its_json_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let mut facts = facts(3, None);
        let expected = std::mem::take(&mut facts.alignments);
        let checkpoints = Checkpoints::new(folder.path(), 1);
        let path = checkpoints.write(snapshot(&facts)).unwrap().path;
        let mut json: Value = serde_json::from_slice(&fs::read(path.join(JSON)).unwrap()).unwrap();
        for (key, value) in json!(expected).as_object().unwrap() {
            json[key] = value.clone();
        }
        assert_eq!(json["alignments"], json!([[9, [3, 1, 4]]]));
        json["own_blake3"] = Value::Null;
        fs::write(path.join(JSON), json.to_string()).unwrap();
        let opened = CheckpointFolder::open(&path).unwrap();
        assert_eq!(opened.facts().alignments, expected);
    }

    #[test]
    fn a_voice_is_read_without_them() {
        let folder = tempfile::tempdir().unwrap();
        let checkpoints = Checkpoints::new(folder.path(), 1);
        let path = checkpoints.write(snapshot(&facts(3, None))).unwrap().path;
        fs::remove_file(path.join(ALIGNMENTS)).unwrap();
        assert!(CheckpointFolder::open(&path).is_err());
        assert!(CheckpointFolder::open_voice(&path).is_ok());
    }

    /// Each tensor in turn with other numbers, and the file with each of its bytes changed, cut and lengthened.
    #[test]
    fn what_does_not_fit_is_refused_and_never_panics() {
        let alignments = facts(3, None).alignments;
        let load = |bytes: &[u8]| {
            let mut into = StoredAlignments::default();
            load(&mut into, Path::new(ALIGNMENTS), bytes).map(|()| into)
        };
        let bytes = file(&alignments).unwrap();
        let whole = load(&bytes).unwrap();
        assert_eq!(
            (&whole.known, &whole.pending),
            (&alignments.known, &alignments.pending)
        );
        for at in 0..bytes.len() {
            assert!(load(&bytes[..at]).is_err());
            for flip in [1, 0x80] {
                let mut changed = bytes.clone();
                changed[at] ^= flip;
                let _ = load(&changed);
            }
        }
        assert!(load(&[&bytes[..], &[0]].concat()).is_err());

        let tensors = SafeTensors::deserialize(&bytes).unwrap();
        let with = |name: &str, dtype: Dtype, numbers: &[u64]| {
            let changed = Numbers::new(numbers.iter().copied(), dtype);
            let count = vec![changed.count];
            let view = TensorView::new(dtype, count, &changed.bytes).unwrap();
            let others = tensors.iter().filter(|(other, _)| *other != name);
            let all = others.chain([(name, view)]);
            load(&safetensors::serialize(all, None).unwrap())
        };
        assert!(with(BATCHES, Dtype::U32, &[2]).is_ok());
        for (name, dtype, numbers) in [
            ("known/clips", Dtype::U64, &[MASKED][..]),
            ("known/clips", Dtype::U64, &[9, 9]),
            ("known/clips", Dtype::U32, &[9]),
            ("known/tokens", Dtype::U32, &[4]),
            ("known/tokens", Dtype::U32, &[2, 1]),
            ("known/frames", Dtype::U32, &[1, u32::MAX as u64, 1]),
            ("known/frames", Dtype::U8, &[1, 2, 3]),
            ("pending/batches", Dtype::U32, &[1]),
            ("pending/batches", Dtype::U32, &[3]),
            ("pending/clips", Dtype::U64, &[4]),
            ("somewhere/else", Dtype::U32, &[1]),
        ] {
            let loaded = with(name, dtype, numbers);
            assert!(loaded.is_err(), "{name} {numbers:?}: {loaded:?}");
        }
    }
}
