//! Folds the many ways to write a character into the few that the reader knows.
//!
//! After it a text holds letters with their combining marks, ASCII digits, single spaces, the marks
//! `, . ; : ? ! —`, hyphens, apostrophes, and the signs that are read as words. Everything else has
//! become one of these or a space. It looks at most a few characters around, so it costs one pass.

use std::borrow::Cow;

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

use super::reader::{byte_at, leading_digits};
use super::tables::TABLES;
use crate::digits::ascii_digit;

pub(super) fn clean(text: &str) -> Cow<'_, str> {
    if is_clean(text) {
        return Cow::Borrowed(text);
    }
    let mut cleaned = Cleaned {
        text: String::with_capacity(text.len() + 8),
    };
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let after = &rest[c.len_utf8()..];
        rest = cleaned.add(c, after);
    }
    Cow::Owned(cleaned.text)
}

/// Most transcripts are plain ASCII with nothing to fold.
fn is_clean(text: &str) -> bool {
    let mut before = b' ';
    text.bytes().all(|byte| {
        let doubled = byte == before && matches!(byte, b'-' | b'.' | b'\'');
        let feet = byte == b'\'' && before.is_ascii_digit();
        before = byte;
        !doubled && !feet && (byte.is_ascii_alphanumeric() || b" ,.;:?!'-$%&".contains(&byte))
    })
}

struct Cleaned {
    text: String,
}

impl Cleaned {
    fn last(&self) -> char {
        self.text.chars().next_back().unwrap_or(' ')
    }

