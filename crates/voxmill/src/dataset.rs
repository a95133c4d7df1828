//! The folders that a run works on: which they are, and what their manifests say.

use std::path::{Path, PathBuf};

use voxmill_speech::manifest::{Limits, Manifest, Split};

use crate::commands::prepare::complaints;
use crate::commands::tell;
use crate::complaint::Complaint;
use crate::demo_folder;
use crate::feed::{self, Scan};
use crate::settings::{DataSettings, Origin};

/// Clips shorter than this hold no speech worth aligning; they are filtered.
pub(crate) const MIN_SECONDS: f64 = 0.1;

/// A dataset's folder.
#[derive(Debug)]
pub(crate) struct Folder {
    pub(crate) path: PathBuf,
    /// The split that the caller gives all its clips.
    pub(crate) given: Option<Split>,
    /// Where its cache and its lists are kept.
    pub(crate) home: PathBuf,
    pub(crate) demo: bool,
}

/// The folder to train on, and the folder to validate on where that is another one.
pub(crate) fn folders(settings: &DataSettings) -> anyhow::Result<Vec<Folder>> {
    let demo = settings.train_data.is_none();
    let train = match &settings.train_data {
        Some(folder) => folder.clone(),
        None => demo_folder::unpack()?,
    };
    let home = |folder: &Path| {
        settings
            .cache_dir
            .clone()
            .unwrap_or_else(|| folder.join("voxmill-cache"))
    };
    let mut folders = Vec::new();
    if let Some(val) = &settings.val_data {
        let same = |a: &Path, b: &Path| {
            a.canonicalize()
                .ok()
                .is_some_and(|a| Some(a) == b.canonicalize().ok())
        };
        if same(&train, val) {
            let what = format!(
                "--train-data and --val-data are the same folder, `{}`",
                val.display()
            );
            return Err(Complaint::new(
                what,
                "leave --val-data out: a share of the clips is then held out",
            )
            .into());
        }
        let home = settings
            .cache_dir
            .as_ref()
            .map_or_else(|| home(val), |dir| dir.join("validation"));
        folders.push(Folder {
            path: val.clone(),
            given: Some(Split::Validation),
            home,
            demo: false,
        });
    }
    let given = settings.val_data.is_some().then_some(Split::Train);
    folders.insert(
        0,
        Folder {
            home: home(&train),
            path: train,
            given,
            demo,
        },
    );
    Ok(folders)
}

impl Folder {
    /// Where its features are cached.
    pub(crate) fn cache_dir(&self) -> PathBuf {
        self.home.join("features")
    }

    /// Reads the manifest and the audio headers, on the current rayon pool.
    pub(crate) fn scan(&self, settings: &DataSettings) -> anyhow::Result<Manifest> {
        let limits = Limits {
            audio: settings.audio.clone(),
            max_mel_frames: Some(settings.max_mel_frames as usize),
            max_text_length: Some(settings.max_text_length as usize),
            min_seconds: MIN_SECONDS,
        };
        let scanned = feed::scan(&self.path, self.given, &limits, settings.val_fraction);
        let Scan {
            manifest,
            has_own_split,
            notes,
        } = scanned.map_err(complaints::of_manifest)?;
        for note in notes {
            tell(&format!("note: {note}"));
        }
        if has_own_split {
            let what = format!(
                "val_fraction has no effect: `{}` has a split of its own",
                self.path.display()
            );
            match &settings.val_fraction_origin {
                Origin::Flag => return Err(Complaint::new(what, "leave --val-fraction out").into()),
                Origin::File(place) => tell(&format!(
                    "note: {}:{}: {what}",
                    place.file.display(),
                    place.line
                )),
                Origin::Auto(_) | Origin::Default => {}
            }
        }
        Ok(manifest)
    }
}
