//! Samples of the voice while it trains. What cannot be spoken or written costs a warning, not the run.

use std::path::{Path, PathBuf};

use voxmill_audio::{ITERATIONS, wav_bytes};
use voxmill_report::picture::{Mel, mel_png};
use voxmill_report::tensorboard::{EventWriter, Sound};
use voxmill_trainer::synthesis::{Synthesizer, TrainedVoice};
use voxmill_trainer::train::FeedError;

use super::screen::Screen;
use super::tensorboard::{TensorBoard, moment};
use crate::commands::train::sentences::{self, Sentence};
use crate::session::Session;

pub(super) struct Samples<'a> {
    folder: PathBuf,
    sentences: Vec<Sentence>,
    synthesizer: Synthesizer<'a>,
}

impl<'a> Samples<'a> {
    pub(super) fn new(session: &'a Session, folder: PathBuf) -> anyhow::Result<Samples<'a>> {
        let (data, settings) = (&session.data, &session.settings.data);
        Ok(Samples {
            folder,
            sentences: sentences::choose(&data.train, data.held_out(), settings.language),
            synthesizer: Synthesizer::new(&data.recipe.front_end, &settings.audio, ITERATIONS)?,
        })
    }

    /// Writes the sentences as wav files, each with a picture next to it.
    pub(super) fn write(
        &mut self,
        name: &str,
        step: u64,
        voice: &TrainedVoice,
        screen: &Screen,
        tensorboard: &mut TensorBoard,
    ) -> Vec<PathBuf> {
        let mut written = Vec::new();
        for number in 1..=self.sentences.len() {
            match self.speak(number - 1, voice) {
                Ok(None) => {}
                Ok(Some(sample)) => {
                    let path = self.folder.join(format!("{name}-{number}.wav"));
                    match sample.write(&path) {
                        Ok(()) => written.push(path),
                        Err(error) => {
                            screen.warn(&format!("a sample could not be written: {error}"))
                        }
                    }
                    tensorboard.write(screen, |writer| sample.show(writer, step, number));
                }
                Err(error) => screen.warn(&format!("a sample could not be spoken: {error}")),
            }
        }
        tensorboard.write(screen, EventWriter::flush);
        written
    }

    /// `None` where the voice has not met a speaker yet, or nothing in the sentence can be read.
    fn speak(&mut self, number: usize, voice: &TrainedVoice) -> Result<Option<Sample>, FeedError> {
        let (facts, sentence) = (voice.facts(), &self.sentences[number]);
        let named = voice.style_named(&sentence.speaker);
        let Some(style) = named.or_else(|| voice.style_named(&facts.main_speaker)) else {
            return Ok(None);
        };
        let (text, language) = (&sentence.text, sentence.language);
        let speech = self
            .synthesizer
            .synthesize(voice, text, language, style, 1.0)?;
        if speech.samples.is_empty() {
            return Ok(None);
        }
        let sample_rate_hz = facts.audio.sample_rate;
        Ok(Some(Sample {
            wav: wav_bytes(&speech.samples, sample_rate_hz),
            png: mel_png(Mel::new(&speech.mel, facts.vocabulary.mel_channels)),
            sample_rate_hz,
            samples: speech.samples.len() as u64,
        }))
    }
}

struct Sample {
    wav: Vec<u8>,
    png: Vec<u8>,
    sample_rate_hz: u32,
    samples: u64,
}

impl Sample {
    fn write(&self, path: &Path) -> Result<(), FeedError> {
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        write(path, &self.wav)?;
        write(&path.with_extension("png"), &self.png)
    }

    fn show(
        &self,
        writer: &mut EventWriter,
        step: u64,
        number: usize,
    ) -> Result<(), voxmill_report::tensorboard::EventFileError> {
        let sound = Sound {
            wav: &self.wav,
            sample_rate_hz: self.sample_rate_hz,
            samples: self.samples,
        };
        writer.sound(moment(step), &format!("sample/{number}"), sound)?;
        writer.picture(moment(step), &format!("sample/{number} mel"), &self.png)
    }
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), FeedError> {
    std::fs::write(path, bytes)
        .map_err(|error| format!("cannot write {}: {error}", path.display()).into())
}
