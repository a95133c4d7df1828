//! Columns that line up.

use crate::format::width;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    Left,
    Right,
}

/// Rows of cells under a heading. Widths are those on a terminal.
#[derive(Clone, Debug, Default)]
pub struct Table {
    indent: usize,
    columns: Vec<(String, Option<Align>)>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub fn new(indent: usize) -> Table {
        Table {
            indent,
            ..Table::default()
        }
    }

    pub fn column(mut self, heading: &str, align: Align) -> Table {
        self.columns.push((heading.to_owned(), Some(align)));
        self
    }

    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Each line without blanks at its end.
    pub fn text(&self) -> String {
        let headings: Vec<String> = self.columns.iter().map(|(name, _)| name.clone()).collect();
        let has_headings = headings.iter().any(|heading| !heading.is_empty());
        let all: Vec<&Vec<String>> = has_headings
            .then_some(&headings)
            .into_iter()
            .chain(&self.rows)
            .collect();
        let widest = |column: usize| {
            let cells = all.iter().filter_map(|row| row.get(column));
            cells.map(|cell| width(cell)).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.columns.len()).map(widest).collect();
        let line = |row: &&Vec<String>| {
            let mut line = " ".repeat(self.indent);
            for (column, cell) in row.iter().enumerate() {
                if column > 0 {
                    line.push_str("  ");
                }
                let room = widths.get(column).copied().unwrap_or(0);
                let blanks = " ".repeat(room.saturating_sub(width(cell)));
                let align = self.columns.get(column).and_then(|(_, align)| *align);
                match align {
                    Some(Align::Right) => {
                        line.push_str(&blanks);
                        line.push_str(cell);
                    }
                    _ => {
                        line.push_str(cell);
                        line.push_str(&blanks);
                    }
                }
            }
            line.trim_end().to_owned()
        };
        all.iter().map(line).collect::<Vec<_>>().join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_whatever_the_colours() {
        let mut table = Table::new(2)
            .column("stage", Align::Left)
            .column("ms", Align::Right);
        table.row(["read".to_owned(), "1.5".to_owned()]);
        table.row(["\u{1b}[31mcollate\u{1b}[0m".to_owned(), "12.25".to_owned()]);
        assert_eq!(
            table.text(),
            "  stage       ms\n  read       1.5\n  \u{1b}[31mcollate\u{1b}[0m  12.25"
        );
    }
}
