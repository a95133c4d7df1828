//! From raw text to token ids, all steps in a row.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::path::PathBuf;

use unicode_normalization::{IsNormalized, UnicodeNormalization as _, is_nfc_quick};

use super::detect;
use super::espeak::{Espeak, EspeakError};
use super::fingerprint::FrontEndFingerprint;
use super::inline::{self, InlineProblem, Piece};
use super::lexicon::{Lexicon, LexiconError};
use super::phonemes::spell_phones;
use super::pronunciation::EnglishWords;
use super::registry::Spelling;
use super::speller::Speller;
use super::symbols::{SymbolIds, SymbolTable, is_pause};
use super::utterance::{LanguageSource, PronunciationSource, Utterance};
use crate::TextFeatures;
use crate::language::Language;

/// Counts up whenever any text may come out of this module differently. Data tables are watched
/// by their hash and need no count. Words of over 1,000 letters, which no clip has, were cut later without
/// a count: all caches would have been built again for them.
pub(crate) const FRONT_END_VERSION: u32 = 1;

/// Hash of all embedded text tables, made by the build script.
const TABLES_HASH: &str = include_str!(concat!(env!("OUT_DIR"), "/text_tables_hash.txt"));

/// What may be chosen of a front-end.
#[derive(Clone, Debug, Default)]
pub struct FrontEndOptions {
    /// The user's pronunciations, see `lexicon.rs` for the format.
    pub lexicon: Option<PathBuf>,
    /// The espeak-ng program for languages other than English; a bare name is looked up in `PATH`.
    pub espeak: Option<PathBuf>,
}