    /// Adds `c` and returns what remains of the text after it and whatever it took along.
    fn add<'a>(&mut self, c: char, after: &'a str) -> &'a str {
        match c {
            'a'..='z' | 'A'..='Z' | '0'..='9' => self.text.push(c),
            ' ' | ',' | ';' | ':' | '?' | '!' | '/' | '_' | '~' | '*' => self.text.push(c),
            '.' | '…' => return self.add_dots(c, after),
            '-' | '‐'..='―' | '−' | '﹣' => return self.add_dash(c, after),
            '\'' | '’' | '‘' | '‛' | 'ʼ' | '`' | '´' | '′' => {
                return self.add_apostrophe(c, after);
            }
            '″' if self.last().is_ascii_digit() => self.text.push_str(" inches "),
            '(' | '[' => return self.open_bracket(after),
            '{' | '}' | ')' | ']' => self.text.push_str(", "),
            '⁄' | '∕' => self.text.push('/'),
            'μ' if after.starts_with(['m', 'g', 's']) => self.text.push('µ'),
            '²' if self.last().is_alphanumeric() => self.text.push_str(" squared "),
            '³' if self.last().is_alphanumeric() => self.text.push_str(" cubed "),
            '\u{ad}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2060}'
            | '\u{feff}'
            | '\u{fe00}'..='\u{fe0f}' => {}
            _ if TABLES.symbols.contains_key(&c) => self.text.push(c),
            _ if c.is_numeric() => return self.add_numeral(c, after),
            _ if has_plain_form(c) => {
                let before = self.text.len();
                for plain in std::iter::once(c).nfkc() {
                    if plain != c && !plain.is_numeric() && !has_plain_form(plain) {
                        self.add(plain, "");
                    }
                }
                if self.text.len() == before {
                    self.text.push(' ');
                }
            }
            _ if is_combining_mark(c) => {
                if self.last().is_alphabetic() || is_combining_mark(self.last()) {
                    self.text.push(c);
                }
            }
            _ if c.is_alphabetic() => self.text.push(c),
            _ => self.text.push(' '),
        }
        after
    }

    /// Dots in a row are a pause when the sentence goes on, and its end when not.
    fn add_dots<'a>(&mut self, first: char, after: &'a str) -> &'a str {
        let rest = after.trim_start_matches(['.', '…']);
        if first == '.' && rest.len() == after.len() {
            self.text.push('.');
            return after;
        }
        let goes_on = rest.trim_start().starts_with(char::is_lowercase);
        self.text.push_str(if goes_on { ", " } else { ". " });
        rest
    }

    /// A lone dash between two characters is a hyphen, a minus or "to"; others are a pause.
    fn add_dash<'a>(&mut self, first: char, after: &'a str) -> &'a str {
        let rest = after.trim_start_matches(['-', '‐', '‑', '‒', '–', '—', '―', '−', '﹣']);
        let single = rest.len() == after.len();
        let spaced = self.last() == ' ' || rest.starts_with(char::is_whitespace) || rest.is_empty();
        if single
            && (matches!(first, '-' | '‐' | '‑' | '−' | '﹣')
                || (!spaced && matches!(first, '‒' | '–')))
        {
            self.text.push('-');
        } else {
            self.text.push_str(" — ");
        }
        rest
    }

    /// Apostrophes stay; after a figure they may be feet, and two of them are a quotation mark.
    fn add_apostrophe<'a>(&mut self, first: char, after: &'a str) -> &'a str {
        if self.last().is_ascii_digit() {
            let (inches, rest) = after.split_at(leading_digits(after));
            if let Some(rest) = rest.strip_prefix(['"', '″', '”'])
                && (1..=2).contains(&inches.len())
            {
                self.text.push_str(&format!(" feet {inches} inches "));
                return rest;
            }
            if first == '′' {
                self.text.push_str(" feet ");
                return after;
            }
        }
        let rest = after.trim_start_matches(['\'', '’', '‘', '‛', 'ʼ', '`', '´', '′']);
        self.text
            .push(if rest.len() == after.len() { '\'' } else { ' ' });
        rest
    }

    /// Brackets are pauses, except around an area code and in `word(s)`.
    fn open_bracket<'a>(&mut self, after: &'a str) -> &'a str {
        if self.last().is_alphabetic()
            && let Some(rest) = after.strip_prefix("s)")
        {
            self.text.push('s');
            return rest;
        }
        if after.len() > 8 && leading_digits(after) == 3 && byte_at(after, 3) == b')' {
            let rest = after[4..].trim_start_matches(' ');
            if rest.len() > 4 && leading_digits(rest) == 3 && byte_at(rest, 3) == b'-' {
                self.text.push_str(&after[..3]);
                self.text.push('-');
                return rest;
            }
        }
        self.text.push_str(", ");
        after
    }

    /// Digits of other scripts, fractions in one character, superscripts, Roman numeral characters.
    fn add_numeral<'a>(&mut self, c: char, after: &'a str) -> &'a str {
        if let Some(digit) = ascii_digit(c) {
            self.text.push(digit);
            return after;
        }
        let power = is_superscript(c) && self.last().is_ascii_digit();
        if power {
            self.text.push_str(" to the power of ");
        }
        let mut rest = after;
        let mut written = std::iter::once(c).nfkc().collect::<String>();
        if is_superscript(c) {
            rest = after.trim_start_matches(is_superscript);
            written.extend(after[..after.len() - rest.len()].nfkc());
        }
        let fraction = written.contains('⁄');
        if (fraction || !written.is_ascii()) && self.last().is_ascii_digit() {
            self.text.push(' ');
        }
        let is_read = |c: char| c.is_ascii_alphanumeric();
        let plain = written.replace('⁄', "/");
        self.text
            .extend(plain.chars().filter(|c| is_read(*c) || *c == '/'));
        if fraction || !written.contains(is_read) {
            self.text.push(' ');
        }
        rest
    }
}

fn is_superscript(c: char) -> bool {
    matches!(c, '⁰' | '¹' | '²' | '³' | '⁴'..='⁹')
}

/// Characters that only dress up others: full width, ligatures, styled mathematical letters.
fn has_plain_form(c: char) -> bool {
    matches!(c, '\u{fb00}'..='\u{fb06}' | '\u{ff01}'..='\u{ff5e}' | '\u{2100}'..='\u{214f}' | '\u{1d400}'..='\u{1d7ff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folds_what_is_written_differently() {
        for (raw, expected) in [
            ("plain text, nothing to do.", "plain text, nothing to do."),
            ("٣٤ and ۷ and ７", "34 and 7 and 7"),
            ("3½ cups, ¾", "3 1/2  cups, 3/4 "),
            ("Ⅷ", "VIII"),
            ("“quoted” ‘it’s’", " quoted  'it's'"),
            ("10–12 – no—yes--well", "10-12  —  no — yes — well"),
            ("10⁶ m² x³", "10 to the power of 6 m squared  x cubed "),
            ("wait... what... No…", "wait,  what.  No. "),
            ("ﬁne ＡＢ", "fine AB"),
            ("soft\u{ad}ly ☃", "softly  "),
            (
                "6'2\" (555) 123-4567 item(s)",
                "6 feet 2 inches  555-123-4567 items",
            ),
        ] {
            assert_eq!(clean(raw), expected, "{raw}");
        }
    }
}
