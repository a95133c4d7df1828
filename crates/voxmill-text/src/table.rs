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

    /// A table has a head comment and rows, all of `columns` fields, and no key of `key` fields twice.
    pub(crate) fn check_table(name: &str, table: &str, columns: usize, key: usize) {
        assert!(table.starts_with("# "), "{name}: no head comment");
        let mut keys = HashSet::new();
        for row in rows(table) {
            assert_eq!(row.len(), columns, "{name}: {row:?}");
            let is_key = |field: &&str| !field.is_empty() && field.trim() == *field;
            assert!(row[..key].iter().all(is_key), "{name}: key of {row:?}");
            assert!(keys.insert(row[..key].to_vec()), "{name}: twice: {row:?}");
        }
        assert!(!keys.is_empty(), "{name} is empty");
    }

    /// The columns of a manifest in the shared data; none where those do not lie next to the project.
    pub(crate) fn shared_manifest(name: &str) -> Vec<Vec<String>> {
        let path = format!("{}/../../../shared/data/{name}", env!("CARGO_MANIFEST_DIR"));
        let manifest = std::fs::read_to_string(path).unwrap_or_default();
        let columns = |line: &str| line.split('|').map(str::to_owned).collect();
        manifest.lines().map(columns).collect()
    }
}
