//! Several numbers that are read as one: telephone numbers, versions, fractions.

use super::numbers;
use super::reader::{EnglishReader, byte_at, leading_digits};
use crate::reject_if;

/// Groups of digits read at once; a longer chain is read in pieces, so that one that is refused
/// in the end was not searched from each of its numbers to its end.
const MOST_GROUPS: usize = 16;

/// Digits of a telephone number with the code of its country.
const SHORTEST_NUMBER: usize = 9;
const LONGEST_NUMBER: usize = 15;

impl<'a> EnglishReader<'a> {
    /// `555-1234`, `1-800-555-0199`, `123-45-6789`: telephone numbers and the like.
    pub(super) fn read_digit_groups(&mut self) -> Option<()> {
        let text = self.rest();
        let mut groups = Vec::new();
        let mut len = 0;
        loop {
            let digits = leading_digits(&text[len..]);
            reject_if(digits == 0)?;
            groups.push(&text[len..len + digits]);
            len += digits;
            let more = byte_at(text, len) == b'-' && byte_at(text, len + 1).is_ascii_digit();
            if !more || groups.len() == MOST_GROUPS {
                break;
            }
            len += 1;
        }
        let label = match groups.as_slice() {
            [_] => return None,
            // 1-800-FLOWERS
            ["1", area] if area.len() == 3 => {
                byte_at(text, len) == b'-' && byte_at(text, len + 1).is_ascii_uppercase()
            }
            [area, line] => area.len() == 3 && line.len() == 4 && !line.ends_with("00"),
            _ => true,
        };
        reject_if(!label || byte_at(text, len) == b',' && byte_at(text, len + 1).is_ascii_digit())?;
        self.say_groups(&groups);
        self.pass_number(len);
        if self.byte(0) == b'-' && self.byte(1).is_ascii_alphanumeric() {
            self.out.mark(',');
        }
        Some(())
    }

    /// `+44 20 7946 0958`: a telephone number with the code of its country.
    pub(super) fn read_number_abroad(&mut self) -> Option<()> {
        let text = &self.rest()[1..];
        let mut groups = Vec::new();
        let (mut len, mut total) = (0, 0);
        while total < LONGEST_NUMBER {
            let gap = usize::from(len > 0 && matches!(byte_at(text, len), b' ' | b'-'));
            let digits = leading_digits(&text[len + gap..]);
            if digits == 0 || len > 0 && gap == 0 {
                break;
            }
            groups.push(&text[len + gap..len + gap + digits]);
            len += gap + digits;
            total += digits;
        }
        reject_if(!(SHORTEST_NUMBER..=LONGEST_NUMBER).contains(&total))?;
        self.out.word("plus");
        self.say_groups(&groups);
        self.pass_number(1 + len);
        Some(())
    }

    fn say_groups(&mut self, groups: &[&str]) {
        for (index, group) in groups.iter().enumerate() {
            if index > 0 {
                self.out.mark(',');
            }
            self.out.word(&numbers::by_digit(group));
        }
    }

    /// The `e-3` of `1.5e-3`.
    pub(super) fn read_exponent(&mut self) -> Option<()> {
        reject_if(!matches!(self.byte(0), b'e' | b'E'))?;
        let sign = matches!(self.byte(1), b'-' | b'+');
        let start = 1 + usize::from(sign);
        let digits = leading_digits(&self.rest()[start..]);
        let end = start + digits;
        reject_if(!(1..=3).contains(&digits) || self.byte(end).is_ascii_alphanumeric())?;
        self.out.word("times ten to the power of");
        if self.byte(1) == b'-' {
            self.out.word("minus");
        }
        self.out.word(&numbers::cardinal(&self.rest()[start..end]));
        self.at += end;
        Some(())
    }

    /// `1.2.3`, `192.168.0.1`: versions and addresses, never a decimal.
    pub(super) fn read_dotted_numbers(&mut self) -> Option<()> {
        let text = self.rest();
        let mut len = leading_digits(text);
        let mut dots = 0;
        while byte_at(text, len) == b'.' && byte_at(text, len + 1).is_ascii_digit() {
            dots += 1;
            len += 1 + leading_digits(&text[len + 1..]);
        }
        reject_if(dots < 2 || leading_digits(text) == 0)?;
        let parts: Vec<_> = text[..len].split('.').map(numbers::cardinal).collect();
        self.out.word(&parts.join(" point "));
        self.pass_number(len);
        Some(())
    }

    /// The two numbers of `3/4` at `offset`, and the bytes they take.
    fn fraction_at(&self, offset: usize) -> Option<(&'a str, &'a str, usize)> {
        let text = &self.rest()[offset..];
        let above = leading_digits(text);
        reject_if(above == 0 || byte_at(text, above) != b'/')?;
        let below = leading_digits(&text[above + 1..]);
        let len = above + 1 + below;
        reject_if(below == 0 || byte_at(text, len) == b'/')?;
        Some((&text[..above], &text[above + 1..len], len))
    }

    pub(super) fn read_fraction(&mut self) -> Option<()> {
        let (above, below, len) = self.fraction_at(0)?;
        let proper = above.len() < 5
            && below.len() < 5
            && (1..numbers::small(below)).contains(&numbers::small(above));
        let reading = if proper && (above, below) != ("9", "11") {
            numbers::fraction(above, below)
        } else {
            // 24/7, 9/11, 50/50
            format!("{} {}", numbers::cardinal(above), numbers::cardinal(below))
        };
        self.say(&reading);
        self.pass_number(len);
        self.read_unit(proper);
        self.read_glued_letters();
        Some(())
    }

    /// The ` 1/2` after the whole number of `2 1/2`.
    pub(super) fn read_mixed_fraction(&mut self) -> Option<()> {
        reject_if(!matches!(self.byte(0), b' ' | b'-'))?;
        let (above, below, len) = self.fraction_at(1)?;
        let (numerator, denominator) = (numbers::small(above), numbers::small(below));
        reject_if(below.len() > 3 || !(1..denominator).contains(&numerator))?;
        self.out.word("and");
        let reading = numbers::fraction(above, below);
        match reading.strip_prefix("one ") {
            Some(part @ ("half" | "quarter")) => self.out.word(&format!("a {part}")),
            _ => self.out.word(&reading),
        }
        self.at += 1 + len;
        Some(())
    }
}
