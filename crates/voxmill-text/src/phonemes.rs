//! The phones of English, as the pronouncing dictionary writes them (ARPAbet).
//!
//! Stress is part of the vowel: `AH0`, `AH1` and `AH2` are three phones, because a model that reads
//! one token per phone learns the stressed vowel as a sound of its own.

use std::cmp::Reverse;
use std::fmt;

/// One phone: an index into [`PHONES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Phone(u8);

/// All phones. The order is part of the symbol table and of the packed dictionary: append only.
#[rustfmt::skip]
pub const PHONES: [&str; 69] = [
    "B", "CH", "D", "DH", "F", "G", "HH", "JH", "K", "L", "M", "N", "NG", "P", "R", "S", "SH", "T",
    "TH", "V", "W", "Y", "Z", "ZH",
    "AA0", "AA1", "AA2", "AE0", "AE1", "AE2", "AH0", "AH1", "AH2", "AO0", "AO1", "AO2",
    "AW0", "AW1", "AW2", "AY0", "AY1", "AY2", "EH0", "EH1", "EH2", "ER0", "ER1", "ER2",
    "EY0", "EY1", "EY2", "IH0", "IH1", "IH2", "IY0", "IY1", "IY2", "OW0", "OW1", "OW2",
    "OY0", "OY1", "OY2", "UH0", "UH1", "UH2", "UW0", "UW1", "UW2",
];

const FIRST_VOWEL: u8 = 24;

/// What is no phone of ours.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{written}` is not a phone; the nearest is `{nearest}`")]
pub struct UnknownPhone {
    pub written: String,
    pub nearest: &'static str,
}

impl Phone {
    /// By its place in the list of all phones.
    pub fn from_index(index: u8) -> Option<Phone> {
        (usize::from(index) < PHONES.len()).then_some(Phone(index))
    }

    /// Its place in the list of all phones.
    pub fn index(self) -> u8 {
        self.0
    }

    /// As ARPAbet writes it.
    pub fn as_str(self) -> &'static str {
        PHONES[usize::from(self.0)]
    }

    pub(crate) fn is_vowel(self) -> bool {
        self.0 >= FIRST_VOWEL
    }

    /// The same phone with its stress taken away (`AH1` → `AH0`).
    pub fn unstressed(self) -> Phone {
        if self.is_vowel() {
            Phone(self.0 - (self.0 - FIRST_VOWEL) % 3)
        } else {
            self
        }
    }

    /// Case does not matter; a vowel must carry its stress digit.
    pub fn parse(written: &str) -> Result<Phone, UnknownPhone> {
        (0..)
            .zip(PHONES)
            .find(|(_, phone)| phone.eq_ignore_ascii_case(written))
            .map(|(index, _)| Phone(index))
            .ok_or_else(|| UnknownPhone {
                written: written.to_owned(),
                nearest: nearest_phone(written),
            })
    }
}

impl fmt::Display for Phone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Reads phones separated by white space. An empty list is no pronunciation: the caller decides.
pub fn parse_phones(written: &str) -> Result<Vec<Phone>, UnknownPhone> {
    written.split_whitespace().map(Phone::parse).collect()
}

/// Phones as a line to read.
pub(crate) fn spell_phones(phones: &[Phone]) -> String {
    let names: Vec<_> = phones.iter().map(|phone| phone.as_str()).collect();
    names.join(" ")
}

/// How many insertions, deletions and replacements turn `a` into `b`.
pub fn edit_distance<T: PartialEq>(a: &[T], b: &[T]) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

fn nearest_phone(written: &str) -> &'static str {
    // Longer than any phone by far: nothing is near, and the comparison must stay cheap.
    let upper: Vec<u8> = written.to_ascii_uppercase().bytes().take(8).collect();
    PHONES
        .into_iter()
        .min_by_key(|phone| {
            let phone = phone.as_bytes();
            let alike = phone.iter().zip(&upper).take_while(|(a, b)| a == b).count();
            (edit_distance(phone, &upper), Reverse(alike))
        })
        .unwrap_or(PHONES[0])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_phone_reads_back_as_itself() {
        for (index, name) in (0..).zip(PHONES) {
            let phone = Phone::parse(name).unwrap();
            assert_eq!((phone.index(), phone.as_str()), (index, name));
            let stressed = name.ends_with(|c: char| c.is_ascii_digit());
            assert_eq!(phone.is_vowel(), stressed, "{name}");
        }
        assert_eq!(Phone::from_index(PHONES.len() as u8), None);
    }

    #[test]
    fn stress_comes_off_vowels_only() {
        let bare = |name| Phone::parse(name).unwrap().unstressed().as_str();
        let phones = ["UW2", "AA1", "IY0", "ZH"].map(bare);
        assert_eq!(phones, ["UW0", "AA0", "IY0", "ZH"]);
    }

    #[test]
    fn an_unknown_phone_names_the_nearest() {
        let error = parse_phones("HH AH0 LL OW1").unwrap_err();
        assert_eq!((&*error.written, error.nearest), ("LL", "L"));
        assert_eq!(Phone::parse("AH").unwrap_err().nearest, "AH0");
    }

    #[test]
    fn edit_distance_counts_single_edits() {
        assert_eq!(edit_distance(b"kitten", b"sitting"), 3);
        assert_eq!(edit_distance(b"", b"abc"), 3);
        assert_eq!(edit_distance(b"abc", b"abc"), 0);
    }
}
