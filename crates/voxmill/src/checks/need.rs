//! How much memory a run takes of its devices, and what would fit.

use voxmill_speech::batch_plan::{BatchPlan, Shape};
use voxmill_speech::text::symbols::SymbolTable;
use voxmill_trainer::checkpoint::PrepareOn;
use voxmill_trainer::device::Precision;
use voxmill_trainer::model::Vocabulary;
use voxmill_trainer::need::{ModelNeed, Recompute, StepForm, prepare_need};
use voxmill_trainer::prepare::LANGUAGES;

use crate::settings::TrainSettings;

/// What the run needs, by the sums of [`voxmill_trainer::need`].
#[derive(Clone, Debug)]
pub(crate) struct Needs {
    pub(crate) model: ModelNeed,
    /// Batches on the model device, the one in training included.
    pub(crate) slots: usize,
    pub(crate) data: u64,
    /// The batch that needs the most.
    pub(crate) largest: Shape,
}

impl Needs {
    pub(crate) fn of(settings: &TrainSettings, precision: Precision, plan: &BatchPlan) -> Needs {
        let by_hand = settings.devices.devices.model().is_cpu();
        let form = StepForm {
            shape: settings.model_size.of_model().shape(),
            parameters: parameters(settings),
            mel_channels: settings.data.audio.n_mels,
            reference_frames: plan.settings().reference_frames.get() as usize,
            recompute: match (settings.gradient_checkpointing, by_hand) {
                (false, _) => Recompute::Nothing,
                (true, true) => Recompute::Blocks,
                (true, false) => Recompute::Cheap,
            },
            precision,
        };
        let shapes = plan.buckets().iter().map(|bucket| bucket.shape);
        let slots = settings.feeding.device_slots + 1;
        let all = shapes.clone().map(|shape| (form.need(shape), shape));
        let largest = all.max_by_key(|(need, _)| need.with_slots(slots));
        let audio = &settings.data.audio;
        let made = settings.devices.prepare_on != PrepareOn::Host;
        let frames = made.then(|| (audio.n_fft, audio.n_fft / 2 + 1));
        let preparing =
            |shape| prepare_need(shape, form.reference_frames, form.mel_channels, frames);
        let preparing = shapes.map(preparing).max().unwrap_or(0);
        // Where one device does both, it needs room for both.
        let apart =
            settings.devices.devices.is_pair() && settings.devices.prepare_on != PrepareOn::Model;
        let (on_model, data) = match apart {
            true => (0, preparing),
            false => (preparing, 0),
        };
        let nothing = Shape {
            rows: 0,
            frames: 0,
            tokens: 0,
        };
        let (mut model, largest) = largest.unwrap_or((form.need(nothing), nothing));
        model.activations += on_model;
        Needs {
            model,
            slots,
            data,
            largest,
        }
    }

    /// Fewer batches ahead where that makes the run fit: a slot is the cheapest thing to give up.
    pub(crate) fn drop_slots(&mut self, limit: u64, asked: usize, is_pair: bool) {
        let least = if is_pair {
            LEAST_OF_A_PAIR
        } else {
            LEAST_SLOTS
        };
        let fits = |slots: usize| self.model.with_slots(slots + 1) <= limit;
        if let Some(slots) = (least..=asked).rev().find(|&slots| fits(slots)) {
            self.slots = slots + 1;
        }
    }

    /// Batches ahead of the one in training.
    pub(crate) fn slots_ahead(&self) -> usize {
        self.slots - 1
    }

    pub(crate) fn on_model(&self) -> u64 {
        self.model.with_slots(self.slots)
    }

    /// The largest `batch_size` below the present one with which the model device needs no more.
    pub(crate) fn fitting_on_model(&self, settings: &TrainSettings, limit: u64) -> Option<Smaller> {
        let ModelNeed {
            weights,
            activations,
            batch,
        } = self.model;
        smaller(settings, |share| {
            weights + scaled(activations, share) + scaled(batch, share) * self.slots as u64 <= limit
        })
    }

