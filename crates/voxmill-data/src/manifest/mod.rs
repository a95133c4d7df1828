//! What a dataset folder says it holds: clips, their speakers and languages, and what is wrong
//! with the rest.
//!
//! ```text
//! my-voice/
//!   metadata.csv                 id|text|normalized, one clip a line
//!   wavs/<id>.{wav,flac,ogg,mp3}
//! ```
//!
//! Reading a manifest has three steps, and only the middle one touches audio files, one row at a time, so
//! that the caller may run it on as many threads as it likes:
//!
//! ```text
//! read_rows(folder)            → Rows           parses the manifest files
//! AudioFolder::list(&rows)     → AudioFolder    lists wavs/ once
//! audio.resolve(row, header)   → ResolvedClip   one lstat and one header read a row
//! Manifest::assemble(resolved) → Manifest       filter, split, speakers, quarantine
//! ```
//!
//! A bad row is data: it becomes a [`QuarantineEntry`] and the rest is used. Only a folder with
//! which nothing can be done is a [`ManifestError`].

mod audio_folder;
mod columns;
mod error;
mod files;
mod filtered;
mod layouts;
mod quality_list;
mod quarantine;
mod rows;
mod selection;
mod sources;
mod split;
mod suspicious;
mod table;

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use voxmill_audio::{AudioHeader, AudioSettings};
use voxmill_text::language::Language;

pub use audio_folder::{AudioFolder, BadAudio, FollowedLinks, ResolvedClip};
pub use error::ManifestError;
pub use filtered::{FilterReason, Filtered, FilteredClip, write_filtered};
pub use layouts::Layout;
pub use quality_list::{QualityList, audio_settings_mark};
pub use quarantine::{Quarantine, QuarantineEntry, Reason, TooManyBad};
pub use rows::{DEFAULT_SPEAKER, ManifestFile, Row, Rows, read_rows};
pub use sources::{SourceFormat, source_formats, usual_rate};
pub use split::Split;
pub use suspicious::{
    MeasuredClip, Suspicion, Suspicious, find_suspicious, read_suspicious_ids, write_suspicious,
};
pub use table::TableError;

/// One (text, audio file) row that can be trained on, as far as its header says.
///
/// About 100 bytes in addition to its strings: a million LJSpeech clips take a third of a gigabyte.
#[derive(Clone, Debug, PartialEq)]
pub struct Clip {
    /// The audio file's path below `wavs/` without its extension; unique in its folder.
    pub id: Box<str>,
    /// The normalized column where it says something, else the text column.
    pub text: Box<str>,
    /// Index into [`Manifest::speakers`].
    pub speaker: u32,
    /// What the manifest says; `None` where it is detected from the text.
    pub language: Option<Language>,
    pub split: Split,
    pub header: AudioHeader,
    /// Path below the dataset folder, such as `wavs/LJ001-0001.wav`.
    pub audio_file: Box<str>,
    /// Size and time of change are of one `stat` call: the cache's fingerprint needs both.
    pub audio_bytes: u64,
    /// Nanoseconds since 1970; negative before.
    pub audio_mtime_ns: i64,
    pub source: Arc<ManifestFile>,
    /// Line of the manifest file, from 1.
    pub row: u32,
}

impl Clip {
    /// The file that its sound is in.
    pub fn audio_path(&self) -> PathBuf {
        self.source.folder.join(Path::new(&*self.audio_file))
    }

    /// For the stages after this one: what they find wrong with a clip goes to the same list.
    pub fn quarantine(&self, reason: Reason, detail: impl Into<String>) -> QuarantineEntry {
        let (source, id, file) = (&self.source, &self.id, &self.audio_file);
        QuarantineEntry::new(source, self.row, id, file, reason, detail)
    }
}

/// Which clips are left out for their length. `None` and 0.0 leave nothing out.
#[derive(Clone, Debug, PartialEq)]
pub struct Limits {
    /// Turns a header's length into mel frames.
    pub audio: AudioSettings,
    pub max_mel_frames: Option<usize>,
    /// In characters (not bytes) of the text as the manifest has it.
    pub max_text_length: Option<usize>,
    pub min_seconds: f64,
}

