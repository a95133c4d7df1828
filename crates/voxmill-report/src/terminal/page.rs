//! Text with labels at the left and lines that end before the page does.

use crate::format::{pad, wrap};

/// Columns of a label.
pub(super) const LABEL: usize = 10;

#[derive(Debug)]
pub(super) struct Page {
    label: usize,
    lines: Vec<String>,
}

impl Default for Page {
    fn default() -> Page {
        Page::with_labels(LABEL)
    }
}

impl Page {
    pub(super) fn with_labels(label: usize) -> Page {
        let lines = Vec::new();
        Page { label, lines }
    }

    /// A line between two parts; several are one.
    pub(super) fn blank(&mut self) {
        if self.lines.last().is_some_and(|line| !line.is_empty()) {
            self.lines.push(String::new());
        }
    }

    /// A label and a text that continues below itself.
    pub(super) fn line(&mut self, label: &str, text: impl AsRef<str>) {
        self.wrapped(&pad(label, self.label), text.as_ref());
    }

    /// A label and a text that is not broken into lines.
    pub(super) fn whole_line(&mut self, label: &str, text: impl AsRef<str>) {
        self.push(&format!("{}{}", pad(label, self.label), text.as_ref()));
    }

    /// A text that continues below itself, behind a head of any length.
    pub(super) fn wrapped(&mut self, head: &str, text: &str) {
        for line in wrap(head, text).lines() {
            self.push(line);
        }
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
    use super::*;
    use crate::format::{COLUMNS, width};

    #[test]
    fn long_texts_continue_below_themselves() {
        let mut page = Page::default();
        page.blank();
        page.line("label", "word ".repeat(20));
        page.blank();
        page.blank();
        page.line("", "end");
        let text = page.text();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 4, "{text}");
        assert!(lines[0].starts_with("label     word word"));
        assert!(lines[1].starts_with("          word"));
        assert!(lines.iter().all(|line| width(line) <= COLUMNS));
    }
}
