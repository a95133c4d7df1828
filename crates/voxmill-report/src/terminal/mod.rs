//! Findings for a person at a terminal: 80 columns, marks always with words next to them.

mod compare;
mod data_side;
mod devices;
mod page;
mod prepare;
mod profile;
mod scaling;
mod text;
mod validate;

pub use compare::comparison_text;
pub use data_side::data_side_text;
pub use devices::devices_text;
pub use prepare::prepared_text;
pub use profile::profile_text;
pub use scaling::scaling_text;
pub use text::front_end_text;
pub use validate::validation_text;

use crate::format::{counted, size};

/// Whether marks and headings are coloured. Who prints decides: `NO_COLOR`, a pipe or a file mean none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Paint {
    pub colour: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mark {
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

    fn mark(self, mark: Mark) -> String {
        let (sign, code) = match mark {
            Mark::Good => ("✓", "32"),
            Mark::Warn => ("!", "33"),
            Mark::Bad => ("✗", "31"),
            Mark::Open => ("–", "2"),
        };
        self.painted(sign, code)
    }

    fn heading(self, text: &str) -> String {
        self.painted(text, "1")
    }

    fn painted(self, text: &str, code: &str) -> String {
        match self.colour {
            true => format!("\u{1b}[{code}m{text}\u{1b}[0m"),
            false => text.to_owned(),
        }
    }
}

/// The machine in one line: its processor, the cores and memory that may be used, and what of it is free.
fn machine(cpu: Option<&str>, cores: usize, (memory, free): (Option<u64>, Option<u64>)) -> String {
    let cpu = cpu.unwrap_or("a CPU");
    let memory = memory.map(|memory| format!(", {} of memory", size(memory)));
    let free = free.map(|free| format!(" ({} free)", size(free)));
    let [memory, free] = [memory, free].map(Option::unwrap_or_default);
    format!("{cpu}, {}{memory}{free}", counted(cores as u64, "core"))
}

fn demo_note(demo: bool) -> &'static str {
    match demo {
        true => " (the built-in demo corpus)",
        false => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::{COLUMNS, width};

    /// The text, if no line of it is wider than the page.
    #[track_caller]
    pub(super) fn fits(text: String) -> String {
        for line in text.lines() {
            assert!(width(line) <= COLUMNS, "{line}");
        }
        text
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
