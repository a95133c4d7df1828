//! Punctuation and spacing: six ASCII marks, single spaces, ZWNJ only where it shows.

use unicode_normalization::char::is_combining_mark;

use super::{ZWNJ, is_letter, is_persian, stands_apart};

/// The marks that remain, weakest first: of several in a row the strongest is heard.
pub(super) const MARKS: [char; 6] = [',', ';', ':', '.', '!', '?'];

fn mark(c: char) -> Option<char> {
    match c {
        ',' | '،' | '٬' | '٫' | '、' | '，' => Some(','),
        ';' | '؛' | '；' => Some(';'),
        ':' | '：' => Some(':'),
        '.' | '…' | '۔' | '。' => Some('.'),
        '!' | '！' => Some('!'),
        '?' | '؟' | '？' | '⸮' => Some('?'),
        _ => None,
    }
}

fn strength(mark: char) -> Option<usize> {
    MARKS.iter().position(|known| *known == mark)
}

fn is_foreign_letter(c: char) -> bool {
    is_letter(c) && !is_persian(c)
}

/// Leaves letters, single spaces, ZWNJ between Persian letters, and marks directly after a word.
/// Any other character is a space; brackets and dashes between phrases are a comma, if a word
/// follows and no mark stands there yet.
pub(super) fn tidy(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut out = String::with_capacity(text.len());
    let (mut space, mut pause) = (false, false);
    for (at, &c) in chars.iter().enumerate() {
        let before = at.checked_sub(1).map(|at| chars[at]);
        let after = chars.get(at + 1).copied();
        // Inside a foreign word (Wi-Fi, don't) signs stay.
        let inside_foreign =
            before.is_some_and(is_foreign_letter) && after.is_some_and(is_foreign_letter);
        match c {
            c if is_letter(c) => {
                separate(&mut out, &mut space, &mut pause);
                out.push(c);
            }
            '-' | '\'' if inside_foreign => out.push(c),
            // The dot of an address ends no sentence.
            '.' if inside_foreign => space = true,
            '’' if inside_foreign => out.push('\''),
            ZWNJ => {
                let joins = out.chars().next_back().is_some_and(|last| {
                    !space && !pause && is_persian(last) && !stands_apart(last)
                });
                // Of several in a row only the last stands before a letter.
                if joins && after.is_some_and(is_persian) {
                    out.push(ZWNJ);
                }
            }
            c if is_combining_mark(c) => {
                if !space && !pause && out.chars().next_back().is_some_and(is_letter) {
                    out.push(c);
                }
            }
            '(' | ')' | '[' | ']' | '{' | '}' | '—' | '―' => (space, pause) = (true, true),
            '-' | '–' | '−' | '‐' | '‑' | '‒' => {
                let spaced = |c: Option<char>| c.is_none_or(char::is_whitespace);
                pause |= spaced(before) && spaced(after);
                space = true;
            }
            c => {
                if let Some(mark) = mark(c) {
                    end_phrase(&mut out, mark, &mut pause);
                }
                space = true;
            }
        }
    }
    super::composed(out)
}

/// Writes what stands between the last word and the next one.
fn separate(out: &mut String, space: &mut bool, pause: &mut bool) {
    let last = out.chars().next_back();
    if *pause && last.is_some_and(|last| strength(last).is_none()) {
        out.push(',');
    }
    if *space && last.is_some() {
        out.push(' ');
    }
    (*space, *pause) = (false, false);
}

fn end_phrase(out: &mut String, mark: char, pause: &mut bool) {
    match out.chars().next_back() {
        None => {}
        Some(last) => match strength(last) {
            Some(_) if strength(last) >= strength(mark) => {}
            Some(_) => {
                out.pop();
                out.push(mark);
            }
            None => out.push(mark),
        },
    }
    *pause = false;
}
