//! How much memory a run takes of its devices, and what would fit.

use std::collections::BTreeSet;
use std::num::NonZeroU32;

use voxmill_data::batch_plan::{BatchPlan, Shape};
use voxmill_text::symbols::SymbolTable;
use voxmill_trainer::checkpoint::PrepareOn;
use voxmill_trainer::device::Precision;
use voxmill_trainer::model::Vocabulary;
use voxmill_trainer::need::{ModelNeed, Recompute, StepForm, frame_tables, prepare_need};
use voxmill_trainer::prepare::LANGUAGES;

use crate::{LEAST_SLOTS_OF_A_PAIR, TrainSettings};

/// What the run needs, by the sums of [`voxmill_trainer::need`].
#[derive(Clone, Debug)]
pub struct Needs {
    pub model: ModelNeed,
    /// Batches on the model device, the one in training included.
    pub slots: usize,
    pub data: u64,
    /// The batch that needs the most.
    pub largest: Shape,
}

impl Needs {
    /// Of the largest batch that the plan has.
    pub fn of(settings: &TrainSettings, precision: Precision, plan: &BatchPlan) -> Needs {
        let speakers: BTreeSet<u32> = plan.clips().iter().map(|clip| clip.speaker).collect();
        let form = StepForm {
            shape: settings.model_size.shape(),
            parameters: parameters(settings),
            mel_channels: settings.data.audio.n_mels,
            reference_frames: plan.settings().reference_frames.get() as usize,
            speakers: speakers.len(),
            recompute: match settings.gradient_checkpointing {
                false => Recompute::Nothing,
                true => Recompute::Blocks,
            },
            precision,
        };
        let shapes = plan.buckets().iter().map(|bucket| bucket.shape);
        let ahead = settings.feeding.device_slots;
        let all = shapes.clone().map(|shape| (form.need(shape), shape));
        let largest = all.max_by_key(|(need, _)| need.with_slots(ahead + 1));
        let audio = &settings.data.audio;
        let made = settings.devices.prepare_on != PrepareOn::Host;
        let n_fft = made.then_some(audio.n_fft);
        let preparing =
            |shape| prepare_need(shape, form.reference_frames, form.mel_channels, n_fft);
        let tables = n_fft.map_or(0, |n_fft| frame_tables(n_fft, form.mel_channels));
        let preparing = shapes.map(preparing).max().unwrap_or(0) + tables;
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
        let may = settings
            .devices
            .limits
            .model
            .or(settings.devices.free.model);
        let least = least_ahead(settings);
        Needs {
            slots: ahead_within(&model, may, ahead, least) + 1,
            model,
            data,
            largest,
        }
    }

    /// Batches ahead of the one in training.
    pub fn slots_ahead(&self) -> usize {
        self.slots - 1
    }

    /// Bytes on the model device, with all batches that wait there.
    pub fn on_model(&self) -> u64 {
        self.model.with_slots(self.slots)
    }
}

/// Fewer batches ahead than were asked for where that makes the run fit: a slot is the cheapest thing to give up.
fn ahead_within(model: &ModelNeed, may: Option<u64>, asked: usize, least: usize) -> usize {
    let fits = |ahead: &usize| may.is_none_or(|may| model.with_slots(ahead + 1) <= may);
    (least..=asked).rev().find(fits).unwrap_or(asked)
}

/// One being prepared, one ready; with two devices one more.
fn least_ahead(settings: &TrainSettings) -> usize {
    match settings.devices.devices.is_pair() {
        true => LEAST_SLOTS_OF_A_PAIR,
        false => 2,
    }
}

/// How many clips a step learns from, as the two flags say it. A batch of long clips has fewer rows than
/// `batch_size`, one of short clips more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepClips {
    pub batch_size: u32,
    pub accumulate: u32,
}

impl StepClips {
    /// As the settings have it.
    pub fn of(settings: &TrainSettings) -> Self {
        Self {
            batch_size: settings.data.batches.batch_size.get(),
            accumulate: settings.optimization.gradient_accumulation_steps.get(),
        }
    }

    /// Of a step, at the most.
    pub fn clips(self) -> u32 {
        self.batch_size.saturating_mul(self.accumulate)
    }

