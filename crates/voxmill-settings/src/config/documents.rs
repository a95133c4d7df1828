//! The documents that the table of settings writes: `config.example.yaml`, `docs/flags.md` and
//! `docs/schemas/config.schema.json`. A test compares each with the file and says how to rewrite it.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::path::Path;

use clap::{Arg, CommandFactory as _};
use saphyr::{LoadableYamlNode as _, Scalar, Yaml};
use serde_json::{Map, Value, json};

use super::file::ConfigFile;
use super::keys::{KEYS, Key, Role, Section};
use super::value::Kind;
use crate::args::Cli;

const WRITE: &str = "VOXMILL_WRITE_DOCS=1 cargo test -p voxmill-settings documents";

/// Writes the file where that is asked for, and compares it with what it should be.
fn assert_written(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(name);
    if std::env::var_os("VOXMILL_WRITE_DOCS").is_some() {
        std::fs::write(&path, text).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(written == text, "{name} is out of date: {WRITE}");
}

fn of_section(section: Section) -> impl Iterator<Item = &'static Key> {
    let keys = KEYS.iter().copied();
    keys.filter(move |key| key.section == section)
}

// --- config.example.yaml

const EXAMPLE: &str = "\
# Every key that the commands of this version read, with its default; what is commented out has no
# fixed default, and an example instead. Give the file with --config; a flag beats a key.
# Names of the earlier Python trainer that are not here are in docs/flags.md: they are accepted.
# `prepare` reads what is under `data:` and ignores what only `train` needs.
#
# Written by the program from its table of settings, as docs/flags.md is.
# yaml-language-server: $schema=docs/schemas/config.schema.json
";

/// The column at which comments begin, where there is room.
const COMMENT: usize = 36;

fn example() -> String {
    let mut out = EXAMPLE.to_owned();
    for section in Section::OF_A_FILE {
        let _ = write!(out, "\n{}:", section.name());
        let mut heading = "";
        for key in of_section(section).filter(|key| key.role == Role::Acts) {
            if heading != key.heading() {
                heading = key.heading();
                let _ = write!(out, "\n  # -- {heading}\n");
            }
            let (value, commented) = key.in_example().unwrap();
            let sign = if commented { "# " } else { "" };
            let line = format!("  {sign}{}: {value}", key.name);
            let _ = writeln!(out, "{line:COMMENT$} # {}", key.in_words());
        }
    }
    out
}

#[test]
fn the_file_of_examples_is_what_the_table_gives() {
    assert_written("config.example.yaml", &example());
}

// --- docs/flags.md

fn introduction() -> String {
    format!(
        "\
# Every flag and key

Written by the program from its table of settings (`{WRITE}` rewrites it, with config.example.yaml and the schema). A flag beats the
file given with `--config`, the file beats what is found out automatically, that beats the default; `--show-settings` prints each value with
where it came from. A switch that has a key may be given a value: `--no-overlap=false`. What stands under *key* goes into the file,
`data.batch_size` as `batch_size:` below `data:`. Editors check and complete a file that begins with
`# yaml-language-server: $schema=docs/schemas/config.schema.json`.
"
    )
}

/// A flag, and the verbs that have it with the same words.
struct FlagRow {
    heading: String,
    flag: String,
    key: Option<&'static Key>,
    verbs: Vec<String>,
    help: String,
}

fn rows() -> Vec<FlagRow> {
    let mut rows: Vec<FlagRow> = Vec::new();
    for verb in Cli::command().get_subcommands() {
        for arg in verb.get_arguments().filter(|arg| !arg.is_hide_set()) {
            let (flag, help) = (shown(arg), in_a_cell(arg));
            let name = verb.get_name().to_owned();
            let mut known = rows.iter_mut();
            match known.find(|row| row.flag == flag && row.help == help) {
                Some(row) => row.verbs.push(name),
                None => rows.push(FlagRow {
                    heading: arg.get_help_heading().unwrap_or("Other").to_owned(),
                    key: key_of(arg),
                    flag,
                    verbs: vec![name],
                    help,
                }),
            }
        }
    }
    rows
}

