//! Folders with which nothing can be done, each with the next move.

use std::io;
use std::path::PathBuf;

use super::layouts::{Layout, hint_for_missing_audio};

/// Why a folder has no manifest that can be read. A bad row is no such error.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    #[error("there is no folder `{}`", folder.display())]
    MissingFolder { folder: PathBuf },

    #[error("`{}` is not a folder", folder.display())]
    NotAFolder { folder: PathBuf },

    #[error("no manifest in `{}`, which holds {found}", folder.display())]
    MissingManifest {
        folder: PathBuf,
        /// Some of what is there, as a phrase.
        found: String,
        /// A folder nearby that does have a manifest.
        nearby: Option<PathBuf>,
    },

    #[error("`{}` has {}, which is not read as it is", folder.display(), layout.name())]
    ForeignLayout { folder: PathBuf, layout: Layout },

    #[error("`{}` has metadata_eval.csv but no metadata_train.csv", folder.display())]
    EvalWithoutTrain { folder: PathBuf },

    #[error("the manifest `{}` is not a regular file", file.display())]
    NotAFile { file: PathBuf },

    #[error("the manifest `{}` is UTF-16", file.display())]
    Utf16 { file: PathBuf },

    #[error("the manifest `{}` has no rows", file.display())]
    Empty { file: PathBuf },

    #[error(
        "no row of the manifest `{}` has a `|`{}",
        file.display(),
        likely.map(|name| format!("; it looks separated by {name}")).unwrap_or_default()
    )]
    WrongDelimiter {
        file: PathBuf,
        likely: Option<&'static str>,
    },

    #[error("the header row of `{}` {problem}", file.display())]
    Header { file: PathBuf, problem: String },

    #[error("no folder `wavs` in `{}`, which holds {found}", folder.display())]
    MissingAudioFolder { folder: PathBuf, found: String },

    #[error("cannot read `{}`", path.display())]
    Io { path: PathBuf, source: io::Error },
}

impl ManifestError {
    /// The next move, as a sentence.
    pub fn hint(&self) -> String {
        let hint = match self {
            Self::MissingFolder { .. } => "give the folder that holds metadata.csv and wavs/",
            Self::NotAFolder { .. } => {
                "give the folder, not a file in it: it should hold metadata.csv and wavs/"
            }
            Self::MissingManifest { nearby, .. } => match nearby {
                Some(nearby) => {
                    return format!("`{}` has one: give that folder", nearby.display());
                }
                None => {
                    "write metadata.csv with one `id|text` line per clip, and the audio to \
                     wavs/<id>.wav (or .flac, .ogg, .mp3)"
                }
            },
            Self::ForeignLayout { layout, .. } => return layout.hint(),
            Self::EvalWithoutTrain { .. } => {
                "add metadata_train.csv, or rename the file to metadata.csv to have its clips \
                 divided into training and validation"
            }
            Self::NotAFile { .. } => "put a text file in its place",
            Self::Utf16 { file } => {
                let file = file.display();
                return format!(
                    "save it as UTF-8: `iconv -f UTF-16 -t UTF-8 '{file}' > new && mv new '{file}'`"
                );
            }
            Self::Empty { .. } => "write one `id|text` line per clip",
            Self::WrongDelimiter { .. } => {
                "separate the columns by `|`, as in `clip-1|What is said.`; quote characters are \
                 taken as text"
            }
            Self::Header { .. } => {
                "name each column once, with at least `id` and `text`, as in \
                 `id|text|normalized|speaker|language`"
            }
            Self::MissingAudioFolder { folder, .. } => return hint_for_missing_audio(folder),
            Self::Io { .. } => "check that the path is right and that you may read it",
        };
        hint.to_owned()
    }
}
