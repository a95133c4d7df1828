//! Abbreviations in the contexts in which they are one.

use super::tables::{Abbreviation, Context, TABLES};
use super::{ZWNJ, is_letter, is_persian};
use crate::reject_if;

/// Replaces the abbreviations of `data/persian/abbreviations.tsv`. Digits must be ASCII already.
pub(super) fn expand(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    while at < chars.len() {
        let starts_word = at == 0 || !in_word(chars[at - 1]);
        let found = || {
            let all = TABLES.abbreviations.iter().rev();
            let here = all.filter_map(|it| Some((it, match_end(it, &chars, at)?)));
            // Of several the longest, so that ج.ا.ا is not taken for ج.ا.
            here.max_by_key(|(it, _)| it.written.len())
        };
        match starts_word.then(found).flatten() {
            Some((abbreviation, end)) => {
                out.push(' ');
                out.push_str(abbreviation.read);
                out.push(' ');
                at = end;
            }
            None => {
                out.push(chars[at]);
                at += 1;
            }
        }
    }
    out
}

fn in_word(c: char) -> bool {
    c == ZWNJ || is_letter(c)
}

/// Where the abbreviation ends if it stands at `at` in its context.
fn match_end(abbreviation: &Abbreviation, chars: &[char], at: usize) -> Option<usize> {
    if abbreviation.context == Context::InBrackets {
        reject_if(chars[at] != '(')?;
        let end = letters_end(&abbreviation.written, chars, skip_spaces(chars, at + 1))?;
        let end = skip_spaces(chars, end);
        return (chars.get(end) == Some(&')')).then_some(end + 1);
    }
    // A letter after a dot is a later part of some longer abbreviation (x.ق.م).
    reject_if(at >= 2 && chars[at - 1] == '.' && is_persian(chars[at - 2]))?;
    let end = letters_end(&abbreviation.written, chars, at)?;
    reject_if(chars.get(end).is_some_and(|c| in_word(*c)))?;
    let dotted = chars.get(end) == Some(&'.');
    // One letter more («ق.م.ا»): another abbreviation, not ours.
    reject_if(dotted && chars.get(end + 1).is_some_and(|c| is_persian(*c)))?;
    let after_dot = if dotted { end + 1 } else { end };
    match abbreviation.context {
        Context::BeforeNumber => {
            let number = skip_spaces(chars, after_dot);
            (number > end && chars.get(number).is_some_and(char::is_ascii_digit))
                .then_some(after_dot)
        }
        Context::AfterYear if !follows_year(chars, at) => None,
        // The last dot belongs to the abbreviation, except where it also ends the text.
        _ if skip_spaces(chars, after_dot) == chars.len() => Some(end),
        _ => Some(after_dot),
    }
}

/// Matches the letters and dots of `written`, allowing a space after each dot.
fn letters_end(written: &[char], chars: &[char], mut at: usize) -> Option<usize> {
    for (index, expected) in written.iter().enumerate() {
        if index > 0 && written[index - 1] == '.' {
            at = skip_spaces(chars, at);
        }
        reject_if(chars.get(at) != Some(expected))?;
        at += 1;
    }
    Some(at)
}

fn skip_spaces(chars: &[char], at: usize) -> usize {
    at + chars[at.min(chars.len())..]
        .iter()
        .take_while(|c| **c == ' ')
        .count()
}

/// Whether a number of three or four digits stands before `at`: with a space, or glued if it has
/// four (۱۹۴۵م is a year, ۱۰۰م is the hundredth).
fn follows_year(chars: &[char], at: usize) -> bool {
    let before: Vec<char> = chars[..at].iter().rev().copied().take(6).collect();
    let spaces = before.iter().take_while(|c| **c == ' ').count();
    let digits = before[spaces..]
        .iter()
        .take_while(|c| c.is_ascii_digit())
        .count();
    match spaces {
        0 => digits == 4,
        1 => digits == 3 || digits == 4,
        _ => false,
    }
}
