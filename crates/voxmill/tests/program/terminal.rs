//! The program in a terminal of its own: Debian's `script` makes one, and closes it like a window when it is killed.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::dataset::Dataset;
use crate::train::{Run, signal};
use crate::{assert_has, voxmill};

const PATIENCE: Duration = Duration::from_secs(300);

/// A terminal of 80 columns and 24 lines.
struct Terminal {
    script: Child,
    shown: JoinHandle<Vec<u8>>,
    pid: PathBuf,
}

impl Terminal {
    /// `before` is shell that is run first; the program then takes the shell's place.
    fn open(home: &Path, program: &Command, before: &str) -> Terminal {
        let quoted = |text: &std::ffi::OsStr| format!("'{}'", text.to_string_lossy());
        let words = std::iter::once(program.get_program()).chain(program.get_args());
        let line: Vec<String> = words.map(quoted).collect();
        let pid = home.join("pid");
        let line = format!("echo $$ > {}; exec {}", pid.display(), line.join(" "));
        let mut script = Command::new("script")
            .args(["-q", "-e", "-c"])
            .arg(format!("stty rows 24 cols 80; {before} {line}"))
            .arg("/dev/null")
            .current_dir(home)
            .env("SHELL", "/bin/sh")
            .env("TERM", "xterm")
            .env_remove("HOME")
            .env_remove("NO_COLOR")
            .env_remove("XDG_RUNTIME_DIR")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut output = script.stdout.take().unwrap();
        let shown = std::thread::spawn(move || {
            let mut shown = Vec::new();
            // Ends with the terminal.
            let _ = output.read_to_end(&mut shown);
            shown
        });
        Terminal { script, shown, pid }
    }

    fn pid(&self) -> u32 {
        wait_for("the program", || {
            fs::read_to_string(&self.pid).ok()?.trim().parse().ok()
        })
    }

    fn close(&mut self) {
        signal(self.script.id(), "KILL");
        self.script.wait().unwrap();
    }

    /// All that was shown, and the exit code.
    fn wait(mut self) -> (String, Option<i32>) {
        let shown = self.shown.join().unwrap();
        let code = self.script.wait().unwrap().code();
        (String::from_utf8_lossy(&shown).into_owned(), code)
    }
}

fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begin.elapsed() < PATIENCE, "{what} did not come");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Ended, whether somebody has asked how or not.
fn has_ended(pid: u32) -> Option<()> {
    let status = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = status.rsplit(") ").next().unwrap_or_default();
    (state.is_empty() || state.starts_with('Z')).then_some(())
}

fn first_step(run: &Run) {
    wait_for("a step", || (!run.losses().is_empty()).then_some(()));
}

fn log(run: &Run) -> String {
    fs::read_to_string(run.dir().join("events.jsonl")).unwrap()
}

/// Twice, as the shell and the kernel send it.
#[test]
fn a_terminal_that_is_closed_ends_the_run_with_a_checkpoint() {
    let run = Run::new();
    let endless = run.train("--max-steps 100000 --checkpoint-every 100000");
    let mut terminal = Terminal::open(run.home.path(), &endless, "");
    let pid = terminal.pid();
    first_step(&run);
    terminal.close();
    let _ = Command::new("kill")
        .args(["-HUP", &pid.to_string()])
        .status();
    wait_for("its end", || has_ended(pid));
    assert_eq!(run.checkpoints().len(), 1);
    assert_has(&log(&run), &["\"interrupted\""]);
}

/// The dashboard goes with its terminal, the run does not.
#[test]
fn with_nohup_a_run_outlives_its_terminal() {
    let run = Run::new();
    let steps = run.train("--max-steps 30");
    let mut terminal = Terminal::open(run.home.path(), &steps, "trap '' HUP;");
    let pid = terminal.pid();
    first_step(&run);
    terminal.close();
    wait_for("its end", || has_ended(pid));
    assert_has(&log(&run), &["\"finished\""]);
    assert_eq!(run.losses().len(), 30);
}

/// It is shown until a key leaves it, or there is nothing to show it on.
#[test]
fn watch_ends_with_its_terminal() {
    let run = Run::new();
    run.trained("--max-steps 2");
    let watch = voxmill(format!("watch {}", run.dir().display()));
    let mut terminal = Terminal::open(run.home.path(), &watch, "trap '' HUP;");
    let pid = terminal.pid();
    wait_for("its dashboard", || draws(pid));
    terminal.close();
    wait_for("its end", || has_ended(pid));
}

fn draws(pid: u32) -> Option<()> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).ok()?.flatten();
    let names = tasks.flat_map(|task| fs::read_to_string(task.path().join("comm")));
    { names }
        .any(|name| name.trim() == "dashboard")
        .then_some(())
}

