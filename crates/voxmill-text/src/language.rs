//! The language of a clip, as a code that fits in a register.

use std::fmt;
use std::str::FromStr;

use crate::registry::{REGISTRY, Registered};

/// English and Persian have front-ends of their own; every other language takes the plain one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Language {
    English,
    Persian,
    Other(LanguageCode),
}

/// Two or three lower-case ASCII letters (ISO 639); `und` stands for "not determined".
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LanguageCode([u8; 3]);

/// What is no language code.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a language code (two or three letters, such as `en` or `fa`)")]
pub struct UnknownLanguage(pub String);

impl Language {
    /// A text whose language nobody knows.
    pub const UNDETERMINED: Language = Language::Other(LanguageCode(*b"und"));

    /// As ISO 639 has it, two or three letters.
    pub fn code(&self) -> &str {
        match self {
            Language::Other(code) => code.as_str(),
            language => (language.registered()).map_or("und", |(_, known)| known.code),
        }
    }
}

impl LanguageCode {
    fn as_str(&self) -> &str {
        let len = if self.0[2] == 0 { 2 } else { 3 };
        // The constructor admits ASCII letters only.
        std::str::from_utf8(&self.0[..len]).unwrap_or("und")
    }
}

impl fmt::Display for Language {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}

impl FromStr for Language {
    type Err = UnknownLanguage;

    /// Accepts codes with a region (`en-GB`, `fa_IR`): the region is dropped.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let base = text.trim().split(['-', '_']).next().unwrap_or_default();
        let lower = base.to_ascii_lowercase();
        let named = |known: &&Registered| known.code == lower || known.also.contains(&&*lower);
        if let Some(known) = REGISTRY.iter().find(named) {
            return Ok(known.language);
        }
        let bytes = lower.as_bytes();
        if !(2..=3).contains(&bytes.len()) || !bytes.iter().all(u8::is_ascii_lowercase) {
            return Err(UnknownLanguage(text.to_owned()));
        }
        let mut code = [0; 3];
        code[..bytes.len()].copy_from_slice(bytes);
        Ok(Language::Other(LanguageCode(code)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_round_trip_and_regions_are_dropped() {
        for (written, code) in [
            ("en", "en"),
            ("en-GB", "en"),
            ("FA_ir", "fa"),
            ("de", "de"),
            ("ckb", "ckb"),
        ] {
            let language: Language = written.parse().unwrap();
            assert_eq!(language.code(), code);
            assert_eq!(language.code().parse::<Language>().unwrap(), language);
        }
        for no_code in ["", "english", "e1"] {
            assert!(no_code.parse::<Language>().is_err(), "{no_code}");
        }
    }
}
