//! The languages that have a front-end of their own. A new one is a row here and a module.

use unicode_normalization::UnicodeNormalization as _;

use crate::language::Language;
use crate::{english, persian};

/// How texts of one language are read.
#[derive(Debug)]
pub struct LanguageFrontEnd {
    /// What is written (in NFC) → what is read aloud. Pure; its own output comes back unchanged.
    pub normalize: fn(&str) -> String,
    pub spelling: Spelling,
    /// Two words with no meaning together: whether a sign between them is read shows in the result.
    pub two_words: [&'static str; 2],
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
    pub front_end: LanguageFrontEnd,
}

/// A language's place in this list is its id, which is in every checkpoint (a row of the language
/// embedding): append, never reorder.
pub static REGISTRY: [Registered; 2] = [
    Registered {
        language: Language::English,
        code: "en",
        also: &["eng"],
        front_end: LanguageFrontEnd {
            normalize: english::normalize,
            spelling: Spelling::EnglishPhones,
            two_words: ["one", "two"],
        },
    },
    Registered {
        language: Language::Persian,
        code: "fa",
        also: &["fas", "per"],
        front_end: LanguageFrontEnd {
            normalize: persian::normalize,
            spelling: Spelling::Characters,
            two_words: ["یک", "دو"],
        },
    },
];

/// Ids of languages: one for each that is registered and one for all others.
pub const LANGUAGE_IDS: usize = REGISTRY.len() + 1;

impl Language {
    pub(crate) fn registered(self) -> Option<(usize, &'static Registered)> {
        let mut all = REGISTRY.iter().enumerate();
        all.find(|(_, known)| known.language == self)
    }

    /// Stable across versions; below [`LANGUAGE_IDS`].
    pub fn id(self) -> usize {
        self.registered().map_or(REGISTRY.len(), |(id, _)| id)
    }

    /// What reads it.
    pub fn front_end(self) -> &'static LanguageFrontEnd {
        self.registered()
            .map_or(&PLAIN, |(_, known)| &known.front_end)
    }
}

/// The fallback for languages that are not registered.
static PLAIN: LanguageFrontEnd = LanguageFrontEnd {
    normalize: lower_case,
    spelling: Spelling::Characters,
    two_words: ["one", "two"],
};

/// Lower case, single spaces.
fn lower_case(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for word in text.split_whitespace() {
        if !plain.is_empty() {
            plain.push(' ');
        }
        plain.extend(word.chars().flat_map(char::to_lowercase));
    }
    plain.nfc().collect()
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
