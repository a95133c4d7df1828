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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_empty_lines_are_no_rows_but_a_hash_may_be_a_key() {
        let table = "# head\n\n#\tnumber\na\t \tb\n";
        let rows: Vec<_> = rows(table).collect();
        assert_eq!(rows, [vec!["#", "number"], vec!["a", " ", "b"]]);
    }
}
