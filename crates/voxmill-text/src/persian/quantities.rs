//! Numbers with what hangs on them: sign, currency, per cent, unit, ordinal ending, range.

use super::calendar::is_month;
use super::numbers::{as_written, cardinal, digit_by_digit, ordinal};
use super::numerals::{Numeral, NumeralKind, ascends, digits, follows, numeral};
use super::tables::{Currency, TABLES, Unit};
use super::{ZWNJ, is_letter, is_persian};
use crate::reject_if;

/// Numbers too long for a price or a count are telephone numbers when a plus stands before them.
const SHORTEST_NUMBER_ABROAD: usize = 9;

/// Reads out every number and every sign that has a name. Digits must be ASCII.
pub(super) fn read(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    while at < chars.len() {
        let c = chars[at];
        // Most characters: no need to ask the tables.
        let silent = is_letter(c) || c == ' ' || c == ZWNJ;
        let found = || quantity(&chars, at).or_else(|| sign(&chars, at, &out));
        let Some((words, end)) = (!silent).then(found).flatten() else {
            out.push(c);
            at += 1;
            continue;
        };
        // A ZWNJ ties the number to its neighbour (۲۰‌ساله → بیست‌ساله); else spaces part them.
        if !out.ends_with(ZWNJ) {
            out.push(' ');
        }
        out.push_str(&words);
        if chars.get(end) != Some(&ZWNJ) {
            out.push(' ');
        }
        at = end;
    }
    out
}

type Found = Option<(String, usize)>;

fn is_digit(chars: &[char], at: usize) -> bool {
    chars.get(at).is_some_and(char::is_ascii_digit)
}

/// A number at `at`, perhaps behind a sign.
fn quantity(chars: &[char], at: usize) -> Found {
    let c = chars[at];
    if c.is_ascii_digit() {
        return Some(phrase(chars, at, None));
    }
    let free = at == 0 || chars[at - 1].is_whitespace() || matches!(chars[at - 1], '(' | '[' | '«');
    match c {
        '-' | '−' | '+' if free && is_digit(chars, at + 1) => {
            let name = if c == '+' { "مثبت" } else { "منفی" };
            let run = digits(chars, at + 1);
            let abroad = c == '+' && run.len() >= SHORTEST_NUMBER_ABROAD;
            let (words, end) = match numeral(chars, at + 1).kind {
                NumeralKind::Integer(_) if abroad => (digit_by_digit(&run), at + 1 + run.len()),
                _ => phrase(chars, at + 1, None),
            };
            Some((format!("{name} {words}"), end))
        }
        '٪' | '%' if is_digit(chars, at + 1) => {
            let (words, end) = phrase(chars, at + 1, None);
            Some((format!("{words} درصد"), end))
        }
        _ => {
            let currency = TABLES.currencies.get(&c)?;
            let start = at + 1 + usize::from(chars.get(at + 1) == Some(&' '));
            is_digit(chars, start).then(|| phrase(chars, start, Some(currency)))
        }
    }
}

/// A sign with a name, or an exponent.
fn sign(chars: &[char], at: usize, out: &str) -> Found {
    let c = chars[at];
    if c == '^' {
        let power = digits(chars, at + 1);
        let end = at + 1 + power.len();
        return match (power.as_str(), out.trim_end().ends_with("متر")) {
            ("", _) => None,
            ("2", true) => Some(("مربع".to_owned(), end)),
            ("3", true) => Some(("مکعب".to_owned(), end)),
            // On a Persian word it is the number of a footnote, which nobody reads.
            _ if at > 0 && is_persian(chars[at - 1]) => Some((String::new(), end)),
            _ => Some((format!("به توان {}", cardinal(&power)), end)),
        };
    }
    // کیلومتر/ساعت, unlike و/یا.
    if c == '/' {
        let is_last_word = |unit: &Unit| {
            let before = out.strip_suffix(unit.read);
            before.is_some_and(|before| before.is_empty() || before.ends_with([' ', '(']))
        };
        let per = TABLES.units.iter().any(is_last_word)
            && chars.get(at + 1).is_some_and(|c| is_persian(*c));
        return per.then(|| ("بر".to_owned(), at + 1));
    }
    let words = match TABLES.currencies.get(&c) {
        Some(currency) => currency.unit,
        None => TABLES.symbols.get(&c)?,
    };
    Some((words.to_owned(), at + 1))
}

