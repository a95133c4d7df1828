//! Text on its way out. Ids, transcripts, names, paths and values were written by others, and a terminal
//! obeys some characters: `ESC ] 52` sets the clipboard, `ESC [` moves the cursor, a carriage return writes
//! over what was said, and a right-to-left override shows a path as another one.
//!
//! Such a character is written as `\u{1b}`. The marks that Persian is written with (U+200C to U+200F)
//! stay.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Whether a terminal or a page would obey the character rather than show it. Line feeds and tabs count
/// as shown.
pub fn is_obeyed(c: char) -> bool {
    match c {
        '\n' | '\t' => false,
        // Line and paragraph separators; embeddings, overrides and isolates of direction.
        '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => true,
        _ => c.is_control(),
    }
}

/// A text of several lines, for a terminal or a page.
pub fn lines(text: &str) -> Cow<'_, str> {
    escaped(text, is_obeyed)
}

/// A text that stands in one line, for a terminal or a page: what it holds cannot begin another one.
pub fn line(text: &str) -> Cow<'_, str> {
    escaped(text, |c| c == '\n' || is_obeyed(c))
}

/// Only the ends of lines are escaped: for a part of a text that still goes through [`lines`].
pub fn unbroken(text: &str) -> Cow<'_, str> {
    escaped(text, |c| matches!(c, '\n' | '\r'))
}

/// A text of at most about `most` bytes: where it is longer, its middle is left out.
pub fn shortened(text: &str, most: usize) -> Cow<'_, str> {
    if text.len() <= most {
        return Cow::Borrowed(text);
    }
    let head = &text[..text.floor_char_boundary(most / 2)];
    let tail = &text[text.ceil_char_boundary(text.len() - most / 2)..];
    let left_out = text.len() - head.len() - tail.len();
    Cow::Owned(format!("{head}… {left_out} bytes left out …{tail}"))
}

/// A field of a table in a file; [`restored`] gives back what it was.
pub fn field(text: &str) -> String {
    lines(&text.replace("\\u{", "\\u{5c}u{")).into_owned()
}

/// What a [`field`] was. A sequence that is no character stays as it is.
pub fn restored(field: &str) -> String {
    let mut text = String::with_capacity(field.len());
    let mut rest = field;
    while let Some((before, after)) = rest.split_once("\\u{") {
        text.push_str(before);
        let code = after.split_once('}').and_then(|(digits, after)| {
            let c = char::from_u32(u32::from_str_radix(digits, 16).ok()?)?;
            Some((c, after))
        });
        rest = match code {
            Some((c, after)) => {
                text.push(c);
                after
            }
            None => {
                text.push_str("\\u{");
                after
            }
        };
    }
    text + rest
}

/// JSON that is valid already: such characters stand only in its strings, where they may be escaped.
pub fn json(text: &str) -> Cow<'_, str> {
    rewritten(text, is_obeyed, |out, c| {
        let _ = write!(out, "\\u{:04x}", u32::from(c));
    })
}

fn escaped(text: &str, is_escaped: impl Fn(char) -> bool) -> Cow<'_, str> {
    rewritten(text, is_escaped, |out, c| out.extend(c.escape_unicode()))
}

fn rewritten(
    text: &str,
    is_escaped: impl Fn(char) -> bool,
    write: impl Fn(&mut String, char),
) -> Cow<'_, str> {
    if !text.contains(&is_escaped) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match is_escaped(c) {
            true => write(&mut out, c),
            false => out.push(c),
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_long_text_keeps_its_ends() {
        assert_eq!(shortened("سلام دنیا", 17), "سلام دنیا");
        assert_eq!(shortened("سلام دنیا", 8), "سل… 9 bytes left out …یا");
    }

    #[test]
    fn what_a_terminal_obeys_is_written_out() {
        let clipboard = "a\u{1b}]52;c;QQ==\u{7}b\r\u{9b}2J\u{202e}gpj.exe\u{2066}\u{85}";
        assert_eq!(
            line(clipboard),
            "a\\u{1b}]52;c;QQ==\\u{7}b\\u{d}\\u{9b}2J\\u{202e}gpj.exe\\u{2066}\\u{85}"
        );
        assert_eq!(lines("one\n\ttwo"), "one\n\ttwo");
        assert_eq!(line("one\nerror: two"), "one\\u{a}error: two");
        let persian = "می\u{200c}روم\u{200f}";
        assert!(matches!(line(persian), Cow::Borrowed(_)));
    }

    proptest! {
        #[test]
        fn nothing_that_is_obeyed_gets_through(text in any::<String>()) {
            prop_assert!(!lines(&text).contains(is_obeyed));
            prop_assert!(!line(&text).contains(|c| c == '\n' || is_obeyed(c)));
            prop_assert!(!field(&text).contains(is_obeyed));
        }

        #[test]
        fn a_field_gives_back_what_it_was(text in r"(\\|u|\{|\}|1b|5c|\PC|\p{Cc}|\u{202e}){0,12}") {
            prop_assert_eq!(restored(&field(&text)), text);
        }
    }
}
