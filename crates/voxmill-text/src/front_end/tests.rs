//! What the front-end makes of words and sentences, by example and by law.

use std::sync::OnceLock;

use proptest::prelude::*;

use super::*;
use crate::symbols::{BEGIN, END};
use crate::table::rows;
use crate::table::tests::{golden, transcripts};

fn front_end() -> &'static FrontEnd {
    static FRONT_END: OnceLock<FrontEnd> = OnceLock::new();
    FRONT_END.get_or_init(|| FrontEnd::new(FrontEndOptions::default()).unwrap())
}

fn with(lexicon: Option<PathBuf>, espeak: Option<PathBuf>) -> Result<FrontEnd, TextError> {
    FrontEnd::new(FrontEndOptions { lexicon, espeak })
}

/// The names of the parts in which a front-end differs from the default one.
fn changes(with: &FrontEnd) -> Vec<&str> {
    let before = &front_end().fingerprint().parts;
    let parts = with.fingerprint().parts.iter();
    let changed = parts.filter(|part| !before.contains(part));
    changed.map(|(name, _)| name.as_str()).collect()
}

fn process(text: &str, language: Language) -> Utterance {
    front_end().process(text, Some(language)).unwrap()
}

/// The tokens between `^` and `$` as a line.
fn said(utterance: &Utterance) -> String {
    let [BEGIN, tokens @ .., END] = utterance.tokens.as_slice() else {
        panic!("{:?}", utterance.tokens);
    };
    SymbolTable::built_in().spell(tokens)
}

/// From normalised text on: what the normaliser makes of a text has golden pairs of its own.
#[test]
fn english_golden() {
    let table = SymbolTable::built_in();
    for (normalized, expected) in golden(include_str!("golden.tsv")) {
        let mut speller = Speller::new(&front_end().ids, false);
        let spelled = front_end().spell(normalized, Language::English, &mut speller);
        spelled.unwrap();
        let tokens = table.spell(&speller.finish().0);
        assert_eq!(tokens, format!("^ {expected} $"), "{normalized}");
    }
}

/// The tokens of all golden texts, as one hash. If it changes because texts come out differently,
/// count `FRONT_END_VERSION` up with it (once something is released); a new pair needs only the
/// new hash.
#[test]
fn the_output_is_that_of_its_version() {
    let english = include_str!("../../data/golden/english.tsv");
    let persian = include_str!("../../data/golden/persian.tsv");
    let mut hasher = blake3::Hasher::new();
    for (table, language) in [(english, Language::English), (persian, Language::Persian)] {
        for row in rows(table) {
            for token in process(row[0], language).tokens {
                hasher.update(&token.to_le_bytes());
            }
        }
    }
    let hash = hasher.finalize().to_hex();
    let state = (FRONT_END_VERSION, &hash[..16]);
    assert_eq!(state, (1, "13a27b755f1e8e36"));
}

#[test]
fn each_word_names_its_source() {
    let utterance = process("hello blorple {W ER1 L D}", Language::English);
    let words = utterance
        .words
        .iter()
        .map(|word| (&*word.text, word.source));
    let expected = [
        ("hello", PronunciationSource::Dictionary),
        ("blorple", PronunciationSource::LetterToSound),
        ("{W ER1 L D}", PronunciationSource::Inline),
    ];
    assert_eq!(words.collect::<Vec<_>>(), expected);
    assert_eq!(utterance.words[0].pronunciation, "HH AH0 L OW1");
    assert_eq!(utterance.normalized, "hello blorple {W ER1 L D}");
    let unknown: Vec<_> = utterance.unknown_words().map(|w| &*w.text).collect();
    assert_eq!(unknown, ["blorple"]);
}

#[test]
fn inline_phones_are_taken_as_they_are_and_mistakes_are_reported() {
    let utterance = process("Say {T AH0 M AA1 T OW0}, please.", Language::English);
    let phones = "S EY1 _ T AH0 M AA1 T OW0 , _ P L IY1 Z .";
    assert_eq!(said(&utterance), phones);
    assert_eq!(utterance.problems, []);
    let wrong = process("a {cat} sat", Language::English);
    let plain = process("a cat sat", Language::English);
    assert_eq!(wrong.tokens, plain.tokens);
    assert_eq!(wrong.problems.len(), 1);
}