impl Default for Limits {
    /// Nothing is left out but what is too short to hold speech worth aligning.
    fn default() -> Limits {
        Limits {
            audio: AudioSettings::default(),
            max_mel_frames: None,
            max_text_length: None,
            min_seconds: MIN_SECONDS,
        }
    }
}

/// Clips shorter than this hold no speech worth aligning; they are filtered.
pub const MIN_SECONDS: f64 = 0.1;

/// The clips of a dataset, and what was left out of it.
#[derive(Debug)]
pub struct Manifest {
    /// In row order.
    pub clips: Vec<Clip>,
    pub quarantine: Quarantine,
    pub filtered: Filtered,
    /// In row order, as many as are counted.
    pub filtered_clips: Vec<FilteredClip>,
    /// The speakers that have a clip, sorted by name: the order does not depend on the rows'.
    pub speakers: Vec<String>,
    /// The languages that rows name, sorted by code; clips whose language is detected add none.
    pub languages: Vec<Language>,
}

impl Manifest {
    /// `resolved` is in row order. The rows of a second folder (`--val-data`) may follow those of
    /// the first: speakers are then numbered across both.
    ///
    /// `val_fraction` divides the clips whose split neither their manifest nor the caller of
    /// [`read_rows`] has given.
    pub fn assemble(
        resolved: impl IntoIterator<Item = Result<ResolvedClip, QuarantineEntry>>,
        limits: &Limits,
        val_fraction: f64,
    ) -> Manifest {
        let mut clips = Vec::new();
        let mut undivided = Vec::new();
        let mut quarantine = Quarantine::default();
        let mut filtered = Filtered::default();
        let mut filtered_clips = Vec::new();
        let mut speaker_ids: HashMap<Arc<str>, u32> = HashMap::new();
        let mut languages = BTreeSet::new();

        for result in resolved {
            let ResolvedClip {
                mut clip,
                speaker,
                split,
            } = match result {
                Ok(resolved) => resolved,
                Err(entry) => {
                    quarantine.push(entry);
                    continue;
                }
            };
            if let Some(found) = FilteredClip::find(&clip, limits) {
                filtered.add(found.reason);
                filtered_clips.push(found);
                continue;
            }
            languages.extend(clip.language);
            let next_id = speaker_ids.len() as u32;
            clip.speaker = *speaker_ids.entry(speaker).or_insert(next_id);
            match split {
                Some(given) => clip.split = given,
                None => undivided.push(clips.len()),
            }
            clips.push(clip);
        }

        split::divide(&mut clips, &undivided, val_fraction);
        let speakers = sort_speakers(&mut clips, speaker_ids);
        let mut languages: Vec<_> = languages.into_iter().collect();
        languages.sort_by(|a, b| a.code().cmp(b.code()));
        Manifest {
            clips,
            quarantine,
            filtered,
            filtered_clips,
            speakers,
            languages,
        }
    }

    /// All rows of the manifest files: clips, bad ones and filtered ones.
    pub fn rows(&self) -> usize {
        self.clips.len() + self.quarantine.len() + self.filtered.total()
    }

    /// Whether more than `max_bad_share` (0.05 for 5 %) of all rows are bad.
    pub fn too_many_bad(&self, max_bad_share: f64) -> Option<TooManyBad> {
        self.quarantine.too_many(self.rows(), max_bad_share)
    }

    /// The name of who speaks it.
    pub fn speaker(&self, clip: &Clip) -> &str {
        &self.speakers[clip.speaker as usize]
    }
}

/// Renumbers the clips' speakers from order of appearance to order of name.
fn sort_speakers(clips: &mut [Clip], ids: HashMap<Arc<str>, u32>) -> Vec<String> {
    let mut by_name: Vec<(Arc<str>, u32)> = ids.into_iter().collect();
    by_name.sort_unstable();
    let mut renumbered = vec![0; by_name.len()];
    for (new, &(_, old)) in by_name.iter().enumerate() {
        renumbered[old as usize] = new as u32;
    }
    for clip in clips {
        clip.speaker = renumbered[clip.speaker as usize];
    }
    let names = by_name.iter().map(|(name, _)| name.to_string());
    names.collect()
}

#[cfg(test)]
mod tests;
