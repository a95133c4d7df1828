//! Picks each value by flag > file > auto > default, and remembers which it was.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::{Origin, Shown, is_given, origin};
use crate::config::file::ConfigFile;
use crate::config::keys::{Key, Role};
use crate::config::value::{FromValue, Kind, show_bytes};

#[derive(Debug)]
pub(super) struct Resolver {
    file: ConfigFile,
    path: Option<PathBuf>,
    pub(super) shown: Vec<Shown>,
    remarks: Vec<Remark>,
    repairs: Repairs,
}

/// Something that the person should hear once, and the setting that it is about.
#[derive(Clone, Debug)]
pub(crate) struct Remark {
    pub(crate) key: &'static Key,
    pub(crate) text: String,
}

/// Settings taken otherwise than they were given, by name; `None` is as if they were not given. So
/// `validate` sees what is behind the first refusal.
pub(crate) type Repairs = HashMap<&'static str, Option<String>>;

impl Resolver {
    pub(super) fn new(path: Option<&Path>) -> anyhow::Result<Resolver> {
        let file = path.map(ConfigFile::read).transpose()?.unwrap_or_default();
        Ok(Resolver {
            file,
            path: path.map(Path::to_owned),
            shown: Vec::new(),
            remarks: Vec::new(),
            repairs: Repairs::new(),
        })
    }

    /// With a file that was read already, some settings repaired.
    pub(super) fn repaired(file: ConfigFile, path: Option<&Path>, repairs: Repairs) -> Resolver {
        Resolver {
            file,
            path: path.map(Path::to_owned),
            shown: Vec::new(),
            remarks: Vec::new(),
            repairs,
        }
    }

    pub(super) fn given<T: FromValue>(
        &self,
        key: &'static Key,
        flag: Option<T>,
    ) -> Option<(T, Origin)> {
        if let Some(repair) = self.repairs.get(key.name) {
            let value = key.kind.parse(repair.as_deref()?).ok()?;
            return Some((T::from_value(value)?, Origin::Auto("as mended")));
        }
        match flag {
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

    pub(super) fn pick<T: FromValue>(
        &mut self,
        key: &'static Key,
        flag: Option<T>,
        default: T,
    ) -> T {
        let picked = self.given(key, flag).unwrap_or((default, Origin::Default));
        self.note(key, picked)
    }

    pub(super) fn auto<T: FromValue>(
        &mut self,
        key: &'static Key,
        flag: Option<T>,
        auto: T,
        why: &'static str,
    ) -> T {
        let picked = self.given(key, flag).unwrap_or((auto, Origin::Auto(why)));
        self.note(key, picked)
    }

    /// A setting that may be absent; `absent` says in words what happens then.
    pub(super) fn optional<T: FromValue>(
        &mut self,
        key: &'static Key,
        flag: Option<T>,
        absent: &'static str,
    ) -> Option<T> {
        let given = self.given(key, flag);
        self.note_optional(key, given, absent)
    }

    pub(super) fn note_optional<T: FromValue>(
        &mut self,
        key: &'static Key,
        given: Option<(T, Origin)>,
        absent: &'static str,
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
            _ => format!("--{}", key.name.replace('_', "-")),
        }
    }

    /// Something that the person should hear once.
    pub(super) fn remark(&mut self, key: &'static Key, text: String) {
        self.remarks.push(Remark { key, text });
    }

    pub(super) fn remarks(&self) -> Vec<Remark> {
        self.remarks.clone()
    }

    /// What the person should hear once: the remarks, and the keys that have no effect here.
    pub(super) fn notes(&self) -> Vec<String> {
        let remarks = self.remarks.iter();
        let mut notes: Vec<String> = remarks.map(|remark| remark.text.clone()).collect();
        let Some(path) = &self.path else {
            return notes;
        };
        for key in &self.file.without_meaning {
            if let Role::NoMeaning(why) = key.role {
                notes.push(format!(
                    "{}: `{}` has no meaning here: {why}",
                    path.display(),
                    key.name
                ));
            }
        }
        notes
    }
}