/// Why a text has no tokens.
#[derive(Debug, thiserror::Error)]
pub enum TextError {
    #[error(transparent)]
    Lexicon(#[from] LexiconError),
    #[error(transparent)]
    Espeak(#[from] EspeakError),
}

/// Cheap to share between threads; making one costs about a millisecond.
#[derive(Debug)]
pub struct FrontEnd {
    words: EnglishWords,
    ids: SymbolIds,
    espeak: Option<Espeak>,
    fingerprint: FrontEndFingerprint,
}

impl FrontEnd {
    /// Reads the lexicon, and asks espeak-ng for its version where it is wanted.
    pub fn new(options: FrontEndOptions) -> Result<FrontEnd, TextError> {
        let ids = SymbolIds::built_in();
        let (lexicon, lexicon_text) = match &options.lexicon {
            Some(path) => Lexicon::read(path, &ids)?,
            None => Default::default(),
        };
        let espeak = options
            .espeak
            .map(|program| Espeak::find(&program))
            .transpose()?;
        let none = || "none".to_owned();
        let lexicon_hash = |text: String| blake3::hash(text.as_bytes()).to_string();
        let version = |espeak: &Espeak| espeak.version.clone();
        let fingerprint = FrontEndFingerprint {
            parts: [
                ("front-end version", FRONT_END_VERSION.to_string()),
                ("symbol table", SymbolTable::built_in().hash().to_string()),
                ("text tables", TABLES_HASH.to_owned()),
                ("lexicon", lexicon_text.map_or_else(none, lexicon_hash)),
                ("espeak-ng", espeak.as_ref().map_or_else(none, version)),
            ]
            .map(|(name, state)| (name.to_owned(), state))
            .into(),
        };
        Ok(FrontEnd {
            words: EnglishWords::new(lexicon, &ids),
            ids,
            espeak,
            fingerprint,
        })
    }

    /// What its tokens depend on, for caches and checkpoints.
    pub fn fingerprint(&self) -> &FrontEndFingerprint {
        &self.fingerprint
    }

    /// What the model needs and no more. Fails only where espeak-ng was chosen and fails.
    pub fn features(
        &self,
        raw: &str,
        language: Option<Language>,
    ) -> Result<TextFeatures, TextError> {
        let mut speller = Speller::new(&self.ids, false);
        let (language, normalized, _) = self.read(&nfc(raw), language, &mut speller)?;
        Ok(TextFeatures {
            language,
            normalized,
            tokens: speller.finish().0,
        })
    }

    /// Every step, for a person to look at. Its tokens are those of [`FrontEnd::features`].
    pub fn process(&self, raw: &str, given: Option<Language>) -> Result<Utterance, TextError> {
        let mut speller = Speller::new(&self.ids, true);
        let nfc = nfc(raw).into_owned();
        let (language, normalized, problems) = self.read(&nfc, given, &mut speller)?;
        let (tokens, report) = speller.finish();
        let mut unknown_symbols = report.unknown_symbols.clone();
        let dropped = dropped_signs(&nfc, language);
        unknown_symbols.extend(dropped.filter(|sign| !report.unknown_symbols.contains(sign)));
        Ok(Utterance {
            nfc,
            language,
            language_source: match given {
                Some(_) => LanguageSource::Given,
                None => LanguageSource::Detected,
            },
            normalized,
            words: report.words(&tokens),
            tokens,
            unknown_symbols,
            problems,
        })
    }

    /// How many kinds of characters of a text are not read, words that are cut, and faults of its inline
    /// phones. Costs nothing for plain English; elsewhere as much as [`FrontEnd::process`].
    pub fn unread(&self, raw: &str, given: Option<Language>) -> usize {
        let whole = raw.len() <= inline::LONGEST_WORD;
        let plain = whole && raw.is_ascii() && !raw.contains(['{', '}']);
        let language = given.unwrap_or_else(|| detect::detect(raw));
        // espeak-ng reads what it is given in its own way, and asking it twice is dear.
        let english = language.front_end().spelling == Spelling::EnglishPhones;
        let by_espeak = self.espeak.is_some() && !english;
        if by_espeak || (plain && english) {
            return 0;
        }
        self.process(raw, Some(language)).map_or(0, |utterance| {
            utterance.unknown_symbols.len() + utterance.problems.len()
        })
    }

    fn read(
        &self,
        nfc: &str,
        given: Option<Language>,
        speller: &mut Speller<'_>,
    ) -> Result<(Language, String, Vec<InlineProblem>), TextError> {
        let (text, mut problems) = inline::cut_long_words(nfc);
        if !text.contains(['{', '}']) {
            let language = given.unwrap_or_else(|| detect::detect(&text));
            let normalized = normalize(&text, language);
            self.spell(&normalized, language, speller)?;
            return Ok((language, normalized, problems));
        }
        let (pieces, of_phones) = inline::split(&text);
        problems.extend(of_phones);
        let language = given.unwrap_or_else(|| detect::detect(&plain_text(&pieces)));
        let mut normalized = String::new();
        for piece in &pieces {
            let said = match piece {
                Piece::Text(text) => {
                    let text = text.trim_start();
                    // A normaliser drops a pause that follows nothing; here it follows phones.
                    let mut said = normalize(text, language);
                    let first = text.chars().next().filter(|mark| is_pause(*mark));
                    if let Some(pause) = first.filter(|_| !normalized.is_empty()) {
                        said = format!("{pause} {said}").trim_end().to_owned();
                    }
                    self.spell(&said, language, speller)?;
                    said
                }
                Piece::Phones(phones) => {
                    let said = format!("{{{}}}", spell_phones(phones));
                    speller.word(&said, phones, PronunciationSource::Inline);
                    said
                }
            };
            if !normalized.is_empty() && !said.is_empty() && !said.starts_with(is_pause) {
                normalized.push(' ');
            }
            normalized.push_str(&said);
        }
        Ok((language, normalized, problems))
    }

    fn spell(
        &self,
        normalized: &str,
        language: Language,
        speller: &mut Speller<'_>,
    ) -> Result<(), TextError> {
        match (language.front_end().spelling, &self.espeak) {
            (Spelling::EnglishPhones, _) => speller.english(normalized, &self.words),
            (_, Some(espeak)) => self.spell_by_espeak(espeak, normalized, language, speller)?,
            (_, None) => speller.characters(normalized, &self.words.lexicon),
        }
        Ok(())
    }

    fn spell_by_espeak(
        &self,
        espeak: &Espeak,
        normalized: &str,
        language: Language,
        speller: &mut Speller<'_>,
    ) -> Result<(), TextError> {
        let is_clause = |clause: &&str| clause.contains(char::is_alphanumeric);
        let clauses: Vec<&str> = normalized.split(is_pause).filter(is_clause).collect();
        if clauses.is_empty() {
            speller.characters(normalized, &self.words.lexicon);
            return Ok(());
        }
        let lexicon = &self.words.lexicon;
        let respelled = clauses.iter().map(|c| lexicon.respelled(c.trim()));
        let respelled: Vec<String> = respelled.collect();
        let mut answers = espeak.ipa(language, &respelled)?.into_iter();
        for clause in normalized.split_inclusive(is_pause) {
            let text = clause.trim_end_matches(is_pause);
            if is_clause(&text)
                && let Some(ipa) = answers.next()
            {
                speller.ipa(text.trim(), &ipa);
            }
            for pause in clause[text.len()..].chars() {
                speller.pause(pause);
            }
        }
        Ok(())
    }
}

fn nfc(raw: &str) -> Cow<'_, str> {
    match is_nfc_quick(raw.chars()) {
        IsNormalized::Yes => Cow::Borrowed(raw),
        _ => Cow::Owned(raw.nfc().collect()),
    }
}

/// Signs that a normaliser leaves out: found by asking it, so that this is true of any table.
/// Letters and digits are the speller's business; quotation marks and the like are never said.
fn dropped_signs(nfc: &str, language: Language) -> impl Iterator<Item = char> {
    let is_sign = |c: &char| {
        !c.is_ascii()
            && !c.is_alphanumeric()
            && !c.is_whitespace()
            && !c.is_control()
            && !"\u{a1}\u{ab}\u{ad}\u{b4}\u{b7}\u{bb}\u{bf}\u{feff}".contains(*c)
            && !matches!(c, '\u{0300}'..='\u{036f}' | '\u{0600}'..='\u{06ff}' | '\u{2000}'..='\u{206f}' | '\u{fe00}'..='\u{fe0f}')
    };
    let [before, after] = language.front_end().two_words;
    let without = normalize(&format!("{before} {after}"), language);
    let is_dropped =
        move |sign: &char| normalize(&format!("{before} {sign} {after}"), language) == without;
    let signs: BTreeSet<char> = nfc.chars().filter(is_sign).collect();
    signs.into_iter().filter(is_dropped)
}

fn normalize(text: &str, language: Language) -> String {
    (language.front_end().normalize)(text)
}

fn plain_text(pieces: &[Piece]) -> String {
    let texts = pieces.iter().map(|piece| match piece {
        Piece::Text(text) => text.as_str(),
        Piece::Phones(_) => " ",
    });
    texts.collect()
}

#[cfg(test)]
mod tests;
