//! The languages that have a front-end of their own. A new one is a row here and a module.

use unicode_normalization::UnicodeNormalization as _;

use crate::language::Language;
use crate::{english, persian};

/// How texts of one language are read.
pub trait LanguageFrontEnd: std::fmt::Debug + Send + Sync {
    /// What is written (in NFC) → what is read aloud. Pure; its own output comes back unchanged.
    fn normalize(&self, text: &str) -> String;

    fn spelling(&self) -> Spelling {
        Spelling::Characters
    }

    /// Two words with no meaning together: whether a sign between them is read shows in the result.
    fn two_words(&self) -> [&'static str; 2] {
        ["one", "two"]
    }
}

/// What the words of a language become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spelling {
    /// Phones, by the English dictionary and the letter-to-sound model.
    EnglishPhones,
    /// Their own characters, or espeak-ng's phones where that was chosen.
    Characters,
}

/// A language with a front-end of its own.
#[derive(Debug)]
pub struct Registered {
    pub language: Language,
    /// Its ISO 639 code, by which logs, caches and checkpoints know it.
    pub code: &'static str,
    /// Other codes for it.
    pub also: &'static [&'static str],
    pub front_end: &'static dyn LanguageFrontEnd,
}

/// A language's place in this list is its id, which is in every checkpoint (a row of the language
/// embedding): append, never reorder.
pub static REGISTRY: [Registered; 2] = [
    Registered {
        language: Language::English,
        code: "en",
        also: &["eng"],
        front_end: &English,
    },
    Registered {
        language: Language::Persian,
        code: "fa",
        also: &["fas", "per"],
        front_end: &Persian,
    },
];

/// Ids of languages: one for each that is registered and one for all others.
pub const LANGUAGE_IDS: usize = REGISTRY.len() + 1;

impl Language {
    fn registered(self) -> Option<(usize, &'static Registered)> {
        let mut all = REGISTRY.iter().enumerate();
        all.find(|(_, known)| known.language == self)
    }

    /// Stable across versions; below [`LANGUAGE_IDS`].
    pub fn id(self) -> usize {
        self.registered().map_or(REGISTRY.len(), |(id, _)| id)
    }

    pub fn front_end(self) -> &'static dyn LanguageFrontEnd {
        self.registered()
            .map_or(&Plain, |(_, known)| known.front_end)
    }
}

#[derive(Debug)]
struct English;

impl LanguageFrontEnd for English {
    fn normalize(&self, text: &str) -> String {
        english::normalize(text)
    }

    fn spelling(&self) -> Spelling {
        Spelling::EnglishPhones
    }
}

#[derive(Debug)]
struct Persian;

impl LanguageFrontEnd for Persian {
    fn normalize(&self, text: &str) -> String {
        persian::normalize(text)
    }

    fn two_words(&self) -> [&'static str; 2] {
        ["یک", "دو"]
    }
}

/// The fallback for languages that are not registered: lower case, single spaces.
#[derive(Debug)]
struct Plain;

impl LanguageFrontEnd for Plain {
    fn normalize(&self, text: &str) -> String {
        let mut plain = String::with_capacity(text.len());
        for word in text.split_whitespace() {
            if !plain.is_empty() {
                plain.push(' ');
            }
            plain.extend(word.chars().flat_map(char::to_lowercase));
        }
        plain.nfc().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// These numbers are in checkpoints.
    #[test]
    fn ids_stay_what_they_are() {
        let id = |code: &str| code.parse::<Language>().unwrap().id();
        assert_eq!(["en", "fa", "de", "und"].map(id), [0, 1, 2, 2]);
        assert_eq!(LANGUAGE_IDS, 3);
    }

    #[test]
    fn every_code_names_its_language() {
        for known in &REGISTRY {
            assert_eq!(known.language.code(), known.code);
            for code in known.also.iter().chain([&known.code]) {
                assert_eq!(code.parse(), Ok(known.language));
            }
        }
    }
}
