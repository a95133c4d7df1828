//! Persian text as it is spoken: one spelling per sound pattern, numbers in words, few marks.
//!
//! Persian is trained on characters, so every second way to write the same word costs examples.
//! [`normalize`] therefore chooses one, in this order:
//!
//! 1. `letters`: Arabic ye, kaf and heh become Persian ones, presentation forms are taken apart,
//!    tatweel goes. **Short vowels, tashdid and sukun are dropped**: almost no text writes them, so
//!    their tokens would be met too rarely to be learnt. **Tanvin-e nasb is kept**, always as `اً`:
//!    it is the difference between *-ā* and *-an*, and common words carry it. Medial `أ ؤ ئ` and
//!    `ء` are kept (a glottal stop is a sound), initial `أ إ` become `ا`.
//! 2. `abbreviations`: they need the digits and dots that the next steps remove.
//! 3. `quantities`: numbers with all that hangs on them (dates, times, money, units, ranges).
//!    Decimals are read as newsreaders do, «سه و چهارده صدم», up to three places; longer ones
//!    digit by digit after «ممیز».
//! 4. `marks`: punctuation becomes the ASCII marks `, ; ? . ! :` that all languages share; quotes
//!    go, brackets and spaced dashes become pauses, spaces and ZWNJ are tidied.
//! 5. `words`: `می روم` → `می‌روم`, `کتاب ها` → `کتاب‌ها`, `لطفا` → `لطفاً`, by rules that cannot
//!    be wrong on ordinary text; everything else is left as the writer spaced it.
//!
//! Words in other scripts stay as they are: nothing reads them out, and the speller takes them
//! letter by letter like any other word. What remains is letters,
//! ZWNJ (inside words only), single spaces and the six marks: no digit of any script.

use unicode_normalization::{IsNormalized, UnicodeNormalization, is_nfc_quick};

mod abbreviations;
mod calendar;
mod letters;
mod marks;
mod numbers;
mod numerals;
mod quantities;
mod tables;
mod words;

/// Between two letters of one word: they do not join. Kept, since it parts prefixes from stems.
const ZWNJ: char = '\u{200c}';
const FATHATAN: char = '\u{064b}';

/// Normalises Persian text. Pure, idempotent, total; expects NFC and returns NFC.
///
/// Cost: each pass allocates a handful of strings; nearly every text is stable after one pass, so
/// it costs two.
pub fn normalize(text: &str) -> String {
    let mut text = pass(text);
    // Removing a sign can bring an abbreviation or an ending together that the step responsible had
    // already passed («ص»، then a dot). Running until nothing changes makes the function idempotent
    // by construction. It ends: after the first pass there are no digits, and each further change
    // expands an abbreviation for good or removes a space. The bound only turns a mistake in the
    // tables (a reading that is an abbreviation again) into a wrong text instead of a hang.
    for _ in 0..16 {
        let next = pass(&text);
        if next == text {
            break;
        }
        text = next;
    }
    text
}

fn pass(text: &str) -> String {
    let text = letters::canonical(text);
    let text = abbreviations::expand(&text);
    let text = quantities::read(&text);
    let text = marks::tidy(&text);
    words::join(&text)
}

/// NFC again, after a character between two others was dropped. Checking is cheap; composing is not.
fn composed(text: String) -> String {
    match is_nfc_quick(text.chars()) {
        IsNormalized::Yes => text,
        _ => text.nfc().collect(),
    }
}

/// A letter (or tanvin) of Arabic script.
fn is_persian(c: char) -> bool {
    // The first two blocks are nearly all that is met; the table of Unicode is slow (half the time
    // of a sentence went there).
    matches!(c, '\u{0620}'..='\u{064b}' | '\u{0671}'..='\u{06d3}')
        || matches!(c, '\u{0600}'..='\u{06ff}' | '\u{0750}'..='\u{077f}' | '\u{08a0}'..='\u{08ff}')
            && c.is_alphabetic()
}

/// A letter of any script.
fn is_letter(c: char) -> bool {
    if c.is_ascii() {
        c.is_ascii_alphabetic()
    } else {
        is_persian(c) || c != ZWNJ && c.is_alphabetic()
    }
}

/// Letters that never join to the next one: a ZWNJ after them is invisible.
fn stands_apart(c: char) -> bool {
    matches!(
        c,
        'ا' | 'آ' | 'أ' | 'د' | 'ذ' | 'ر' | 'ز' | 'ژ' | 'و' | 'ؤ' | 'ء' | FATHATAN
    )
}

#[cfg(test)]
mod tests;
