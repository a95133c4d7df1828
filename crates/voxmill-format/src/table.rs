//! Columns that line up.

use voxmill_untrusted::shown::unbroken;

use super::{pad, pad_left, width};

/// Rows of cells, under headings where a column has one. Columns that are not declared are aligned left.
#[derive(Clone, Debug, Default)]
pub struct Table {
    indent: usize,
    headings: Vec<String>,
    /// Of each heading: whether its column is aligned right.
    right: Vec<bool>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// An empty table, this many columns from the left edge.
    pub fn new(indent: usize) -> Table {
        Table {
            indent,
            ..Table::default()
        }
    }

    /// More columns, aligned to the left.
    pub fn left<H: Into<String>>(self, headings: impl IntoIterator<Item = H>) -> Table {
        self.columns(headings, false)
    }

    /// More columns, aligned to the right.
    pub fn right<H: Into<String>>(self, headings: impl IntoIterator<Item = H>) -> Table {
        self.columns(headings, true)
    }

    fn columns<H: Into<String>>(
        mut self,
        headings: impl IntoIterator<Item = H>,
        right: bool,
    ) -> Table {
        self.headings.extend(headings.into_iter().map(H::into));
        self.right.resize(self.headings.len(), right);
        self
    }

    /// Adds a row, a cell for each column.
    pub fn row<C: Into<String>>(&mut self, cells: impl IntoIterator<Item = C>) {
        let cells = cells.into_iter().map(C::into);
        let cells = cells.map(|cell: String| unbroken(&cell).into_owned());
        self.rows.push(cells.collect());
    }

    /// A row of a name and a value.
    pub fn fact(&mut self, name: impl Into<String>, value: impl Into<String>) {
        self.row([name.into(), value.into()]);
    }

    /// Each line without blanks at its end.
    pub fn text(&self) -> String {
        let has_headings = self.headings.iter().any(|heading| !heading.is_empty());
        let headings = has_headings.then_some(&self.headings);
        let all: Vec<&Vec<String>> = headings.into_iter().chain(&self.rows).collect();
        let mut widest = Vec::new();
        for row in &all {
            widest.resize(row.len().max(widest.len()), 0);
            for (widest, cell) in widest.iter_mut().zip(*row) {
                *widest = width(cell).max(*widest);
            }
        }
        let lines = all.iter().map(|row| {
            let cells = row
                .iter()
                .enumerate()
                .map(|(column, cell)| match self.right.get(column) {
                    Some(true) => pad_left(cell, widest[column]),
                    _ => pad(cell, widest[column]),
                });
            let line = cells.collect::<Vec<_>>().join("  ");
            format!("{}{line}", " ".repeat(self.indent))
                .trim_end()
                .to_owned()
        });
        lines.collect::<Vec<_>>().join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_cannot_begin_a_line() {
        let mut table = Table::new(0);
        table.row(["a\nerror: b", "c"]);
        assert_eq!(table.text(), "a\\u{a}error: b  c");
    }

    #[test]
    fn columns_line_up_whatever_the_colours() {
        let mut table = Table::new(2).left(["stage"]).right(["ms"]);
        table.row(["read", "1.5"]);
        table.fact("\u{1b}[31mcollate\u{1b}[0m", "12.25");
        assert_eq!(
            table.text(),
            "  stage       ms\n  read       1.5\n  \u{1b}[31mcollate\u{1b}[0m  12.25"
        );
    }
}
