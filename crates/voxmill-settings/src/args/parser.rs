//! Parsers of flags that know the words a shell may complete.

use std::ffi::OsStr;

use clap::builder::{PossibleValue, TypedValueParser};
use clap::{Arg, Command, Error};

use crate::config::value::{FromValue, Kind};

/// A parser for clap that takes what a setting of this kind takes.
pub(super) fn of<T: FromValue + Clone + Send + Sync + 'static>(
    kind: Kind,
) -> impl TypedValueParser<Value = T> {
    parsed(kind, move |text| {
        let value = kind.parse(text)?;
        T::from_value(value).ok_or_else(|| format!("`{text}` is not {}", kind.expects()))
    })
}

/// The same with a function that makes what it likes of the text.
pub(super) fn parsed<T, F>(kind: Kind, parse: F) -> impl TypedValueParser<Value = T>
where
    T: Clone + Send + Sync + 'static,
    F: Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static,
{
    SettingParser { kind, parse }
}

#[derive(Clone)]
struct SettingParser<F> {
    kind: Kind,
    parse: F,
}

impl<T, F> TypedValueParser for SettingParser<F>
where
    T: Clone + Send + Sync + 'static,
    F: Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static,
{
    type Value = T;

    fn parse_ref(&self, command: &Command, arg: Option<&Arg>, value: &OsStr) -> Result<T, Error> {
        TypedValueParser::parse_ref(&self.parse, command, arg, value)
    }

    /// For completions: the parser above decides.
    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let words = self.kind.words();
        (!words.is_empty()).then(|| {
            let words = words.into_iter().map(PossibleValue::new);
            Box::new(words) as Box<dyn Iterator<Item = PossibleValue>>
        })
    }
}
