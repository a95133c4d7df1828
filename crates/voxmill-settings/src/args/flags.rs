//! The flags of a verb, built from the table of settings, and what was typed of them.

use std::collections::HashMap;
use std::path::PathBuf;

use clap::parser::MatchesError;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches, ValueHint};

use super::parser::parsed;
use crate::config::keys::{self, Key, Section, Usage, Verbs};
use crate::config::value::{FromValue, Kind, Value};

/// Settings as they were typed. Which flags a verb has, the table says by the verb's name.
#[derive(Clone, Debug, Default)]
pub struct Flags {
    /// A YAML file with more settings.
    pub config: Option<PathBuf>,
    /// Only say what is set, and where it came from.
    pub show_settings: bool,
    /// By name; `None` is a flag without its value.
    typed: HashMap<&'static str, Option<Value>>,
    /// Settings that one flag turns on and another one off.
    contradictions: Vec<&'static Key>,
}

impl Flags {
    /// What was typed, where it has a value of this kind.
    pub fn get<T: FromValue>(&self, key: &Key) -> Option<T> {
        T::from_value(self.typed.get(key.name)?.clone()?)
    }

    /// Also where it was typed without a value.
    pub fn has(&self, key: &Key) -> bool {
        self.typed.contains_key(key.name)
    }

    /// As if it had been typed.
    pub fn set(&mut self, key: &'static Key, value: Value) {
        self.typed.insert(key.name, Some(value));
    }

    /// Whether one flag turns it on and another one off.
    pub fn contradict(&self, key: &Key) -> bool {
        self.contradictions.contains(&key)
    }
}

const CONFIG: &str = "config";
const SHOW_SETTINGS: &str = "show_settings";

impl Args for Flags {
    fn augment_args(command: Command) -> Command {
        let verb = Verbs::named(command.get_name());
        let settings = [
            Arg::new(CONFIG)
                .long("config")
                .value_name("FILE")
                .value_parser(clap::value_parser!(PathBuf))
                .help("A YAML file with the sections data:, model: and training:"),
            Arg::new(SHOW_SETTINGS)
                .long("show-settings")
                .action(ArgAction::SetTrue)
                .hide_short_help(true)
                .help("Print each setting with its value and where it came from, and stop"),
        ];
        let settings = settings.map(|arg| arg.help_heading("Settings"));
        let flags = keys::of_verb(verb).flat_map(|(key, usage)| flags(key, usage));
        command.args(settings).args(flags)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

/// A flag that may stand without its value.
fn bare(key: &Key, arg: Arg) -> Arg {
    match key.bare {
        true => arg.num_args(0..=1),
        false => arg,
    }
}

/// The flag of a setting, and the one that turns it off where there is one.
fn flags(key: &'static Key, usage: &Usage) -> Vec<Arg> {
    let arg = Arg::new(key.name)
        // The parser wants names that last; it is built once.
        .long(&*key.long().leak())
        .aliases(key.flag_alias)
        .help(key.help(usage))
        .help_heading(usage.heading)
        .hide(key.hidden)
        .hide_short_help(!key.common)
        .hide_possible_values(true);
    let arg = match key.short {
        Some(letter) => arg.short(letter),
        None => arg,
    };
    let arg = match (key.kind, key.section) {
        (Kind::Switch, Section::Call) => arg.action(ArgAction::SetTrue),
        (kind, _) => {
            let arg = arg
                .value_name(key.value_name())
                .value_parser(parsed(kind, move |text| kind.parse(text)));
            match kind {
                // `=` keeps a switch from swallowing what stands behind it.
                Kind::Switch => arg
                    .num_args(0..=1)
                    .require_equals(true)
                    .default_missing_value("true"),
                // Where they are out of range, that is the error.
                Kind::Number { .. } | Kind::Whole { .. } | Kind::Share | Kind::Bytes => {
                    arg.allow_negative_numbers(true)
                }
                Kind::Path => bare(key, arg.value_hint(ValueHint::AnyPath)),
                _ => bare(key, arg),
            }
        }
    };
    let off = key.negation.map(|(long, help)| {
        Arg::new(long)
            .long(long)
            .help(help)
            .help_heading(usage.heading)
            .hide_short_help(true)
            .action(ArgAction::SetTrue)
    });
    std::iter::once(arg).chain(off).collect()
}

impl FromArgMatches for Flags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let mut flags = Flags {
            config: matches.get_one(CONFIG).cloned(),
            show_settings: matches.get_flag(SHOW_SETTINGS),
            ..Flags::default()
        };
        for key in keys::all() {
            let Some(typed) = typed(key, matches)? else {
                continue;
            };
            flags.typed.insert(key.name, typed);
        }
        for key in keys::all() {
            let off = key
                .negation
                .map_or(Ok(None), |(long, _)| one(matches, long))?;
            if off == Some(true) {
                if flags.get(key) == Some(true) {
                    flags.contradictions.push(key);
                }
                flags.set(key, Value::Switch(false));
            }
        }
        Ok(flags)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// What was typed of a setting; the inner `None` is a flag without its value.
fn typed(key: &Key, matches: &ArgMatches) -> Result<Option<Option<Value>>, Error> {
    if !matches.try_contains_id(key.name).unwrap_or(false) {
        return Ok(None);
    }
    if let (Kind::Switch, Section::Call) = (key.kind, key.section) {
        let on = one(matches, key.name)? == Some(true);
        return Ok(on.then_some(Some(Value::Switch(true))));
    }
    let value = one(matches, key.name)?;
    Ok(Some(match value {
        Some(Value::Switch(on)) if key.is_inverted() => Some(Value::Switch(!on)),
        value => value,
    }))
}

/// `None` also where the verb has no such flag.
fn one<T: Clone + Send + Sync + 'static>(
    matches: &ArgMatches,
    name: &str,
) -> Result<Option<T>, Error> {
    match matches.try_get_one(name) {
        Ok(value) => Ok(value.cloned()),
        Err(MatchesError::UnknownArgument { .. }) => Ok(None),
        Err(error) => Err(Error::raw(
            clap::error::ErrorKind::ValueValidation,
            format!("{name}: {error}"),
        )),
    }
}
