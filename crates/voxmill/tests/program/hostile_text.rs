//! Ids, transcripts, names, paths, keys and values full of commands to a terminal, through every verb: none of
//! them comes out as it went in.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use voxmill_untrusted::shown::is_obeyed;

use crate::dataset::tone;
use crate::{transcript, voxmill};

/// Sets the clipboard, clears the screen by a C1 control, and turns the direction of text round.
const HOSTILE: &str = "\u{1b}]52;c;QQ==\u{7}\u{9b}2J\u{202e}\u{2066}x";

/// How it may be shown.
const SHOWN: &str = "\\u{1b}]52;c;QQ==\\u{7}\\u{9b}2J\\u{202e}\\u{2066}x";

struct Folder {
    home: tempfile::TempDir,
}

impl Folder {
    /// A dataset whose own name, ids, texts and speakers are hostile, with bad rows of all kinds.
    fn new() -> Folder {
        let folder = Folder {
            home: tempfile::tempdir().unwrap(),
        };
        let wavs = folder.dataset().join("wavs");
        fs::create_dir_all(&wavs).unwrap();
        let mut manifest = String::from("id|text|speaker|language\n");
        for n in 0..12 {
            let id = format!("c{n}{HOSTILE}");
            manifest += &format!("{id}|The mill {HOSTILE} runs.|who{n}{HOSTILE}|en\n");
            let wav = tone(0.7 + 0.1 * n as f32, 200.0);
            fs::write(wavs.join(format!("{id}.wav")), wav).unwrap();
        }
        manifest += &format!("gone{HOSTILE}|text|a|en\n");
        manifest += &format!("../{HOSTILE}|text|a|en\n");
        manifest += &format!("lang|text|a|{HOSTILE}\n");
        manifest += &format!("bad{HOSTILE}|text|a|en\n");
        fs::write(wavs.join(format!("bad{HOSTILE}.wav")), HOSTILE).unwrap();
        fs::write(folder.dataset().join("metadata.csv"), manifest).unwrap();
        folder
    }

    fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(format!("{name}{HOSTILE}"))
    }

    fn dataset(&self) -> PathBuf {
        self.path("data")
    }

    /// A verb that takes a dataset.
    fn verb(&self, args: &str) -> Command {
        let mut command = voxmill(args);
        command.arg("--train-data").arg(self.dataset());
        command.args(["--max-bad", "1"]);
        command.current_dir(self.home.path());
        command
    }
}

fn assert_harmless(text: &str) {
    let found = text.char_indices().find(|(_, c)| is_obeyed(*c));
    if let Some((at, c)) = found {
        let around: String = text[..at].chars().rev().take(200).collect();
        let around: String = around.chars().rev().collect();
        panic!("{c:?} after {around:?}");
    }
}

/// What a command prints, harmless; it may fail, but not panic.
fn harmless(command: &mut Command) -> String {
    let output = command.stdin(Stdio::null()).output().unwrap();
    let text = transcript(&output);
    assert!(output.status.code().is_some_and(|code| code <= 2), "{text}");
    assert!(!text.contains("panicked"), "{text}");
    assert_harmless(&text);
    text
}

fn with_path(args: &str, path: &Path) -> Command {
    let mut command = voxmill(args);
    command.arg(path);
    command
}

fn tables_below(folder: &Path, tables: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            tables_below(&path, tables);
        } else if path.extension().is_some_and(|extension| extension == "csv") {
            tables.push(path);
        }
    }
}

/// Every string of a JSON value, with a hostile tail.
fn spoil(value: &mut Value) {
    match value {
        Value::String(text) => text.push_str(HOSTILE),
        Value::Array(all) => all.iter_mut().for_each(spoil),
        Value::Object(all) => all.values_mut().for_each(spoil),
        _ => {}
    }
}

/// Verbs that show a run's log.
const OF_A_LOG: [&str; 8] = [
    "profile --replay",
    "profile --json --replay",
    "plan --replay",
    "plan --json --replay",
    "report --svg step-time",
    "report --svg timeline",
    "report --svg buffers",
    "watch",
];

