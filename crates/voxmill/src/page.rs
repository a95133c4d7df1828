//! Text for a person: labels at the left, lines that end before the page does.

pub(crate) use voxmill_report::terminal::COLUMNS as WIDTH;
use voxmill_report::terminal::wrap;

/// Columns of a label.
pub(crate) const LABEL: usize = 10;

#[derive(Debug, Default)]
pub(crate) struct Page {
    lines: Vec<String>,
}

impl Page {
    /// A line between two parts; several are one.
    pub(crate) fn blank(&mut self) {
        if self.lines.last().is_some_and(|line| !line.is_empty()) {
            self.lines.push(String::new());
        }
    }

    /// A label and a text that goes on below itself.
    pub(crate) fn line(&mut self, label: &str, text: &str) {
        self.wrapped(&format!("{label:<LABEL$}"), text);
    }

    /// A text that goes on below itself, behind a head of any length.
    pub(crate) fn wrapped(&mut self, head: &str, text: &str) {
        for line in wrap(head, head.chars().count(), text).lines() {
            self.push(line);
        }
    }

    /// A line as it is.
    pub(crate) fn push(&mut self, line: &str) {
        self.lines.push(line.trim_end().to_owned());
    }

    pub(crate) fn text(&self) -> String {
        self.lines.join("\n").trim_end().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_go_on_below_themselves() {
        let mut page = Page::default();
        page.blank();
        page.line("label", &"word ".repeat(20));
        page.blank();
        page.blank();
        page.line("", "end");
        let text = page.text();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 4, "{text}");
        assert!(lines[0].starts_with("label     word word"));
        assert!(lines[1].starts_with("          word"));
        assert!(lines.iter().all(|line| line.chars().count() <= WIDTH));
    }
}