fn shown(arg: &Arg) -> String {
    let names = arg.get_value_names().unwrap_or_default().iter();
    let values: Vec<String> = names.map(|name| format!("<{name}>")).collect();
    let switch = arg.get_num_args().is_some_and(|n| n.min_values() == 0);
    match (arg.get_long(), arg.get_action().takes_values()) {
        (None, _) => values.join(" "),
        (Some(long), true) if !switch => format!("--{long} {}", values.join(" ")),
        (Some(long), _) => format!("--{long}"),
    }
}

fn key_of(arg: &Arg) -> Option<&'static Key> {
    let long = arg.get_long()?;
    let mut acting = KEYS.iter().copied().filter(|key| key.role == Role::Acts);
    acting.find(|key| key.long() == long)
}

fn in_a_cell(arg: &Arg) -> String {
    let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
    help.replace('\n', " ").replace('|', "\\|")
}

fn flags() -> String {
    let rows = rows();
    let mut out = introduction();
    let mut seen = HashSet::new();
    let headings = rows.iter().map(|row| &row.heading);
    for heading in headings.filter(|&heading| seen.insert(heading)) {
        let _ = writeln!(
            out,
            "\n## {heading}\n\n| flag | key | verbs | what it does |\n|---|---|---|---|"
        );
        for row in rows.iter().filter(|row| row.heading == *heading) {
            let key = row.key.map(|key| format!("`{}`", key.path()));
            let key = key.unwrap_or_default();
            let verbs = row.verbs.join(", ");
            let _ = writeln!(out, "| `{}` | {key} | {verbs} | {} |", row.flag, row.help);
        }
    }
    out.push_str("\n## Keys of the earlier trainer\n\n| key | |\n|---|---|\n");
    for key in KEYS.iter() {
        if let Some(what) = of_earlier(key) {
            let _ = writeln!(out, "| `{}` | {what} |", key.path());
        }
    }
    out
}

/// What became of a name of the earlier trainer.
fn of_earlier(key: &Key) -> Option<String> {
    match key.role {
        Role::Acts => None,
        Role::Alias(other) => Some(format!("another name for `{other}`")),
        Role::NoMeaning(why) => Some(format!("accepted, named once, without effect: {why}")),
    }
}

#[test]
fn the_table_of_flags_says_what_the_program_says() {
    assert_written("docs/flags.md", &flags());
}

/// The table has all keys, for each that acts has a flag.
#[test]
fn every_key_is_in_the_table_of_flags() {
    let table = flags();
    for key in KEYS.iter() {
        let cell = format!("`{}`", key.path());
        assert!(table.contains(&cell), "{cell}");
    }
}

/// A file with every key that acts, as the file of examples has it, except for some.
pub(crate) fn every_key_but(left_out: &[&str]) -> String {
    let mut text = String::new();
    for section in Section::OF_A_FILE {
        let _ = writeln!(text, "{}:", section.name());
        let acting = of_section(section).filter(|key| key.role == Role::Acts);
        for key in acting.filter(|key| !left_out.contains(&key.name)) {
            let _ = writeln!(text, "  {}: {}", key.name, key.in_example().unwrap().0);
        }
    }
    text
}

// --- docs/schemas/config.schema.json

fn schema() -> Value {
    let section = |section: Section| {
        let keys = of_section(section).map(|key| (key.name.to_owned(), property(key)));
        json!({
            "type": ["object", "null"],
            "additionalProperties": false,
            "properties": keys.collect::<Map<_, _>>(),
        })
    };
    let sections = Section::OF_A_FILE.map(|s| (s.name().to_owned(), section(s)));
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A configuration file of voxmill",
        "description": format!("Written from the table of settings: {WRITE}"),
        "type": ["object", "null"],
        "additionalProperties": false,
        "properties": sections.into_iter().collect::<Map<_, _>>(),
    })
}

fn property(key: &Key) -> Value {
    let mut property = accepted(key.kind);
    match of_earlier(key) {
        None => {
            property["description"] = key.in_words().into();
            if let Some((_, false)) = key.in_example() {
                use super::value::Value as Setting;
                property["default"] = match key.default_value().unwrap() {
                    Setting::Whole(number) => number.into(),
                    Setting::Number(number) => number.into(),
                    Setting::Switch(on) => on.into(),
                    Setting::Text(text) => text.into(),
                };
            }
        }
        Some(what) => {
            property["description"] = what.into();
            property["deprecated"] = true.into();
        }
    }
    property
}