#[test]
fn a_dataset_full_of_commands_to_a_terminal() {
    let folder = Folder::new();
    let run = folder.path("run");
    for json in ["", "--json"] {
        let prepared = harmless(&mut folder.verb(&format!("prepare {json}")));
        assert!(prepared.starts_with("exit: 0"), "{prepared}");
        harmless(&mut folder.verb(&format!("validate {json}")));
        harmless(&mut folder.verb(&format!("analyze --compute-threads 1 {json}")));
    }
    let train = "train --batch-size 4 --val-fraction 0.2 --compute-threads 1 --sample-every 2 --model-size nano \
                 --max-steps 4 --log-every 1 --run-dir";
    let mut command = voxmill(train);
    command.arg(&run).args(["--max-bad", "1", "--train-data"]);
    command
        .arg(folder.dataset())
        .current_dir(folder.home.path());
    let trained = harmless(&mut command);
    assert!(trained.starts_with("exit: 0"), "{trained}");
    assert!(trained.contains(SHOWN), "{trained}");
    assert_harmless(&fs::read_to_string(run.join("report.html")).unwrap());

    let small = "--model-size nano --compute-threads 1 --batch-size 4";
    harmless(&mut folder.verb(&format!("profile --num-steps 8 --warmup 2 {small}")));
    let sizes = "scale --model-size nano --compute-threads 1 --batch-sizes 2 --num-steps 5";
    harmless(&mut folder.verb(sizes));
    for args in OF_A_LOG {
        harmless(&mut with_path(args, &run));
    }
    harmless(&mut with_path("runs --runs-dir", folder.home.path()));
    harmless(&mut with_path("runs --json --runs-dir", folder.home.path()));
    for args in ["compare", "compare --json"] {
        harmless(with_path(args, &run).arg(&run));
    }
    for more in [
        vec!["--text", HOSTILE],
        vec!["--text", "hello", "--speaker", HOSTILE],
        vec!["--text-file", HOSTILE],
    ] {
        let spoken = harmless(
            with_path("synthesize --checkpoint", &run)
                .args(&more)
                .current_dir(folder.home.path()),
        );
        assert!(
            !more.contains(&"--speaker") || spoken.contains("\\u{9b}"),
            "{spoken}"
        );
    }
    harmless(with_path("train --max-steps 5 --resume", &run).current_dir(folder.home.path()));

    // Everything that says something in the record of the run, and in its checkpoint.
    let log = run.join("events.jsonl");
    let lines = fs::read_to_string(&log).unwrap();
    let spoilt = lines.lines().map(|line| {
        let mut line: Value = serde_json::from_str(line).unwrap();
        let kind = line["event"].clone();
        spoil(&mut line);
        line["event"] = kind;
        line.to_string() + "\n"
    });
    fs::write(&log, spoilt.collect::<String>()).unwrap();
    for args in OF_A_LOG {
        harmless(&mut with_path(args, &run));
    }
    harmless(&mut with_path("runs --runs-dir", folder.home.path()));
    harmless(&mut with_path("runs --json --runs-dir", folder.home.path()));
    harmless(with_path("compare", &run).arg(&run));
    for checkpoint in fs::read_dir(run.join("checkpoints")).unwrap().flatten() {
        let facts = checkpoint.path().join("checkpoint.json");
        let Ok(text) = fs::read_to_string(&facts) else {
            continue;
        };
        let mut value: Value = serde_json::from_str(&text).unwrap();
        spoil(&mut value["settings"]);
        spoil(&mut value["voice"]["main_speaker"]);
        fs::write(&facts, value.to_string()).unwrap();
    }
    harmless(
        with_path("synthesize --text hello --checkpoint", &run).current_dir(folder.home.path()),
    );
    harmless(with_path("train --max-steps 6 --resume", &run).current_dir(folder.home.path()));

    let mut tables = Vec::new();
    tables_below(folder.home.path(), &mut tables);
    let ours: Vec<_> = tables
        .iter()
        .filter(|path| !path.ends_with("metadata.csv"))
        .collect();
    assert!(ours.len() >= 2, "{tables:?}");
    assert_harmless(&fs::read_to_string(run.join("settings.yaml")).unwrap());
    for table in ours {
        let text = fs::read_to_string(table).unwrap();
        assert_harmless(&text);
        assert!(text.contains(SHOWN), "{text}");
    }
}

