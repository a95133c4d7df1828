use crate::language::Language;

/// The text half of a clip's features.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextFeatures {
    pub language: Language,
    /// What will be read aloud: numbers and abbreviations are words.
    pub normalized: String,
    /// Ids of the symbol table ([`crate::symbols`]).
    pub tokens: Vec<u16>,
}
