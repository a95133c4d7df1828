//! Findings for a person at a terminal: 80 columns, marks always with words beside them.

mod compare;
mod data_side;
mod profile;
mod scaling;
mod shape;
mod table;

pub use compare::comparison_text;
pub use data_side::data_side_text;
pub use profile::profile_text;
pub use scaling::scaling_text;
pub use shape::{bar, sparkline};
pub use table::{Align, Table};

/// The widest line.
pub const COLUMNS: usize = 80;

/// Whether marks and headings are coloured. Who prints decides: `NO_COLOR`, a pipe or a file mean none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Paint {
    pub colour: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    Good,
    Warn,
    Bad,
    /// Not measured.
    Open,
}

impl Paint {
    pub fn plain() -> Paint {
        Paint { colour: false }
    }

    pub fn mark(self, mark: Mark) -> String {
        let (sign, code) = match mark {
            Mark::Good => ("✓", "32"),
            Mark::Warn => ("!", "33"),
            Mark::Bad => ("✗", "31"),
            Mark::Open => ("–", "2"),
        };
        self.painted(sign, code)
    }

    pub fn heading(self, text: &str) -> String {
        self.painted(text, "1")
    }

    fn painted(self, text: &str, code: &str) -> String {
        match self.colour {
            true => format!("\u{1b}[{code}m{text}\u{1b}[0m"),
            false => text.to_owned(),
        }
    }
}

/// Words in lines of at most `COLUMNS`, the first behind `first`, the others behind as many spaces.
pub fn wrap(first: &str, shown_width: usize, text: &str) -> String {
    let mut out = String::from(first);
    let mut width = shown_width;
    let indent = " ".repeat(shown_width);
    let mut begun = false;
    for word in words(text) {
        let length = word.chars().count();
        if begun && width + 1 + length > COLUMNS {
            out.push('\n');
            out.push_str(&indent);
            width = shown_width;
            begun = false;
        }
        if begun {
            out.push(' ');
            width += 1;
        }
        out.push_str(&word);
        width += length;
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

/// A time with the unit that suits it.
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

pub fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

pub fn bytes(bytes: u64) -> String {
    let bytes = bytes as f64;
    match bytes {
        b if b < 1e6 => format!("{:.0} kB", b / 1e3),
        b if b < 1e9 => format!("{:.0} MB", b / 1e6),
        b => format!("{:.2} GB", b / 1e9),
    }
}

/// `12,345`
pub fn whole(number: f64) -> String {
    let digits = format!("{:.0}", number.abs());
    let mut out = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    match number < -0.5 {
        true => format!("-{out}"),
        false => out,
    }
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
        assert_eq!(
            [
                time(0.02),
                time(1.234),
                time(45.67),
                time(812.3),
                time(31_000.0)
            ],
            ["20 µs", "1.23 ms", "45.7 ms", "812 ms", "31.0 s"]
        );
        assert_eq!(
            (whole(1234567.0), whole(999.0)),
            ("1,234,567".into(), "999".into())
        );
        assert_eq!(bytes(1_500_000_000), "1.50 GB");
    }

    #[test]
    fn long_text_is_wrapped_under_its_beginning() {
        let text = wrap("  - ", 4, &"word ".repeat(40));
        assert!(text.lines().all(|line| line.chars().count() <= COLUMNS));
        assert!(
            text.lines()
                .skip(1)
                .all(|line| line.starts_with("    word"))
        );
    }

    #[test]
    fn without_colour_there_are_no_escapes() {
        assert_eq!(Paint::plain().mark(Mark::Bad), "✗");
        assert_eq!(
            Paint { colour: true }.mark(Mark::Good),
            "\u{1b}[32m✓\u{1b}[0m"
        );
    }
}
