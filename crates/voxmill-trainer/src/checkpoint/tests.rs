//! Checkpoints that are whole, damaged, old, too new, or cannot be written.

mod hostile;

use std::fs;

use serde_json::json;
use tempfile::TempDir;

use super::*;
use crate::device::cpu as device;
use crate::test_data::small_voice;

pub(super) fn facts(step: u64, best: Option<Best>) -> CheckpointFacts {
    let mut voice = small_voice();
    // Numbers whose decimals are long.
    voice.length_scale = 1.0 + 1.0 / 3.0;
    let style = (1..9).map(|n| (n as f32 * 0.37).sin() / 3.0).collect();
    voice.speakers.insert("one".to_owned(), style);
    CheckpointFacts {
        voice,
        progress: Progress {
            step,
            seconds: 0.1 + 0.2 * step as f64,
            position: Position {
                epoch: 2,
                batch: 17,
            },
            feed: json!({"done": [1, 2, 5], "share": 0.1}),
            validation: Some(std::f64::consts::LN_2),
            best,
            since_best: 3,
            bad_steps: 1,
        },
        settings: json!({"learning_rate": 2e-3, "name": "سلام"}),
        quarantine: vec!["clip-7".to_owned()],
        alignments: StoredAlignments {
            known: vec![(9, vec![3, 1, 4])],
            settling: Settling::default(),
            pending: vec![PendingDurations {
                clips: vec![Some(4), None],
                durations: vec![vec![1, 2], vec![]],
            }],
        },
        prepare_on: PrepareOn::Host,
        precision: Precision::F16,
    }
}

/// A model and a state in which no two tensors are alike.
fn trained() -> (Voice, OptimizerState) {
    let facts = small_voice();
    let model = Voice::new(&facts.shape, facts.vocabulary, 5, &device().autodiff());
    let mut state = OptimizerState::new(&model, &device());
    for (at, moments) in state.moments.iter_mut().enumerate() {
        let at = at as f32 + 1.0;
        moments.first = moments.mean_weight.clone() * 0.3 - 1e-12 * at;
        moments.second = moments.mean_weight.clone().square() * 1e-20 * at;
        moments.mean_weight = moments.mean_weight.clone() * 0.99 + at / 7.0;
    }
    state.updates = state.updates + 12_345.0;
    (model, state)
}

fn save_facts(
    checkpoints: &Checkpoints,
    facts: &CheckpointFacts,
) -> Result<PathBuf, CheckpointError> {
    let written = checkpoints.write(snapshot(facts));
    written.map(|written| written.path)
}

pub(super) fn snapshot(facts: &CheckpointFacts) -> Snapshot {
    let (model, optimizer) = trained();
    let state = TrainingState {
        model: &model,
        optimizer: &optimizer,
        lengths: [1234.5, 1e-3],
        loss_scale: Some([8192.0, 17.0]),
    };
    Snapshot::of(facts.clone(), &state)
}

fn save(checkpoints: &Checkpoints, step: u64) -> PathBuf {
    save_facts(checkpoints, &facts(step, None)).unwrap()
}

fn steps(checkpoints: &Checkpoints) -> Vec<String> {
    let list = checkpoints.list().unwrap().into_iter();
    let name = |path: PathBuf| path.file_name().unwrap().to_str().unwrap().to_owned();
    let number = |name: String| {
        name.trim_start_matches(['s', 't', 'e', 'p', '-', '0'])
            .to_owned()
    };
    list.map(name).map(number).collect()
}

/// The step of a checkpoint that was found.
fn step(found: Result<FoundCheckpoint, CheckpointError>) -> u64 {
    found.unwrap().checkpoint.facts().progress.step
}

fn folder(keep: usize) -> (TempDir, Checkpoints) {
    let folder = tempfile::tempdir().unwrap();
    let checkpoints = Checkpoints::new(&folder.path().join("checkpoints"), keep);
    (folder, checkpoints)
}

