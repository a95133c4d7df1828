//! Numbers as words, the American way: no "and" inside a cardinal, as in LJ Speech.
//!
//! Every function takes ASCII digits, not integers, so that no number is too large.

use super::tables::TABLES;
pub(super) use crate::digits::small;
use crate::table::words;

const ONES: [&str; 20] = words(
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen \
     sixteen seventeen eighteen nineteen",
);
/// From twenty on.
const TENS: [&str; 8] = words("twenty thirty forty fifty sixty seventy eighty ninety");

/// `105` → one hundred five. Leading zeros are ignored; a number beyond the table of scales is read
/// digit by digit.
pub(super) fn cardinal(digits: &str) -> String {
    let digits = digits.trim_start_matches('0');
    if digits.is_empty() {
        return ONES[0].to_owned();
    }
    let scales = &TABLES.scales;
    if digits.len() > 3 * (scales.len() + 1) {
        return by_digit(digits);
    }
    let mut words = String::new();
    let mut rest = digits;
    while !rest.is_empty() {
        let power = (rest.len() - 1) / 3;
        let (group, tail) = rest.split_at(rest.len() - 3 * power);
        let value = small(group);
        if value > 0 {
            below_thousand(value, &mut words);
            if power > 0 {
                append(&mut words, scales[power - 1]);
            }
        }
        rest = tail;
    }
    words
}

/// `22` → twenty-second.
pub(super) fn ordinal(digits: &str) -> String {
    inflect_last(cardinal(digits), |last| match last {
        "one" => "first".to_owned(),
        "two" => "second".to_owned(),
        "three" => "third".to_owned(),
        "five" => "fifth".to_owned(),
        "eight" => "eighth".to_owned(),
        "nine" => "ninth".to_owned(),
        "twelve" => "twelfth".to_owned(),
        _ => match last.strip_suffix('y') {
            Some(stem) => format!("{stem}ieth"),
            None => format!("{last}th"),
        },
    })
}

/// The plural of a number's reading: nineteen sixty → nineteen sixties.
pub(super) fn plural(reading: String) -> String {
    inflect_last(reading, |last| match (last, last.strip_suffix('y')) {
        (_, Some(stem)) => format!("{stem}ies"),
        ("six", _) => "sixes".to_owned(),
        _ => format!("{last}s"),
    })
}

/// `007` → zero zero seven.
pub(super) fn by_digit(digits: &str) -> String {
    let mut words = String::with_capacity(digits.len() * 5);
    for digit in digits.bytes() {
        append(&mut words, ONES[usize::from(digit - b'0')]);
    }
    words
}

/// `1905` → nineteen oh five, `2008` → two thousand eight. Up to four digits; others are cardinals.
pub(super) fn year(digits: &str) -> String {
    let digits = digits.trim_start_matches('0');
    let value = small(digits);
    if !(3..=4).contains(&digits.len()) || value % 1000 < 10 {
        return cardinal(digits);
    }
    pairs(digits)
}

/// `162` → one sixty-two, `602` → six oh two, `1400` → fourteen hundred; more than four digits are
/// read digit by digit.
pub(super) fn pairs(digits: &str) -> String {
    match digits.len() {
        _ if digits.starts_with('0') => return by_digit(digits),
        5.. => return by_digit(digits),
        ..3 => return cardinal(digits),
        _ if digits.ends_with("000") => return cardinal(digits),
        _ => {}
    }
    let (high, low) = digits.split_at(digits.len() - 2);
    let mut words = cardinal(high);
    match small(low) {
        0 => append(&mut words, "hundred"),
        value if value < 10 => {
            append(&mut words, "oh");
            append(&mut words, ONES[value]);
        }
        value => below_hundred(value, &mut words),
    }
    words
}

/// `3`, `14` → three point one four; nothing before the point is said when there is nothing.
pub(super) fn decimal(whole: &str, fraction: &str) -> String {
    let fraction = by_digit(fraction);
    match whole {
        "" => format!("point {fraction}"),
        _ => format!("{} point {fraction}", cardinal(whole)),
    }
}

/// `3`, `4` → three quarters. Where English has no handy name for the parts, the bar is read as "over".
pub(super) fn fraction(numerator: &str, denominator: &str) -> String {
    let single = numerator.trim_start_matches('0') == "1";
    let name = match small(denominator) {
        _ if denominator.len() > 4 => format!("over {}", cardinal(denominator)),
        2 if single => "half".to_owned(),
        2 => "halves".to_owned(),
        4 if single => "quarter".to_owned(),
        4 => "quarters".to_owned(),
        3..=20 | 30 | 32 | 40 | 50 | 60 | 64 | 80 | 100 | 1000 => {
            let name = ordinal(denominator);
            let name = name.strip_prefix("one ").unwrap_or(&name);
            format!("{name}{}", if single { "" } else { "s" })
        }
        _ => format!("over {}", cardinal(denominator)),
    };
    format!("{} {name}", cardinal(numerator))
}

fn below_thousand(value: usize, words: &mut String) {
    if value >= 100 {
        append(words, ONES[value / 100]);
        append(words, "hundred");
    }
    if !value.is_multiple_of(100) {
        below_hundred(value % 100, words);
    }
}

fn below_hundred(value: usize, words: &mut String) {
    if value < 20 {
        return append(words, ONES[value]);
    }
    append(words, TENS[value / 10 - 2]);
    if !value.is_multiple_of(10) {
        words.push('-');
        words.push_str(ONES[value % 10]);
    }
}

fn append(words: &mut String, word: &str) {
    if !words.is_empty() {
        words.push(' ');
    }
    words.push_str(word);
}

fn inflect_last(reading: String, inflect: impl Fn(&str) -> String) -> String {
    let start = reading.rfind([' ', '-']).map_or(0, |at| at + 1);
    let (head, last) = reading.split_at(start);
    format!("{head}{}", inflect(last))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cardinals_reach_as_far_as_the_scales_and_then_spell_digits() {
        assert_eq!(cardinal("000"), "zero");
        assert_eq!(cardinal("105"), "one hundred five");
        assert_eq!(cardinal("1000021"), "one million twenty-one");
        let largest = format!("1{}", "0".repeat(63));
        assert_eq!(cardinal(&largest), "one vigintillion");
        let longest = cardinal(&"9".repeat(66));
        assert!(longest.starts_with("nine hundred ninety-nine vigintillion"));
        assert_eq!(cardinal(&"7".repeat(67)), vec!["seven"; 67].join(" "));
    }

    #[test]
    fn years_pairs_and_parts() {
        for (digits, spoken) in [
            ("1492", "fourteen ninety-two"),
            ("1905", "nineteen oh five"),
            ("1800", "eighteen hundred"),
            ("2000", "two thousand"),
            ("2008", "two thousand eight"),
            ("2015", "twenty fifteen"),
            ("605", "six oh five"),
            ("44", "forty-four"),
        ] {
            assert_eq!(year(digits), spoken);
        }
        assert_eq!(pairs("3000"), "three thousand");
        assert_eq!(pairs("30016"), "three zero zero one six");
        assert_eq!(ordinal("112"), "one hundred twelfth");
        assert_eq!(plural(year("1990")), "nineteen nineties");
        assert_eq!(fraction("1", "100"), "one hundredth");
        assert_eq!(fraction("7", "8"), "seven eighths");
        assert_eq!(fraction("3", "71"), "three over seventy-one");
    }
}
