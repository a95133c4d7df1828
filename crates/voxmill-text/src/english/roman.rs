//! Roman numerals: what number a word is, if it is one.

use crate::reject_if;

/// The value of a numeral written as Romans wrote it, up to 3999; lower case only if all of it is.
pub(super) fn value(word: &str) -> Option<usize> {
    reject_if(word.is_empty() || word.len() > 15)?;
    let upper = word.bytes().all(|letter| letter.is_ascii_uppercase());
    reject_if(!upper && !word.bytes().all(|letter| letter.is_ascii_lowercase()))?;
    let mut total = 0;
    let mut next = 0;
    for letter in word.bytes().rev() {
        let digit = match letter.to_ascii_uppercase() {
            b'I' => 1,
            b'V' => 5,
            b'X' => 10,
            b'L' => 50,
            b'C' => 100,
            b'D' => 500,
            b'M' => 1000,
            _ => return None,
        };
        if digit < next {
            total -= digit;
        } else {
            total += digit;
            next = digit;
        }
    }
    // Only one spelling of a number counts: IIX, VIV and CIVIL are words.
    let total = usize::try_from(total).ok()?;
    (total <= 3999 && written(total).eq_ignore_ascii_case(word)).then_some(total)
}

fn written(mut value: usize) -> String {
    const STEPS: [(usize, &str); 13] = [
        (1000, "M"),
        (900, "CM"),
        (500, "D"),
        (400, "CD"),
        (100, "C"),
        (90, "XC"),
        (50, "L"),
        (40, "XL"),
        (10, "X"),
        (9, "IX"),
        (5, "V"),
        (4, "IV"),
        (1, "I"),
    ];
    let mut word = String::new();
    for (step, letters) in STEPS {
        while value >= step {
            word.push_str(letters);
            value -= step;
        }
    }
    word
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_numeral_reads_back_and_words_do_not() {
        for number in 1..=3999 {
            assert_eq!(value(&written(number)), Some(number));
        }
        for word in ["", "IIX", "CIVIL", "Vi", "DID", "IIII", "VIVID", "mmmm"] {
            assert_eq!(value(word), None, "{word}");
        }
        assert_eq!(value("xiv"), Some(14));
    }
}
