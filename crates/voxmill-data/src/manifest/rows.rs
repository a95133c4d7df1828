//! From the manifest files of a folder to rows, reading no audio.
//!
//! A manifest is read line by line as bytes: one line of the wrong encoding, a line of a gigabyte
//! or a NUL spoils that row alone. Only `\n` (or `\r\n`) ends a row; Unicode's line separators are
//! text, and so are quote characters.

use std::collections::{HashMap, HashSet};
use std::io::{BufRead, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::audio_folder::{ClipName, Extension};
use super::columns::Columns;
use super::files::{choose_files, open};
use super::layouts::{Layout, is_piper};
use super::{ManifestError, QuarantineEntry, Reason, Split};
use voxmill_text::language::Language;

/// The speaker of rows that name none.
pub const DEFAULT_SPEAKER: &str = "default";

/// Longer lines are quarantined unread. 100,000 characters in three columns fit.
const MAX_LINE_BYTES: usize = 4 << 20;

/// One manifest file, shared by all its rows.
#[derive(Debug, PartialEq, Eq)]
pub struct ManifestFile {
    /// The dataset folder as the caller named it.
    pub folder: PathBuf,
    /// The manifest's path as shown to people.
    pub shown: Arc<str>,
}

/// A row that is in order; its audio has not been checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    pub source: Arc<ManifestFile>,
    /// Line of the manifest file, from 1.
    pub row: u32,
    /// See [`super::Clip::id`].
    pub id: Box<str>,
    pub text: Box<str>,
    pub speaker: Arc<str>,
    pub language: Option<Language>,
    /// `None`: to be divided by hash.
    pub split: Option<Split>,
    /// The extension that the row's id came with.
    pub(super) extension: Option<Extension>,
}

/// What the manifest files of a folder say, before any audio is looked at.
#[derive(Debug)]
pub struct Rows {
    pub folder: PathBuf,
    /// In the order of the files; one element for each line that is neither blank nor a header.
    pub rows: Vec<Result<Row, QuarantineEntry>>,
    /// What a user may want to know of how the folder was read.
    pub notes: Vec<String>,
}

/// Parses the manifest files of `folder`. `given` is the split of all its clips, for a folder that
/// is for validation (or training) as a whole; without it the files or [`Manifest::assemble`]
/// decide.
///
/// [`Manifest::assemble`]: super::Manifest::assemble
pub fn read_rows(folder: &Path, given: Option<Split>) -> Result<Rows, ManifestError> {
    let mut notes = Vec::new();
    let files = choose_files(folder, given, &mut notes)?;
    let mut speakers = HashSet::new();
    let mut rows = Vec::new();
    for (path, split) in files {
        let source = Arc::new(ManifestFile {
            folder: folder.to_owned(),
            shown: path.to_string_lossy().into(),
        });
        let piper = is_piper(open(&path)?);
        if piper {
            notes.push(format!(
                "`{}` is read as `id|speaker|text`; a first line `id|text|normalized` makes it that instead",
                source.shown
            ));
        }
        let order = if piper {
            Columns::piper
        } else {
            Columns::ljspeech
        };
        rows.extend(parse(
            open(&path)?,
            path,
            &source,
            split,
            order,
            &mut speakers,
        )?);
    }
    quarantine_duplicates(&mut rows);
    Ok(Rows {
        folder: folder.to_owned(),
        rows,
        notes,
    })
}

fn parse(
    mut reader: impl BufRead,
    file: PathBuf,
    source: &Arc<ManifestFile>,
    split: Option<Split>,
    order: fn() -> Columns,
    speakers: &mut HashSet<Arc<str>>,
) -> Result<Vec<Result<Row, QuarantineEntry>>, ManifestError> {
    let io_error = |source| ManifestError::Io {
        path: file.clone(),
        source,
    };
    let mut rows = Vec::new();
    let mut columns = None;
    let mut delimiters = Delimiters::default();
    let mut buffer = Vec::new();
    let mut number: u32 = 0;
    loop {
        buffer.clear();
        let limit = MAX_LINE_BYTES as u64 + 1;
        let read = (&mut reader).take(limit).read_until(b'\n', &mut buffer);
        if read.map_err(io_error)? == 0 {
            break;
        }
        let ended = buffer.last() == Some(&b'\n');
        let too_long = !ended && buffer.len() > MAX_LINE_BYTES;
        if too_long {
            reader.skip_until(b'\n').map_err(io_error)?;
        }
        number = number.saturating_add(1);
        let mut line = buffer.as_slice();
        line = line.strip_suffix(b"\n").unwrap_or(line);
        line = line.strip_suffix(b"\r").unwrap_or(line);
        if number == 1 {
            if line.starts_with(b"\xff\xfe") || line.starts_with(b"\xfe\xff") {
                return Err(ManifestError::Utf16 { file });
            }
            line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
        }
        if line.trim_ascii().is_empty() && !too_long {
            continue;
        }
        delimiters.count(line);
        if columns.is_none() {
            let header = std::str::from_utf8(line).ok();
            let foreign = header.filter(|line| !line.contains('|'));
            if let Some(layout) = foreign.and_then(Layout::of_first_line) {
                let folder = source.folder.clone();
                return Err(ManifestError::ForeignLayout { folder, layout });
            }
            match header.and_then(Columns::from_header) {
                Some(Err(problem)) => return Err(ManifestError::Header { file, problem }),
                Some(Ok(named)) => {
                    columns = Some(named);
                    continue;
                }
                None => {}
            }
        }
        let columns = columns.get_or_insert_with(order);
        let parsed = if too_long {
            let detail = format!("the line is longer than {MAX_LINE_BYTES} bytes");
            Err((Reason::LINE_TOO_LONG, detail))
        } else {
            parse_row(line, columns, speakers)
        };
        rows.push(match parsed {
            Ok(fields) => Ok(Row {
                source: Arc::clone(source),
                row: number,
                id: fields.name.id,
                text: fields.text.into(),
                speaker: fields.speaker,
                language: fields.language,
                split,
                extension: fields.name.extension,
            }),
            Err((reason, detail)) => {
                let id = String::from_utf8_lossy(columns.id_of_bytes(line));
                let id = id.trim();
                Err(QuarantineEntry::new(source, number, id, "", reason, detail))
            }
        });
    }
    if rows.is_empty() {
        return Err(ManifestError::Empty { file });
    }
    if delimiters.0[0] == 0 {
        let likely = delimiters.likely();
        return Err(ManifestError::WrongDelimiter { file, likely });
    }
    Ok(rows)
}

