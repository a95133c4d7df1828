//! Dates: which triples of numbers are one, and how it is read.

use super::numbers::{cardinal, ordinal};
use super::tables::TABLES;
use crate::reject_if;

/// Years that Persian text writes with four digits, by calendar.
fn is_jalali(year: u32) -> bool {
    (1200..1500).contains(&year)
}

fn is_gregorian(year: u32) -> bool {
    (1500..2200).contains(&year)
}

fn month_name(jalali: bool, number: u32) -> Option<&'static str> {
    let mut months = TABLES.months.iter();
    months
        .find(|month| month.jalali == jalali && month.number == number)
        .map(|month| month.name)
}

pub(super) fn is_month(word: &str) -> bool {
    TABLES.months.iter().any(|month| month.name == word)
}

/// «دوازدهم مرداد هزار و چهارصد و دو» for year-month-day, or day-month-year when the year has four
/// digits. Of two-digit years only 60 to 99 are taken, as Jalali years in front: anything else may
/// be a day.
pub(super) fn date(groups: &[String]) -> Option<String> {
    let [first, second, third] = groups else {
        return None;
    };
    let (year, day) = match (first.len(), third.len()) {
        (4, 1..=2) => (first, third),
        (1..=2, 4) => (third, first),
        (2, 2) if ("60"..="99").contains(&first.as_str()) => (first, third),
        _ => return None,
    };
    reject_if(second.len() > 2)?;
    let number = |digits: &str| digits.parse::<u32>().ok();
    let (y, mut m, mut d) = (number(year)?, number(second)?, number(day)?);
    let jalali = is_jalali(y) || y < 100;
    reject_if(!jalali && !is_gregorian(y))?;
    // 12/25/2023 can only be American.
    if !jalali && third.len() == 4 && m > 12 {
        (m, d) = (d, m);
    }
    let longest = match (jalali, m) {
        (true, 1..=6) => 31,
        (true, _) => 30,
        (false, 2) => 29,
        (false, 4 | 6 | 9 | 11) => 30,
        (false, _) => 31,
    };
    reject_if(!(1..=longest).contains(&d))?;
    let month = month_name(jalali, m)?;
    let day = ordinal(&cardinal(&d.to_string()));
    Some(format!("{day} {month} {}", cardinal(year)))
}

/// «مرداد هزار و چهارصد و دو» for ۱۴۰۲/۰۵. Only two-digit months: ۱۴۰۲/۵ may be a decimal.
pub(super) fn year_and_month(year: &str, month: &str) -> Option<String> {
    let number: u32 = year.parse().ok()?;
    let known = is_jalali(number) || is_gregorian(number);
    reject_if(year.len() != 4 || month.len() != 2 || !known)?;
    let month = month_name(is_jalali(number), month.parse().ok()?)?;
    Some(format!("{month} {}", cardinal(year)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<String> {
        let groups: Vec<String> = text.split('/').map(str::to_owned).collect();
        date(&groups)
    }

    #[test]
    fn only_possible_days_are_dates() {
        assert!(read("1402/6/31").is_some());
        assert!(read("1402/7/31").is_none());
        assert!(read("2023/2/30").is_none());
        assert!(read("1402/13/1").is_none());
        assert!(read("1402/1/0").is_none());
        assert!(read("12/5/1402").is_some());
        assert!(read("900/1/1").is_none());
    }
}
