//! Advice written as this program's settings are: only here are its settings, keys and flags brought together.

use voxmill_analysis::profile::Profile;
use voxmill_analysis::run::Run;
use voxmill_analysis::setting::{Setting, SettingNames};
use voxmill_settings::config::keys::{self, Key};

pub(crate) const NAMES: SettingNames = SettingNames { flag, written };

pub(crate) fn profile(run: &Run) -> Profile {
    let mut profile = voxmill_analysis::profile::profile(run);
    profile.name_settings(&NAMES);
    profile
}

pub(crate) fn flag(setting: Setting) -> String {
    key(setting).flag()
}

/// As a flag, and as a line of the file in its section.
fn written(setting: Setting, value: &str) -> (String, String) {
    let key = key(setting);
    let in_file = format!("{}: {{ {}: {value} }}", key.section.name(), key.name);
    (key.flag_with(value), in_file)
}

fn key(setting: Setting) -> &'static Key {
    match setting {
        Setting::BatchSize => &keys::BATCH_SIZE,
        Setting::Buckets => &keys::BUCKETS,
        Setting::BufferSize => &keys::BUFFER_SIZE,
        Setting::CacheDir => &keys::CACHE_DIR,
        Setting::CheckpointEvery => &keys::CHECKPOINT_EVERY,
        Setting::ComputeThreads => &keys::COMPUTE_THREADS,
        Setting::EnableCaching => &keys::ENABLE_CACHING,
        Setting::EnableGradientCheckpointing => &keys::ENABLE_GRADIENT_CHECKPOINTING,
        Setting::EvaluationInterval => &keys::EVALUATION_INTERVAL,
        Setting::GradientAccumulationSteps => &keys::GRADIENT_ACCUMULATION_STEPS,
        Setting::LogEvery => &keys::LOG_EVERY,
        Setting::MaxMelFrames => &keys::MAX_MEL_FRAMES,
        Setting::ModelSize => &keys::SIZE,
        Setting::NoOverlap => &keys::NO_OVERLAP,
        Setting::NumWorkers => &keys::NUM_WORKERS,
        Setting::PadToFixedLength => &keys::PAD_TO_FIXED_LENGTH,
        Setting::PrefetchBufferSize => &keys::PREFETCH_BUFFER_SIZE,
        Setting::PrepareOn => &keys::PREPARE_ON,
        Setting::RamBudget => &keys::RAM_BUDGET,
        Setting::Unordered => &keys::UNORDERED,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_that_advice_is_about_is_the_key_of_its_name_and_stands_in_its_own_section() {
        for &setting in Setting::ALL {
            assert_eq!(key(setting).name, setting.key());
        }
        for (setting, value, flag, section) in [
            (Setting::NumWorkers, "4", "--num-workers 4", "data"),
            (Setting::ModelSize, "small", "--model-size small", "model"),
            (
                Setting::PadToFixedLength,
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
        let mut text = format!("give {} more, not `featurize`", Setting::RamBudget);
        NAMES.in_text(&mut text);
        assert_eq!(text, "give --ram-budget more, not `featurize`");
    }
}
