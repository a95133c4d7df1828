//! The rows of `data/persian/*.tsv`: what a person may want to add to without touching code.

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::table::rows;

fn field(row: &[&'static str], column: usize) -> &'static str {
    row.get(column).copied().unwrap_or_default()
}

fn map(table: &'static str) -> HashMap<&'static str, &'static str> {
    rows(table)
        .map(|row| (field(&row, 0), field(&row, 1)))
        .collect()
}

fn first_char(text: &str) -> Option<char> {
    text.chars().next()
}

/// Single characters and what replaces them; an empty string drops the character.
pub(super) static LETTERS: LazyLock<HashMap<char, &str>> = LazyLock::new(|| {
    rows(LETTERS_TSV)
        .filter_map(|row| {
            let code = u32::from_str_radix(field(&row, 0).strip_prefix("U+")?, 16).ok()?;
            let to = field(&row, 1);
            Some((char::from_u32(code)?, if to == "-" { "" } else { to }))
        })
        .collect()
});

/// Words typed without tanvin → with it.
pub(super) static TANVIN: LazyLock<HashMap<&str, &str>> = LazyLock::new(|| {
    rows(TANVIN_TSV)
        .map(|row| {
            let word = field(&row, 0);
            (word.strip_suffix(super::FATHATAN).unwrap_or(word), word)
        })
        .collect()
});

/// Ending → condition.
pub(super) static SUFFIXES: LazyLock<HashMap<&str, &str>> = LazyLock::new(|| map(SUFFIXES_TSV));

pub(super) static SYMBOLS: LazyLock<HashMap<char, &str>> = LazyLock::new(|| {
    rows(SYMBOLS_TSV)
        .filter_map(|row| Some((first_char(field(&row, 0))?, field(&row, 1))))
        .collect()
});

pub(super) static SLASH_DECIMALS: LazyLock<Vec<Vec<char>>> = LazyLock::new(|| {
    rows(SLASH_DECIMALS_TSV)
        .map(|row| field(&row, 0).chars().collect())
        .collect()
});

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Context {
    Any,
    BeforeNumber,
    AfterYear,
    InBrackets,
}

pub(super) struct Abbreviation {
    pub(super) written: Vec<char>,
    pub(super) context: Context,
    pub(super) read: &'static str,
}

/// Longest first, so that ج.ا.ا is not taken for ج.ا.
pub(super) static ABBREVIATIONS: LazyLock<Vec<Abbreviation>> = LazyLock::new(|| {
    let mut all: Vec<_> = rows(ABBREVIATIONS_TSV)
        .filter_map(|row| {
            Some(Abbreviation {
                written: field(&row, 0).chars().collect(),
                context: context(field(&row, 1))?,
                read: field(&row, 2),
            })
        })
        .collect();
    all.sort_by_key(|abbreviation| std::cmp::Reverse(abbreviation.written.len()));
    all
});

fn context(name: &str) -> Option<Context> {
    match name {
        "any" => Some(Context::Any),
        "before_number" => Some(Context::BeforeNumber),
        "after_year" => Some(Context::AfterYear),
        "in_brackets" => Some(Context::InBrackets),
        _ => None,
    }
}

pub(super) struct Currency {
    pub(super) unit: &'static str,
    pub(super) hundredth: Option<&'static str>,
}

pub(super) static CURRENCIES: LazyLock<HashMap<char, Currency>> = LazyLock::new(|| {
    rows(CURRENCIES_TSV)
        .filter_map(|row| {
            let hundredth = Some(field(&row, 2)).filter(|name| *name != "-");
            let unit = field(&row, 1);
            Some((first_char(field(&row, 0))?, Currency { unit, hundredth }))
        })
        .collect()
});

pub(super) struct Unit {
    pub(super) symbol: Vec<char>,
    pub(super) read: &'static str,
    pub(super) powers: bool,
}

/// Longest first, so that km/h is not taken for km.
pub(super) static UNITS: LazyLock<Vec<Unit>> = LazyLock::new(|| {
    let mut all: Vec<_> = rows(UNITS_TSV)
        .map(|row| Unit {
            symbol: field(&row, 0).chars().collect(),
            read: field(&row, 1),
            powers: field(&row, 2) == "yes",
        })
        .collect();
    all.sort_by_key(|unit| std::cmp::Reverse(unit.symbol.len()));
    all
});

pub(super) struct Month {
    pub(super) jalali: bool,
    pub(super) number: u32,
    pub(super) name: &'static str,
}

pub(super) static MONTHS: LazyLock<Vec<Month>> = LazyLock::new(|| {
    rows(MONTHS_TSV)
        .filter_map(|row| {
            Some(Month {
                jalali: field(&row, 0) == "jalali",
                number: field(&row, 1).parse().ok()?,
                name: field(&row, 2),
            })
        })
        .collect()
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
    use std::collections::HashSet;

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
            assert!(table.starts_with("# "), "{name}: no head comment");
            let mut keys = HashSet::new();
            for row in rows(table) {
                assert_eq!(row.len(), columns, "{name}: {row:?}");
                assert!(row.iter().all(|field| !field.is_empty()), "{name}: {row:?}");
                assert!(keys.insert(row[..key].to_vec()), "{name}: twice: {row:?}");
            }
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
            assert_eq!(
                row[0].chars().count(),
                1,
                "a sign is one character: {row:?}"
            );
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
        for abbreviation in ABBREVIATIONS.iter() {
            assert_eq!(
                super::super::normalize(abbreviation.read),
                abbreviation.read
            );
        }
        let of = |table, column: usize| rows(table).map(move |row| row[column]);
        for read in of(SYMBOLS_TSV, 1)
            .chain(of(UNITS_TSV, 1))
            .chain(of(CURRENCIES_TSV, 1))
            .chain(of(MONTHS_TSV, 2))
            .chain(of(TANVIN_TSV, 0))
        {
            assert_eq!(super::super::normalize(read), read);
        }
    }
}
