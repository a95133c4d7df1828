//! Packs the pronouncing dictionary and trains the letter-to-sound model on it.
//!
//! Everything written is a pure function of the dictionary's text: run it twice, get the same
//! bytes. 2,000 words chosen by hash never enter the training; the model is measured on them, and
//! a test of `voxmill-text` measures it again.

mod alignment;
mod ngram;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::Context as _;
use voxmill_data::draw::draw;
use voxmill_text::dictionary;
use voxmill_text::letter_to_sound::{self, LetterToSound, Pair};
use voxmill_text::phonemes::{Phone, edit_distance, parse_phones};
use xtask::project_root;

use crate::output_of;
use alignment::DictionaryEntry;

const HELD_OUT_WORDS: usize = 2_000;

#[derive(Debug, clap::Args)]
pub(crate) struct LetterToSoundArgs {
    /// Longest n-gram of the model
    #[arg(long, default_value_t = 7)]
    order: usize,
    /// Drop n-grams that save less than this many nats over the training words
    #[arg(long, default_value_t = 2.0)]
    threshold: f64,
    /// Measure only: write no file
    #[arg(long)]
    dry_run: bool,
}

/// The dictionary's words, each with its pronunciations in the order given.
pub(crate) type Words = BTreeMap<String, Vec<Vec<Phone>>>;

pub(crate) fn run(args: LetterToSoundArgs) -> anyhow::Result<()> {
    let start = Instant::now();
    let words = read_dictionary(&dictionary_path()?)?;
    let held_out = held_out(&words);
    let entries: Vec<DictionaryEntry> = words
        .iter()
        .filter(|(word, _)| is_alphabetic(word) && !held_out.contains(word.as_str()))
        .flat_map(|(word, pronunciations)| {
            pronunciations.iter().map(|phones| DictionaryEntry {
                letters: word.clone().into_bytes(),
                phones: phones.clone(),
            })
        })
        .collect();
    let (aligned, left_out) = alignment::align(&entries);
    let pairs: Vec<Pair> = BTreeSet::from_iter(aligned.iter().flatten().copied())
        .into_iter()
        .collect();
    let levels = ngram::train(&aligned, &pairs, args.order, args.threshold);
    let model = letter_to_sound::pack(&pairs, &levels);
    let result = measure(&LetterToSound::from_bytes(&model)?, &words, &held_out);

    let nodes: Vec<_> = levels.iter().map(|l| l.pairs.len().to_string()).collect();
    let record = format!(
        "trained on {} pronunciations ({left_out} left out: no alignment), {} pairs, \
         n-grams by length: {}\n\
         model: {} bytes; order {}, pruning threshold {}\n\
         held out: {} words, {} phones\n\
         phone error rate, stress counted: {:.2} %\n\
         phone error rate, stress ignored: {:.2} %\n\
         words wrong, stress counted: {:.1} %; stress ignored: {:.1} %\n",
        aligned.len(),
        pairs.len(),
        nodes.join(", "),
        model.len(),
        args.order,
        args.threshold,
        held_out.len(),
        result.phones,
        percent(result.errors, result.phones),
        percent(result.errors_unstressed, result.phones),
        percent(result.wrong_words, held_out.len()),
        percent(result.wrong_words_unstressed, held_out.len()),
    );
    eprint_record(&record, start);
    if args.dry_run {
        return Ok(());
    }

    let root = project_root();
    let data = root.join("crates/voxmill-text/data");
    let data = data.join("pronunciation");
    write(&data.join("dictionary.bin"), &pack_dictionary(&words)?)?;
    write(&data.join("letter_to_sound.bin"), &model)?;
    let held_out = held_out_table(&words, &held_out);
    write(
        &data.join("letter_to_sound.held-out.tsv"),
        held_out.as_bytes(),
    )?;
    let page = format!(
        "# Letter-to-sound model\n\n\
         Written by `cargo tools letter-to-sound` on {}; training is deterministic.\n\n```\n{record}```\n",
        today()?
    );
    write(
        &root.join("benches/records/letter-to-sound.md"),
        page.as_bytes(),
    )
}

