//! A dataset folder: which clips it has, which are bad, and how they are split.

use std::path::{Path, PathBuf};

use rayon::prelude::*;
use voxmill_audio::read_header;

use crate::featurize::with_causes;
use crate::manifest::{
    AudioFolder, BadAudio, FollowedLinks, Limits, Manifest, ManifestError, Split, read_rows,
};

/// A folder with a manifest and audio, and the place of its cache.
#[derive(Clone, Debug)]
pub struct DatasetFolder {
    pub path: PathBuf,
    /// The split of all its clips; `None`: see [`Dataset::open`].
    pub given: Option<Split>,
    /// Where its cache and its lists of clips are.
    pub home: PathBuf,
    /// Whether it is the built-in corpus.
    pub demo: bool,
    pub links: FollowedLinks,
}

impl DatasetFolder {
    /// With the cache in the folder itself, unless another `home` is given.
    pub fn new(path: PathBuf, given: Option<Split>, home: Option<PathBuf>) -> DatasetFolder {
        let home = home.unwrap_or_else(|| path.join("voxmill-cache"));
        DatasetFolder {
            path,
            given,
            home,
            demo: false,
            links: FollowedLinks::Inside,
        }
    }

    /// Where its features are cached.
    pub fn cache_dir(&self) -> PathBuf {
        self.home.join("features")
    }

    /// The list of its bad clips.
    pub fn quarantine_list(&self) -> PathBuf {
        self.home.join("quarantine.csv")
    }

    /// The list of the clips that are left out for their length.
    pub fn filtered_list(&self) -> PathBuf {
        self.home.join("filtered.csv")
    }

    /// The list of what was measured of each clip.
    pub fn quality_list(&self) -> PathBuf {
        self.home.join("quality.csv")
    }

    /// The list of the clips that a person should listen to.
    pub fn suspicious_list(&self) -> PathBuf {
        self.home.join("suspicious.csv")
    }

    /// Whether both are the same folder on disk.
    pub fn is_same(&self, other: &DatasetFolder) -> bool {
        let (a, b) = (self.path.canonicalize(), other.path.canonicalize());
        a.is_ok_and(|a| b.is_ok_and(|b| a == b))
    }

    /// See [`Dataset::open`].
    pub fn open(&self, limits: &Limits, val_fraction: f64) -> Result<Dataset, ManifestError> {
        Dataset::open_with(&self.path, self.given, limits, val_fraction, self.links)
    }
}

/// What the manifest and the audio headers of a folder say.
#[derive(Debug)]
pub struct Dataset {
    /// The clips, and the quarantine: rows that cannot be used.
    pub manifest: Manifest,
    /// Whether the folder itself says which clips are for validation.
    pub has_own_split: bool,
    /// What a user may want to know of how the folder was read.
    pub notes: Vec<String>,
}

impl Dataset {
    /// Reads the manifest and, in parallel on the current rayon pool, every audio header.
    ///
    /// The folder holds `metadata.csv` (a line `id|text` for each clip) and `wavs/<id>.wav` (or .flac, .ogg,
    /// .mp3); [`manifest`](crate::manifest) has the details. `given` is the split of all its clips. With
    /// `None`, the folder's own split counts, and without one `val_fraction` of the clips, chosen by a hash
    /// of their ids, are for validation. A bad row is no error: it is in the quarantine.
    pub fn open(
        folder: &Path,
        given: Option<Split>,
        limits: &Limits,
        val_fraction: f64,
    ) -> Result<Dataset, ManifestError> {
        Dataset::open_with(folder, given, limits, val_fraction, FollowedLinks::Inside)
    }

    /// The same, with a choice of links.
    fn open_with(
        folder: &Path,
        given: Option<Split>,
        limits: &Limits,
        val_fraction: f64,
        links: FollowedLinks,
    ) -> Result<Dataset, ManifestError> {
        let mut rows = read_rows(folder, given)?;
        let audio = AudioFolder::list(&rows, links)?;
        let notes = std::mem::take(&mut rows.notes);
        let has_own_split =
            given.is_none() && rows.rows.iter().flatten().any(|row| row.split.is_some());
        let header = |path: &Path| {
            read_header(path).map_err(|error| BadAudio {
                kind: error.kind(),
                detail: with_causes(&error),
            })
        };
        let resolved = rows.rows.into_par_iter();
        let resolved = resolved.map(|row| row.and_then(|row| audio.resolve(row, header)));
        let resolved: Vec<_> = resolved.collect();
        Ok(Dataset {
            manifest: Manifest::assemble(resolved, limits, val_fraction),
            has_own_split,
            notes,
        })
    }
}
