use super::*;
use proptest::prelude::*;
use std::fs;

fn source() -> Arc<ManifestFile> {
    Arc::new(ManifestFile {
        folder: "set".into(),
        shown: "set/metadata.csv".into(),
    })
}

/// Parses a manifest of these bytes, duplicates and all.
fn rows_of(bytes: &[u8]) -> Result<Vec<Result<Row, QuarantineEntry>>, ManifestError> {
    let mut rows = parse(
        bytes,
        PathBuf::new(),
        &source(),
        None,
        Columns::ljspeech,
        &mut HashSet::new(),
    )?;
    quarantine_duplicates(&mut rows);
    Ok(rows)
}

/// `line id: text` of the good rows and `line reason` of the bad ones.
fn outline(bytes: impl AsRef<[u8]>) -> (Vec<String>, Vec<String>) {
    let (mut good, mut bad) = (Vec::new(), Vec::new());
    for row in rows_of(bytes.as_ref()).unwrap() {
        match row {
            Ok(row) => good.push(format!("{} {}: {}", row.row, row.id, row.text)),
            Err(entry) => bad.push(format!("{} {}", entry.row, entry.reason)),
        }
    }
    (good, bad)
}

#[track_caller]
fn assert_all_good(bytes: &str, expected: &[&str]) {
    let (rows, faults) = outline(bytes);
    assert_eq!(rows, expected);
    assert!(faults.is_empty(), "{faults:?}");
}

#[test]
fn ljspeech_rows_prefer_the_normalized_column() {
    assert_all_good(
        "a|Dr. No|Doctor No\nb|Two columns\nc|Empty third|  \nd|x|y|\n",
        &[
            "1 a: Doctor No",
            "2 b: Two columns",
            "3 c: Empty third",
            "4 d: y",
        ],
    );
}

#[test]
fn bom_crlf_blank_lines_and_a_missing_last_newline_are_tolerated() {
    let text = "\u{feff}a|One\r\n\r\n  \nb|Two";
    assert_all_good(text, &["1 a: One", "4 b: Two"]);
    assert_all_good("\u{feff}id|text\r\nb|Two\r\n", &["2 b: Two"]);
}

#[test]
fn quotes_and_unicode_line_separators_are_text() {
    let separated = "one\u{2028}two\u{85}three\u{b}four";
    assert_all_good(
        &format!("a|\"He said\nb|\"x\"|\nc|{separated}\n"),
        &["1 a: \"He said", "2 b: \"x\"", &format!("3 c: {separated}")],
    );
}

#[test]
fn a_header_names_speakers_and_languages() {
    let rows = rows_of(
        b"language|speaker|id|text\nen-GB|ann|a|One\n|bob|b|Two\nfa||c|Three\nklingon|bob|d|Four\n",
    )
    .unwrap();
    let good = rows.iter().flatten();
    let named = good.map(|row| (&*row.speaker, row.language));
    let expected = [
        ("ann", Some(Language::English)),
        ("bob", None),
        ("default", Some(Language::Persian)),
    ];
    assert_eq!(Vec::from_iter(named), expected);
    let fault = rows[3].as_ref().unwrap_err();
    assert_eq!((fault.row, &fault.reason), (5, &Reason::UNKNOWN_LANGUAGE));
    assert_eq!(&*fault.clip, "d");
    assert!(fault.detail.contains("klingon"));
}

