//! Which of the grammar's sentences the corpus holds, and who says them.
//!
//! Sentences are drawn so that rare words catch up: of a handful of candidates the one whose words
//! have been heard least is taken. A flat vocabulary is what lets a small model learn every word.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Result, ensure};
use voxmill_data::draw::draw;
use voxmill_text::phonemes::edit_distance;

use super::grammar::{Grammar, words};

/// Candidates looked at for each sentence taken.
const CANDIDATES: usize = 48;
/// Held-out sentences are at least this many word edits away from every training sentence.
const HELD_OUT_EDITS: usize = 3;
/// A held-out word occurs at least so often in the main voice's training sentences.
const HELD_OUT_WORD_COUNT: usize = 4;

/// How many sentences one voice says, and how long they may be (in characters).
#[derive(Clone, Copy, Debug)]
pub(super) struct VoiceShare {
    pub(super) sentences: usize,
    pub(super) shortest: usize,
    pub(super) longest: usize,
}

/// Draws one list of sentences per share. No sentence comes twice in all lists together, where
/// case and punctuation do not count as a difference.
pub(super) fn choose(
    grammar: &Grammar,
    seed: u64,
    shares: &[VoiceShare],
) -> Result<Vec<Vec<String>>> {
    let mut taken = BTreeSet::new();
    let mut lists = Vec::new();
    for (voice, share) in shares.iter().enumerate() {
        let mut heard: BTreeMap<String, u32> = BTreeMap::new();
        let mut list = Vec::new();
        let mut attempt = 0;
        while list.len() < share.sentences {
            ensure!(
                attempt < share.sentences * 20,
                "the grammar has too few sentences of {} to {} letters",
                share.shortest,
                share.longest
            );
            let mut best: Option<(f64, String)> = None;
            for candidate in 0..CANDIDATES {
                let Some(text) =
                    grammar.sentence(seed, &format!("{voice}/{attempt}/{candidate}"))?
                else {
                    continue;
                };
                if !(share.shortest..=share.longest).contains(&text.len())
                    || taken.contains(&plain(&text))
                {
                    continue;
                }
                let novelty = novelty(&text, &heard);
                if best.as_ref().is_none_or(|(least, _)| novelty > *least) {
                    best = Some((novelty, text));
                }
            }
            attempt += 1;
            if let Some((_, text)) = best {
                taken.insert(plain(&text));
                for word in words(&text) {
                    *heard.entry(word).or_default() += 1;
                }
                list.push(text);
            }
        }
        lists.push(list);
    }
    Ok(lists)
}

/// Sum over the words of 1 / (1 + times heard), over the root of their number: a plain mean
/// would favour short sentences, a plain sum long ones.
fn novelty(text: &str, heard: &BTreeMap<String, u32>) -> f64 {
    let (mut sum, mut count) = (0.0, 0.0);
    for word in words(text) {
        sum += 1.0 / f64::from(1 + heard.get(&word).copied().unwrap_or(0));
        count += 1.0;
    }
    sum / f64::sqrt(count)
}

/// Moves `count` sentences out of `training` whose words are all well known from the rest and
/// which resemble no sentence of `training` or `others`.
pub(super) fn hold_out(
    training: &mut Vec<String>,
    others: &[Vec<String>],
    count: usize,
    seed: u64,
) -> Result<Vec<String>> {
    let mut order: Vec<String> = training.clone();
    order.sort_by_key(|text| draw(seed, 0, text, "demo held out"));
    let mut heard: BTreeMap<String, usize> = BTreeMap::new();
    for word in training.iter().flat_map(|text| words(text)) {
        *heard.entry(word).or_default() += 1;
    }
    let mut held = Vec::new();
    for text in order {
        if held.len() == count {
            break;
        }
        let known = words(&text).all(|word| heard[&word] > HELD_OUT_WORD_COUNT);
        let near = training
            .iter()
            .chain(others.iter().flatten())
            .filter(|other| **other != text)
            .any(|other| edits(&text, other) < HELD_OUT_EDITS);
        if known && !near {
            for word in words(&text) {
                *heard.entry(word).or_default() -= 1;
            }
            training.retain(|other| *other != text);
            held.push(text);
        }
    }
    ensure!(
        held.len() == count,
        "only {} sentences can be held out",
        held.len()
    );
    Ok(held)
}

/// The sentence without case and punctuation.
pub(super) fn plain(text: &str) -> String {
    words(text).collect::<Vec<_>>().join(" ")
}

/// Word edit distance.
fn edits(a: &str, b: &str) -> usize {
    let [a, b] = [a, b].map(|text| words(text).collect::<Vec<_>>());
    edit_distance(&a, &b)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_count_words() {
        assert_eq!(edits("The cat sat.", "the cat sat"), 0);
        assert_eq!(edits("The cat sat.", "the dog sat down"), 2);
        assert_eq!(edits("", "one two"), 2);
    }

    #[test]
    fn lists_are_disjoint_and_the_draw_is_stable() {
        let grammar = Grammar::parse(
            "sentence: the {a} {b} {c}.\na: one / two / three / four\nb: red / blue / green\nc: cat / dog / cow\n",
        )
        .unwrap();
        let share = VoiceShare {
            sentences: 12,
            shortest: 1,
            longest: 99,
        };
        let lists = choose(&grammar, 7, &[share, share]).unwrap();
        let all: BTreeSet<&String> = lists.iter().flatten().collect();
        assert_eq!(all.len(), 24);
        assert_eq!(lists, choose(&grammar, 7, &[share, share]).unwrap());
        let too_many = VoiceShare {
            sentences: 37,
            ..share
        };
        assert!(choose(&grammar, 7, &[too_many]).is_err());
    }
}
