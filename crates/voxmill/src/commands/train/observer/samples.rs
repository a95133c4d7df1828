//! Samples of the voice while it trains. What cannot be spoken or written costs a warning, not the run.

use std::path::{Path, PathBuf};

use voxmill_audio::{Featurizer, ITERATIONS, wav_bytes};
use voxmill_report::picture::{Labels, Mel, alignment_png, labelled_mel_png, two_mels_png};
use voxmill_report::tensorboard::{EventWriter, WavFile};
use voxmill_trainer::synthesis::{Synthesizer, TrainedVoice};
use voxmill_trainer::train::{FeedError, Shown};

use super::screen::Screen;
use super::tensorboard::{TensorBoard, moment};
use crate::interrupt;
use crate::session::Session;
use crate::session::report_page::{ALIGNMENT, HELD_OUT};
use voxmill_settings::sentences::{self, Sentence};

pub(super) struct Samples<'a> {
    folder: PathBuf,
    sentences: Vec<Sentence>,
    synthesizer: Synthesizer<'a>,
    frame_seconds: f64,
    /// Whether the recordings and texts are there to compare with.
    has_recordings: bool,
}

impl<'a> Samples<'a> {
    pub(super) fn new(session: &'a Session, folder: PathBuf) -> anyhow::Result<Samples<'a>> {
        let (data, settings) = (&session.data, &session.settings.data);
        let language = settings.language;
        let sentences = match &session.settings.sample_text {
            Some(file) => sentences::read(file, language)?,
            None => sentences::choose(&data.train, data.held_out(), language),
        };
        Ok(Samples {
            folder,
            sentences,
            has_recordings: false,
            frame_seconds: settings.audio.hop_length as f64 / f64::from(settings.audio.sample_rate),
            synthesizer: Synthesizer::new(&data.recipe.front_end, &settings.audio, ITERATIONS)?,
        })
    }

    /// Writes the sentences as wav files, each with a picture and its text next to it. Whoever asks to stop waits for no
    /// more than one of them.
    pub(super) fn write(
        &mut self,
        name: &str,
        step: u64,
        voice: &TrainedVoice,
        screen: &Screen,
        tensorboard: &mut TensorBoard,
    ) -> Written {
        self.write_recordings(step, voice, screen, tensorboard);
        let mut written = Vec::new();
        let mut left_out = false;
        for number in 1..=self.sentences.len() {
            left_out = number > 1 && interrupt::is_asked_to_stop();
            if left_out {
                break;
            }
            match self.speak(number - 1, step, voice) {
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
        Written {
            paths: written,
            left_out,
        }
    }

    /// A held-out clip, and as the model makes it now.
    pub(super) fn held_out_png(&self, step: u64, shown: &Shown) -> Vec<u8> {
        let real = Mel::new(&shown.real, shown.channels);
        let made = Mel::new(&shown.made, shown.channels);
        let labels = Labels {
            title: &format!("step {step}, held out: recording above, model below"),
            frame_seconds: self.frame_seconds,
        };
        two_mels_png(real, made, labels)
    }

    /// The same and its alignment, for the report: the last ones stay.
    pub(super) fn show_held_out(&self, png: &[u8], shown: &Shown, screen: &Screen) {
        let pictures = [
            (HELD_OUT, png),
            (ALIGNMENT, &alignment_png(&shown.durations)),
        ];
        let written = || -> Result<(), FeedError> {
            std::fs::create_dir_all(&self.folder)?;
            let mut pictures = pictures.iter();
            pictures.try_for_each(|(name, png)| write(&self.folder.join(name), png))
        };
        if let Err(error) = written() {
            screen.warn(&format!(
                "a picture of a held-out clip could not be written: {error}"
            ));
        }
    }

    /// Once: how somebody really says the sentences, as `recording-1.wav`, and their texts for TensorBoard.
    fn write_recordings(
        &mut self,
        step: u64,
        voice: &TrainedVoice,
        screen: &Screen,
        tensorboard: &mut TensorBoard,
    ) {
        if std::mem::replace(&mut self.has_recordings, true) {
            return;
        }
        for (number, sentence) in (1..).zip(&self.sentences) {
            if number > 1 && interrupt::is_asked_to_stop() {
                break;
            }
            let (tag, text) = (format!("sample/{number}"), &sentence.text);
            tensorboard.write(screen, |writer| writer.text(moment(step), &tag, text));
            let Some(recording) = &sentence.recording else {
                continue;
            };
            let audio = &voice.facts().audio;
            let written = || -> Result<(Vec<u8>, u64), FeedError> {
                let samples = Featurizer::new(audio)?.waveform(recording)?;
                let wav = wav_bytes(&samples, audio.sample_rate);
                std::fs::create_dir_all(&self.folder)?;
                let path = self.folder.join(format!("recording-{number}.wav"));
                write(&path, &wav)?;
                write(&path.with_extension("txt"), format!("{text}\n").as_bytes())?;
                Ok((wav, samples.len() as u64))
            };
            match written() {
                Ok((wav, samples)) => tensorboard.write(screen, |writer| {
                    let sound = WavFile {
                        wav: &wav,
                        sample_rate_hz: audio.sample_rate,
                        samples,
                    };
                    writer.sound(moment(step), &format!("{tag} recording"), sound)
                }),
                Err(error) => screen.warn(&format!("a recording could not be copied: {error}")),
            }
        }
    }

    /// `None` where the voice has not met a speaker yet, or nothing in the sentence can be read.
    fn speak(
        &mut self,
        number: usize,
        step: u64,
        voice: &TrainedVoice,
    ) -> Result<Option<Sample>, FeedError> {
        let (facts, sentence) = (voice.facts(), &self.sentences[number]);
        let (text, language) = (&sentence.text, sentence.language);
        let reading = self.synthesizer.read(voice, text, language)?;
        let first = reading.sentences.first();
        let of_language = || facts.languages.get(first?.language.code());
        let speaker = sentence.speaker.as_ref().or_else(of_language);
        let named = speaker.and_then(|name| voice.style_named(name));
        let Some(style) = named.or_else(|| voice.style_named(&facts.main_speaker)) else {
            return Ok(None);
        };
        let speech = self
            .synthesizer
            .speak(voice, &reading.sentences, |_| style, 1.0, || {})?;
        if speech.samples.is_empty() {
            return Ok(None);
        }
        let sample_rate_hz = facts.audio.sample_rate;
        let labels = Labels {
            title: &format!("step {step}: {text}"),
            frame_seconds: self.frame_seconds,
        };
        Ok(Some(Sample {
            text: format!("{text}\n"),
            wav: wav_bytes(&speech.samples, sample_rate_hz),
            png: labelled_mel_png(Mel::new(&speech.mel, facts.vocabulary.mel_channels), labels),
            sample_rate_hz,
            samples: speech.samples.len() as u64,
        }))
    }
}

/// The sentences that were spoken.
pub(super) struct Written {
    pub(super) paths: Vec<PathBuf>,
    /// Some were not, because somebody asked to stop.
    pub(super) left_out: bool,
}

struct Sample {
    text: String,
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
        write(&path.with_extension("txt"), self.text.as_bytes())?;
        write(&path.with_extension("png"), &self.png)
    }

    fn show(
        &self,
        writer: &mut EventWriter,
        step: u64,
        number: usize,
    ) -> Result<(), voxmill_report::tensorboard::EventFileError> {
        let sound = WavFile {
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
