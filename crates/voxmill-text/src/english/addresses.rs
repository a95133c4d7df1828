//! Addresses of the web and of mail, read so that a listener could type them.

use super::numbers;
use super::reader::{EnglishReader, leading_digits, leading_word};
use super::tables::TABLES;
use crate::reject_if;

/// Longer runs without a space are not read as addresses.
const LONGEST: usize = 256;

impl EnglishReader<'_> {
    /// `https://example.com/a`, `www.example.org`, `name@example.com`, `example.com`.
    pub(super) fn read_web_address(&mut self) -> Option<()> {
        let rest = self.rest();
        // Bounded, or a text without spaces would be searched to its end at every dot.
        let len = (rest.bytes().chain([b' ']))
            .take(LONGEST)
            .position(|byte| matches!(byte, b' ' | b',') || !byte.is_ascii())?;
        let token = &rest[..len];
        let token = token.trim_end_matches(['.', ';', ':', '?', '!', '\'', '/']);
        reject_if(!token.contains(['.', '@']))?;
        let address = token.split_once("://").map_or(token, |(_, rest)| rest);
        let named = token.len() != address.len() || token.starts_with("www.");
        reject_if(!(named || is_mail(address) || is_host(address)) || address.is_empty())?;
        self.at += token.len();
        if self.byte(0) == b'/' {
            self.at += 1;
        }
        self.glue = false;
        self.say_address(address);
        self.remember("");
        Some(())
    }

    /// The dot of `.NET` and of `file.txt`, with the ending of the latter.
    pub(super) fn read_dot_of_name(&mut self) -> Option<()> {
        let word = leading_word(&self.rest()[1..]);
        // In capitals only: "end .The" is a space in the wrong place.
        let name = word.len() > 1 && word.bytes().all(|letter| letter.is_ascii_uppercase());
        if self.before() == ' ' && name {
            self.at += 1;
            self.out.word("dot");
            return Some(());
        }
        let ends = !self.byte(1 + word.len()).is_ascii_alphanumeric();
        reject_if(
            !ends || !self.before().is_alphanumeric() || !TABLES.file_endings.contains(word),
        )?;
        self.out.word("dot");
        self.say_letters(word);
        self.at += 1 + word.len();
        self.remember("");
        Some(())
    }

    fn say_address(&mut self, address: &str) {
        let mut rest = address;
        while let Some(c) = rest.chars().next() {
            let digits = leading_digits(rest);
            let letters = rest.bytes().take_while(u8::is_ascii_alphabetic).count();
            let len = digits.max(letters).max(1);
            let part = &rest[..len];
            rest = &rest[len..];
            if digits > 2 || digits > 0 && c == '0' {
                self.out.word(&numbers::by_digit(part));
            } else if digits > 0 {
                self.out.word(&numbers::cardinal(part));
            } else if letters > 0 {
                let lower = part.to_ascii_lowercase();
                let is_word = lower.contains(['a', 'e', 'i', 'o', 'u', 'y'])
                    && !TABLES.abbreviations.contains_key(&*lower);
                if is_word && letters > 1 {
                    self.out.word(&lower);
                } else {
                    self.say_letters(part);
                }
            } else {
                self.out.word(match c {
                    '.' => "dot",
                    '/' => "slash",
                    '@' => "at",
                    '-' => "dash",
                    '_' => "underscore",
                    ':' => "colon",
                    '?' => "question mark",
                    '=' => "equals",
                    '&' => "and",
                    '#' => "hash",
                    '%' => "percent",
                    '+' => "plus",
                    '~' => "tilde",
                    _ => "",
                });
            }
        }
    }
}

fn is_mail(address: &str) -> bool {
    address.split_once('@').is_some_and(|(name, host)| {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | '+');
        !name.is_empty() && name.chars().all(plain) && host.contains('.') && host.chars().all(plain)
    })
}

/// Lower case only: "end.It" is a missing space.
fn is_host(address: &str) -> bool {
    let mut parts = address.split(['/', ':', '?', '#']);
    let host = parts.next().unwrap_or_default();
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let fits = |label: &str| label.len() > 1 && label.chars().all(plain);
    host.rsplit_once('.').is_some_and(|(labels, last)| {
        labels.split('.').all(fits) && TABLES.top_level_domains.contains(last)
    })
}
