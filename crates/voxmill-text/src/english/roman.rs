//! Roman numerals: what number a word is, if it is one.

use crate::reject_if;

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

/// The value of a numeral written as Romans wrote it, up to 3999; lower case only if all of it is.
pub(super) fn value(word: &str) -> Option<usize> {
    let in_case = |letters: &[u8]| word.bytes().all(|letter| letters.contains(&letter));
    reject_if(word.is_empty() || word.len() > 15)?;
    reject_if(!in_case(b"ivxlcdm") && !in_case(b"IVXLCDM"))?;
    let upper = word.to_ascii_uppercase();
    let (mut rest, mut total) = (upper.as_str(), 0);
    for (step, letters) in STEPS {
        while let Some(after) = rest.strip_prefix(letters) {
            (rest, total) = (after, total + step);
        }
    }
    // Only one spelling of a number counts: IIX, VIV and CIVIL are words.
    (total <= 3999 && written(total) == upper).then_some(total)
}

fn written(mut value: usize) -> String {
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
