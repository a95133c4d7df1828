//! What follows a number and belongs to it: units, and letters glued to it.

use super::figures::Figure;
use super::reader::{EnglishReader, byte_at, leading_digits, leading_word};
use super::tables::{TABLES, Unit, UnitWhen};
use crate::reject_if;

impl EnglishReader<'_> {
    /// A unit at `offset`: its row, and the bytes up to its end, without a dot.
    fn unit_at(&self, offset: usize) -> Option<(&'static Unit, usize)> {
        let text = &self.rest()[offset..];
        let gap = usize::from(matches!(byte_at(text, 0), b' ' | b'-'));
        let written = &text[gap..];
        let is_unit = |c: char| c.is_ascii_alphabetic() || "°%‰µΩ/".contains(c);
        let end = written.find(|c| !is_unit(c)).unwrap_or(written.len());
        let name = &written[..end];
        reject_if(name.is_empty() || end > 8)?;
        let (unit, len) = match TABLES.units.get(name) {
            Some(unit) => (unit, end),
            // °, % and the like need no word boundary behind them.
            None => {
                let sign = name.chars().next().filter(|c| !c.is_ascii_alphabetic())?;
                (TABLES.units.get(&name[..sign.len_utf8()])?, sign.len_utf8())
            }
        };
        let next = written[len..].chars().next().unwrap_or(' ');
        let sign = !name.starts_with(|c: char| c.is_ascii_alphabetic());
        reject_if(!sign && (next.is_alphanumeric() || matches!(next, '\'' | '@' | '&')))?;
        let fits = match unit.when {
            UnitWhen::Any => true,
            UnitWhen::Dot => next == '.',
            UnitWhen::Glued => gap == 0,
            UnitWhen::Spaced => gap == 1 && byte_at(text, 0) == b' ',
            UnitWhen::BeforePounds => {
                let after = written[len..].trim_start_matches(['.', ' ']);
                let pounds = leading_digits(after);
                let name = after[pounds..].trim_start_matches(' ');
                pounds > 0 && matches!(leading_word(name), "lb" | "lbs")
            }
        };
        fits.then_some((unit, gap + len))
    }

    pub(super) fn unit_follows(&self, offset: usize) -> bool {
        self.unit_at(offset).is_some()
    }

    /// Says a unit, or a currency written behind its amount.
    pub(super) fn read_unit(&mut self, one: bool) {
        if let Some((unit, len)) = self.unit_at(0) {
            let hyphen = self.byte(0) == b'-';
            // "a five kilometer run"
            let name = match one || hyphen || self.is_after_article() {
                true => unit.one,
                false => unit.many,
            };
            if hyphen {
                self.out.hyphenated(name);
            } else {
                self.out.word(name);
            }
            let sign = !self.text[..self.at + len].ends_with(|c: char| c.is_ascii_alphabetic());
            self.at += len;
            if self.byte(0) == b'-' && self.byte(1).is_ascii_digit() {
                self.at += 1;
                self.out.word("to");
                return;
            }
            // A sign is no abbreviation: a dot behind it ends the sentence.
            if !sign {
                self.read_unit_dot();
            }
            return;
        }
        self.read_trailing_currency(one);
    }

    /// The dot after a unit in letters. Before a figure it ends the sentence too, unless a smaller
    /// unit goes on: `5 ft. 6 in.`
    fn read_unit_dot(&mut self) {
        let next = self.rest().strip_prefix(". ").and_then(Figure::parse);
        match next {
            Some(figure) if !self.unit_follows(2 + figure.len) => {
                self.at += 1;
                self.out.mark('.');
            }
            _ => self.read_abbreviation_dot(true),
        }
    }

    /// What hangs on a number without a space: `20-year`, `4K`, `133-A`, `4x4`.
    pub(super) fn read_glued_letters(&mut self) {
        let rest = self.rest();
        let word = leading_word(rest);
        if word.is_empty() {
            self.read_hyphen_after_number();
            return;
        }
        if matches!(word, "x" | "X") && byte_at(rest, 1).is_ascii_digit() {
            self.out.word("by");
            self.at += 1;
        } else if word.len() <= 3 && word.is_ascii() && !word.contains('\'') {
            self.say_letters(word);
            self.at += word.len();
        }
    }

    pub(super) fn read_hyphen_after_number(&mut self) {
        if self.byte(0) != b'-' {
            return;
        }
        let word = leading_word(&self.rest()[1..]);
        if word.is_empty() {
            return;
        }
        self.at += 1;
        // 133-A names a thing; 20-year makes one word.
        self.glue = word.chars().nth(1).is_some() || word == "a";
        if word == "A" {
            self.say_letters(word);
            self.at += 1;
        }
    }
}
