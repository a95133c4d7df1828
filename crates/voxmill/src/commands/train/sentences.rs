//! What a voice is asked to say while it learns: held-out sentences, or some of the training ones
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
    let name = |manifest: &Manifest, clip: &Clip| {
        manifest
            .speakers
            .get(clip.speaker as usize)
            .cloned()
            .unwrap_or_default()
    };
    let sentence = |manifest: &Manifest, clip: &Clip| Sentence {
        text: clip.text.to_string(),
        speaker: name(manifest, clip),
        language: clip.language.or(language),
    };
    let mut chosen: Vec<Sentence> = (held_out.clips.iter())
        .filter(|clip| clip.split == Split::Validation)
        .take(SENTENCES)
        .map(|clip| sentence(held_out, clip))
        .collect();
    if chosen.is_empty() {
        chosen.extend(
            train
                .clips
                .iter()
                .take(SENTENCES)
                .map(|clip| sentence(train, clip)),
        );
    }
    chosen
}
