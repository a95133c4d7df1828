//! A joint n-gram model of letter-phone pairs: counted, smoothed, pruned, made small.
//!
//! Smoothing is interpolated Kneser-Ney with three discounts per n-gram length. Pruning drops the
//! n-grams whose loss costs the training data least (count times the fall in log probability).
//! Everything is sorted lists of keys; no hash order can leak into the model.

use voxmill_text::letter_to_sound::{BACKOFF_BIAS, COST_PER_NAT, MAX_ORDER, Ngrams, Pair};

/// Bits of a pair id in a key: eight pairs fit an `u128`.
const BITS: u32 = 12;
const MASK: u128 = (1 << BITS) - 1;

/// The n-grams of one length, sorted by key: the first pair is in the highest bits, so that the
/// children of a node lie together.
struct Grams {
    keys: Vec<u128>,
    /// How often the n-gram occurs: what pruning weighs.
    occurrences: Vec<u64>,
    /// Kneser-Ney counts: occurrences for the longest, otherwise in how many words' places it
    /// continues something.
    counts: Vec<u64>,
    probability: Vec<f64>,
    backoff: Vec<f64>,
    kept: Vec<bool>,
}

impl Grams {
    /// The place of the beginning or the end of a longer n-gram: that occurs as well.
    fn place(&self, part: u128) -> usize {
        let found = self.keys.binary_search(&part);
        found.expect("a part of an n-gram occurs")
    }

    /// The keys that pruning leaves.
    fn kept_keys(&self) -> impl Iterator<Item = u128> {
        let all = self.keys.iter().zip(&self.kept);
        all.filter(|(_, kept)| **kept).map(|(key, _)| *key)
    }
}

/// Trains on aligned words; `pairs` are sorted and hold every pair used. `threshold` is the least
/// loss (in nats over the training data) for which an n-gram is worth its bytes.
pub(crate) fn train(
    words: &[Vec<Pair>],
    pairs: &[Pair],
    order: usize,
    threshold: f64,
) -> Vec<Ngrams> {
    assert!((2..=MAX_ORDER).contains(&order) && pairs.len() + 2 < 1 << BITS);
    let (end, begin) = (pairs.len() as u16, pairs.len() as u16 + 1);
    let sequences: Vec<Vec<u16>> = words
        .iter()
        .map(|word| {
            let ids = word.iter().map(|pair| {
                let found = pairs.binary_search(pair);
                found.expect("every pair of a word is among the pairs") as u16
            });
            std::iter::once(begin)
                .chain(ids)
                .chain(std::iter::once(end))
                .collect()
        })
        .collect();
    let mut levels: Vec<Grams> = (1..=order).map(|n| count(&sequences, n)).collect();
    continuation_counts(&mut levels, begin);
    for n in 0..order {
        smooth(&mut levels, n, pairs.len() + 1, begin);
    }
    prune(&mut levels, threshold);
    for n in 1..order {
        renormalize_backoff(&mut levels, n);
    }
    (0..order)
        .map(|n| quantize(&levels, n, pairs.len() + 2))
        .collect()
}

fn count(sequences: &[Vec<u16>], n: usize) -> Grams {
    let mut all: Vec<u128> = sequences
        .iter()
        .flat_map(|sequence| sequence.windows(n))
        .map(|gram| gram.iter().fold(0, |key, &id| key << BITS | u128::from(id)))
        .collect();
    all.sort_unstable();
    let (keys, occurrences) = run_lengths(&all);
    Grams {
        counts: occurrences.clone(),
        probability: vec![0.0; keys.len()],
        backoff: vec![1.0; keys.len()],
        kept: vec![true; keys.len()],
        occurrences,
        keys,
    }
}

fn run_lengths(sorted: &[u128]) -> (Vec<u128>, Vec<u64>) {
    sorted
        .chunk_by(|a, b| a == b)
        .map(|run| (run[0], run.len() as u64))
        .unzip()
}

/// What an n-gram without its first pair is.
fn suffix(key: u128, n: usize) -> u128 {
    key & ((1 << (BITS * n as u32)) - 1)
}

fn continuation_counts(levels: &mut [Grams], begin: u16) {
    for n in 0..levels.len() - 1 {
        let longer = &levels[n + 1].keys;
        let mut suffixes: Vec<u128> = longer.iter().map(|&key| suffix(key, n + 1)).collect();
        suffixes.sort_unstable();
        let (keys, counts) = run_lengths(&suffixes);
        let level = &mut levels[n];
        for (at, key) in level.keys.iter().enumerate() {
            // Nothing comes before the beginning: there the plain count stands.
            if key >> (BITS * n as u32) != u128::from(begin) {
                let found = keys.binary_search(key);
                level.counts[at] = found.map_or(level.occurrences[at], |k| counts[k]);
            }
        }
    }
}

/// Discounts for counts of one, two, and three or more (Chen and Goodman's estimate).
fn discounts(counts: &[u64]) -> [f64; 3] {
    let with = |c: u64| counts.iter().filter(|&&n| n == c).count().max(1) as f64;
    let [n1, n2, n3, n4] = [with(1), with(2), with(3), with(4)];
    let y = n1 / (n1 + 2.0 * n2);
    [
        1.0 - 2.0 * y * n2 / n1,
        2.0 - 3.0 * y * n3 / n2,
        3.0 - 4.0 * y * n4 / n3,
    ]
    .map(|d| d.clamp(0.1, 2.5))
}

