//! From what is written to what is read aloud: normalised text, phones, token ids.
//!
//! Raw text goes one way: NFC → language → words (numbers and abbreviations read out) → phones or
//! characters → ids of the symbol table. [`FrontEnd`] ties the steps together; each step is a pure
//! function in its own module.

pub mod detect;
pub mod dictionary;
mod digits;
pub mod english;
mod espeak;
mod features;
mod fingerprint;
mod front_end;
mod inline;
pub mod language;
pub mod letter_to_sound;
mod lexicon;
pub mod persian;
pub mod phonemes;
mod pronunciation;
pub mod registry;
mod sentences;
mod speller;
pub mod symbols;
mod table;
mod utterance;

pub use espeak::EspeakError;
pub use features::TextFeatures;
pub use fingerprint::FrontEndFingerprint;
pub use front_end::{FrontEnd, FrontEndOptions, TextError};
pub use inline::{InlineProblem, cut_long_words};
pub use language::{Language, UnknownLanguage};
pub use lexicon::{LexiconError, LexiconProblem};
pub use registry::{LANGUAGE_IDS, LanguageFrontEnd};
pub use sentences::sentences;
pub use utterance::{LanguageSource, PronunciationSource, Utterance, Word};

/// A letter of any script, or a mark that combines with one.
fn is_letter(c: char) -> bool {
    c.is_alphabetic() || unicode_normalization::char::is_combining_mark(c)
}

/// Ends a rule that does not apply: `reject_if(condition)?`.
fn reject_if(condition: bool) -> Option<()> {
    (!condition).then_some(())
}

/// Where an FNV-1a hash begins.
const FNV_START: u64 = 0xcbf2_9ce4_8422_2325;

/// An FNV-1a hash with one more value, a byte or a character.
fn fnv1a(hash: u64, value: impl Into<u64>) -> u64 {
    (hash ^ value.into()).wrapping_mul(0x0100_0000_01b3)
}
