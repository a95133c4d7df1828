//! Figures in a text: what kind of number each is, decided by its shape and its neighbours.

use std::borrow::Cow;

use super::numbers;
use super::reader::{Expects, Reader, byte_at, leading_digits, leading_word, starts_upper};
use super::tables::{LabelReading, TABLES, UnitWhen, YearLead};

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
        }
        let grouped = len > first;
        let whole = if grouped {
            Cow::Owned(text[..len].replace(',', ""))
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

impl<'a> Reader<'a> {
    /// Says the number at the place reached, with whatever belongs to it.
    pub(super) fn read_figure(&mut self) {
        if self.read_numeric_date()
            || self.read_time()
            || self.read_digit_groups()
            || self.read_dotted_numbers()
            || self.read_fraction()
            || self.read_day_of_month()
            || self.read_ordinal_or_decade()
            || self.read_range()
        {
            return;
        }
        let Some(figure) = Figure::parse(self.rest()) else {
            // Callers come here only at a digit.
            self.at += 1;
            return;
        };
        if self.read_shillings_or_pence(&figure) {
            return;
        }
        let reading = self.reading(&figure);
        self.say(&reading);
        self.at += figure.len;
        self.expects = match self.expects {
            Expects::DayOrYear if figure.whole.len() <= 2 => Expects::Year,
            _ => Expects::Nothing,
        };
        if self.read_mixed_fraction() {
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
        if matches!(self.expects, Expects::DayOrYear | Expects::Year) {
            return digits.len() == 4;
        }
        let after = self.rest()[len..].trim_start_matches([' ', ',']);
        if ["B.C", "BC", "A.D", "AD ", "CE", "C.E"]
            .iter()
            .any(|era| after.starts_with(era))
        {
            return true;
        }
        let value = numbers::small(digits);
        let strength = TABLES.year_leads.get(lead);
        let next = self.rest()[len..]
            .strip_prefix(' ')
            .map_or("", leading_word);
        if digits.len() == 3 {
            // "in 605 Nabopolassar died", but "in 605 cases".
            return strength == Some(&YearLead::Sure) && !next.starts_with(char::is_lowercase);
        }
        if self.unit_follows(len) || self.is_counted(next) {
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
            let initial = word.len() == 1 && matches!(word, "N" | "S" | "E" | "W");
            if TABLES.street_words.contains(word) || initial {
                return true;
            }
            rest = next[word.len()..].trim_start_matches('.');
        }
        false
    }

    /// `555-1234`, `1-800-555-0199`, `123-45-6789`: telephone numbers and the like.
    fn read_digit_groups(&mut self) -> bool {
        let text = self.rest();
        let mut groups = Vec::new();
        let mut len = 0;
        loop {
            let digits = leading_digits(&text[len..]);
            if digits == 0 {
                return false;
            }
            groups.push(&text[len..len + digits]);
            len += digits;
            if byte_at(text, len) != b'-' || !byte_at(text, len + 1).is_ascii_digit() {
                break;
            }
            len += 1;
        }
        let label = match groups.as_slice() {
            [_] => return false,
            [area, line] => area.len() == 3 && line.len() == 4 && !line.ends_with("00"),
            _ => true,
        };
        if !label || byte_at(text, len) == b',' && byte_at(text, len + 1).is_ascii_digit() {
            return false;
        }
        for (index, group) in groups.iter().enumerate() {
            if index > 0 {
                self.out.mark(',');
            }
            self.out.word(&numbers::by_digit(group));
        }
        self.at += len;
        self.expects = Expects::Nothing;
        true
    }

    /// `1.2.3`, `192.168.0.1`: versions and addresses, never a decimal.
    fn read_dotted_numbers(&mut self) -> bool {
        let text = self.rest();
        let mut len = leading_digits(text);
        let mut dots = 0;
        while byte_at(text, len) == b'.' && byte_at(text, len + 1).is_ascii_digit() {
            dots += 1;
            len += 1 + leading_digits(&text[len + 1..]);
        }
        if dots < 2 || leading_digits(text) == 0 {
            return false;
        }
        for (index, part) in text[..len].split('.').enumerate() {
            if index > 0 {
                self.out.word("point");
            }
            self.out.word(&numbers::cardinal(part));
        }
        self.at += len;
        self.expects = Expects::Nothing;
        true
    }

    /// The two numbers of `3/4` at `offset`, and the bytes they take.
    fn fraction_at(&self, offset: usize) -> Option<(&'a str, &'a str, usize)> {
        let text = &self.rest()[offset..];
        let above = leading_digits(text);
        if above == 0 || byte_at(text, above) != b'/' {
            return None;
        }
        let below = leading_digits(&text[above + 1..]);
        let len = above + 1 + below;
        if below == 0 || byte_at(text, len) == b'/' {
            return None;
        }
        Some((&text[..above], &text[above + 1..len], len))
    }

    fn read_fraction(&mut self) -> bool {
        let Some((above, below, len)) = self.fraction_at(0) else {
            return false;
        };
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
        self.at += len;
        self.expects = Expects::Nothing;
        self.read_unit(proper);
        self.read_glued_letters();
        true
    }

    /// The ` 1/2` after the whole number of `2 1/2`.
    fn read_mixed_fraction(&mut self) -> bool {
        if !matches!(self.byte(0), b' ' | b'-') {
            return false;
        }
        let Some((above, below, len)) = self.fraction_at(1) else {
            return false;
        };
        let (numerator, denominator) = (numbers::small(above), numbers::small(below));
        if below.len() > 3 || !(1..denominator).contains(&numerator) {
            return false;
        }
        self.out.word("and");
        let reading = numbers::fraction(above, below);
        match reading.strip_prefix("one ") {
            Some(part @ ("half" | "quarter")) => self.out.word(&format!("a {part}")),
            _ => self.out.word(&reading),
        }
        self.at += 1 + len;
        true
    }

    /// `22nd`, `1960s`, `'90s`, `1800's`.
    fn read_ordinal_or_decade(&mut self) -> bool {
        let Some(figure) = Figure::parse(self.rest()) else {
            return false;
        };
        if !figure.fraction.is_empty() {
            return false;
        }
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
            return true;
        }
        let bare = after.strip_prefix('\'').unwrap_or(after);
        if leading_word(bare) == "s" && digits.ends_with('0') && !figure.grouped {
            if self.is_shillings(&figure) {
                return false;
            }
            let reading = match digits.len() {
                4 => numbers::year(digits),
                _ => numbers::cardinal(digits),
            };
            self.say(&numbers::plural(reading));
            self.at += figure.len + (after.len() - bare.len()) + 1;
            self.expects = Expects::Nothing;
            self.read_hyphen_after_number();
            return true;
        }
        false
    }

    /// `10-12`, `1914-18`: says the first number and "to"; the second follows as any number does.
    fn read_range(&mut self) -> bool {
        let Some(first) = Figure::parse(self.rest()) else {
            return false;
        };
        let after = &self.rest()[first.len..];
        let Some(second) = after.strip_prefix('-').and_then(Figure::parse) else {
            return false;
        };
        if first.whole.is_empty() || second.whole.is_empty() {
            return false;
        }
        // 2-1/2 is a mixed number.
        if byte_at(after, 1 + second.len) == b'/' {
            return false;
        }
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
                self.out.word(&numbers::cardinal(&second.whole));
            } else {
                self.out.word(&numbers::year(&second.whole));
            }
            self.at += first.len + 1 + second.len;
            self.expects = Expects::Nothing;
            self.read_glued_letters();
            return true;
        }
        let expects = self.expects;
        self.say(&first.spoken());
        self.out.word("to");
        self.at += first.len + 1;
        self.read_figure();
        if expects == Expects::DayOrYear {
            self.expects = Expects::Year;
        }
        true
    }

    fn word_after(&self, offset: usize) -> &'a str {
        self.rest()[offset..]
            .strip_prefix(' ')
            .map_or("", leading_word)
    }

    /// A unit at `offset`: its row, and the bytes up to its end, without a dot.
    fn unit_at(&self, offset: usize) -> Option<(&'static super::tables::Unit, usize)> {
        let text = &self.rest()[offset..];
        let gap = match byte_at(text, 0) {
            b' ' | b'-' => 1,
            _ => 0,
        };
        let written = &text[gap..];
        let end = written
            .char_indices()
            .find(|(_, c)| {
                !(c.is_ascii_alphabetic() || matches!(c, '°' | '%' | '‰' | 'µ' | 'Ω' | '/'))
            })
            .map_or(written.len(), |(at, _)| at);
        let name = &written[..end];
        if name.is_empty() || end > 8 {
            return None;
        }
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
        if !sign && (next.is_alphanumeric() || matches!(next, '\'' | '@' | '&')) {
            return None;
        }
        let fits = match unit.when {
            UnitWhen::Any => true,
            UnitWhen::Dot => next == '.',
            UnitWhen::Glued => gap == 0,
            UnitWhen::Spaced => gap == 1 && byte_at(text, 0) == b' ',
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
            let name = if one || hyphen { unit.one } else { unit.many };
            if hyphen {
                self.out.hyphenated(name);
            } else {
                self.out.word(name);
            }
            self.at += len;
            self.read_abbreviation_dot(true);
            return;
        }
        self.read_trailing_currency(one);
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

    fn read_hyphen_after_number(&mut self) {
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
