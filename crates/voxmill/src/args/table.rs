//! `docs/flags.md`: every flag and key, written from what the program itself knows of them.

use std::fmt::Write as _;
use std::path::Path;

use clap::{Arg, CommandFactory as _};

use super::Cli;
use crate::checks::flag;
use crate::config::keys::{KEYS, Key, Role};

const INTRODUCTION: &str = "\
# Every flag and key

Written by the program (`VOXMILL_WRITE_DOCS=1 cargo test -p voxmill the_table_of_flags` writes it anew). A flag beats the file given with
`--config`, the file beats what is found out automatically, that beats the default; `--show-settings` prints each value with where it came
from. A switch that has a key may be given a value: `--no-overlap=false`. What stands under *key* goes into the file, `data.batch_size` as `batch_size:` below `data:`.
";

/// A flag, and the verbs that have it with the same words.
struct Row {
    heading: String,
    flag: String,
    key: Option<&'static Key>,
    verbs: Vec<String>,
    help: String,
}

fn rows() -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    for verb in Cli::command().get_subcommands() {
        for arg in verb.get_arguments().filter(|arg| !arg.is_hide_set()) {
            let (flag, help) = (shown(arg), in_a_cell(arg));
            let name = verb.get_name().to_owned();
            let known = rows
                .iter_mut()
                .find(|row| row.flag == flag && row.help == help);
            match known {
                Some(row) => row.verbs.push(name),
                None => rows.push(Row {
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
    let values: Vec<String> = arg
        .get_value_names()
        .unwrap_or_default()
        .iter()
        .map(|name| format!("<{name}>"))
        .collect();
    let switch = arg.get_num_args().is_some_and(|n| n.min_values() == 0);
    match (arg.get_long(), arg.get_action().takes_values()) {
        (None, _) => values.join(" "),
        (Some(long), true) if !switch => format!("--{long} {}", values.join(" ")),
        (Some(long), _) => format!("--{long}"),
    }
}

fn key_of(arg: &Arg) -> Option<&'static Key> {
    let long = format!("--{}", arg.get_long()?);
    let acting = KEYS.iter().copied().filter(|key| key.role == Role::Acts);
    acting.into_iter().find(|key| flag(key) == long)
}

fn in_a_cell(arg: &Arg) -> String {
    let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
    help.replace('\n', " ").replace('|', "\\|")
}

fn table() -> String {
    let rows = rows();
    let mut out = INTRODUCTION.to_owned();
    let mut headings: Vec<&str> = Vec::new();
    for row in &rows {
        if !headings.contains(&row.heading.as_str()) {
            headings.push(&row.heading);
        }
    }
    for heading in headings {
        let _ = writeln!(
            out,
            "\n## {heading}\n\n| flag | key | verbs | what it does |\n|---|---|---|---|"
        );
        for row in rows.iter().filter(|row| row.heading == heading) {
            let key = row.key.map_or(String::new(), |key| {
                format!("`{}.{}`", key.section.name(), key.name)
            });
            let verbs = row.verbs.join(", ");
            let _ = writeln!(out, "| `{}` | {key} | {verbs} | {} |", row.flag, row.help);
        }
    }
    out.push_str("\n## Keys of the earlier trainer\n\n| key | |\n|---|---|\n");
    for key in KEYS {
        let what = match key.role {
            Role::Acts => continue,
            Role::Alias(other) => format!("another name for `{other}`"),
            Role::NoMeaning(why) => format!("taken, named once, without effect: {why}"),
        };
        let _ = writeln!(out, "| `{}.{}` | {what} |", key.section.name(), key.name);
    }
    out
}

#[test]
fn the_table_of_flags_says_what_the_program_says() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/flags.md");
    let table = table();
    if std::env::var_os("VOXMILL_WRITE_DOCS").is_some() {
        std::fs::write(&path, &table).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == table,
        "docs/flags.md is out of date: VOXMILL_WRITE_DOCS=1 cargo test -p voxmill the_table_of_flags"
    );
}

/// The table has all keys, for each that acts has a flag.
#[test]
fn every_key_is_in_the_table() {
    let table = table();
    for key in KEYS {
        let cell = format!("`{}.{}`", key.section.name(), key.name);
        assert!(table.contains(&cell), "{cell}");
    }
}
