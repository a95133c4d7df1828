//! Text → tokens → log-mel frames → waveform with a trained voice.

mod voice;

use std::time::{Duration, Instant};

use voxmill_audio::{
    AudioError, AudioSettings, AudioSettingsError, GriffinLim, Vocoder, normalize_loudness,
};
use voxmill_text::language::Language;
use voxmill_text::symbols::{self, SymbolTable};
use voxmill_text::{FrontEnd, TextError, cut_long_words, sentences};

pub use voice::{SpokenMel, TrainedVoice};

/// Between two sentences.
const PAUSE_SECONDS: f64 = 0.25;

/// Turns text into a waveform: sentence by sentence, with a pause between them.
#[derive(Debug)]
pub struct Synthesizer<'a> {
    front_end: &'a FrontEnd,
    vocoder: Box<dyn Vocoder>,
}

/// A text as the voice's tokens, and what was noticed.
#[derive(Clone, Debug, Default)]
pub struct Reading {
    /// Only those in which something can be spoken.
    pub sentences: Vec<ReadSentence>,
    /// Characters that were skipped: the front-end cannot read them.
    pub unread: Vec<char>,
    /// Words that were cut, and braces without phones in them.
    pub problems: Vec<String>,
}

/// A sentence as the model is given it.
#[derive(Clone, Debug)]
pub struct ReadSentence {
    pub tokens: Vec<u16>,
    pub language: Language,
}

/// A text as a waveform.
#[derive(Clone, Debug, Default)]
pub struct Speech {
    pub samples: Vec<f32>,
    /// Log-mel of all sentences, one after another, with the pauses between them.
    pub mel: Vec<f32>,
    /// The model alone, without the vocoder.
    pub model_time: Duration,
}

/// Why a text could not be spoken.
#[derive(Debug, thiserror::Error)]
pub enum SpeakError {
    #[error("the voice makes no sound: {0} is no log-mel value of speech")]
    NoSound(f32),
    #[error(transparent)]
    Loudness(#[from] AudioError),
}

/// Log-mel values of the loudest recordings are below 10; far above them the vocoder overflows into silence.
const LOUDEST_MEL: f32 = 20.0;

impl<'a> Synthesizer<'a> {
    /// `iterations` of the vocoder: more sound better and take longer.
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

    /// What a voice would speak of a text; no sentences where nothing in it can be read.
    pub fn read(
        &self,
        voice: &TrainedVoice,
        text: &str,
        language: Option<Language>,
    ) -> Result<Reading, TextError> {
        let known = voice.facts().symbols.symbols.len();
        let mut reading = Reading::default();
        // Before sentences: they would make many short words of a long one.
        let (text, long_words) = cut_long_words(text);
        reading
            .problems
            .extend(long_words.iter().map(ToString::to_string));
        for sentence in sentences(&text) {
            let utterance = self.front_end.process(sentence, language)?;
            for sign in utterance.unknown_symbols {
                if !reading.unread.contains(&sign) {
                    reading.unread.push(sign);
                }
            }
            let problems = utterance.problems.iter();
            reading.problems.extend(problems.map(ToString::to_string));
            let mut tokens = utterance.tokens;
            // Symbols that came after this voice was trained.
            tokens.retain(|&id| usize::from(id) < known);
            if tokens.iter().any(|&id| symbols::is_spoken(id)) {
                let language = utterance.language;
                reading.sentences.push(ReadSentence { tokens, language });
            }
        }
        Ok(reading)
    }

    /// Speaks sentences, each in the style for its language; `rate` above 1 is faster. `spoken` hears of each
    /// sentence that is done. The whole is as loud as the recordings that the voice learnt from.
    pub fn speak<'s>(
        &mut self,
        voice: &TrainedVoice,
        sentences: &[ReadSentence],
        style: impl Fn(Language) -> &'s [f32],
        rate: f64,
        mut spoken: impl FnMut(),
    ) -> Result<Speech, SpeakError> {
        let facts = voice.facts();
        let pause = Pause::of(voice, rate);
        let mut speech = Speech::default();
        for (number, sentence) in sentences.iter().enumerate() {
            let begin = Instant::now();
            let style = style(sentence.language);
            let mut mel = voice
                .speak(&sentence.tokens, sentence.language, style, rate)
                .mel;
            speech.model_time += begin.elapsed();
            let is_sound = |value: &f32| value.abs() <= LOUDEST_MEL;
            if let Some(value) = mel.iter().find(|value| !is_sound(value)) {
                return Err(SpeakError::NoSound(*value));
            }
            let is_last = number + 1 == sentences.len();
            if !is_last {
                mel.extend(&pause.frames);
            }
            speech.samples.extend(self.vocoder.waveform(&mel));
            if !is_last {
                let silence = std::iter::repeat_n(0.0, pause.silent_samples);
                speech.samples.extend(silence);
            }
            speech.mel.extend(mel);
            spoken();
        }
        if let Some(recordings) = &facts.recordings {
            let (rate, lufs) = (facts.audio.sample_rate, recordings.loudness_lufs);
            normalize_loudness(&mut speech.samples, rate, lufs)?;
        }
        Ok(speech)
    }
}

/// What comes between two sentences: the noise of the recordings, or silence where a voice does not know it.
struct Pause {
    frames: Vec<f32>,
    silent_samples: usize,
}

impl Pause {
    fn of(voice: &TrainedVoice, rate: f64) -> Self {
        let facts = voice.facts();
        let samples = PAUSE_SECONDS * f64::from(facts.audio.sample_rate) / rate;
        let frames = (samples / facts.audio.hop_length as f64).round() as usize;
        match &facts.recordings {
            Some(recordings) => Self {
                frames: recordings.pause.repeat(frames),
                silent_samples: 0,
            },
            None => Self {
                frames: Vec::new(),
                silent_samples: samples as usize,
            },
        }
    }
}

/// Whether a voice's symbols mean the same in this program.
pub fn symbols_fit(voice: &SymbolTable) -> bool {
    voice.is_beginning_of(&SymbolTable::built_in())
}
