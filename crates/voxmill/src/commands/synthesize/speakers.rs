//! Who speaks: a speaker by name, as in a recording, or whoever speaks a sentence's language.

use std::collections::BTreeMap;
use std::path::Path;

use voxmill_audio::Featurizer;
use voxmill_settings::VoiceChoice;
use voxmill_settings::error::UserError;
use voxmill_text::language::Language;
use voxmill_trainer::synthesis::{Reading, TrainedVoice};

use crate::commands::{note, warning};

/// The styles to speak in.
#[derive(Debug)]
pub(super) struct SpeakerStyles {
    usual: NamedStyle,
    /// Where nobody is named: the style of whoever speaks a language best, by its code.
    by_language: BTreeMap<String, NamedStyle>,
}

#[derive(Debug)]
pub(super) struct NamedStyle {
    /// Of the speaker, or of the recording in words.
    pub(super) name: String,
    pub(super) style: Vec<f32>,
}

impl SpeakerStyles {
    pub(super) fn choose(
        wanted: &VoiceChoice,
        voice: &TrainedVoice,
    ) -> anyhow::Result<SpeakerStyles> {
        let facts = voice.facts();
        let named = |name: &str| {
            let style = voice.style_named(name).map(<[f32]>::to_vec);
            let name_it = |style| NamedStyle {
                name: name.to_owned(),
                style,
            };
            style.map(name_it).ok_or_else(|| {
                let known: Vec<_> = facts.speakers.keys().map(String::as_str).collect();
                let what = format!("the voice knows no speaker `{name}`");
                let hint = format!("it knows: {}", known.join(", "));
                UserError::new(what, hint)
            })
        };
        let always = |usual| SpeakerStyles {
            usual,
            by_language: BTreeMap::new(),
        };
        match wanted {
            VoiceChoice::Reference(path) => {
                let style = style_of_recording(path, voice)?;
                if let [only] = Vec::from_iter(facts.speakers.keys())[..] {
                    note!(
                        "this voice has one speaker, `{only}`: it follows how the recording is spoken, not who speaks"
                    );
                } else if let Some(warning) = never_heard(&facts.speakers, &style) {
                    warning!("{warning}");
                }
                let name = format!("the voice in {}", path.display());
                Ok(always(NamedStyle { name, style }))
            }
            VoiceChoice::Speaker(name) => Ok(always(named(name)?)),
            VoiceChoice::Main => {
                // A checkpoint of the first steps may not have heard everybody yet.
                let any = facts.speakers.keys().next().unwrap_or(&facts.main_speaker);
                let known = facts.speakers.contains_key(&facts.main_speaker);
                let usual = named(if known { &facts.main_speaker } else { any })?;
                let heard = facts.languages.iter();
                let by_language =
                    heard.filter_map(|(code, speaker)| Some((code.clone(), named(speaker).ok()?)));
                Ok(SpeakerStyles {
                    usual,
                    by_language: by_language.collect(),
                })
            }
        }
    }

    pub(super) fn of(&self, language: Language) -> &NamedStyle {
        self.by_language.get(language.code()).unwrap_or(&self.usual)
    }
}

/// Below this a recording has no voice in it; the quietest speech is 20 dB above.
const SILENT_DBFS: f32 = -70.0;

fn style_of_recording(path: &Path, voice: &TrainedVoice) -> anyhow::Result<Vec<f32>> {
    let shown = path.display();
    let mut featurizer = Featurizer::new(&voice.facts().audio)?;
    let features = featurizer.featurize(path).map_err(|error| {
        let what = format!("cannot take the voice from `{shown}`");
        let hint = "give a recording of some seconds: wav, flac, ogg or mp3";
        UserError::new(what, hint).because(error)
    })?;
    let level = features.levels.rms_dbfs;
    if level < SILENT_DBFS {
        let what = format!("cannot take the voice from `{shown}`: it is silent ({level:.0} dBFS)");
        let hint = "give a recording with some seconds of speech";
        return Err(UserError::new(what, hint).into());
    }
    Ok(voice.style_of(features.mel))
}