#[test]
fn persian_is_read_by_its_characters() {
    let utterance = process("سلام، خوبی؟", Language::Persian);
    assert_eq!(said(&utterance), "س ل ا م , _ خ و ب ی ?");
    let joined = process("می\u{200c}روم", Language::Persian);
    assert_eq!(said(&joined), "م ی <zwnj> ر و م");
}

#[test]
fn other_languages_are_read_by_their_characters_and_the_rest_is_reported() {
    let german = process("Schöne  Grüße — 漢字!", "de".parse().unwrap());
    assert_eq!(said(&german), "s c h ö n e _ g r ü ß e — !");
    assert_eq!(german.unknown_symbols, ['漢', '字']);
    assert_eq!(german.normalized, "schöne grüße — 漢字!");
}

#[test]
fn the_language_is_detected_unless_it_is_given() {
    let found = front_end()
        .process("The cat sat on the mat.", None)
        .unwrap();
    assert_eq!(found.language, Language::English);
    assert_eq!(found.language_source, LanguageSource::Detected);
    let given = process("سلام", Language::English);
    assert_eq!(given.language_source, LanguageSource::Given);
    assert_eq!(said(&given), "");
    assert_eq!(given.unknown_symbols.len(), 4);
}

#[test]
fn composed_and_decomposed_letters_are_the_same() {
    let [composed, decomposed] =
        ["caf\u{e9}", "cafe\u{301}"].map(|text| process(text, Language::English));
    assert_eq!(composed, decomposed);
    assert_eq!(said(&composed), "K AH0 F EY1");
}

#[test]
fn the_lexicon_goes_first_and_changes_the_fingerprint() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lexicon.tsv");
    std::fs::write(&path, "hello\tY OW1\nگل\tگُل\n").unwrap();
    let with = with(Some(path), None).unwrap();
    let hello = with.process("Hello.", Some(Language::English)).unwrap();
    assert_eq!(said(&hello), "Y OW1 .");
    assert_eq!(hello.words[0].source, PronunciationSource::Lexicon);
    let flower = with.process("گل", Some(Language::Persian)).unwrap();
    assert_eq!(said(&flower), "گ \u{64f} ل");
    assert_ne!(with.fingerprint().hash(), front_end().fingerprint().hash());
    assert_eq!(changes(&with), ["lexicon"]);
}

#[test]
fn an_absent_espeak_is_an_error_at_once() {
    let error = with(None, Some("no-such-espeak".into())).unwrap_err();
    assert!(matches!(
        error,
        TextError::Espeak(EspeakError::Start { .. })
    ));
}

#[cfg(unix)]
#[test]
fn espeak_says_the_clauses_and_the_pauses_stay() {
    use crate::espeak::stand_in::{VERSION, stand_in};
    let script = format!("{VERSION}\nsed -e 's/.*سلام.*/salˈɑm/' -e 's/.*خوبی.*/xˈuːbi (en)a/'");
    let (_folder, program) = stand_in(&script);
    let with = with(None, Some(program)).unwrap();
    let persian = with.process("سلام، خوبی؟", Some(Language::Persian)).unwrap();
    assert_eq!(
        said(&persian),
        "/s/ /a/ /l/ /ˈɑ/ /m/ , _ /x/ /ˈuː/ /b/ /i/ _ /a/ ?"
    );
    assert_eq!(persian.words.len(), 2);
    assert_eq!(persian.words[0].source, PronunciationSource::Espeak);
    let english = with.process("hello", Some(Language::English)).unwrap();
    assert_eq!(english.words[0].source, PronunciationSource::Dictionary);
    assert_eq!(changes(&with), ["espeak-ng"]);
    let silence = with.features("...", Some(Language::UNDETERMINED));
    assert_eq!(silence.unwrap().tokens.len(), 3);
    assert!(with.features("abc", Some(Language::UNDETERMINED)).is_err());
}

#[cfg(unix)]
#[test]
fn espeak_is_given_the_characters_of_the_lexicon() {
    use crate::espeak::stand_in::{VERSION, stand_in};
    let (folder, program) = stand_in(&format!("{VERSION}\nsed 's/گُل/ɡol/'"));
    let path = folder.path().join("lexicon.tsv");
    std::fs::write(&path, "گل\tگُل\n").unwrap();
    let with = with(Some(path), Some(program)).unwrap();
    let flower = with.process("گل", Some(Language::Persian)).unwrap();
    assert_eq!(said(&flower), "/ɡ/ /o/ /l/");
    assert_eq!(flower.words[0].text, "گل");
}

