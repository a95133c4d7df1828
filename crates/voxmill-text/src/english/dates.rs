//! Dates written in figures, days before months, and times of day.

use super::figures::Figure;
use super::numbers;
use super::reader::{EnglishReader, Expects, byte_at, leading_digits, leading_word, starts_upper};
use super::tables::{Month, TABLES};
use crate::reject_if;

/// The name of the month with this number.
fn month_name(number: usize) -> Option<&'static str> {
    let mut months = TABLES.months.values();
    months
        .find(|month| month.number == number)
        .map(|month| month.spoken)
}

/// The month a word names, if it is written with a capital.
pub(super) fn month_of(word: &str) -> Option<Month> {
    reject_if(!starts_upper(word) || word.len() > 9)?;
    TABLES.months.get(&*word.to_ascii_lowercase()).copied()
}

impl EnglishReader<'_> {
    /// `12/25/1999`, `25.12.1999`, `1999-12-25`: month, day, year. Where the first number cannot be
    /// a month the day comes first.
    pub(super) fn read_numeric_date(&mut self) -> Option<()> {
        let text = self.rest();
        let first = leading_digits(text);
        let separator = byte_at(text, first);
        reject_if(first == 0 || !matches!(separator, b'/' | b'-' | b'.'))?;
        let mut parts = [""; 3];
        let mut len = 0;
        for (index, part) in parts.iter_mut().enumerate() {
            if index > 0 {
                reject_if(byte_at(text, len) != separator)?;
                len += 1;
            }
            let digits = leading_digits(&text[len..]);
            reject_if(!(1..=4).contains(&digits))?;
            *part = &text[len..len + digits];
            len += digits;
        }
        let more = byte_at(text, len) == separator && byte_at(text, len + 1).is_ascii_digit();
        reject_if(more || byte_at(text, len).is_ascii_alphabetic())?;
        let (year, mut month, mut day) = match separator {
            b'/' if parts[0].len() < 4 => (parts[2], parts[0], parts[1]),
            b'.' if parts[2].len() == 4 => (parts[2], parts[1], parts[0]),
            b'.' => return None,
            _ => (parts[0], parts[1], parts[2]),
        };
        reject_if(year.len() != 4 && (separator != b'/' || year.len() != 2))?;
        if numbers::small(month) > 12 && separator == b'/' {
            (month, day) = (day, month);
        }
        let name = month_name(numbers::small(month))?;
        reject_if(!(1..=31).contains(&numbers::small(day)))?;
        self.out.word(&format!("{name} {}", numbers::cardinal(day)));
        self.out.mark(',');
        if year.len() == 2 && year.starts_with('0') {
            self.out.word("oh");
        }
        self.out.word(&numbers::year(year));
        self.pass_number(len);
        Some(())
    }

    /// `4 July 1776`: the fourth of July.
    pub(super) fn read_day_of_month(&mut self) -> Option<()> {
        let digits = leading_digits(self.rest());
        let day = &self.rest()[..digits];
        reject_if(
            !(1..=2).contains(&digits)
                || !(1..=31).contains(&numbers::small(day))
                || self.expects != Expects::Nothing
                || self.glue,
        )?;
        let after = self.rest()[digits..].strip_prefix(' ')?;
        reject_if(month_of(leading_word(after)).is_none())?;
        if !self.word_before().eq_ignore_ascii_case("the") {
            self.out.word("the");
        }
        self.out.word(&numbers::ordinal(day));
        self.out.word("of");
        self.at += digits;
        Some(())
    }

    /// `3:30`, `14:05`, `12:00`, `1:22:05`; `2:1` is a ratio.
    pub(super) fn read_time(&mut self) -> Option<()> {
        let text = self.rest();
        let hours = leading_digits(text);
        reject_if(!(1..=2).contains(&hours) || byte_at(text, hours) != b':')?;
        let minutes = leading_digits(&text[hours + 1..]);
        let mut len = hours + 1 + minutes;
        reject_if(minutes == 0 || byte_at(text, len) == b':' && byte_at(text, len + 1) == b':')?;
        let (hour, minute) = (&text[..hours], &text[hours + 1..len]);
        // 1:50,000 is the scale of a map.
        let second = Figure::parse(&text[hours + 1..])
            .filter(|figure| figure.grouped && text[len..].starts_with(','));
        let is_time = minutes == 2 && numbers::small(hour) <= 24 && numbers::small(minute) <= 59;
        if second.is_some() || !is_time {
            reject_if(minutes > 3 && second.is_none())?;
            let below = match second {
                Some(figure) => {
                    len = hours + 1 + figure.len;
                    figure.spoken()
                }
                None => numbers::cardinal(minute),
            };
            self.out
                .word(&format!("{} to {below}", numbers::cardinal(hour)));
            self.pass_number(len);
            return Some(());
        }
        let mut second = "";
        if byte_at(text, len) == b':' && leading_digits(&text[len + 1..]) == 2 {
            second = &text[len + 1..len + 3];
            len += 3;
        }
        self.pass_number(len);
        self.out.word(&numbers::cardinal(hour));
        match numbers::small(minute) {
            0 if !second.is_empty() => {}
            0 if numbers::small(hour) > 12 || hour.starts_with('0') => self.out.word("hundred"),
            0 if self.half_of_day_follows() => {}
            0 => self.out.word("o'clock"),
            1..=9 => self.out.word(&format!("oh {}", numbers::cardinal(minute))),
            _ => self.out.word(&numbers::cardinal(minute)),
        }
        if !second.is_empty() {
            let ending = if numbers::small(second) == 1 { "" } else { "s" };
            let seconds = numbers::cardinal(second);
            self.out.word(&format!("and {seconds} second{ending}"));
        }
        if self.half_of_day_follows() {
            self.read_unit(false);
        }
        if self.byte(0) == b'-' && self.byte(1).is_ascii_digit() {
            self.at += 1;
            self.out.word("to");
        }
        self.read_glued_letters();
        Some(())
    }

    /// Whether a.m., p.m. or "o'clock" comes next, in any of their spellings.
    fn half_of_day_follows(&self) -> bool {
        let next = self.rest().trim_start_matches(' ').as_bytes();
        match next {
            [b'a' | b'p' | b'A' | b'P', b'.', b'm' | b'M', ..] => true,
            [b'a' | b'p' | b'A' | b'P', b'm' | b'M', rest @ ..] => {
                !rest.first().is_some_and(u8::is_ascii_alphanumeric)
            }
            _ => next.starts_with(b"o'clock"),
        }
    }
}
