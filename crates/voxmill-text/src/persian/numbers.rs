//! Digits to Persian words: cardinals, ordinals, decimals, fractions.
//!
//! All functions take ASCII digits as text, so that size has no limit and leading zeros are seen.

use super::ZWNJ;
use crate::digits::small;
use crate::table::words;

const ONES: [&str; 20] = words(
    "صفر یک دو سه چهار پنج شش هفت هشت نه ده یازده دوازده سیزده \
     چهارده پانزده شانزده هفده هجده نوزده",
);
/// From twenty on.
const TENS: [&str; 8] = words("بیست سی چهل پنجاه شصت هفتاد هشتاد نود");
const HUNDREDS: [&str; 9] = words("صد دویست سیصد چهارصد پانصد ششصد هفتصد هشتصد نهصد");
/// Names of the powers of a thousand. Persian follows the long scale at a milliard and the short
/// one above it.
const SCALES: [&str; 11] = words(
    "هزار میلیون میلیارد تریلیون کوادریلیون کوینتیلیون سکستیلیون \
     سپتیلیون اکتیلیون نونیلیون دسیلیون",
);

/// «دو هزار و سیصد و چهل و پنج». Leading zeros do not count. Numbers too long for the names of
/// scales (more than 36 digits) are read digit by digit, as a person would.
pub(super) fn cardinal(digits: &str) -> String {
    let significant = digits.trim_start_matches('0');
    if significant.is_empty() {
        return ONES[0].to_owned();
    }
    if significant.len() > 3 * (SCALES.len() + 1) {
        return digit_by_digit(digits);
    }
    let mut parts: Vec<String> = Vec::new();
    for scale in (0..significant.len().div_ceil(3)).rev() {
        let end = significant.len() - 3 * scale;
        let value = small(&significant[end.saturating_sub(3)..end]);
        match (value, scale) {
            (0, _) => {}
            (_, 0) => parts.push(below_thousand(value)),
            // «هزار», but «یک میلیون».
            (1, 1) => parts.push(SCALES[0].to_owned()),
            _ => parts.push(format!("{} {}", below_thousand(value), SCALES[scale - 1])),
        }
    }
    parts.join(" و ")
}

fn below_thousand(value: usize) -> String {
    let mut parts = Vec::with_capacity(3);
    let rest = value % 100;
    if value >= 100 {
        parts.push(HUNDREDS[value / 100 - 1]);
    }
    if rest >= 20 {
        parts.push(TENS[rest / 10 - 2]);
        if !rest.is_multiple_of(10) {
            parts.push(ONES[rest % 10]);
        }
    } else if rest > 0 {
        parts.push(ONES[rest]);
    }
    parts.join(" و ")
}

/// «صفر صفر هفت».
pub(super) fn digit_by_digit(digits: &str) -> String {
    let digits = digits.chars().filter_map(|c| c.to_digit(10));
    let names: Vec<&str> = digits.map(|digit| ONES[digit as usize]).collect();
    names.join(" ")
}

/// A number whose leading zero, if any, was written for a reason: «صفر پنج», not «پنج».
pub(super) fn as_written(digits: &str) -> String {
    if digits.len() > 1 && digits.starts_with('0') {
        digit_by_digit(digits)
    } else {
        cardinal(digits)
    }
}

/// Two digits of a telephone number: «هفتاد و هفت», «صفر پنج».
pub(super) fn in_pairs(digits: &str) -> String {
    let starts = (0..digits.len()).step_by(2);
    let pairs = starts.map(|at| as_written(&digits[at..digits.len().min(at + 2)]));
    pairs.collect::<Vec<_>>().join(", ")
}

/// Makes the last word of a cardinal an ordinal: سه → سوم, سی → سی‌ام, پنج → پنجم.
pub(super) fn ordinal(cardinal: &str) -> String {
    if let Some(stem) = cardinal.strip_suffix("سه") {
        // Both «سه» and «بیست و سه»; no other number ends so.
        format!("{stem}سوم")
    } else if cardinal.ends_with('ی') {
        format!("{cardinal}{ZWNJ}ام")
    } else {
        format!("{cardinal}م")
    }
}

/// «سه و چهارده صدم» up to three places; «سه ممیز یک چهار یک پنج» beyond, and where the places are
/// all zero (the zeros were written to be heard). A zero before the point is not read if the places
/// have a name: ۰٫۵ is «پنج دهم».
pub(super) fn decimal(whole: &str, places: &str) -> String {
    let named = places.len() <= 3 && places.bytes().any(|digit| digit != b'0');
    if !named {
        return format!("{} ممیز {}", cardinal(whole), digit_by_digit(places));
    }
    let name = ["دهم", "صدم", "هزارم"][places.len() - 1];
    let part = format!("{} {name}", cardinal(places));
    if whole.bytes().all(|digit| digit == b'0') {
        part
    } else {
        format!("{} و {part}", cardinal(whole))
    }
}

/// «سه چهارم».
pub(super) fn fraction(above: &str, below: &str) -> String {
    format!("{} {}", cardinal(above), ordinal(&cardinal(below)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cardinals_of_every_length_read() {
        assert_eq!(cardinal("1000"), "هزار");
        assert_eq!(cardinal("1001000"), "یک میلیون و هزار");
        assert_eq!(cardinal("0042"), "چهل و دو");
        assert_eq!(cardinal("000"), "صفر");
        assert_eq!(cardinal(&format!("1{}", "0".repeat(33))), "یک دسیلیون");
        for length in 1..60 {
            assert!(!cardinal(&"9".repeat(length)).is_empty());
        }
    }

    #[test]
    fn ordinals_change_the_last_word() {
        for (number, read) in [
            ("1", "یکم"),
            ("3", "سوم"),
            ("23", "بیست و سوم"),
            ("30", "سی‌ام"),
            ("100", "صدم"),
        ] {
            assert_eq!(ordinal(&cardinal(number)), read);
        }
    }

    #[test]
    fn distinct_numbers_read_differently() {
        let mut seen = std::collections::HashSet::new();
        for number in 0..20_000_u32 {
            assert!(seen.insert(cardinal(&number.to_string())), "{number}");
        }
    }
}
