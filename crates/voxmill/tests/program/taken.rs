//! A folder that holds a run already, or another's checkpoints: a start that is refused leaves all as it is, and nobody
//! continues what is not its own.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::train::Run;
use crate::{assert_has, expect, expect_refusal, voxmill};

/// Every file and folder below a folder with its content, without locks, which say who was there last.
fn contents(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().flatten() {
            let path = entry.path();
            let is_lock = path.extension().is_some_and(|end| end == "lock");
            match path.is_dir() {
                true => folders.push(path.clone()),
                false if is_lock => continue,
                false => {}
            }
            let content = fs::read(&path).unwrap_or_default();
            found.insert(path, content);
        }
    }
    found
}

/// Whatever refuses a run does so before anything of the run before it is changed.
#[test]
fn a_start_that_is_refused_late_changes_nothing() {
    let run = Run::new();
    run.trained("--max-steps 2 --evaluation-interval 1 --checkpoint-every 1");
    let before = contents(&run.dir());
    assert!(
        run.dir().join("samples").is_dir(),
        "there is something to lose"
    );
    let file = run.home.path().join("a-file");
    fs::write(&file, "in the way").unwrap();
    let (dir, file) = (run.dir(), file.display());
    for (refused, phrase) in [
        (format!("--trace {file}/trace.json"), "trace"),
        (
            format!("--trace {}/events.jsonl", dir.display()),
            "two different files",
        ),
        (format!("--tensorboard-log-dir {file}"), "TensorBoard"),
        ("--dashboard".to_owned(), "needs a terminal"),
    ] {
        for start in [
            "--max-steps 3 --reset-training --seed 9".to_owned(),
            format!("--max-steps 3 --seed 9 --resume {}", dir.display()),
        ] {
            let mut command = run.train(format!("{start} {refused}"));
            expect_refusal(&mut command, &[phrase]);
            assert!(
                contents(&dir) == before,
                "{start} {refused} changed something"
            );
        }
    }
    run.resumed("--max-steps 3");
    run.trained("--max-steps 1 --reset-training --no-evaluation");
    assert_eq!(run.checkpoints().len(), 1);
}

#[test]
fn a_run_is_not_taken_for_the_one_in_whose_folder_its_checkpoints_are() {
    let (host, guest) = (Run::new(), Run::new());
    host.trained("--max-steps 1 --no-evaluation");
    let kept = host.dir().join("of-the-guest");
    let into = format!("--checkpoint-dir {}", kept.display());
    guest.trained(format!("--max-steps 2 --no-evaluation {into}"));
    let before = contents(&host.dir().join("checkpoints"));
    let settings = fs::read(host.dir().join("settings.yaml")).unwrap();
    let guests = guest.dir().display().to_string();
    for (steps, named) in [(3, kept.clone()), (4, kept.join("step-000000003"))] {
        let args = format!("--max-steps {steps} --resume {}", named.display());
        let text = expect(&mut guest.train(args), 0, &["resumes after step"]);
        assert_has(&text, &[&guests]);
    }
    assert!(contents(&host.dir().join("checkpoints")) == before);
    assert!(fs::read(host.dir().join("settings.yaml")).unwrap() == settings);
    assert_eq!(guest.losses().len(), 4);

    // The place of a run's own checkpoints, before it has any: still they are not its own.
    let [own, aside] = ["checkpoints", "aside"].map(|name| host.dir().join(name));
    fs::rename(&own, &aside).unwrap();
    fs::rename(&kept, &own).unwrap();
    let dir = host.dir().display().to_string();
    let phrases = ["step-000000004", "is another run's"];
    expect_refusal(
        &mut host.train(format!("--max-steps 9 --resume {dir}")),
        &phrases,
    );
    let mut speak = voxmill(format!("synthesize --text hello --checkpoint {dir}"));
    expect_refusal(&mut speak, &phrases);
}

#[test]
fn a_stopped_run_is_not_started_over_because_its_checkpoints_are_elsewhere() {
    let (here, there) = (Run::new(), Run::new());
    let elsewhere = here.home.path().join("elsewhere");
    here.trained("--max-steps 2 --no-evaluation");
    there.trained(format!(
        "--max-steps 2 --no-evaluation --checkpoint-dir {}",
        here.home.path().join("moved").display()
    ));
    for (run, more) in [
        (&here, format!("--checkpoint-dir {}", elsewhere.display())),
        (&there, String::new()),
    ] {
        let before = contents(&run.dir());
        let dir = run.dir().display().to_string();
        let phrases = [
            "is the folder of a run with checkpoints in",
            &dir,
            "--resume",
        ];
        let args = format!("--max-steps 1 --no-evaluation {more}");
        expect_refusal(&mut run.train(args), &phrases);
        assert!(contents(&run.dir()) == before);
    }
    assert!(!elsewhere.exists(), "a refused start leaves no folder");
    // A disk that is not there at the moment.
    let moved = here.home.path().join("moved");
    let away = here.home.path().join("away");
    fs::rename(&moved, &away).unwrap();
    let mut again = there.train("--max-steps 1 --no-evaluation");
    expect_refusal(&mut again, &["which is not there now"]);
    fs::rename(&away, &moved).unwrap();
    let text = there.resumed("--max-steps 3");
    assert_has(&text, &["resumes after step 2"]);

    // Whoever wants it replaced gets it replaced, wherever its checkpoints are.
    let args = format!(
        "--max-steps 1 --no-evaluation --reset-training --checkpoint-dir {}",
        elsewhere.display()
    );
    here.trained(&args);
    assert!(here.checkpoints().is_empty(), "the old ones are gone");
    assert_eq!(here.losses().len(), 1);
    here.resumed("--max-steps 2");
}
