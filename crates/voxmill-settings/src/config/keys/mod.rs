//! The table of settings: each is written once, and everything else is made from it.
//!
//! An entry has the name, what it accepts, its help, its default or the rule for it, and the verbs
//! that take it. From the table come the flags (`args/flags.rs`), the keys of the file, the defaults
//! that `settings/` resolves with, `config.example.yaml`, `docs/flags.md` and
//! `docs/schemas/config.schema.json` (`config/documents.rs`). Everything that a flag sets can also be
//! set in the file, except for what belongs to one call ([`Section::Call`]).

mod data;
mod devices;
mod feeding;
mod synthesize;
mod training;
mod verbs;

use std::sync::LazyLock;

pub use data::*;
pub use devices::*;
pub use feeding::*;
pub use synthesize::*;
pub use training::*;
pub use verbs::Verbs;

use super::legacy;
use super::value::{FromValue, Kind, Value};

/// Where a key stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Section {
    Data,
    Model,
    Training,
    /// In no file: a flag that belongs to one call.
    Call,
}

impl Section {
    /// In the order of the example file.
    pub const OF_A_FILE: [Section; 3] = [Section::Data, Section::Model, Section::Training];

    /// As it is written.
    pub fn name(self) -> &'static str {
        match self {
            Section::Data => "data",
            Section::Model => "model",
            Section::Training => "training",
            Section::Call => "flags",
        }
    }
}

