//! How an English word that no dictionary holds is probably said.
//!
//! A joint n-gram model: a word is a sequence of *pairs*, each one letter with the zero, one or two
//! phones it stands for (`t`→TH, `h`→ – , `x`→K S), and the model knows how likely a pair is after
//! the pairs before it. Decoding is a beam search over pairs whose letters spell the word. The
//! model is trained on the dictionary by `cargo tools letter-to-sound`, which also measures it on
//! 2,000 words kept out of training (`benches/records/letter-to-sound.md`).
//!
//! Costs are integers (twentieths of a nat), so that a word has the same sound on every machine.
//!
//! Format, little-endian: magic, version `u32`, order `u8`, pair count `u16`, the pairs (letter
//! index, two phone indices, 255 for none) sorted by letter; then for each n-gram length: node
//! count `u32`, the nodes' last pairs `u16`, their costs `u8` and, where longer n-grams follow,
//! their back-off costs `u8` (shifted by [`BACKOFF_BIAS`]) and their numbers of children (LEB128).
//! Nodes are sorted by parent, then by pair. The two ids after the last pair stand for the
//! word's end and beginning.

use std::ops::Range;

use super::phonemes::Phone;

const MAGIC: &[u8; 4] = b"VXLS";
const VERSION: u32 = 1;
/// Longest n-gram a model may hold.
pub const MAX_ORDER: usize = 8;
/// Costs are whole numbers: so many of them make one unit of the natural logarithm.
pub const COST_PER_NAT: f64 = 20.0;
/// Back-off weights above one happen in a pruned model; the bias keeps them in a `u8`.
pub const BACKOFF_BIAS: i32 = 24;
/// Hypotheses kept per letter. Phone error rate on the words held out: 10.5 % with 10, 10.0 % with
/// 20, 9.9 % with 48; time grows with it (about 50 µs a word at 20).
const BEAM: usize = 20;
/// A hypothesis this much dearer than the best (6 nats) is dropped; twice as much gains 0.1 points.
const MARGIN: i32 = 120;
/// Letters decoded at a time: what is longer is no word, and must not cost memory without bound.
const LONGEST_WORD: usize = 64;
const NO_PHONE: u8 = 255;
const NO_NODE: u32 = u32::MAX;

/// The built-in model, written by `cargo tools letter-to-sound`.
pub(super) static BUILT_IN: &[u8] = include_bytes!("../data/pronunciation/letter_to_sound.bin");

/// One letter and what it stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pair {
    /// 0 for `a` to 25 for `z`.
    pub letter: u8,
    pub phones: [Option<Phone>; 2],
}

/// The n-grams of one length, as the trainer hands them over.
#[derive(Clone, Debug, Default)]
pub struct Ngrams {
    pub pairs: Vec<u16>,
    pub costs: Vec<u8>,
    pub backoffs: Vec<u8>,
    pub children: Vec<u32>,
}

/// A model that guesses the phones of a word from its letters, read in place from bytes.
#[derive(Debug)]
pub struct LetterToSound<'a> {
    pairs: Vec<Pair>,
    /// `pairs[by_letter[l]]` are the pairs of letter `l`.
    by_letter: [Range<u16>; 26],
    levels: Vec<Nodes<'a>>,
}

#[derive(Debug)]
struct Nodes<'a> {
    pairs: &'a [[u8; 2]],
    costs: &'a [u8],
    backoffs: &'a [u8],
    /// Where a node's children begin on the next level; one more than there are nodes.
    first_child: Vec<u32>,
}

/// Why bytes are no model.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ModelError {
    #[error("not a letter-to-sound model of version {VERSION}")]
    Format,
    #[error("the letter-to-sound model is cut short or damaged")]
    Damaged,
}

/// What the last pairs of a hypothesis were, as nodes: `nodes[k]` ends an n-gram of `k + 1` pairs.
type Context = [u32; MAX_ORDER - 1];

#[derive(Clone, Copy)]
struct Hypothesis {
    cost: i32,
    context: Context,
    pair: u16,
    /// Index of the hypothesis it continues, among those of the letter before.
    previous: u16,
}

/// Scratch space of a search, kept from letter to letter.
#[derive(Default)]
struct Search {
    costs: Vec<i32>,
    /// Cost, pair and the hypothesis continued.
    candidates: Vec<(i32, u16, u16)>,
}

