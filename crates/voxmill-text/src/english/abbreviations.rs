//! Abbreviations that stand for words: titles, companies, streets, states, references.

use super::dates::month_of;
use super::reader::{EnglishReader, Expects, capitalised, leading_word, starts_upper};
use super::roman;
use super::tables::{AbbreviationWhen, TABLES};
use crate::reject_if;

/// Longest key of the table; longer words need no look-up.
const LONGEST: usize = 6;

impl<'a> EnglishReader<'a> {
    /// Says what an abbreviation stands for, if `word` is one here.
    pub(super) fn read_abbreviation(&mut self, word: &'a str) -> Option<()> {
        reject_if(word.len() > LONGEST || !word.is_ascii())?;
        let lower = &*word.to_ascii_lowercase();
        let dot = self.byte(word.len()) == b'.';
        if lower == "st" && (dot || word == "St") {
            return self.read_saint_or_street(word);
        }
        if lower == "dr"
            && (dot || word == "Dr")
            && self.is_after_name()
            && !self.is_before_name(word)
        {
            self.say_abbreviation(word, "Drive");
            return Some(());
        }
        if self.read_short_month(word).is_some() {
            return Some(());
        }
        let abbreviation = TABLES.abbreviations.get(lower)?;
        let capital = word.as_bytes()[0].is_ascii_uppercase();
        let fits = match abbreviation.when {
            AbbreviationWhen::Any => true,
            // "MS Word" is no title, but "MS SMITH" in a headline is.
            AbbreviationWhen::AnyCapital => {
                let upper = word.bytes().all(|letter| letter.is_ascii_uppercase());
                capital && (dot || !upper || self.all_capitals())
            }
            AbbreviationWhen::Dot => dot,
            AbbreviationWhen::DotCapital => dot && capital,
            AbbreviationWhen::BeforeName => dot && capital && self.is_before_name(word),
            AbbreviationWhen::Day => dot && capital && self.is_before_date(word),
            AbbreviationWhen::BeforeNumber => self.is_before_number(word),
            AbbreviationWhen::AfterComma => dot && capital && self.out.held_mark() == Some(','),
            AbbreviationWhen::Upper => word.bytes().all(|letter| letter.is_ascii_uppercase()),
        };
        let joined = matches!(
            self.byte(word.len()),
            b'0'..=b'9' | b'\'' | b'@' | b'&' | b'_'
        );
        reject_if(!fits || joined)?;
        let month = month_of(word).is_some();
        self.say_abbreviation(word, abbreviation.spoken);
        if month {
            self.expects = Expects::DayOrYear;
        }
        Some(())
    }

    /// Says `spoken` with the capital that was written, and takes the dot.
    fn say_abbreviation(&mut self, word: &'a str, spoken: &str) {
        let capital = word.as_bytes()[0].is_ascii_uppercase();
        match capital {
            true => self.say(&capitalised(spoken)),
            false => self.say(spoken),
        }
        self.at += word.len();
        self.remember(word);
        self.read_abbreviation_dot(false);
    }

    /// "St." is a saint before a name and a street after one; between two names the table of saints
    /// decides.
    fn read_saint_or_street(&mut self, word: &'a str) -> Option<()> {
        let next = leading_word(self.after(word));
        let name = next.split('\'').next().unwrap_or_default();
        let saint = starts_upper(next)
            && (!self.is_after_name() || TABLES.saints.contains(name) || next.contains('\''))
            && !(self.is_after_name() && TABLES.sentence_starts.contains(next));
        let street = !saint && (self.is_after_name() || self.byte(word.len()) == b'.');
        reject_if(!saint && !street)?;
        self.say_abbreviation(word, if saint { "saint" } else { "street" });
        Some(())
    }

    /// `Nov. 22`, `Mar 3`: a short month before a number.
    fn read_short_month(&mut self, word: &'a str) -> Option<()> {
        reject_if(!self.after(word).starts_with(|c: char| c.is_ascii_digit()))?;
        let month = month_of(word).filter(|month| month.spoken.len() > word.len())?;
        self.say(month.spoken);
        self.at += word.len() + usize::from(self.byte(word.len()) == b'.');
        self.remember(word);
        self.expects = Expects::DayOrYear;
        Some(())
    }

    /// The text after `word`, its dot and the spaces behind.
    fn after(&self, word: &str) -> &'a str {
        let rest = &self.rest()[word.len()..];
        rest.strip_prefix('.')
            .unwrap_or(rest)
            .trim_start_matches(' ')
    }

    fn is_before_name(&self, word: &str) -> bool {
        starts_upper(self.after(word))
    }

    fn is_after_name(&self) -> bool {
        let before = self.word_before();
        (starts_upper(before) && !TABLES.sentence_starts.contains(before)) || self.follows_ordinal()
    }

    /// `10th St.`: the characters before are an ordinal in figures.
    fn follows_ordinal(&self) -> bool {
        let before = self.text[..self.at].trim_end_matches(' ');
        let figure = before.trim_end_matches(|c: char| c.is_ascii_lowercase());
        before.len() == figure.len() + 2 && figure.ends_with(|c: char| c.is_ascii_digit())
    }

    fn is_before_number(&self, word: &str) -> bool {
        let rest = &self.rest()[word.len()..];
        if !rest.starts_with('.') {
            return false;
        }
        let next = self.after(word);
        let letters = leading_word(next);
        let code =
            letters.len() <= 2 && next[letters.len()..].starts_with(|c: char| c.is_ascii_digit());
        code || letters.len() > 1 && starts_upper(letters) && roman::value(letters).is_some()
    }

    fn is_before_date(&self, word: &str) -> bool {
        let after = self.after(word);
        after.starts_with([',', '—'])
            || after.starts_with(|c: char| c.is_ascii_digit())
            || month_of(leading_word(after)).is_some()
    }
}