/// A number or a range of numbers from `at` on, with its unit. `currency` was written in front.
fn phrase(chars: &[char], at: usize, currency: Option<&Currency>) -> (String, usize) {
    let mut number = numeral(chars, at);
    if let Some(second) = after_dash(chars, number.end) {
        // «نتیجه ۲-۳»: goals, not a range.
        number = if follows(chars, at, &["نتیجه", "نتیجهٔ"]) {
            Numeral {
                words: format!("{} بر {}", number.words, second.words),
                ..second
            }
        } else {
            range(number, second)
        };
    }
    if let Some(currency) = currency {
        return amount(chars, number, currency);
    }
    let bare = number.end;
    let (mut words, mut end) = with_unit(chars, number);
    // ۵٪-۱۰٪: both numbers carry the unit.
    if end > bare
        && let Some(second) = after_dash(chars, end)
    {
        let (second, second_end) = with_unit(chars, second);
        words = format!("{words} تا {second}");
        end = second_end;
    }
    (words, end)
}

/// The number behind a dash at `at`, spaces on both sides of the dash or on none.
fn after_dash(chars: &[char], at: usize) -> Option<Numeral> {
    let spaced = chars.get(at) == Some(&' ');
    let dash = at + usize::from(spaced);
    let is_dash = matches!(
        chars.get(dash),
        Some('-' | '–' | '—' | '−' | '\u{2010}' | '\u{2011}' | '\u{2012}')
    );
    let spaced_after = chars.get(dash + 1) == Some(&' ');
    let start = dash + 1 + usize::from(spaced_after);
    let is_range = is_dash && spaced == spaced_after && is_digit(chars, start);
    is_range.then(|| numeral(chars, start))
}

/// «پنج تا ده»; numbers that do not rise (scores, codes) are read one after the other.
fn range(first: Numeral, second: Numeral) -> Numeral {
    let between = match ascends(&first.kind, &second.kind) {
        true => " تا ",
        false => ", ",
    };
    Numeral {
        words: format!("{}{between}{}", first.words, second.words),
        ..second
    }
}

/// An amount of money, the scale before the currency: $۲ میلیون → «دو میلیون دلار».
fn amount(chars: &[char], number: Numeral, currency: &Currency) -> (String, usize) {
    let mut words = number.words;
    let mut end = number.end;
    let mut scaled = false;
    while let Some((word, after)) = next_word(chars, end)
        && ["هزار", "میلیون", "میلیارد", "تریلیون"].contains(&word.as_str())
    {
        words = format!("{words} {word}");
        end = after;
        scaled = true;
    }
    if !scaled && let Some(split) = in_hundredths(&number.kind, currency) {
        return (split, end);
    }
    (format!("{words} {}", currency.unit), end)
}

/// «پنج دلار و پنجاه سنت» for 5.50.
fn in_hundredths(kind: &NumeralKind, currency: &Currency) -> Option<String> {
    let (NumeralKind::Decimal { whole, places }, Some(hundredth)) = (kind, currency.hundredth)
    else {
        return None;
    };
    reject_if(places.len() != 2)?;
    let is_zero = |digits: &str| digits.bytes().all(|digit| digit == b'0');
    let units = format!("{} {}", cardinal(whole), currency.unit);
    let hundredths = format!("{} {hundredth}", cardinal(places));
    Some(match (is_zero(whole), is_zero(places)) {
        (_, true) => units,
        (true, false) => hundredths,
        _ => format!("{units} و {hundredths}"),
    })
}