#[test]
fn a_bad_row_spoils_itself_alone() {
    // What is wrong with each line; the first is Latin-1.
    let lines: [(&[u8], &str); 12] = [
        (b"a|caf\xe9", "invalid UTF-8"),
        (b"b|fine", ""),
        (b"c|", "empty text"),
        (b"|no id", "empty id"),
        (b"no columns", "too few columns"),
        (b"d|a|b|c|d", "too many columns"),
        (b"e|nul\0here", "NUL byte"),
        (b"f\0|nul", "NUL byte"),
        (b"b|again", "duplicate id"),
        (b"wavs/b.flac|once more", "duplicate id"),
        (b"c|second try", ""),
        (b"|||||", "empty id"),
    ];
    let bytes = lines.map(|(line, _)| line).join(&b'\n');
    let (rows, faults) = outline(&bytes);
    assert_eq!(rows, ["2 b: fine", "11 c: second try"]);
    let numbered = (1..).zip(lines).map(|(number, (_, fault))| (number, fault));
    let expected = numbered.filter(|(_, fault)| !fault.is_empty());
    let expected = expected.map(|(number, fault): (u32, _)| format!("{number} {fault}"));
    assert_eq!(faults, Vec::from_iter(expected));
    let rows = rows_of(&bytes).unwrap();
    let invalid = rows[0].as_ref().unwrap_err();
    assert_eq!(&*invalid.clip, "a");
    assert_eq!(&*invalid.detail, "byte 6 of the row (0xe9) is not UTF-8");
    let duplicate = rows[8].as_ref().unwrap_err();
    let detail = "the id is that of row 2 of set/metadata.csv";
    assert_eq!(&*duplicate.detail, detail);
}

#[test]
fn ids_that_leave_the_folder_are_refused() {
    let ids = r"../secret a/../../b .. wavs/../x /etc/passwd \\server\x C:\x.wav ..\x";
    for id in ids.split(' ') {
        let (rows, faults) = outline(format!("{id}|Hello.\n"));
        assert_eq!(rows.len(), 0, "{id}");
        assert_eq!(faults, ["1 outside the dataset folder"], "{id}");
    }
}

#[test]
fn long_texts_are_rows_and_absurd_lines_are_not() {
    let long = "x".repeat(100_000);
    let mut bytes = format!("a|{long}\nb|").into_bytes();
    bytes.resize(bytes.len() + (10 << 20), b'y');
    bytes.extend_from_slice(b"\nc|Fine.\n");
    let (rows, faults) = outline(&bytes);
    assert_eq!(rows, [&format!("1 a: {long}"), "3 c: Fine."]);
    assert_eq!(faults, ["2 line too long"]);
    // A line of nothing but columns, and one of nothing but blanks, at the very limit.
    let pipes = format!("{}\nc|Fine.\n", "|".repeat(MAX_LINE_BYTES));
    assert_eq!(outline(&pipes).1, ["1 empty id"]);
    let blanks = format!("{}\nc|Fine.\n", " ".repeat(MAX_LINE_BYTES + 1));
    assert_eq!(outline(&blanks).1, ["1 line too long"]);
}

#[test]
fn an_absurd_id_is_shown_in_part() {
    let rows = rows_of(format!("{}|\n", "é".repeat(1000)).as_bytes()).unwrap();
    assert_eq!(rows[0].as_ref().unwrap_err().clip.chars().count(), 201);
}

#[test]
fn whole_files_that_are_no_manifest_are_errors() {
    let fault = |bytes: &[u8]| rows_of(bytes).unwrap_err();
    assert!(matches!(fault(b""), ManifestError::Empty { .. }));
    assert!(matches!(
        fault(b"\xef\xbb\xbf\r\n\n"),
        ManifestError::Empty { .. }
    ));
    assert!(matches!(fault(b"id|text\n"), ManifestError::Empty { .. }));
    assert!(matches!(
        fault(b"\xff\xfea\0|\0"),
        ManifestError::Utf16 { .. }
    ));
    let delimiter = |text: &str| match rows_of(text.as_bytes()) {
        Err(ManifestError::WrongDelimiter { likely, .. }) => likely,
        other => panic!("{other:?}"),
    };
    assert_eq!(delimiter("a,\"Well, yes\"\nb,No\n"), Some("commas"));
    assert_eq!(delimiter("a\tWell, yes\nb\tNo\n"), Some("tabs"));
    assert_eq!(delimiter("a;Well, yes\nb;No\n"), Some("semicolons"));
    assert_eq!(delimiter("hello\n"), None);
    let ManifestError::Header { problem, .. } = fault(b"id|words|speaker\na|b|c\n") else {
        panic!();
    };
    assert_eq!(problem, "has no `text` column");
}