#[test]
fn a_hundred_thousand_letters_are_no_trouble() {
    let long = "x".repeat(20_000) + " " + &"word, ".repeat(14_000);
    let features = front_end()
        .features(&long, Some(Language::English))
        .unwrap();
    assert!(features.tokens.len() > 70_000);
}

#[test]
fn a_word_without_end_is_cut_and_reported() {
    let begins = "a jammed key: ";
    for (letter, language) in [("x", Language::English), ("ا", Language::Persian)] {
        let long = format!("{begins}{} end", letter.repeat(100_000));
        let cut = format!("{begins}{} end", letter.repeat(1_000));
        let found = front_end().process(&long, Some(language)).unwrap();
        let expected = front_end().process(&cut, Some(language)).unwrap();
        assert_eq!(found.tokens, expected.tokens);
        assert_eq!(expected.problems, []);
        let begins = letter.repeat(20);
        assert_eq!(
            found.problems[0].to_string(),
            format!("the word `{begins}…` has 100000 letters: only the first 1000 are read")
        );
        assert_eq!(front_end().unread(&long, Some(language)), 1);
    }
}

#[test]
fn front_ends_are_shared_between_threads() {
    fn shared<T: Send + Sync>() {}
    shared::<FrontEnd>();
}

fn languages() -> impl Strategy<Value = Option<Language>> {
    prop_oneof![
        Just(None),
        Just(Some(Language::English)),
        Just(Some(Language::Persian)),
        Just(Some(Language::UNDETERMINED)),
    ]
}

proptest! {
    #[test]
    fn any_text_gives_known_tokens_and_the_same_ones_again(
        text in prop_oneof!["\\PC{0,40}", "[a-zA-Z'{}0-2 ,.’é-]{0,60}", ".{0,20}", "[\u{600}-\u{6ff}\u{200c} ]{0,30}"],
        language in languages(),
    ) {
        let utterance = front_end().process(&text, language).unwrap();
        let symbols = SymbolTable::built_in().symbols.len();
        prop_assert!(utterance.tokens.iter().all(|&id| usize::from(id) < symbols));
        let [BEGIN, tokens @ .., END] = utterance.tokens.as_slice() else {
            return Err(TestCaseError::fail("not between begin and end"));
        };
        prop_assert!(!tokens.iter().any(|id| [super::super::symbols::PAD, BEGIN, END].contains(id)));
        let features = front_end().features(&text, language).unwrap();
        prop_assert_eq!(features.tokens, utterance.tokens);
        prop_assert_eq!(features.normalized, utterance.normalized);
        prop_assert_eq!(features.language, utterance.language);
    }
}

#[test]
fn every_letter_is_spelled_by_words_that_are_known() {
    for letter in 'A'..='Z' {
        let utterance = process(
            &format!("the {letter}.{letter}.Q. station"),
            Language::English,
        );
        let guessed: Vec<_> = utterance.unknown_words().collect();
        assert!(guessed.is_empty(), "{} → {guessed:?}", utterance.nfc);
    }
}

#[test]
fn no_digit_is_left_in_transcripts() {
    for text in transcripts(Language::English) {
        let normalized = front_end().features(&text, None).unwrap().normalized;
        assert!(
            !normalized.contains(char::is_numeric),
            "{text} → {normalized}"
        );
        assert!(normalized.contains(char::is_alphabetic), "{text} → nothing");
    }
}

#[test]
fn what_is_not_read_is_reported_and_counted() {
    let front_end = front_end();
    let utterance = front_end
        .process("A ☃ in “winter”, 5° 世界.", None)
        .unwrap();
    assert_eq!(utterance.language, Language::English);
    let mut unread = utterance.unknown_symbols;
    unread.sort_unstable();
    assert_eq!(unread, ['☃', '世', '界']);
    for (text, kinds) in [
        ("Plain words, and 25 more.", 0),
        ("A “quoted” word — and 5 °C.", 0),
        ("A ☃.", 1),
        ("say {K AE T} now", 1),
        ("۱۲ کتاب ☃ دارم.", 1),
        ("«سلام»، ۲۵٪", 0),
    ] {
        assert_eq!(front_end.unread(text, None), kinds, "{text}");
    }
    let german = Some("de".parse().unwrap());
    let unread = front_end.unread("Das kostet 25 Euro.", german);
    assert_eq!(unread, 2, "two digits");
}
