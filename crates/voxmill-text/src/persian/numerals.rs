//! What the digits at one place are: a date, a time, a telephone number, a decimal, a plain number.
//!
//! The order of the attempts is the order of certainty; a plain number always succeeds, which is
//! why no digit survives.

use super::calendar;
use super::is_persian;
use super::numbers::{as_written, cardinal, decimal, digit_by_digit, fraction, in_pairs};
use super::tables::TABLES;
use crate::reject_if;

/// Words before a telephone number.
const TELEPHONE: [&str; 6] = ["تلفن", "تلفنی", "تماس", "فکس", "نمابر", "موبایل"];

/// A number found in the text and how it is read.
pub(super) struct Numeral {
    pub(super) words: String,
    /// Index of the first character after it.
    pub(super) end: usize,
    pub(super) kind: NumeralKind,
}

impl Numeral {
    fn new(words: String, end: usize, kind: NumeralKind) -> Numeral {
        Numeral { words, end, kind }
    }
}

pub(super) enum NumeralKind {
    Integer(String),
    Decimal {
        whole: String,
        places: String,
    },
    /// A date or a time of day; two of them always make a range.
    Moment,
    /// Telephone numbers, fractions, versions: nothing may be added to it but a unit.
    Other,
}

/// Reads the number that starts at `at`, which must be an ASCII digit.
pub(super) fn numeral(chars: &[char], at: usize) -> Numeral {
    telephone(chars, at)
        .or_else(|| postal_code(chars, at))
        .or_else(|| date(chars, at))
        .or_else(|| clock(chars, at))
        .or_else(|| chain(chars, at))
        .unwrap_or_else(|| number(chars, at))
}

/// The run of digits from `at` on; empty if there is none.
pub(super) fn digits(chars: &[char], at: usize) -> String {
    chars[at.min(chars.len())..]
        .iter()
        .take_while(|c| c.is_ascii_digit())
        .collect()
}

/// Runs of digits with one of `separators` between each two, and where they end.
fn groups(chars: &[char], at: usize, separators: &[char]) -> (Vec<String>, usize) {
    let first = digits(chars, at);
    let mut end = at + first.len();
    let mut all = vec![first];
    while chars.get(end).is_some_and(|c| separators.contains(c)) {
        let next = digits(chars, end + 1);
        if next.is_empty() {
            break;
        }
        end += 1 + next.len();
        all.push(next);
    }
    (all, end)
}

fn other(words: String, end: usize) -> Option<Numeral> {
    Some(Numeral::new(words, end, NumeralKind::Other))
}

/// Eleven digits from a zero, in any grouping: mobile numbers are read 4-3-2-2, as Iranians do,
/// others as a code of three digits and pairs. With the country's code (+98…) likewise.
fn telephone(chars: &[char], at: usize) -> Option<Numeral> {
    let run = digits(chars, at);
    // Local numbers (seven or eight digits) are known only by the word before them.
    if (7..=8).contains(&run.len()) && follows(chars, at, &TELEPHONE) {
        return other(in_pairs(&run), at + run.len());
    }
    let abroad = at > 0 && chars[at - 1] == '+';
    let wanted = if abroad { 12 } else { 11 };
    reject_if(run.len() < 2)?;
    let mut end = at + run.len();
    let mut whole = run;
    // Stops at the wanted length: a long list of numbers is not read anew for each of them.
    while whole.len() < wanted && matches!(chars.get(end), Some(' ' | '-' | '–')) {
        let group = digits(chars, end + 1);
        if group.is_empty() {
            break;
        }
        end += 1 + group.len();
        whole.push_str(&group);
    }
    reject_if(whole.len() != wanted)?;
    let (prefix, local) = match abroad {
        true => ("نود و هشت, ", whole.strip_prefix("98")?),
        false => ("صفر ", whole.strip_prefix('0')?),
    };
    let code = if local.starts_with('9') {
        let (operator, middle) = (&local[..3], &local[3..6]);
        format!("{}, {}", cardinal(operator), as_written(middle))
    } else {
        as_written(&local[..2])
    };
    let rest = &local[if local.starts_with('9') { 6 } else { 2 }..];
    other(format!("{prefix}{code}, {}", in_pairs(rest)), end)
}

