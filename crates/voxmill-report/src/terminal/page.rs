//! Text with labels at the left and lines that end before the page does.

use voxmill_untrusted::shown::unbroken;

use super::{Mark, Paint};
use crate::format::{Table, pad, pad_left, width, wrap};

/// Columns of a label.
pub(super) const LABEL: usize = 10;

#[derive(Debug)]
pub(super) struct Page {
    label: usize,
    pub(super) paint: Paint,
    lines: Vec<String>,
}

impl Page {
    pub(super) fn new(label: usize, paint: Paint) -> Page {
        let lines = Vec::new();
        Page {
            label,
            paint,
            lines,
        }
    }

    /// A line between two parts; several are one.
    pub(super) fn blank(&mut self) {
        if self.lines.last().is_some_and(|line| !line.is_empty()) {
            self.lines.push(String::new());
        }
    }

    /// The head of a new part.
    pub(super) fn heading(&mut self, text: &str) {
        self.blank();
        self.push(&self.paint.heading(text));
    }

    /// A label and a text that continues below itself.
    pub(super) fn line(&mut self, label: &str, text: impl AsRef<str>) {
        self.wrapped(&self.label(label), text);
    }

    /// A label and a text that is not broken into lines.
    pub(super) fn whole_line(&mut self, label: &str, text: impl AsRef<str>) {
        let text = unbroken(text.as_ref());
        self.push(&format!("{}{text}", self.label(label)));
    }

    /// A value behind its label, and behind that, or below where it is too wide, a text that starts at a column.
    pub(super) fn settled(&mut self, label: &str, value: &str, column: usize, text: &str) {
        let head = format!("{}{}  ", self.label(label), unbroken(value));
        if width(&head) == column {
            return self.wrapped(&head, text);
        }
        self.push(&head);
        self.wrapped(&" ".repeat(column), text);
    }

    fn label(&self, label: &str) -> String {
        match label.is_empty() {
            true => pad("", self.label),
            false => pad(&self.paint.heading(label), self.label),
        }
    }

    /// A text that continues below itself, behind a head of any length.
    pub(super) fn wrapped(&mut self, head: &str, text: impl AsRef<str>) {
        self.push(&wrap(head, text.as_ref()));
    }

    /// A text that continues below itself, behind a mark.
    pub(super) fn point(&mut self, indent: &str, mark: Mark, text: impl AsRef<str>) {
        self.wrapped(&format!("{indent}{} ", self.paint.mark(mark)), text);
    }

    /// Cells in columns of fixed widths, aligned right.
    pub(super) fn cells<C: AsRef<str>>(
        &mut self,
        columns: impl IntoIterator<Item = usize>,
        cells: impl IntoIterator<Item = C>,
    ) {
        let cells = cells.into_iter().zip(columns);
        let row = cells.map(|(cell, columns)| pad_left(cell.as_ref(), columns));
        self.whole_line("", row.collect::<String>());
    }

    pub(super) fn table(&mut self, table: &Table) {
        self.push(&table.text());
    }

    /// Lines as they are.
    pub(super) fn push(&mut self, lines: &str) {
        let lines = lines.lines().map(|line| line.trim_end().to_owned());
        self.lines.extend(lines);
    }

    pub(super) fn text(&self) -> String {
        self.lines.join("\n").trim_end().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::fits;
    use super::*;

    #[test]
    fn long_texts_continue_below_themselves() {
        let mut page = Page::new(LABEL, Paint::plain());
        page.blank();
        page.line("label", "word ".repeat(20));
        page.blank();
        page.blank();
        page.line("", "end");
        let text = fits(page.text());
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 4, "{text}");
        assert!(lines[0].starts_with("label     word word"));
        assert!(lines[1].starts_with("          word"));
    }
}
