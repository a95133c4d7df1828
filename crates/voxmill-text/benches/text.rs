//! How long text takes: making a front-end, and all transcripts of LJ Speech through it.
//!
//! The transcripts are read from `../shared/data` next to the project where they are there;
//! otherwise as many sentences are put together from words of our own.

use std::path::Path;

use voxmill_text::language::Language;
use voxmill_text::{FrontEnd, FrontEndOptions};

fn main() {
    divan::main();
}

const CLIPS: usize = 13_100;

fn transcripts() -> Vec<String> {
    let project = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let path = project.join("../shared/data/ljspeech-13100-transcripts.csv");
    match std::fs::read_to_string(path) {
        Ok(text) => text
            .lines()
            .filter_map(|line| line.split('|').nth(1))
            .map(str::to_owned)
            .collect(),
        Err(_) => (0..CLIPS).map(sentence).collect(),
    }
}

/// About as long as a sentence of LJ Speech, with a few words that no dictionary holds.
fn sentence(clip: usize) -> String {
    let list = "river the carried lanterns slowly blorple of morning and \
                harbour it's seventeen quiet woodcutters in stone";
    let list: Vec<&str> = list.split(' ').collect();
    let words: Vec<_> = (0..17)
        .map(|at| list[(clip * 7 + at * (clip % 5 + 1)) % 16])
        .collect();
    words.join(" ") + "."
}

#[divan::bench]
fn load() -> FrontEnd {
    FrontEnd::new(FrontEndOptions::default()).expect("the built-in tables are whole")
}

/// Load and features of all transcripts, on as many threads.
#[divan::bench(args = [1, 2], sample_count = 10, sample_size = 1)]
fn all_transcripts(bencher: divan::Bencher<'_, '_>, threads: usize) {
    let transcripts = transcripts();
    bencher.bench(|| {
        let front_end = &load();
        let share = transcripts.len().div_ceil(threads);
        std::thread::scope(|scope| {
            for part in transcripts.chunks(share) {
                scope.spawn(move || {
                    for text in part {
                        let features = front_end.features(text, Some(Language::English));
                        divan::black_box(features.is_ok());
                    }
                });
            }
        });
    });
}
