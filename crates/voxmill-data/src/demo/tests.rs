//! What the demo corpus promises, and what unpacking it survives.

use std::collections::BTreeSet;
use std::thread;

use super::*;

/// Rows of a manifest inside the built-in pack: (id, text, speaker, language).
fn rows(manifest: &str) -> Vec<[String; 4]> {
    let bytes = Pack::read(PACK).unwrap().file(manifest).unwrap();
    let text = String::from_utf8(bytes).unwrap();
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("id|text|normalized|speaker|language"));
    let row = |line: &str| {
        let fields: Vec<&str> = line.split('|').collect();
        let [id, text, normalized, speaker, language] = fields[..] else {
            panic!("{line}");
        };
        assert_eq!(text, normalized);
        [id, text, speaker, language].map(str::to_owned)
    };
    lines.map(row).collect()
}

/// Rows of all three manifests.
fn all_rows() -> impl Iterator<Item = [String; 4]> {
    let manifests = [TRAIN_MANIFEST, EVAL_MANIFEST, UNSEEN_MANIFEST];
    manifests.into_iter().flat_map(rows)
}

/// An empty folder, and the place of a corpus in it.
fn place() -> (tempfile::TempDir, PathBuf) {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("demo");
    (home, dir)
}

fn words(text: &str) -> Vec<String> {
    let words = text.split(|c: char| !c.is_alphabetic());
    let words = words.filter(|word| !word.is_empty());
    words.map(str::to_lowercase).collect()
}

#[test]
fn the_pack_is_whole_and_small_enough() {
    Pack::read(PACK).unwrap().check().unwrap();
    assert!(PACK.len() <= MAX_PACK_BYTES, "{}", PACK.len());
}

#[test]
fn it_holds_the_clips_it_promises() {
    let train = rows(TRAIN_MANIFEST);
    assert_eq!(train.len(), TRAIN_CLIPS);
    let of = |speaker: &str| train.iter().filter(|row| row[2] == speaker).count();
    assert!(of(MAIN_SPEAKER) >= 500);
    assert!(of("slt") >= 100 && of("awb") >= 100);
    assert!(train.iter().filter(|row| row[3] == "fa").count() >= 24);
    let eval = rows(EVAL_MANIFEST);
    assert_eq!(eval.len(), EVAL_CLIPS);
    assert!(eval.iter().all(|row| row[2] == MAIN_SPEAKER));

    let mut audio = BTreeSet::new();
    let visited = Pack::read(PACK).unwrap().visit(|name, bytes| {
        let file = name.strip_prefix("wavs/");
        if let Some(id) = file.and_then(|name| name.strip_suffix(".ogg")) {
            assert!(bytes.starts_with(b"OggS"), "{name}");
            audio.insert(id.to_owned());
        }
        Ok::<(), ()>(())
    });
    visited.unwrap();
    assert_eq!(audio, all_rows().map(|[id, ..]| id).collect());
}

#[test]
fn no_sentence_is_in_two_places() {
    let all: Vec<String> = all_rows().map(|row| words(&row[1]).join(" ")).collect();
    let different: BTreeSet<&String> = all.iter().collect();
    assert_eq!(different.len(), all.len());
}

#[test]
fn english_text_is_plain_letters() {
    for [id, text, _, language] in rows(TRAIN_MANIFEST).into_iter().chain(rows(EVAL_MANIFEST)) {
        if language == "en" {
            let plain = |c: char| c.is_ascii_alphabetic() || " ,.?".contains(c);
            assert!(text.chars().all(plain), "{id}: {text}");
        }
    }
}

#[test]
fn evaluation_uses_trained_words_and_the_unseen_list_does_not() {
    let trained = rows(TRAIN_MANIFEST);
    let trained: BTreeSet<String> = trained.iter().flat_map(|row| words(&row[1])).collect();
    for row in rows(EVAL_MANIFEST) {
        for word in words(&row[1]) {
            assert!(trained.contains(&word), "{word} in {row:?}");
        }
    }
    let unseen = rows(UNSEEN_MANIFEST);
    assert_eq!(unseen.len(), 10);
    for row in unseen {
        let words = words(&row[1]);
        let new = words.iter().filter(|word| !trained.contains(*word));
        assert!(new.count() >= 3, "{row:?}");
    }
}

