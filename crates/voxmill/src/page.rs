//! Text for a person: labels at the left, lines that end before the page does.

/// Columns.
pub(crate) const WIDTH: usize = 80;
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
        let indentation = " ".repeat(head.chars().count());
        let mut line = head.to_owned();
        let mut begun = false;
        for word in words(text) {
            let taken = line.chars().count() + usize::from(begun);
            if begun && taken + word.chars().count() > WIDTH {
                self.push(&line);
                line.clone_from(&indentation);
                begun = false;
            }
            if begun {
                line.push(' ');
            }
            line.push_str(&word);
            begun = true;
        }
        self.push(&line);
    }

    /// A line as it is.
    pub(crate) fn push(&mut self, line: &str) {
        self.lines.push(line.trim_end().to_owned());
    }

    pub(crate) fn text(&self) -> String {
        self.lines.join("\n").trim_end().to_owned()
    }
}

/// A number and its unit are one word: they are read together.
fn words(text: &str) -> Vec<String> {
    let is_unit = |word: &str| {
        let word = word.trim_end_matches([',', '.', ';', ':', ')']);
        let word = word.trim_end_matches("/s");
        matches!(
            word,
            "B" | "kB" | "MB" | "GB" | "ms" | "s" | "min" | "h" | "%"
        )
    };
    let mut words: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match words.last_mut() {
            Some(last) if is_unit(word) && last.ends_with(|c: char| c.is_ascii_digit()) => {
                last.push(' ');
                last.push_str(word);
            }
            _ => words.push(word.to_owned()),
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_stays_with_its_unit() {
        assert_eq!(
            words("up to 7.2 GB, or 3 %"),
            ["up", "to", "7.2 GB,", "or", "3 %"]
        );
    }

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
