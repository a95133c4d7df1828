//! Changes to a YAML text, line by line, so that comments, order and line ends stay as they are.
//!
//! A change that does not come out as intended (several keys on one line, a value over several lines)
//! is not made: [`apply`] reads the new text again and returns it only if it says what it should.

use std::path::Path;

use voxmill_report::results::validate::ChangedLine;

use crate::checks::Suggestion;
use crate::config::file::ConfigFile;
use crate::config::keys::{self, Key};

/// One change.
#[derive(Clone, Debug, PartialEq)]
pub enum Edit {
    /// A setting is written as suggested.
    Set(Suggestion),
    /// The key on a line, from 1, gets another name.
    Rename { line: usize, to: &'static str },
    /// A line becomes a comment.
    CommentOut { line: usize },
}

/// The new text and what changed; `None` where it has to be done by hand.
pub fn apply(text: &str, edit: &Edit) -> Option<(String, ChangedLine)> {
    let (config, faults) = ConfigFile::examine(text, Path::new(""));
    let config = config?;
    let mut lines = Lines::of(text);
    let change = match edit {
        Edit::Set(line) => {
            let place = config.place(line.key);
            match (&line.value, place) {
                (Some(value), Some(place)) => lines.set_value(place.line, place.column, value)?,
                (Some(value), None) => lines.add(line.key, value)?,
                (None, Some(place)) => lines.take_out(place.line, place.column)?,
                (None, None) => return None,
            }
        }
        Edit::Rename { line, to } => lines.rename(*line, to)?,
        Edit::CommentOut { line } => {
            let column = lines.indentation(*line) + 1;
            lines.take_out(*line, column)?
        }
    };
    let new = lines.whole();
    let (config, faults_now) = ConfigFile::examine(&new, Path::new(""));
    let config = config?;
    let as_intended = match edit {
        Edit::Set(line) => {
            let wanted = line.value.as_ref().map(|value| line.key.kind.parse(value));
            let wanted = wanted.transpose().ok()?;
            config.value(line.key) == wanted.as_ref() && faults_now.count() <= faults.count()
        }
        Edit::Rename { .. } | Edit::CommentOut { .. } => faults_now.count() < faults.count(),
    };
    as_intended.then_some((new, change))
}

/// Lines without their ends, which are all alike.
struct Lines {
    lines: Vec<String>,
    end: &'static str,
    /// Whether the last line has an end, too.
    closed: bool,
}

impl Lines {
    fn of(text: &str) -> Lines {
        Lines {
            lines: text.lines().map(str::to_owned).collect(),
            end: if text.contains("\r\n") { "\r\n" } else { "\n" },
            closed: text.is_empty() || text.ends_with('\n'),
        }
    }

    fn whole(&self) -> String {
        let mut text = self.lines.join(self.end);
        if self.closed {
            text.push_str(self.end);
        }
        text
    }

    fn indentation(&self, line: usize) -> usize {
        let text = self.lines.get(line - 1).map_or("", String::as_str);
        text.chars().take_while(|c| *c == ' ').count()
    }

    fn replace(&mut self, line: usize, after: String) -> Option<ChangedLine> {
        let place = self.lines.get_mut(line - 1)?;
        let before = Some(std::mem::replace(place, after.clone()));
        Some(ChangedLine {
            line,
            before,
            after,
        })
    }

    /// The line's parts: up to the colon, the value, and what follows it. Only where the key is the
    /// first thing on its line.
    fn parts(&self, line: usize, column: usize) -> Option<(&str, &str, &str)> {
        let text = self.lines.get(line - 1)?;
        if self.indentation(line) != column - 1 {
            return None;
        }
        let colon = text.find(':')?;
        let (head, rest) = text.split_at(colon + 1);
        let value_at = rest.len() - rest.trim_start().len();
        let value = &rest[value_at..];
        let end = match value.chars().next() {
            Some(quote @ ('"' | '\'')) => value[1..].find(quote)? + 2,
            Some('#') | None => 0,
            _ => value.find(" #").unwrap_or(value.len()),
        };
        let (value, tail) = value.split_at(end);
        let kept = value.trim_end();
        let tail_at = value.len() - kept.len() + tail.len();
        Some((head, kept, &rest[rest.len() - tail_at..]))
    }

    fn set_value(&mut self, line: usize, column: usize, value: &str) -> Option<ChangedLine> {
        let (head, old, tail) = self.parts(line, column)?;
        let comment = tail.trim_start();
        let after = if comment.is_empty() {
            format!("{head} {value}")
        } else {
            // The comment keeps its column where there is room.
            let column = old.chars().count() + tail.chars().count() - comment.chars().count();
            let gap = column.saturating_sub(value.chars().count()).max(1);
            format!("{head} {value}{}{comment}", " ".repeat(gap))
        };
        self.replace(line, after)
    }

    fn take_out(&mut self, line: usize, column: usize) -> Option<ChangedLine> {
        let text = self.lines.get(line - 1)?;
        if self.indentation(line) != column - 1 {
            return None;
        }
        let (indentation, rest) = text.split_at(column - 1);
        let after = format!("{indentation}# {rest}");
        self.replace(line, after)
    }

    fn rename(&mut self, line: usize, to: &str) -> Option<ChangedLine> {
        let text = self.lines.get(line - 1)?;
        let (indentation, rest) = text.split_at(self.indentation(line));
        let (_, tail) = rest.split_once(':')?;
        let after = format!("{indentation}{to}:{tail}");
        self.replace(line, after)
    }

