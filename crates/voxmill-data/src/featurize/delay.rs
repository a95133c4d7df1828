//! Delays injected on purpose, to see whether the tools find the cause. They wrap the work from outside: without them,
//! it knows nothing of them.

use std::thread::sleep;
use std::time::{Duration, Instant};

use voxmill_audio::Effort;
use voxmill_pipeline::stage::Work;

/// How much longer each part of the loader takes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct InjectedDelays {
    /// Of each file that is read.
    pub read: Duration,
    /// Of each clip that is resampled, computing.
    pub resample: Duration,
    /// Of each clip's frames, computing.
    pub mel: Duration,
    /// Of one clip in 50, computing.
    pub huge: Duration,
    /// Of one row in 160, asleep: on average there is time enough.
    pub uneven: Duration,
    pub collate: Duration,
    pub transfer: Duration,
    /// Of a step of the model, asleep.
    pub step: Duration,
}

impl InjectedDelays {
    /// What computes a row, with a worker's own count of the clips that it decoded. The time counts as effort of
    /// the part that is to be slow.
    pub(crate) fn of_parts<T>(
        self,
        mut compute: impl FnMut(u64) -> (T, Vec<Effort>),
    ) -> impl FnMut(u64) -> (T, Vec<Effort>) {
        let mut clips: u64 = 0;
        move |row| {
            let (computed, mut efforts) = compute(row);
            for effort in &mut efforts {
                clips += 1;
                let huge = if clips.is_multiple_of(50) { 1 } else { 0 };
                let resample = self.resample + huge * self.huge;
                sleep(self.read);
                compute_for(resample + self.mel);
                effort.read += self.read;
                effort.resample += resample;
                effort.mel += self.mel;
            }
            (computed, efforts)
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

    /// The work, each item of which is delayed as one that is moved to a device slowly.
    pub fn of_transfer<T: 'static, U: 'static>(self, transfer: Work<T, U>) -> Work<T, U> {
        transfer.preceded_by(move |_| sleep(self.transfer))
    }
}

/// Keeps a core busy.
fn compute_for(time: Duration) {
    let began = Instant::now();
    while began.elapsed() < time {
        std::hint::spin_loop();
    }
}
