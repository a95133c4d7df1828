//! Makes the audio half of clips, and knows what each part of that took.

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use voxmill_speech::audio::{self, AudioError, AudioSettings, AudioSettingsError, Featurizer};
use voxmill_speech::cache::AudioStamp;
use voxmill_speech::features::AudioFeatures;

/// What the audio of one clip took, part by part.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Effort {
    /// From the disk, or from what the system keeps of it in memory.
    pub(crate) read: Duration,
    pub(crate) made: audio::Effort,
}

impl Effort {
    /// The parts by the names that they have in a log, in their order.
    pub(crate) fn parts(&self) -> [(&'static str, Duration); 4] {
        [
            ("read", self.read),
            ("decode", self.made.decode),
            ("resample", self.made.resample),
            ("mel", self.made.mel),
        ]
    }
}

/// Slows parts of the road down on purpose, so that one can see whether the tools find the cause.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Hindrance {
    /// Each file is read for so much longer.
    pub(crate) read: Duration,
    /// Each clip that is made is resampled for so much longer, computing.
    pub(crate) resample: Duration,
    /// Its frames take so much longer, computing.
    pub(crate) mel: Duration,
    /// One clip in 50 takes so much longer, computing.
    pub(crate) huge: Duration,
    /// One row in 160 takes so much longer, asleep: on average there is time enough.
    pub(crate) uneven: Duration,
    pub(crate) collate: Duration,
    pub(crate) transfer: Duration,
    /// The model takes so much longer, asleep.
    pub(crate) step: Duration,
}

/// One clip at a time; each worker has its own.
#[derive(Debug)]
pub(crate) struct Maker {
    featurizer: Featurizer,
    hindrance: Hindrance,
    effort: Effort,
    clips: u64,
}

impl Maker {
    pub(crate) fn new(audio: &AudioSettings) -> Result<Maker, AudioSettingsError> {
        Ok(Maker {
            featurizer: Featurizer::new(audio)?,
            hindrance: Hindrance::default(),
            effort: Effort::default(),
            clips: 0,
        })
    }

    pub(crate) fn hindered(self, hindrance: Hindrance) -> Maker {
        Maker { hindrance, ..self }
    }

    /// What the last clip took.
    pub(crate) fn effort(&self) -> Effort {
        self.effort
    }

    /// Makes a clip's features for what it takes; they are thrown away.
    pub(crate) fn try_out(&mut self, path: &Path) -> Result<Effort, AudioError> {
        self.stamp(path)?;
        self.featurize(path)?;
        Ok(self.effort)
    }

    /// Reads the whole file.
    pub(super) fn stamp(&mut self, path: &Path) -> io::Result<AudioStamp> {
        let began = Instant::now();
        std::thread::sleep(self.hindrance.read);
        let stamp = AudioStamp::with_content(path);
        self.effort.read = began.elapsed();
        stamp
    }

    /// After [`Maker::stamp`], so the file is in memory by now.
    pub(super) fn featurize(&mut self, path: &Path) -> Result<AudioFeatures, AudioError> {
        let features = self.featurizer.featurize(path);
        self.count();
        features
    }

    pub(super) fn waveform(&mut self, path: &Path) -> Result<Vec<f32>, AudioError> {
        self.effort.read = self.hindrance.read;
        std::thread::sleep(self.hindrance.read);
        let samples = self.featurizer.waveform(path);
        self.count();
        samples
    }

    fn count(&mut self) {
        self.effort.made = self.featurizer.effort();
        self.clips += 1;
        let mut resample = self.hindrance.resample;
        if self.clips.is_multiple_of(50) {
            resample += self.hindrance.huge;
        }
        compute_for(resample + self.hindrance.mel);
        self.effort.made.resample += resample;
        self.effort.made.mel += self.hindrance.mel;
    }
}

/// Keeps a core busy.
pub(crate) fn compute_for(time: Duration) {
    let began = Instant::now();
    while began.elapsed() < time {
        std::hint::spin_loop();
    }
}
