//! The word lists of English, read once from `data/english`, one key per row.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::LazyLock;

use crate::table::rows;

type Map<K, V> = HashMap<K, V, BuildHasherDefault<ShortKeyHasher>>;
type Words = HashSet<&'static str, BuildHasherDefault<ShortKeyHasher>>;

/// FNV-1a. Nearly every word is looked up and nobody chooses the keys, so the default hasher's
/// defence against crafted collisions would cost more than the rest of the reading.
#[derive(Clone, Debug)]
pub(super) struct ShortKeyHasher(u64);

impl Default for ShortKeyHasher {
    fn default() -> Self {
        ShortKeyHasher(0xcbf2_9ce4_8422_2325)
    }
}

impl Hasher for ShortKeyHasher {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

pub(super) static TABLES: LazyLock<Tables> = LazyLock::new(Tables::read);

#[derive(Debug)]
pub(super) struct Tables {
    pub(super) abbreviations: Map<&'static str, Abbreviation>,
    pub(super) acronyms: Words,
    pub(super) calibers: Words,
    /// `head str`, `tail nds`: consonants that may begin or end a word.
    pub(super) clusters: Words,
    pub(super) counted: Words,
    pub(super) currencies: Map<&'static str, Currency>,
    pub(super) degrees: Map<&'static str, &'static str>,
    pub(super) digit_leads: Map<&'static str, LabelReading>,
    pub(super) elisions: Words,
    pub(super) file_endings: Words,
    pub(super) initialisms: Map<&'static str, SpelledWhen>,
    /// Names of A to Z.
    pub(super) letters: [&'static str; 26],
    pub(super) magnitudes: Map<&'static str, &'static str>,
    pub(super) months: Map<&'static str, Month>,
    pub(super) numbered_nouns: Words,
    pub(super) regnal_names: Words,
    pub(super) saints: Words,
    /// Names of 10³, 10⁶, 10⁹ …
    pub(super) scales: Vec<&'static str>,
    pub(super) sentence_starts: Words,
    pub(super) singular_s: Words,
    pub(super) street_words: Words,
    pub(super) symbols: Map<char, &'static str>,
    pub(super) top_level_domains: Words,
    pub(super) units: Map<&'static str, Unit>,
    pub(super) year_leads: Map<&'static str, YearLead>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Abbreviation {
    pub(super) spoken: &'static str,
    pub(super) when: AbbreviationWhen,
}

/// What must be around an abbreviation; the head of `abbreviations.tsv` explains each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AbbreviationWhen {
    Any,
    AnyCapital,
    Dot,
    DotCapital,
    BeforeName,
    Day,
    BeforeNumber,
    AfterComma,
    Upper,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Currency {
    pub(super) one: &'static str,
    pub(super) many: &'static str,
    /// Empty where the currency has no hundredth in use.
    pub(super) hundredth: &'static str,
    pub(super) hundredths: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LabelReading {
    Digits,
    Pairs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SpelledWhen {
    Always,
    /// Not where the whole text is in capitals.
    MixedCase,
    AfterThe,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Month {
    pub(super) spoken: &'static str,
    pub(super) number: usize,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Unit {
    pub(super) one: &'static str,
    pub(super) many: &'static str,
    pub(super) when: UnitWhen,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UnitWhen {
    Any,
    Dot,
    Glued,
    Spaced,
    BeforePounds,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum YearLead {
    Sure,
    Weak,
}

macro_rules! table {
    ($name:literal) => {
        rows(include_str!(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/data/english/",
            $name,
            ".tsv"
        )))
    };
}

fn words(rows: impl Iterator<Item = Vec<&'static str>>) -> Words {
    rows.map(|row| row[0]).collect()
}

impl Tables {
    /// # Panics
    /// When a built-in table is malformed, which the tests below would have shown.
    fn read() -> Self {
        let mut letters = [""; 26];
        for row in table!("letters") {
            letters[usize::from(row[0].as_bytes()[0] - b'A')] = row[1];
        }
        Tables {
            abbreviations: table!("abbreviations")
                .map(|row| {
                    let when = match row[2] {
                        "any" => AbbreviationWhen::Any,
                        "Any" => AbbreviationWhen::AnyCapital,
                        "dot" => AbbreviationWhen::Dot,
                        "Dot" => AbbreviationWhen::DotCapital,
                        "Name" => AbbreviationWhen::BeforeName,
                        "Day" => AbbreviationWhen::Day,
                        "number" => AbbreviationWhen::BeforeNumber,
                        "comma" => AbbreviationWhen::AfterComma,
                        "upper" => AbbreviationWhen::Upper,
                        other => unreachable!("abbreviations.tsv: no such condition: {other}"),
                    };
                    let spoken = row[1];
                    (row[0], Abbreviation { spoken, when })
                })
                .collect(),
            acronyms: words(table!("acronyms")),
            calibers: words(table!("calibers")),
            clusters: words(table!("clusters")),
            counted: words(table!("counted")),
            currencies: table!("currencies")
                .map(|row| {
                    let currency = Currency {
                        one: row[1],
                        many: row[2],
                        hundredth: row[3],
                        hundredths: row[4],
                    };
                    (row[0], currency)
                })
                .collect(),
            degrees: table!("degrees").map(|row| (row[0], row[1])).collect(),
            digit_leads: table!("digit_leads")
                .map(|row| {
                    let reading = match row[1] {
                        "digits" => LabelReading::Digits,
                        "pairs" => LabelReading::Pairs,
                        other => unreachable!("digit_leads.tsv: no such reading: {other}"),
                    };
                    (row[0], reading)
                })
                .collect(),
            elisions: words(table!("elisions")),
            file_endings: words(table!("file_endings")),
            initialisms: table!("initialisms")
                .map(|row| {
                    let when = match row[1] {
                        "always" => SpelledWhen::Always,
                        "text" => SpelledWhen::MixedCase,
                        "the" => SpelledWhen::AfterThe,
                        other => unreachable!("initialisms.tsv: no such condition: {other}"),
                    };
                    (row[0], when)
                })
                .collect(),
            letters,
            magnitudes: table!("magnitudes").map(|row| (row[0], row[1])).collect(),
            months: table!("months")
                .map(|row| {
                    let month = Month {
                        spoken: row[1],
                        number: row[2].parse().expect("months.tsv numbers its months"),
                    };
                    (row[0], month)
                })
                .collect(),
            numbered_nouns: words(table!("numbered_nouns")),
            regnal_names: words(table!("regnal_names")),
            saints: words(table!("saints")),
            scales: table!("scales").map(|row| row[1]).collect(),
            sentence_starts: words(table!("sentence_starts")),
            singular_s: words(table!("singular_s")),
            street_words: words(table!("street_words")),
            symbols: table!("symbols")
                .map(|row| {
                    (
                        row[0].chars().next().expect("symbols.tsv names a sign"),
                        row[1],
                    )
                })
                .collect(),
            top_level_domains: words(table!("top_level_domains")),
            units: table!("units")
                .map(|row| {
                    let when = match row[3] {
                        "any" => UnitWhen::Any,
                        "dot" => UnitWhen::Dot,
                        "glued" => UnitWhen::Glued,
                        "spaced" => UnitWhen::Spaced,
                        "pounds" => UnitWhen::BeforePounds,
                        other => unreachable!("units.tsv: no such condition: {other}"),
                    };
                    let (one, many) = (row[1], row[2]);
                    (row[0], Unit { one, many, when })
                })
                .collect(),
            year_leads: table!("year_leads")
                .map(|row| {
                    let strength = match row[1] {
                        "sure" => YearLead::Sure,
                        "weak" => YearLead::Weak,
                        other => unreachable!("year_leads.tsv: no such strength: {other}"),
                    };
                    (row[0], strength)
                })
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every table with its number of columns.
    fn all() -> Vec<(&'static str, usize, Vec<Vec<&'static str>>)> {
        macro_rules! with_columns {
            ($($name:literal: $columns:literal),* $(,)?) => {
                vec![$(($name, $columns, table!($name).collect())),*]
            };
        }
        with_columns![
            "abbreviations": 3, "acronyms": 1, "calibers": 1, "clusters": 1, "counted": 1, "currencies": 5,
            "degrees": 2, "digit_leads": 2, "elisions": 1, "file_endings": 1, "initialisms": 2, "letters": 2,
            "magnitudes": 2, "months": 3, "numbered_nouns": 1, "regnal_names": 1, "saints": 1,
            "scales": 2, "sentence_starts": 1, "singular_s": 1, "street_words": 1, "symbols": 2,
            "top_level_domains": 1, "units": 4, "year_leads": 2,
        ]
    }

    #[test]
    fn every_table_parses_and_has_no_duplicate_key() {
        // Reading checks the conditions and numbers in the columns.
        assert!(TABLES.letters.iter().all(|name| !name.is_empty()));
        let mut problems = Vec::new();
        for (name, columns, rows) in all() {
            let mut keys = HashSet::new();
            for row in &rows {
                if row.len() != columns {
                    problems.push(format!("{name}: {row:?} has not {columns} columns"));
                }
                if row[0].is_empty() || row[0].trim() != row[0] {
                    problems.push(format!("{name}: {row:?} has an empty or padded key"));
                }
                if !keys.insert(row[0]) {
                    problems.push(format!("{name}: {} stands there twice", row[0]));
                }
            }
            assert!(!rows.is_empty(), "{name} is empty");
        }
        assert!(problems.is_empty(), "{}", problems.join("\n"));
    }

    #[test]
    fn the_data_folder_holds_no_table_that_is_not_read() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/data/english");
        let known: HashSet<String> = all()
            .iter()
            .map(|(name, ..)| format!("{name}.tsv"))
            .collect();
        for entry in std::fs::read_dir(folder).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            assert!(known.contains(&name), "{name} is not read");
        }
    }

    #[test]
    fn scales_are_in_order_without_a_gap() {
        for (index, row) in table!("scales").enumerate() {
            assert_eq!(row[0].parse::<usize>().unwrap(), 3 * (index + 1));
        }
    }
}
