//! Picks each value by flag > file > auto > default, and remembers which it was.

use std::collections::HashMap;

use super::{Origin, Shown, is_given, origin};
use crate::args::Flags;
use crate::config::file::ConfigFile;
use crate::config::keys::{Key, Role, Verbs};
use crate::config::value::{FromValue, Kind, show_bytes};
use crate::error::UserError;
use crate::note::Note;

#[derive(Debug)]
pub(super) struct Resolver {
    flags: Flags,
    /// Whose words say what an absent setting means.
    verb: Verbs,
    file: ConfigFile,
    pub(super) shown: Vec<Shown>,
    remarks: Vec<Remark>,
    repairs: Repairs,
}

/// Something that the person should hear once, and the setting that it is about.
#[derive(Clone, Debug)]
pub struct Remark {
    pub key: &'static Key,
    pub note: Note,
}

/// Settings taken otherwise than they were given, by name; `None` is as if they were not given. So
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
            shown: Vec::new(),
            remarks: Vec::new(),
            repairs,
        }
    }

    pub(super) fn given<T: FromValue>(&self, key: &Key) -> Option<(T, Origin)> {
        if let Some(repair) = self.repairs.get(key.name) {
            let value = key.kind.parse(repair.as_deref()?).ok()?;
            return Some((T::from_value(value)?, Origin::Auto("as fixed")));
        }
        match self.flags.get(key) {
            Some(value) => Some((value, Origin::Flag)),
            None => self
                .file
                .get(key)
                .map(|(value, place)| (value, Origin::File(place))),
        }
    }

    pub(super) fn note<T: FromValue>(
        &mut self,
        key: &'static Key,
        (value, origin): (T, Origin),
    ) -> T {
        let shown = value.show();
        let shown = match (key.kind, shown.parse()) {
            (Kind::Bytes, Ok(bytes)) => show_bytes(bytes),
            _ => shown,
        };
        self.shown.push(Shown {
            key,
            value: shown,
            origin,
        });
        value
    }

    /// A setting with a fixed default, which the table has.
    pub(super) fn pick<T: FromValue>(&mut self, key: &'static Key) -> T {
        let picked = self.given(key);
        let picked = picked.unwrap_or_else(|| (key.default(), Origin::Default));
        self.note(key, picked)
    }

    /// A setting that is worked out where nobody gives it, for the reason given.
    pub(super) fn auto<T: FromValue>(
        &mut self,
        key: &'static Key,
        auto: T,
        why: &'static str,
    ) -> T {
        let picked = self.given(key).unwrap_or((auto, Origin::Auto(why)));
        self.note(key, picked)
    }

    /// A setting that may be absent; the table says in words what happens then.
    pub(super) fn optional<T: FromValue>(&mut self, key: &'static Key) -> Option<T> {
        let given = self.given(key);
        self.note_optional(key, given, &key.absent_in(self.verb))
    }

    pub(super) fn note_optional<T: FromValue>(
        &mut self,
        key: &'static Key,
        given: Option<(T, Origin)>,
        absent: &str,
    ) -> Option<T> {
        match given {
            Some(picked) => Some(self.note(key, picked)),
            None => {
                self.shown.push(Shown {
                    key,
                    value: absent.into(),
                    origin: Origin::Default,
                });
                None
            }
        }
    }

    /// A switch of one call: told only where it is on.
    pub(super) fn on(&mut self, key: &'static Key) -> bool {
        self.flags.has(key) && self.pick(key)
    }

    pub(super) fn last_origin(&self) -> Origin {
        self.shown
            .last()
            .map_or(Origin::Default, |shown| shown.origin.clone())
    }

    /// Whether a flag or the file says it.
    pub(super) fn is_given(&self, key: &Key) -> bool {
        is_given(&self.shown, key)
    }

    /// Whether a flag says it.
    pub(super) fn is_typed(&self, key: &Key) -> bool {
        origin(&self.shown, key) == Some(&Origin::Flag)
    }

    /// A setting by the name that the person gave it: the flag, or the key and its place in the
    /// file.
    pub(super) fn called(&self, key: &Key) -> String {
        match origin(&self.shown, key) {
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

    /// Something that the person should hear once.
    pub(super) fn remark(&mut self, key: &'static Key, note: impl Into<Note>) {
        let note = note.into();
        self.remarks.push(Remark { key, note });
    }

    pub(super) fn remarks(&self) -> Vec<Remark> {
        self.remarks.clone()
    }

    /// What the person should hear once: the remarks, and the keys that have no effect here.
    pub(super) fn notes(&self) -> Vec<Note> {
        let remarks = self.remarks.iter();
        let mut notes: Vec<Note> = remarks.map(|remark| remark.note.clone()).collect();
        let Some(path) = &self.flags.config else {
            return notes;
        };
        for key in &self.file.without_meaning {
            if let Role::NoMeaning(why) = key.role {
                let told = format!(
                    "{}: `{}` has no meaning here: {why}",
                    path.display(),
                    key.name
                );
                notes.push(told.into());
            }
        }
        notes
    }
}
