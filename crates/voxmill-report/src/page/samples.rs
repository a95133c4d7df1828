//! What the voice said: sound, mel and text, as they lie in the run's folder.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::markup::Html;
use super::{MOST_BYTES, Part, section};
use crate::format::count;

/// Bytes that everything else takes at most, except for single steps.
const EVERYTHING_ELSE: usize = 550_000;
/// Of one step, encoded.
const A_STEP: usize = 11;

/// How many bytes of sounds and pictures a page has room for.
pub fn room(runs: usize, steps: usize) -> u64 {
    let taken = runs * EVERYTHING_ELSE + steps * A_STEP;
    let encoded = MOST_BYTES.saturating_sub(taken);
    // Four characters for three bytes.
    (encoded / 4 * 3) as u64
}

/// Those that are embedded.
#[derive(Clone, Debug, Default)]
pub struct Samples {
    pub spoken: Vec<Sample>,
    /// Of the model on a held-out clip: the mel next to the recording's, and the alignment.
    pub held_out: Option<Vec<u8>>,
    pub alignment: Option<Vec<u8>>,
    /// Files for which there was no room.
    pub left_out: u64,
}

/// A sentence that the voice spoke.
#[derive(Clone, Debug, Default)]
pub struct Sample {
    /// As its file is named, such as `final-1`.
    pub name: String,
    pub text: Option<String>,
    pub wav: Vec<u8>,
    pub mel: Option<Vec<u8>>,
    /// How somebody said it.
    pub recording: Option<Vec<u8>>,
}

impl Samples {
    /// Whether there is nothing to hear or to see.
    pub fn is_empty(&self) -> bool {
        self.spoken.is_empty() && self.left_out == 0
    }
}

pub(super) fn part(page: &mut Html, part: &Part<'_>) {
    let (words, samples) = (part.words, &part.run.samples);
    let pictures = [
        (&samples.held_out, words.held_out_picture),
        (&samples.alignment, words.alignment_picture),
    ];
    let has_pictures = pictures.iter().any(|(picture, _)| picture.is_some());
    if samples.is_empty() && !has_pictures {
        return;
    }
    section(page, words.samples, |section| {
        section.words("p", &[("class", "note")], words.samples_note);
        for sample in &samples.spoken {
            section.element("div", &[("class", "sample")], |item| {
                one(item, sample, part)
            });
        }
        for (png, what) in pictures {
            if let Some(png) = png {
                section.element("figure", &[("class", "picture")], |figure| {
                    figure.words("figcaption", &[], what);
                    image(figure, png, what);
                });
            }
        }
        if samples.left_out > 0 {
            let text = format!("{} {}", count(samples.left_out), words.left_out);
            section.words("p", &[("class", "warn")], &text);
        }
    });
}

fn one(item: &mut Html, sample: &Sample, part: &Part<'_>) {
    let words = part.words;
    item.words("h3", &[], &sample.name);
    if let Some(text) = &sample.text {
        item.words("blockquote", &[("dir", "auto")], text.trim());
    }
    let mut sound = |name: &str, wav: &[u8]| {
        item.element("p", &[("class", "sound")], |line| {
            line.words("span", &[], name);
            let source = format!("data:audio/wav;base64,{}", STANDARD.encode(wav));
            let label = format!("{name}: {}", sample.name);
            let attributes = [
                ("controls", ""),
                ("preload", "metadata"),
                ("aria-label", &*label),
                ("src", &source),
            ];
            line.element("audio", &attributes, |_| {});
        });
    };
    sound(words.sample_of, &sample.wav);
    if let Some(recording) = &sample.recording {
        sound(words.recording, recording);
    }
    if let Some(png) = &sample.mel {
        image(item, png, &format!("{} {}", words.mel_picture, sample.name));
    }
}

fn image(page: &mut Html, png: &[u8], what: &str) {
    let source = format!("data:image/png;base64,{}", STANDARD.encode(png));
    page.empty("img", &[("alt", what), ("src", &source)]);
}
