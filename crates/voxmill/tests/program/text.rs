//! What `voxmill text` shows.

use std::io::Write as _;
use std::process::Stdio;

use serde_json::Value;

use crate::schema::assert_fits;
use crate::{expect, printed, voxmill};

fn shown(text: &str) -> String {
    printed(voxmill("text").arg(text))
}

#[test]
fn each_step_of_an_english_sentence() {
    insta::assert_snapshot!(shown("Dr. Smith paid $3.50 to the FBI on May 4, 1999."));
}

#[test]
fn inline_phonemes_guessed_words_and_symbols_that_are_not_read() {
    insta::assert_snapshot!(shown("A zorblax ate the {T AH0 M EY1 T OW0} ☃."));
}

#[test]
fn each_step_of_a_persian_sentence() {
    insta::assert_snapshot!(shown("من ۱۲ كتاب دارم."));
}

#[test]
fn sentences_from_standard_input_as_json_lines() {
    let mut command = voxmill("text --json");
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all("Hello there.\n\nسلام\n".as_bytes()).unwrap();
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    let lines = String::from_utf8(output.stdout).unwrap();
    let lines = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap());
    let lines: Vec<Value> = lines.inspect(|line| assert_fits(line, "text")).collect();
    assert_eq!(lines.len(), 2);
    assert_eq!(lines[0]["language"], "en");
    assert_eq!(lines[1]["language"], "fa");
    assert!(lines[1]["tokens"].as_array().unwrap().len() > 2);
}

#[test]
fn no_text_is_an_error_with_a_hint() {
    let hint = ["hint: voxmill text"];
    expect(voxmill("text").stdin(Stdio::null()), 1, &hint);
    expect(voxmill("text").arg("").stdin(Stdio::null()), 1, &hint);
}
