//! Delays injected on purpose, to see whether the tools find the cause. They wrap the work from outside:
//! a loader without them runs none of this.

use std::io;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use voxmill_audio::{AudioError, Effort};
use voxmill_pipeline::stage::Work;

use super::clip::{AudioFeaturizer, ClipFeaturizer};
use crate::cache::AudioStamp;
use crate::features::AudioFeatures;

/// Slows parts of the loader down on purpose, so that one can see whether the tools find the cause.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct InjectedDelays {
    /// Each file is read for so much longer.
    pub read: Duration,
    /// Each clip that is made is resampled for so much longer, computing.
    pub resample: Duration,
    /// Its frames take so much longer, computing.
    pub mel: Duration,
    /// One clip in 50 takes so much longer, computing.
    pub huge: Duration,
    /// One row in 160 takes so much longer, asleep: on average there is time enough.
    pub uneven: Duration,
    pub collate: Duration,
    pub transfer: Duration,
    /// The model takes so much longer, asleep.
    pub step: Duration,
}

impl InjectedDelays {
    pub(crate) fn of_featurizer(self, plain: ClipFeaturizer) -> impl AudioFeaturizer + Send {
        Delayed {
            plain,
            delays: self,
            added: Effort::default(),
            clips: 0,
        }
    }

    pub(crate) fn of_rows<T: 'static>(self, featurize: Work<u64, T>) -> Work<u64, T> {
        featurize.preceded_by(move |row| {
            if row.is_multiple_of(160) {
                sleep(self.uneven);
            }
        })
    }

    pub(crate) fn of_collate<T: 'static, U: 'static>(self, collate: Work<T, U>) -> Work<T, U> {
        collate.preceded_by(move |_| compute_for(self.collate))
    }

    pub fn of_transfer<T: 'static, U: 'static>(self, transfer: Work<T, U>) -> Work<T, U> {
        transfer.preceded_by(move |_| sleep(self.transfer))
    }
}

/// Takes longer than it must, and counts that as effort of the part that is to be slow.
struct Delayed {
    plain: ClipFeaturizer,
    delays: InjectedDelays,
    /// To the last clip.
    added: Effort,
    clips: u64,
}

impl Delayed {
    fn read(&mut self) {
        sleep(self.delays.read);
        self.added.read = self.delays.read;
    }

    fn compute(&mut self) {
        self.clips += 1;
        let huge = self.clips.is_multiple_of(50);
        let added = &mut self.added;
        added.resample = self.delays.resample;
        added.resample += if huge {
            self.delays.huge
        } else {
            Duration::ZERO
        };
        added.mel = self.delays.mel;
        compute_for(added.resample + added.mel);
    }
}

impl AudioFeaturizer for Delayed {
    fn stamp(&mut self, path: &Path) -> io::Result<AudioStamp> {
        self.read();
        self.plain.stamp(path)
    }

    fn featurize(&mut self, path: &Path) -> Result<AudioFeatures, AudioError> {
        let features = self.plain.featurize(path);
        self.compute();
        features
    }

    fn waveform(&mut self, path: &Path) -> Result<Vec<f32>, AudioError> {
        self.read();
        let samples = self.plain.waveform(path);
        self.compute();
        samples
    }

    fn effort(&self) -> Effort {
        let mut effort = self.plain.effort();
        effort.read += self.added.read;
        effort.resample += self.added.resample;
        effort.mel += self.added.mel;
        effort
    }
}

/// Keeps a core busy.
fn compute_for(time: Duration) {
    let began = Instant::now();
    while began.elapsed() < time {
        std::hint::spin_loop();
    }
}
