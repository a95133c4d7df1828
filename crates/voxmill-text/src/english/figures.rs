//! Figures in a text: what kind of number each is, decided by its shape and its neighbours.

use std::borrow::Cow;

use super::numbers;
use super::reader::{
    EnglishReader, Expects, byte_at, capitalised, leading_digits, leading_word, starts_upper,
};
use super::tables::{LabelReading, TABLES, YearLead};
use crate::reject_if;

/// Bytes of the groups of a number parted by spaces: up to 10²⁴.
const MOST_SPACED: usize = 32;

/// A number as written: `1,234.5` has the digits `1234`, is grouped, and has the fraction `5`.
#[derive(Debug)]
pub(super) struct Figure<'a> {
    pub(super) whole: Cow<'a, str>,
    pub(super) grouped: bool,
    pub(super) fraction: &'a str,
    /// Bytes it takes.
    pub(super) len: usize,
}

impl<'a> Figure<'a> {
    /// The figure at the beginning of `text`, if there is one.
    pub(super) fn parse(text: &'a str) -> Option<Self> {
        let first = leading_digits(text);
        let mut len = first;
        if (1..=3).contains(&first) {
            while byte_at(text, len) == b',' && leading_digits(&text[len + 1..]) == 3 {
                len += 4;
            }
            if len == first {
                len += spaced_groups(&text[len..]);
            }
        }
        let grouped = len > first;
        let whole = if grouped {
            Cow::Owned(text[..len].replace([',', ' '], ""))
        } else {
            Cow::Borrowed(&text[..len])
        };
        let mut fraction = "";
        if byte_at(text, len) == b'.' {
            let digits = leading_digits(&text[len + 1..]);
            fraction = &text[len + 1..len + 1 + digits];
            if digits > 0 {
                len += 1 + digits;
            }
        }
        (len > 0).then_some(Figure {
            whole,
            grouped,
            fraction,
            len,
        })
    }

    pub(super) fn is_one(&self) -> bool {
        self.whole == "1" && self.fraction.is_empty()
    }

    /// As a quantity. A whole number with leading zeros is a code.
    pub(super) fn spoken(&self) -> String {
        if !self.fraction.is_empty() {
            numbers::decimal(&self.whole, self.fraction)
        } else if self.is_code() {
            numbers::by_digit(&self.whole)
        } else {
            numbers::cardinal(&self.whole)
        }
    }

    fn is_code(&self) -> bool {
        self.whole.len() > 1 && self.whole.starts_with('0')
    }
}

impl<'a> EnglishReader<'a> {
    /// Says the number at the place reached, with whatever belongs to it.
    pub(super) fn read_figure(&mut self) {
        if self.read_numeric_date().is_some()
            || self.read_time().is_some()
            || self.read_digit_groups().is_some()
            || self.read_dotted_numbers().is_some()
            || self.read_fraction().is_some()
            || self.read_day_of_month().is_some()
            || self.read_ordinal_or_decade().is_some()
            || self.read_range().is_some()
        {
            return;
        }
        let Some(figure) = Figure::parse(self.rest()) else {
            // Callers come here only at a digit.
            self.at += 1;
            return;
        };
        if self.read_shillings_or_pence(&figure).is_some() {
            return;
        }
        let house = self.house_follows(figure.len);
        let reading = self.reading(&figure);
        self.say(&reading);
        self.at += figure.len;
        self.expects = match self.expects {
            Expects::DayOrYear if figure.whole.len() <= 2 => Expects::Year,
            _ => Expects::Nothing,
        };
        if house {
            // The W in "214 W. Neely Street" is no watt.
            return;
        }
        if !figure.fraction.is_empty() && self.read_exponent().is_some() {
            return;
        }
        if self.read_mixed_fraction().is_some() {
            self.read_unit(false);
        } else {
            self.read_unit(figure.is_one());
        }
        self.read_glued_letters();
    }

