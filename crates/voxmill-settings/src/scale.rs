//! The settings of `scale`: which sizes, and whether `train` would take the rest.

use std::ffi::{OsStr, OsString};

use voxmill_analysis::scaling::Swept;

use super::{ModelSize, ResolvedSetting, TrainSettings};
use crate::args::{ScaleArgs, TrainArgs};
use crate::config::keys;
use crate::config::value::Value;
use crate::error::UserError;
use crate::note::Note;

/// The settings of `scale`, valid as a whole.
#[derive(Debug)]
pub struct ScaleSettings {
    pub swept: Swept,
    /// Ascending, each once.
    pub sizes: Vec<u64>,
    /// Measured ones; those to warm up come on top.
    pub steps: u64,
    /// The most shapes that a size has: the first step of each is not measured.
    pub shapes: u64,
    pub json: bool,
    pub notes: Vec<Note>,
    pub resolved: Vec<ResolvedSetting>,
}

impl ScaleSettings {
    /// Refuses what contradicts itself or cannot be had.
    pub fn resolve(args: ScaleArgs) -> anyhow::Result<ScaleSettings> {
        let sweep = &args.sweep;
        let wide = |sizes: &[usize]| sizes.iter().map(|size| *size as u64).collect::<Vec<u64>>();
        let (swept, given) = if !sweep.workers.is_empty() {
            (Swept::Workers, wide(&sweep.workers))
        } else if !sweep.prefetch.is_empty() {
            (Swept::Prefetch, wide(&sweep.prefetch))
        } else {
            let sizes = sweep.batch_sizes.iter();
            (
                Swept::BatchSize,
                sizes.map(|size| size.get().into()).collect(),
            )
        };
        let (list, key) = match swept {
            Swept::BatchSize => ("--batch-sizes", &keys::BATCH_SIZE),
            Swept::Workers => ("--workers", &keys::NUM_WORKERS),
            Swept::Prefetch => ("--prefetch", &keys::PREFETCH_BUFFER_SIZE),
        };
        if args.flags.has(key) {
            let what = format!("{} is what is measured at several sizes", key.flag());
            let hint = format!("leave it out, and give the sizes with {list}");
            return Err(UserError::new(what, hint).into());
        }
        let (steps, json) = (sweep.num_steps, args.json);
        // What `train` would refuse whatever the size is refused here, once.
        let mut train = TrainArgs::measured(args.flags);
        train.flags.set(&keys::MAX_STEPS, Value::Whole(steps));
        let train = TrainSettings::resolve_closed(train)?;
        let mut sizes = match given.is_empty() {
            true => ladder(train.model_size).to_vec(),
            false => given,
        };
        sizes.sort_unstable();
        sizes.dedup();
        Ok(ScaleSettings {
            swept,
            sizes,
            steps,
            shapes: train.data.batches.bucket_count.get().into(),
            json,
            notes: train.notes,
            resolved: train.resolved,
        })
    }
}

/// Batch sizes around those that a model of this size is mostly trained with.
fn ladder(size: ModelSize) -> [u64; 3] {
    match size {
        ModelSize::Nano => [8, 16, 32],
        ModelSize::Tiny => [16, 24, 32],
        ModelSize::Small => [12, 16, 24],
        ModelSize::Base => [8, 12, 16],
        ModelSize::Big => [4, 8, 12],
    }
}

/// The variable that `scale` sets for the runs that it starts: they are only measured.
pub const MEASURED: &str = "VOXMILL_MEASURED";

/// What was typed after the verb, without what only `scale` knows: the rest is for `train`.
pub fn for_train(typed: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    const WITH_VALUE: [&str; 4] = ["--batch-sizes", "--workers", "--prefetch", "--num-steps"];
    let mut kept = Vec::new();
    let mut typed = typed.into_iter();
    while let Some(arg) = typed.next() {
        if WITH_VALUE.iter().any(|flag| arg == OsStr::new(flag)) {
            typed.next();
            continue;
        }
        let joined = |flag: &&str| arg.to_string_lossy().starts_with(&format!("{flag}="));
        if arg != "--json" && !WITH_VALUE.iter().any(joined) {
            kept.push(arg);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn train_is_given_what_is_not_of_scale_alone() {
        let kept = |line: &str| {
            let kept = for_train(line.split_whitespace().map(OsString::from));
            kept.join(OsStr::new(" ")).into_string().unwrap_or_default()
        };
        assert_eq!(
            kept("--train-data D --batch-sizes 8,16 --model-size nano --json --num-steps=9"),
            "--train-data D --model-size nano"
        );
        assert_eq!(
            kept("--workers=1,2 --batch-size 4 --prefetch-buffer-size 3"),
            "--batch-size 4 --prefetch-buffer-size 3"
        );
    }

    #[test]
    fn what_is_swept_cannot_be_fixed_too() {
        let mut args = ScaleArgs::default();
        args.flags.set(&keys::BATCH_SIZE, Value::Whole(4));
        let refused = ScaleSettings::resolve(args).unwrap_err().to_string();
        assert!(
            refused.contains("--batch-size is what is measured"),
            "{refused}"
        );
    }

    #[test]
    fn sizes_come_in_order_and_once() {
        let mut args = ScaleArgs::default();
        args.sweep.workers = vec![4, 1, 4];
        let settings = ScaleSettings::resolve(args).unwrap();
        assert_eq!(
            (settings.swept, settings.sizes),
            (Swept::Workers, vec![1, 4])
        );
        let usual = ScaleSettings::resolve(ScaleArgs::default()).unwrap();
        assert_eq!(usual.sizes, [16, 24, 32]);
    }
}
