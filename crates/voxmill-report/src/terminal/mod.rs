//! Findings for a person at a terminal: 80 columns, marks always with words next to them.

mod compare;
mod data_side;
mod devices;
mod page;
mod prepare;
mod profile;
mod scaling;
mod shape;
mod table;
mod text;
mod validate;

use std::fmt::Write as _;

pub use compare::comparison_text;
pub use data_side::data_side_text;
pub use devices::devices_text;
pub use prepare::prepared_text;
pub use profile::profile_text;
pub use scaling::scaling_text;
pub use shape::{bar, sparkline};
pub use table::{Align, Table};
pub use text::front_end_text;
pub use validate::validation_text;

use crate::format::{counted, size};

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

/// The machine in one line: its processor, the cores and memory that may be used, and what of it is free.
fn machine(cpu: Option<&str>, cores: usize, (memory, free): (Option<u64>, Option<u64>)) -> String {
    let mut text = format!(
        "{}, {}",
        cpu.unwrap_or("a CPU"),
        counted(cores as u64, "core")
    );
    if let Some(memory) = memory {
        let _ = write!(text, ", {} of memory", size(memory));
    }
    if let Some(free) = free {
        let _ = write!(text, " ({} free)", size(free));
    }
    text
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

    #[test]
    fn without_colour_there_are_no_escapes() {
        assert_eq!(Paint::plain().mark(Mark::Bad), "✗");
        assert_eq!(
            Paint { colour: true }.mark(Mark::Good),
            "\u{1b}[32m✓\u{1b}[0m"
        );
    }
}
