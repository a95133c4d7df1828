//! How numbers and words are written, everywhere in the program: sizes, shares, times, counts, and lines of text in
//! columns. Widths are those on a terminal, where a letter may take two columns or none.

use std::fmt::Display;
use std::time::Duration;

use unicode_width::UnicodeWidthStr as _;

/// The widest line.
pub const COLUMNS: usize = 80;

/// A share in a table: `97.3 %`.
pub fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

/// A share in a sentence: `97 %`, and small ones with a digit more.
pub fn short_percent(share: f64) -> String {
    let percent = 100.0 * share;
    let digits = usize::from(percent < 9.95);
    format!("{percent:.digits$} %")
}

/// A number of bytes: `812 MB`, `1.2 GB`.
pub fn size(bytes: u64) -> String {
    let n = bytes as f64;
    match n {
        0.0..1e3 => format!("{n} B"),
        1e3..1e6 => format!("{:.0} kB", n / 1e3),
        1e6..1e9 => format!("{:.0} MB", n / 1e6),
        _ => format!("{:.1} GB", n / 1e9),
    }
}

/// A measured time, with three digits that say something.
pub fn time(milliseconds: f64) -> String {
    match milliseconds {
        ms if ms <= 0.0 => "0".to_owned(),
        ms if ms < 0.1 => format!("{:.0} µs", ms * 1e3),
        ms if ms < 10.0 => format!("{ms:.2} ms"),
        ms if ms < 100.0 => format!("{ms:.1} ms"),
        ms if ms < 10_000.0 => format!("{ms:.0} ms"),
        ms => format!("{:.1} s", ms / 1e3),
    }
}

/// How long something lasts, from milliseconds to hours.
pub fn span(seconds: f64) -> String {
    match seconds {
        // An empty sum of floats is -0.0.
        ..=0.0 => "0 s".to_owned(),
        ..0.01 => format!("{:.1} ms", seconds * 1e3),
        0.01..1.0 => format!("{:.0} ms", seconds * 1e3),
        1.0..120.0 => format!("{seconds:.1} s"),
        120.0..5_400.0 => format!("{:.1} min", seconds / 60.0),
        _ => format!("{:.1} h", seconds / 3_600.0),
    }
}

/// `1:02:03`, `2:03`.
pub fn clock(time: Duration) -> String {
    let seconds = time.as_secs();
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match hours {
        0 => format!("{minutes}:{seconds:02}"),
        _ => format!("{hours}:{minutes:02}:{seconds:02}"),
    }
}

/// A whole number with its thousands apart: `13,100`.
pub fn count(number: impl Display) -> String {
    let number = number.to_string();
    let digits = number.trim_start_matches('-');
    let mut out = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    match number.starts_with('-') && digits != "0" {
        true => format!("-{out}"),
        false => out,
    }
}

/// A number rounded to a whole one: `12,345`.
pub fn whole(number: f64) -> String {
    count(format!("{number:.0}"))
}

/// `1 batch`, `13,100 batches`.
pub fn counted(number: impl Into<u64>, one: &str) -> String {
    let number = number.into();
    format!("{} {}", count(number), plural(number, one))
}

/// Singular or plural of a word: `batch`, `batches`.
pub fn plural(number: u64, one: &str) -> String {
    match number {
        1 => one.to_owned(),
        _ if one.ends_with("ch") || one.ends_with('x') => format!("{one}es"),
        _ => format!("{one}s"),
    }
}

/// Columns that a text takes, escapes for colours left out.
pub fn width(text: &str) -> usize {
    let mut parts = text.split('\u{1b}');
    let first = parts.next().unwrap_or_default().width();
    let rest = parts.map(|part| part.split_once('m').map_or(0, |(_, text)| text.width()));
    first + rest.sum::<usize>()
}

/// A text and as many blanks as make it so wide.
pub fn pad(text: &str, columns: usize) -> String {
    format!("{text}{}", " ".repeat(columns.saturating_sub(width(text))))
}

/// Words in lines of at most [`COLUMNS`], the first behind `head`, the others behind as many blanks.
pub fn wrap(head: &str, text: &str) -> String {
    let mut out = String::from(head);
    let indent = width(head);
    let mut column = indent;
    let mut begun = false;
    for word in words(text) {
        let length = width(&word);
        if begun && column + 1 + length > COLUMNS {
            out.push('\n');
            out.push_str(&" ".repeat(indent));
            column = indent;
            begun = false;
        }
        if begun {
            out.push(' ');
            column += 1;
        }
        out.push_str(&word);
        column += length;
        begun = true;
    }
    out
}

/// A number and its unit are one word: they are read together.
fn words(text: &str) -> Vec<String> {
    let is_unit = |word: &str| {
        let word = word.trim_end_matches([',', '.', ';', ':', ')']);
        let word = word.trim_end_matches("/s");
        matches!(
            word,
            "B" | "kB" | "MB" | "GB" | "ms" | "s" | "min" | "h" | "%"
        )
    };
    let mut words: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match words.last_mut() {
            Some(last) if is_unit(word) && last.ends_with(|c: char| c.is_ascii_digit()) => {
                last.push(' ');
                last.push_str(word);
            }
            _ => words.push(word.to_owned()),
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_stays_with_its_unit() {
        assert_eq!(
            words("up to 7.2 GB, or 3 %"),
            ["up", "to", "7.2 GB,", "or", "3 %"]
        );
    }

    #[test]
    fn numbers_carry_their_units() {
        let times = [0.02, 1.234, 45.67, 812.3, 31_000.0].map(time);
        assert_eq!(times, ["20 µs", "1.23 ms", "45.7 ms", "812 ms", "31.0 s"]);
        let sizes = [999, 12_000, 8_000_000, 1_240_000_000].map(size);
        assert_eq!(sizes, ["999 B", "12 kB", "8 MB", "1.2 GB"]);
        assert_eq!(span(1_800.0), "30.0 min");
        assert_eq!([0.004, 0.97].map(short_percent), ["0.4 %", "97 %"]);
        let clocks = [63, 3_723].map(|seconds| clock(Duration::from_secs(seconds)));
        assert_eq!(clocks, ["1:03", "1:02:03"]);
    }

    #[test]
    fn thousands_are_set_apart_and_words_follow_their_number() {
        let counts = [0, 7, 999, 1_000, 13_100, 1_234_567].map(count);
        assert_eq!(counts, ["0", "7", "999", "1,000", "13,100", "1,234,567"]);
        assert_eq!([-0.3, -1234.0].map(whole), ["0", "-1,234"]);
        assert_eq!(counted(1_u64, "batch"), "1 batch");
        assert_eq!(counted(1_200_u64, "batch"), "1,200 batches");
        assert_eq!(plural(2, "clip"), "clips");
    }

    #[test]
    fn widths_are_those_on_a_terminal() {
        assert_eq!(width("\u{1b}[31mcollate\u{1b}[0m"), 7);
        assert_eq!(width("話す"), 4);
        assert_eq!(pad("話", 4), "話  ");
    }

    #[test]
    fn long_text_is_wrapped_under_its_beginning() {
        let text = wrap("  - ", &"word ".repeat(40));
        assert!(text.lines().all(|line| width(line) <= COLUMNS));
        assert!(
            text.lines()
                .skip(1)
                .all(|line| line.starts_with("    word"))
        );
    }
}