/// The rows of a folder with these files, or the error and its message.
fn read_folder(
    files: &[(&str, &str)],
    given: Option<Split>,
) -> Result<Rows, (ManifestError, String)> {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        fs::write(folder.path().join(name), text).unwrap();
    }
    read_rows(folder.path(), given).map_err(|error| {
        let root = folder.path().to_string_lossy().into_owned();
        let message = format!("{error}; {}", error.hint()).replace(&root, "SET");
        (error, message)
    })
}

fn splits(rows: &Rows) -> Vec<(&str, Option<Split>)> {
    let good = rows.rows.iter().flatten();
    good.map(|row| (&*row.id, row.split)).collect()
}

#[test]
fn a_pair_of_lists_gives_the_split_and_a_clip_in_both_stays_in_training() {
    let files = [
        ("metadata.csv", "z|Unread.\n"),
        ("metadata_train.csv", "a|One.\nb|Two.\n"),
        ("metadata_eval.csv", "b|Two.\nc|Three.\n"),
    ];
    let rows = read_folder(&files, None).unwrap();
    let (train, validation) = (Some(Split::Train), Some(Split::Validation));
    let expected = [("a", train), ("b", train), ("c", validation)];
    assert_eq!(splits(&rows), expected);
    let fault = rows.rows[2].as_ref().unwrap_err();
    assert_eq!((fault.row, &fault.reason), (1, &Reason::DUPLICATE_ID));
    assert!(fault.manifest.ends_with("metadata_eval.csv"));
    assert_eq!(rows.notes.len(), 1);
    assert!(rows.notes[0].contains("metadata.csv is not read"));

    let rows = read_folder(&files, validation).unwrap();
    let expected = ["a", "b", "c"].map(|id| (id, validation));
    assert_eq!(splits(&rows), expected);
}

#[test]
fn half_a_pair_is_used_with_a_note_or_refused() {
    let train = ("metadata_train.csv", "a|One.\n");
    let eval = ("metadata_eval.csv", "b|Two.\n");
    let whole = ("metadata.csv", "c|Three.\n");

    let rows = read_folder(&[train], None).unwrap();
    assert_eq!(splits(&rows), [("a", None)]);
    assert!(rows.notes[0].contains("set aside for validation"));

    let rows = read_folder(&[whole, eval], None).unwrap();
    assert_eq!(splits(&rows), [("c", None)]);
    assert!(rows.notes[0].contains("metadata.csv is read instead"));

    let (error, _) = read_folder(&[eval], None).unwrap_err();
    assert!(matches!(error, ManifestError::EvalWithoutTrain { .. }));
    let rows = read_folder(&[eval], Some(Split::Validation)).unwrap();
    assert_eq!(splits(&rows), [("b", Some(Split::Validation))]);

    assert!(read_folder(&[whole], None).unwrap().notes.is_empty());
}

#[test]
fn folders_without_a_manifest_say_what_they_hold_and_what_to_do() {
    let message = |files: &[(&str, &str)]| read_folder(files, None).unwrap_err().1;
    assert_eq!(
        message(&[("notes.txt", ""), ("a.wav", "")]),
        "no manifest in `SET`, which holds a.wav, notes.txt; write metadata.csv with one \
         `id|text` line per clip, and the audio to wavs/<id>.wav (or .flac, .ogg, .mp3)"
    );
    assert!(message(&[]).contains("which holds nothing"));
    assert_eq!(
        message(&[("metadata.csv", "a,b\n")]),
        "no row of the manifest `SET/metadata.csv` has a `|`; it looks separated by commas; \
         separate the columns by `|`, as in `clip-1|What is said.`; quote characters are taken as \
         text"
    );
    assert!(message(&[("metadata.csv", "\n")]).contains("`SET/metadata.csv` has no rows"));

    let missing = read_rows(Path::new("/no/such/folder"), None).unwrap_err();
    assert_eq!(missing.to_string(), "there is no folder `/no/such/folder`");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("metadata.csv");
    fs::write(&file, "a|b\n").unwrap();
    let error = read_rows(&file, None).unwrap_err();
    assert!(matches!(error, ManifestError::NotAFolder { .. }));

    // Pointing one level too deep, or one too high, is the usual slip.
    for (wrong, right) in [("set/wavs", "set"), ("", "set")] {
        let folder = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(folder.path()).unwrap();
        fs::create_dir_all(root.join("set/wavs")).unwrap();
        fs::write(root.join("set/metadata.csv"), "a|b\n").unwrap();
        let error = read_rows(&root.join(wrong), None).unwrap_err();
        let expected = format!("`{}` has one", root.join(right).display());
        assert!(error.hint().starts_with(&expected), "{}", error.hint());
    }
}