    /// How a plain figure is read here.
    fn reading(&mut self, figure: &Figure<'_>) -> String {
        let digits = figure.whole.as_ref();
        if !figure.fraction.is_empty() {
            let caliber = digits.is_empty() && TABLES.calibers.contains(figure.fraction);
            return if caliber && !self.unit_follows(figure.len) {
                numbers::pairs(figure.fraction)
            } else {
                figure.spoken()
            };
        }
        let lead = self.word_before().to_ascii_lowercase();
        if digits.len() > 2
            && let Some(reading) = TABLES.digit_leads.get(lead.as_str())
        {
            match reading {
                LabelReading::Digits => return numbers::by_digit(digits),
                LabelReading::Pairs if !figure.grouped => return numbers::pairs(digits),
                LabelReading::Pairs if digits.len() > 6 => return numbers::by_digit(digits),
                LabelReading::Pairs => {}
            }
        }
        if figure.grouped || figure.is_code() {
            return figure.spoken();
        }
        if self.is_year(digits, figure.len, &lead) {
            numbers::year(digits)
        } else if digits.len() > 2 && digits.len() < 6 && self.house_follows(figure.len) {
            numbers::pairs(digits)
        } else {
            numbers::cardinal(digits)
        }
    }

    fn is_year(&self, digits: &str, len: usize, lead: &str) -> bool {
        if !(3..=4).contains(&digits.len()) {
            return false;
        }
        let after = self.rest()[len..].trim_start_matches([' ', ',']);
        if ["B.C", "BC", "A.D", "AD ", "CE", "C.E"]
            .iter()
            .any(|era| after.starts_with(era))
        {
            return true;
        }
        if matches!(self.expects, Expects::DayOrYear | Expects::Year) {
            return digits.len() == 4;
        }
        let value = numbers::small(digits);
        let strength = TABLES.year_leads.get(lead);
        let next = self.word_after(len);
        if digits.len() == 3 {
            // "in 605 Nabopolassar died", but "in 605 cases".
            return strength == Some(&YearLead::Sure)
                && (!next.starts_with(char::is_lowercase) || starts_clause(next));
        }
        if self.unit_follows(len) || strength != Some(&YearLead::Sure) && self.is_counted(next) {
            return false;
        }
        match value {
            1100..=2099 => true,
            1000..=1099 => strength.is_some(),
            2100..=2199 => strength == Some(&YearLead::Sure),
            _ => false,
        }
    }

    /// Whether the word after a number says that things were counted.
    fn is_counted(&self, next: &str) -> bool {
        next.starts_with(char::is_lowercase)
            && (TABLES.counted.contains(next)
                || (next.len() > 2 && next.ends_with('s') && !TABLES.singular_s.contains(next)))
    }

    /// `1026 North Beckley`: a word of addresses among the next three capitalised ones.
    fn house_follows(&self, len: usize) -> bool {
        let mut rest = &self.rest()[len..];
        for _ in 0..4 {
            let Some(next) = rest.strip_prefix(' ') else {
                return false;
            };
            let word = leading_word(next);
            let ordinal = leading_digits(next);
            if ordinal > 0 {
                rest = next[ordinal..].trim_start_matches(|c: char| c.is_ascii_lowercase());
                continue;
            }
            if !starts_upper(word) {
                return false;
            }
            rest = next[word.len()..].trim_start_matches('.');
            let quarter = matches!(word, "N" | "S" | "E" | "W")
                && rest.strip_prefix(' ').is_some_and(starts_upper);
            if TABLES.street_words.contains(word) || quarter {
                return true;
            }
        }
        false
    }