    /// The same for the data device.
    pub(crate) fn fitting_on_data(&self, settings: &TrainSettings, limit: u64) -> Option<Smaller> {
        smaller(settings, |share| scaled(self.data, share) <= limit)
    }
}

/// One being prepared, one ready; with two devices one more.
const LEAST_SLOTS: usize = 2;
const LEAST_OF_A_PAIR: usize = 3;

/// How many weights the model has.
pub(crate) fn parameters(settings: &TrainSettings) -> usize {
    let vocabulary = Vocabulary {
        tokens: SymbolTable::built_in().symbols.len(),
        languages: LANGUAGES,
        mel_channels: settings.data.audio.n_mels,
    };
    settings
        .model_size
        .of_model()
        .shape()
        .parameters(vocabulary)
}

/// Smaller batches, more of them a step: the model learns from as many clips.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Smaller {
    pub(crate) batch_size: u32,
    pub(crate) accumulate: u64,
    pub(crate) clips_a_step: u64,
}

fn smaller(settings: &TrainSettings, fits: impl Fn(f64) -> bool) -> Option<Smaller> {
    let size = settings.data.batches.batch_size.get();
    let accumulate = u64::from(settings.optimization.gradient_accumulation_steps.get());
    let fitting = |&n: &u32| fits(f64::from(n) / f64::from(size));
    let batch_size = (1..size).rev().find(fitting)?;
    Some(Smaller {
        batch_size,
        accumulate: u64::from(size).div_ceil(u64::from(batch_size)) * accumulate,
        clips_a_step: u64::from(size) * accumulate,
    })
}

fn scaled(bytes: u64, share: f64) -> u64 {
    (bytes as f64 * share).ceil() as u64
}

#[cfg(test)]
mod tests {
    use super::super::tests::Machine;
    use super::*;
    use voxmill_trainer::device;
    use voxmill_trainer::model::{ModelSize, Voice};

    #[test]
    fn weights_are_counted_as_the_model_has_them() {
        for size in [ModelSize::Nano, ModelSize::Tiny] {
            let vocabulary = Vocabulary {
                tokens: 100,
                languages: 3,
                mel_channels: 80,
            };
            let voice = Voice::new(&size.shape(), vocabulary, 0, &device::cpu());
            assert_eq!(voice.parameters(), size.shape().parameters(vocabulary));
        }
    }

    #[test]
    fn slots_are_given_up_before_the_run_is() {
        let needs = |slots| Needs {
            model: ModelNeed {
                weights: 100,
                activations: 100,
                batch: 10,
            },
            slots,
            data: 0,
            largest: Shape {
                rows: 1,
                frames: 1,
                tokens: 1,
            },
        };
        let left = |limit, is_pair| {
            let mut needs = needs(9);
            needs.drop_slots(limit, 8, is_pair);
            needs.slots_ahead()
        };
        assert_eq!(left(290, false), 8);
        assert_eq!(left(250, false), 4);
        assert_eq!(left(230, false), 2);
        assert_eq!(
            left(230, true),
            8,
            "too few for two devices: refused as it is"
        );
        assert_eq!(left(200, false), 8, "nor would fewer help");
    }

    #[test]
    fn smaller_batches_keep_the_clips_of_a_step() {
        let machine = Machine::with("--batch-size 32 --grad-accum 2", 2);
        let needs = Needs::of(&machine.settings, Precision::Single, &machine.plan);
        let smaller = needs.fitting_on_model(&machine.settings, needs.on_model() / 2);
        let smaller = smaller.expect("weights take little of it");
        assert!((4..16).contains(&smaller.batch_size), "{smaller:?}");
        assert_eq!(smaller.clips_a_step, 64);
        assert!(u64::from(smaller.batch_size) * smaller.accumulate >= 64);
        assert_eq!(needs.fitting_on_model(&machine.settings, 1_000_000), None);
    }
}
