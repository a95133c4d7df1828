//! The language of a text, from its letters and its small words.
//!
//! The script decides first. Where languages share one, stop-words and typical letters decide; the
//! rows of `data/languages/stop_words.tsv` are all it knows. One pass, no allocation.
//!
//! What is taken when nothing decides:
//! - no letter but digits: Persian for Persian digits, else English, so that "1963." is read out;
//! - letters in addresses only, which are left out of account: English;
//! - neither letter nor digit: [`Language::UNDETERMINED`];
//! - Latin letters with fewer than two hints at another language: English;
//! - Arabic letters without a hint, or with as many Persian as Arabic ones: Persian;
//! - a script that no row and no arm of `script` knows: [`Language::UNDETERMINED`].

use std::sync::LazyLock;

use crate::language::Language;
use crate::{FNV_START, fnv1a, table};

/// A stop-word says more than a letter: names carry letters abroad.
const WORD_WEIGHT: u32 = 4;
/// Hints (words or letters) that another language needs against the first of its script; fewer are
/// a name or a quotation.
const LEAST_HINTS: u32 = 2;
/// Texts in another script quote Latin words (brands, addresses) far more often than the other way
/// round, so each letter of theirs counts twice.
const OTHER_SCRIPT_WEIGHT: u32 = 2;