fn all_bits(model: &Voice, state: &OptimizerState) -> Vec<(String, Vec<u32>)> {
    let bits = |tensor: &burn::tensor::Tensor<1>| -> Vec<u32> {
        tensor.to_data().iter::<f32>().map(f32::to_bits).collect()
    };
    let weights = model.weights().into_iter();
    let weights = weights.map(|w| (format!("weight/{}", w.path), bits(&w.flat)));
    let moments = state.moments.iter().flat_map(|m| {
        [
            ("first", &m.first),
            ("second", &m.second),
            ("mean", &m.mean_weight),
        ]
        .map(|(kind, tensor)| (format!("{kind}/{}", m.path), bits(tensor)))
    });
    let updates = [("updates".to_owned(), bits(&state.updates))];
    weights.chain(moments).chain(updates).collect()
}

#[test]
fn what_is_restored_is_what_was_saved_to_the_bit() {
    let (_folder, checkpoints) = folder(3);
    let best = Best {
        step: 7,
        loss: 0.1 + 0.2,
    };
    let facts = facts(7, Some(best));
    let path = save_facts(&checkpoints, &facts).unwrap();
    let opened = CheckpointFolder::open(&path).unwrap();
    assert_eq!(*opened.facts(), facts);
    let restored = opened.restore(&device().autodiff()).unwrap();
    let (model, state) = trained();
    assert!(all_bits(&restored.model, &restored.optimizer) == all_bits(&model, &state));
    assert_eq!(restored.lengths, [1234.5, 1e-3]);
    assert_eq!(restored.facts, facts);

    let voice = opened.voice(&device()).unwrap().weights();
    for (spoken, trained) in voice.iter().zip(&state.moments) {
        let mean = trained.mean_weight.to_data();
        assert_eq!(spoken.flat.to_data(), mean, "the voice is the running mean");
    }
}

/// Losses and styles pass through decimals on their way.
#[test]
fn numbers_in_the_facts_keep_every_bit() {
    for n in 0..20_000u64 {
        let drawn = voxmill_data::draw::draw(n, 0, "number", "test");
        let double = f64::from_bits(drawn);
        let single = f32::from_bits(drawn as u32);
        if !double.is_finite() || !single.is_finite() {
            continue;
        }
        let json = serde_json::to_vec(&(double, single)).unwrap();
        let (also_double, also_single): (f64, f32) = serde_json::from_slice(&json).unwrap();
        assert_eq!(double.to_bits(), also_double.to_bits(), "{double:e}");
        assert_eq!(single.to_bits(), also_single.to_bits(), "{single:e}");
    }
}

/// Checkpoints from before alignments were kept have neither them nor `settling`.
#[test]
fn alignments_keep_their_keys_in_the_file() {
    let mut json = serde_json::to_value(facts(3, None)).unwrap();
    assert_eq!(json["alignments"], json!([[9, [3, 1, 4]]]));
    assert_eq!(json["pending_durations"][0]["clips"], json!([4, null]));
    for key in ["alignments", "settling"] {
        assert!(json.as_object_mut().unwrap().remove(key).is_some());
    }
    let old: CheckpointFacts = serde_json::from_value(json).unwrap();
    assert_eq!(old.alignments.known, []);
    assert_eq!(old.alignments.settling, Settling::default());
}

#[test]
fn any_damage_falls_back_to_the_one_before_and_is_named() {
    let flip = |path: &Path, at: fn(usize) -> usize| {
        let mut bytes = fs::read(path).unwrap();
        let at = at(bytes.len());
        bytes[at] ^= 1;
        fs::write(path, bytes).unwrap();
    };
    let cut = |path: &Path| {
        let bytes = fs::read(path).unwrap();
        fs::write(path, &bytes[..bytes.len() / 2]).unwrap();
    };
    type Damage<'a> = &'a dyn Fn(&Path);
    let middle: Damage<'_> = &|path| flip(path, |len| len / 2);
    let last: Damage<'_> = &|path| flip(path, |len| len - 2);
    let gone: Damage<'_> = &|path| fs::remove_file(path).unwrap();
    for name in [VOICE, TRAINING, ALIGNMENTS, JSON] {
        for damage in [middle, last, &cut, gone] {
            let (_folder, checkpoints) = folder(3);
            save(&checkpoints, 1);
            let newest = save(&checkpoints, 2);
            damage(&newest.join(name));
            let found = checkpoints.newest().unwrap();
            assert_eq!(found.checkpoint.facts().progress.step, 1, "{name}");
            let [error] = &found.damaged[..] else {
                panic!("{:?}", found.damaged);
            };
            assert!(error.to_string().contains("step-000000002"), "{error}");
        }
    }
}

