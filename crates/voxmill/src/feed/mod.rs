//! Puts the data road together: a dataset folder is scanned, what is stale is found, and its
//! features are made on the pipeline and written by one thread.

mod build;
mod maker;
mod stale;
pub(crate) mod train;

use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use rayon::prelude::*;
use voxmill_speech::audio::{AudioSettings, read_header};
use voxmill_speech::cache::FeatureSettings;
use voxmill_speech::language::Language;
use voxmill_speech::manifest::{
    AudioFolder, BadAudio, Clip, Limits, Manifest, ManifestError, Split, read_rows,
};
use voxmill_speech::text::FrontEnd;

pub(crate) use build::{BuildError, Building, Built, Known, Spread, TOO_LARGE};
pub(crate) use maker::{Effort, Hindrance, Maker, compute_for};
pub(crate) use stale::{Prints, Staleness};

/// What the manifest and the audio headers of a folder say.
#[derive(Debug)]
pub(crate) struct Scan {
    pub(crate) manifest: Manifest,
    /// Whether the folder itself says which clips are for validation.
    pub(crate) has_own_split: bool,
    pub(crate) notes: Vec<String>,
}

/// Reads the manifest and, in parallel on the current rayon pool, every audio header.
pub(crate) fn scan(
    folder: &Path,
    given: Option<Split>,
    limits: &Limits,
    val_fraction: f64,
) -> Result<Scan, ManifestError> {
    let mut rows = read_rows(folder, given)?;
    let audio = AudioFolder::list(&rows)?;
    let notes = std::mem::take(&mut rows.notes);
    let has_own_split =
        given.is_none() && rows.rows.iter().flatten().any(|row| row.split.is_some());
    let header = |path: &Path| {
        read_header(path).map_err(|error| BadAudio {
            kind: error.kind(),
            detail: with_causes(&error),
        })
    };
    let resolved: Vec<_> = rows
        .rows
        .into_par_iter()
        .map(|row| row.and_then(|row| audio.resolve(row, header)))
        .collect();
    Ok(Scan {
        manifest: Manifest::assemble(resolved, limits, val_fraction),
        has_own_split,
        notes,
    })
}

/// What features are made with; the same for all clips of a run.
#[derive(Clone, Debug)]
pub(crate) struct Recipe {
    pub(crate) front_end: Arc<FrontEnd>,
    pub(crate) audio: Arc<AudioSettings>,
    /// For clips whose manifest row does not say.
    pub(crate) language: Option<Language>,
}

impl Recipe {
    pub(crate) fn language_of(&self, clip: &Clip) -> Option<Language> {
        clip.language.or(self.language)
    }

    /// How many kinds of characters of a clip's text are not read.
    pub(crate) fn unread(&self, clip: &Clip, language: Language) -> usize {
        self.front_end.unread(&clip.text, Some(language))
    }

    /// The settings that a cached clip must have been made with to be reused.
    pub(crate) fn feature_settings(&self) -> FeatureSettings {
        FeatureSettings {
            audio: self.audio.named_values(),
            text: self.front_end.fingerprint().parts.iter().cloned().collect(),
        }
    }
}

/// An error and its causes in one line, for a table's cell.
fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        text.push_str(": ");
        text.push_str(&next.to_string());
        cause = next.source();
    }
    text
}
