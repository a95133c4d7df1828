//! How the text front-end reads a sentence.

use schemars::JsonSchema;
use serde::Serialize;

#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct TextResult {
    pub text: String,
    /// The text in Unicode's composed form.
    #[serde(skip)]
    pub composed: String,
    pub language: String,
    /// Found from the text; else it was given.
    pub language_detected: bool,
    pub normalized: String,
    pub words: Vec<SpokenWord>,
    /// Token ids, by the symbol table.
    pub tokens: Vec<u16>,
    /// The symbol of each token.
    #[serde(skip)]
    pub symbols: Vec<String>,
    pub symbol_table_version: u32,
    /// Words whose pronunciation was guessed.
    pub unknown_words: Vec<String>,
    /// Characters that are not read.
    pub unknown_symbols: Vec<char>,
    pub problems: Vec<String>,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SpokenWord {
    pub text: String,
    pub pronunciation: String,
    /// Where the pronunciation comes from.
    pub source: String,
}
