//! The text being built: words with single spaces, and at most one mark of prosody between two words.

/// Words and marks in the order of speech.
#[derive(Debug)]
pub(super) struct SpokenWords {
    text: String,
    /// Held back until the next word, so that of several marks in a row the strongest stays.
    mark: Option<char>,
}

/// Which of several marks in a row is kept: a question outweighs a full stop outweighs a comma.
fn strength(mark: char) -> Option<usize> {
    ",—:;.!?".find(mark)
}

impl SpokenWords {
    pub(super) fn with_capacity(bytes: usize) -> Self {
        SpokenWords {
            text: String::with_capacity(bytes),
            mark: None,
        }
    }

    /// Adds a word, or several with single spaces between them.
    pub(super) fn word(&mut self, word: &str) {
        if word.is_empty() {
            return;
        }
        self.flush_mark();
        if !self.text.is_empty() {
            self.text.push(' ');
        }
        self.text.push_str(word);
    }

    /// Adds a word with a hyphen to the one before it.
    pub(super) fn hyphenated(&mut self, word: &str) {
        if self.text.is_empty() || self.mark.is_some() {
            return self.word(word);
        }
        self.text.push('-');
        self.text.push_str(word);
    }

    /// Adds a mark; before the first word there is nothing to pause after.
    pub(super) fn mark(&mut self, mark: char) {
        if self.text.is_empty() {
            return;
        }
        if self.mark.is_none_or(|held| strength(mark) > strength(held)) {
            self.mark = Some(mark);
        }
    }

    /// Whether the last thing said was a mark.
    pub(super) fn held_mark(&self) -> Option<char> {
        self.mark
    }

    fn flush_mark(&mut self) {
        if let Some(mark) = self.mark.take() {
            if mark == '—' {
                self.text.push(' ');
            }
            self.text.push(mark);
        }
    }

    pub(super) fn finish(mut self) -> String {
        self.flush_mark();
        self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_strongest_of_several_marks_stays() {
        let mut spoken = SpokenWords::with_capacity(0);
        spoken.mark(',');
        spoken.word("one");
        spoken.hyphenated("way");
        spoken.mark(',');
        spoken.mark('?');
        spoken.mark('.');
        spoken.word("two");
        spoken.mark('—');
        spoken.word("three");
        spoken.mark('.');
        assert_eq!(spoken.finish(), "one-way? two — three.");
    }
}
