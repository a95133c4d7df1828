//! Lays down the token ids of an utterance, word by word.
//!
//! `^` begins it and `$` ends it; one space stands before every word but the first; a pause mark
//! follows the word it was written after, and the same mark twice is one.

use std::ops::Range;

use super::espeak::{EspeakSound, read_ipa};
use super::lexicon::{Lexicon, fold};
use super::phonemes::Phone;
use super::pronunciation::EnglishWords;
use super::symbols::{BEGIN, END, SPACE, SymbolIds, SymbolTable, is_pause};
use super::utterance::{PronunciationSource, Word};
use crate::is_letter;

pub(super) struct Speller<'a> {
    ids: &'a SymbolIds,
    tokens: Vec<u16>,
    /// Kept only where somebody will look at it.
    report: Option<Report>,
    folded: String,
    phones: Vec<Phone>,
}

#[derive(Debug, Default)]
pub(super) struct Report {
    words: Vec<(String, Range<usize>, PronunciationSource)>,
    pub(super) unknown_symbols: Vec<char>,
}

impl Report {
    pub(super) fn words(&self, tokens: &[u16]) -> Vec<Word> {
        let table = SymbolTable::built_in();
        let word = |(text, range, source): &(String, Range<usize>, _)| Word {
            text: text.clone(),
            pronunciation: table.spell(&tokens[range.clone()]),
            source: *source,
        };
        self.words.iter().map(word).collect()
    }
}

impl<'a> Speller<'a> {
    pub(super) fn new(ids: &'a SymbolIds, with_report: bool) -> Speller<'a> {
        Speller {
            ids,
            tokens: vec![BEGIN],
            report: with_report.then(Report::default),
            folded: String::new(),
            phones: Vec::new(),
        }
    }

    pub(super) fn finish(mut self) -> (Vec<u16>, Report) {
        self.tokens.push(END);
        (self.tokens, self.report.unwrap_or_default())
    }

    /// Words of letters and apostrophes by their phones; hyphens part words.
    pub(super) fn english(&mut self, normalized: &str, words: &EnglishWords) {
        // Seldom fewer ids than letters, seldom many more.
        self.tokens.reserve(normalized.len() + 2);
        let mut rest = normalized;
        while let Some(start) = rest.find(is_word_char) {
            self.between(&rest[..start]);
            rest = &rest[start..];
            let end = rest.find(|c| !is_word_char(c)).unwrap_or(rest.len());
            self.english_word(&rest[..end], words);
            rest = &rest[end..];
        }
        self.between(rest);
    }

    fn between(&mut self, text: &str) {
        for c in text.chars() {
            match c {
                _ if is_pause(c) => self.pause(c),
                '-' | '‐' => {}
                _ if c.is_whitespace() => {}
                _ => self.unknown(c),
            }
        }
    }

    fn english_word(&mut self, word: &str, words: &EnglishWords) {
        let mut folded = std::mem::take(&mut self.folded);
        let mut phones = std::mem::take(&mut self.phones);
        folded.clear();
        phones.clear();
        fold(word, &mut folded, |c| self.unknown(c));
        if folded.contains(|c: char| c.is_ascii_lowercase()) {
            let source = words.pronounce(&folded, &mut phones);
            self.word(word, &phones, source);
        }
        self.folded = folded;
        self.phones = phones;
    }

    pub(super) fn word(&mut self, text: &str, phones: &[Phone], source: PronunciationSource) {
        let start = self.begin_word();
        let ids = self.ids;
        self.tokens
            .extend(phones.iter().map(|&phone| ids.phone(phone)));
        self.end_word(text, start, source);
    }

    /// A clause as espeak-ng says it.
    pub(super) fn ipa(&mut self, clause: &str, ipa: &str) {
        let start = self.begin_word();
        read_ipa(ipa, self.ids, |sound| match sound {
            EspeakSound::Id(id) => self.tokens.push(id),
            EspeakSound::Space => {
                if self.tokens.last() != Some(&SPACE) && self.tokens.len() > start {
                    self.tokens.push(SPACE);
                }
            }
            EspeakSound::Unknown(c) => self.unknown(c),
        });
        if self.tokens.len() > start && self.tokens.last() == Some(&SPACE) {
            self.tokens.pop();
        }
        self.end_word(clause, start, PronunciationSource::Espeak);
    }

    /// Words by their characters, or by those the lexicon gives in their place.
    pub(super) fn characters(&mut self, normalized: &str, lexicon: &Lexicon) {
        self.tokens.reserve(normalized.len() / 2 + 2);
        let parts = |c: char| c.is_whitespace() || is_pause(c);
        for piece in normalized.split_inclusive(parts) {
            let word = piece.trim_end_matches(parts);
            if !word.is_empty() {
                let (written, source) = match lexicon.characters(word) {
                    Some(given) => (given, PronunciationSource::Lexicon),
                    None => (word, PronunciationSource::Characters),
                };
                let start = self.begin_word();
                for c in written.chars().flat_map(char::to_lowercase) {
                    match self.ids.char(c) {
                        Some(id) => self.tokens.push(id),
                        None => self.unknown(c),
                    }
                }
                self.end_word(word, start, source);
            }
            for c in piece[word.len()..].chars().filter(|&c| is_pause(c)) {
                self.pause(c);
            }
        }
    }

    pub(super) fn pause(&mut self, c: char) {
        if let Some(id) = self.ids.char(c)
            && self.tokens.last() != Some(&id)
        {
            self.tokens.push(id);
        }
    }

    fn begin_word(&mut self) -> usize {
        if self.tokens.last() != Some(&BEGIN) {
            self.tokens.push(SPACE);
        }
        self.tokens.len()
    }

    /// A word of which nothing was left takes its space back.
    fn end_word(&mut self, text: &str, start: usize, source: PronunciationSource) {
        if self.tokens.len() == start {
            if self.tokens.last() == Some(&SPACE) {
                self.tokens.pop();
            }
        } else if let Some(report) = &mut self.report {
            let range = start..self.tokens.len();
            report.words.push((text.to_owned(), range, source));
        }
    }

    fn unknown(&mut self, c: char) {
        if let Some(report) = &mut self.report
            && !report.unknown_symbols.contains(&c)
        {
            report.unknown_symbols.push(c);
        }
    }
}

fn is_word_char(c: char) -> bool {
    match c {
        'a'..='z' | 'A'..='Z' | '\'' | '’' => true,
        _ => !c.is_ascii() && is_letter(c),
    }
}
