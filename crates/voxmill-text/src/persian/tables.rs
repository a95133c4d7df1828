//! The rows of `data/persian/*.tsv`: what a person may want to add to without touching code.

use std::collections::HashMap;

use crate::table::{named_in_table, sign, tables};

type Text = &'static str;

tables! { "persian":
    abbreviations[3, 2]: Vec<Abbreviation> = |row| Abbreviation {
        written: row[0].chars().collect(),
        context: Context::named(row[1]),
        read: row[2],
    };
    currencies[3, 1]: HashMap<char, Currency> = |row| {
        let hundredth = Some(row[2]).filter(|name| *name != "-");
        (sign(row[0]), Currency { unit: row[1], hundredth })
    };
    /// Single characters and what replaces them; an empty string drops the character.
    letters[3, 1]: HashMap<char, Text> = |row| {
        (code_point(row[0]), if row[1] == "-" { "" } else { row[1] })
    };
    months[3, 3]: Vec<Month> = |row| Month {
        jalali: row[0] == "jalali",
        number: row[1].parse().expect("months.tsv numbers its months"),
        name: row[2],
    };
    slash_decimals[1, 1]: Vec<Vec<char>> = |row| row[0].chars().collect();
    /// Ending → condition.
    suffixes[2, 1]: HashMap<Text, SuffixWhen> = |row| (row[0], SuffixWhen::named(row[1]));
    symbols[2, 1]: HashMap<char, Text> = |row| (sign(row[0]), row[1]);
    /// Words typed without tanvin → with it.
    tanvin[1, 1]: HashMap<Text, Text> = |row| {
        (row[0].strip_suffix(super::FATHATAN).unwrap_or(row[0]), row[0])
    };
    units[3, 1]: Vec<Unit> = |row| Unit {
        symbol: row[0].chars().collect(),
        read: row[1],
        powers: row[2] == "yes",
    };
}

/// `U+064A` → ي.
fn code_point(field: &str) -> char {
    let hex = field.strip_prefix("U+");
    let code = hex.and_then(|hex| u32::from_str_radix(hex, 16).ok());
    code.and_then(char::from_u32)
        .expect("letters.tsv names code points")
}

named_in_table! {
    Context {
        Any = "any",
        BeforeNumber = "before_number",
        AfterYear = "after_year",
        InBrackets = "in_brackets",
    }
}

named_in_table! {
    SuffixWhen {
        Any = "any",
        AfterHeh = "after_heh",
    }
}

#[derive(Debug)]
pub(super) struct Abbreviation {
    pub(super) written: Vec<char>,
    pub(super) context: Context,
    pub(super) read: Text,
}

#[derive(Debug)]
pub(super) struct Currency {
    pub(super) unit: Text,
    pub(super) hundredth: Option<Text>,
}

#[derive(Debug)]
pub(super) struct Unit {
    pub(super) symbol: Vec<char>,
    pub(super) read: Text,
    pub(super) powers: bool,
}

#[derive(Debug)]
pub(super) struct Month {
    pub(super) jalali: bool,
    pub(super) number: u32,
    pub(super) name: Text,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::tests::{check_tables, rows_of};

    #[test]
    fn every_table_has_a_head_full_rows_and_no_key_twice() {
        check_tables("persian", TEXTS);
        for (name, ..) in TEXTS {
            let is_full = |row: Vec<&str>| row.iter().all(|field| !field.is_empty());
            assert!(rows_of(TEXTS, name).all(is_full), "{name}");
        }
    }

    #[test]
    fn every_row_means_something() {
        assert_eq!(TABLES.letters.len(), rows_of(TEXTS, "letters").count());
        assert_eq!(TABLES.tanvin.len(), rows_of(TEXTS, "tanvin").count());
        for number in 1..=12 {
            for jalali in [true, false] {
                let is_it = |month: &Month| month.jalali == jalali && month.number == number;
                assert!(TABLES.months.iter().any(is_it), "{number}");
            }
        }
        for row in rows_of(TEXTS, "symbols").chain(rows_of(TEXTS, "currencies")) {
            assert_eq!(row[0].chars().count(), 1, "more than one sign: {row:?}");
        }
        for row in rows_of(TEXTS, "units") {
            assert!(["yes", "no"].contains(&row[2]), "{row:?}");
        }
        for row in rows_of(TEXTS, "tanvin") {
            assert!(row[0].ends_with("اً"), "{row:?}");
        }
    }

    /// What is read must be normal text itself, or normalising twice would change it.
    #[test]
    fn readings_are_already_normal() {
        let columns = [
            ("abbreviations", 2),
            ("symbols", 1),
            ("units", 1),
            ("currencies", 1),
            ("months", 2),
            ("tanvin", 0),
        ];
        for (name, column) in columns {
            for row in rows_of(TEXTS, name) {
                assert_eq!(super::super::normalize(row[column]), row[column]);
            }
        }
    }
}