/// The language of a text.
pub fn detect(text: &str) -> Language {
    let hints = &*HINTS;
    let mut letters = [0_u32; SCRIPTS];
    let mut scores = [0_u32; LANGUAGES];
    let mut found = [0_u32; LANGUAGES];
    let mut count = |mut languages: u32, weight: u32| {
        while languages != 0 {
            let language = languages.trailing_zeros() as usize;
            scores[language] += weight;
            found[language] += 1;
            languages &= languages - 1;
        }
    };
    let mut word = WordHash::EMPTY;
    let plain = text
        .split_inclusive(char::is_whitespace)
        .filter(|token| !is_address(token));
    for c in plain.flat_map(str::chars) {
        let (script, c) = if c.is_ascii() {
            let letter = c.is_ascii_alphabetic();
            (letter.then_some(Script::Latin), c.to_ascii_lowercase())
        } else if is_arabic_vowel(c) {
            continue;
        } else {
            (script(c), lower(c))
        };
        let Some(script) = script else {
            if word != WordHash::EMPTY {
                count(hints.languages(word), WORD_WEIGHT);
                // The article of l'eau, unlike the initial of L. J. Lewis.
                if matches!(c, '\'' | '’') {
                    count(hints.languages(word.with('\'')), WORD_WEIGHT);
                }
                word = WordHash::EMPTY;
            }
            // Persian and Arabic write their digits differently.
            if matches!(c, '\u{0660}'..='\u{0669}' | '\u{06f0}'..='\u{06f9}') {
                count(hints.languages(WordHash::letter(c)), 1);
            }
            continue;
        };
        letters[script as usize] += 1;
        word = word.with(c);
        if !c.is_ascii() {
            count(hints.languages(WordHash::letter(c)), 1);
        }
    }
    if word != WordHash::EMPTY {
        count(hints.languages(word), WORD_WEIGHT);
    }

    let script = match prevailing(&letters) {
        None => return by_digits(text),
        Some(Script::Han | Script::Kana) if is_japanese(&letters) => Script::Kana,
        Some(Script::Han | Script::Kana) => Script::Han,
        Some(script) => script,
    };
    let first = hints.of_script[script as usize];
    let mut best = (0, first);
    for (index, (of, language)) in hints.known.iter().enumerate() {
        let enough = *language == first || found[index] >= LEAST_HINTS;
        if *of == script && enough && scores[index] > best.0 {
            best = (scores[index], *language);
        }
    }
    best.1
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Script {
    Latin,
    Arabic,
    Cyrillic,
    Greek,
    Hebrew,
    Devanagari,
    Thai,
    Han,
    Kana,
    Hangul,
    /// Letters of any other script.
    Unknown,
}

const SCRIPTS: usize = Script::Unknown as usize + 1;

/// The script of a letter outside ASCII; nothing for any other character.
fn script(c: char) -> Option<Script> {
    // Nearly all of Persian; asking for the property of each letter would double the cost.
    if matches!(c, '\u{0620}'..='\u{064a}' | '\u{0671}'..='\u{06d3}') {
        return Some(Script::Arabic);
    }
    let script = match c {
        '\u{00aa}'..='\u{024f}' | '\u{1e00}'..='\u{1eff}' => Script::Latin,
        '\u{0600}'..='\u{06ff}'
        | '\u{0750}'..='\u{077f}'
        | '\u{08a0}'..='\u{08ff}'
        | '\u{fb50}'..='\u{fdff}'
        | '\u{fe70}'..='\u{fefc}' => Script::Arabic,
        '\u{0400}'..='\u{052f}' => Script::Cyrillic,
        '\u{0370}'..='\u{03ff}' | '\u{1f00}'..='\u{1fff}' => Script::Greek,
        '\u{0590}'..='\u{05ff}' => Script::Hebrew,
        '\u{0900}'..='\u{097f}' => Script::Devanagari,
        '\u{0e00}'..='\u{0e7f}' => Script::Thai,
        '\u{3040}'..='\u{30ff}' | '\u{31f0}'..='\u{31ff}' | '\u{ff66}'..='\u{ff9f}' => Script::Kana,
        '\u{3400}'..='\u{4dbf}'
        | '\u{4e00}'..='\u{9fff}'
        | '\u{f900}'..='\u{faff}'
        | '\u{20000}'..='\u{3ffff}' => Script::Han,
        '\u{1100}'..='\u{11ff}' | '\u{3130}'..='\u{318f}' | '\u{ac00}'..='\u{d7af}' => {
            Script::Hangul
        }
        _ => Script::Unknown,
    };
    c.is_alphabetic().then_some(script)
}

/// Vowel marks and the joining stroke stand inside words.
fn is_arabic_vowel(c: char) -> bool {
    matches!(c, '\u{064b}'..='\u{0652}' | '\u{0640}' | '\u{0670}')
}

fn lower(c: char) -> char {
    // Arabic script has no case, and it is most of what comes here.
    if matches!(c, '\u{0600}'..='\u{06ff}') {
        return c;
    }
    c.to_lowercase().next().unwrap_or(c)
}

/// Addresses are in Latin letters whatever the language around them.
fn is_address(token: &str) -> bool {
    token.contains('@') || token.contains("://") || token.starts_with("www.")
}

/// The language of a text without letters.
fn by_digits(text: &str) -> Language {
    match text.chars().find(|c| c.is_numeric()) {
        _ if text.contains(|c: char| c.is_ascii_alphabetic()) => Language::English,
        Some('\u{0660}'..='\u{0669}' | '\u{06f0}'..='\u{06f9}') => Language::Persian,
        Some(_) => Language::English,
        None => Language::UNDETERMINED,
    }
}

/// The script with the most letters, Latin counting single; ties go to the earlier one.
fn prevailing(letters: &[u32; SCRIPTS]) -> Option<Script> {
    const ALL: [Script; SCRIPTS] = [
        Script::Latin,
        Script::Arabic,
        Script::Cyrillic,
        Script::Greek,
        Script::Hebrew,
        Script::Devanagari,
        Script::Thai,
        Script::Han,
        Script::Kana,
        Script::Hangul,
        Script::Unknown,
    ];
    let score = |script: &Script| match script {
        Script::Latin => letters[0],
        _ => letters[*script as usize].saturating_mul(OTHER_SCRIPT_WEIGHT),
    };
    // Of equal ones `max_by_key` takes the last.
    ALL.into_iter()
        .rev()
        .filter(|script| score(script) > 0)
        .max_by_key(score)
}

/// Japanese writes its endings and particles in kana: a tenth is enough.
fn is_japanese(letters: &[u32; SCRIPTS]) -> bool {
    let [kana, han] = [Script::Kana, Script::Han].map(|script| letters[script as usize]);
    kana > 0 && kana >= han / 10
}

/// A word (or a letter, salted) as a number: FNV-1a over its characters, so that looking it up
/// needs no buffer. With 64 bits a false match is not to be expected in any corpus.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct WordHash(u64);

impl WordHash {
    const EMPTY: WordHash = WordHash(FNV_START);
    const LETTER: WordHash = WordHash(0x9e37_79b9_7f4a_7c15);

    fn with(self, c: char) -> WordHash {
        WordHash(fnv1a(self.0, c))
    }

    fn letter(c: char) -> WordHash {
        WordHash::LETTER.with(c)
    }

    fn of(text: &str) -> WordHash {
        text.chars().fold(WordHash::EMPTY, WordHash::with)
    }
}

/// Languages fit a bit set.
const LANGUAGES: usize = u32::BITS as usize;
/// A power of two, more than twice the words and letters there are: lookups stay short.
const SLOTS: usize = 4096;

struct Hints {
    /// Open addressing: a word and the set of languages (indices into `known`) that use it.
    slots: Box<[(WordHash, u32); SLOTS]>,
    known: Vec<(Script, Language)>,
    /// What a script is taken for, by itself.
    of_script: [Language; SCRIPTS],
}

impl Hints {
    fn slot(&self, word: WordHash) -> usize {
        let mut at = (word.0 ^ (word.0 >> 32)) as usize % SLOTS;
        while self.slots[at].1 != 0 && self.slots[at].0 != word {
            at = (at + 1) % SLOTS;
        }
        at
    }

    fn languages(&self, word: WordHash) -> u32 {
        self.slots[self.slot(word)].1
    }

    fn add(&mut self, word: WordHash, language: usize) {
        let at = self.slot(word);
        self.slots[at].0 = word;
        self.slots[at].1 |= 1 << language;
    }
}

const STOP_WORDS: &str = include_str!("../data/languages/stop_words.tsv");

static HINTS: LazyLock<Hints> = LazyLock::new(|| {
    let code = |code: &str| code.parse().unwrap_or(Language::UNDETERMINED);
    let mut of_script = [Language::UNDETERMINED; SCRIPTS];
    for (script, language) in [
        (Script::Greek, "el"),
        (Script::Hebrew, "he"),
        (Script::Devanagari, "hi"),
        (Script::Thai, "th"),
        (Script::Han, "zh"),
        (Script::Kana, "ja"),
        (Script::Hangul, "ko"),
    ] {
        of_script[script as usize] = code(language);
    }
    let mut hints = Hints {
        slots: Box::new([(WordHash::EMPTY, 0); SLOTS]),
        known: Vec::new(),
        of_script,
    };
    for row in rows() {
        let script = match row[0] {
            "latin" => Script::Latin,
            "arabic" => Script::Arabic,
            _ => Script::Cyrillic,
        };
        let language = code(row[1]);
        if !hints.known.iter().any(|(known, _)| *known == script) {
            hints.of_script[script as usize] = language;
        }
        let index = hints.known.len();
        hints.known.push((script, language));
        for word in row[2].split(' ') {
            hints.add(WordHash::of(word), index);
            if language == Language::Persian {
                // Persian is often typed on an Arabic keyboard.
                hints.add(
                    WordHash::of(&word.replace('ی', "ي").replace('ک', "ك")),
                    index,
                );
            }
        }
        for letter in row[3].chars().filter(|c| !matches!(c, ' ' | '-')) {
            hints.add(WordHash::letter(letter), index);
        }
    }
    hints
});

fn rows() -> impl Iterator<Item = [&'static str; 4]> {
    table::rows(STOP_WORDS).filter_map(|row| row.try_into().ok())
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;
    use crate::table::tests::{golden, transcripts};

    #[test]
    fn the_table_is_whole() {
        assert!(STOP_WORDS.starts_with("# "));
        let lines = STOP_WORDS.lines().filter(|line| !line.starts_with('#'));
        assert_eq!(rows().count(), lines.count(), "a row without four columns");
        assert!(rows().count() <= LANGUAGES);
        let mut languages = HashSet::new();
        let (mut entries, mut hashes) = (HashSet::new(), HashSet::new());
        for [script, code, words, letters] in rows() {
            let scripts = ["latin", "arabic", "cyrillic"];
            assert!(scripts.contains(&script), "{script}");
            assert!(code.parse::<Language>().is_ok(), "{code}");
            assert!(languages.insert(code), "{code} twice");
            let mut seen = HashSet::new();
            for word in words.split(' ') {
                assert!(seen.insert(word), "{code}: {word} twice");
                let stem = word.strip_suffix('\'').unwrap_or(word);
                assert!(!stem.is_empty(), "{word}");
                assert!(stem.chars().all(char::is_alphabetic), "{word}");
                assert_eq!(word.to_lowercase(), word);
                if entries.insert(word.to_owned()) {
                    assert!(hashes.insert(WordHash::of(word).0), "{word} collides");
                }
            }
            let mut seen = HashSet::new();
            for letter in letters.split(' ') {
                assert!(seen.insert(letter), "{code}: {letter} twice");
                assert_eq!(letter.chars().count(), 1, "{code}: {letter}");
                assert!(letter == "-" || letter.chars().all(char::is_alphanumeric));
            }
        }
        let used = HINTS.slots.iter().filter(|slot| slot.1 != 0).count();
        assert!(used * 2 < SLOTS, "{used} of {SLOTS} slots used");
    }

    #[test]
    fn golden_sentences() {
        let sentences = golden(include_str!("../data/golden/languages.tsv"));
        let codes: HashSet<&str> = sentences.iter().map(|(code, _)| *code).collect();
        assert!(sentences.len() >= 150 && codes.len() >= 8);
        let wrong: Vec<String> = sentences
            .iter()
            .filter(|(code, text)| detect(text).code() != *code)
            .map(|(code, text)| format!("{code} taken for {}: {text}", detect(text)))
            .collect();
        for code in ["en", "fa"] {
            let all = sentences.iter().filter(|(of, _)| *of == code).count();
            let missed = wrong.iter().filter(|line| line.starts_with(code)).count();
            assert!(all >= 40, "{code}: {all} sentences");
            assert!(missed * 100 <= all, "{code}: {missed} of {all}: {wrong:#?}");
        }
        // Every other language is recognised well too, if not perfectly.
        let limit = sentences.len() * 3 / 100;
        assert!(wrong.len() <= limit, "{} wrong: {wrong:#?}", wrong.len());
    }

    #[test]
    fn defaults_are_as_documented() {
        for (text, code) in [
            ("", "und"),
            ("12:30, 5%", "en"),
            ("۱۲:۳۰", "fa"),
            ("?!", "und"),
            ("😀 …", "und"),
            ("Yes", "en"),
            ("Die", "en"),
            ("café", "en"),
            ("Xylophon", "en"),
            ("سلام", "fa"),
            ("ა ბ", "und"),
        ] {
            assert_eq!(detect(text).code(), code, "{text}");
        }
    }

    #[test]
    fn corpora_are_recognised() {
        let english = transcripts(Language::English);
        let is_wrong = |text: &&String| detect(text) != Language::English;
        let wrong: Vec<_> = english.iter().filter(is_wrong).collect();
        assert!(wrong.len() * 100 <= english.len(), "{wrong:?}");
        for text in transcripts(Language::Persian) {
            assert_eq!(detect(&text), Language::Persian, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_has_a_language(text in any::<String>()) {
            let letterless = !text.chars().any(char::is_alphabetic);
            let language = detect(&text);
            prop_assert!(!letterless || text.contains(char::is_numeric) || language == Language::UNDETERMINED);
        }
    }
}