/// A digit that changed still reads as JSON.
#[test]
fn a_changed_number_in_the_facts_is_damage() {
    let (_folder, checkpoints) = folder(3);
    let path = save(&checkpoints, 2).join(JSON);
    let json = fs::read_to_string(&path).unwrap();
    assert!(json.contains("\"batch\": 17"));
    fs::write(&path, json.replace("\"batch\": 17", "\"batch\": 13")).unwrap();
    let error = checkpoints.newest().unwrap_err();
    assert!(matches!(error, CheckpointError::Damaged { .. }), "{error}");
}

#[test]
fn when_all_are_damaged_the_newest_is_named() {
    let (_folder, checkpoints) = folder(3);
    for step in [1, 2] {
        fs::write(save(&checkpoints, step).join(VOICE), "").unwrap();
    }
    let error = checkpoints.newest().unwrap_err().to_string();
    for part in ["step-000000002", VOICE] {
        assert!(error.contains(part), "{error}");
    }
    let none = folder(1).1.newest();
    assert!(matches!(none, Err(CheckpointError::None(_))));
}

#[test]
fn the_oldest_go_but_never_the_best() {
    let (_folder, checkpoints) = folder(2);
    let best = |step, loss| Some(Best { step, loss });
    save(&checkpoints, 1);
    for step in [2, 3, 4] {
        save_facts(&checkpoints, &facts(step, best(2, 0.5))).unwrap();
    }
    assert_eq!(steps(&checkpoints), ["2", "3", "4"]);
    assert_eq!(step(checkpoints.best()), 2);
    // A better one takes its place, and the old one goes with the rest.
    save_facts(&checkpoints, &facts(5, best(5, 0.4))).unwrap();
    assert_eq!(steps(&checkpoints), ["4", "5"]);
    assert_eq!(step(checkpoints.best()), 5);
}

#[test]
fn where_the_best_is_damaged_or_none_was_validated_the_newest_speaks() {
    let (_folder, checkpoints) = folder(3);
    save(&checkpoints, 1);
    assert_eq!(step(checkpoints.best()), 1);
    let best = Best { step: 2, loss: 0.5 };
    let path = save_facts(&checkpoints, &facts(2, Some(best))).unwrap();
    save(&checkpoints, 3);
    // A voice needs nothing else of its checkpoint, and nobody reads what it does not need.
    fs::remove_file(path.join(TRAINING)).unwrap();
    assert_eq!(step(checkpoints.best()), 2);
    assert!(
        CheckpointFolder::open(&path).is_err(),
        "it cannot be resumed"
    );
    fs::remove_file(path.join(VOICE)).unwrap();
    let found = checkpoints.best().unwrap();
    assert_eq!(found.checkpoint.facts().progress.step, 3);
    assert_eq!(found.damaged.len(), 1);
}

/// The run went back behind a damaged checkpoint: what it saves now must not give way to that.
#[test]
fn what_was_just_saved_is_never_the_one_to_go() {
    let (_folder, checkpoints) = folder(1);
    fs::write(save(&checkpoints, 20).join(VOICE), "").unwrap();
    for saved in [12, 14] {
        save(&checkpoints, saved);
        assert_eq!(step(checkpoints.newest()), saved);
    }
    assert_eq!(steps(&checkpoints), ["14", "20"]);
    save(&checkpoints, 22);
    assert_eq!(steps(&checkpoints), ["22"]);
}

