//! What `voxmill text` shows.

use std::io::Write as _;
use std::process::Stdio;

use crate::{said, voxmill};

#[test]
fn each_step_of_an_english_sentence() {
    let output = voxmill(&["text", "Dr. Smith paid $3.50 to the FBI on May 4, 1999."])
        .output()
        .unwrap();
    insta::assert_snapshot!(said(&output));
}

#[test]
fn inline_phonemes_guessed_words_and_symbols_that_are_not_read() {
    let output = voxmill(&["text", "A zorblax ate the {T AH0 M EY1 T OW0} ☃."])
        .output()
        .unwrap();
    insta::assert_snapshot!(said(&output));
}

#[test]
fn each_step_of_a_persian_sentence() {
    let output = voxmill(&["text", "من ۱۲ كتاب دارم."]).output().unwrap();
    insta::assert_snapshot!(said(&output));
}

#[test]
fn sentences_from_standard_input_as_json_lines() {
    let mut child = voxmill(&["text", "--json"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all("Hello there.\n\nسلام\n".as_bytes())
        .unwrap();
    let output = child.wait_with_output().unwrap();
    let lines: Vec<serde_json::Value> = String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines.len(), 2);
    for line in &lines {
        crate::schema::assert_fits(line, "text");
    }
    assert_eq!(lines[0]["language"], "en");
    assert_eq!(lines[1]["language"], "fa");
    assert!(lines[1]["tokens"].as_array().unwrap().len() > 2);
}

#[test]
fn no_text_is_an_error_with_a_hint() {
    for args in [["text", ""].as_slice(), &["text"]] {
        let output = voxmill(args).stdin(Stdio::null()).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        assert!(
            said(&output).contains("hint: voxmill text"),
            "{}",
            said(&output)
        );
    }
}