#[test]
fn a_ledger_full_of_commands_to_a_terminal() {
    let home = tempfile::tempdir().unwrap();
    let likely = json!({"value": 1.0, "low": 0.5, "high": 2.0});
    let key = json!({"verb": HOSTILE, "dataset": HOSTILE, "machine": HOSTILE, "values": {}});
    let forecast = |id: &str| {
        json!({
            "entry": "predicted", "version": 1, "id": id, "unix_seconds": 1.0, "program": HOSTILE,
            "verb": HOSTILE, "run": key, "changes": [format!("num_workers={HOSTILE}")],
            "measured_step_ms": 2.0, "step_ms": likely, "gain": likely, "replay_error": 0.0,
            "crowded": false,
        })
    };
    let realised = json!({
        "entry": "measured", "forecast": "a", "unix_seconds": 2.0, "program": HOSTILE,
        "steps": 40, "step_ms": 1.0, "crowded": false,
    });
    let lines = [forecast("a"), forecast("b"), realised].map(|line| line.to_string());
    fs::write(home.path().join("ledger.jsonl"), lines.join("\n")).unwrap();
    for more in ["", "--json"] {
        let args = format!("ledger {more} --runs-dir");
        let text = harmless(&mut with_path(&args, home.path()));
        assert!(
            text.starts_with("exit: 0") && text.contains("num_workers="),
            "{text}"
        );
    }
    let exported = home.path().join("exported.json");
    let mut export = with_path("ledger --runs-dir", home.path());
    harmless(export.arg("--export").arg(&exported));
    let exported = fs::read_to_string(exported).unwrap();
    assert!(exported.contains("num_workers="), "{exported}");
}

#[test]
fn settings_full_of_commands_to_a_terminal() {
    let home = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = home.path().join(format!("{name}{HOSTILE}"));
        fs::write(&path, text).unwrap();
        path
    };
    let yaml = r"\e]52;c;QQ==\a\x9B2J\u202E\u2066x";
    for (text, shown) in [
        (format!("data:\n  \"{yaml}\": 1\n"), SHOWN),
        (format!("\"{yaml}\":\n  a: 1\n"), SHOWN),
        (format!("data:\n  n_mels: \"{yaml}\"\n"), SHOWN),
        (format!("data:\n  language: \"{yaml}\"\n"), SHOWN),
        (format!("data:\n  train_data: \"{yaml}\"\n"), SHOWN),
        (
            "data:\n  \"a\\nerror: b\": 1\n".to_owned(),
            "a\\u{a}error: b",
        ),
        (format!("data: [{HOSTILE}\n"), SHOWN),
        (
            format!("# {HOSTILE}\ndata:\n  batch_sise: 1 # {HOSTILE}\n"),
            SHOWN,
        ),
    ] {
        let config = file("c.yaml", &text);
        for args in [
            "train --config",
            "validate --config",
            "validate --json --config",
            "validate --fix --config",
        ] {
            let printed = harmless(with_path(args, &config).current_dir(home.path()));
            // On a page that is wrapped, a line end in a name is a blank.
            let is_shown = printed.contains(shown) || printed.contains("`a error: b`");
            assert!(args.contains("--json") || is_shown, "{text}\n{printed}");
            assert!(!printed.contains("\nerror: b"), "{printed}");
        }
        harmless(with_path("train --show-settings --config", &config).current_dir(home.path()));
    }
    let lexicon = file("words.tsv", &format!("word{HOSTILE}\tW ER D\n"));
    let printed = harmless(with_path("text hello --lexicon", &lexicon).current_dir(home.path()));
    assert!(printed.contains(SHOWN), "{printed}");
    for args in ["text", "text --json", "text --language"] {
        let printed = harmless(voxmill(args).arg(format!("{HOSTILE} {{K \u{9b}}} hello")));
        assert!(
            args.contains("--json") || printed.contains("\\u{9b}"),
            "{printed}"
        );
    }
    let output = voxmill("text --json").arg(HOSTILE).output().unwrap();
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["text"], HOSTILE);
    for args in [
        "",
        "devices --data-device",
        "scale --batch-sizes",
        "synthesize --text hello --checkpoint",
        "profile --replay",
        "train --name",
    ] {
        let printed = harmless(with_path(args, Path::new(HOSTILE)).current_dir(home.path()));
        // The parser itself leaves out what begins with an escape.
        assert!(printed.contains("\\u{9b}"), "{args}: {printed}");
    }
}