#[test]
fn a_manifest_that_is_no_file_is_never_opened() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("metadata.csv");
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mkfifoat(rustix::fs::CWD, &path, mode).unwrap();
    let error = || read_rows(folder.path(), None).unwrap_err();
    assert!(matches!(error(), ManifestError::NotAFile { .. }));
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    assert!(matches!(error(), ManifestError::NotAFile { .. }));
    fs::remove_dir(&path).unwrap();
    std::os::unix::fs::symlink("nowhere", &path).unwrap();
    assert!(matches!(error(), ManifestError::Io { .. }), "{}", error());
}

/// Bytes in which the parser's own characters are frequent.
fn manifest_bytes() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        4 => Just(b"|".to_vec()),
        3 => Just(b"\n".to_vec()),
        1 => Just(b"\r\n".to_vec()),
        1 => prop::sample::select(vec!["id", "text", "speaker", "language", "en", "../", "wavs/",
            ".wav", "\u{feff}", "\u{2028}", "\"", "\0", " ", "/", "\\", "."])
            .prop_map(|s| s.as_bytes().to_vec()),
        2 => "[ab]{1,2}".prop_map(String::into_bytes),
        1 => any::<String>().prop_map(String::into_bytes),
        1 => prop::collection::vec(any::<u8>(), 0..4),
    ];
    prop::collection::vec(piece, 0..60).prop_map(|pieces| pieces.concat())
}

proptest! {
    /// Nothing is lost and nothing is invented: each line that is not blank is one row, one
    /// quarantine entry or the header.
    #[test]
    fn every_line_is_accounted_for(bytes in manifest_bytes()) {
        let unmarked = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes);
        let lines: Vec<u32> = unmarked
            .split(|&byte| byte == b'\n')
            .zip(1..)
            .filter(|(line, _)| !line.trim_ascii().is_empty())
            .map(|(_, number)| number)
            .collect();
        match rows_of(&bytes) {
            Ok(rows) => {
                let numbers: Vec<u32> = rows
                    .iter()
                    .map(|row| row.as_ref().map_or_else(|entry| entry.row, |row| row.row))
                    .collect();
                prop_assert!(numbers == lines || numbers == lines[1..]);
                let mut ids = HashSet::new();
                for row in rows.iter().flatten() {
                    prop_assert!(!row.id.is_empty() && !row.text.is_empty());
                    prop_assert!(!row.id.split('/').any(|part| part.is_empty() || part == ".."));
                    prop_assert!(!row.id.contains(['\0', '\\', '|']));
                    prop_assert!(ids.insert(&row.id), "{} twice", row.id);
                }
            }
            Err(ManifestError::Empty { .. }) => prop_assert!(lines.len() <= 1),
            Err(ManifestError::WrongDelimiter { .. }) => prop_assert!(!bytes.contains(&b'|')),
            Err(ManifestError::Utf16 { .. }) => prop_assert!(bytes[0] >= 0xfe),
            Err(ManifestError::Header { .. }) => {}
            Err(error) => prop_assert!(false, "{error}"),
        }
    }
}
