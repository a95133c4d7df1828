//! Rows that cannot be trained on, with their place and the reason.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use voxmill_format::percent;

use super::rows::ManifestFile;
use super::table::{TableError, read_table, write_table};

const HEADER: [&str; 6] = ["manifest", "row", "clip", "audio_file", "reason", "detail"];

/// An id may be a 4 MB field: the list shows the head of it.
const MAX_SHOWN_CHARS: usize = 200;

/// A short stable name of what is wrong, by which entries are counted. The set is open: audio
/// errors and later stages bring names of their own.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Reason(Cow<'static, str>);

impl Reason {
    /// The line is longer than a row may be.
    pub const LINE_TOO_LONG: Reason = Reason::named("line too long");
    /// The line has a byte that no text has.
    pub const NUL_BYTE: Reason = Reason::named("NUL byte");
    /// The line is not text in UTF-8.
    pub const INVALID_UTF8: Reason = Reason::named("invalid UTF-8");
    /// A column of the header is missing.
    pub const TOO_FEW_COLUMNS: Reason = Reason::named("too few columns");
    /// There are more columns than the header names.
    pub const TOO_MANY_COLUMNS: Reason = Reason::named("too many columns");
    /// The row names no clip.
    pub const EMPTY_ID: Reason = Reason::named("empty id");
    /// The row has nothing to be spoken.
    pub const EMPTY_TEXT: Reason = Reason::named("empty text");
    /// The row's language is no language code.
    pub const UNKNOWN_LANGUAGE: Reason = Reason::named("unknown language");
    /// An earlier row has the same id.
    pub const DUPLICATE_ID: Reason = Reason::named("duplicate id");
    /// By its path.
    pub const OUTSIDE_FOLDER: Reason = Reason::named("outside the dataset folder");
    /// Read where links are followed everywhere.
    pub const LINK_OUTSIDE: Reason = Reason::named("link to outside the dataset folder");
    /// There is no file of that name.
    pub const MISSING_AUDIO: Reason = Reason::named("missing audio");
    /// The file is in no format that is read.
    pub const UNSUPPORTED_AUDIO: Reason = Reason::named("unsupported audio format");
    /// A folder, pipe, socket or device where the audio should be. Never opened.
    pub const NOT_A_FILE: Reason = Reason::named("not a file");
    /// The file is damaged, or may not be read.
    pub const UNREADABLE_AUDIO: Reason = Reason::named("unreadable audio");
    /// The file holds no sound.
    pub const EMPTY_AUDIO: Reason = Reason::named("empty audio");

    /// A reason of another crate, by the name that is shown.
    pub const fn named(name: &'static str) -> Reason {
        Reason(Cow::Borrowed(name))
    }

    /// As it is shown.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A clip that is left out, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuarantineEntry {
    /// The manifest file as it is shown.
    pub manifest: Arc<str>,
    /// Line of the manifest file, from 1.
    pub row: u32,
    pub clip: Box<str>,
    /// Path below the dataset folder; empty when the row did not get that far.
    pub audio_file: Box<str>,
    pub reason: Reason,
    pub detail: Box<str>,
}

impl QuarantineEntry {
    pub(super) fn new(
        source: &ManifestFile,
        row: u32,
        clip: &str,
        audio_file: &str,
        reason: Reason,
        detail: impl Into<String>,
    ) -> QuarantineEntry {
        let end = clip.char_indices().nth(MAX_SHOWN_CHARS);
        let clip = match end {
            Some((end, _)) => format!("{}…", &clip[..end]),
            None => clip.to_owned(),
        };
        QuarantineEntry {
            manifest: Arc::clone(&source.shown),
            row,
            clip: clip.into(),
            audio_file: audio_file.into(),
            reason,
            detail: detail.into().into(),
        }
    }
}

/// All bad rows, sorted by manifest file (in the order in which files first came) and row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Quarantine {
    entries: Vec<QuarantineEntry>,
}

