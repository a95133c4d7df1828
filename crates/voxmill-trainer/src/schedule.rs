//! The learning rate over a run, and the weight of the alignment's prior.

use serde::{Deserialize, Serialize};

/// How the rate goes after the warm-up.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decay {
    /// Stays at the peak.
    Constant,
    /// Half a cosine from the peak down to this share of it at the end of the run.
    Cosine { to: f64 },
    /// The same, several times over: each restart begins at the peak again.
    Restarts { to: f64, cycles: u32 },
}

/// A rate for each step.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Schedule {
    pub peak: f64,
    pub warmup_steps: u64,
    pub decay: Decay,
}

impl Schedule {
    /// `step` counts from 0; `progress` is the share of the run that is done, from 0 to 1.
    pub fn rate(&self, step: u64, progress: f64) -> f64 {
        let warm = ((step + 1) as f64 / self.warmup_steps.max(1) as f64).min(1.0);
        let cosine = |progress: f64, to: f64| {
            to + (1.0 - to) * 0.5 * (1.0 + (std::f64::consts::PI * progress).cos())
        };
        let progress = progress.clamp(0.0, 1.0);
        let share = match self.decay {
            Decay::Constant => 1.0,
            Decay::Cosine { to } => cosine(progress, to),
            Decay::Restarts { to, cycles } => {
                let at = progress * f64::from(cycles.max(1));
                // The very end belongs to the last cycle, not to one that would begin there.
                let within = if progress < 1.0 { at.fract() } else { 1.0 };
                cosine(within, to)
            }
        };
        self.peak * warm * share
    }
}

/// Steps until the alignment stands on the scores alone.
pub const PRIOR_STEPS: u64 = 400;
const PRIOR_WEIGHT: f32 = 3.0;

/// Draws alignments towards the diagonal while the model knows nothing.
pub(crate) fn prior_weight(step: u64) -> f32 {
    PRIOR_WEIGHT * (1.0 - step as f32 / PRIOR_STEPS as f32).max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schedule(decay: Decay) -> Schedule {
        Schedule {
            peak: 2.0,
            warmup_steps: 4,
            decay,
        }
    }

    #[test]
    fn warms_up_and_comes_down() {
        let cosine = schedule(Decay::Cosine { to: 0.03 });
        let rates: Vec<f64> = (0..4).map(|step| cosine.rate(step, 0.0)).collect();
        assert_eq!(rates, [0.5, 1.0, 1.5, 2.0]);
        assert!((cosine.rate(100, 0.5) - 2.0 * 0.515).abs() < 1e-12);
        assert!((cosine.rate(100, 1.0) - 0.06).abs() < 1e-12);
        assert!((cosine.rate(100, 7.0) - 0.06).abs() < 1e-12);
        assert_eq!(schedule(Decay::Constant).rate(100, 0.9), 2.0);
    }

    #[test]
    fn each_restart_begins_at_the_peak() {
        let restarts = schedule(Decay::Restarts { to: 0.1, cycles: 4 });
        assert!((restarts.rate(100, 0.25) - 2.0).abs() < 1e-9);
        assert!(restarts.rate(100, 0.2499) < 0.21);
        assert!((restarts.rate(100, 1.0) - 0.2).abs() < 1e-9);
    }
}
