//! Advice written as this program's settings are: only here do settings, keys and flags come together.

use crate::config::keys::{self, Key};
use voxmill_analysis::profile::Profile;
use voxmill_analysis::run::Run;
use voxmill_analysis::setting::{AdvisedSetting, SettingNames};

/// The settings that advice is about, by the names that they have here.
pub const NAMES: SettingNames = SettingNames { flag, written };

/// What a run's log says, with advice that names settings as they are typed.
pub fn profile(run: &Run) -> Profile {
    let mut profile = voxmill_analysis::profile::profile(run);
    profile.name_settings(&NAMES);
    profile
}

/// As it is typed.
pub fn flag(setting: AdvisedSetting) -> String {
    key(setting).flag()
}

/// As a flag, and as a line of the file in its section.
fn written(setting: AdvisedSetting, value: &str) -> (String, String) {
    let key = key(setting);
    let in_file = format!("{}: {{ {}: {value} }}", key.section.name(), key.name);
    (key.flag_with(value), in_file)
}

fn key(setting: AdvisedSetting) -> &'static Key {
    match setting {
        AdvisedSetting::BatchSize => &keys::BATCH_SIZE,
        AdvisedSetting::Buckets => &keys::BUCKETS,
        AdvisedSetting::BufferSize => &keys::BUFFER_SIZE,
        AdvisedSetting::CacheDir => &keys::CACHE_DIR,
        AdvisedSetting::CheckpointEvery => &keys::CHECKPOINT_EVERY,
        AdvisedSetting::ComputeThreads => &keys::COMPUTE_THREADS,
        AdvisedSetting::EnableCaching => &keys::ENABLE_CACHING,
        AdvisedSetting::EnableGradientCheckpointing => &keys::ENABLE_GRADIENT_CHECKPOINTING,
        AdvisedSetting::EvaluationInterval => &keys::EVALUATION_INTERVAL,
        AdvisedSetting::GradientAccumulationSteps => &keys::GRADIENT_ACCUMULATION_STEPS,
        AdvisedSetting::LogEvery => &keys::LOG_EVERY,
        AdvisedSetting::MaxMelFrames => &keys::MAX_MEL_FRAMES,
        AdvisedSetting::ModelSize => &keys::SIZE,
        AdvisedSetting::NoOverlap => &keys::NO_OVERLAP,
        AdvisedSetting::NumWorkers => &keys::NUM_WORKERS,
        AdvisedSetting::PadToFixedLength => &keys::PAD_TO_FIXED_LENGTH,
        AdvisedSetting::PrefetchBufferSize => &keys::PREFETCH_BUFFER_SIZE,
        AdvisedSetting::PrepareOn => &keys::PREPARE_ON,
        AdvisedSetting::RamBudget => &keys::RAM_BUDGET,
        AdvisedSetting::Unordered => &keys::UNORDERED,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_that_advice_is_about_is_the_key_of_its_name_and_stands_in_its_own_section() {
        for &setting in AdvisedSetting::ALL {
            assert_eq!(key(setting).name, setting.key());
        }
        for (setting, value, flag, section) in [
            (AdvisedSetting::NumWorkers, "4", "--num-workers 4", "data"),
            (
                AdvisedSetting::ModelSize,
                "small",
                "--model-size small",
                "model",
            ),
            (
                AdvisedSetting::PadToFixedLength,
                "false",
                "--pad-to-fixed-length=false",
                "data",
            ),
        ] {
            let line = format!("{section}: {{ {}: {value} }}", setting.key());
            assert_eq!(written(setting, value), (flag.to_owned(), line));
        }
    }

    #[test]
    fn a_setting_in_a_sentence_becomes_its_flag() {
        let mut text = format!("give {} more, not `featurize`", AdvisedSetting::RamBudget);
        NAMES.in_text(&mut text);
        assert_eq!(text, "give --ram-budget more, not `featurize`");
    }
}