impl Quarantine {
    /// All of them, in the order in which they were found.
    pub fn entries(&self) -> &[QuarantineEntry] {
        &self.entries
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// For the next bad row in order; entries out of order go through [`Quarantine::extend`].
    pub(super) fn push(&mut self, entry: QuarantineEntry) {
        self.entries.push(entry);
    }

    /// Adds what later stages found, in any order, and sorts.
    pub fn extend(&mut self, entries: impl IntoIterator<Item = QuarantineEntry>) {
        self.entries.extend(entries);
        let mut order: Vec<Arc<str>> = Vec::new();
        for entry in &self.entries {
            if !order.contains(&entry.manifest) {
                order.push(Arc::clone(&entry.manifest));
            }
        }
        let place = |manifest: &Arc<str>| order.iter().position(|known| known == manifest);
        self.entries
            .sort_by_key(|entry| (place(&entry.manifest), entry.row));
    }

    /// How many entries have each reason, the most frequent first.
    pub fn counts(&self) -> Vec<(Reason, usize)> {
        let mut counts: BTreeMap<&Reason, usize> = BTreeMap::new();
        for entry in &self.entries {
            *counts.entry(&entry.reason).or_default() += 1;
        }
        let counts = counts.into_iter();
        let mut counts: Vec<_> = counts.map(|(r, count)| (r.clone(), count)).collect();
        counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        counts
    }

    /// Whether more than `max_bad_share` of `rows` manifest rows are in the list.
    pub fn too_many(&self, rows: usize, max_bad_share: f64) -> Option<TooManyBad> {
        // Divided, not multiplied: 29 of 100 is 0.29 to the last bit, while 0.29 * 100 < 29.
        let share = self.len() as f64 / rows.max(1) as f64;
        (share > max_bad_share).then(|| TooManyBad {
            bad: self.len(),
            rows,
            max_bad_share,
            counts: self.counts(),
        })
    }

    /// Replaces the file at `path`, also with an empty list: an old one would be a lie.
    pub fn write_csv(&self, path: &Path) -> Result<(), TableError> {
        let rows = self.entries.iter().map(|entry| {
            [
                entry.manifest.to_string(),
                entry.row.to_string(),
                entry.clip.to_string(),
                entry.audio_file.to_string(),
                entry.reason.to_string(),
                entry.detail.to_string(),
            ]
        });
        write_table(path, HEADER, rows)
    }

    /// Reads a list that [`Quarantine::write_csv`] wrote.
    pub fn read_csv(path: &Path) -> Result<Quarantine, TableError> {
        let mut entries = Vec::new();
        for (line, fields) in read_table(path, HEADER)? {
            let [manifest, row, clip, audio_file, reason, detail] = fields;
            let row = row.parse().map_err(|_| TableError::Malformed {
                path: path.to_owned(),
                line,
                problem: format!("`{row}` is not a row number"),
            })?;
            entries.push(QuarantineEntry {
                manifest: manifest.into(),
                row,
                clip: clip.into(),
                audio_file: audio_file.into(),
                reason: Reason(Cow::Owned(reason)),
                detail: detail.into(),
            });
        }
        Ok(Quarantine { entries })
    }
}

/// So much of a manifest is bad that training on the rest is probably not what is wanted.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error(
    "{bad} of {rows} manifest rows are bad ({}, at most {} are allowed): {}",
    percent(*bad as f64 / (*rows).max(1) as f64),
    percent(*max_bad_share),
    listed(counts)
)]
pub struct TooManyBad {
    pub bad: usize,
    pub rows: usize,
    pub max_bad_share: f64,
    /// See [`Quarantine::counts`].
    pub counts: Vec<(Reason, usize)>,
}

fn listed(counts: &[(Reason, usize)]) -> String {
    let parts = counts
        .iter()
        .map(|(reason, count)| format!("{count} {reason}"));
    Vec::from_iter(parts).join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(manifest: &str, row: u32, reason: Reason) -> QuarantineEntry {
        let source = ManifestFile {
            folder: "set".into(),
            shown: manifest.into(),
        };
        let (clip, file, detail) = ("a \"b\",\nc", "wavs/a.wav", "line 1\r\nline 2");
        QuarantineEntry::new(&source, row, clip, file, reason, detail)
    }

    #[test]
    fn the_list_comes_back_from_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("quarantine.csv");
        let mut quarantine = Quarantine::default();
        quarantine.write_csv(&path).unwrap();
        assert_eq!(Quarantine::read_csv(&path).unwrap(), quarantine);

        quarantine.extend([
            entry("m.csv", 3, Reason::EMPTY_TEXT),
            entry("m.csv", 1, Reason::named("truncated")),
        ]);
        quarantine.write_csv(&path).unwrap();
        assert_eq!(Quarantine::read_csv(&path).unwrap(), quarantine);
        assert_eq!(quarantine.entries()[0].row, 1);
    }

    #[test]
    fn later_entries_are_sorted_in_and_counted() {
        let mut quarantine = Quarantine::default();
        quarantine.push(entry("train", 5, Reason::EMPTY_TEXT));
        quarantine.push(entry("eval", 2, Reason::EMPTY_TEXT));
        quarantine.extend([
            entry("eval", 1, Reason::MISSING_AUDIO),
            entry("train", 4, Reason::named("truncated")),
        ]);
        let entries = quarantine.entries().iter();
        let places = entries.map(|entry| (&*entry.manifest, entry.row));
        let expected = [("train", 4), ("train", 5), ("eval", 1), ("eval", 2)];
        assert_eq!(Vec::from_iter(places), expected);
        assert_eq!(quarantine.counts()[0], (Reason::EMPTY_TEXT, 2));
    }

    #[test]
    fn the_share_is_of_all_rows_and_the_limit_itself_is_allowed() {
        let mut quarantine = Quarantine::default();
        quarantine.extend((1..=29).map(|row| entry("m", row, Reason::EMPTY_TEXT)));
        assert_eq!(quarantine.too_many(100, 0.29), None);
        let too_many = quarantine.too_many(99, 0.29).unwrap();
        assert_eq!(
            too_many.to_string(),
            "29 of 99 manifest rows are bad (29.3 %, at most 29.0 % are allowed): 29 empty text"
        );
        assert_eq!(Quarantine::default().too_many(0, 0.0), None);
    }
}