/// What a key does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Read by at least one command; the others ignore it.
    Acts,
    /// Another name for the key given here.
    Alias(&'static str),
    /// Accepted and without effect, for the reason given.
    NoMeaning(&'static str),
}

/// What holds where a setting is not given.
#[derive(Clone, Copy, Debug)]
pub enum Rule {
    /// This, as it would be written.
    Is(&'static str),
    /// The same, from where a library has it.
    Of(fn() -> String),
    /// Found out from the machine or from other settings; in words.
    Auto(&'static str),
    /// The same, with words that are made from the numbers themselves.
    AutoOf(fn() -> String),
    /// Nothing; in words, what happens then.
    Absent(&'static str),
}

impl Rule {
    /// As `[default: …]` says it.
    fn words(self) -> String {
        match self {
            Rule::Is(text) | Rule::Auto(text) | Rule::Absent(text) => text.into(),
            Rule::Of(make) | Rule::AutoOf(make) => make(),
        }
    }
}

/// How some verbs take a setting: under which heading, with which words.
#[derive(Clone, Copy, Debug)]
pub struct Usage {
    pub verbs: Verbs,
    pub heading: &'static str,
    help: &'static str,
    rule: Rule,
}

/// One entry of the table.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    pub section: Section,
    pub name: &'static str,
    pub kind: Kind,
    pub role: Role,
    /// The flag without its hyphens, where it is not the name with hyphens.
    flag: Option<&'static str>,
    /// A letter for those who type it often.
    pub short: Option<char>,
    /// Another flag that is taken for it.
    pub flag_alias: Option<&'static str>,
    /// The flag says "no" where the key says "yes": its help.
    inverted: Option<&'static str>,
    /// A second flag that turns the setting off, and its help.
    pub negation: Option<(&'static str, &'static str)>,
    pub hidden: bool,
    /// In the short help too.
    pub(crate) common: bool,
    /// The flag may be given without a value.
    pub bare: bool,
    value_name: Option<&'static str>,
    /// Follows the default in the help.
    note: &'static str,
    /// For the file of examples, where there is no fixed default.
    example: Option<&'static str>,
    /// Words for the file of examples, where those of the flag do not fit.
    in_file: Option<&'static str>,
    usual: Usage,
    others: &'static [Usage],
}

impl PartialEq for Key {
    /// Names are unique.
    fn eq(&self, other: &Key) -> bool {
        self.name == other.name
    }
}

/// `setter(argument) => the field that it sets, and to what`.
macro_rules! setters {
    ($($setter:ident($($value:ident: $ty:ty)?) => $($field:ident).+ = $to:expr;)*) => {
        $(const fn $setter(mut self $(, $value: $ty)?) -> Key {
            self.$($field).+ = $to;
            self
        })*
    };
}

/// Building entries; [`settings!`] adds section, heading and verbs.
impl Key {
    setters! {
        rule(rule: Rule) => usual.rule = rule;
        is(default: &'static str) => usual.rule = Rule::Is(default);
        of(default: fn() -> String) => usual.rule = Rule::Of(default);
        auto(words: &'static str) => usual.rule = Rule::Auto(words);
        absent(words: &'static str) => usual.rule = Rule::Absent(words);
        note(note: &'static str) => note = note;
        example(value: &'static str) => example = Some(value);
        in_file(words: &'static str) => in_file = Some(words);
        value(name: &'static str) => value_name = Some(name);
        flag_is(flag: &'static str) => flag = Some(flag);
        short(letter: char) => short = Some(letter);
        or_flag(flag: &'static str) => flag_alias = Some(flag);
        hidden() => hidden = true;
        common() => common = true;
        bare() => bare = true;
        of_a_call() => section = Section::Call;
        only(verbs: Verbs) => usual.verbs = verbs;
        also(others: &'static [Usage]) => others = others;
    }

    const fn inverted_flag(mut self, flag: &'static str, help: &'static str) -> Key {
        self.inverted = Some(help);
        self.flag_is(flag)
    }

    const fn off_by(mut self, flag: &'static str, help: &'static str) -> Key {
        self.negation = Some((flag, help));
        self
    }

    pub(super) const fn in_group(
        mut self,
        section: Section,
        heading: &'static str,
        verbs: Verbs,
    ) -> Key {
        if !matches!(self.section, Section::Call) {
            self.section = section;
        }
        if self.usual.verbs.is_empty() {
            self.usual.verbs = verbs;
        }
        self.usual.heading = heading;
        self
    }
}

const fn key(name: &'static str, kind: Kind, help: &'static str) -> Key {
    Key {
        section: Section::Data,
        name,
        kind,
        role: Role::Acts,
        flag: None,
        short: None,
        flag_alias: None,
        inverted: None,
        negation: None,
        hidden: false,
        common: false,
        bare: false,
        value_name: None,
        note: "",
        example: None,
        in_file: None,
        usual: used(Verbs::NONE, "", help),
        others: &[],
    }
}

/// A name of the earlier trainer that is no setting of ours.
pub(super) const fn legacy_key(name: &'static str, kind: Kind, role: Role) -> Key {
    Key {
        role,
        ..key(name, kind, "")
    }
}

/// Off unless somebody turns it on.
const fn switch(name: &'static str, help: &'static str) -> Key {
    key(name, Kind::Switch, help).is("false")
}

/// Where other verbs use other words.
const fn used(verbs: Verbs, heading: &'static str, help: &'static str) -> Usage {
    Usage {
        verbs,
        heading,
        help,
        rule: Rule::Absent("none"),
    }
}

impl Usage {
    const fn rule(self, rule: Rule) -> Usage {
        Usage { rule, ..self }
    }
}

const fn whole(min: u64, max: u64) -> Kind {
    Kind::Whole { min, max }
}

const fn number(min: f64, max: f64) -> Kind {
    Kind::Number { min, max }
}

/// A part of the table: its list, section, heading and verbs, then the entries.
macro_rules! settings {
    ($list:ident: $section:ident, $heading:literal, $verbs:expr; $($constant:ident = $entry:expr;)*) => {
        $(pub static $constant: $crate::config::keys::Key =
            $entry.in_group($crate::config::keys::Section::$section, $heading, $verbs);)*
        pub(in crate::config) static $list: &[&$crate::config::keys::Key] = &[$(&$constant),*];
    };
}
pub(super) use settings;

/// Every setting, in the order in which help and documents list them.
static ALL: LazyLock<Vec<&'static Key>> = LazyLock::new(|| {
    let groups = [
        synthesize::VOICE,
        data::DATASET,
        data::TEXT,
        data::AUDIO,
        data::BATCHES,
        data::CACHE,
        feeding::WORK,
        feeding::FEEDING,
        devices::DEVICES,
        legacy::LEGACY,
        training::MODEL,
        training::LENGTH,
        training::OPTIMIZATION,
        training::CHECKPOINTS,
        training::EVALUATION,
        training::RUN,
        synthesize::SPEECH,
    ];
    groups.concat()
});

/// Every key that may stand in a file.
pub static KEYS: LazyLock<Vec<&'static Key>> = LazyLock::new(|| {
    let all = ALL.iter().copied();
    all.filter(|key| key.section != Section::Call).collect()
});

/// What a verb takes, and how.
pub(crate) fn of_verb(verb: Verbs) -> impl Iterator<Item = (&'static Key, &'static Usage)> {
    ALL.iter().filter_map(move |&key| {
        let usage = key.usages().find(|usage| usage.verbs.has(verb))?;
        Some((key, usage))
    })
}

/// Every setting that can be typed.
pub fn all() -> impl Iterator<Item = &'static Key> {
    ALL.iter().copied().filter(|key| key.role == Role::Acts)
}

impl Key {
    /// Whether the flag says "no" where the key says "yes".
    pub(crate) fn is_inverted(&self) -> bool {
        self.inverted.is_some()
    }

    fn usages(&self) -> impl Iterator<Item = &Usage> {
        std::iter::once(&self.usual).chain(self.others)
    }

    /// Without its hyphens.
    pub fn long(&self) -> String {
        let flag = self.flag.map(str::to_owned);
        flag.unwrap_or_else(|| self.name.replace('_', "-"))
    }

    /// `--num-workers`
    pub fn flag(&self) -> String {
        format!("--{}", self.long())
    }

    /// The flag with a value of the setting: `--num-workers 1`, `--no-cache` for `enable_caching: false`.
    pub fn flag_with(&self, value: &str) -> String {
        let name = self.flag();
        let on = if self.is_inverted() { "false" } else { "true" };
        match (self.kind, value) {
            (Kind::Switch, value) if value == on => name,
            (Kind::Switch, "true") => format!("{name}=false"),
            (Kind::Switch, value) => format!("{name}={value}"),
            (_, value) => format!("{name} {value}"),
        }
    }

    pub(crate) fn value_name(&self) -> &'static str {
        self.value_name.unwrap_or(match self.kind {
            Kind::Whole { .. } | Kind::DeviceIndex => "N",
            Kind::Number { .. } => "X",
            Kind::Share => "SHARE",
            Kind::Bytes => "SIZE",
            Kind::Switch => "BOOL",
            Kind::OneOf(_) | Kind::Name => "NAME",
            Kind::Device => "DEVICE",
            Kind::Language => "CODE",
            Kind::Path => "DIR",
        })
    }

    /// The help of a flag, its default at the end.
    pub fn help(&self, usage: &Usage) -> String {
        let help = self.inverted.unwrap_or(usage.help);
        match (self.kind, usage.rule) {
            (Kind::Switch, Rule::Is(_)) => help.into(),
            _ if self.bare => help.into(),
            (_, rule) => format!("{help} [default: {}{}]", rule.words(), self.note),
        }
    }

    /// What happens in a verb where the setting is absent.
    pub(crate) fn absent_in(&self, verb: Verbs) -> String {
        let usage = self.usages().find(|usage| usage.verbs.has(verb));
        usage.unwrap_or(&self.usual).rule.words()
    }

    fn default_text(&self) -> Option<String> {
        match self.usual.rule {
            rule @ (Rule::Is(_) | Rule::Of(_)) => Some(rule.words()),
            Rule::Auto(_) | Rule::AutoOf(_) | Rule::Absent(_) => None,
        }
    }

    pub(crate) fn default_value(&self) -> Option<Value> {
        self.kind.parse(&self.default_text()?).ok()
    }

    /// The fixed default. That there is one, and of this type, is for the tests to see to: each resolves
    /// all of a verb's settings.
    pub fn default<T: FromValue>(&self) -> T {
        let value = self.default_value().and_then(T::from_value);
        value.unwrap_or_else(|| panic!("`{}` has no default of this type", self.name))
    }
}

/// For the documents that are written from the table.
#[cfg(test)]
impl Key {
    /// `data.num_workers`
    pub(super) fn path(&self) -> String {
        format!("{}.{}", self.section.name(), self.name)
    }

    /// As the file of examples writes it, and whether as a comment.
    pub(crate) fn in_example(&self) -> Option<(String, bool)> {
        match self.example {
            Some(value) => Some((value.to_owned(), true)),
            None => Some((self.default_text()?, false)),
        }
    }

    pub(super) fn heading(&self) -> &'static str {
        self.usual.heading
    }

    /// What it does and what holds where it is not given, for the file of examples.
    pub(super) fn in_words(&self) -> String {
        let what = self.in_file.unwrap_or(self.usual.help);
        match (self.example, self.usual.rule) {
            (None, _) => format!("{what}{}", self.note),
            (Some(_), rule) => format!("{what}; default: {}{}", rule.words(), self.note),
        }
    }
}

/// The key of this very name.
pub fn find(section: Section, name: &str) -> Option<&'static Key> {
    KEYS.iter()
        .copied()
        .find(|key| key.section == section && key.name == name)
}

/// The key whose name is most like `name`, if any is like it at all; the same section wins a tie.
pub(crate) fn nearest(section: Section, name: &str) -> Option<&'static Key> {
    let likeness = |key: &Key| {
        let same = if key.section == section { 0.01 } else { 0.0 };
        strsim::jaro_winkler(key.name, &name.to_ascii_lowercase()) + same
    };
    KEYS.iter()
        .copied()
        .map(|key| (likeness(key), key))
        .filter(|(score, _)| *score > 0.8)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, key)| key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_flags_are_unique() {
        for (i, key) in ALL.iter().enumerate() {
            let before = &ALL[..i];
            assert!(
                before.iter().all(|other| other.name != key.name),
                "{} stands twice",
                key.name
            );
            let flags = |key: &Key| (key.role == Role::Acts).then(|| key.flag());
            let same = before.iter().find(|other| flags(other) == flags(key));
            assert!(same.is_none() || flags(key).is_none(), "{}", key.name);
        }
    }

    /// A default that its own kind refuses, or a key that the file of examples cannot show.
    #[test]
    fn every_default_and_every_example_is_taken() {
        for key in ALL.iter().filter(|key| key.role == Role::Acts) {
            if key.default_text().is_some() {
                assert!(key.default_value().is_some(), "{}", key.name);
            }
            if key.section != Section::Call {
                let (value, _) = key.in_example().unwrap_or_else(|| panic!("{}", key.name));
                assert!(key.kind.parse(&value).is_ok(), "{}: {value}", key.name);
            }
        }
    }

    #[test]
    fn switches_are_written_so_that_they_are_read_back() {
        use crate::args::Cli;
        use clap::Parser as _;
        for (key, value, flag) in [
            (&NUM_WORKERS, "1", "--num-workers 1"),
            (&PAD_TO_FIXED_LENGTH, "false", "--pad-to-fixed-length=false"),
            (&ENABLE_CACHING, "false", "--no-cache"),
            (&ENABLE_CACHING, "true", "--no-cache=false"),
            (&NO_OVERLAP, "false", "--no-overlap=false"),
            (&SIZE, "tiny", "--model-size tiny"),
        ] {
            assert_eq!(key.flag_with(value), flag);
            let line = format!("voxmill train {flag}");
            assert!(Cli::try_parse_from(line.split(' ')).is_ok(), "{line}");
        }
    }

    /// A key is named with its own section, whichever that is.
    #[test]
    fn a_key_is_named_with_its_section() {
        assert_eq!(NUM_WORKERS.path(), "data.num_workers");
        assert_eq!(SIZE.path(), "model.size");
        assert_eq!(LEARNING_RATE.path(), "training.learning_rate");
    }

    #[test]
    fn the_nearest_key_is_the_intended_one() {
        let nearest = |name| nearest(Section::Data, name).map(|key| key.name);
        assert_eq!(nearest("batch_sise"), Some("batch_size"));
        assert_eq!(nearest("lerning_rate"), Some("learning_rate"));
        assert_eq!(nearest("zzz"), None);
    }
}