#[expect(
    clippy::print_stderr,
    reason = "a tool talks to the person who runs it"
)]
fn eprint_record(record: &str, start: Instant) {
    eprintln!("{record}took {:.1} s", start.elapsed().as_secs_f64());
}

fn write(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    std::fs::write(path, bytes).with_context(|| format!("cannot write {}", path.display()))
}

/// Where cargo keeps the text that the `cmudict-fast` crate carries.
fn dictionary_path() -> anyhow::Result<PathBuf> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["metadata", "--format-version", "1", "--locked"]);
    let output = output_of(cargo.current_dir(project_root()))?;
    let metadata: serde_json::Value = serde_json::from_slice(&output)?;
    let packages = metadata["packages"]
        .as_array()
        .context("cargo metadata names no packages")?;
    let manifest = packages
        .iter()
        .find(|package| package["name"] == "cmudict-fast")
        .and_then(|package| package["manifest_path"].as_str())
        .context("cmudict-fast is not among the dependencies")?;
    Ok(Path::new(manifest)
        .with_file_name("resources")
        .join("cmudict.dict"))
}

/// Reads `word PH ON ES # comment` and `word(2) …`, as CMUdict writes them.
pub(crate) fn read_dictionary(path: &Path) -> anyhow::Result<Words> {
    let text =
        std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let mut words = Words::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() || line.starts_with(";;;") {
            continue;
        }
        let (label, phones) = line
            .split_once(' ')
            .with_context(|| format!("{}:{number}: no pronunciation", path.display()))?;
        let word = label.split('(').next().unwrap_or(label);
        let phones =
            parse_phones(phones).with_context(|| format!("{}:{number}", path.display()))?;
        words.entry(word.to_lowercase()).or_default().push(phones);
    }
    Ok(words)
}

fn is_alphabetic(word: &str) -> bool {
    word.bytes().all(|byte| byte.is_ascii_lowercase())
}

/// The words with the smallest hashes: adding a word to the dictionary moves at most one.
fn held_out(words: &Words) -> BTreeSet<&str> {
    let mut drawn: Vec<(u64, &str)> = words
        .keys()
        .filter(|word| is_alphabetic(word))
        .map(|word| (draw(0, 0, word, "letter-to-sound held out"), word.as_str()))
        .collect();
    drawn.sort_unstable();
    drawn.truncate(HELD_OUT_WORDS);
    drawn.into_iter().map(|(_, word)| word).collect()
}

fn held_out_table(words: &Words, held_out: &BTreeSet<&str>) -> String {
    let mut table = String::from(
        "# Words kept out of the letter-to-sound training, with all their pronunciations.\n",
    );
    for word in held_out {
        for phones in &words[*word] {
            let phones: Vec<_> = phones.iter().map(|phone| phone.as_str()).collect();
            let _ = writeln!(table, "{word}\t{}", phones.join(" "));
        }
    }
    table
}

/// Words of letters and apostrophes: what a normalised text can hold.
fn pack_dictionary(words: &Words) -> anyhow::Result<Vec<u8>> {
    let entries: Vec<(&str, &[Phone])> = words
        .iter()
        .filter(|(word, _)| word.bytes().all(|b| b.is_ascii_lowercase() || b == b'\''))
        .map(|(word, pronunciations)| (word.as_str(), pronunciations[0].as_slice()))
        .collect();
    Ok(dictionary::pack(&entries)?)
}

#[derive(Default)]
struct MeasuredErrors {
    phones: usize,
    errors: usize,
    errors_unstressed: usize,
    wrong_words: usize,
    wrong_words_unstressed: usize,
}

fn percent(errors: usize, of: usize) -> f64 {
    100.0 * errors as f64 / of as f64
}

