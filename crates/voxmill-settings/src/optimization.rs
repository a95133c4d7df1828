//! How weights are moved: sizes of the model, and the presets of `--optimization-level` over them.

use std::fmt;
use std::num::NonZero;

use voxmill_trainer::model::ModelSize;
use voxmill_trainer::schedule::Decay;

use super::resolver::Resolver;
use crate::config::keys;
use crate::config::value::{FromValue, Value};
use crate::error::UserError;

/// After which a checkpoint or an evaluation is worth its time.
pub(crate) fn steps_between_checkpoints(size: ModelSize) -> u64 {
    if size.is_quick() { 250 } else { 1_000 }
}

pub(crate) fn steps_between_samples(size: ModelSize) -> u64 {
    if size.is_quick() { 500 } else { 2_000 }
}

/// A number that goes with the size, in words: `50 for nano and tiny, 500 for small, …`.
pub(crate) fn for_each_size<T: PartialEq + fmt::Display>(number: fn(ModelSize) -> T) -> String {
    let same = |a: &ModelSize, b: &ModelSize| number(*a) == number(*b);
    let groups = ModelSize::ALL.chunk_by(same).map(|sizes| {
        let names: Vec<_> = sizes.iter().map(|size| size.name()).collect();
        let names = match names.split_last() {
            Some((last, [])) => (*last).to_owned(),
            Some((last, rest)) => format!("{} and {last}", rest.join(", ")),
            None => String::new(),
        };
        format!("{} for {names}", number(sizes[0]))
    });
    groups.collect::<Vec<_>>().join(", ")
}

impl FromValue for ModelSize {
    fn from_value(value: Value) -> Option<Self> {
        let name = String::from_value(value)?;
        // `normal` is what the earlier trainer called it.
        let name = if name == "normal" { "base" } else { &name };
        ModelSize::ALL.into_iter().find(|size| size.name() == name)
    }

    fn show(&self) -> String {
        self.name().into()
    }
}

/// A set of defaults for the optimizer, by its name in the configuration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OptimizationLevel {
    Basic,
    #[default]
    Enhanced,
    Experimental,
    PlateauBreaker,
}

impl OptimizationLevel {
    const NAMED: [(OptimizationLevel, &str); 4] = [
        (OptimizationLevel::Basic, "basic"),
        (OptimizationLevel::Enhanced, "enhanced"),
        (OptimizationLevel::Experimental, "experimental"),
        (OptimizationLevel::PlateauBreaker, "plateau_breaker"),
    ];
}

impl FromValue for OptimizationLevel {
    fn from_value(value: Value) -> Option<Self> {
        let text = String::from_value(value)?;
        let mut levels = Self::NAMED.into_iter();
        levels.find_map(|(level, name)| (name == text).then_some(level))
    }

    fn show(&self) -> String {
        let mut levels = Self::NAMED.into_iter();
        let name = levels.find_map(|(level, name)| (level == *self).then_some(name));
        name.unwrap_or_default().into()
    }
}

/// AdamW and all that steers it, as plain numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Optimization {
    pub level: OptimizationLevel,
    pub peak_learning_rate: f64,
    pub warmup_steps: u64,
    pub decay: Decay,
    pub beta_1: f64,
    pub beta_2: f64,
    pub weight_decay: f64,
    /// Of all gradients together.
    pub gradient_clip_norm: f64,
    /// Gradient accumulation: batches to one step.
    pub gradient_accumulation_steps: NonZero<u32>,
    /// `None`: validation and synthesis take the weights as they are.
    pub ema_decay: Option<f64>,
}

/// The rate at the end of a cosine, as a share of its peak.
const FLOOR: f64 = 0.03;
/// The peak of a run that fine-tunes, as a share of a fresh one's: see `benches/records/fine-tuning.md`.
const FINE_TUNING_SHARE: f64 = 0.25;

impl Optimization {
    /// What a level means for a size.
    pub(crate) fn preset(level: OptimizationLevel, size: ModelSize) -> Optimization {
        let enhanced = Optimization {
            level,
            peak_learning_rate: size.peak_rate(),
            warmup_steps: size.warmup_steps(),
            decay: Decay::Cosine { to: FLOOR },
            beta_1: 0.9,
            beta_2: 0.98,
            weight_decay: 1e-4,
            gradient_clip_norm: 1.0,
            gradient_accumulation_steps: NonZero::<u32>::MIN,
            ema_decay: Some(0.999),
        };
        match level {
            OptimizationLevel::Enhanced => enhanced,
            OptimizationLevel::Basic => Optimization {
                decay: Decay::Constant,
                ema_decay: None,
                ..enhanced
            },
            OptimizationLevel::Experimental => Optimization {
                peak_learning_rate: 1.5 * enhanced.peak_learning_rate,
                gradient_clip_norm: 0.5,
                ..enhanced
            },
            OptimizationLevel::PlateauBreaker => {
                let (to, cycles) = (FLOOR, 4);
                let decay = Decay::Restarts { to, cycles };
                Optimization { decay, ..enhanced }
            }
        }
    }

