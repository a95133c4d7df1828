//! Whatever is in the files of sysfs and procfs, the probes do not panic, and a value that they
//! give is a number that can be shown.

#![expect(clippy::unwrap_used, reason = "test code outside of test functions")]

use std::fs;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use voxmill_telemetry::event::{Event, Nanos};
use voxmill_telemetry::probes::{Probes, Roots};

/// All files of all trees, each with its path in the machine.
fn files() -> Vec<(PathBuf, String)> {
    fn walk(root: &Path, directory: &Path, files: &mut Vec<(PathBuf, String)>) {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                walk(root, &path, files);
            } else {
                let text = fs::read_to_string(&path).unwrap();
                files.push((path.strip_prefix(root).unwrap().to_owned(), text));
            }
        }
    }
    let trees = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/trees");
    let mut files = Vec::new();
    for tree in ["amd", "intel", "host"] {
        walk(&trees.join(tree), &trees.join(tree), &mut files);
    }
    files
}

/// What a file may turn into: anything at all, or what it was with a piece replaced.
#[derive(Clone, Debug)]
enum Change {
    Keep,
    Remove,
    Bytes(Vec<u8>),
    /// The numbers, each by the one that comes next here.
    Numbers(Vec<String>),
    Cut(usize),
}

fn change() -> impl Strategy<Value = Change> {
    let number = prop_oneof![
        Just(u64::MAX.to_string()),
        Just("-1".to_owned()),
        Just("0".to_owned()),
        Just("1e400".to_owned()),
        any::<u64>().prop_map(|number| number.to_string()),
        "[0-9]{1,30}",
        "\\PC{0,8}",
    ];
    prop_oneof![
        2 => Just(Change::Keep),
        1 => Just(Change::Remove),
        2 => prop::collection::vec(any::<u8>(), 0..200).prop_map(Change::Bytes),
        2 => "(\\PC|[\n\t ():0-9]){0,200}".prop_map(|text| Change::Bytes(text.into_bytes())),
        4 => prop::collection::vec(number, 1..20).prop_map(Change::Numbers),
        1 => (0usize..500).prop_map(Change::Cut),
    ]
}

fn write(root: &Path, path: &Path, text: &str, change: &Change) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let bytes = match change {
        Change::Keep => text.as_bytes().to_vec(),
        Change::Remove => {
            let _ = fs::remove_file(path);
            return;
        }
        Change::Bytes(bytes) => bytes.clone(),
        Change::Numbers(numbers) => {
            let mut numbers = numbers.iter().cycle();
            let words = text.split(' ').map(|word| {
                let is_number = word.trim().parse::<u64>().is_ok();
                let end = if word.ends_with('\n') { "\n" } else { "" };
                match numbers.next() {
                    Some(number) if is_number => format!("{number}{end}"),
                    _ => word.to_owned(),
                }
            });
            words.collect::<Vec<_>>().join(" ").into_bytes()
        }
        Change::Cut(length) => text.bytes().take(*length).collect(),
    };
    fs::write(path, bytes).unwrap();
}

fn check(event: &Event) {
    let json = serde_json::to_value(event).unwrap();
    for (name, value) in json.as_object().unwrap() {
        assert!(!value.is_null(), "{name} is not a finite number: {event:?}");
        if let Some(number) = value.as_f64() {
            assert!(number >= 0.0, "{name}: {event:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_content_of_files_makes_the_probes_panic(
        moments in prop::collection::vec(
            prop::collection::vec((any::<prop::sample::Index>(), change()), 1..20),
            3,
        ),
        times in prop::collection::vec(any::<u64>(), 3),
    ) {
        let files = files();
        let root = tempfile::tempdir().unwrap();
        // The cards' own names stay at first, so that they are found.
        for (path, text) in &files {
            write(root.path(), path, text, &Change::Keep);
        }
        let roots = Roots {
            proc: root.path().join("proc"),
            sys: root.path().join("sys"),
            nvml_library: Some(root.path().join("no-library")),
        };
        let mut probes = Probes::find(&roots);
        for (changes, time) in moments.iter().zip(times) {
            for (file, change) in changes {
                let (path, text) = file.get(&files);
                write(root.path(), path, text, change);
            }
            for event in probes.sample(Nanos(time)) {
                check(&event);
            }
        }
        // What is left may describe no card at all, or another one.
        for event in Probes::find(&roots).sample(Nanos(0)) {
            check(&event);
        }
    }
}
