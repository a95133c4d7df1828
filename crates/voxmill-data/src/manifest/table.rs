//! Small tables for people: `quarantine.csv` and `suspicious.csv`.
//!
//! Comma-separated with RFC 4180 quoting and `\n` line ends, so that a spreadsheet, pandas and
//! `grep` can all read them whatever an id contains. The header row is the format's version: a
//! table with other columns is refused. A table appears whole or not at all: it is written under a
//! temporary name, synced and renamed. What a terminal would obey is written as `\u{1b}`, and read back as it was.
//! Thirty lines of quoting did not seem worth a dependency.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use voxmill_untrusted::file::read_text;
use voxmill_untrusted::shown;

/// A row for each of some million clips.
const MOST_BYTES: u64 = 1 << 30;

/// Why a list cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum TableError {
    #[error("cannot write `{}`", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("cannot read `{}`", path.display())]
    Read { path: PathBuf, source: io::Error },
    /// Of another version.
    #[error("`{}`, line 1: the columns are others", path.display())]
    OtherColumns { path: PathBuf },
    #[error("`{}`, line {line}: {problem}", path.display())]
    Malformed {
        path: PathBuf,
        line: usize,
        problem: String,
    },
}

/// Writes the table to `path`. A file that holds it already is left alone, and an empty table makes no new
/// file: a second run then writes nothing, and works where nothing can be written.
pub(super) fn write_table<const N: usize>(
    path: &Path,
    header: [&str; N],
    rows: impl IntoIterator<Item = [String; N]>,
) -> Result<(), TableError> {
    let write = || -> io::Result<()> {
        let mut table = Vec::new();
        write_row(&mut table, header)?;
        let empty = table.len();
        for row in rows {
            write_row(&mut table, row.each_ref().map(String::as_str))?;
        }
        // A pipe or a device in its place may never end: it is replaced unread.
        let is_done = match fs::metadata(path) {
            Ok(found) if found.is_file() && found.len() == table.len() as u64 => {
                fs::read(path).is_ok_and(|before| before == table)
            }
            Ok(_) => false,
            Err(error) => error.kind() == io::ErrorKind::NotFound && table.len() == empty,
        };
        if is_done {
            return Ok(());
        }
        let parent = path.parent().filter(|parent| *parent != Path::new(""));
        let folder = parent.unwrap_or(Path::new("."));
        fs::create_dir_all(folder)?;
        let mut file = temporary_file(folder)?;
        file.write_all(&table)?;
        file.as_file().sync_all()?;
        file.persist(path)?;
        Ok(())
    };
    write().map_err(|source| TableError::Write {
        path: path.to_owned(),
        source,
    })
}

fn temporary_file(folder: &Path) -> io::Result<tempfile::NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    // Temporary files are private by default; a report is as open as the user's umask says.
    let open = fs::Permissions::from_mode(0o666);
    builder.prefix(".table-").suffix(".tmp").permissions(open);
    builder.tempfile_in(folder)
}

fn write_row<const N: usize>(out: &mut impl Write, row: [&str; N]) -> io::Result<()> {
    for (index, field) in row.into_iter().enumerate() {
        if index > 0 {
            out.write_all(b",")?;
        }
        let field = shown::field(field);
        // A lone empty field would make a blank line; quoting it costs two bytes.
        if field.contains(['"', ',', '\n']) || (N == 1 && field.is_empty()) {
            write!(out, "\"{}\"", field.replace('"', "\"\""))?;
        } else {
            out.write_all(field.as_bytes())?;
        }
    }
    out.write_all(b"\n")
}