/// Whether the word before `at` is one of `names`.
pub(super) fn follows(chars: &[char], at: usize, names: &[&str]) -> bool {
    let before = chars[..at].iter().rev().copied();
    let before = before.skip_while(|c| matches!(c, ' ' | ':'));
    let word = before.take_while(|c| is_persian(*c));
    names.iter().any(|name| name.chars().rev().eq(word.clone()))
}

/// Ten digits after «کد پستی», with or without a hyphen in the middle.
fn postal_code(chars: &[char], at: usize) -> Option<Numeral> {
    reject_if(!follows(chars, at, &["پستی", "کدپستی"]))?;
    let (all, end) = groups(chars, at, &['-', '–', '\u{2011}']);
    reject_if(all.iter().map(String::len).sum::<usize>() != 10)?;
    let words: Vec<String> = all.iter().map(|group| digit_by_digit(group)).collect();
    other(words.join(", "), end)
}

fn date(chars: &[char], at: usize) -> Option<Numeral> {
    ['/', '-', '.'].into_iter().find_map(|separator| {
        let (all, end) = groups(chars, at, &[separator]);
        Some(Numeral::new(
            calendar::date(&all)?,
            end,
            NumeralKind::Moment,
        ))
    })
}

/// ۱۰:۳۰ → «ده و سی دقیقه», with seconds if they are there; «ده» on the hour.
fn clock(chars: &[char], at: usize) -> Option<Numeral> {
    let (all, end) = groups(chars, at, &[':']);
    let (hour, minutes) = all.split_first()?;
    let below = |digits: &str, limit: u32| {
        (1..=2).contains(&digits.len()) && digits.parse::<u32>().is_ok_and(|n| n < limit)
    };
    reject_if(!below(hour, 25) || !(1..=2).contains(&minutes.len()))?;
    reject_if(
        minutes
            .iter()
            .any(|part| part.len() != 2 || !below(part, 60)),
    )?;
    let mut parts = vec![cardinal(hour)];
    for (part, name) in minutes.iter().zip(["دقیقه", "ثانیه"]) {
        if part != "00" {
            parts.push(format!("{} {name}", cardinal(part)));
        }
    }
    Some(Numeral::new(parts.join(" و "), end, NumeralKind::Moment))
}

/// Three or more groups that are no date: a version or address with dots is read with «نقطه», a
/// card number with hyphens group by group, and two groups with a colon are a ratio.
fn chain(chars: &[char], at: usize) -> Option<Numeral> {
    for (separators, least, between) in [
        (&['.'][..], 3, " نقطه "),
        (&['/'][..], 3, ", "),
        (&['-', '–', '\u{2011}'][..], 3, ", "),
        (&[':'][..], 2, " به "),
    ] {
        let (all, end) = groups(chars, at, separators);
        if all.len() >= least {
            if separators == ['.'] && are_thousands(&all) {
                return other(cardinal(&all.concat()), end);
            }
            let words: Vec<String> = all.iter().map(|group| as_written(group)).collect();
            return other(words.join(between), end);
        }
    }
    None
}

/// Dots between groups of three digits, where they cannot be a network address (four groups, none
/// above 255).
fn are_thousands(all: &[String]) -> bool {
    let threes = all[1..].iter().all(|group| group.len() == 3);
    let address =
        all.len() == 4 && (all.iter()).all(|group| group.as_str() <= "255" || group.len() < 3);
    let padded = all[1..].iter().any(|group| group.starts_with('0'));
    threes && all[0].len() <= 3 && !all[0].starts_with('0') && (padded || !address)
}

/// An integer with thousands separators, a decimal, a fraction or a mixed number.
fn number(chars: &[char], at: usize) -> Numeral {
    let (whole, end) = integer(chars, at);
    let places = match chars.get(end) {
        Some('.' | '٫' | '/' | '⁄') => digits(chars, end + 1),
        _ => String::new(),
    };
    if places.is_empty() {
        let integer = || Numeral::new(as_written(&whole), end, NumeralKind::Integer(whole.clone()));
        return mixed(chars, &whole, end).unwrap_or_else(integer);
    }
    if matches!(chars[end], '/' | '⁄') {
        return slash(chars, end, whole, places);
    }
    let after = end + 1 + places.len();
    let words = decimal(&whole, &places);
    Numeral::new(words, after, NumeralKind::Decimal { whole, places })
}

