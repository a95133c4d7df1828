//! English as written → English as spoken.
//!
//! Three steps, each a file: `cleaning` folds characters, `reader` walks over the text and lets the
//! rules say each piece, `spoken` puts words and marks together. What is read out follows the makers
//! of LJ Speech where they are consistent: "one hundred five" without "and", "November twenty-two,
//! nineteen sixty-three", "thirteen dollars, eighty-seven cents".
//!
//! The output holds words (with inner apostrophes and hyphens, in the case they were written in),
//! single spaces, and at most one mark `, . ; : ? ! —` between two words; the dash stands alone
//! between spaces, the others follow their word. Quotation marks are dropped. Brackets are pauses
//! and become commas. There is no digit of any script and no sign.

mod abbreviations;
mod addresses;
mod cleaning;
mod compounds;
mod dates;
mod figures;
mod initialisms;
mod money;
mod numbers;
mod reader;
mod roman;
mod spoken;
mod tables;
mod units;
mod words;

/// A second reading nearly always changes nothing; odd neighbours that only meet once a sign between
/// them has been dropped may need one or two more.
const MOST_READINGS: usize = 8;

/// Writes `text` (in Unicode NFC) as it is spoken. Pure, and reading its own output changes nothing.
pub fn normalize(text: &str) -> String {
    let mut spoken = read_once(text);
    // Most texts hold nothing to expand: they come back as they were, which is proof enough.
    let mut stable = spoken == text;
    for _ in 1..MOST_READINGS {
        if stable {
            break;
        }
        let again = read_once(&spoken);
        stable = again == spoken;
        spoken = again;
    }
    spoken
}

fn read_once(text: &str) -> String {
    reader::read(&cleaning::clean(text))
}

#[cfg(test)]
mod tests;
