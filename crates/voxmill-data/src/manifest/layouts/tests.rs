//! Each layout is made here, and what our hint says is done and read.

use std::path::PathBuf;
use std::process::Command;

use super::super::{AudioFolder, BadAudio, FollowedLinks, ManifestError, read_rows};
use super::*;
use voxmill_audio::AudioHeader;

fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path: PathBuf = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    folder
}

/// Ids, texts and speakers of the rows whose audio is found.
fn read(folder: &Path) -> Vec<(String, String, String)> {
    let rows = read_rows(folder, None).unwrap();
    let audio = AudioFolder::list(&rows, FollowedLinks::Inside).unwrap();
    let header = |_: &Path| -> Result<AudioHeader, BadAudio> {
        Ok(AudioHeader {
            sample_rate: 8_000,
            channels: 1,
            samples: 8_000,
        })
    };
    let rows = rows.rows.into_iter().map(|row| {
        let row = row.unwrap();
        let all = (
            row.id.to_string(),
            row.text.to_string(),
            row.speaker.to_string(),
        );
        audio.resolve(row, header).unwrap();
        all
    });
    rows.collect()
}

fn row(id: &str, text: &str, speaker: &str) -> (String, String, String) {
    (id.to_owned(), text.to_owned(), speaker.to_owned())
}

/// The layout that a folder is refused as; its hint is then followed.
fn refused(folder: &Path) -> Layout {
    let error = read_rows(folder, None).unwrap_err();
    let ManifestError::ForeignLayout { layout, .. } = error else {
        panic!("{error}");
    };
    follow(&error.hint(), folder);
    layout
}

fn follow(hint: &str, folder: &Path) {
    let commands = hint.strip_prefix("run in that folder: `").unwrap();
    let commands = commands.strip_suffix('`').unwrap();
    let mut shell = Command::new("sh");
    let done = shell.arg("-c").arg(commands).current_dir(folder).status();
    assert!(done.unwrap().success(), "{commands}");
}

#[test]
fn common_voice_is_refused_by_name_and_its_commands_bring_it_in() {
    let table = "client_id\tpath\tsentence_id\tsentence\tup_votes\nann\tcv_1.mp3\tx\tHello, \"you\".\t2\nbob\tcv_2.mp3\ty\tA|b.\t2\n";
    let folder = folder(&[
        ("clips/cv_1.mp3", "s"),
        ("clips/cv_2.mp3", "s"),
        ("validated.tsv", table),
    ]);
    assert_eq!(refused(folder.path()), Layout::CommonVoice);
    let expected = [
        row("cv_1", "Hello, \"you\".", "ann"),
        row("cv_2", "A b.", "bob"),
    ];
    assert_eq!(read(folder.path()), expected);
}

#[test]
fn vctk_is_refused_by_name_and_its_commands_bring_it_in() {
    for (audio, suffix, kind) in [
        ("wav48", "", "wav"),
        ("wav48_silence_trimmed", "_mic1", "flac"),
    ] {
        let sound = format!("{audio}/p225/p225_001{suffix}.{kind}");
        let folder = folder(&[
            ("txt/p225/p225_001.txt", "Please call Stella.\n"),
            (&sound, "s"),
        ]);
        assert_eq!(refused(folder.path()), Layout::Vctk { audio, suffix });
        let id = format!("p225/p225_001{suffix}");
        assert_eq!(
            read(folder.path()),
            [row(&id, "Please call Stella.", "p225")]
        );
    }
}

#[test]
fn a_text_for_each_clip_is_refused_by_name_and_its_commands_bring_it_in() {
    let folder = folder(&[
        ("a.wav", "s"),
        ("a.txt", "Hello\nthere.\n"),
        ("b.flac", "s"),
        ("b.txt", "Yes."),
    ]);
    assert_eq!(refused(folder.path()), Layout::TextPerClip);
    let expected = [
        row("a", "Hello there.", "default"),
        row("b", "Yes.", "default"),
    ];
    assert_eq!(read(folder.path()), expected);
}

#[test]
fn an_audiofolder_is_refused_by_name_and_its_commands_bring_it_in() {
    for (name, table, text, speaker) in [
        (
            "metadata.jsonl",
            "{\"file_name\": \"data/a.wav\", \"transcription\": \"Hello | you.\", \"speaker_id\": 7}\n",
            "Hello you.",
            "7",
        ),
        (
            "metadata.csv",
            "file_name,transcription\ndata/a.wav,Hello.\n",
            "Hello.",
            "default",
        ),
        (
            "metadata.csv",
            "\"text\",\"file_name\"\n\"A | \"\"b\"\"\",\"data/a.wav\"\n",
            "A \"b\"",
            "default",
        ),
    ] {
        let folder = folder(&[(name, table), ("data/a.wav", "s")]);
        assert_eq!(refused(folder.path()), Layout::AudioFolder, "{table}");
        assert_eq!(read(folder.path()), [row("data/a", text, speaker)]);
        let kept = fs::read_to_string(folder.path().join("audiofolder.csv"));
        assert_eq!(kept.is_ok_and(|kept| kept == table), name == "metadata.csv");
    }
}

#[test]
fn audio_in_a_folder_of_another_name_is_linked() {
    let folder = folder(&[("metadata.csv", "a|Hello there.\n"), ("wav/a.wav", "s")]);
    let rows = read_rows(folder.path(), None).unwrap();
    let error = AudioFolder::list(&rows, FollowedLinks::Inside).unwrap_err();
    follow(&error.hint(), folder.path());
    assert_eq!(read(folder.path()), [row("a", "Hello there.", "default")]);
}

#[test]
fn rows_of_piper_have_their_speakers() {
    let manifest =
        "a|ann|Hello there.\nb|bob|How are you?\nc|ann|Fine.\nd|bob|Good night to you.\n";
    let files = ["a", "b", "c", "d"].map(|id| format!("wavs/{id}.wav"));
    let mut all: Vec<(&str, &str)> = files.iter().map(|file| (&**file, "s")).collect();
    all.push(("metadata.csv", manifest));
    let folder = folder(&all);
    let expected = [
        row("a", "Hello there.", "ann"),
        row("b", "How are you?", "bob"),
        row("c", "Fine.", "ann"),
        row("d", "Good night to you.", "bob"),
    ];
    assert_eq!(read(folder.path()), expected);
    let notes = read_rows(folder.path(), None).unwrap().notes;
    assert!(notes[0].contains("id|speaker|text"), "{notes:?}");
}

#[test]
fn rows_of_ljspeech_are_not_taken_for_pipers() {
    for manifest in [
        "a|In 1901.|In nineteen oh one.\nb|In 1901.|In nineteen oh one.\nc|Yes|Yes\nd|Yes|Yes\n",
        "a|yes|yes\nb|no|no\nc|yes|yes\nd|no|no\n",
        "a|one|the first\nb|two|the second\nc|three|the third\nd|four|the fourth\n",
        "a|Hello there.\nb|Hello there.\nc|Hello there.\nd|Hello there.\n",
    ] {
        assert!(!is_piper(manifest.as_bytes()), "{manifest}");
    }
}

#[test]
fn rows_of_coqui_are_read_by_their_header() {
    let manifest = "audio_file|text|speaker_name|emotion_name\nwavs/a.wav|Hello.|ann|neutral\n";
    let folder = folder(&[("metadata.csv", manifest), ("wavs/a.wav", "s")]);
    assert_eq!(read(folder.path()), [row("a", "Hello.", "ann")]);
}