#[test]
fn a_folder_that_was_never_finished_is_ignored() {
    let (_folder, checkpoints) = folder(2);
    let whole = save(&checkpoints, 1);
    let unfinished = checkpoints.folder().join(".unfinished-step-000000002");
    fs::create_dir(&unfinished).unwrap();
    fs::copy(whole.join(VOICE), unfinished.join(VOICE)).unwrap();
    fs::create_dir(checkpoints.folder().join("step-by-step")).unwrap();
    let found = checkpoints.newest().unwrap();
    assert_eq!(found.checkpoint.facts().progress.step, 1);
    assert!(found.damaged.is_empty());
    // The next attempt at the same step is not in its way.
    save(&checkpoints, 2);
    assert!(!unfinished.exists());
    assert_eq!(steps(&checkpoints), ["1", "2"]);
}

#[test]
fn a_newer_version_is_refused_rather_than_gone_behind() {
    let (_folder, checkpoints) = folder(3);
    save(&checkpoints, 1);
    let path = save(&checkpoints, 2).join(JSON);
    let json = fs::read_to_string(&path).unwrap();
    fs::write(&path, json.replacen("\"version\": 2", "\"version\": 3", 1)).unwrap();
    let error = checkpoints.newest().unwrap_err();
    let is_newer = matches!(error, CheckpointError::Version { found: 3, .. });
    assert!(is_newer, "{error}");
    assert!(error.to_string().contains("version 3"), "{error}");
}

#[test]
fn a_place_that_cannot_be_written_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let checkpoints = Checkpoints::new(&file, 1);
    let error = save_facts(&checkpoints, &facts(3, None)).unwrap_err();
    assert!(matches!(error, CheckpointError::Write { .. }), "{error}");
    assert!(error.to_string().contains("step-000000003"), "{error}");
    assert!(std::error::Error::source(&error).is_some());
}

#[test]
fn a_checkpoint_is_about_as_large_as_predicted() {
    let (_folder, checkpoints) = folder(1);
    let path = save(&checkpoints, 1);
    let files = fs::read_dir(path).unwrap();
    let lengths = files.map(|file| file.unwrap().metadata().unwrap().len());
    let bytes: u64 = lengths.sum();
    let expected = checkpoint_bytes(trained().0.parameters());
    let is_near = bytes <= expected && expected < bytes + 1_000_000;
    assert!(is_near, "{bytes} and {expected}");
}

fn of_run(step: u64, id: &str) -> CheckpointFacts {
    let mut facts = facts(step, None);
    facts.settings[RUN_ID] = json!(id);
    facts
}

#[test]
fn a_checkpoint_of_another_run_is_neither_pruned_nor_replaced_nor_removed() {
    let (_folder, checkpoints) = folder(1);
    let ours = checkpoints.clone().of_run("ours");
    save_facts(&checkpoints, &of_run(1, "theirs")).unwrap();
    // One from before runs had names is anybody's.
    save(&ours, 2);
    assert_eq!(steps(&checkpoints), ["1", "2"]);
    for step in [3, 4] {
        save_facts(&ours, &of_run(step, "ours")).unwrap();
    }
    assert_eq!(steps(&checkpoints), ["1", "4"]);
    let others = ours.of_others().unwrap();
    assert_eq!(others, [checkpoints.folder().join("step-000000001")]);
    let error = save_facts(&ours, &of_run(1, "ours")).unwrap_err();
    assert!(error.to_string().contains("step-000000001"), "{error}");
    ours.remove_all().unwrap();
    assert_eq!(steps(&checkpoints), ["1"]);
}

#[test]
fn all_that_is_left_of_a_run_can_be_removed() {
    let (_folder, checkpoints) = folder(3);
    let best = Best { step: 2, loss: 0.5 };
    save_facts(&checkpoints, &facts(2, Some(best))).unwrap();
    fs::create_dir(checkpoints.folder().join(".unfinished-step-000000003")).unwrap();
    fs::write(checkpoints.folder().join(".unfinished-best.json"), "{").unwrap();
    fs::write(checkpoints.folder().join("mine.txt"), "keep").unwrap();
    checkpoints.remove_unfinished().unwrap();
    assert_eq!(step(checkpoints.best()), 2);
    checkpoints.remove_all().unwrap();
    let left = fs::read_dir(checkpoints.folder()).unwrap().flatten();
    let left: Vec<_> = left.map(|entry| entry.file_name()).collect();
    assert_eq!(left, ["mine.txt"]);
}

