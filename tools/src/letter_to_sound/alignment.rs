//! Which phones a letter stands for in a word, found by expectation maximisation.
//!
//! Each letter takes zero, one or two phones. Nothing is known at first but the words themselves:
//! all ways to divide a word's phones among its letters count alike; then what was counted weighs
//! the ways, and so on until `t h` → TH – is obvious.

use std::collections::BTreeMap;

use voxmill_text::letter_to_sound::Pair;
use voxmill_text::phonemes::{PHONES, Phone};

const ROUNDS: usize = 8;
/// A pair seen less often than this is an accident of one spelling; its words are left out.
const RAREST_PAIR: usize = 4;
/// Phone counts a letter may take.
const SPANS: [usize; 3] = [0, 1, 2];
/// Phones plus "none", so that two of them index a table.
const WIDTH: usize = PHONES.len() + 1;

pub(crate) struct DictionaryEntry {
    /// Lower-case ASCII letters.
    pub(crate) letters: Vec<u8>,
    pub(crate) phones: Vec<Phone>,
}

/// Divides each word's phones among its letters. Words that cannot be divided, or only by a rare
/// pair, are left out; the count of those comes second.
pub(crate) fn align(entries: &[DictionaryEntry]) -> (Vec<Vec<Pair>>, usize) {
    let mut weights = vec![1.0; 26 * WIDTH * WIDTH];
    for _ in 0..ROUNDS {
        let mut counts = vec![0.0; weights.len()];
        for entry in entries {
            expect(entry, &weights, &mut counts);
        }
        normalize(&mut counts);
        weights = counts;
    }
    let first: Vec<_> = entries.iter().filter_map(|e| best(e, &weights)).collect();
    let mut seen: BTreeMap<Pair, usize> = BTreeMap::new();
    for pair in first.iter().flatten() {
        *seen.entry(*pair).or_default() += 1;
    }
    for letter in 0..26 {
        for slot in 0..WIDTH * WIDTH {
            let pair = pair_at(letter, slot);
            if seen.get(&pair).is_none_or(|&count| count < RAREST_PAIR) {
                weights[usize::from(letter) * WIDTH * WIDTH + slot] = 0.0;
            }
        }
    }
    let aligned: Vec<_> = entries.iter().filter_map(|e| best(e, &weights)).collect();
    let left_out = entries.len() - aligned.len();
    (aligned, left_out)
}

fn slot(letter: u8, phones: &[Phone]) -> usize {
    let code = |at: usize| phones.get(at).map_or(0, |p| usize::from(p.index()) + 1);
    (usize::from(letter - b'a') * WIDTH + code(0)) * WIDTH + code(1)
}

fn pair_at(letter: u8, slot: usize) -> Pair {
    let phone = |code: usize| Phone::from_index((code as u8).wrapping_sub(1));
    Pair {
        letter,
        phones: [phone(slot / WIDTH), phone(slot % WIDTH)],
    }
}

/// Adds the expected number of times each pair is used in `entry` to `counts`.
fn expect(entry: &DictionaryEntry, weights: &[f64], counts: &mut [f64]) {
    let (n, m) = (entry.letters.len(), entry.phones.len());
    let columns = m + 1;
    let mut forward = vec![0.0; (n + 1) * columns];
    let mut backward = forward.clone();
    forward[0] = 1.0;
    backward[n * columns + m] = 1.0;
    let moves = |i: usize, j: usize| {
        SPANS.into_iter().filter_map(move |span| {
            let phones = entry.phones.get(j..j + span)?;
            Some((j + span, slot(entry.letters[i], phones)))
        })
    };
    for i in 0..n {
        for j in 0..=m {
            for (to, slot) in moves(i, j) {
                forward[(i + 1) * columns + to] += forward[i * columns + j] * weights[slot];
            }
        }
    }
    for i in (0..n).rev() {
        for j in 0..=m {
            for (to, slot) in moves(i, j) {
                backward[i * columns + j] += backward[(i + 1) * columns + to] * weights[slot];
            }
        }
    }
    let total = forward[n * columns + m];
    if total <= 0.0 {
        return;
    }
    for i in 0..n {
        for j in 0..=m {
            for (to, slot) in moves(i, j) {
                counts[slot] +=
                    forward[i * columns + j] * weights[slot] * backward[(i + 1) * columns + to]
                        / total;
            }
        }
    }
}

/// Makes the counts probabilities over all pairs together.
fn normalize(counts: &mut [f64]) {
    let total: f64 = counts.iter().sum();
    for count in counts {
        *count /= total;
    }
}

fn best(entry: &DictionaryEntry, weights: &[f64]) -> Option<Vec<Pair>> {
    let (n, m) = (entry.letters.len(), entry.phones.len());
    let columns = m + 1;
    let mut score = vec![0.0; (n + 1) * columns];
    let mut taken = vec![0; score.len()];
    score[0] = 1.0;
    for i in 0..n {
        for j in 0..=m {
            for span in SPANS {
                let Some(phones) = entry.phones.get(j..j + span) else {
                    continue;
                };
                let candidate = score[i * columns + j] * weights[slot(entry.letters[i], phones)];
                let to = (i + 1) * columns + j + span;
                if candidate > score[to] {
                    score[to] = candidate;
                    taken[to] = span;
                }
            }
        }
    }
    if score[n * columns + m] <= 0.0 {
        return None;
    }
    let (mut pairs, mut j) = (Vec::with_capacity(n), m);
    for i in (0..n).rev() {
        let span = taken[(i + 1) * columns + j];
        let phones = &entry.phones[j - span..j];
        pairs.push(Pair {
            letter: entry.letters[i] - b'a',
            phones: [phones.first().copied(), phones.get(1).copied()],
        });
        j -= span;
    }
    pairs.reverse();
    Some(pairs)
}
