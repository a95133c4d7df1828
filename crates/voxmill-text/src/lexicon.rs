//! Pronunciations given by the user, which go before those of the dictionary and the model.
//!
//! Words are looked up as they are spoken: figures, abbreviations and initialisms have been read
//! out by then, so that a row for `FBI` is never asked for, and one for `eff` is. Where espeak-ng
//! reads a text it is given the characters of the lexicon in the word's place.
//!
//! One word a line, `word<TAB>pronunciation`; `#` begins a comment line. A word in Latin letters
//! takes English phones (`Voxmill<TAB>V AA1 K S M IH2 L`). A word in another script takes the
//! characters to read in its place: Persian with its short vowels written out, for instance.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use unicode_normalization::UnicodeNormalization as _;

use voxmill_untrusted::file::read_text;

use super::persian;
use super::phonemes::{Phone, UnknownPhone, parse_phones};
use super::symbols::SymbolIds;
use crate::is_letter;

/// Some millions of words.
const MOST_BYTES: u64 = 64_000_000;

#[derive(Debug, Default)]
pub(super) struct Lexicon {
    phones: HashMap<String, Vec<Phone>>,
    characters: HashMap<String, String>,
}

/// Why a lexicon cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum LexiconError {
    #[error("cannot read the lexicon {}", path.display())]
    Read {
        path: PathBuf,
        #[source]
        cause: std::io::Error,
    },
    #[error("{}:{line}: {problem}", path.display())]
    Line {
        path: PathBuf,
        line: usize,
        problem: LexiconProblem,
    },
}

/// What is wrong with one line of it.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum LexiconProblem {
    #[error("no tab between the word and its pronunciation")]
    NoTab,
    #[error("the word is empty or holds white space")]
    Word,
    #[error("`{0}` is not allowed in a word: give its parts")]
    Sign(char),
    #[error("this is read as `{0}`, which is no single word: give its parts")]
    Parts(String),
    #[error("no pronunciation after the tab")]
    Empty,
    #[error(transparent)]
    Phone(#[from] UnknownPhone),
    #[error("`{0}` is not in the symbol table")]
    Character(char),
    #[error("`{0}` was given on line {1} already")]
    Twice(String, usize),
}

impl Lexicon {
    /// Reads a lexicon file; its text comes second, for the fingerprint.
    pub(super) fn read(
        path: &Path,
        ids: &SymbolIds,
    ) -> Result<(Lexicon, Option<String>), LexiconError> {
        let text = read_text(path, MOST_BYTES).map_err(|cause| LexiconError::Read {
            path: path.to_owned(),
            cause,
        })?;
        let lexicon = Lexicon::parse(&text, ids).map_err(|(line, problem)| LexiconError::Line {
            path: path.to_owned(),
            line,
            problem,
        })?;
        Ok((lexicon, Some(text)))
    }

    /// An error carries its line, counted from 1.
    pub(super) fn parse(text: &str, ids: &SymbolIds) -> Result<Lexicon, (usize, LexiconProblem)> {
        let mut lexicon = Lexicon::default();
        let mut lines = HashMap::new();
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        for (number, line) in (1..).zip(text.lines()) {
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            let word = lexicon
                .add(line, ids)
                .map_err(|problem| (number, problem))?;
            if let Some(before) = lines.insert(word.clone(), number) {
                return Err((number, LexiconProblem::Twice(word, before)));
            }
        }
        Ok(lexicon)
    }

    /// Adds a line; what comes back is the form under which its word will be found.
    fn add(&mut self, line: &str, ids: &SymbolIds) -> Result<String, LexiconProblem> {
        let (word, pronunciation) = line.split_once('\t').ok_or(LexiconProblem::NoTab)?;
        let word: String = word.trim().to_lowercase().replace('’', "'").nfc().collect();
        let pronunciation = pronunciation.trim();
        if word.is_empty() || word.contains(char::is_whitespace) {
            return Err(LexiconProblem::Word);
        }
        if pronunciation.is_empty() {
            return Err(LexiconProblem::Empty);
        }
        if let Some(folded) = fold_to_ascii(&word) {
            let phones = parse_phones(pronunciation)?;
            self.phones.insert(folded.clone(), phones);
            return Ok(folded);
        }
        let is_sign = |c: &char| !(is_letter(*c) || matches!(c, '\'' | '\u{200c}'));
        if let Some(sign) = word.chars().find(is_sign) {
            return Err(LexiconProblem::Sign(sign));
        }
        // The form under which the speller will ask for it.
        let word = match word.contains(is_arabic) {
            true => persian::normalize(&word),
            false => word,
        };
        if word.is_empty() || !word.chars().all(|c| is_letter(c) || c == '\u{200c}') {
            return Err(LexiconProblem::Parts(word));
        }
        let characters: String = pronunciation.to_lowercase().nfc().collect();
        if let Some(unknown) = characters.chars().find(|&c| ids.char(c).is_none()) {
            return Err(LexiconProblem::Character(unknown));
        }
        self.characters.insert(word.clone(), characters);
        Ok(word)
    }

    /// `word` is lower-case ASCII.
    pub(super) fn phones(&self, word: &str) -> Option<&[Phone]> {
        self.phones.get(word).map(Vec::as_slice)
    }

    /// A clause with the given characters in the place of each word that has some.
    pub(super) fn respelled(&self, clause: &str) -> String {
        let words = clause.split(' ');
        let respelled = words.map(|word| self.characters(word).unwrap_or(word));
        respelled.collect::<Vec<_>>().join(" ")
    }

