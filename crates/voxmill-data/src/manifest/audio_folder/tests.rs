use super::*;
use crate::manifest::read_rows;
use std::os::unix::fs::symlink;
use tempfile::TempDir;

const HEADER: AudioHeader = AudioHeader {
    sample_rate: 22_050,
    channels: 1,
    samples: 44_100,
};

fn dataset(ids: &[&str]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let manifest: String = ids.iter().map(|id| format!("{id}|Hello.\n")).collect();
    fs::write(folder.path().join("metadata.csv"), manifest).unwrap();
    fs::create_dir(folder.path().join("wavs")).unwrap();
    folder
}

fn put(folder: &TempDir, name: &str) {
    let path = folder.path().join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, "sound").unwrap();
}

/// The audio file of each row, or what is wrong with it.
fn resolve_all(folder: &TempDir) -> Vec<String> {
    resolve_with(folder, |_| Ok(HEADER))
}

fn resolve_with(
    folder: &TempDir,
    read_header: impl Fn(&Path) -> Result<AudioHeader, BadAudio>,
) -> Vec<String> {
    let rows = read_rows(folder.path(), None).unwrap();
    let audio = AudioFolder::list(&rows, FollowedLinks::Inside).unwrap();
    let resolve = |row: Result<_, QuarantineEntry>| match row
        .and_then(|row| audio.resolve(row, &read_header))
    {
        Ok(resolved) => {
            assert!(resolved.clip.audio_path().is_file());
            resolved.clip.audio_file.into()
        }
        Err(entry) => format!("{}: {}", entry.reason, entry.audio_file),
    };
    rows.rows.into_iter().map(resolve).collect()
}

/// The only row, resolved.
fn resolve_one(folder: &Path) -> Result<ResolvedClip, QuarantineEntry> {
    let rows = read_rows(folder, None).unwrap();
    let audio = AudioFolder::list(&rows, FollowedLinks::Inside).unwrap();
    let row = rows.rows[0].clone().unwrap();
    audio.resolve(row, |_| Ok(HEADER))
}

#[test]
fn all_spellings_of_an_id_find_its_file() {
    let ids = r"x x.wav wavs/x.wav wavs/x ./wavs//x wavs\x.WAV x.flac";
    for id in ids.split(' ') {
        let folder = dataset(&[id]);
        put(&folder, "wavs/x.wav");
        assert_eq!(resolve_all(&folder), ["wavs/x.wav"], "{id}");
    }
    let folder = dataset(&["ann/x", "a.b.c", "ü", "y"]);
    let files = ["ann/x.ogg", "a.b.c.flac", "ü.mp3", "y.WAV"].map(|name| format!("wavs/{name}"));
    files.iter().for_each(|name| put(&folder, name));
    assert_eq!(resolve_all(&folder), files);
}

#[test]
fn of_several_files_the_named_one_or_the_first_format_is_taken() {
    let folder = dataset(&["a", "b.mp3", "c"]);
    let names = "a.mp3 a.ogg a.flac a.wav a-2.wav a.wav.bak b.wav b.mp3 c.mp3 c.ogg";
    for name in names.split(' ') {
        put(&folder, &format!("wavs/{name}"));
    }
    let expected = ["wavs/a.wav", "wavs/b.mp3", "wavs/c.ogg"];
    assert_eq!(resolve_all(&folder), expected);
}

#[test]
fn missing_and_foreign_audio_are_distinguished() {
    let folder = dataset(&["a", "b", "c.opus", "sub/d", "aa"]);
    put(&folder, "wavs/b.m4a");
    put(&folder, "wavs/c.opus");
    put(&folder, "wavs/aaa.wav");
    let (missing, unsupported) = ("missing audio: ", "unsupported audio format: ");
    let expected = [missing, unsupported, unsupported, missing, missing];
    assert_eq!(resolve_all(&folder), expected);
}

#[test]
fn only_regular_files_are_opened() {
    let folder = dataset(&[
        "folder", "fifo", "socket", "device", "empty", "loop", "dangling",
    ]);
    let wavs = folder.path().join("wavs");
    fs::create_dir(wavs.join("folder.wav")).unwrap();
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mkfifoat(rustix::fs::CWD, wavs.join("fifo.wav"), mode).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(wavs.join("socket.wav")).unwrap();
    symlink("/dev/zero", wavs.join("device.wav")).unwrap();
    fs::write(wavs.join("empty.wav"), "").unwrap();
    symlink("loop.wav", wavs.join("loop.wav")).unwrap();
    symlink("nowhere.wav", wavs.join("dangling.wav")).unwrap();
    let results = resolve_with(&folder, |path| panic!("opened {}", path.display()));
    let expected = [
        "not a file: wavs/folder.wav",
        "not a file: wavs/fifo.wav",
        "not a file: wavs/socket.wav",
        "link to outside the dataset folder: wavs/device.wav",
        "empty audio: wavs/empty.wav",
        "unreadable audio: wavs/loop.wav",
        "missing audio: wavs/dangling.wav",
    ];
    assert_eq!(results, expected);
}