/// A recording chooses among the voices that were trained on. One that is further from all of them than the
/// nearest two of them are from each other is none of these. Clips of one speaker differ, so less would not do.
fn never_heard(speakers: &BTreeMap<String, Vec<f32>>, style: &[f32]) -> Option<String> {
    let distance = |a: &[f32], b: &[f32]| {
        let squares = a.iter().zip(b).map(|(a, b)| (a - b).powi(2));
        squares.sum::<f32>().sqrt()
    };
    let known: Vec<_> = speakers.iter().collect();
    let to = |(_, own): &&(&String, &Vec<f32>)| distance(style, own);
    let nearest = known.iter().min_by(|a, b| to(a).total_cmp(&to(b)))?;
    let pairs = known.iter().enumerate().flat_map(|(number, (_, a))| {
        let others = known[number + 1..].iter();
        others.map(move |(_, b)| distance(a, b))
    });
    // With one speaker there is nothing to measure by.
    let apart = pairs.min_by(f32::total_cmp)?;
    (to(&nearest) > apart).then(|| {
        format!(
            "this recording is like none of the speakers in training; voices that were never heard are not cloned. \
             The nearest is `{}`",
            nearest.0
        )
    })
}

/// Refuses a text of which most is in languages that the voice was not trained on, and warns of less.
pub(super) fn check_languages(
    reading: &Reading,
    trained: &BTreeMap<String, String>,
    force: bool,
) -> Result<Option<String>, UserError> {
    // Older checkpoints do not say what they heard.
    if trained.is_empty() {
        return Ok(None);
    }
    let (mut heard, mut unheard) = (0, 0);
    let mut codes: Vec<&str> = Vec::new();
    for sentence in &reading.sentences {
        let code = sentence.language.code();
        if trained.contains_key(code) {
            heard += sentence.tokens.len();
            continue;
        }
        unheard += sentence.tokens.len();
        if !codes.contains(&code) {
            codes.push(code);
        }
    }
    if unheard == 0 {
        return Ok(None);
    }
    let known: Vec<&str> = trained.keys().map(String::as_str).collect();
    let (codes, known) = (codes.join(", "), known.join(", "));
    if unheard <= heard || force {
        return Ok(Some(format!(
            "the voice was not trained on {codes} (but on {known}): such sentences will not be understood"
        )));
    }
    let what = format!("the text is in {codes}, and the voice was trained only on {known}");
    let hint = format!(
        "give a voice that was trained on {codes} with --checkpoint; --language says what the text is in where that \
         is wrong; --force speaks anyway"
    );
    Err(UserError::new(what, hint))
}

#[cfg(test)]
mod tests {
    use super::*;
    use voxmill_trainer::synthesis::ReadSentence;

    fn reading(sentences: &[(&str, usize)]) -> Reading {
        let read = |&(code, tokens): &(&str, usize)| ReadSentence {
            tokens: vec![30; tokens],
            language: code.parse().unwrap(),
        };
        Reading {
            sentences: sentences.iter().map(read).collect(),
            ..Reading::default()
        }
    }

    #[test]
    fn a_text_in_a_language_never_heard_is_refused() {
        let trained = BTreeMap::from([("en".to_owned(), "slt".to_owned())]);
        let check = |sentences, force| check_languages(&reading(sentences), &trained, force);
        assert_eq!(check(&[("en", 9)], false).unwrap(), None);
        let refused = check(&[("fa", 9), ("en", 2)], false).unwrap_err();
        let refused = voxmill_settings::error::describe(&refused.into());
        assert!(refused.contains("the text is in fa"), "{refused}");
        assert!(refused.contains("--force speaks anyway"), "{refused}");
        for (sentences, force) in [
            (&[("fa", 2), ("en", 9)], false),
            (&[("fa", 9), ("en", 2)], true),
        ] {
            let warning = check(sentences, force).unwrap().unwrap();
            assert!(warning.contains("not trained on fa"), "{warning}");
        }
        // An older checkpoint does not say.
        let unknown = check_languages(&reading(&[("fa", 9)]), &BTreeMap::new(), false);
        assert_eq!(unknown.unwrap(), None);
    }

    #[test]
    fn a_recording_that_is_like_nobody_is_warned_of() {
        let speakers = BTreeMap::from([
            ("a".to_owned(), vec![0.0, 0.0]),
            ("b".to_owned(), vec![4.0, 0.0]),
        ]);
        assert_eq!(never_heard(&speakers, &[0.5, 0.5]), None);
        let warning = never_heard(&speakers, &[3.0, 9.0]).unwrap();
        assert!(warning.ends_with("The nearest is `b`"), "{warning}");
        let one = BTreeMap::from([("a".to_owned(), vec![0.0, 0.0])]);
        assert_eq!(never_heard(&one, &[0.1, 0.0]), None);
    }
}