fn smooth(levels: &mut [Grams], n: usize, predictable: usize, begin: u16) {
    let (shorter, rest) = levels.split_at_mut(n);
    let level = &mut rest[0];
    let discounts = discounts(&level.counts);
    let mut from = 0;
    while let Some(first) = level.keys.get(from) {
        let same_context = |key: &u128| key >> BITS == first >> BITS;
        let span = from..from + level.keys[from..].partition_point(same_context);
        from = span.end;
        let counted = |at: &usize| level.keys[*at] != u128::from(begin);
        let total: u64 = span
            .clone()
            .filter(counted)
            .map(|at| level.counts[at])
            .sum();
        let discount = |count: u64| discounts[(count.min(3) - 1) as usize].min(count as f64);
        let freed: f64 = span
            .clone()
            .filter(counted)
            .map(|at| discount(level.counts[at]))
            .sum();
        let gamma = freed / total as f64;
        for at in span.clone() {
            if n == 0 && !counted(&at) {
                continue;
            }
            let own = (level.counts[at] as f64 - discount(level.counts[at])) / total as f64;
            let lower = match n {
                0 => 1.0 / predictable as f64,
                _ => {
                    let below = &shorter[n - 1];
                    below.probability[below.place(suffix(level.keys[at], n))]
                }
            };
            level.probability[at] = own + gamma * lower;
        }
        if n > 0 {
            let above = &mut shorter[n - 1];
            let context = above.place(level.keys[span.start] >> BITS);
            above.backoff[context] = gamma;
        }
    }
}

fn prune(levels: &mut [Grams], threshold: f64) {
    for n in (1..levels.len()).rev() {
        let (shorter, rest) = levels.split_at_mut(n);
        let (level, longer) = rest.split_first_mut().expect("n is a level");
        let mut needed = vec![false; level.keys.len()];
        if let Some(longer) = longer.first() {
            for key in longer.kept_keys() {
                needed[level.place(key >> BITS)] = true;
            }
        }
        for (at, needed) in needed.into_iter().enumerate() {
            let above = &shorter[n - 1];
            let key = level.keys[at];
            let (context, lower) = (above.place(key >> BITS), above.place(suffix(key, n)));
            let backed_off = above.backoff[context] * above.probability[lower];
            let loss = level.occurrences[at] as f64 * (level.probability[at] / backed_off).ln();
            level.kept[at] = needed || loss >= threshold;
        }
    }
}

/// The probability of a key's last pair after the others, by the pruned model so far.
fn probability(levels: &[Grams], key: u128, n: usize) -> f64 {
    let level = &levels[n];
    if let Ok(at) = level.keys.binary_search(&key)
        && level.kept[at]
    {
        return level.probability[at];
    }
    let context = levels[n - 1].keys.binary_search(&(key >> BITS));
    let backoff = match context {
        Ok(at) if levels[n - 1].kept[at] => levels[n - 1].backoff[at],
        _ => 1.0,
    };
    backoff * probability(levels, suffix(key, n), n - 1)
}

/// Sets the back-off weights of the n-grams of length `n`, now that some of their children went.
fn renormalize_backoff(levels: &mut [Grams], n: usize) {
    let mut fresh = vec![1.0; levels[n - 1].keys.len()];
    let mut from = 0;
    for group in levels[n].keys.chunk_by(|a, b| a >> BITS == b >> BITS) {
        let (mut own, mut lower) = (1.0, 1.0);
        for (at, key) in (from..).zip(group) {
            if levels[n].kept[at] {
                own -= levels[n].probability[at];
                lower -= probability(levels, suffix(*key, n), n - 1);
            }
        }
        from += group.len();
        let context = levels[n - 1].place(group[0] >> BITS);
        fresh[context] = f64::max(own, 1e-6) / f64::max(lower, 1e-6);
    }
    levels[n - 1].backoff = fresh;
}

fn quantize(levels: &[Grams], n: usize, unigrams: usize) -> Ngrams {
    let mut level = Ngrams::default();
    let longer = levels.get(n + 1).into_iter();
    let children = longer.flat_map(Grams::kept_keys).map(|key| key >> BITS);
    let children: Vec<u128> = children.collect();
    let grams = &levels[n];
    let mut push = |key: u128, probability: f64, backoff: f64| {
        level.pairs.push((key & MASK) as u16);
        level.costs.push(cost(probability).clamp(0, 255) as u8);
        level
            .backoffs
            .push((cost(backoff) + BACKOFF_BIAS).clamp(0, 255) as u8);
        let from = children.partition_point(|&parent| parent < key);
        let to = children.partition_point(|&parent| parent <= key);
        level.children.push((to - from) as u32);
    };
    if n == 0 {
        // Node numbers of single pairs are the pairs' ids: none may be missing.
        for id in 0..unigrams as u128 {
            match grams.keys.binary_search(&id) {
                Ok(at) => push(id, grams.probability[at], grams.backoff[at]),
                Err(_) => push(id, 0.0, 1.0),
            }
        }
    } else {
        for at in (0..grams.keys.len()).filter(|&at| grams.kept[at]) {
            push(grams.keys[at], grams.probability[at], grams.backoff[at]);
        }
    }
    level
}

/// A probability as a cost; none at all is dearer than anything a `u8` holds.
fn cost(probability: f64) -> i32 {
    (-probability.ln() * COST_PER_NAT).round().min(1e6) as i32
}
