//! Text → tokens → log-mel frames → waveform with a trained voice.

mod voice;

use std::time::{Duration, Instant};

use voxmill_audio::{AudioSettings, AudioSettingsError, GriffinLim, Vocoder};
use voxmill_text::language::Language;
use voxmill_text::symbols::{self, SymbolTable};
use voxmill_text::{FrontEnd, TextError, sentences};

pub use voice::{Spoken, TrainedVoice};

/// Silence between two sentences.
const PAUSE_SECONDS: f64 = 0.25;

/// Turns text into a waveform: sentence by sentence, with a pause between them.
#[derive(Debug)]
pub struct Synthesizer<'a> {
    front_end: &'a FrontEnd,
    vocoder: Box<dyn Vocoder>,
}

/// A text as a waveform, and what was noticed.
#[derive(Clone, Debug, Default)]
pub struct Speech {
    pub samples: Vec<f32>,
    /// Log-mel of all sentences, one after another.
    pub mel: Vec<f32>,
    /// Characters that were skipped: the front-end cannot read them.
    pub unread: Vec<char>,
    /// Words that were cut, and braces without phones in them.
    pub problems: Vec<String>,
    /// The model alone, without the vocoder.
    pub model_time: Duration,
}

impl<'a> Synthesizer<'a> {
    pub fn new(
        front_end: &'a FrontEnd,
        audio: &AudioSettings,
        iterations: usize,
    ) -> Result<Self, AudioSettingsError> {
        Ok(Self {
            front_end,
            vocoder: Box::new(GriffinLim::new(audio)?.with_iterations(iterations)),
        })
    }

    /// Speaks a text; empty where nothing in it can be read.
    pub fn synthesize(
        &mut self,
        voice: &TrainedVoice,
        text: &str,
        language: Option<Language>,
        style: &[f32],
        rate: f64,
    ) -> Result<Speech, TextError> {
        let audio = &voice.facts().audio;
        let known = voice.facts().symbols.symbols.len();
        let pause = (PAUSE_SECONDS * f64::from(audio.sample_rate) / rate) as usize;
        let mut speech = Speech::default();
        for sentence in sentences(text) {
            let utterance = self.front_end.process(sentence, language)?;
            for sign in utterance.unknown_symbols {
                if !speech.unread.contains(&sign) {
                    speech.unread.push(sign);
                }
            }
            let problems = utterance.problems.iter();
            speech.problems.extend(problems.map(ToString::to_string));
            let mut tokens = utterance.tokens;
            // Symbols that came after this voice was trained.
            tokens.retain(|&id| usize::from(id) < known);
            if !tokens.iter().any(|&id| symbols::is_spoken(id)) {
                continue;
            }
            let begin = Instant::now();
            let spoken = voice.speak(&tokens, utterance.language, style, rate);
            speech.model_time += begin.elapsed();
            if !speech.samples.is_empty() {
                speech.samples.extend(std::iter::repeat_n(0.0, pause));
            }
            let samples = self.vocoder.waveform(&spoken.mel);
            speech.samples.extend(samples);
            speech.mel.extend(spoken.mel);
        }
        Ok(speech)
    }
}

/// Whether a voice's symbols mean the same in this program.
pub fn symbols_fit(voice: &SymbolTable) -> bool {
    voice.is_beginning_of(&SymbolTable::built_in())
}
