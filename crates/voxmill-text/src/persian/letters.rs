//! One spelling per letter: Arabic forms to Persian ones, marks dropped, digits to ASCII.

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

use super::tables::TABLES;
use super::{FATHATAN, ZWNJ, is_persian};
use crate::digits::ascii_digit;

const TATWEEL: char = '\u{0640}';
const HAMZA_ABOVE: char = '\u{0654}';
const TEH_MARBUTA: char = 'ة';
const ALEF_HAMZA: char = 'أ';

/// Vowel and reading marks of Arabic script, tanvin included.
fn is_arabic_mark(c: char) -> bool {
    matches!(c, '\u{0610}'..='\u{061a}' | '\u{064b}'..='\u{065f}' | '\u{0670}'
        | '\u{06d6}'..='\u{06ed}' | '\u{0897}'..='\u{089f}' | '\u{08ca}'..='\u{08ff}')
        && is_combining_mark(c)
}

/// Letters, digits and marks in their one form; spacing and punctuation stay for later steps.
/// Afterwards the only digits are ASCII ones and the only Arabic mark is tanvin after alef.
pub(super) fn canonical(text: &str) -> String {
    let expanded: Vec<char> = expand(text);
    let mut out: Vec<char> = Vec::with_capacity(expanded.len() + 8);
    for (at, &c) in expanded.iter().enumerate() {
        // Marks between a letter and its neighbour do not count as neighbours.
        let next = |from: usize| {
            expanded[from..]
                .iter()
                .copied()
                .find(|c| *c == FATHATAN || !is_arabic_mark(*c))
        };
        let last = out.last().copied();
        match c {
            c if c.is_ascii() => out.push(c),
            // Between letters it only stretches the line; alone it is the dash of Persian keyboards
            // (۱۳۵۷ـ۱۳۶۰).
            TATWEEL => {
                let touches = |c: Option<char>| c.is_some_and(|c| is_persian(c) || c == TATWEEL);
                if !touches(last) && !touches(next(at + 1)) {
                    out.push('-');
                }
            }
            FATHATAN => match last {
                Some('ا') => out.push(FATHATAN),
                // Written before the alef (لطفًا): the alef's turn puts it behind.
                _ if next(at + 1) == Some('ا') => {}
                Some('ء') => {
                    out.pop();
                    out.extend(['ئ', 'ا', FATHATAN]);
                }
                _ => {}
            },
            'ا' => {
                out.push('ا');
                let before = expanded[..at].iter().rev();
                let tanvin = before
                    .take_while(|c| is_arabic_mark(**c))
                    .any(|c| *c == FATHATAN);
                if tanvin && last.is_some_and(|c| is_persian(c) && c != 'ا' && c != FATHATAN) {
                    out.push(FATHATAN);
                }
            }
            TEH_MARBUTA => {
                if next(at + 1) == Some(FATHATAN) {
                    out.extend(['ت', 'ا', FATHATAN]);
                } else if before_article(&expanded[at + 1..]) {
                    out.push('ت');
                    if next(at + 1) == Some('ا') {
                        out.push(ZWNJ);
                    }
                } else {
                    out.push('ه');
                }
            }
            ALEF_HAMZA if !last.is_some_and(is_persian) => out.push('ا'),
            HAMZA_ABOVE => {
                if last == Some('ه') || out.ends_with(&['ه', ZWNJ]) {
                    // A second ZWNJ goes with the rest of the tidying.
                    out.extend([ZWNJ, 'ی']);
                } else if last == Some('ی') {
                    out.pop();
                    out.push('ئ');
                }
            }
            c if is_arabic_mark(c) => {}
            c => out.push(c),
        }
    }
    super::composed(out.into_iter().collect())
}

/// Whether the rest of the text begins with the Arabic article, perhaps after a space or ZWNJ:
/// then a teh marbuta is spoken as t (دایرة المعارف).
fn before_article(rest: &[char]) -> bool {
    let mut rest = rest.iter().filter(|c| !is_arabic_mark(**c)).peekable();
    rest.next_if(|c| **c == ZWNJ || **c == ' ');
    rest.next() == Some(&'ا') && rest.next() == Some(&'ل')
}

/// Takes apart what stands for several characters, and maps single letters by the table.
fn expand(text: &str) -> Vec<char> {
    let mut out = Vec::with_capacity(text.len());
    for c in text.chars() {
        if c.is_ascii() {
            out.push(c);
        } else if let Some(digit) = ascii_digit(c) {
            out.push(digit);
        } else if let Some(to) = TABLES.letters.get(&c) {
            out.extend(to.chars());
        } else if c.is_numeric() {
            expand_numeral(c, &mut out);
        } else if matches!(c, '\u{fb50}'..='\u{fdfb}' | '\u{fdfd}'..='\u{fdff}' | '\u{fe70}'..='\u{fefc}')
        {
            // Presentation forms of a lone mark decompose to a space and the mark.
            let parts = std::iter::once(c).nfkc();
            let lone_mark = matches!(c, '\u{fc5e}'..='\u{fc63}' | '\u{fe70}'..='\u{fe7f}');
            for part in parts.filter(|part| !(lone_mark && *part == ' ')) {
                match TABLES.letters.get(&part) {
                    Some(to) => out.extend(to.chars()),
                    None => out.push(part),
                }
            }
        } else {
            out.push(c);
        }
    }
    out
}

/// ½ becomes `1⁄2` (with the fraction slash, so that it is not taken for a date), ² becomes `^2`,
/// ⑤ becomes 5, Ⅷ becomes VIII. Numerals without a decimal value (Ethiopic, cuneiform) are silent.
fn expand_numeral(c: char, out: &mut Vec<char>) {
    let parts: Vec<char> = std::iter::once(c).nfkc().collect();
    if parts
        .iter()
        .any(|part| part.is_numeric() && !part.is_ascii())
    {
        out.push(' ');
        return;
    }
    let superscript = matches!(c, '²' | '³' | '¹' | '\u{2070}'..='\u{2079}');
    match out.last() {
        Some(last) if superscript && (last.is_alphanumeric() || *last == ')') => out.push('^'),
        // 2½ is two and a half, not 21⁄2.
        Some(last) if last.is_ascii_digit() => out.push(' '),
        _ => {}
    }
    out.extend(parts);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tanvin_stands_after_its_alef() {
        for written in ["لطفاً", "لطفًا", "لطفـًا"] {
            assert_eq!(canonical(written), "لطفاً");
        }
        assert_eq!(canonical("عادةً"), "عادتاً");
        assert_eq!(canonical("ابتداءً"), "ابتدائاً");
        assert_eq!(canonical("مضافٌ الیه"), "مضاف الیه");
    }
}