/// The content of a row, without its place.
struct ParsedRow<'a> {
    name: ClipName,
    text: &'a str,
    speaker: Arc<str>,
    language: Option<Language>,
}

fn parse_row<'a>(
    line: &'a [u8],
    columns: &Columns,
    speakers: &mut HashSet<Arc<str>>,
) -> Result<ParsedRow<'a>, (Reason, String)> {
    if let Some(at) = line.iter().position(|&byte| byte == 0) {
        let detail = format!("byte {} of the row is NUL", at + 1);
        return Err((Reason::NUL_BYTE, detail));
    }
    let line = std::str::from_utf8(line).map_err(|error| {
        let at = error.valid_up_to();
        let (number, byte) = (at + 1, line[at]);
        let detail = format!("byte {number} of the row (0x{byte:02x}) is not UTF-8");
        (Reason::INVALID_UTF8, detail)
    })?;
    if !line.contains('|') {
        return Err((Reason::TOO_FEW_COLUMNS, "the row has no `|`".to_owned()));
    }
    let fields = columns.fields(line);
    let (count, known) = (fields.count, columns.len());
    if count > known {
        let detail = format!(
            "{count} columns where {known} are known: a header row may name more, and a text may not contain `|`"
        );
        return Err((Reason::TOO_MANY_COLUMNS, detail));
    }
    let name = ClipName::parse(fields.id)?;
    let text = match fields.normalized {
        "" => fields.text,
        normalized => normalized,
    };
    if text.is_empty() {
        return Err((Reason::EMPTY_TEXT, "the row has no text".to_owned()));
    }
    let language = match fields.language {
        "" => Ok(None),
        code => code.parse::<Language>().map(Some),
    };
    let language = language.map_err(|error| (Reason::UNKNOWN_LANGUAGE, error.to_string()))?;
    let speaker = match fields.speaker {
        "" => DEFAULT_SPEAKER,
        name => name,
    };
    Ok(ParsedRow {
        name,
        text,
        speaker: intern(speakers, speaker),
        language,
    })
}

/// One allocation for each speaker, not for each row.
fn intern(names: &mut HashSet<Arc<str>>, name: &str) -> Arc<str> {
    if let Some(known) = names.get(name) {
        return Arc::clone(known);
    }
    let new: Arc<str> = name.into();
    names.insert(Arc::clone(&new));
    new
}

/// Rows in which `|`, tabs, semicolons and commas occur: distinguishes a file with another delimiter
/// from an odd row.
#[derive(Default)]
struct Delimiters([usize; 4]);

impl Delimiters {
    fn count(&mut self, line: &[u8]) {
        // A file that has `|` anywhere is separated by it: nothing more to find out.
        if self.0[0] == 0 {
            for (count, delimiter) in self.0.iter_mut().zip(b"|\t;,") {
                *count += usize::from(line.contains(delimiter));
            }
        }
    }

    /// Texts have commas of their own, so those count only when nothing else does.
    fn likely(&self) -> Option<&'static str> {
        let [_, tabs, semicolons, commas] = self.0;
        if tabs > 0 && tabs >= semicolons {
            Some("tabs")
        } else if semicolons > commas {
            Some("semicolons")
        } else if commas > 0 {
            Some("commas")
        } else {
            None
        }
    }
}

/// The first good row of an id wins; the others are bad rows, in whichever file they stand: a
/// clip of the training list that comes again in the validation list would flatter the result.
fn quarantine_duplicates(rows: &mut [Result<Row, QuarantineEntry>]) {
    let mut first_by_id: HashMap<&str, usize> = HashMap::with_capacity(rows.len());
    let mut duplicates = Vec::new();
    for (index, row) in rows.iter().enumerate() {
        let Ok(row) = row else { continue };
        let first = *first_by_id.entry(&row.id).or_insert(index);
        if first != index {
            duplicates.push((index, first));
        }
    }
    for (index, first) in duplicates {
        let (Ok(first), Ok(row)) = (&rows[first], &rows[index]) else {
            continue;
        };
        let (number, file) = (first.row, &first.source.shown);
        let detail = format!("the id is that of row {number} of {file}");
        let (source, id, reason) = (&row.source, &row.id, Reason::DUPLICATE_ID);
        rows[index] = Err(QuarantineEntry::new(
            source, row.row, id, "", reason, detail,
        ));
    }
}

#[cfg(test)]
mod tests;
