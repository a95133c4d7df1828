//! Checkpoints that somebody made up: hashes are right, what they vouch for is not.

use std::path::Path;

use serde_json::Value;

use super::*;

/// A checkpoint whose facts were changed by hand, which then has no hash of its own.
fn with_facts(change: impl FnOnce(&mut Value)) -> (TempDir, PathBuf) {
    let (dir, checkpoints) = folder(1);
    let path = save(&checkpoints, 1);
    change_facts(&path, change);
    (dir, path)
}

fn change_facts(path: &Path, change: impl FnOnce(&mut Value)) {
    let json = path.join(JSON);
    let mut facts: Value = serde_json::from_slice(&fs::read(&json).unwrap()).unwrap();
    facts.as_object_mut().unwrap().remove("own_blake3");
    change(&mut facts);
    fs::write(&json, facts.to_string()).unwrap();
}

/// A file of tensors with other bytes, and the hash of those.
fn with_bytes(name: &str, change: impl FnOnce(&mut Vec<u8>)) -> (TempDir, PathBuf) {
    let (dir, checkpoints) = folder(1);
    let path = save(&checkpoints, 1);
    let mut bytes = fs::read(path.join(name)).unwrap();
    change(&mut bytes);
    fs::write(path.join(name), &bytes).unwrap();
    change_facts(&path, |facts| {
        let hash = blake3::hash(&bytes).to_hex().to_string();
        facts["files"][name] = json!({"bytes": bytes.len(), "blake3": hash});
    });
    (dir, path)
}

/// Why neither the voice nor the training can be had of it.
fn assert_refused(path: &Path, what: &str) {
    let voice = CheckpointFolder::open_voice(path).and_then(|opened| opened.voice(&device()));
    let training = CheckpointFolder::open(path).and_then(|opened| opened.restore(&device()));
    assert!(voice.is_err(), "{what}: it would speak");
    assert!(training.is_err(), "{what}: it would be resumed");
}

#[test]
fn what_is_not_changed_is_taken() {
    let (_dir, path) = with_facts(|_| {});
    let opened = CheckpointFolder::open(&path).unwrap();
    opened.restore(&device()).unwrap();
    let (_dir, path) = with_bytes(VOICE, |_| {});
    let opened = CheckpointFolder::open_voice(&path).unwrap();
    opened.voice(&device()).unwrap();
}

#[test]
fn facts_that_do_not_fit_are_refused() {
    type Change = fn(&mut Value);
    let changes: [(&str, Change); 14] = [
        ("no files", |f| f["files"] = json!({})),
        ("another file", |f| {
            f["files"] = json!({"/dev/zero": f["files"][VOICE].clone()})
        }),
        ("no channels", |f| {
            f["voice"]["shape"]["channels"] = 0.into()
        }),
        ("channels without end", |f| {
            f["voice"]["shape"]["channels"] = 1_000_000_000.into()
        }),
        ("blocks without end", |f| {
            f["voice"]["shape"]["decoder_blocks"] = 1_000_000_000.into()
        }),
        ("a longer style", |f| {
            f["voice"]["shape"]["style"] = 9.into()
        }),
        ("other mels", |f| f["voice"]["audio"]["n_mels"] = 40.into()),
        ("a larger vocabulary", |f| {
            f["voice"]["vocabulary"]["tokens"] = 100_000.into()
        }),
        ("no deviation", |f| {
            f["voice"]["mel_statistics"]["deviation"] = 0.0.into()
        }),
        ("a mean beyond all sound", |f| {
            f["voice"]["mel_statistics"]["mean"] = 1e30.into()
        }),
        ("a style beyond all voices", |f| {
            f["voice"]["speakers"]["one"][0] = 1e20.into()
        }),
        ("endless speech", |f| {
            f["voice"]["length_scale"] = 1e9.into()
        }),
        ("a short style", |f| {
            f["voice"]["speakers"]["one"].as_array_mut().unwrap().pop();
        }),
        ("a step beyond all runs", |f| {
            f["progress"]["step"] = u64::MAX.into()
        }),
    ];
    for (what, change) in changes {
        let (_dir, path) = with_facts(change);
        assert_refused(&path, what);
    }
}

