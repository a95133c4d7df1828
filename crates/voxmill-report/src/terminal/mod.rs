//! Findings for a person at a terminal: 80 columns, marks always with words next to them.

mod compare;
mod data_side;
mod devices;
mod ledger;
mod page;
mod plan;
mod prepare;
mod profile;
mod runs;
mod scaling;
mod selftest;
mod settings;
mod text;
mod validate;
mod what_if;

pub use compare::comparison_text;
pub use data_side::data_side_text;
pub use devices::devices_text;
pub use ledger::ledger_text;
pub use plan::plan_text;
pub use prepare::prepared_text;
pub use profile::profile_text;
pub use runs::runs_text;
pub use scaling::scaling_text;
pub use selftest::{check_text, self_test_summary};
pub use settings::settings_text;
pub use text::front_end_text;
pub use validate::validation_text;

use voxmill_untrusted::shown;

use crate::format::{counted, label, size};

const ESCAPE: char = '\u{1b}';

/// What follows an escape in the colours that are used here.
const CODES: [&str; 6] = ["[0m", "[1m", "[2m", "[31m", "[32m", "[33m"];

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
    /// Without colours.
    pub fn plain() -> Paint {
        Paint { colour: false }
    }

    /// A text without what a terminal would obey, except for our own colours. A name that holds one of these
    /// can colour the text, and no more.
    pub fn harmless(self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        for (at, part) in text.split(ESCAPE).enumerate() {
            let is_code = CODES.iter().any(|code| part.starts_with(code));
            match at > 0 {
                true if is_code && self.colour => out.push(ESCAPE),
                true => out.extend(ESCAPE.escape_unicode()),
                false => {}
            }
            out += &shown::lines(part);
        }
        out
    }

    /// The marks of a text that was written without colours: those that a line begins with, behind its label.
    pub fn marks(self, text: &str) -> String {
        let signs = [(Mark::Good, "✓ "), (Mark::Warn, "! "), (Mark::Bad, "✗ ")];
        let line = |line: &str| {
            let found = signs.iter().find_map(|(mark, sign)| {
                let at = line.find(sign)?;
                let is_first = line[..at].is_empty() || line[..at].ends_with("  ");
                is_first.then(|| (self.mark(*mark), at, sign.len() - 1))
            });
            match found {
                Some((mark, at, bytes)) => {
                    format!("{}{mark}{}", &line[..at], &line[at + bytes..])
                }
                None => line.to_owned(),
            }
        };
        text.split('\n').map(line).collect::<Vec<_>>().join("\n")
    }

    /// The word that a message begins with, or its label.
    pub fn message(self, line: &str) -> String {
        let words = [
            ("error:", "31"),
            ("warning:", "33"),
            ("hint:", "1"),
            ("note:", "1"),
        ];
        let found = words.iter().find(|(word, _)| line.starts_with(word));
        if let Some((word, code)) = found {
            return self.painted(word, code) + &line[word.len()..];
        }
        let (head, rest) = line.split_at(label(line));
        let word = head.trim_end();
        match head.len() == page::LABEL && !head.starts_with(' ') && !word.is_empty() {
            true => self.heading(word) + &head[word.len()..] + rest,
            false => line.to_owned(),
        }
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
            true => format!("{ESCAPE}[{code}m{text}{ESCAPE}[0m"),
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
    fn marks_and_the_heads_of_messages_are_coloured_and_nothing_else() {
        let colours = Paint { colour: true };
        let text = "used      ✓ cpu! yes\n! warning\n  what ✓ is not a mark";
        let green = "used      \u{1b}[32m✓\u{1b}[0m cpu! yes";
        let yellow = "\u{1b}[33m!\u{1b}[0m warning";
        assert_eq!(
            colours.marks(text),
            format!("{green}\n{yellow}\n  what ✓ is not a mark")
        );
        assert_eq!(Paint::plain().marks(text), text);
        assert_eq!(colours.message("error: no"), "\u{1b}[31merror:\u{1b}[0m no");
        assert_eq!(colours.message("an error: no"), "an error: no");
        assert_eq!(
            colours.message("data      12 clips"),
            "\u{1b}[1mdata\u{1b}[0m      12 clips"
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

    #[test]
    fn only_our_own_colours_reach_a_terminal() {
        let colours = Paint { colour: true };
        for mark in [Mark::Good, Mark::Warn, Mark::Bad, Mark::Open] {
            let mark = colours.heading(&colours.mark(mark));
            assert_eq!(colours.harmless(&mark), mark);
            assert!(!Paint::plain().harmless(&mark).contains(ESCAPE));
        }
        let clipboard = "a\u{1b}]52;c;QQ==\u{7}\u{1b}[2J\u{9b}1m\n";
        assert_eq!(
            colours.harmless(clipboard),
            "a\\u{1b}]52;c;QQ==\\u{7}\\u{1b}[2J\\u{9b}1m\n"
        );
    }
}