/// Of what went before nothing is measured again: it is in the log.
#[test]
fn the_dashboard_of_a_resumed_run_begins_with_what_was_before() {
    let run = Run::new();
    run.trained("--max-steps 4 --evaluation-interval 2");
    let resumed = run.train(format!(
        "--resume {} --max-steps 6 --no-evaluation",
        run.dir().display()
    ));
    let (shown, code) = Terminal::open(run.home.path(), &resumed, "").wait();
    assert_eq!(code, Some(0), "{shown}");
    assert_has(&shown, &["step-000000004", "held-out mel", "@4"]);
}

/// Each line as it stood on the screen, without colours and cursor movements.
fn lines(shown: &str) -> Vec<String> {
    let mut parts = shown.split('\u{1b}');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let sequence = part.trim_start_matches(|c: char| !c.is_ascii_alphabetic());
        text.extend(sequence.chars().skip(1));
    }
    text.split(['\n', '\r']).map(str::to_owned).collect()
}

/// A command is not broken, for it is copied; neither is a path.
fn may_be_long(line: &str) -> bool {
    let longest = line.split_whitespace().filter(|word| word.contains('/'));
    line.contains(" && ")
        || line.contains("  voxmill ")
        || line.contains("`voxmill ")
        || longest.map(|word| word.chars().count()).max() > Some(40)
}

#[test]
fn what_verbs_print_fits_80_columns() {
    let data = Dataset::new(24);
    let home = tempfile::tempdir().unwrap();
    let foreign = home.path().join("audiofolder");
    fs::create_dir(&foreign).unwrap();
    fs::write(foreign.join("metadata.jsonl"), "{}\n").unwrap();
    let on = |verb: &str| format!("{verb} --train-data {}", data.path().display());
    let model = "--model-size nano --batch-size 4 --compute-threads 1";
    let train = on(&format!("train {model} --max-steps 30 --no-dashboard"));
    let train = format!("{train} --run-dir");
    for (args, code) in [
        (on("prepare"), 0),
        (on("prepare --max-bad 5%"), 0),
        (format!("{train} runs/a"), 0),
        (format!("{train} runs/a"), 1),
        (format!("{train} runs/b --init-from a --max-minutes 0.1"), 0),
        (on(&format!("train {model} --show-settings")), 0),
        (on(&format!("profile {model} --num-steps 6 --warmup 2")), 0),
        ("profile --replay a".to_owned(), 0),
        ("profile --replay a --what-if disk=2x".to_owned(), 0),
        ("plan --replay a --what-if disk=2x".to_owned(), 0),
        (on("validate --num-workers 9 --batch-size 4"), 0),
        (on("analyze --step-ms 20"), 0),
        ("compare a b".to_owned(), 0),
        ("runs".to_owned(), 0),
        ("ledger".to_owned(), 0),
        ("devices".to_owned(), 0),
        (
            "text Hello,_Dr._Smith,_of_1999_or_so,_who_paid_$3.50_for_it".to_owned(),
            0,
        ),
        ("synthesize Hello. -c a".to_owned(), 0),
        (
            "train --resume a --max-steps 32 --no-dashboard".to_owned(),
            0,
        ),
        // What goes wrong.
        ("synthesize Hello. -c nowhere".to_owned(), 1),
        ("synthesize سلام. -c a".to_owned(), 1),
        ("train --resume nowhere".to_owned(), 1),
        ("train --init-from nowhere".to_owned(), 1),
        ("profile --replay nowhere".to_owned(), 1),
        ("plan --replay nowhere --what-if disk=2x".to_owned(), 1),
        ("plan runs/a".to_owned(), 1),
        ("compare a nowhere".to_owned(), 1),
        ("train --data-gpu 0 --model-gpu 1".to_owned(), 1),
        ("train --device cuda".to_owned(), 1),
        (format!("train {}", data.path().display()), 2),
        ("train --lr -3".to_owned(), 2),
        ("train --max-steps 0".to_owned(), 2),
        ("profile --num-steps 0".to_owned(), 2),
        ("train --optimization-level good".to_owned(), 2),
        ("train --bath-size 3".to_owned(), 2),
        ("train --train-data nowhere".to_owned(), 1),
        ("prepare --train-data audiofolder".to_owned(), 1),
        ("completions tcsh".to_owned(), 2),
        ("help train".to_owned(), 0),
    ] {
        let terminal = Terminal::open(home.path(), &voxmill(&args), "");
        let (shown, exit) = terminal.wait();
        // On a busy machine a short run is not understood, which is another text.
        let may_fail = args.contains("--what-if") && exit == Some(1);
        assert!(exit == Some(code) || may_fail, "{args}\n{shown}");
        for line in lines(&shown) {
            let fits = voxmill_report::format::width(&line) <= 80;
            assert!(fits || may_be_long(&line), "{args}: {line}");
        }
        assert!(!shown.contains("XDG_RUNTIME_DIR"), "{args}\n{shown}");
        let colours = ["\u{1b}[1m", "\u{1b}[31m", "\u{1b}[33m"];
        let has_colour = colours.iter().any(|colour| shown.contains(colour));
        assert!(has_colour, "{args}\n{shown}");
    }
}
