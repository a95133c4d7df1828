//! The word lists of English, read once from `data/english`, one key per row.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};

use crate::table::{named_in_table, sign, tables};
use crate::{FNV_START, fnv1a};

type Map<K, V> = HashMap<K, V, BuildHasherDefault<ShortKeyHasher>>;
type Words = HashSet<&'static str, BuildHasherDefault<ShortKeyHasher>>;

/// FNV-1a. Nearly every word is looked up and nobody chooses the keys, so the default hasher's
/// defence against crafted collisions would cost more than the rest of the reading.
#[derive(Clone, Debug)]
pub(super) struct ShortKeyHasher(u64);

impl Default for ShortKeyHasher {
    fn default() -> Self {
        ShortKeyHasher(FNV_START)
    }
}

impl Hasher for ShortKeyHasher {
    fn write(&mut self, bytes: &[u8]) {
        self.0 = bytes.iter().copied().fold(self.0, fnv1a);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

type Text = &'static str;

tables! { "english":
    abbreviations[3, 1]: Map<Text, Abbreviation> = |row| {
        let when = AbbreviationWhen::named(row[2]);
        (row[0], Abbreviation { spoken: row[1], when })
    };
    acronyms[1, 1]: Words = |row| row[0];
    calibers[1, 1]: Words = |row| row[0];
    /// `head str`, `tail nds`: consonants that may begin or end a word.
    clusters[1, 1]: Words = |row| row[0];
    counted[1, 1]: Words = |row| row[0];
    currencies[5, 1]: Map<Text, Currency> = |row| {
        let (hundredth, hundredths) = (row[3], row[4]);
        (row[0], Currency { one: row[1], many: row[2], hundredth, hundredths })
    };
    degrees[2, 1]: Map<Text, Text> = |row| (row[0], row[1]);
    digit_leads[2, 1]: Map<Text, LabelReading> = |row| (row[0], LabelReading::named(row[1]));
    elisions[1, 1]: Words = |row| row[0];
    file_endings[1, 1]: Words = |row| row[0];
    initialisms[2, 1]: Map<Text, SpelledWhen> = |row| (row[0], SpelledWhen::named(row[1]));
    /// Names of A to Z.
    letters[2, 1]: Map<char, Text> = |row| (sign(row[0]), row[1]);
    magnitudes[2, 1]: Map<Text, Text> = |row| (row[0], row[1]);
    months[3, 1]: Map<Text, Month> = |row| {
        let number = row[2].parse().expect("months.tsv numbers its months");
        (row[0], Month { spoken: row[1], number })
    };
    numbered_nouns[1, 1]: Words = |row| row[0];
    regnal_names[1, 1]: Words = |row| row[0];
    saints[1, 1]: Words = |row| row[0];
    /// Names of 10³, 10⁶, 10⁹ …
    scales[2, 1]: Vec<Text> = |row| row[1];
    sentence_starts[1, 1]: Words = |row| row[0];
    singular_s[1, 1]: Words = |row| row[0];
    street_words[1, 1]: Words = |row| row[0];
    symbols[2, 1]: Map<char, Text> = |row| (sign(row[0]), row[1]);
    top_level_domains[1, 1]: Words = |row| row[0];
    units[4, 1]: Map<Text, Unit> = |row| {
        let when = UnitWhen::named(row[3]);
        (row[0], Unit { one: row[1], many: row[2], when })
    };
    year_leads[2, 1]: Map<Text, YearLead> = |row| (row[0], YearLead::named(row[1]));
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Abbreviation {
    pub(super) spoken: Text,
    pub(super) when: AbbreviationWhen,
}

named_in_table! {
    /// What must be around an abbreviation; the head of `abbreviations.tsv` explains each.
    AbbreviationWhen {
        Any = "any",
        AnyCapital = "Any",
        Dot = "dot",
        DotCapital = "Dot",
        BeforeName = "Name",
        Day = "Day",
        BeforeNumber = "number",
        AfterComma = "comma",
        Upper = "upper",
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Currency {
    pub(super) one: Text,
    pub(super) many: Text,
    /// Empty where the currency has no hundredth in use.
    pub(super) hundredth: Text,
    pub(super) hundredths: Text,
}

impl Currency {
    pub(super) fn name(&self, one: bool) -> Text {
        if one { self.one } else { self.many }
    }
}

named_in_table! {
    LabelReading {
        Digits = "digits",
        Pairs = "pairs",
    }
}

named_in_table! {
    SpelledWhen {
        Always = "always",
        /// Not where the whole text is in capitals.
        MixedCase = "text",
        AfterThe = "the",
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Month {
    pub(super) spoken: Text,
    pub(super) number: usize,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Unit {
    pub(super) one: Text,
    pub(super) many: Text,
    pub(super) when: UnitWhen,
}

named_in_table! {
    UnitWhen {
        Any = "any",
        Dot = "dot",
        Glued = "glued",
        Spaced = "spaced",
        BeforePounds = "pounds",
    }
}

named_in_table! {
    YearLead {
        Sure = "sure",
        Weak = "weak",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::tests::{check_tables, rows_of};

    #[test]
    fn every_table_parses_and_has_no_duplicate_key() {
        // Reading checks the conditions and numbers in the columns.
        assert!(('A'..='Z').all(|letter| !TABLES.letters[&letter].is_empty()));
        check_tables("english", TEXTS);
    }

    #[test]
    fn scales_are_in_order_without_a_gap() {
        for (index, row) in rows_of(TEXTS, "scales").enumerate() {
            assert_eq!(row[0].parse::<usize>().unwrap(), 3 * (index + 1));
        }
    }
}