#[test]
fn an_old_one_that_cannot_go_is_no_failed_checkpoint() {
    let (_folder, checkpoints) = folder(1);
    save(&checkpoints, 1);
    // It is in the way of whoever wants to remove a folder.
    fs::write(checkpoints.folder().join("step-000000002"), "a file").unwrap();
    let written = checkpoints.write(snapshot(&facts(3, None))).unwrap();
    let why = written.not_pruned.unwrap().to_string();
    assert!(why.contains("cannot remove"), "{why}");
    assert_eq!(step(checkpoints.newest()), 3);
    assert_eq!(
        steps(&checkpoints),
        ["2", "3"],
        "the others go all the same"
    );
    fs::remove_file(checkpoints.folder().join("step-000000002")).unwrap();
    let written = checkpoints.write(snapshot(&facts(4, None))).unwrap();
    assert!(written.not_pruned.is_none());
}

/// Whoever is ended while a step is saved once more has one of the two.
#[test]
fn a_name_leads_to_a_whole_checkpoint_at_every_moment() {
    use std::sync::atomic::{AtomicBool, Ordering};
    let home = tempfile::tempdir().unwrap();
    let [old, new] = ["step-000000001", ".unfinished-step-000000001"].map(|n| home.path().join(n));
    let make = |path: &Path| {
        fs::create_dir(path).unwrap();
        for file in [JSON, VOICE, TRAINING] {
            fs::write(path.join(file), [7; 100]).unwrap();
        }
    };
    make(&old);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let looks = scope.spawn(|| {
            let mut missed = 0;
            while !done.load(Ordering::Relaxed) {
                missed += u32::from(!old.join(JSON).exists());
            }
            missed
        });
        for _ in 0..500 {
            make(&new);
            super::files::name_it(&new, &old).unwrap();
            super::files::remove(&new).unwrap();
        }
        done.store(true, Ordering::Relaxed);
        assert_eq!(looks.join().unwrap(), 0, "it was not there");
    });
}

#[test]
fn nothing_is_written_into_a_folder_that_took_the_place_of_another() {
    let (home, checkpoints) = folder(3);
    let folder = checkpoints.folder().to_owned();
    fs::create_dir(&folder).unwrap();
    let checkpoints = checkpoints.in_place().unwrap();
    save(&checkpoints, 1);
    let aside = home.path().join("aside");
    fs::rename(&folder, &aside).unwrap();
    for there in [false, true] {
        if there {
            fs::create_dir(&folder).unwrap();
        }
        let error = save_facts(&checkpoints, &facts(2, None)).unwrap_err();
        let CheckpointError::Write { source, .. } = &error else {
            panic!("{error}");
        };
        assert!(source.to_string().contains("it was moved to"), "{source}");
        assert_eq!(folder.exists(), there, "it is not made again");
    }
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
    fs::remove_dir(&folder).unwrap();
    fs::rename(&aside, &folder).unwrap();
    save(&checkpoints, 2);
    assert_eq!(steps(&checkpoints), ["1", "2"]);
}

#[test]
fn another_runs_checkpoint_is_none_of_ours() {
    let (_folder, checkpoints) = folder(9);
    let ours = checkpoints.clone().of_run("ours");
    let best = Best { step: 8, loss: 0.1 };
    let theirs = CheckpointFacts {
        progress: facts(8, Some(best)).progress,
        ..of_run(8, "theirs")
    };
    save_facts(&checkpoints, &theirs).unwrap();
    for found in [ours.newest(), ours.best()] {
        assert!(
            matches!(found, Err(CheckpointError::OfAnotherRun(path)) if path.ends_with("step-000000008"))
        );
    }
    save_facts(&ours, &of_run(3, "ours")).unwrap();
    assert_eq!((step(ours.newest()), step(ours.best())), (3, 3));
    assert_eq!(ours.own().unwrap().len(), 1);
    assert_eq!(
        (step(checkpoints.newest()), step(checkpoints.best())),
        (8, 8)
    );
    ours.remove_all().unwrap();
    assert_eq!(step(checkpoints.best()), 8, "`best.json` is theirs as well");
}
