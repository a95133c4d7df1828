//! The voice as it is heard while it trains.

use std::path::{Path, PathBuf};

use voxmill_report::picture::{Mel, mel_png};
use voxmill_report::tensorboard::{EventWriter, Sound as SoundEvent};
use voxmill_speech::audio::wav_bytes;
use voxmill_trainer::speak::Speaker;
use voxmill_trainer::train::FeedError;

use super::{Watching, moment};
use crate::commands::train::sentences::Sentence;

impl Watching<'_> {
    /// Says the sentences into wav files with a picture beside each. What cannot be said or written
    /// costs a warning, not the run.
    pub(in crate::commands::train) fn say_samples(
        &mut self,
        name: &str,
        step: Option<u64>,
        speaker: &Speaker,
    ) -> Vec<PathBuf> {
        let mut written = Vec::new();
        for (number, sentence) in self.sentences.iter().enumerate() {
            match self.say_sample(name, number + 1, step, sentence, speaker) {
                Ok(path) => written.extend(path),
                Err(error) => self.warn(&format!("a sample could not be made: {error}")),
            }
        }
        self.for_tensorboard(EventWriter::flush);
        self.sums.samples.clone_from(&written);
        written
    }

    fn say_sample(
        &mut self,
        name: &str,
        number: usize,
        step: Option<u64>,
        sentence: &Sentence,
        speaker: &Speaker,
    ) -> Result<Option<PathBuf>, FeedError> {
        let facts = speaker.facts();
        let named = speaker.style_named(&sentence.speaker);
        let style = named.or_else(|| speaker.style_named(&facts.main_speaker));
        let Some(style) = style.map(<[f32]>::to_vec) else {
            return Ok(None);
        };
        let sound = self
            .mouth
            .say(speaker, &sentence.text, sentence.language, &style, 1.0)?;
        if sound.samples.is_empty() {
            return Ok(None);
        }
        std::fs::create_dir_all(&self.samples)?;
        let rate = facts.audio.sample_rate;
        let wav = wav_bytes(&sound.samples, rate);
        let png = mel_png(Mel::new(&sound.mel, facts.vocabulary.mel_channels));
        let path = self.samples.join(format!("{name}-{number}.wav"));
        write(&path, &wav)?;
        write(&path.with_extension("png"), &png)?;
        if let Some(step) = step {
            self.for_tensorboard(|writer| {
                let event = SoundEvent {
                    wav: &wav,
                    sample_rate_hz: rate,
                    samples: sound.samples.len() as u64,
                };
                writer.sound(moment(step), &format!("sample/{number}"), event)?;
                writer.picture(moment(step), &format!("sample/{number} mel"), &png)
            });
        }
        Ok(Some(path))
    }
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), FeedError> {
    std::fs::write(path, bytes)
        .map_err(|error| format!("cannot write {}: {error}", path.display()).into())
}