    /// `word` is lower-case and NFC.
    pub(super) fn characters(&self, word: &str) -> Option<&str> {
        self.characters.get(word).map(String::as_str)
    }
}

/// Of the script that Persian is written in, presentation forms too.
fn is_arabic(c: char) -> bool {
    matches!(c, '\u{600}'..='\u{8ff}' | '\u{fb50}'..='\u{fdff}' | '\u{fe70}'..='\u{feff}')
}

/// The word in plain Latin letters, or `None` where a letter has no like among them.
fn fold_to_ascii(word: &str) -> Option<String> {
    let mut folded = String::with_capacity(word.len());
    let mut whole = true;
    fold(word, &mut folded, |_| whole = false);
    (whole && !folded.is_empty()).then_some(folded)
}

/// Appends `word` in lower-case ASCII letters and apostrophes: `Café’s` → `cafe's`. Characters
/// that have no Latin likeness go to `unknown`.
pub(super) fn fold(word: &str, into: &mut String, mut unknown: impl FnMut(char)) {
    for c in word.chars() {
        match c {
            'a'..='z' | '\'' => into.push(c),
            'A'..='Z' => into.push(c.to_ascii_lowercase()),
            '’' => into.push('\''),
            _ => fold_foreign(c, into, &mut unknown),
        }
    }
}

fn fold_foreign(c: char, into: &mut String, unknown: &mut impl FnMut(char)) {
    let spelled = match c {
        'ß' => "ss",
        'æ' | 'Æ' => "ae",
        'œ' | 'Œ' => "oe",
        'ø' | 'Ø' => "o",
        'ł' | 'Ł' => "l",
        'đ' | 'Đ' => "d",
        'ı' => "i",
        'þ' | 'Þ' | 'ð' | 'Ð' => "th",
        _ => "",
    };
    into.push_str(spelled);
    if !spelled.is_empty() {
        return;
    }
    let mut known = false;
    // Compatibility forms too: ligatures and full-width letters are the letters they show.
    for part in c.to_lowercase().nfkd() {
        match part {
            'a'..='z' => into.push(part),
            _ if unicode_normalization::char::is_combining_mark(part) => {}
            _ => continue,
        }
        known = true;
    }
    if !known {
        unknown(c);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Lexicon, (usize, LexiconProblem)> {
        Lexicon::parse(text, &SymbolIds::built_in())
    }

    #[test]
    fn words_are_found_whatever_their_case_and_accents() {
        let lexicon =
            parse("# ours\nVoxmill\tV AA1 K S M IH2 L\n\nCafé\tK AE0 F EY1\nگل\tگُل\n").unwrap();
        assert_eq!(lexicon.phones("voxmill").unwrap().len(), 7);
        assert_eq!(lexicon.phones("cafe").unwrap().len(), 4);
        assert_eq!(lexicon.characters("گل"), Some("گُل"));
        assert_eq!(lexicon.phones("گل"), None);
    }

    #[test]
    fn persian_words_are_found_in_their_normal_form() {
        let lexicon = parse("كتاب\tکِتاب\nдом\tдон\n").unwrap();
        assert_eq!(lexicon.characters("کتاب"), Some("کِتاب"));
        assert_eq!(lexicon.characters("дом"), Some("дон"));
        assert_eq!(lexicon.respelled("این کتاب"), "این کِتاب");
        let several = LexiconProblem::Parts("صلی الله علیه و سلم".to_owned());
        assert_eq!(parse("ﷺ\tص\n").unwrap_err(), (1, several));
    }

    #[test]
    fn an_error_names_its_line_and_the_nearest_phone() {
        let twice = |word: &str| LexiconProblem::Twice(word.to_owned(), 1);
        for (text, line, problem) in [
            ("a\tEY1\nb B IY1\n", 2, LexiconProblem::NoTab),
            ("a\t\n", 1, LexiconProblem::Empty),
            ("a b\tEY1\n", 1, LexiconProblem::Word),
            ("e-mail\tIY1 M EY2 L\n", 1, LexiconProblem::Sign('-')),
            ("AT&T\tEY1\n", 1, LexiconProblem::Sign('&')),
            ("a\tEY1\nA\tAH0\n", 2, twice("a")),
            ("résumé\tEY1\nresume\tEY1\n", 2, twice("resume")),
            ("گل\tگ漢\n", 1, LexiconProblem::Character('漢')),
        ] {
            assert_eq!(parse(text).unwrap_err(), (line, problem), "{text}");
        }

        let ids = SymbolIds::built_in();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("words.tsv");
        std::fs::write(&path, "a\tEY1\nhello\tHH AX0 L OW1\n").unwrap();
        let error = Lexicon::read(&path, &ids).unwrap_err().to_string();
        let problem = "words.tsv:2: `AX0` is not a phone; the nearest is `AA0`";
        assert!(error.ends_with(problem), "{error}");
        let missing = Lexicon::read(&folder.path().join("none"), &ids).unwrap_err();
        assert!(matches!(missing, LexiconError::Read { .. }));
    }

    #[test]
    fn folding_keeps_what_has_a_latin_likeness_and_names_the_rest() {
        let (mut folded, mut unknown) = (String::new(), Vec::new());
        let word = "Ærøskøbing’s naïve ﬁ Łódźжß漢";
        fold(word, &mut folded, |c| unknown.push(c));
        assert_eq!(folded, "aeroskobing'snaivefilodzss");
        assert_eq!(unknown, [' ', ' ', ' ', 'ж', '漢']);
    }
}
