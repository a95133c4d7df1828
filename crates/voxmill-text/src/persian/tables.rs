//! The rows of `data/persian/*.tsv`: what a person may want to add to without touching code.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::LazyLock;

use crate::table::{named_in_table, rows};

type Map<K, V = &'static str> = LazyLock<HashMap<K, V>>;

fn sign(field: &str) -> char {
    field.chars().next().expect("a table names its signs")
}

/// Single characters and what replaces them; an empty string drops the character.
pub(super) static LETTERS: Map<char> = LazyLock::new(|| {
    let letters = rows(LETTERS_TSV).filter_map(|row| {
        let code = u32::from_str_radix(row[0].strip_prefix("U+")?, 16).ok()?;
        Some((
            char::from_u32(code)?,
            if row[1] == "-" { "" } else { row[1] },
        ))
    });
    letters.collect()
});

/// Words typed without tanvin → with it.
pub(super) static TANVIN: Map<&str> = LazyLock::new(|| {
    let bare = |word: &'static str| word.strip_suffix(super::FATHATAN).unwrap_or(word);
    rows(TANVIN_TSV).map(|row| (bare(row[0]), row[0])).collect()
});

/// Ending → condition.
pub(super) static SUFFIXES: Map<&str> =
    LazyLock::new(|| rows(SUFFIXES_TSV).map(|row| (row[0], row[1])).collect());

pub(super) static SYMBOLS: Map<char> = LazyLock::new(|| {
    rows(SYMBOLS_TSV)
        .map(|row| (sign(row[0]), row[1]))
        .collect()
});

pub(super) static SLASH_DECIMALS: LazyLock<Vec<Vec<char>>> = LazyLock::new(|| {
    let words = rows(SLASH_DECIMALS_TSV).map(|row| row[0].chars().collect());
    words.collect()
});

named_in_table! {
    Context {
        Any = "any",
        BeforeNumber = "before_number",
        AfterYear = "after_year",
        InBrackets = "in_brackets",
    }
}

pub(super) struct Abbreviation {
    pub(super) written: Vec<char>,
    pub(super) context: Context,
    pub(super) read: &'static str,
}

/// Longest first, so that ج.ا.ا is not taken for ج.ا.
pub(super) static ABBREVIATIONS: LazyLock<Vec<Abbreviation>> = LazyLock::new(|| {
    let all = rows(ABBREVIATIONS_TSV).map(|row| Abbreviation {
        written: row[0].chars().collect(),
        context: Context::named(row[1]),
        read: row[2],
    });
    let mut all: Vec<_> = all.collect();
    all.sort_by_key(|abbreviation| Reverse(abbreviation.written.len()));
    all
});

pub(super) struct Currency {
    pub(super) unit: &'static str,
    pub(super) hundredth: Option<&'static str>,
}

pub(super) static CURRENCIES: Map<char, Currency> = LazyLock::new(|| {
    let currencies = rows(CURRENCIES_TSV).map(|row| {
        let hundredth = Some(row[2]).filter(|name| *name != "-");
        let unit = row[1];
        (sign(row[0]), Currency { unit, hundredth })
    });
    currencies.collect()
});

pub(super) struct Unit {
    pub(super) symbol: Vec<char>,
    pub(super) read: &'static str,
    pub(super) powers: bool,
}

/// Longest first, so that km/h is not taken for km.
pub(super) static UNITS: LazyLock<Vec<Unit>> = LazyLock::new(|| {
    let all = rows(UNITS_TSV).map(|row| Unit {
        symbol: row[0].chars().collect(),
        read: row[1],
        powers: row[2] == "yes",
    });
    let mut all: Vec<_> = all.collect();
    all.sort_by_key(|unit| Reverse(unit.symbol.len()));
    all
});

pub(super) struct Month {
    pub(super) jalali: bool,
    pub(super) number: u32,
    pub(super) name: &'static str,
}

