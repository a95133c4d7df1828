//! What normal Persian text is: golden pairs, and what must hold for any text at all.

use std::collections::HashSet;

use proptest::prelude::*;
use unicode_normalization::{UnicodeNormalization, is_nfc};

use super::marks::MARKS;
use super::normalize;
use crate::language::Language;
use crate::table::tests::{check_golden, golden, transcripts};

/// The Persian letters (with tanvin) that normalised text is made of, besides ZWNJ, the space and the
/// marks `, ; : . ! ?`. Words of other languages in Arabic script may bring rarer letters.
const ALPHABET: &str = "ءآأؤئابپتثجچحخدذرزژسشصضطظعغفقکگلمنهوی\u{064b}";

const GOLDEN: &str = include_str!("../../data/golden/persian.tsv");

#[test]
fn golden_pairs() {
    check_golden(GOLDEN, 150, normalize);
}

#[test]
fn golden_texts_use_the_alphabet() {
    let mut unused: HashSet<char> = ALPHABET.chars().collect();
    for (_, expected) in golden(GOLDEN) {
        for c in expected.chars().filter(|c| super::is_persian(*c)) {
            assert!(ALPHABET.contains(c), "{c:?} in {expected}");
            unused.remove(&c);
        }
    }
    assert!(unused.is_empty(), "no golden pair uses {unused:?}");
}

/// The shapes on which a careless scan or recursion would grow with the square of the length.
#[test]
fn long_texts_become_normal_too() {
    let pieces = "1 |1|0 |12-|1/|1.|1:|5 m/|m/|$1 |(|ص |ص.|ق.| |\u{200c}|ب\u{200c}\u{200c}\u{654}|\u{640}\u{64b}|\
                  ة\u{64e}|می |ه ی |^2|½|٪۵-|آ/|1.5-|1,000-";
    for piece in pieces.split('|') {
        check(&piece.repeat(10_000 / piece.chars().count()));
    }
    check(&format!(
        "ب{}{}",
        "\u{200c}".repeat(5_000),
        "\u{654}".repeat(5_000)
    ));
}

#[test]
fn expected_sides_are_stable() {
    for (_, expected) in golden(GOLDEN) {
        assert_eq!(normalize(expected), expected);
    }
}

#[test]
fn no_numeral_of_any_script_survives() {
    for c in ('\0'..=char::MAX).filter(|c| c.is_numeric()) {
        for text in [format!("{c}"), format!("{c}{c}"), format!("سال {c}م")] {
            check(&text);
        }
    }
}

/// The corpus is clean already: only the marks may change.
#[test]
fn clean_sentences_keep_their_letters() {
    for text in transcripts(Language::Persian) {
        if !text.contains(char::is_numeric) {
            let marks = text.replace('،', ",").replace('؛', ";").replace('؟', "?");
            assert_eq!(normalize(&text), marks);
        }
    }
}

/// What holds for the output of any input.
fn check(text: &str) {
    let text: String = text.nfc().collect();
    let once = normalize(&text);
    assert_eq!(normalize(&once), once, "not idempotent on {text:?}");
    assert!(is_nfc(&once), "{text:?} → {once:?}");
    assert!(!once.contains(char::is_numeric), "{text:?} → {once:?}");
    assert!(!once.contains("  "), "{text:?} → {once:?}");
    assert_eq!(once.trim(), once, "{text:?}");
    assert!(!once.starts_with(MARKS), "{text:?} → {once:?}");
    for edge in ["\u{200c} ", " \u{200c}", "\u{200c}\u{200c}"] {
        assert!(!once.contains(edge), "{text:?} → {once:?}");
    }
    assert!(!once.contains(['ي', 'ك', 'ى', 'ة', '\u{640}']), "{once:?}");
}

/// Pieces from which the rules are built, so that random strings meet them often.
const PIECES: &str = "ا|أ|آ|ب|ه|ة|ۀ|ی|ي|ى|ئ|ک|ك|گ|ر|و|م|ء|ام|مین|می|نمی|ها|های|ترین|ای|اند|روم|است|خانه|کتاب|\
    لطفا|مرداد|ماه|متر|میلیون|درصد|ال|ق.م|ه.ش.|ص|ص.|(ع)|م.|ج.ا.ا|AM|km|m|Wi|a|e|\u{301}|\
    \u{200c}|\u{200d}|\u{200b}|\u{640}|\u{64b}|\u{64e}|\u{651}|\u{654}|\u{653}|\u{670}| | |  |\
    \n|.|،|,|؛|؟|!|:|…|«|»|(|)|[|-|–|—|−|/|⁄|^|+|%|٪|‰|$|€|﷼|°|°C|²|½|'|’|&|ﷲ|ﷺ|﷽|ﹰ|ﻼ|٫|٬|0|1|\
    09|12|30|1402|05|۰|۵|۱۴۰۲|٣|①|Ⅷ|९|〇";

fn pieces() -> impl Strategy<Value = String> {
    let fixed = prop::sample::select(PIECES.split('|').collect::<Vec<_>>());
    prop::collection::vec(fixed, 0..14).prop_map(|parts| parts.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn any_text_becomes_normal(text in any::<String>()) {
        check(&text);
    }

    #[test]
    fn text_of_arabic_script_becomes_normal(text in "[\u{600}-\u{6ff}\u{fb50}-\u{fdff}\u{fe70}-\u{fefc}0-9 .,/:\u{200c}%-]{0,40}") {
        check(&text);
    }

    #[test]
    fn text_made_of_rules_becomes_normal(text in pieces()) {
        check(&text);
    }

    #[test]
    fn every_number_is_read(number in any::<u128>(), negative in any::<bool>()) {
        let sign = if negative { "-" } else { "" };
        let words = normalize(&format!("{sign}{number}"));
        prop_assert_eq!(words.starts_with("منفی "), negative);
        check(&words);
    }
}
