//! How numbers and words are written, everywhere in the program: sizes, shares, times, counts, bars, tables and wrapped
//! text. Widths are those on a terminal, where a letter may take two columns or none.

#![warn(missing_docs)]

mod table;
mod utc;

use std::fmt::Display;
use std::time::Duration;

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

pub use table::Table;
pub use utc::Utc;

/// The widest line.
pub const COLUMNS: usize = 80;

/// A share in a table: `97.3 %`.
pub fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

/// [`percent`], where it was measured.
pub fn measured_percent(share: Option<f64>) -> String {
    share.map_or("not measured".to_owned(), percent)
}

/// A share in a sentence: `97 %`, and small ones with a digit more.
pub fn short_percent(share: f64) -> String {
    let percent = 100.0 * share;
    let digits = usize::from(percent < 9.95);
    format!("{percent:.digits$} %")
}

/// A share in a sentence, where less than a per cent does not matter: `97 %`.
pub fn whole_percent(share: f64) -> String {
    format!("{:.0} %", 100.0 * share)
}

/// A share as a person gave it: `5 %`, `2.5 %`.
pub fn given_percent(share: f64) -> String {
    format!("{} %", (1e4 * share).round() / 1e2)
}

/// A change with its sign, and none before zero: `+3.0`, `−1.2`, `0.0`.
pub fn signed(value: f64, places: usize) -> String {
    let text = format!("{value:+.places$}");
    match text.contains(|c| matches!(c, '1'..='9')) {
        true => text.replace('-', "−"),
        false => text.replace(['+', '-'], ""),
    }
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

/// A number of bytes as a person gives it, in the largest unit that it is a whole number of: `2GB`; tenths of a
/// gigabyte too: `6.3GB`.
pub fn given_size(bytes: u64) -> String {
    if bytes > 1_000_000_000 && bytes.is_multiple_of(100_000_000) {
        return format!("{}GB", bytes as f64 / 1e9);
    }
    let unit = [(1_000_000_000, "GB"), (1_000_000, "MB"), (1_000, "kB")]
        .into_iter()
        .find(|(size, _)| bytes > 0 && bytes.is_multiple_of(*size));
    match unit {
        Some((size, name)) => format!("{}{name}", bytes / size),
        None => bytes.to_string(),
    }
}

/// The same in whole megabytes, upwards: more digits than that would be pretence.
pub fn given_megabytes(bytes: u64) -> String {
    given_size(bytes.div_ceil(1_000_000) * 1_000_000)
}

/// A measured time with three significant digits.
pub fn time(milliseconds: f64) -> String {
    match milliseconds {
        ms if ms <= 0.0 => "0".to_owned(),
        ms if ms < 0.1 => format!("{:.0} µs", ms * 1e3),
        ms if ms < 100.0 => format!("{} ms", three_digits(ms)),
        ms if ms < 10_000.0 => format!("{ms:.0} ms"),
        ms => format!("{:.1} s", ms / 1e3),
    }
}

/// A measured number with three significant digits: `0.57`, `40.0`, `1,204`.
pub fn three_digits(number: f64) -> String {
    match number {
        ..=0.0 => "0".to_owned(),
        ..10.0 => format!("{number:.2}"),
        ..100.0 => format!("{number:.1}"),
        _ => whole(number),
    }
}

/// A measure next to its threshold: shares need more places than counts.
pub fn measure(value: f64) -> String {
    match value.abs() {
        100.0.. => whole(value),
        1.0.. => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

/// A loss: short, whether it is 12 or 0.0004.
pub fn loss(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        ..0.001 => format!("{value:.1e}"),
        ..0.1 => format!("{value:.4}"),
        ..10.0 => format!("{value:.3}"),
        _ => format!("{value:.1}"),
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

/// The time of a step without its unit, which stands in a heading or behind.
pub fn milliseconds(time: Duration) -> String {
    let milliseconds = time.as_secs_f64() * 1e3;
    let digits = usize::from(milliseconds < 99.95);
    format!("{milliseconds:.digits$}")
}

/// How long a run took: `12.3 s`, `5 min 12 s`, `1 h 05 min`.
pub fn elapsed(seconds: f64) -> String {
    let whole = seconds as u64;
    match seconds {
        ..100.0 => format!("{seconds:.1} s"),
        ..3_600.0 => format!("{} min {:02} s", whole / 60, whole % 60),
        _ => format!("{} h {:02} min", whole / 3_600, whole / 60 % 60),
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

/// A text padded with blanks to a number of columns.
pub fn pad(text: &str, columns: usize) -> String {
    format!("{text}{}", blanks(text, columns))
}

/// A text padded with blanks on its left.
pub fn pad_left(text: &str, columns: usize) -> String {
    format!("{}{text}", blanks(text, columns))
}

fn blanks(text: &str, columns: usize) -> String {
    " ".repeat(columns.saturating_sub(width(text)))
}

/// As much of a text's beginning as fits.
pub fn truncate(text: &str, columns: usize) -> String {
    fitting(text.chars(), columns).collect()
}

/// As much of a text's end as fits: in a path as in a list, what differs tends to be there.
pub fn truncate_left(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let end: Vec<char> = fitting(text.chars().rev(), columns.saturating_sub(1)).collect();
    std::iter::once('…').chain(end.into_iter().rev()).collect()
}

fn fitting(letters: impl Iterator<Item = char>, columns: usize) -> impl Iterator<Item = char> {
    letters.scan(0, move |taken, letter| {
        *taken += letter.width().unwrap_or(0);
        (*taken <= columns).then_some(letter)
    })
}

/// A bar for a share from 0 to 1, in eighths of a column.
pub fn bar(share: f64, columns: usize) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = (share.clamp(0.0, 1.0) * 8.0 * columns as f64).round() as usize;
    "█".repeat(eighths / 8) + EIGHTHS[eighths % 8]
}

/// Words in lines of at most [`COLUMNS`], the first behind `head`, the others behind as many blanks.
pub fn wrap(head: &str, text: &str) -> String {
    wrap_at(head, text, COLUMNS)
}

/// The same for another number of columns.
pub fn wrap_at(head: &str, text: &str, columns: usize) -> String {
    let mut out = String::from(head);
    let indent = width(head);
    let mut column = indent;
    for (at, word) in words(text).iter().enumerate() {
        let length = width(word);
        if at > 0 && column + 1 + length > columns {
            out += &format!("\n{}", " ".repeat(indent));
            column = indent;
        } else if at > 0 {
            out.push(' ');
            column += 1;
        }
        out.push_str(word);
        column += length;
    }
    out
}

/// A line for a terminal of so many columns: a longer one is broken between words, and goes on below its text, behind a label
/// such as `error: ` or `data      `. A command stays whole, to be copied: one in backticks, or alone behind its label.
pub fn fit(line: &str, columns: usize) -> String {
    if width(line) <= columns {
        return line.to_owned();
    }
    let (head, rest) = line.split_at(label(line));
    let is_command = head.ends_with("  ") && rest.starts_with("voxmill ");
    // Of a terminal that narrow nothing can be made.
    if is_command || width(head) + 20 > columns {
        return line.to_owned();
    }
    wrap_at(head, rest, columns)
}

/// The bytes of a line's label, and of the blanks behind it.
pub fn label(line: &str) -> usize {
    let text = line.trim_start_matches(' ');
    let indent = line.len() - text.len();
    let word = text.find(' ').unwrap_or(0);
    let behind = text[word..].len() - text[word..].trim_start_matches(' ').len();
    match behind > 1 || text[..word].ends_with(':') {
        true => indent + word + behind,
        false => indent,
    }
}

/// Where a word ends: a command in backticks is one, with all its blanks.
fn word_end(text: &str) -> usize {
    let blank = |text: &str| text.find(char::is_whitespace).unwrap_or(text.len());
    let end = blank(text);
    let Some(open) = text[..end].find('`') else {
        return end;
    };
    match text[open + 1..].find('`') {
        Some(length) if is_command(&text[open + 1..][..length]) => {
            let close = open + length + 2;
            close + blank(&text[close..])
        }
        _ => end,
    }
}

fn is_command(text: &str) -> bool {
    let signs = [" | ", " > ", " && ", "$("];
    text.starts_with("voxmill ") || signs.iter().any(|sign| text.contains(sign))
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
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let (word, behind) = rest.split_at(word_end(rest));
        rest = behind.trim_start();
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
    fn long_lines_go_on_below_their_text() {
        let error = "error: one two three four five six";
        assert_eq!(fit(error, 80), error);
        let command = "hint: run in that folder: `tr '\\n|' '  ' < a > b`";
        assert_eq!(
            fit(command, 30),
            "hint: run in that folder:\n      `tr '\\n|' '  ' < a > b`"
        );
        let again = "again     voxmill profile --replay runs/a";
        assert_eq!(fit(again, 30), again);
        assert_eq!(
            fit("error: ids are written id|text  at $1 each", 32),
            "error: ids are written id|text\n       at $1 each"
        );
        assert_eq!(fit(error, 28), "error: one two three four\n       five six");
        assert_eq!(
            fit("data      12 to train on, 3 held out", 31),
            "data      12 to train on, 3\n          held out"
        );
        assert_eq!(
            fit("  plain words that are too long here", 30),
            "  plain words that are too\n  long here"
        );
    }

    #[test]
    fn numbers_carry_their_units() {
        let times = [0.02, 1.234, 45.67, 812.3, 31_000.0].map(time);
        assert_eq!(times, ["20 µs", "1.23 ms", "45.7 ms", "812 ms", "31.0 s"]);
        let sizes = [999, 12_000, 8_000_000, 1_240_000_000].map(size);
        assert_eq!(sizes, ["999 B", "12 kB", "8 MB", "1.2 GB"]);
        assert_eq!(given_size(6_318_000_000), "6318MB");
        assert_eq!(given_size(6_300_000_000), "6.3GB");
        assert_eq!(given_size(2_000_000_000), "2GB");
        let given = [1, 2_000_000_000].map(given_megabytes);
        assert_eq!(given, ["1MB", "2GB"]);
        assert_eq!(span(1_800.0), "30.0 min");
        assert_eq!([0.004, 0.97].map(short_percent), ["0.4 %", "97 %"]);
        assert_eq!(whole_percent(0.074), "7 %");
        assert_eq!([0.07, 0.025].map(given_percent), ["7 %", "2.5 %"]);
        let clocks = [63, 3_723].map(|seconds| clock(Duration::from_secs(seconds)));
        assert_eq!(clocks, ["1:03", "1:02:03"]);
        let run_times = [12.34, 312.4, 3_900.0].map(elapsed);
        assert_eq!(run_times, ["12.3 s", "5 min 12 s", "1 h 05 min"]);
        assert_eq!(three_digits(1.54), "1.54");
        assert_eq!(milliseconds(Duration::from_micros(1_540)), "1.5");
        assert_eq!(
            [12.34, 1.234, 0.01234].map(loss),
            ["12.3", "1.234", "0.0123"]
        );
        let changes = [-0.0004, -1.25, 3.0].map(|change| signed(change, 1));
        assert_eq!(changes, ["0.0", "−1.2", "+3.0"]);
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
        assert_eq!([pad("話", 4), pad_left("話", 4)], ["話  ", "  話"]);
        assert_eq!(truncate("話す人", 5), "話す");
        let ends = ["話す人", "runs/first"].map(|text| truncate_left(text, 6));
        assert_eq!(ends, ["話す人", "…first"]);
    }

    #[test]
    fn bars_have_the_length_of_their_share() {
        assert_eq!(bar(0.5, 8), "████");
        assert_eq!(bar(0.0, 8), "");
        assert_eq!(bar(0.55, 10), "█████▌");
        assert_eq!(bar(2.0, 3), "███");
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