#[test]
fn links_may_not_leave_the_folder() {
    let elsewhere = tempfile::tempdir().unwrap();
    put(&elsewhere, "x.wav");
    let folder = dataset(&["inside", "outside", "sub/x", "near/x"]);
    put(&folder, "more/x.wav");
    let wavs = folder.path().join("wavs");
    symlink("../more/x.wav", wavs.join("inside.wav")).unwrap();
    symlink(elsewhere.path().join("x.wav"), wavs.join("outside.wav")).unwrap();
    symlink(elsewhere.path(), wavs.join("sub")).unwrap();
    symlink("../more", wavs.join("near")).unwrap();
    let expected = [
        "wavs/inside.wav",
        "link to outside the dataset folder: wavs/outside.wav",
        "link to outside the dataset folder: ",
        "wavs/near/x.wav",
    ];
    assert_eq!(resolve_all(&folder), expected);

    // A sibling whose name begins like the folder's is outside, too.
    let both = tempfile::tempdir().unwrap();
    let (set, sibling) = (both.path().join("set"), both.path().join("set-2"));
    fs::create_dir_all(set.join("wavs")).unwrap();
    fs::create_dir(&sibling).unwrap();
    fs::write(sibling.join("x.wav"), "sound").unwrap();
    fs::write(set.join("metadata.csv"), "x|Hello.\n").unwrap();
    symlink(sibling.join("x.wav"), set.join("wavs/x.wav")).unwrap();
    let entry = resolve_one(&set).unwrap_err();
    assert_eq!(entry.reason, Reason::LINK_OUTSIDE);
}

#[test]
fn the_dataset_folder_and_its_audio_folder_may_be_links() {
    let folder = dataset(&["x"]);
    put(&folder, "wavs/x.wav");
    let elsewhere = tempfile::tempdir().unwrap();
    let link = elsewhere.path().join("link");
    symlink(folder.path(), &link).unwrap();
    let clip = resolve_one(&link).unwrap().clip;
    assert_eq!(clip.audio_path(), link.join("wavs/x.wav"));

    // Data on another disk: the audio folder itself may lie elsewhere, but nothing in it may lead on.
    let linked = dataset(&["x", "y", "z"]);
    fs::remove_dir(linked.path().join("wavs")).unwrap();
    symlink(folder.path().join("wavs"), linked.path().join("wavs")).unwrap();
    put(&elsewhere, "y.wav");
    let wavs = folder.path().join("wavs");
    symlink(elsewhere.path().join("y.wav"), wavs.join("y.wav")).unwrap();
    symlink("x.wav", wavs.join("z.wav")).unwrap();
    let refused = "link to outside the dataset folder: wavs/y.wav";
    assert_eq!(resolve_all(&linked), ["wavs/x.wav", refused, "wavs/z.wav"]);
}

#[test]
fn links_are_followed_everywhere_where_the_user_says_so() {
    let elsewhere = tempfile::tempdir().unwrap();
    put(&elsewhere, "x.wav");
    let folder = dataset(&["outside", "sub/x"]);
    let wavs = folder.path().join("wavs");
    symlink(elsewhere.path().join("x.wav"), wavs.join("outside.wav")).unwrap();
    symlink(elsewhere.path(), wavs.join("sub")).unwrap();
    let rows = read_rows(folder.path(), None).unwrap();
    let audio = AudioFolder::list(&rows, FollowedLinks::Everywhere).unwrap();
    for row in rows.rows {
        assert!(audio.resolve(row.unwrap(), |_| Ok(HEADER)).is_ok());
    }
}

#[test]
fn a_dataset_without_an_audio_folder_is_an_error() {
    let folder = dataset(&["x"]);
    let wavs = folder.path().join("wavs");
    fs::remove_dir(&wavs).unwrap();
    let list = || {
        AudioFolder::list(
            &read_rows(folder.path(), None).unwrap(),
            FollowedLinks::Inside,
        )
        .unwrap_err()
    };
    assert!(list().to_string().ends_with("which holds metadata.csv"));
    fs::write(&wavs, "").unwrap();
    assert!(matches!(list(), ManifestError::Io { .. }));
}

#[test]
fn what_the_header_reader_reports_is_kept() {
    let folder = dataset(&["bad", "none", "odd"]);
    for name in ["bad", "none", "odd"] {
        put(&folder, &format!("wavs/{name}.wav"));
    }
    let results = resolve_with(&folder, |path| {
        match path.file_stem().unwrap().to_str().unwrap() {
            "bad" => Err(BadAudio {
                kind: "truncated",
                detail: "ends at byte 3".to_owned(),
            }),
            "none" => Ok(AudioHeader {
                samples: 0,
                ..HEADER
            }),
            _ => Ok(AudioHeader {
                sample_rate: 0,
                ..HEADER
            }),
        }
    });
    let expected = [
        "truncated: wavs/bad.wav",
        "empty audio: wavs/none.wav",
        "empty audio: wavs/odd.wav",
    ];
    assert_eq!(results, expected);
}

#[test]
fn size_and_time_are_those_of_the_file_behind_a_link() {
    let folder = dataset(&["x"]);
    put(&folder, "wavs/real.wav");
    symlink("real.wav", folder.path().join("wavs/x.wav")).unwrap();
    let mut options = fs::File::options();
    let file = options
        .write(true)
        .open(folder.path().join("wavs/real.wav"))
        .unwrap();
    let before_1970 = std::time::UNIX_EPOCH - std::time::Duration::from_nanos(1_500_000_007);
    file.set_modified(before_1970).unwrap();
    let clip = resolve_one(folder.path()).unwrap().clip;
    assert_eq!((clip.audio_bytes, clip.audio_mtime_ns), (5, -1_500_000_007));
}
