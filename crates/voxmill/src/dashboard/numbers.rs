//! Numbers as short as a panel is narrow.

use std::time::Duration;

/// What stands where a number is not known.
pub(super) const UNKNOWN: &str = "–";

pub(super) fn or_unknown<T>(value: Option<T>, show: impl Fn(T) -> String) -> String {
    value.map_or_else(|| UNKNOWN.to_owned(), show)
}

pub(super) fn percent(share: f64) -> String {
    let percent = share * 100.0;
    let digits = usize::from(percent < 9.95);
    format!("{percent:.digits$} %")
}

pub(super) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

pub(super) fn bytes(bytes: u64) -> String {
    let mut value = bytes as f64;
    let mut units = ["B", "KiB", "MiB", "GiB", "TiB"].into_iter();
    let mut unit = units.next().unwrap_or_default();
    while value >= 999.5 {
        let Some(larger) = units.next() else { break };
        value /= 1024.0;
        unit = larger;
    }
    let digits = usize::from(value < 99.95 && unit != "B");
    format!("{value:.digits$} {unit}")
}

/// `1:02:03`, `2:03`.
pub(super) fn clock(time: Duration) -> String {
    let seconds = time.as_secs();
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    if hours > 0 {
        format!("{hours}:{minutes:02}:{seconds:02}")
    } else {
        format!("{minutes}:{seconds:02}")
    }
}

pub(super) fn milliseconds(time: Duration) -> String {
    let milliseconds = time.as_secs_f64() * 1e3;
    let digits = usize::from(milliseconds < 99.95);
    format!("{milliseconds:.digits$}")
}

/// Three significant digits, whether a loss is 12 or 0.0004.
pub(super) fn loss(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        size if size < 0.001 => format!("{value:.1e}"),
        size if size < 0.1 => format!("{value:.4}"),
        size if size < 10.0 => format!("{value:.3}"),
        _ => format!("{value:.1}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        assert_eq!([percent(0.004), percent(0.97)], ["0.4 %", "97 %"]);
        assert_eq!(
            [count(7), count(1_000), count(1_234_567)],
            ["7", "1,000", "1,234,567"]
        );
        assert_eq!(
            [bytes(10), bytes(1_000), bytes(3 << 29)],
            ["10 B", "1.0 KiB", "1.5 GiB"]
        );
        assert_eq!(clock(Duration::from_secs(63)), "1:03");
        assert_eq!(clock(Duration::from_secs(3_723)), "1:02:03");
        assert_eq!(milliseconds(Duration::from_micros(1_540)), "1.5");
        assert_eq!(
            [loss(12.34), loss(1.234), loss(0.01234)],
            ["12.3", "1.234", "0.0123"]
        );
        assert_eq!(or_unknown(None, percent), "–");
    }
}