    /// `max_steps` is the run's length in steps where that is known.
    pub(super) fn resolve(
        r: &mut Resolver,
        size: ModelSize,
        max_steps: Option<u64>,
        fine_tunes: bool,
    ) -> anyhow::Result<Optimization> {
        let level = r.pick(&keys::OPTIMIZATION_LEVEL);
        let preset = Optimization::preset(level, size);
        let by_level = "by optimization_level";
        let (rate, by_both) = match fine_tunes {
            true => (
                FINE_TUNING_SHARE * preset.peak_learning_rate,
                "by optimization_level and size, a quarter with init_from",
            ),
            false => (preset.peak_learning_rate, "by optimization_level and size"),
        };
        let peak_learning_rate = r.auto(&keys::LEARNING_RATE, rate, by_both);
        let tenth = max_steps.map_or(u64::MAX, |steps| steps / 10);
        let (warmup, why) = if tenth < preset.warmup_steps {
            (tenth, "a tenth of max_steps")
        } else {
            (preset.warmup_steps, "by size")
        };
        let warmup_steps = r.auto(&keys::WARMUP_STEPS, warmup, why);
        if let Some(steps) = max_steps.filter(|&steps| warmup_steps >= steps && warmup_steps > 0) {
            let warmup = r.label(&keys::WARMUP_STEPS);
            let what = format!(
                "{warmup} is {warmup_steps}, but the run ends after {steps} steps: the learning rate would never reach its highest"
            );
            let hint = "give fewer steps to warm up, or leave it out";
            return Err(UserError::new(what, hint)
                .fix(&keys::WARMUP_STEPS, None)
                .into());
        }
        let weight_decay = r.auto(&keys::WEIGHT_DECAY, preset.weight_decay, by_level);
        let norm = preset.gradient_clip_norm;
        let gradient_clip_norm = r.auto(&keys::GRADIENT_CLIP_NORM, norm, by_level);
        let gradient_accumulation_steps = r.pick(&keys::GRADIENT_ACCUMULATION_STEPS);
        let decay = preset.ema_decay.unwrap_or(0.0);
        let ema_decay = r.auto(&keys::EMA_DECAY, decay, by_level);
        Ok(Optimization {
            peak_learning_rate,
            warmup_steps,
            weight_decay,
            gradient_clip_norm,
            gradient_accumulation_steps,
            ema_decay: Some(ema_decay).filter(|&decay| decay > 0.0),
            ..preset
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn enhanced_is_the_recipe_of_the_model() {
        let tiny = Optimization::preset(OptimizationLevel::Enhanced, ModelSize::Tiny);
        assert_eq!((tiny.beta_1, tiny.beta_2), (0.9, 0.98));
        assert_eq!((tiny.weight_decay, tiny.gradient_clip_norm), (1e-4, 1.0));
        assert_eq!(tiny.decay, Decay::Cosine { to: 0.03 });
        let rates = [
            (ModelSize::Nano, 2e-3, 50),
            (ModelSize::Tiny, 2e-3, 50),
            (ModelSize::Small, 1e-3, 500),
            (ModelSize::Base, 5e-4, 2_000),
            (ModelSize::Big, 5e-4, 2_000),
        ];
        for (size, rate, warmup) in rates {
            let preset = Optimization::preset(OptimizationLevel::Enhanced, size);
            assert_eq!(preset.peak_learning_rate, rate, "{size:?}");
            assert_eq!(preset.warmup_steps, warmup, "{size:?}");
        }
    }

    #[test]
    fn the_other_levels_differ_from_it_as_the_help_says() {
        let preset = |level| Optimization::preset(level, ModelSize::Small);
        let basic = preset(OptimizationLevel::Basic);
        assert_eq!(basic.decay, Decay::Constant);
        assert_eq!(basic.ema_decay, None);
        let experimental = preset(OptimizationLevel::Experimental);
        assert_eq!(experimental.peak_learning_rate, 1.5e-3);
        assert_eq!(experimental.gradient_clip_norm, 0.5);
        let breaker = preset(OptimizationLevel::PlateauBreaker);
        assert!(matches!(breaker.decay, Decay::Restarts { cycles: 4, .. }));
        assert_eq!(breaker.ema_decay, Some(0.999));
    }
}