    /// As many clips, or a few more, in batches of another size.
    pub(crate) fn in_batches_of(self, batch_size: NonZeroU32) -> Self {
        Self {
            batch_size: batch_size.get(),
            accumulate: self.clips().div_ceil(batch_size.get()),
        }
    }

    /// As many clips, or a few more, in batches that are smaller by so many times.
    pub fn in_parts(self, parts: usize) -> Self {
        let parts = u32::try_from(parts).unwrap_or(u32::MAX).max(1);
        let batch_size = NonZeroU32::new(self.batch_size / parts);
        self.in_batches_of(batch_size.unwrap_or(NonZeroU32::MIN))
    }
}

/// How many weights the model has.
pub fn parameters(settings: &TrainSettings) -> usize {
    let vocabulary = Vocabulary {
        tokens: SymbolTable::built_in().symbols.len(),
        languages: LANGUAGES,
        mel_channels: settings.data.audio.n_mels,
    };
    settings.model_size.shape().parameters(vocabulary)
}

/// A large `batch_size` below the present one with which the run fits, each planned anew; found by halving, for a
/// plan of many clips takes its time.
pub fn largest_fitting(
    settings: &TrainSettings,
    precision: Precision,
    plan: &BatchPlan,
    fits: impl Fn(&Needs) -> bool,
) -> Option<StepClips> {
    let now = StepClips::of(settings);
    let of_size = |batch_size: NonZeroU32| {
        let smaller = now.in_batches_of(batch_size);
        let mut settings = settings.clone();
        settings.data.batches.batch_size = batch_size;
        settings.optimization.gradient_accumulation_steps = NonZeroU32::new(smaller.accumulate)?;
        let plan = BatchPlan::new(plan.clips().to_vec(), settings.data.batches).ok()?;
        fits(&Needs::of(&settings, precision, &plan)).then_some(smaller)
    };
    let (mut best, mut fits_at, mut too_large) = (None, 0, now.batch_size);
    while too_large - fits_at > 1 {
        let middle = fits_at + (too_large - fits_at) / 2;
        match of_size(NonZeroU32::new(middle)?) {
            Some(smaller) => (best, fits_at) = (Some(smaller), middle),
            None => too_large = middle,
        }
    }
    best
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
        let model = ModelNeed {
            weights: 100,
            activations: 100,
            batch: 10,
        };
        let left = |may, least| ahead_within(&model, Some(may), 8, least);
        assert_eq!(left(290, 2), 8);
        assert_eq!(left(250, 2), 4);
        assert_eq!(left(230, 2), 2);
        assert_eq!(left(230, 3), 8, "too few are left: refused as it is");
        assert_eq!(left(200, 2), 8, "nor would fewer help");
        assert_eq!(ahead_within(&model, None, 8, 2), 8);
    }

    #[test]
    fn batches_of_a_step_are_on_the_device_one_after_another() {
        let needs = |flags: &str| {
            let machine = Machine::with(flags, 2);
            let needs = Needs::of(&machine.settings, Precision::Single, &machine.plan);
            (needs.slots, needs.on_model())
        };
        let one = needs("--batch-size 32");
        assert_eq!(one.0, 3);
        assert_eq!(needs("--batch-size 32 --grad-accum 4096"), one);
    }

    #[test]
    fn parts_of_a_batch_are_no_smaller_than_a_clip() {
        let clips = |batch_size, accumulate| StepClips {
            batch_size,
            accumulate,
        };
        assert_eq!(clips(16, 3).in_parts(2), clips(8, 6));
        assert_eq!(clips(31, 2).in_parts(2), clips(15, 5));
        assert_eq!(clips(1, 2).in_parts(2), clips(1, 2));
    }

    #[test]
    fn smaller_batches_keep_the_clips_of_a_step() {
        let machine = Machine::with("--batch-size 32 --grad-accum 2", 2);
        let needs = Needs::of(&machine.settings, Precision::Single, &machine.plan);
        let within = |limit: u64| {
            let plan = &machine.plan;
            largest_fitting(&machine.settings, Precision::Single, plan, |needs| {
                needs.on_model() <= limit
            })
        };
        let smaller = within(needs.on_model() / 2).expect("weights take little of it");
        assert!((4..24).contains(&smaller.batch_size), "{smaller:?}");
        assert!((64..64 + smaller.batch_size).contains(&smaller.clips()));
        assert_eq!(within(1_000_000), None);
    }
}
