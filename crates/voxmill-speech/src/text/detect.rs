//! Stand-in until language detection is merged: the script decides.

use crate::language::Language;

pub fn detect(text: &str) -> Language {
    match text.chars().find(|c| c.is_alphabetic()) {
        Some(c) if c.is_ascii() => Language::English,
        Some('\u{600}'..='\u{6ff}') => Language::Persian,
        _ => Language::UNDETERMINED,
    }
}
