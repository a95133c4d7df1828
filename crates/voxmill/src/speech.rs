//! From text to sound with a trained voice: sentence by sentence, with a pause between them.

use std::time::{Duration, Instant};

use voxmill_speech::audio::{AudioSettingsError, Vocoder};
use voxmill_speech::language::Language;
use voxmill_speech::text::symbols::{self, SymbolTable};
use voxmill_speech::text::{FrontEnd, TextError};
use voxmill_trainer::speak::Speaker;

/// Silence between two sentences.
const PAUSE_SECONDS: f64 = 0.25;

/// A sentence longer than this many letters is cut at its clauses: the model has heard nothing
/// longer in one breath.
const LONG: usize = 240;

/// Everything that turns text into sound.
#[derive(Debug)]
pub(crate) struct Mouth<'a> {
    pub(crate) front_end: &'a FrontEnd,
    pub(crate) vocoder: Vocoder,
    pub(crate) iterations: usize,
}

/// A text as sound, and what was noticed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sound {
    pub(crate) samples: Vec<f32>,
    /// Log-mel of all sentences, one after another.
    pub(crate) mel: Vec<f32>,
    /// Characters that nothing was made of.
    pub(crate) not_read: Vec<char>,
    /// What the model took, without the vocoder.
    pub(crate) model_time: Duration,
}

impl<'a> Mouth<'a> {
    pub(crate) fn new(
        front_end: &'a FrontEnd,
        speaker: &Speaker,
        iterations: usize,
    ) -> Result<Self, AudioSettingsError> {
        Ok(Self {
            front_end,
            vocoder: Vocoder::new(&speaker.facts().audio)?,
            iterations,
        })
    }

    /// Says a text; empty sound where there is nothing to say in it.
    pub(crate) fn say(
        &mut self,
        speaker: &Speaker,
        text: &str,
        language: Option<Language>,
        style: &[f32],
        rate: f64,
    ) -> Result<Sound, TextError> {
        let audio = &speaker.facts().audio;
        let known = speaker.facts().symbols.symbols.len();
        let pause = (PAUSE_SECONDS * f64::from(audio.sample_rate) / rate) as usize;
        let mut sound = Sound::default();
        for sentence in sentences(text) {
            let utterance = self.front_end.process(sentence, language)?;
            for sign in utterance.unknown_symbols {
                if !sound.not_read.contains(&sign) {
                    sound.not_read.push(sign);
                }
            }
            let mut tokens = utterance.tokens;
            // Symbols that came after this voice was trained.
            tokens.retain(|&id| usize::from(id) < known);
            if !tokens.iter().any(|&id| symbols::is_spoken(id)) {
                continue;
            }
            let begin = Instant::now();
            let spoken = speaker.speak(&tokens, utterance.language, style, rate);
            sound.model_time += begin.elapsed();
            if !sound.samples.is_empty() {
                sound.samples.extend(std::iter::repeat_n(0.0, pause));
            }
            let samples = self.vocoder.waveform(&spoken.mel, self.iterations);
            sound.samples.extend(samples);
            sound.mel.extend(spoken.mel);
        }
        Ok(sound)
    }
}

/// Whether a voice's symbols mean the same in this program.
pub(crate) fn symbols_fit(voice: &SymbolTable) -> bool {
    voice.is_beginning_of(&SymbolTable::built_in())
}

/// A long text cut at the ends of its sentences, and where they are still too long, at clauses.
pub(crate) fn sentences(text: &str) -> Vec<&str> {
    let mut all = Vec::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        for sentence in cut(line, &['.', '!', '?', '؟', '…', '。'], 0) {
            if sentence.chars().count() <= LONG {
                all.push(sentence);
            } else {
                all.extend(cut(sentence, &[',', ';', ':', '،', '؛', '—'], LONG / 3));
            }
        }
    }
    all
}

/// Cuts behind the marks that a space follows, where the part before has at least so many letters.
/// A mark behind a single letter or a known short word is no end (`Mr. B. Smith`).
fn cut<'a>(text: &'a str, marks: &[char], least: usize) -> Vec<&'a str> {
    let mut parts = Vec::new();
    let mut begin = 0;
    let mut letters = text.char_indices().peekable();
    while let Some((at, letter)) = letters.next() {
        let end = at + letter.len_utf8();
        let followed = letters.peek().is_none_or(|(_, next)| next.is_whitespace());
        if !marks.contains(&letter) || !followed {
            continue;
        }
        let part = text[begin..end].trim();
        let word = part
            .trim_end_matches(letter)
            .rsplit(char::is_whitespace)
            .next()
            .unwrap_or("");
        let abbreviated = letter == '.' && is_abbreviation(word);
        if !abbreviated && part.chars().count() >= least.max(1) {
            parts.push(part);
            begin = end;
        }
    }
    let rest = text[begin..].trim();
    if !rest.is_empty() {
        parts.push(rest);
    }
    parts
}

fn is_abbreviation(word: &str) -> bool {
    const SHORT: [&str; 12] = [
        "mr", "mrs", "ms", "dr", "prof", "st", "vs", "etc", "no", "jr", "sr", "capt",
    ];
    word.chars().count() == 1 && word.chars().all(char::is_alphabetic)
        || SHORT.contains(&word.to_lowercase().as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cut_at_sentences_in_both_scripts() {
        assert_eq!(
            sentences("Hello there. How are you?\nFine!"),
            ["Hello there.", "How are you?", "Fine!"]
        );
        assert_eq!(
            sentences("سلام. حال شما چطور است؟ خوبم"),
            ["سلام.", "حال شما چطور است؟", "خوبم"]
        );
    }

    #[test]
    fn a_mark_inside_a_number_or_behind_a_title_is_no_end() {
        assert_eq!(
            sentences("Mr. B. Smith paid 3.50 pounds."),
            ["Mr. B. Smith paid 3.50 pounds."]
        );
    }

    #[test]
    fn a_sentence_that_is_too_long_is_cut_at_its_clauses() {
        let long = "one two three four five six seven eight nine ten, ".repeat(10);
        let parts = sentences(&long);
        assert!(parts.len() > 2);
        assert!(parts.iter().all(|part| part.chars().count() <= LONG));
        assert_eq!(parts.join(" "), long.trim());
    }

    #[test]
    fn nothing_comes_of_nothing() {
        assert!(sentences(" \n\t\n").is_empty());
    }
}
