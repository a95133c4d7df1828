//! Phones written into the text: `say {HH AH0 L OW1} twice`.
//!
//! They are split off before anything else looks at the text. Braces that hold no phones are a
//! mistake or a stage direction: they are reported, and what they hold is read as plain text.

use std::borrow::Cow;

use super::phonemes::{Phone, UnknownPhone, parse_phones};

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece {
    Text(String),
    Phones(Vec<Phone>),
}

/// What is wrong with phones that are written in a text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InlineProblem {
    #[error("a brace is opened and not closed")]
    NotClosed,
    #[error("a brace is closed and was not opened")]
    NotOpened,
    #[error("braces with no phones in them")]
    Empty,
    #[error("`{{{written}}}` is read as plain text: {cause}")]
    Phone {
        written: String,
        cause: UnknownPhone,
    },
    /// Not of phones, but seen at the same place.
    #[error("the word `{begins}…` has {letters} letters: only the first {LONGEST_WORD} are read")]
    LongWord { begins: String, letters: usize },
}

/// Letters and digits in a row. What is longer is no word (a key, a picture, a jammed keyboard), and must
/// not become a hundred thousand tokens.
pub(super) const LONGEST_WORD: usize = 1_000;

/// The text without what is beyond a thousand letters of any word, and those words.
pub fn cut_long_words(text: &str) -> (Cow<'_, str>, Vec<InlineProblem>) {
    // Most texts have fewer bytes than such a word has letters.
    if text.len() <= LONGEST_WORD {
        return (Cow::Borrowed(text), Vec::new());
    }
    let (mut kept, mut problems) = (String::with_capacity(text.len()), Vec::new());
    let is_part = |c: char| c.is_alphanumeric() || is_mark_in_word(c);
    for run in text.split_inclusive(|c| !is_part(c)) {
        let word = run.trim_end_matches(|c| !is_part(c));
        match word.char_indices().nth(LONGEST_WORD) {
            None => kept.push_str(run),
            Some((end, _)) => {
                kept.push_str(&word[..end]);
                kept.push_str(&run[word.len()..]);
                problems.push(InlineProblem::LongWord {
                    begins: word.chars().take(20).collect(),
                    letters: word.chars().count(),
                });
            }
        }
    }
    match problems.is_empty() {
        true => (Cow::Borrowed(text), problems),
        false => (Cow::Owned(kept), problems),
    }
}

/// Apostrophes, joiners and accents stand inside words.
fn is_mark_in_word(c: char) -> bool {
    matches!(c, '\'' | '’' | '\u{200c}' | '\u{200d}' | '\u{300}'..='\u{36f}' | '\u{64b}'..='\u{65f}')
}

/// The pieces of a text, with neighbouring plain ones joined.
pub(super) fn split(text: &str) -> (Vec<Piece>, Vec<InlineProblem>) {
    let (mut pieces, mut problems) = (Vec::new(), Vec::new());
    let mut plain = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(['{', '}']) {
        plain.push_str(&rest[..at]);
        let (brace, after) = rest[at..].split_at(1);
        rest = after;
        let inside = match after.find(['{', '}']) {
            _ if brace == "}" => Err(InlineProblem::NotOpened),
            Some(end) if after[end..].starts_with('}') => Ok(&after[..end]),
            _ => Err(InlineProblem::NotClosed),
        };
        let phones = inside.and_then(|inside| match parse_phones(inside) {
            Ok(phones) if phones.is_empty() => Err(InlineProblem::Empty),
            Ok(phones) => Ok((inside.len(), phones)),
            Err(cause) => Err(InlineProblem::Phone {
                written: inside.to_owned(),
                cause,
            }),
        });
        match phones {
            Ok((length, phones)) => {
                if !plain.is_empty() {
                    pieces.push(Piece::Text(std::mem::take(&mut plain)));
                }
                pieces.push(Piece::Phones(phones));
                rest = &after[length + 1..];
            }
            Err(problem) => {
                // The closing brace of braces already reported is no problem of its own.
                if matches!(problem, InlineProblem::Phone { .. } | InlineProblem::Empty)
                    && let Some(end) = after.find('}')
                {
                    plain.push(' ');
                    plain.push_str(&after[..end]);
                    rest = &after[end + 1..];
                }
                plain.push(' ');
                problems.push(problem);
            }
        }
    }
    plain.push_str(rest);
    if !plain.is_empty() {
        pieces.push(Piece::Text(plain));
    }
    (pieces, problems)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phones_are_split_off() {
        let (pieces, problems) = split("say {HH AH0 L OW1}, twice");
        assert_eq!(problems, []);
        assert_eq!(
            pieces,
            [
                Piece::Text("say ".to_owned()),
                Piece::Phones(parse_phones("HH AH0 L OW1").unwrap()),
                Piece::Text(", twice".to_owned()),
            ]
        );
    }

    #[test]
    fn braces_without_phones_are_plain_text_and_a_problem() {
        for (text, plain, problem) in [
            ("a {b", "a  b", InlineProblem::NotClosed),
            ("a }b", "a  b", InlineProblem::NotOpened),
            ("a {}b", "a   b", InlineProblem::Empty),
        ] {
            let pieces = vec![Piece::Text(plain.to_owned())];
            assert_eq!(split(text), (pieces, vec![problem]));
        }
        let (pieces, problems) = split("he {laughs} {K AE1 T");
        assert_eq!(pieces, [Piece::Text("he  laughs   K AE1 T".to_owned())]);
        assert_eq!(problems.len(), 2);
        assert!(problems[0].to_string().contains("`laughs` is not a phone"));
    }

    #[test]
    fn an_unclosed_brace_does_not_swallow_the_next() {
        let (pieces, problems) = split("x {y {K AE1 T}");
        assert_eq!(problems, [InlineProblem::NotClosed]);
        assert_eq!(pieces.len(), 2);
    }
}
