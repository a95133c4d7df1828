//! Words: which are said as written, and which stand for something else.

use super::dates::month_of;
use super::numbers;
use super::reader::{EnglishReader, Expects, byte_at, leading_digits, leading_word, starts_upper};
use super::roman;
use super::tables::TABLES;
use crate::reject_if;

impl EnglishReader<'_> {
    /// Reads the word at the place reached, up to a hyphen or the end of its letters.
    pub(super) fn read_word(&mut self) {
        let word = leading_word(self.rest());
        if word.is_empty() {
            // A letter that only combines; nothing can be said for it.
            self.at += self.rest().chars().next().map_or(0, char::len_utf8);
            return;
        }
        let next = self.byte(word.len());
        if matches!(next, b'.' | b'@' | b':' | b'_' | b'-' | b'0'..=b'9')
            && self.read_web_address().is_some()
        {
            return;
        }
        if (next == b'$' || word.len() == 3) && self.read_money().is_some()
            || self.read_dotted_letters().is_some()
            || self.read_abbreviation(word).is_some()
        {
            return;
        }
        if self.is_next_to_ampersand(word) {
            self.say_letters(word);
            self.at += word.len();
            self.remember(word);
            return;
        }
        if next.is_ascii_digit() && word.is_ascii() {
            self.read_code(word);
            return;
        }
        let mut word = word;
        if next == b'\'' {
            let elided = &self.rest()[..=word.len()];
            if is_elision(elided) {
                word = elided;
            }
        }
        self.at += word.len();
        let as_written = self.say_word(word);
        self.remember(word);
        if next == b'-' {
            self.read_hyphen_in_word(as_written);
        }
        if month_of(word).is_some_and(|month| month.spoken.eq_ignore_ascii_case(word)) {
            self.expects = Expects::DayOrYear;
        }
    }

    /// A hyphen stays between two words that are said as written.
    fn read_hyphen_in_word(&mut self, as_written: bool) {
        let after = self.byte(1);
        let letters = leading_word(&self.rest()[1..]);
        if !letters.is_empty() {
            self.at += 1;
            self.glue = as_written;
        } else if after.is_ascii_digit() {
            // COVID-19, B-52, Boeing-747
            self.at += 1;
            let digits = leading_digits(self.rest());
            let plain = !matches!(
                byte_at(self.rest(), digits),
                b'.' | b',' | b'-' | b'/' | b':'
            );
            if digits == 3 && plain && leading_word(&self.rest()[digits..]).is_empty() {
                self.out.word(&numbers::pairs(&self.rest()[..digits]));
                self.at += digits;
                self.read_glued_letters();
            }
        }
    }

    /// `AT&T`, `R&D`: a few capitals right next to the sign.
    fn is_next_to_ampersand(&self, word: &str) -> bool {
        word.len() <= 3
            && word.bytes().all(|letter| letter.is_ascii_uppercase())
            && (self.before() == '&'
                || self.byte(word.len()) == b'&' && self.byte(word.len() + 1).is_ascii_uppercase())
    }

    /// `C2766`, `MP3`, `abc123`: letters and the digits on them.
    fn read_code(&mut self, letters: &str) {
        let digits = leading_digits(&self.rest()[letters.len()..]);
        let code = !letters.contains('\'')
            && (letters.len() == 1 || letters.bytes().all(|letter| letter.is_ascii_uppercase()))
            && !TABLES.acronyms.contains(letters);
        let figures = &self.rest()[letters.len()..letters.len() + digits];
        self.at += letters.len();
        if code {
            self.glue = false;
            self.say_letters(letters);
        } else {
            self.say_word(letters);
        }
        self.remember("");
        if figures.len() > 2 || figures.starts_with('0') {
            self.out.word(&numbers::by_digit(figures));
            self.at += digits;
            self.read_glued_letters();
        }
    }

    /// An apostrophe before a word or a short year: kept where it stands for letters left out.
    pub(super) fn read_apostrophe(&mut self) {
        let word = leading_word(&self.rest()[1..]);
        let elided = &self.rest()[..=word.len()];
        if !word.is_empty() && is_elision(elided) {
            self.at += elided.len();
            self.say(elided);
            self.expects = Expects::Nothing;
            return;
        }
        self.at += 1;
    }

    /// Says a word that is no abbreviation: a Roman numeral, letters to be named, or itself. Returns
    /// whether it was itself.
    fn say_word(&mut self, word: &str) -> bool {
        let stem = word.strip_suffix("'s").unwrap_or(word);
        let is_capital = word.as_bytes()[0].is_ascii_uppercase();
        if self.say_roman(stem, &word[stem.len()..]).is_some()
            || is_capital && self.say_capitals(word)
        {
            return false;
        }
        self.say(word);
        true
    }

    /// `Henry VIII` → the eighth; `Chapter IV` → four; `XIX century` → nineteenth. `ending` is the
    /// `'s` of a possessive.
    fn say_roman(&mut self, word: &str, ending: &str) -> Option<()> {
        let value = roman::value(word)?;
        let digits = value.to_string();
        let before = if self.glue { "" } else { self.word_before() };
        let numbered = TABLES
            .numbered_nouns
            .contains(&*before.to_ascii_lowercase());
        let mut names = self.recent.iter().take_while(|word| starts_upper(word));
        let named = starts_upper(before)
            && !numbered
            && names.any(|word| TABLES.regnal_names.contains(word));
        reject_if(!ending.is_empty() && !named && !numbered)?;
        if word.bytes().all(|letter| letter.is_ascii_lowercase()) {
            // "chapter iv", but "vi", "mix" and "i" elsewhere
            reject_if(
                !numbered
                    || word.len() < 2
                    || word.bytes().any(|letter| !b"ivxl".contains(&letter)),
            )?;
            self.say(&(numbers::cardinal(&digits) + ending));
            return Some(());
        }
        if word.len() == 1 {
            reject_if(!matches!(word, "I" | "V" | "X"))?;
            // "George I told": the pronoun. "Charles I. in", "James I,": the king.
            let ends = matches!(self.byte(0), b'.' | b',' | b';' | b':')
                || !ending.is_empty()
                || self.rest().is_empty()
                || self.rest().starts_with(" of ");
            let king = named && TABLES.regnal_names.contains(before) && (word != "I" || ends);
            let part = numbered && starts_upper(before);
            reject_if(!king && !part)?;
        }
        let small = word.bytes().all(|letter| b"IVX".contains(&letter));
        reject_if(!(small || named || numbered || word.len() > 4))?;
        if named {
            self.out.word("the");
            self.out.word(&(numbers::ordinal(&digits) + ending));
        } else if self.rest().starts_with(" century") || self.rest().starts_with(" Century") {
            self.say(&numbers::ordinal(&digits));
        } else if (1100..2100).contains(&value) {
            self.say(&(numbers::year(&digits) + ending));
        } else {
            self.say(&(numbers::cardinal(&digits) + ending));
        }
        if named && ending.is_empty() {
            self.read_abbreviation_dot(true);
        }
        Some(())
    }
}

fn is_elision(word: &str) -> bool {
    TABLES.elisions.contains(&*word.to_ascii_lowercase())
}
