//! What was measured of each clip's frames, next to the cache: so that a second run reads no frames, and training
//! can leave clips out by it.

use std::collections::HashMap;
use std::path::Path;

use voxmill_audio::{AudioSettings, Quality};

use super::table::{TableError, read_table, write_table};
use super::{Clip, Manifest};
use crate::cache::Hash128;

const HEADER: [&str; 6] = [
    "clip",
    "audio_bytes",
    "audio_modified_ns",
    "audio_settings",
    "snr_db",
    "still_seconds",
];

/// All that shapes the frames, in a few letters for a table's cell.
pub fn audio_settings_mark(audio: &AudioSettings) -> String {
    let named = audio.named_values().into_iter();
    let named: Vec<String> = named
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    let mut mark = Hash128::of(named.join("\n").as_bytes()).to_string();
    mark.truncate(16);
    mark
}

/// A clip's measure, and the file that it is of.
#[derive(Clone, Copy, Debug, PartialEq)]
struct MeasuredQuality {
    audio_bytes: u64,
    audio_modified_ns: i64,
    quality: Quality,
}

/// The measures of a dataset at some audio settings, by clip id.
#[derive(Clone, Debug, Default)]
pub struct QualityList {
    measured: HashMap<String, MeasuredQuality>,
    /// Clips that were measured at other audio settings only.
    pub elsewise: usize,
}

impl QualityList {
    /// A list that does not exist is empty, and so is one of an older program, which does not say what it was
    /// measured at.
    pub fn read(path: &Path, audio: &AudioSettings) -> Result<QualityList, TableError> {
        let wanted = audio_settings_mark(audio);
        let mut list = QualityList::default();
        let rows = match read_table(path, HEADER) {
            Err(TableError::OtherColumns { .. }) => return Ok(list),
            rows => rows?,
        };
        for (line, fields) in rows {
            let [clip, bytes, modified, settings, snr, still] = fields;
            if settings != wanted {
                list.elsewise += 1;
                continue;
            }
            let measured = || {
                Some(MeasuredQuality {
                    audio_bytes: bytes.parse().ok()?,
                    audio_modified_ns: modified.parse().ok()?,
                    quality: Quality {
                        snr_db: snr.parse().ok()?,
                        still_seconds: still.parse().ok()?,
                    },
                })
            };
            let measured = measured().ok_or_else(|| TableError::Malformed {
                path: path.to_owned(),
                line,
                problem: "a number is none".to_owned(),
            })?;
            list.measured.insert(clip, measured);
        }
        Ok(list)
    }

    /// In the order of `rows`.
    pub fn write<'a>(
        path: &Path,
        audio: &AudioSettings,
        rows: impl IntoIterator<Item = (&'a Clip, Quality)>,
    ) -> Result<(), TableError> {
        let mark = audio_settings_mark(audio);
        let rows = rows.into_iter().map(|(clip, quality)| {
            [
                clip.id.to_string(),
                clip.audio_bytes.to_string(),
                clip.audio_mtime_ns.to_string(),
                mark.clone(),
                format!("{:.1}", quality.snr_db),
                format!("{:.3}", quality.still_seconds),
            ]
        });
        write_table(path, HEADER, rows)
    }

    /// The clip's measure, if its file is the one that was measured.
    pub fn of(&self, clip: &Clip) -> Option<Quality> {
        let measured = self.measured.get(&*clip.id)?;
        let same = measured.audio_bytes == clip.audio_bytes
            && measured.audio_modified_ns == clip.audio_mtime_ns;
        same.then_some(measured.quality)
    }
}

impl Manifest {
    /// The ids of clips whose range of levels is less than `min_snr` dB.
    pub fn below_snr<'a>(
        &'a self,
        list: &'a QualityList,
        min_snr: f64,
    ) -> impl Iterator<Item = &'a str> {
        let clips = self.clips.iter();
        clips
            .filter(move |clip| {
                let quality = list.of(clip);
                quality.is_some_and(|quality| f64::from(quality.snr_db) < min_snr)
            })
            .map(|clip| &*clip.id)
    }
}
