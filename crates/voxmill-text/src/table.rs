//! Tab-separated tables of `data/`: the one reading of their rows.
//!
//! They are data files so that a person can add a row without reading code. A comment line begins
//! with a hash and a space, since a hash alone may be a key.

/// The rows of a table without comments and empty lines, each cut at tabs. Fields are not trimmed:
/// a replacement may be a space.
pub(super) fn rows(table: &str) -> impl Iterator<Item = Vec<&str>> {
    table
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with("# "))
        .map(|line| line.split('\t').collect())
}

/// The words of a list, one space between each two. There must be `N` of them.
pub(super) const fn words<const N: usize>(list: &'static str) -> [&'static str; N] {
    let mut words = [""; N];
    let (mut rest, mut found) = (list, 0);
    while !rest.is_empty() {
        let mut end = 0;
        while end < rest.len() && rest.as_bytes()[end] != b' ' {
            end += 1;
        }
        words[found] = rest.split_at(end).0;
        found += 1;
        rest = rest
            .split_at(if end < rest.len() { end + 1 } else { end })
            .1;
    }
    assert!(found == N, "a word is missing");
    words
}

/// The only character of a field.
pub(super) fn sign(field: &str) -> char {
    field.chars().next().expect("a table names its signs")
}

/// Declares `TABLES`, a field for each table of a folder of `data`: its number of columns, how many
/// of them are the key, its type, and what a row becomes.
macro_rules! tables {
    ($folder:literal: $($(#[$doc:meta])* $name:ident[$columns:literal, $key:literal]: $type:ty = |$row:ident| $value:expr;)*) => {
        #[derive(Debug)]
        pub(super) struct Tables {
            $($(#[$doc])* pub(super) $name: $type,)*
        }

        /// # Panics
        /// When a built-in table is malformed, which the tests below would have shown.
        pub(super) static TABLES: std::sync::LazyLock<Tables> = std::sync::LazyLock::new(|| Tables {
            $($name: $crate::table::rows($crate::table::text!($folder, $name)).map(|$row| $value).collect(),)*
        });

        /// Every table: its name, its text, and the numbers of its columns and of those of its key.
        #[cfg(test)]
        const TEXTS: &[(&str, &str, usize, usize)] =
            &[$((stringify!($name), $crate::table::text!($folder, $name), $columns, $key),)*];
    };
}
pub(super) use tables;

/// The text of a table.
macro_rules! text {
    ($folder:literal, $name:ident) => {
        include_str!(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/data/",
            $folder,
            "/",
            stringify!($name),
            ".tsv"
        ))
    };
}
pub(super) use text;

/// An enum whose variants have names in a table.
macro_rules! named_in_table {
    ($(#[$of_enum:meta])* $enum:ident { $($(#[$of_variant:meta])* $variant:ident = $name:literal,)* }) => {
        $(#[$of_enum])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) enum $enum { $($(#[$of_variant])* $variant,)* }

        impl $enum {
            fn named(name: &str) -> Self {
                match name {
                    $($name => $enum::$variant,)*
                    other => unreachable!("{other} is no {}", stringify!($enum)),
                }
            }
        }
    };
}
pub(super) use named_in_table;

#[cfg(test)]
pub(super) mod tests {
    use std::collections::HashSet;

    use crate::language::Language;

    use super::*;

    #[test]
    fn comments_and_empty_lines_are_no_rows_but_a_hash_may_be_a_key() {
        let table = "# head\n\n#\tnumber\na\t \tb\n";
        let rows: Vec<_> = rows(table).collect();
        assert_eq!(rows, [vec!["#", "number"], vec!["a", " ", "b"]]);
    }

    /// The pairs of a golden table.
    pub(crate) fn golden(table: &'static str) -> Vec<(&'static str, &'static str)> {
        let pair = |row: Vec<&'static str>| match row[..] {
            [left, right] => (left, right),
            _ => panic!("not two columns: {row:?}"),
        };
        rows(table)
            .filter(|row| row[..] != ["#"])
            .map(pair)
            .collect()
    }

    /// Every pair of a golden table is a text and what `normalize` makes of it.
    pub(crate) fn check_golden(table: &'static str, least: usize, normalize: fn(&str) -> String) {
        let pairs = golden(table);
        assert!(pairs.len() >= least, "only {} golden pairs", pairs.len());
        let failures: Vec<String> = pairs
            .iter()
            .map(|(raw, expected)| (raw, expected, normalize(raw)))
            .filter(|(_, expected, got)| got != *expected)
            .map(|(raw, expected, got)| {
                format!("{raw:?}\n  expected {expected:?}\n  got      {got:?}")
            })
            .collect();
        assert!(
            failures.is_empty(),
            "{} of {} pairs differ\n{}",
            failures.len(),
            pairs.len(),
            failures.join("\n")
        );
    }

    /// The rows of one table of a folder.
    pub(crate) fn rows_of<'a>(
        tables: &[(&str, &'a str, usize, usize)],
        name: &str,
    ) -> impl Iterator<Item = Vec<&'a str>> {
        let (_, text, ..) = tables.iter().find(|(known, ..)| *known == name).unwrap();
        rows(text)
    }

    /// Each table has a head comment and rows, all of as many fields, and no key twice; and there is
    /// none in the folder that is not read.
    pub(crate) fn check_tables(folder: &str, tables: &[(&str, &str, usize, usize)]) {
        for (name, table, columns, key) in tables {
            assert!(table.starts_with("# "), "{name}: no head comment");
            let mut keys = HashSet::new();
            for row in rows(table) {
                assert_eq!(row.len(), *columns, "{name}: {row:?}");
                let is_key = |field: &&str| !field.is_empty() && field.trim() == *field;
                assert!(row[..*key].iter().all(is_key), "{name}: key of {row:?}");
                assert!(keys.insert(row[..*key].to_vec()), "{name}: twice: {row:?}");
            }
            assert!(!keys.is_empty(), "{name} is empty");
        }
        let folder = format!("{}/data/{folder}", env!("CARGO_MANIFEST_DIR"));
        for entry in std::fs::read_dir(folder).unwrap() {
            let file = entry.unwrap().file_name().into_string().unwrap();
            let is_read = |name: &str| file.strip_suffix(".tsv") == Some(name);
            assert!(
                tables.iter().any(|(name, ..)| is_read(name)),
                "{file} is not read"
            );
        }
    }

    /// Texts as manifests have them.
    pub(crate) fn transcripts(language: Language) -> Vec<String> {
        let own = include_str!("../data/golden/transcripts.csv");
        let prefix = match language {
            Language::English => "EN",
            _ => "FA",
        };
        let own = own.lines().filter(|line| line.starts_with(prefix));
        let texts = |line: &str| -> Vec<String> {
            let columns = line.split('|').skip(1);
            columns.map(str::to_owned).collect()
        };
        let texts: Vec<String> = own.flat_map(texts).collect();
        assert!(texts.len() >= 20, "{language:?}");
        texts
    }
}