/// An empty key is as if it were not there, so every kind takes `null`.
fn accepted(kind: Kind) -> Value {
    match kind {
        Kind::Whole { min, max } => {
            json!({"type": ["integer", "null"], "minimum": min, "maximum": max})
        }
        Kind::Number { min, max } => {
            json!({"type": ["number", "null"], "minimum": min, "maximum": max})
        }
        Kind::Share => json!({
            "type": ["number", "string", "null"],
            "minimum": 0, "maximum": 1, "pattern": r"^[0-9]+(\.[0-9]*)? *%?$",
        }),
        Kind::Bytes => json!({
            "type": ["integer", "string", "null"],
            "minimum": 1, "pattern": r"^ *[0-9.]+ *([kKmMgGtT]([iI]?[bB])?|[bB])? *$",
        }),
        Kind::Switch => json!({"type": ["boolean", "null"]}),
        Kind::OneOf(words) => {
            let words = words.iter().map(|word| Value::from(*word));
            let all: Vec<Value> = words.chain([Value::Null]).collect();
            json!({"enum": all})
        }
        Kind::DeviceIndex => json!({
            "type": ["integer", "string", "null"],
            "minimum": 0, "maximum": u16::MAX, "pattern": "^(auto|[0-9]+)$",
        }),
        Kind::Name => json!({"type": ["string", "number", "null"], "maxLength": 100}),
        Kind::Device | Kind::Language | Kind::Path => json!({"type": ["string", "null"]}),
    }
}

#[test]
fn the_schema_of_the_file_is_what_the_table_gives() {
    let text = serde_json::to_string_pretty(&schema()).unwrap() + "\n";
    assert_written("docs/schemas/config.schema.json", &text);
}

/// A file as an editor sees it, for the schema.
fn as_json(yaml: &str) -> Value {
    fn of(node: &Yaml) -> Value {
        match node {
            Yaml::Value(Scalar::Boolean(on)) => (*on).into(),
            Yaml::Value(Scalar::Integer(number)) => (*number).into(),
            Yaml::Value(Scalar::FloatingPoint(number)) => number.into_inner().into(),
            Yaml::Value(Scalar::String(text)) => text.to_string().into(),
            Yaml::Sequence(items) => items.iter().map(of).collect::<Vec<_>>().into(),
            Yaml::Mapping(entries) => entries
                .iter()
                .map(|(name, value)| (name.as_str().unwrap().to_owned(), of(value)))
                .collect::<Map<_, _>>()
                .into(),
            _ => Value::Null,
        }
    }
    of(Yaml::load_from_str(yaml).unwrap().first().unwrap())
}

#[test]
fn the_schema_takes_what_the_program_takes_and_refuses_what_it_refuses() {
    let validator = jsonschema::validator_for(&schema()).unwrap();
    let taken = [
        &every_key_but(&[]),
        "data:\n  pin_memory: true\n  batch_size:\nmodel:\n",
        "data:\n  max_bad: 0.5\n  ram_budget: 1.5 GiB\n  data_gpu: auto\n",
    ];
    for text in taken {
        let (_, faults) = ConfigFile::examine(text, Path::new("c.yaml"));
        assert!(faults.is_empty(), "{faults:?}");
        let file = as_json(text);
        let problems: Vec<_> = validator
            .iter_errors(&file)
            .map(|e| e.to_string())
            .collect();
        assert!(problems.is_empty(), "{problems:?}");
    }
    for text in [
        "data:\n  batch_sise: 16\n",
        "data:\n  batch_size: 0\n",
        "data:\n  max_bad: 5\n",
        "data:\n  ram_budget: much\n",
        "data:\n  unordered: 1\n",
        "data:\n  hop_length: [256]\n",
        "model:\n  size: huge\n",
        "modell:\n  size: tiny\n",
    ] {
        let (_, faults) = ConfigFile::examine(text, Path::new("c.yaml"));
        assert!(
            !faults.is_empty() && !validator.is_valid(&as_json(text)),
            "{text}"
        );
    }
}