impl LetterToSound<'static> {
    /// The one in the program.
    pub fn built_in() -> LetterToSound<'static> {
        LetterToSound::from_bytes(BUILT_IN).expect("the built-in model is checked by a test")
    }
}

impl<'a> LetterToSound<'a> {
    /// Costs about a millisecond: the nodes stay where they are, only child offsets are summed up.
    pub fn from_bytes(bytes: &'a [u8]) -> Result<LetterToSound<'a>, ModelError> {
        let mut bytes = Bytes(bytes);
        if bytes.take(4) != Ok(MAGIC) || bytes.u32() != Ok(VERSION) {
            return Err(ModelError::Format);
        }
        let order = usize::from(bytes.take(1)?[0]);
        let pair_count = usize::from(bytes.u16()?);
        let pairs = bytes
            .take(pair_count * 3)?
            .chunks_exact(3)
            .map(Pair::from_bytes)
            .collect::<Result<Vec<_>, _>>()?;
        if !(2..=MAX_ORDER).contains(&order) || !pairs.is_sorted() || pair_count > 0xfff0 {
            return Err(ModelError::Damaged);
        }
        let mut levels = Vec::with_capacity(order);
        let mut expected = pair_count + 2;
        for level in 1..=order {
            let nodes = Nodes::read(&mut bytes, level == order)?;
            if nodes.costs.len() != expected {
                return Err(ModelError::Damaged);
            }
            expected = nodes.first_child.last().map_or(0, |&n| n as usize);
            levels.push(nodes);
        }
        let by_letter = std::array::from_fn(|letter| {
            let before = |l: usize| pairs.partition_point(|pair| usize::from(pair.letter) < l);
            before(letter) as u16..before(letter + 1) as u16
        });
        Ok(LetterToSound {
            pairs,
            by_letter,
            levels,
        })
    }

    /// The likeliest phones of a word; letters other than `a` to `z` (any case) are skipped.
    /// Empty if the word has none.
    pub fn pronounce(&self, word: &str) -> Vec<Phone> {
        let lower = word.bytes().map(|byte| byte.to_ascii_lowercase());
        let letters: Vec<u8> = lower.filter(u8::is_ascii_lowercase).collect();
        letters
            .chunks(LONGEST_WORD)
            .flat_map(|piece| self.pronounce_piece(piece))
            .collect()
    }

    fn pronounce_piece(&self, letters: &[u8]) -> Vec<Phone> {
        let mut context = [NO_NODE; MAX_ORDER - 1];
        context[0] = self.begin().into();
        let start = Hypothesis {
            cost: 0,
            context,
            pair: self.begin(),
            previous: 0,
        };
        let mut search = Search::default();
        let mut beams = vec![vec![start]];
        for letter in letters {
            let choices = self.by_letter[usize::from(letter - b'a')].clone();
            beams.push(self.extend(&beams[beams.len() - 1], choices, &mut search));
        }
        let end = self.end();
        let last = self.extend(&beams[beams.len() - 1], end..end + 1, &mut search);
        self.trace(&beams, last.first().map_or(0, |end| end.previous))
    }

    fn end(&self) -> u16 {
        self.pairs.len() as u16
    }

    fn begin(&self) -> u16 {
        self.end() + 1
    }

    /// The cheapest continuations of `beam` by one of `choices`, no two with the same future.
    fn extend(
        &self,
        beam: &[Hypothesis],
        choices: Range<u16>,
        search: &mut Search,
    ) -> Vec<Hypothesis> {
        search.candidates.clear();
        let mut least = i32::MAX;
        for (previous, hypothesis) in (0..).zip(beam) {
            self.weigh(&hypothesis.context, choices.clone(), &mut search.costs);
            for (pair, cost) in choices.clone().zip(&search.costs) {
                let cost = hypothesis.cost + cost;
                least = least.min(cost);
                if cost <= least + MARGIN {
                    search.candidates.push((cost, pair, previous));
                }
            }
        }
        // Pair and origin sort too: ties fall the same way everywhere.
        search.candidates.sort_unstable();
        let mut kept: Vec<Hypothesis> = Vec::with_capacity(BEAM);
        for &(cost, pair, previous) in &search.candidates {
            if kept.len() == BEAM || cost > least + MARGIN {
                break;
            }
            let context = self.follow(&beam[usize::from(previous)].context, pair);
            if kept.iter().all(|other| other.context != context) {
                kept.push(Hypothesis {
                    cost,
                    context,
                    pair,
                    previous,
                });
            }
        }
        kept
    }

    /// The cost of each of `choices` after `context`: that of the longest n-gram known, plus the
    /// back-offs of the longer contexts that do not know it. Walks the children that exist, which
    /// are far fewer than choices times lengths.
    fn weigh(&self, context: &Context, choices: Range<u16>, costs: &mut Vec<i32>) {
        const OPEN: i32 = i32::MAX;
        costs.clear();
        costs.resize(choices.len(), OPEN);
        let mut backoff = 0;
        for length in (1..self.levels.len()).rev() {
            let node = context[length - 1];
            if node == NO_NODE {
                continue;
            }
            let (parents, level) = (&self.levels[length - 1], &self.levels[length]);
            let children = parents.children(node);
            for child in level.lower_bound(children.clone(), choices.start)..children.end {
                let pair = level.pair(child);
                if pair >= choices.end {
                    break;
                }
                let cost = &mut costs[usize::from(pair - choices.start)];
                if *cost == OPEN {
                    *cost = backoff + i32::from(level.costs[child as usize]);
                }
            }
            backoff += i32::from(parents.backoffs[node as usize]) - BACKOFF_BIAS;
        }
        for (pair, cost) in choices.zip(costs) {
            if *cost == OPEN {
                *cost = backoff + i32::from(self.levels[0].costs[usize::from(pair)]);
            }
        }
    }

    fn follow(&self, context: &Context, pair: u16) -> Context {
        let mut next = [NO_NODE; MAX_ORDER - 1];
        next[0] = pair.into();
        for length in 1..self.levels.len() - 1 {
            let node = context[length - 1];
            if node != NO_NODE {
                let children = self.levels[length - 1].children(node);
                let at = self.levels[length].lower_bound(children.clone(), pair);
                if at < children.end && self.levels[length].pair(at) == pair {
                    next[length] = at;
                }
            }
        }
        next
    }

    fn trace(&self, beams: &[Vec<Hypothesis>], last: u16) -> Vec<Phone> {
        let mut phones = Vec::with_capacity(beams.len());
        let mut at = usize::from(last);
        for beam in beams[1..].iter().rev() {
            let Some(hypothesis) = beam.get(at) else {
                break; // a letter without pairs ends the search: nothing before it is known
            };
            let pair = self.pairs[usize::from(hypothesis.pair)];
            phones.extend(pair.phones.into_iter().rev().flatten());
            at = usize::from(hypothesis.previous);
        }
        phones.reverse();
        phones
    }
}

impl<'a> Nodes<'a> {
    fn read(bytes: &mut Bytes<'a>, last: bool) -> Result<Nodes<'a>, ModelError> {
        let count = bytes.u32()? as usize;
        let (pairs, _) = bytes.take(count * 2)?.as_chunks();
        let costs = bytes.take(count)?;
        let mut nodes = Nodes {
            pairs,
            costs,
            backoffs: &[],
            first_child: Vec::new(),
        };
        if !last {
            nodes.backoffs = bytes.take(count)?;
            nodes.first_child.reserve_exact(count + 1);
            nodes.first_child.push(0);
            let mut sum = 0u32;
            for _ in 0..count {
                let children = bytes.leb128()?;
                sum = sum.checked_add(children).ok_or(ModelError::Damaged)?;
                nodes.first_child.push(sum);
            }
        }
        Ok(nodes)
    }

    fn children(&self, node: u32) -> Range<u32> {
        self.first_child[node as usize]..self.first_child[node as usize + 1]
    }

    fn pair(&self, node: u32) -> u16 {
        u16::from_le_bytes(self.pairs[node as usize])
    }

    /// The first of the nodes whose pair is not below `pair`.
    fn lower_bound(&self, among: Range<u32>, pair: u16) -> u32 {
        let nodes = &self.pairs[among.start as usize..among.end as usize];
        let below = nodes.partition_point(|node| u16::from_le_bytes(*node) < pair);
        among.start + below as u32
    }
}

impl Pair {
    fn from_bytes(bytes: &[u8]) -> Result<Pair, ModelError> {
        let phone = |index| match Phone::from_index(index) {
            None if index != NO_PHONE => Err(ModelError::Damaged),
            phone => Ok(phone),
        };
        if bytes[0] >= 26 {
            return Err(ModelError::Damaged);
        }
        Ok(Pair {
            letter: bytes[0],
            phones: [phone(bytes[1])?, phone(bytes[2])?],
        })
    }
}

/// Writes a model. `pairs` must be sorted, and `levels` be as the format says.
pub fn pack(pairs: &[Pair], levels: &[Ngrams]) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend(VERSION.to_le_bytes());
    bytes.push(levels.len() as u8);
    bytes.extend((pairs.len() as u16).to_le_bytes());
    for pair in pairs {
        bytes.push(pair.letter);
        let phones = pair
            .phones
            .map(|phone| phone.map_or(NO_PHONE, Phone::index));
        bytes.extend(phones);
    }
    for (at, level) in (1..).zip(levels) {
        bytes.extend((level.pairs.len() as u32).to_le_bytes());
        bytes.extend(level.pairs.iter().flat_map(|pair| pair.to_le_bytes()));
        bytes.extend(&level.costs);
        if at < levels.len() {
            bytes.extend(&level.backoffs);
            for &children in &level.children {
                let mut rest = children;
                while rest >= 0x80 {
                    bytes.push(rest as u8 | 0x80);
                    rest >>= 7;
                }
                bytes.push(rest as u8);
            }
        }
    }
    bytes
}

struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], ModelError> {
        let (head, tail) = self.0.split_at_checked(count).ok_or(ModelError::Damaged)?;
        self.0 = tail;
        Ok(head)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], ModelError> {
        let (head, tail) = self.0.split_first_chunk().ok_or(ModelError::Damaged)?;
        self.0 = tail;
        Ok(*head)
    }

    fn u16(&mut self) -> Result<u16, ModelError> {
        self.array().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Result<u32, ModelError> {
        self.array().map(u32::from_le_bytes)
    }

    fn leb128(&mut self) -> Result<u32, ModelError> {
        let mut value = 0;
        for shift in [0, 7, 14, 21] {
            let byte = self.take(1)?[0];
            value |= u32::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(ModelError::Damaged)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::phonemes::{edit_distance, parse_phones, spell_phones};
    use crate::table::tests::golden;
    use std::collections::BTreeMap;

    fn said(word: &str) -> String {
        spell_phones(&LetterToSound::built_in().pronounce(word))
    }

    /// The same measure as `cargo tools letter-to-sound` records: 2,000 words the model never saw,
    /// errors against the nearest of a word's pronunciations, stress counted.
    #[test]
    fn at_most_every_fifth_phone_of_an_unseen_word_is_wrong() {
        let mut words: BTreeMap<&str, Vec<Vec<Phone>>> = BTreeMap::new();
        let table = include_str!("../data/pronunciation/letter_to_sound.held-out.tsv");
        for (word, phones) in golden(table) {
            let phones = parse_phones(phones).unwrap();
            words.entry(word).or_default().push(phones);
        }
        assert_eq!(words.len(), 2_000);
        let model = LetterToSound::built_in();
        let (mut wrong, mut all) = (0, 0);
        for (word, right) in &words {
            let guess = model.pronounce(word);
            let distance = |right: &Vec<Phone>| (edit_distance(&guess, right), right.len());
            let (errors, phones) = right.iter().map(distance).min().unwrap();
            wrong += errors;
            all += phones;
        }
        let rate = f64::from(wrong as u32) / f64::from(all as u32);
        assert!(rate <= 0.20, "phone error rate {rate:.4}");
    }

    #[test]
    fn synthetic_words_sound_like_english() {
        assert_eq!(said("blick"), "B L IH1 K");
        assert_eq!(said("Throbbing"), "TH R AA1 B IH0 NG");
        assert_eq!(said("x-y"), said("xy"));
        assert_eq!(said(""), "");
        assert_eq!(said("4711"), "");
    }

    #[test]
    fn a_damaged_model_is_refused() {
        let error = |bytes| LetterToSound::from_bytes(bytes).err();
        assert_eq!(error(BUILT_IN), None);
        assert_eq!(error(b""), Some(ModelError::Format));
        for cut in [8, 100, 5_000, BUILT_IN.len() / 2, BUILT_IN.len() - 1] {
            assert_eq!(error(&BUILT_IN[..cut]), Some(ModelError::Damaged), "{cut}");
        }
    }
}
