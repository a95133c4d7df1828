//! Picks each value by flag > file > auto > default, and remembers which it was.

use std::collections::HashMap;
use voxmill_format::given_size;

use super::{Origin, ResolvedSetting, is_given, origin};
use crate::args::Flags;
use crate::config::file::ConfigFile;
use crate::config::keys::{Key, Role, Verbs};
use crate::config::value::{FromValue, Kind};
use crate::error::UserError;
use crate::note::Note;

#[derive(Debug)]
pub(super) struct Resolver {
    flags: Flags,
    /// Whose words say what an absent setting means.
    verb: Verbs,
    file: ConfigFile,
    pub(super) resolved: Vec<ResolvedSetting>,
    pub(super) setting_notes: Vec<SettingNote>,
    repairs: Repairs,
}

/// A note, and the setting that it is about.
#[derive(Clone, Debug)]
pub struct SettingNote {
    pub key: &'static Key,
    pub note: Note,
}

/// Settings with another value than was given, by name; `None` is as if they were not given. So
/// `validate` sees what is behind the first refusal.
pub type Repairs = HashMap<&'static str, Option<String>>;

impl Resolver {
    pub(super) fn new(flags: Flags, verb: Verbs) -> anyhow::Result<Resolver> {
        let path = flags.config.as_deref();
        let file = path.map(ConfigFile::read).transpose()?.unwrap_or_default();
        let mut resolver = Resolver::repaired(flags, file, Repairs::new());
        resolver.verb = verb;
        Ok(resolver)
    }

    /// For `train`, with a file that was read already, some settings repaired.
    pub(super) fn repaired(flags: Flags, file: ConfigFile, repairs: Repairs) -> Resolver {
        Resolver {
            flags,
            verb: Verbs::TRAIN,
            file,
            resolved: Vec::new(),
            setting_notes: Vec::new(),
            repairs,
        }
    }

    pub(super) fn given<T: FromValue>(&self, key: &Key) -> Option<(T, Origin)> {
        if let Some(repair) = self.repairs.get(key.name) {
            let value = key.kind.parse(repair.as_deref()?).ok()?;
            return Some((T::from_value(value)?, Origin::Auto("as fixed")));
        }
        let flag = self.flags.get(key).map(|value| (value, Origin::Flag));
        flag.or_else(|| {
            let (value, place) = self.file.get(key)?;
            Some((value, Origin::File(place)))
        })
    }

    pub(super) fn record<T: FromValue>(
        &mut self,
        key: &'static Key,
        (value, origin): (T, Origin),
    ) -> T {
        let text = value.show();
        let text = match (key.kind, text.parse()) {
            (Kind::Bytes, Ok(bytes)) => given_size(bytes),
            _ => text,
        };
        self.push(key, text, origin);
        value
    }

    fn push(&mut self, key: &'static Key, value: String, origin: Origin) {
        let setting = ResolvedSetting { key, value, origin };
        self.resolved.push(setting);
    }

    /// A setting with a fixed default, which the table has.
    pub(super) fn pick<T: FromValue>(&mut self, key: &'static Key) -> T {
        let picked = self.given(key);
        let picked = picked.unwrap_or_else(|| (key.default(), Origin::Default));
        self.record(key, picked)
    }

    /// A setting that is worked out where it is not given, for the reason given.
    pub(super) fn auto<T: FromValue>(
        &mut self,
        key: &'static Key,
        auto: T,
        why: &'static str,
    ) -> T {
        let picked = self.given(key).unwrap_or((auto, Origin::Auto(why)));
        self.record(key, picked)
    }

    /// A setting that may be absent; the table says in words what happens then.
    pub(super) fn optional<T: FromValue>(&mut self, key: &'static Key) -> Option<T> {
        let given = self.given(key);
        self.record_optional(key, given, &key.absent_in(self.verb))
    }

    pub(super) fn record_optional<T: FromValue>(
        &mut self,
        key: &'static Key,
        given: Option<(T, Origin)>,
        absent: &str,
    ) -> Option<T> {
        match given {
            Some(picked) => Some(self.record(key, picked)),
            None => {
                self.push(key, absent.into(), Origin::Default);
                None
            }
        }
    }

    /// A switch of one call: listed only where it is on.
    pub(super) fn on(&mut self, key: &'static Key) -> bool {
        self.flags.has(key) && self.pick(key)
    }

    pub(super) fn origin(&self, key: &Key) -> Origin {
        origin(&self.resolved, key)
            .cloned()
            .unwrap_or(Origin::Default)
    }

    /// Whether a flag or the file says it.
    pub(super) fn is_given(&self, key: &Key) -> bool {
        is_given(&self.resolved, key)
    }

    /// Whether a flag says it.
    pub(super) fn is_typed(&self, key: &Key) -> bool {
        origin(&self.resolved, key) == Some(&Origin::Flag)
    }

    /// A setting by the name that the person gave it: the flag, or the key and its place in the
    /// file.
    pub(super) fn label(&self, key: &Key) -> String {
        match origin(&self.resolved, key) {
            Some(place @ Origin::File(_)) => format!("`{}` ({place})", key.name),
            _ => key.flag(),
        }
    }

    /// Refuses a switch that one flag turns on and another one off.
    pub(super) fn refuse_contradiction(&self, key: &Key) -> Result<(), UserError> {
        match key.negation {
            Some((off, _)) if self.flags.contradict(key) => Err(UserError::new(
                format!("{} and --{off} contradict each other", key.flag()),
                "leave one of the two out",
            )),
            _ => Ok(()),
        }
    }

    pub(super) fn add_note(&mut self, key: &'static Key, note: impl Into<Note>) {
        let note = note.into();
        self.setting_notes.push(SettingNote { key, note });
    }

    /// All notes: about settings, and about keys that have no effect here.
    pub(super) fn notes(&self) -> Vec<Note> {
        let notes = self.setting_notes.iter();
        let mut notes: Vec<Note> = notes.map(|about| about.note.clone()).collect();
        let Some(path) = &self.flags.config else {
            return notes;
        };
        for key in &self.file.without_meaning {
            if let Role::NoMeaning(why) = key.role {
                let (path, name) = (path.display(), key.name);
                notes.push(format!("{path}: `{name}` is ignored: {why}").into());
            }
        }
        notes
    }
}
