//! What a voice speaks while it learns: sentences of one's own, held-out ones, or some of the training ones where
//! none are held out.

use std::path::{Path, PathBuf};

use crate::error::UserError;
use voxmill_data::manifest::{Clip, Manifest, Split};
use voxmill_text::language::Language;
use voxmill_untrusted::file::read_text;

/// A sentence that a voice speaks, and who speaks it.
#[derive(Clone, Debug, PartialEq)]
pub struct Sentence {
    pub text: String,
    /// `None`: whoever speaks its language.
    pub speaker: Option<String>,
    pub language: Option<Language>,
    /// How somebody really said it.
    pub recording: Option<PathBuf>,
}

const SENTENCES: usize = 3;
/// All of them are spoken again and again while the model waits.
const MOST_OWN: usize = 20;
const MOST_BYTES: u64 = 100_000;

/// The first held-out clips; where there are none, the first to train on.
pub fn choose(train: &Manifest, held_out: &Manifest, language: Option<Language>) -> Vec<Sentence> {
    let sentence = |manifest: &Manifest, clip: &Clip| Sentence {
        text: clip.text.to_string(),
        speaker: Some(manifest.speaker(clip).to_owned()),
        language: clip.language.or(language),
        recording: Some(clip.audio_path()),
    };
    let clips = held_out.clips_of(Split::Validation).take(SENTENCES);
    let chosen: Vec<Sentence> = clips.map(|clip| sentence(held_out, clip)).collect();
    if !chosen.is_empty() {
        return chosen;
    }
    let clips = train.clips.iter().take(SENTENCES);
    clips.map(|clip| sentence(train, clip)).collect()
}

/// `--sample-text`: a sentence a line.
pub fn read(file: &Path, language: Option<Language>) -> Result<Vec<Sentence>, UserError> {
    let hint = "give a text file in UTF-8 with a sentence on each line, at most 20";
    let text = read_text(file, MOST_BYTES).map_err(|error| {
        let what = format!("cannot read the sentences of `{}`", file.display());
        UserError::new(what, hint).because(error)
    })?;
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let sentences: Vec<Sentence> = lines
        .map(|line| Sentence {
            text: line.to_owned(),
            speaker: None,
            language,
            recording: None,
        })
        .collect();
    if !(1..=MOST_OWN).contains(&sentences.len()) {
        let (count, file) = (sentences.len(), file.display());
        let what = format!("`{file}` has {count} sentences to speak as samples");
        return Err(UserError::new(what, hint));
    }
    Ok(sentences)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_sentences_has_some_and_not_too_many() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("sentences.txt");
        let read = |text: &str| {
            std::fs::write(&file, text).unwrap();
            read(&file, None)
        };
        let two = read("One.\n\n  Two. \n").unwrap();
        assert_eq!(
            two.iter().map(|one| &*one.text).collect::<Vec<_>>(),
            ["One.", "Two."]
        );
        assert!(read("\n \n").is_err());
        assert!(read(&"Again.\n".repeat(21)).is_err());
        assert!(super::read(&folder.path().join("none.txt"), None).is_err());
    }
}