/// Reads a table that [`write_table`] wrote, without its header; each row with its line. A file
/// that does not exist has no rows.
pub(super) fn read_table<const N: usize>(
    path: &Path,
    header: [&str; N],
) -> Result<Vec<(usize, [String; N])>, TableError> {
    let text = match read_text(path, MOST_BYTES) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        text => text.map_err(|source| TableError::Read {
            path: path.to_owned(),
            source,
        })?,
    };
    let malformed = |line, problem: String| TableError::Malformed {
        path: path.to_owned(),
        line,
        problem,
    };
    let mut rest = text.as_str();
    let mut line = 1;
    let mut rows = Vec::new();
    while !rest.is_empty() {
        let before = rest;
        let fields = take_row(&mut rest).map_err(|problem| malformed(line, problem.to_owned()))?;
        let count = fields.len();
        let other_columns = || TableError::OtherColumns {
            path: path.to_owned(),
        };
        if line == 1 && count != N {
            return Err(other_columns());
        }
        let row: [String; N] = fields
            .try_into()
            .map_err(|_| malformed(line, format!("{count} fields where {N} are expected")))?;
        if line == 1 {
            if row != header {
                return Err(other_columns());
            }
        } else {
            rows.push((line, row));
        }
        line += before[..before.len() - rest.len()].matches('\n').count();
    }
    Ok(rows)
}

/// Takes one row off the front of `rest`.
fn take_row(rest: &mut &str) -> Result<Vec<String>, &'static str> {
    let mut fields = Vec::new();
    loop {
        let mut field = String::new();
        if let Some(mut quoted) = rest.strip_prefix('"') {
            loop {
                let end = quoted.find('"').ok_or("a quote is not closed")?;
                field.push_str(&quoted[..end]);
                quoted = &quoted[end + 1..];
                let Some(more) = quoted.strip_prefix('"') else {
                    break;
                };
                field.push('"');
                quoted = more;
            }
            *rest = quoted;
        } else {
            let end = rest.find([',', '\n']).unwrap_or(rest.len());
            field.push_str(&rest[..end]);
            *rest = &rest[end..];
        }
        fields.push(shown::restored(&field));
        if let Some(more) = rest.strip_prefix(',') {
            *rest = more;
        } else if let Some(more) = rest.strip_prefix('\n') {
            *rest = more;
            return Ok(fields);
        } else if rest.is_empty() {
            return Err("the last row is cut off");
        } else {
            return Err("text after a closing quote");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_fields_come_back(rows in prop::collection::vec(any::<[String; 3]>(), 0..8)) {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("table.csv");
            write_table(&path, ["a", "b", "c"], rows.clone()).unwrap();
            let read = read_table(&path, ["a", "b", "c"]).unwrap();
            let read: Vec<_> = read.into_iter().map(|(_, row)| row).collect();
            prop_assert_eq!(read, rows);
            prop_assert!(!fs::read_to_string(&path).unwrap_or_default().contains(shown::is_obeyed));
        }

        #[test]
        fn any_file_is_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("table.csv");
            fs::write(&path, bytes).unwrap();
            let _ = read_table(&path, ["a"]);
        }
    }

    #[test]
    fn other_columns_and_damage_are_refused_with_the_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("table.csv");
        let problem = |text: &str| {
            fs::write(&path, text).unwrap();
            read_table(&path, ["a", "b"]).unwrap_err().to_string()
        };
        for other in ["a,c\n", "a\n", "a,b,c\n"] {
            assert!(problem(other).contains("line 1: the columns are others"));
        }
        assert!(problem("a,b\n\"1\n2\",3\n4\n").contains("line 4: 1 fields"));
        assert!(problem("a,b\n1,\"2\n").contains("line 2: a quote is not closed"));
        assert!(problem("a,b\n1,2").contains("line 2: the last row is cut off"));
        assert!(problem("a,b\n1,\"2\"x\n").contains("line 2: text after"));
    }

    #[test]
    fn what_is_no_file_is_replaced_and_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("table.csv");
        let made = std::process::Command::new("mkfifo").arg(&path).status();
        assert!(made.unwrap().success());
        write_table(&path, ["a"], [["1".to_owned()]]).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "a\n1\n");
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/dev/zero", &path).unwrap();
        write_table(&path, ["a"], []).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "a\n");
    }

    #[test]
    fn a_table_that_cannot_be_written_leaves_the_old_one_and_no_rubbish() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("table.csv");
        fs::create_dir(&path).unwrap();
        fs::write(path.join("kept"), "").unwrap();
        let error = write_table(&path, ["a"], []).unwrap_err();
        assert!(error.to_string().contains("table.csv"));
        assert!(path.join("kept").exists());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
