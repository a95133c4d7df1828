//! Texts to be spoken, and lexicons of how to speak them.

use voxmill_text::{FrontEnd, FrontEndOptions, Language, sentences};

use crate::{FuzzFolder, kind, project_root, size};

pub(crate) fn read_text(place: &FuzzFolder, bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let whole: usize = sentences(&text).iter().map(|part| part.len()).sum();
    assert!(whole <= text.len(), "sentences are parts of the text");
    let mut found = size(sentences(&text).len()).to_string();
    for language in [None, Some(Language::English), Some(Language::Persian)] {
        found.push_str(&spoken(place.front_end(), &text, language));
    }
    found
}

fn spoken(front_end: &FrontEnd, text: &str, language: Option<Language>) -> String {
    let features = front_end.features(text, language);
    let processed = front_end.process(text, language);
    let (Ok(features), Ok(processed)) = (features, processed) else {
        panic!("without espeak-ng no text is an error");
    };
    assert_eq!(features.tokens, processed.tokens, "both ways agree");
    let (tokens, words) = (size(features.tokens.len()), size(processed.words.len()));
    let unread = size(front_end.unread(text, language));
    let problems = size(processed.problems.len());
    format!(" {tokens}.{words}.{unread}.{problems}")
}

pub(crate) fn text_seeds(_: &FuzzFolder) -> Vec<Vec<u8>> {
    let demo = project_root().join("crates/voxmill-data/data/demo");
    let files = ["unseen.txt", "persian.txt"].map(|name| std::fs::read(demo.join(name)));
    files.into_iter().flatten().collect()
}

pub(crate) fn read_lexicon(place: &FuzzFolder, bytes: &[u8]) -> String {
    let lexicon = Some(place.put("lexicon.tsv", bytes));
    let options = FrontEndOptions {
        lexicon,
        ..FrontEndOptions::default()
    };
    let front_end = match FrontEnd::new(options) {
        Ok(front_end) => front_end,
        Err(error) => return kind(&error),
    };
    // Its own words, so that they are looked up.
    let text = String::from_utf8_lossy(bytes);
    let words = text.lines().filter_map(|line| line.split('\t').next());
    let words: Vec<&str> = words.take(50).collect();
    spoken(&front_end, &words.join(" "), None)
}