    /// `22nd`, `1960s`, `'90s`, `1800's`.
    fn read_ordinal_or_decade(&mut self) -> Option<()> {
        let figure = Figure::parse(self.rest())?;
        reject_if(!figure.fraction.is_empty())?;
        let digits = figure.whole.as_ref();
        let after = &self.rest()[figure.len..];
        let letters = leading_word(after);
        let suffix = letters.to_ascii_lowercase();
        if matches!(suffix.as_str(), "st" | "nd" | "rd" | "th") {
            self.say(&numbers::ordinal(digits));
            self.at += figure.len + letters.len();
            self.expects = match self.expects {
                Expects::DayOrYear => Expects::Year,
                _ => Expects::Nothing,
            };
            self.read_hyphen_after_number();
            return Some(());
        }
        let bare = after.strip_prefix('\'').unwrap_or(after);
        // Under-18s
        let on_word = self.text[..self.at]
            .strip_suffix('-')
            .is_some_and(|before| before.ends_with(char::is_alphabetic));
        if leading_word(bare) == "s" && (digits.ends_with('0') || on_word) && !figure.grouped {
            reject_if(self.is_shillings(&figure))?;
            let reading = match digits.len() {
                4 => numbers::year(digits),
                _ => numbers::cardinal(digits),
            };
            self.say(&numbers::plural(reading));
            self.pass_number(figure.len + (after.len() - bare.len()) + 1);
            self.read_hyphen_after_number();
            return Some(());
        }
        None
    }

    /// `10-12`, `1914-18`: says the first number and "to"; the second follows as any number does.
    fn read_range(&mut self) -> Option<()> {
        let first = Figure::parse(self.rest())?;
        let after = &self.rest()[first.len..];
        let second = after.strip_prefix('-').and_then(Figure::parse)?;
        // 2-1/2 is a mixed number.
        let is_mixed = byte_at(after, 1 + second.len) == b'/';
        reject_if(first.whole.is_empty() || second.whole.is_empty() || is_mixed)?;
        let year = |figure: &Figure<'_>| {
            !figure.grouped
                && figure.fraction.is_empty()
                && figure.whole.len() == 4
                && (1000..2100).contains(&numbers::small(&figure.whole))
        };
        if year(&first)
            && (year(&second) || second.whole.len() == 2 && second.fraction.is_empty())
            && !self.is_counted(self.word_after(first.len + 1 + second.len))
        {
            self.say(&numbers::year(&first.whole));
            self.out.word("to");
            if second.whole.len() == 2 {
                if second.whole.starts_with('0') {
                    self.out.word("oh");
                }
                let reading = numbers::cardinal(&second.whole);
                let decade =
                    second.whole.ends_with('0') && leading_word(&after[1 + second.len..]) == "s";
                if decade {
                    self.out.word(&numbers::plural(reading));
                    self.at += 1;
                } else {
                    self.out.word(&reading);
                }
            } else {
                self.out.word(&numbers::year(&second.whole));
            }
            self.pass_number(first.len + 1 + second.len);
            self.read_glued_letters();
            return Some(());
        }
        self.say(&first.spoken());
        if first.whole == "50" && second.whole == "50" {
            self.out.hyphenated("fifty");
            self.at += first.len + 1 + second.len;
            return Some(());
        }
        self.out.word("to");
        // The second number is read by the next step, not from here: a chain of ranges must not
        // nest. What was expected of the first is still expected of it: "May 10-12, 1963".
        self.at += first.len + 1;
        Some(())
    }

    fn word_after(&self, offset: usize) -> &'a str {
        self.rest()[offset..]
            .strip_prefix(' ')
            .map_or("", leading_word)
    }
}

/// The bytes of ` 000 000` and the like. Only round numbers: others may be two numbers in a row.
fn spaced_groups(text: &str) -> usize {
    let mut len = 0;
    let mut round = 0;
    while len < MOST_SPACED && byte_at(text, len) == b' ' && leading_digits(&text[len + 1..]) == 3 {
        len += 4;
        if &text[len - 3..len] == "000" {
            round = len;
        }
    }
    if round == len { len } else { 0 }
}

/// "in 538 the city fell": a word that begins a clause cannot be what was counted.
fn starts_clause(word: &str) -> bool {
    !word.is_empty() && TABLES.sentence_starts.contains(&*capitalised(word))
}
