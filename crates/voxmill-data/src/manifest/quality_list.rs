//! What was measured of each clip's frames, next to the cache: so that a second run reads no frames, and training
//! can leave clips out by it.

use std::collections::HashMap;
use std::path::Path;

use voxmill_audio::Quality;

use super::table::{TableError, read_table, write_table};
use super::{Clip, Manifest};

const HEADER: [&str; 6] = [
    "clip",
    "audio_bytes",
    "audio_modified_ns",
    "frames",
    "snr_db",
    "still_seconds",
];

/// A clip's measure, and the file and length that it is of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MeasuredQuality {
    pub audio_bytes: u64,
    pub audio_modified_ns: i64,
    pub frames: u32,
    pub quality: Quality,
}

/// The measures of a dataset, by clip id.
#[derive(Clone, Debug, Default)]
pub struct QualityList(HashMap<String, MeasuredQuality>);

impl QualityList {
    /// A list that does not exist is empty.
    pub fn read(path: &Path) -> Result<QualityList, TableError> {
        let mut all = HashMap::new();
        for (line, fields) in read_table(path, HEADER)? {
            let [clip, bytes, modified, frames, snr, still] = fields;
            let measured = || {
                Some(MeasuredQuality {
                    audio_bytes: bytes.parse().ok()?,
                    audio_modified_ns: modified.parse().ok()?,
                    frames: frames.parse().ok()?,
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
            all.insert(clip, measured);
        }
        Ok(QualityList(all))
    }

    /// In the order of `rows`.
    pub fn write<'a>(
        path: &Path,
        rows: impl IntoIterator<Item = (&'a Clip, u32, Quality)>,
    ) -> Result<(), TableError> {
        let rows = rows.into_iter().map(|(clip, frames, quality)| {
            [
                clip.id.to_string(),
                clip.audio_bytes.to_string(),
                clip.audio_mtime_ns.to_string(),
                frames.to_string(),
                format!("{:.1}", quality.snr_db),
                format!("{:.3}", quality.still_seconds),
            ]
        });
        write_table(path, HEADER, rows)
    }

    /// The clip's measure, if its file is the one that was measured. `frames` where they are known.
    pub fn of(&self, clip: &Clip, frames: Option<u32>) -> Option<Quality> {
        let measured = self.0.get(&*clip.id)?;
        let same = measured.audio_bytes == clip.audio_bytes
            && measured.audio_modified_ns == clip.audio_mtime_ns
            && frames.is_none_or(|frames| measured.frames == frames);
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
                let quality = list.of(clip, None);
                quality.is_some_and(|quality| f64::from(quality.snr_db) < min_snr)
            })
            .map(|clip| &*clip.id)
    }
}
