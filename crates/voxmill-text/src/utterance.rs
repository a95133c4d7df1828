//! Every step a text took on its way to token ids, for a person to look at.

use super::inline::InlineProblem;
use crate::language::Language;

/// A text with all steps it took to its tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Utterance {
    /// The text as given, in Unicode's composed form.
    pub nfc: String,
    pub language: Language,
    pub language_source: LanguageSource,
    /// What is read aloud; inline phones stand in their braces.
    pub normalized: String,
    pub words: Vec<Word>,
    /// Ids of the symbol table.
    pub tokens: Vec<u16>,
    /// Characters that have no symbol and are not read, each once, in the order met.
    pub unknown_symbols: Vec<char>,
    pub problems: Vec<InlineProblem>,
}

/// Who says which language it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LanguageSource {
    Given,
    Detected,
}

/// A word, how it is pronounced, and who says so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Word {
    pub text: String,
    /// The word's symbols with spaces between them.
    pub pronunciation: String,
    pub source: PronunciationSource,
}

/// Who says that a word is spoken so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PronunciationSource {
    /// The user's lexicon.
    Lexicon,
    Dictionary,
    /// Phones in the text itself.
    Inline,
    /// A guess by the letter-to-sound model.
    LetterToSound,
    Espeak,
    /// No pronunciation: the characters themselves are the tokens.
    Characters,
}

impl Utterance {
    /// Words whose pronunciation was guessed.
    pub fn unknown_words(&self) -> impl Iterator<Item = &Word> {
        self.words
            .iter()
            .filter(|word| word.source == PronunciationSource::LetterToSound)
    }
}

impl PronunciationSource {
    /// As it is shown.
    pub fn name(self) -> &'static str {
        match self {
            PronunciationSource::Lexicon => "lexicon",
            PronunciationSource::Dictionary => "dictionary",
            PronunciationSource::Inline => "inline",
            PronunciationSource::LetterToSound => "letter-to-sound",
            PronunciationSource::Espeak => "espeak-ng",
            PronunciationSource::Characters => "characters",
        }
    }
}