/// Errors against the nearest of a word's pronunciations, over the phones of that one.
fn measure(model: &LetterToSound<'_>, words: &Words, held_out: &BTreeSet<&str>) -> MeasuredErrors {
    let mut measured = MeasuredErrors::default();
    for word in held_out {
        let guess = model.pronounce(word);
        let bare =
            |phones: &[Phone]| -> Vec<Phone> { phones.iter().map(|p| p.unstressed()).collect() };
        let nearest = words[*word]
            .iter()
            .map(|right| (edit_distance(&guess, right), right.len()))
            .min();
        let unstressed = words[*word]
            .iter()
            .map(|right| edit_distance(&bare(&guess), &bare(right)))
            .min();
        if let (Some((errors, phones)), Some(errors_unstressed)) = (nearest, unstressed) {
            measured.phones += phones;
            measured.errors += errors;
            measured.errors_unstressed += errors_unstressed;
            measured.wrong_words += usize::from(errors > 0);
            measured.wrong_words_unstressed += usize::from(errors_unstressed > 0);
        }
    }
    measured
}

fn today() -> anyhow::Result<String> {
    let date = output_of(Command::new("date").args(["-u", "+%Y-%m-%d"]))?;
    Ok(String::from_utf8(date)?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(table: &[(&str, &str)]) -> Words {
        let mut words = Words::new();
        for (word, phones) in table {
            let phones = parse_phones(phones).unwrap();
            words.entry((*word).to_owned()).or_default().push(phones);
        }
        words
    }

    #[test]
    fn a_model_says_the_words_it_was_trained_on() {
        let table = [
            ("thin", "TH IH1 N"),
            ("then", "DH EH1 N"),
            ("tin", "T IH1 N"),
            ("hen", "HH EH1 N"),
            ("ten", "T EH1 N"),
            ("hit", "HH IH1 T"),
            ("box", "B AA1 K S"),
            ("ox", "AA1 K S"),
        ];
        // Several times over, so that no pair is too rare to keep.
        let entries: Vec<DictionaryEntry> = table
            .iter()
            .cycle()
            .take(table.len() * 6)
            .map(|(word, phones)| DictionaryEntry {
                letters: word.as_bytes().to_vec(),
                phones: parse_phones(phones).unwrap(),
            })
            .collect();
        let (aligned, left_out) = alignment::align(&entries);
        assert_eq!(left_out, 0);
        let ox: Vec<usize> = aligned[7]
            .iter()
            .map(|pair| pair.phones.iter().flatten().count())
            .collect();
        assert_eq!(ox, [1, 2], "x stands for K S");
        let pairs: Vec<Pair> = BTreeSet::from_iter(aligned.iter().flatten().copied())
            .into_iter()
            .collect();
        let model = letter_to_sound::pack(&pairs, &ngram::train(&aligned, &pairs, 4, 0.0));
        let model = LetterToSound::from_bytes(&model).unwrap();
        for (word, phones) in table {
            assert_eq!(
                model.pronounce(word),
                parse_phones(phones).unwrap(),
                "{word}"
            );
        }
    }

    #[test]
    fn errors_are_counted_against_the_nearest_pronunciation() {
        let words = words(&[("ox", "AA1 K S"), ("ox", "B IY1")]);
        let model = LetterToSound::built_in();
        let measured = measure(&model, &words, &BTreeSet::from(["ox"]));
        assert_eq!((measured.phones, measured.errors), (3, 0));
    }

    #[test]
    fn the_committed_list_is_what_the_rule_holds_out() {
        let words = read_dictionary(&dictionary_path().unwrap()).unwrap();
        let data = project_root().join("crates/voxmill-text/data");
        let committed =
            std::fs::read_to_string(data.join("pronunciation/letter_to_sound.held-out.tsv"));
        assert_eq!(
            committed.unwrap(),
            held_out_table(&words, &held_out(&words))
        );
        let packed = std::fs::read(data.join("pronunciation/dictionary.bin")).unwrap();
        assert!(packed == pack_dictionary(&words).unwrap());
    }
}