    /// At the end of the key's section, or in a new one.
    fn add(&mut self, key: &Key, value: &str) -> Option<ChangedLine> {
        if key.section == keys::Section::Call {
            return None;
        }
        let name = format!("{}:", key.section.name());
        let header = self.lines.iter().position(|line| {
            let rest = line.strip_prefix(&name).map(str::trim_start);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('#'))
        });
        let Some(header) = header else {
            self.lines.push(name);
            self.closed = true;
            let at = self.lines.len();
            return Some(self.insert(at, format!("  {}: {value}", key.name)));
        };
        let ends = |line: &String| !line.is_empty() && !line.starts_with([' ', '#', '\t']);
        let rest = &self.lines[header + 1..];
        let length = rest.iter().position(ends).unwrap_or(rest.len());
        let is_key = |line: &String| {
            let text = line.trim_start();
            !text.is_empty() && !text.starts_with('#')
        };
        let section = &rest[..length];
        let last = section.iter().rposition(is_key);
        let first = section.iter().find(|line| is_key(line));
        let indentation = first.map_or(2, |line| line.len() - line.trim_start().len());
        let at = header + 1 + last.map_or(0, |last| last + 1);
        let line = format!("{}{}: {value}", " ".repeat(indentation), key.name);
        Some(self.insert(at, line))
    }

    fn insert(&mut self, at: usize, line: String) -> ChangedLine {
        self.lines.insert(at, line.clone());
        ChangedLine {
            line: at + 1,
            before: None,
            after: line,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(text: &str, key: &'static Key, value: Option<&str>) -> Option<String> {
        let value = value.map(str::to_owned);
        apply(text, &Edit::Set(Suggestion { key, value })).map(|(text, _)| text)
    }

    #[test]
    fn a_value_is_replaced_and_its_comment_stays_where_it_was() {
        let text = "# mine\ndata:\n  num_workers: 12   # many\n  batch_size: 8\n";
        let new = "# mine\ndata:\n  num_workers: 1    # many\n  batch_size: 8\n";
        let quoted = "data:\n  ram_budget: \"4 GB\" # half\n";
        let new_size = "data:\n  ram_budget: 2GB    # half\n";
        let other_name = "data:\n  pipeline_buffer_size: 90\n";
        let new_buffer = "data:\n  pipeline_buffer_size: 9\n";
        let other_ends = "data:\r\n  seed: 1\r\n";
        for (text, key, value, new) in [
            (text, &keys::NUM_WORKERS, "1", new),
            (quoted, &keys::RAM_BUDGET, "2GB", new_size),
            (other_name, &keys::BUFFER_SIZE, "9", new_buffer),
            // Line ends of other systems stay.
            (other_ends, &keys::SEED, "2", "data:\r\n  seed: 2\r\n"),
        ] {
            assert_eq!(set(text, key, Some(value)).unwrap(), new);
        }
    }

    #[test]
    fn a_missing_key_goes_to_the_end_of_its_section() {
        let text = "data:\n    seed: 1   # s\n\n    # trailing\nmodel:\n  size: tiny\n";
        let new = set(text, &keys::BATCH_SIZE, Some("4")).unwrap();
        assert_eq!(
            new,
            "data:\n    seed: 1   # s\n    batch_size: 4\n\n    # trailing\nmodel:\n  size: tiny\n"
        );
        let new = set(text, &keys::WARMUP_STEPS, Some("4")).unwrap();
        assert!(
            new.ends_with("  size: tiny\ntraining:\n  warmup_steps: 4\n"),
            "{new}"
        );
        let empty = set("data:\n", &keys::BATCH_SIZE, Some("4")).unwrap();
        assert_eq!(empty, "data:\n  batch_size: 4\n");
        let unclosed = set("model:\n  size: tiny", &keys::SEED, Some("4")).unwrap();
        assert_eq!(unclosed, "model:\n  size: tiny\ndata:\n  seed: 4\n");
    }

    #[test]
    fn a_key_is_taken_out_as_a_comment_and_a_misspelt_one_renamed() {
        let text = "data:\n  mixed_precision: true # fast\n  batch_sise: 4\n  n_mels: many\n";
        let new = set(text, &keys::MIXED_PRECISION, None).unwrap();
        assert!(
            new.contains("\n  # mixed_precision: true # fast\n"),
            "{new}"
        );
        let rename = Edit::Rename {
            line: 3,
            to: "batch_size",
        };
        let (new, change) = apply(text, &rename).unwrap();
        assert!(new.contains("\n  batch_size: 4\n"), "{new}");
        assert_eq!(change.before.as_deref(), Some("  batch_sise: 4"));
        let (new, _) = apply(text, &Edit::CommentOut { line: 4 }).unwrap();
        assert!(new.contains("\n  # n_mels: many\n"), "{new}");
    }

    #[test]
    fn what_cannot_be_done_by_lines_is_left_to_the_person() {
        let flow = "data: {num_workers: 12, batch_size: 4}\n";
        assert_eq!(set(flow, &keys::NUM_WORKERS, Some("1")), None);
        assert_eq!(set(flow, &keys::SEED, Some("1")), None);
        let folded = "data:\n  ram_budget: >\n    4GB\n";
        assert_eq!(set(folded, &keys::RAM_BUDGET, Some("2GB")), None);
        let list = "data:\n  hop_length:\n    - 256\n";
        assert!(apply(list, &Edit::CommentOut { line: 2 }).is_none());
    }
}
