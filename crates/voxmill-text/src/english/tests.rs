//! The promises of `normalize`: golden pairs, invariants on any text, and real transcripts.

use proptest::prelude::*;

use super::normalize;
use crate::table::tests::check_golden;

#[test]
fn golden_pairs() {
    check_golden(
        include_str!("../../data/golden/english.tsv"),
        300,
        normalize,
    );
}

/// What the doc comment of the module promises of every output.
fn check_form(raw: &str) {
    let spoken = normalize(raw);
    assert_eq!(normalize(&spoken), spoken, "not stable: {raw:?}");
    assert!(
        !spoken.contains("  ") && spoken.trim() == spoken,
        "spaces: {raw:?} → {spoken:?}"
    );
    for c in spoken.chars() {
        assert!(!c.is_numeric(), "{c:?} left in {spoken:?} from {raw:?}");
        let known = crate::is_letter(c) || " ,.;:?!—'-".contains(c);
        assert!(known, "{c:?} left in {spoken:?} from {raw:?}");
    }
}

/// Texts built of the pieces that the rules look for, glued together in any order.
fn pieces() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        "[0-9]{1,5}",
        "[0-9]{1,3}(,[0-9]{3}){1,2}",
        prop::sample::select(SIGNS.split(' ').collect::<Vec<_>>()).prop_map(str::to_owned),
        prop::sample::select(WORDS.split(' ').collect::<Vec<_>>()).prop_map(str::to_owned),
    ];
    // Half of the joints are spaces.
    prop::collection::vec((piece, any::<bool>()), 0..12).prop_map(|pieces| {
        pieces
            .into_iter()
            .map(|(piece, space)| if space { piece + " " } else { piece })
            .collect()
    })
}

const SIGNS: &str = "$ £ € % & @ # + = ° °C ½ ² ⁶ ٣ ７ Ⅷ … -- – — ' \" “ ( ) . , : / - _ ~ * × µ \u{301} \u{200b} ☃";
const WORDS: &str = "Henry Chapter I II IV VIII XX MIX St St. Mr. Dr No. Nov. May FBI US IT WHO NASA THE END U.S. \
    p.m. am s. d. th s km in. million bn www. x.com http:// a A J. o' 'tis the in o'clock B.C. Box sat. vol. vs \
    etc. XIX century Ph.D. USD MPs FBI's cañón é من The It";

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn any_text_is_read_without_panic_and_stably(raw in any::<String>()) {
        check_form(&raw);
    }

    #[test]
    fn any_mixture_of_pieces_is_read_stably(raw in pieces()) {
        check_form(&raw);
    }

    #[test]
    fn figures_and_signs_are_read_stably(raw in "[0-9,.:/$£€%'\" A-Zsdthkm()–-]{0,24}") {
        check_form(&raw);
    }

    #[test]
    fn capitals_are_read_stably(raw in "([A-Z]{1,5}[ .,']{0,2}){0,6}") {
        check_form(&raw);
    }
}

#[test]
fn every_character_alone_is_read() {
    for c in (0..=0x0010_ffff).filter_map(char::from_u32) {
        let spoken = normalize(c.encode_utf8(&mut [0; 4]));
        assert!(!spoken.contains(char::is_numeric), "{c:?} → {spoken:?}");
    }
}

/// A long text in the shapes that look ahead the most. A quadratic rule
/// would make this test take minutes.
#[test]
fn long_texts_without_a_space_are_read() {
    for piece in [
        "ab.", "a.", "1-", "1,111", "1.", "A", "$1-", "'", "-", "(1) ", "Mr", "1/", "é", "x@",
        "..", "St. ", "1.5-", "1,000-", "1 000 ", "+1 ", "1 st ", " .AB", "a.js", "1.5e-", "5 am-",
        "1:1,000", "XI's", "1-a", "1:", "1a",
    ] {
        let raw = piece.repeat(30_000 / piece.len());
        check_form(&raw);
        check_form(&(raw.clone() + "aa"));
        check_form(&(raw + "1,1"));
    }
}

/// Words alone, so that punctuation does not count.
fn words(text: &str) -> Vec<String> {
    text.to_lowercase()
        .split(|c: char| !c.is_alphabetic() && c != '\'')
        .filter(|word| !word.is_empty())
        .map(str::to_owned)
        .collect()
}

/// Of our own transcripts, or of a corpus whose makers wrote down what was read.
#[test]
fn transcripts_agree_with_their_makers() {
    let own = include_str!("../../data/golden/transcripts.csv");
    let own = own.lines().filter(|row| row.starts_with("EN"));
    let csv = std::env::var("VOXMILL_TRANSCRIPTS").map_or_else(
        |_| own.collect::<Vec<_>>().join("\n"),
        |path| std::fs::read_to_string(path).expect("VOXMILL_TRANSCRIPTS names a readable file"),
    );
    let (mut changed, mut equal, mut differences) = (0, 0, String::new());
    for row in csv.lines() {
        let columns: Vec<&str> = row.split('|').collect();
        check_form(columns[1]);
        check_form(columns[2]);
        if columns[1] == columns[2] {
            continue;
        }
        changed += 1;
        // The makers leave "Mr." and "p.m." as they are, so their text is normalised too.
        let (ours, theirs) = (normalize(columns[1]), normalize(columns[2]));
        if words(&ours) == words(&theirs) {
            equal += 1;
        } else {
            differences += &format!("{}\n  ours   {ours}\n  theirs {theirs}\n", columns[1]);
        }
    }
    if let Ok(path) = std::env::var("VOXMILL_DIFFERENCES") {
        std::fs::write(path, format!("{equal} of {changed}\n{differences}")).unwrap();
    }
    assert!(
        changed >= 15 && equal * 100 >= changed * 80,
        "{equal} of {changed} rows agree:\n{differences}"
    );
}