fn integer(chars: &[char], at: usize) -> (String, usize) {
    let mut whole = digits(chars, at);
    let mut end = at + whole.len();
    if whole.len() > 3 || whole.starts_with('0') {
        return (whole, end);
    }
    let Some(separator) = chars.get(end).filter(|c| matches!(c, ',' | '٬' | '،')) else {
        return (whole, end);
    };
    while chars.get(end) == Some(separator) {
        let group = digits(chars, end + 1);
        if group.len() != 3 {
            break;
        }
        whole.push_str(&group);
        end += 4;
    }
    (whole, end)
}

/// ۲ ½ and ۲ ۱/۲ → «دو و نیم», «دو و یک دوم».
fn mixed(chars: &[char], whole: &str, end: usize) -> Option<Numeral> {
    reject_if(chars.get(end) != Some(&' '))?;
    let above = digits(chars, end + 1);
    let slash = end + 1 + above.len();
    reject_if(above.is_empty() || !matches!(chars.get(slash), Some('/' | '⁄')))?;
    let (all, after) = groups(chars, end + 1, &['/', '⁄']);
    let [_, below] = &all[..] else { return None };
    reject_if(!is_fraction(&above, below) || precedes_decimal_word(chars, after))?;
    let part = fraction_words(&above, below, chars[slash]);
    other(format!("{} و {part}", as_written(whole)), after)
}

/// A slash is a year with its month, a decimal sign or a fraction, see `slash_decimals.tsv`.
fn slash(chars: &[char], end: usize, left: String, right: String) -> Numeral {
    let after = end + 1 + right.len();
    let typographic = chars[end] == '⁄';
    let named = |words| Numeral::new(words, after, NumeralKind::Other);
    if !typographic && let Some(words) = calendar::year_and_month(&left, &right) {
        return named(words);
    }
    let decimal_word = !typographic && precedes_decimal_word(chars, after);
    if !decimal_word && is_fraction(&left, &right) {
        return named(fraction_words(&left, &right, chars[end]));
    }
    let zero_is_heard = left.len() > 1 && left.starts_with('0');
    if right.len() <= 3 && left.len() <= 4 && !typographic && !zero_is_heard {
        let words = decimal(&left, &right);
        let (whole, places) = (left, right);
        return Numeral::new(words, after, NumeralKind::Decimal { whole, places });
    }
    named(format!("{}, {}", as_written(&left), as_written(&right)))
}

/// Proper fractions with a denominator that people say.
fn is_fraction(above: &str, below: &str) -> bool {
    let value = |digits: &str| match digits.as_bytes() {
        [b'1'..=b'9', ..] if digits.len() <= 7 => digits.parse::<u32>().ok(),
        _ => None,
    };
    value(above)
        .zip(value(below))
        .is_some_and(|(above, below)| {
            above < below && (below <= 1000 || [10_000, 100_000, 1_000_000].contains(&below))
        })
}

fn fraction_words(above: &str, below: &str, slash: char) -> String {
    match (slash, above, below) {
        ('⁄', "1", "2") => "نیم".to_owned(),
        _ => fraction(above, below),
    }
}

fn precedes_decimal_word(chars: &[char], at: usize) -> bool {
    let spaces = chars[at..].iter().take_while(|c| **c == ' ').count();
    let rest = &chars[at + spaces..];
    TABLES.slash_decimals.iter().any(|word| {
        rest.starts_with(word) && !rest.get(word.len()).is_some_and(|c| c.is_alphabetic())
    })
}

/// For ranges: whether the second number is larger. ۱۳۹۸-۹۹ counts, the century being left out; a
/// code that begins with a zero does not.
pub(super) fn ascends(first: &NumeralKind, second: &NumeralKind) -> bool {
    let value = |kind: &NumeralKind| match kind {
        NumeralKind::Integer(digits) if digits.len() > 1 && digits.starts_with('0') => None,
        NumeralKind::Integer(digits) => digits.parse::<f64>().ok(),
        NumeralKind::Decimal { whole, places } => format!("{whole}.{places}").parse().ok(),
        NumeralKind::Moment | NumeralKind::Other => None,
    };
    if let (NumeralKind::Integer(first), NumeralKind::Integer(second)) = (first, second)
        && first.len() == 4
        && second.len() == 2
    {
        return &first[2..] < second.as_str();
    }
    match (first, second) {
        (NumeralKind::Moment, NumeralKind::Moment) => true,
        _ => value(first)
            .zip(value(second))
            .is_some_and(|(first, second)| first < second),
    }
}