#[test]
fn files_that_are_none_are_refused_and_not_waited_for() {
    let replace = |with: &dyn Fn(&Path)| {
        let (dir, checkpoints) = folder(1);
        let path = save(&checkpoints, 1);
        fs::remove_file(path.join(VOICE)).unwrap();
        with(&path.join(VOICE));
        (dir, path)
    };
    let (_dir, path) = replace(&|file| std::os::unix::fs::symlink("/dev/zero", file).unwrap());
    assert_refused(&path, "a link");
    let (_dir, path) = replace(&|file| fs::create_dir(file).unwrap());
    assert_refused(&path, "a folder");
    let (_dir, path) = replace(&|file| {
        let made = std::process::Command::new("mkfifo").arg(file).status();
        assert!(made.unwrap().success());
    });
    assert_refused(&path, "a pipe");
}

#[test]
fn tensors_that_do_not_fit_are_refused() {
    /// The last number in the file is a weight.
    fn last(bytes: &mut [u8], value: f32) {
        let at = bytes.len() - 4;
        bytes[at..].copy_from_slice(&value.to_le_bytes());
    }
    type Change = fn(&mut Vec<u8>);
    let changes: [(&str, Change); 6] = [
        ("a NaN", |bytes| last(bytes, f32::NAN)),
        ("an infinity", |bytes| last(bytes, f32::INFINITY)),
        ("too short", |bytes| bytes.truncate(bytes.len() / 2)),
        ("too long", |bytes| bytes.extend([0; 2_000_000])),
        ("a header without end", |bytes| {
            bytes[..8].copy_from_slice(&(1_u64 << 63).to_le_bytes());
        }),
        ("no header", |bytes| bytes[..64].fill(0)),
    ];
    for (what, change) in changes {
        let (_dir, path) = with_bytes(VOICE, change);
        assert_refused(&path, what);
    }
    for (name, tensor) in [(VOICE, "decoder.9.weight"), (TRAINING, "weight/another")] {
        let (_dir, path) = with_bytes(name, |bytes| *bytes = with_another(bytes, tensor));
        let training = CheckpointFolder::open(&path).and_then(|opened| opened.restore(&device()));
        let error = training.map(|_| ()).unwrap_err().to_string();
        assert!(error.contains(&format!("has no `{tensor}`")), "{error}");
    }
    let (_dir, path) = with_bytes(TRAINING, |bytes| last(bytes, f32::NAN));
    let opened = CheckpointFolder::open(&path).and_then(|opened| opened.restore(&device()));
    assert!(opened.is_err(), "a NaN in the training state");
}

/// The same tensors and one more: an edited shape leaves layers without a place.
fn with_another(bytes: &[u8], name: &str) -> Vec<u8> {
    let old = safetensors::SafeTensors::deserialize(bytes).unwrap();
    let another = old.tensors().swap_remove(0).1;
    let all = old
        .tensors()
        .into_iter()
        .chain([(name.to_owned(), another)]);
    safetensors::serialize(all, None).unwrap()
}

#[test]
fn the_best_one_is_looked_for_in_its_own_folder() {
    let (dir, checkpoints) = folder(1);
    save(&checkpoints, 1);
    let (_elsewhere, other) = folder(1);
    let other = save(&other, 2);
    fs::rename(other, dir.path().join("elsewhere")).unwrap();
    let best = json!({"checkpoint": "../elsewhere", "step": 2, "loss": 0.1});
    fs::write(checkpoints.folder().join("best.json"), best.to_string()).unwrap();
    assert_eq!(step(checkpoints.best()), 1);
}