/// The number with whatever is written behind it and belongs to it.
fn with_unit(chars: &[char], number: Numeral) -> (String, usize) {
    let end = number.end;
    if let NumeralKind::Integer(digits) = &number.kind
        && let Some(found) = as_ordinal(chars, &number.words, digits, end)
    {
        return found;
    }
    let words = number.words;
    let start = end + usize::from(chars.get(end) == Some(&' '));
    let Some(&c) = chars.get(start) else {
        return (words, end);
    };
    if matches!(number.kind, NumeralKind::Moment)
        && let Some((half, after)) = half_of_day(chars, start)
    {
        return (format!("{words} {half}"), after);
    }
    if let Some((unit, after)) = unit(chars, start) {
        return (format!("{words} {unit}"), after);
    }
    // «۵ $۳»: the sign belongs to the next number.
    if start > end && is_digit(chars, start + 1) {
        return (words, end);
    }
    if let Some(currency) = TABLES.currencies.get(&c) {
        let split = in_hundredths(&number.kind, currency);
        let words = split.unwrap_or_else(|| format!("{words} {}", currency.unit));
        return (words, start + 1);
    }
    if matches!(c, '٪' | '%' | '‰') {
        let name = TABLES.symbols.get(&c).copied().unwrap_or_default();
        return (format!("{words} {name}"), start + 1);
    }
    (words, end)
}

/// ۵م, ۳ام, ۵‌امین, and the day before the name of a month.
fn as_ordinal(chars: &[char], words: &str, digits: &str, end: usize) -> Found {
    let gap = chars.get(end).copied();
    let start = end + usize::from(matches!(gap, Some(ZWNJ | ' ')));
    let (word, after) = next_word(chars, start)?;
    match word.as_str() {
        "م" | "مین" if gap == Some(' ') => None,
        "م" | "ام" => Some((ordinal(words), after)),
        "مین" | "امین" => Some((format!("{}ین", ordinal(words)), after)),
        _ => {
            let day =
                digits.len() <= 2 && digits.parse().is_ok_and(|day: u32| (1..=31).contains(&day));
            // A zero before a day (۰۵ مرداد) is not read.
            let head = words.strip_suffix(&as_written(digits))?;
            let words = format!("{head}{}", cardinal(digits));
            (day && gap == Some(' ') && is_month(&word)).then(|| (ordinal(&words), end))
        }
    }
}

/// The Persian word after `at` (and one space), and where it ends.
fn next_word(chars: &[char], at: usize) -> Found {
    let start = at + usize::from(chars.get(at) == Some(&' '));
    let word: String = chars[start.min(chars.len())..]
        .iter()
        .take_while(|c| is_persian(**c) || **c == ZWNJ)
        .collect();
    let end = start + word.chars().count();
    (!word.is_empty()).then_some((word, end))
}

fn half_of_day(chars: &[char], at: usize) -> Option<(&'static str, usize)> {
    reject_if(chars.get(at + 2).is_some_and(|c| c.is_alphanumeric()))?;
    match chars[at..] {
        ['A', 'M', ..] | ['a', 'm', ..] => Some(("قبل از ظهر", at + 2)),
        ['P', 'M', ..] | ['p', 'm', ..] => Some(("بعد از ظهر", at + 2)),
        _ => None,
    }
}

/// A unit at `at`, or one per another (kg/m).
fn unit(chars: &[char], at: usize) -> Found {
    let (words, end) = single_unit(chars, at)?;
    if chars.get(end) == Some(&'/')
        && end + 1 < chars.len()
        && let Some((per, after)) = single_unit(chars, end + 1)
    {
        return Some((format!("{words} بر {per}"), after));
    }
    Some((words, end))
}

/// A unit's symbol, with a power where it can have one.
fn single_unit(chars: &[char], at: usize) -> Found {
    let found = TABLES.units.iter().filter_map(|unit| {
        reject_if(!chars[at..].starts_with(&unit.symbol))?;
        let end = at + unit.symbol.len();
        if let Some((power, after)) = power(chars, unit, end) {
            return Some((unit, format!("{} {power}", unit.read), after));
        }
        let ends = !chars.get(end).is_some_and(|c| c.is_alphanumeric());
        ends.then(|| (unit, unit.read.to_owned(), end))
    });
    // Of several the longest, so that km/h is not taken for km.
    let longest = found.max_by_key(|(unit, ..)| unit.symbol.len());
    longest.map(|(_, words, end)| (words, end))
}

fn power(chars: &[char], unit: &Unit, end: usize) -> Option<(&'static str, usize)> {
    reject_if(!unit.powers)?;
    let end = end + usize::from(chars.get(end) == Some(&'^'));
    let name = match digits(chars, end).as_str() {
        "2" => "مربع",
        "3" => "مکعب",
        _ => return None,
    };
    let ends = !chars.get(end + 1).is_some_and(|c| c.is_alphanumeric());
    ends.then_some((name, end + 1))
}
