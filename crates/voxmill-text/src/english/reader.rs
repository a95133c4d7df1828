//! Walks over a cleaned text from left to right and says each thing it meets.
//!
//! What a thing means may depend on the words said just before it and on what is written after it.
//! Context before is kept here; the rules themselves live with their subject (`figures`, `dates`,
//! `money`, `words`, …), each as a method that either takes its piece of text and says it, or leaves
//! everything untouched and returns `None`.

use super::spoken::SpokenWords;
use super::tables::TABLES;
use crate::is_letter;

pub(super) struct EnglishReader<'a> {
    /// The whole cleaned text.
    pub(super) text: &'a str,
    /// Everything before this byte has been said.
    pub(super) at: usize,
    pub(super) out: SpokenWords,
    /// The words just read, as written, latest first.
    pub(super) recent: [&'a str; 3],
    /// What the last thing read makes of a number that follows.
    pub(super) expects: Expects,
    /// The next word hangs on the one before by a hyphen.
    pub(super) glue: bool,
    capitals: Option<bool>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expects {
    Nothing,
    /// After the name of a month.
    DayOrYear,
    /// After a day or the first year of a range.
    Year,
    /// After an amount in pounds.
    Shillings,
}

pub(super) fn read(text: &str) -> String {
    let mut reader = EnglishReader {
        text,
        at: 0,
        out: SpokenWords::with_capacity(text.len() + text.len() / 4),
        recent: [""; 3],
        expects: Expects::Nothing,
        glue: false,
        capitals: None,
    };
    while let Some(c) = reader.rest().chars().next() {
        reader.step(c);
    }
    reader.out.finish()
}

impl<'a> EnglishReader<'a> {
    fn step(&mut self, c: char) {
        match c {
            ' ' => self.at += 1,
            '0'..='9' => self.read_figure(),
            '.' if self.byte(1).is_ascii_digit() && !self.before().is_alphanumeric() => {
                self.read_figure();
            }
            '.' if self.byte(1).is_ascii_alphabetic() && self.read_dot_of_name().is_some() => {}
            ',' | '.' | ';' | ':' | '?' | '!' | '—' => {
                self.at += c.len_utf8();
                self.glue = false;
                self.out.mark(c);
            }
            '-' => self.read_hyphen(),
            '\'' => self.read_apostrophe(),
            _ if c.is_alphabetic() => self.read_word(),
            _ => self.read_sign(c),
        }
    }

    pub(super) fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    /// The byte `offset` after the place reached; zero behind the end.
    pub(super) fn byte(&self, offset: usize) -> u8 {
        byte_at(self.text, self.at + offset)
    }

    /// The character before the place reached; a space before the beginning.
    pub(super) fn before(&self) -> char {
        self.text[..self.at].chars().next_back().unwrap_or(' ')
    }

    /// The latest word, unless a mark was read since.
    pub(super) fn word_before(&self) -> &'a str {
        match self.out.held_mark() {
            Some(_) => "",
            None => self.recent[0],
        }
    }

    /// Remembers a word as context for what follows.
    pub(super) fn remember(&mut self, word: &'a str) {
        self.recent = [word, self.recent[0], self.recent[1]];
        self.expects = Expects::Nothing;
    }

    /// Says a word, hung on the one before where a hyphen was written.
    pub(super) fn say(&mut self, word: &str) {
        if std::mem::take(&mut self.glue) {
            self.out.hyphenated(word);
        } else {
            self.out.word(word);
        }
    }

    /// Moves on past a number that was said; what follows is no part of it.
    pub(super) fn pass_number(&mut self, len: usize) {
        self.at += len;
        self.expects = Expects::Nothing;
    }

    /// Whether an article that makes a unit or a currency an adjective stands before a number: "a
    /// five dollar bill", but "five dollars".
    pub(super) fn is_after_article(&self) -> bool {
        matches!(self.word_before(), "a" | "A" | "an" | "An")
    }

    /// Whether the whole text is in capitals, and more than one word long: a headline.
    pub(super) fn all_capitals(&mut self) -> bool {
        let text = self.text;
        *self.capitals.get_or_insert_with(|| {
            !text.chars().any(char::is_lowercase)
                && text
                    .split(' ')
                    .filter(|word| word.chars().filter(|c| c.is_uppercase()).count() > 1)
                    .nth(1)
                    .is_some()
        })
    }

    fn read_hyphen(&mut self) {
        let next = self.byte(1);
        let starts = self.before() == ' ';
        self.at += 1;
        if starts && (next.is_ascii_digit() || (next == b'.' && self.byte(1).is_ascii_digit())) {
            self.out.word("minus");
        } else if starts && matches!(next, b' ' | 0) {
            self.out.mark('—');
        } else if next.is_ascii_digit()
            && matches!(self.word_before(), "a.m" | "p.m" | "A.M" | "P.M")
        {
            self.out.word("to");
        }
    }

    fn read_sign(&mut self, c: char) {
        if self.read_money().is_some() {
            return;
        }
        let next = byte_at(self.text, self.at + c.len_utf8());
        let before = self.before();
        self.glue = false;
        let words = match c {
            '#' if next.is_ascii_alphabetic() => "hashtag",
            '~' if next.is_ascii_digit() => "about",
            '+' if next.is_ascii_digit() && self.read_number_abroad().is_some() => return,
            '^' if before.is_alphanumeric() && next.is_ascii_digit() => "to the power of",
            '*' if self.is_between_figures(c) => "times",
            '×' if before.is_ascii_digit() && next.is_ascii_digit() && !self.power_follows(c) => {
                "by"
            }
            '/' if before.is_ascii_digit() && next.is_ascii_alphabetic() => {
                return self.read_per();
            }
            _ => TABLES.symbols.get(&c).copied().unwrap_or_default(),
        };
        self.at += c.len_utf8();
        if !words.is_empty() {
            self.out.word(words);
            self.expects = Expects::Nothing;
        }
    }

    /// In 3×10⁸ the sign is "times", in a 3×4 grid it is "by".
    fn power_follows(&self, sign: char) -> bool {
        self.rest()[sign.len_utf8()..]
            .trim_start_matches(|c: char| c.is_ascii_digit())
            .starts_with(" to the power")
    }

    /// `£3.50/kg`, `$5/day`.
    fn read_per(&mut self) {
        self.at += 1;
        self.out.word("per");
        let word = leading_word(self.rest());
        if let Some(unit) = TABLES.units.get(word) {
            self.out.word(unit.one);
            self.at += word.len();
        }
        self.expects = Expects::Nothing;
    }

    fn is_between_figures(&self, sign: char) -> bool {
        let before = self.text[..self.at].trim_end_matches(' ');
        let after = self.rest()[sign.len_utf8()..].trim_start_matches(' ');
        before.ends_with(|c: char| c.is_ascii_digit())
            && after.starts_with(|c: char| c.is_ascii_digit())
    }

    /// An abbreviation's dot, if the text goes on with one: taken, and said only where it also
    /// ends the sentence. `strict`: any capitalised word begins a new sentence.
    pub(super) fn read_abbreviation_dot(&mut self, strict: bool) {
        if self.byte(0) != b'.' {
            return;
        }
        self.at += 1;
        let next = self.rest().trim_start_matches([' ', '\'']);
        let word = leading_word(next);
        let begins_sentence = match strict {
            true => starts_upper(next),
            // "A. C. Johnson" begins with an initial, "A man" with a word.
            false => {
                TABLES.sentence_starts.contains(word)
                    && (word.len() > 1 || byte_at(next, 1) != b'.')
            }
        };
        if next.is_empty() || begins_sentence {
            self.out.mark('.');
        }
    }
}

/// The byte at `at`; zero behind the end.
pub(super) fn byte_at(text: &str, at: usize) -> u8 {
    text.as_bytes().get(at).copied().unwrap_or(0)
}

/// The letters, with inner apostrophes, at the beginning of `text`.
pub(super) fn leading_word(text: &str) -> &str {
    let is_inner = |at: usize| at > 0 && text[at + 1..].starts_with(char::is_alphabetic);
    let ends = |&(at, c): &(usize, char)| match c {
        '\'' => !is_inner(at),
        _ if c.is_ascii() => !c.is_ascii_alphabetic(),
        _ => !is_letter(c),
    };
    let end = text.char_indices().find(ends);
    end.map_or(text, |(end, _)| &text[..end])
}

/// The number of ASCII digits at the beginning of `text`.
pub(super) fn leading_digits(text: &str) -> usize {
    text.bytes().take_while(u8::is_ascii_digit).count()
}

pub(super) fn starts_upper(word: &str) -> bool {
    word.starts_with(char::is_uppercase)
}

/// A word with a capital in place of a small ASCII letter at its beginning.
pub(super) fn capitalised(word: &str) -> String {
    let mut capitalised = word.to_owned();
    if let Some(first) = capitalised.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    capitalised
}
