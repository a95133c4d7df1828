//! What a voice speaks while it learns: held-out sentences, or some of the training ones
//! where none are held out.

use voxmill_data::manifest::{Clip, Manifest, Split};
use voxmill_text::language::Language;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Sentence {
    pub(crate) text: String,
    pub(crate) speaker: String,
    pub(crate) language: Option<Language>,
}

const SENTENCES: usize = 3;

pub(super) fn choose(
    train: &Manifest,
    held_out: &Manifest,
    language: Option<Language>,
) -> Vec<Sentence> {
    let sentence = |manifest: &Manifest, clip: &Clip| Sentence {
        text: clip.text.to_string(),
        speaker: manifest.speaker(clip).to_owned(),
        language: clip.language.or(language),
    };
    let clips = held_out.clips_of(Split::Validation).take(SENTENCES);
    let chosen: Vec<Sentence> = clips.map(|clip| sentence(held_out, clip)).collect();
    if !chosen.is_empty() {
        return chosen;
    }
    let clips = train.clips.iter().take(SENTENCES);
    clips.map(|clip| sentence(train, clip)).collect()
}