#[test]
fn unpacking_twice_writes_once() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("some/where/demo");
    let first = unpack(&dir).unwrap();
    // Audio of all clips, three manifests, the marker.
    assert_eq!(first.files_written, TRAIN_CLIPS + EVAL_CLIPS + 10 + 3 + 1);
    let files = fs::read_dir(dir.join("wavs")).unwrap().count();
    assert_eq!(files, TRAIN_CLIPS + EVAL_CLIPS + 10);
    let second = unpack(&dir).unwrap();
    assert_eq!((second.dir, second.files_written), (dir, 0));
}

/// A pack of three tiny files: what follows is about folders, not about speech.
fn little_pack() -> Vec<u8> {
    write_pack([
        ("metadata_train.csv", &b"id|text\n"[..]),
        ("wavs/a.ogg", b"OggS a"),
        ("wavs/b.ogg", b"OggS b"),
    ])
}

#[test]
fn damaged_and_missing_files_are_written_again_and_others_are_left_alone() {
    let (_home, dir) = place();
    let pack = little_pack();
    assert_eq!(unpack_from(&pack, &dir).unwrap().files_written, 4);
    // Same length, other content: only a comparison of the bytes finds it.
    fs::write(dir.join("wavs/a.ogg"), "OggS x").unwrap();
    fs::remove_file(dir.join("wavs/b.ogg")).unwrap();
    fs::write(dir.join("cache-of-mine"), "precious").unwrap();
    assert_eq!(unpack_from(&pack, &dir).unwrap().files_written, 2);
    assert_eq!(fs::read(dir.join("wavs/a.ogg")).unwrap(), b"OggS a");
    assert_eq!(fs::read(dir.join("cache-of-mine")).unwrap(), b"precious");
    assert_eq!(unpack_from(&pack, &dir).unwrap().files_written, 0);
}

#[test]
fn what_a_killed_run_left_behind_does_not_matter() {
    let (home, dir) = place();
    fs::create_dir_all(home.path().join(".demo.unfinished/wavs")).unwrap();
    fs::write(home.path().join(".demo.unfinished/wavs/a.ogg"), "Og").unwrap();
    unpack_from(&little_pack(), &dir).unwrap();
    assert_eq!(fs::read(dir.join("wavs/a.ogg")).unwrap(), b"OggS a");
    assert!(!home.path().join(".demo.unfinished").exists());
}

#[test]
fn a_folder_of_somebody_else_is_refused_and_untouched() {
    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join("metadata_train.csv"), "mine").unwrap();
    let file = home.path().join("metadata_train.csv");
    for place in [home.path(), &file] {
        let refused = unpack_from(&little_pack(), place);
        assert!(matches!(refused, Err(DemoError::NotOurs(_))), "{refused:?}");
    }
    assert_eq!(fs::read(file).unwrap(), b"mine");
    assert_eq!(fs::read_dir(home.path()).unwrap().count(), 1);
}

#[test]
fn an_empty_folder_is_taken() {
    let (_home, dir) = place();
    fs::create_dir(&dir).unwrap();
    assert_eq!(unpack_from(&little_pack(), &dir).unwrap().files_written, 4);
}

#[test]
fn several_at_once_all_get_the_whole_corpus() {
    let (_home, dir) = place();
    let pack = little_pack();
    let written: usize = thread::scope(|scope| {
        let unpack = || unpack_from(&pack, &dir).unwrap().files_written;
        let runs: Vec<_> = (0..8).map(|_| scope.spawn(unpack)).collect();
        runs.into_iter().map(|run| run.join().unwrap()).sum()
    });
    assert_eq!(written, 4, "one run writes, the others find it done");
}

#[test]
fn a_truncated_or_damaged_pack_is_a_typed_error_and_writes_nothing() {
    let (_home, dir) = place();
    let refused = |pack: &[u8]| match unpack_from(pack, &dir) {
        Err(DemoError::Pack(error)) => error,
        other => panic!("{other:?}"),
    };
    let cut = refused(&PACK[..PACK.len() / 2]);
    assert!(matches!(cut, PackError::Truncated { .. }), "{cut:?}");
    let mut changed = little_pack();
    let middle = changed.len() - 40;
    changed[middle] ^= 1;
    assert_eq!(refused(&changed), PackError::Checksum);
    assert!(!dir.exists());
}

/// /proc takes no files, not even root's: the one read-only place that every Linux test has.
#[cfg(target_os = "linux")]
#[test]
fn a_place_that_cannot_be_written_says_so() {
    let refused = unpack_from(&little_pack(), Path::new("/proc/voxmill-demo"));
    let Err(error @ DemoError::Write { .. }) = refused else {
        panic!("{refused:?}")
    };
    let message = "the demo corpus cannot be written to /proc/voxmill-demo";
    assert_eq!(error.to_string(), message);
}
