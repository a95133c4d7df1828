//! YAML as text → values, of a file that is neither too deep nor too large. That is seen before it is taken into memory:
//! the library's loader calls itself for each level, and a file of 30,000 levels would end the program.
//!
//! It also copies what an alias names, and counts a key as one value whatever is in it: aliases of groups within keys
//! would grow tenfold with each line. A group is therefore not repeated by an alias.

use std::collections::HashSet;

use saphyr::{MarkedYaml, YamlLoader};
use saphyr_parser::{Event, Parser};

use super::file::FileProblem;

/// Sections, keys and a list are three.
const DEEPEST: usize = 16;

/// With every key there is, 400.
const MOST_VALUES: usize = 10_000;

/// The documents of a text, their scalars as they are written, so that flags and files share one parser of values.
pub(super) fn load(text: &str) -> Result<Vec<MarkedYaml<'_>>, FileProblem> {
    if let Some(fault) = exceeded(text) {
        return Err(fault);
    }
    let mut loader = YamlLoader::<MarkedYaml>::default();
    loader.early_parse(false);
    loader.alias_limit(MOST_VALUES);
    let loaded = Parser::new_from_str(text).load(&mut loader, true);
    match loaded.err().or_else(|| loader.error().cloned()) {
        None => Ok(loader.into_documents()),
        Some(error) => {
            let what = format!("this is not valid YAML: {}", error.info());
            let hint = "check the indentation (spaces, not tabs), the colons, and that no key stands twice around this place";
            Err(FileProblem::at(*error.marker(), 1, what, hint.into()))
        }
    }
}

/// The first place that is too deep, or beyond the last value. A text that is no YAML is left to the loader.
fn exceeded(text: &str) -> Option<FileProblem> {
    let (mut depth, mut values) = (0_usize, 0_usize);
    let mut groups = HashSet::new();
    for event in Parser::new_from_str(text) {
        let (event, span) = event.ok()?;
        match event {
            Event::MappingStart(anchor, _) | Event::SequenceStart(anchor, _) => {
                depth += 1;
                groups.insert(anchor);
            }
            Event::MappingEnd | Event::SequenceEnd => depth = depth.saturating_sub(1),
            _ => {}
        }
        values += 1;
        let what = if depth > DEEPEST {
            format!("more than {DEEPEST} groups of keys or lists are inside each other here")
        } else if values > MOST_VALUES {
            format!("the file holds more than {MOST_VALUES} keys and values")
        } else if matches!(event, Event::Alias(anchor) if groups.contains(&anchor)) {
            "an alias repeats a group of keys or a list here".to_owned()
        } else {
            continue;
        };
        let hint = "the sections `data:`, `model:` and `training:` hold plain keys; config.example.yaml shows them all";
        return Some(FileProblem::at(span.start, 1, what, hint.into()));
    }
    None
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::file::ConfigFile;

    fn refused(text: &str) -> String {
        let (config, faults) = ConfigFile::examine(text, Path::new("c.yaml"));
        assert!(config.is_none());
        faults.described[0].what.clone()
    }

    /// Each of these ended the program, or kept it busy for half a minute, before there were bounds.
    #[test]
    fn a_file_without_end_is_refused_at_once() {
        let too_deep = "more than 16 groups of keys or lists are inside each other here";
        // In one line, and in lines that are indented further and further.
        assert_eq!(
            refused(&format!("data:\n  {}", "- ".repeat(30_000))),
            too_deep
        );
        assert_eq!(refused(&"- ".repeat(30_000)), too_deep);
        assert_eq!(refused(&"? ".repeat(30_000)), too_deep);
        assert_eq!(refused(&"[".repeat(200)), too_deep);
        let indented: String = (0..1_300).map(|n| " ".repeat(n) + "a:\n").collect();
        assert_eq!(refused(&indented), too_deep);
        let keys: String = (0..300_000).map(|n| format!("  key{n}: 1\n")).collect();
        let too_many = "the file holds more than 10000 keys and values";
        assert_eq!(refused(&format!("data:\n{keys}")), too_many);
    }

    #[test]
    fn many_problems_are_counted_and_a_hundred_described() {
        let keys: String = (0..4_000).map(|n| format!("  key{n}: 1\n")).collect();
        let (config, faults) = ConfigFile::examine(&format!("data:\n{keys}"), Path::new("c.yaml"));
        assert!(config.is_some());
        assert_eq!((faults.described.len(), faults.more), (100, 3_900));
    }

    /// Also within keys, which the loader counts as one value each: nine lines would be 10⁹ values.
    #[test]
    fn aliases_repeat_single_values_alone() {
        let repeats = "an alias repeats a group of keys or a list here";
        for [open, close] in [["[", "]"], ["{? [", "] : 1}"]] {
            let mut text = String::from("a: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n");
            for n in 1..9 {
                let ten = vec![format!("*a{}", n - 1); 10].join(", ");
                text += &format!("b{n}: &a{n} {open}{ten}{close}\n");
            }
            assert_eq!(refused(&text), repeats);
        }
        let single = "data:\n  batch_size: &size 4\n  num_workers: *size\n";
        let (config, faults) = ConfigFile::examine(single, Path::new("c.yaml"));
        assert!(config.is_some() && faults.described.is_empty());
    }
}