pub(super) static MONTHS: LazyLock<Vec<Month>> = LazyLock::new(|| {
    let months = rows(MONTHS_TSV).map(|row| Month {
        jalali: row[0] == "jalali",
        number: row[1].parse().expect("months.tsv numbers its months"),
        name: row[2],
    });
    months.collect()
});

const LETTERS_TSV: &str = include_str!("../../data/persian/letters.tsv");
const TANVIN_TSV: &str = include_str!("../../data/persian/tanvin.tsv");
const SUFFIXES_TSV: &str = include_str!("../../data/persian/suffixes.tsv");
const SYMBOLS_TSV: &str = include_str!("../../data/persian/symbols.tsv");
const SLASH_DECIMALS_TSV: &str = include_str!("../../data/persian/slash_decimals.tsv");
const ABBREVIATIONS_TSV: &str = include_str!("../../data/persian/abbreviations.tsv");
const CURRENCIES_TSV: &str = include_str!("../../data/persian/currencies.tsv");
const UNITS_TSV: &str = include_str!("../../data/persian/units.tsv");
const MONTHS_TSV: &str = include_str!("../../data/persian/months.tsv");

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::tests::check_table;

    /// Table, number of columns, how many of them make the key.
    const TABLES: [(&str, &str, usize, usize); 9] = [
        ("letters", LETTERS_TSV, 3, 1),
        ("tanvin", TANVIN_TSV, 1, 1),
        ("suffixes", SUFFIXES_TSV, 2, 1),
        ("symbols", SYMBOLS_TSV, 2, 1),
        ("slash_decimals", SLASH_DECIMALS_TSV, 1, 1),
        ("abbreviations", ABBREVIATIONS_TSV, 3, 2),
        ("currencies", CURRENCIES_TSV, 3, 1),
        ("units", UNITS_TSV, 3, 1),
        ("months", MONTHS_TSV, 3, 3),
    ];

    #[test]
    fn every_table_has_a_head_full_rows_and_no_key_twice() {
        for (name, table, columns, key) in TABLES {
            check_table(name, table, columns, key);
            let is_full = |row: &Vec<&str>| row.iter().all(|field| !field.is_empty());
            assert!(rows(table).all(|row| is_full(&row)), "{name}");
        }
    }

    #[test]
    fn every_row_means_something() {
        let count = |table| rows(table).count();
        assert_eq!(LETTERS.len(), count(LETTERS_TSV));
        assert_eq!(TANVIN.len(), count(TANVIN_TSV));
        assert_eq!(ABBREVIATIONS.len(), count(ABBREVIATIONS_TSV));
        for number in 1..=12 {
            for jalali in [true, false] {
                let is_it = |month: &&Month| month.jalali == jalali && month.number == number;
                assert!(MONTHS.iter().any(|month| is_it(&month)), "{number}");
            }
        }
        for row in rows(SYMBOLS_TSV).chain(rows(CURRENCIES_TSV)) {
            assert_eq!(row[0].chars().count(), 1, "more than one sign: {row:?}");
        }
        for row in rows(SUFFIXES_TSV) {
            assert!(["any", "after_heh"].contains(&row[1]), "{row:?}");
        }
        for row in rows(UNITS_TSV) {
            assert!(["yes", "no"].contains(&row[2]), "{row:?}");
        }
        for row in rows(TANVIN_TSV) {
            assert!(row[0].ends_with("اً"), "{row:?}");
        }
    }

    /// What is read must be normal text itself, or normalising twice would change it.
    #[test]
    fn readings_are_already_normal() {
        let of = |table, column: usize| rows(table).map(move |row| row[column]);
        let readings = (ABBREVIATIONS.iter().map(|abbreviation| abbreviation.read))
            .chain(of(SYMBOLS_TSV, 1))
            .chain(of(UNITS_TSV, 1))
            .chain(of(CURRENCIES_TSV, 1))
            .chain(of(MONTHS_TSV, 2))
            .chain(of(TANVIN_TSV, 0));
        for read in readings {
            assert_eq!(super::super::normalize(read), read);
        }
    }
}
