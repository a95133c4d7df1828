//! Profiles whose advice is written as this program's settings are: only here are keys and flags known.

use voxmill_analysis::bottleneck::name_settings;
use voxmill_analysis::profile::Profile;
use voxmill_analysis::run::Run;

use voxmill_settings::checks::Suggestion;
use voxmill_settings::config::keys::KEYS;

pub(crate) fn profile(run: &Run) -> Profile {
    let mut profile = voxmill_analysis::profile::profile(run);
    name_settings(&mut profile.findings, written);
    profile
}

/// As a flag, and as a line of the file in its section.
fn written(setting: &str, value: &str) -> Option<(String, String)> {
    let key = KEYS.iter().copied().find(|key| key.name == setting)?;
    let value = Some(value.to_owned());
    let setting = Suggestion { key, value };
    let in_file = format!("{}: {{ {} }}", key.section.name(), setting.in_file()?);
    Some((setting.flag()?, in_file))
}

#[cfg(test)]
mod tests {
    use voxmill_analysis::bottleneck::setting;

    use super::*;

    #[test]
    fn every_setting_that_advice_is_about_is_a_key_and_stands_in_its_own_section() {
        for setting in setting::ALL {
            assert!(written(setting, "4").is_some(), "{setting}");
        }
        for (setting, value, flag, section) in [
            ("num_workers", "4", "--num-workers 4", "data"),
            ("size", "small", "--model-size small", "model"),
            (
                "pad_to_fixed_length",
                "false",
                "--pad-to-fixed-length=false",
                "data",
            ),
        ] {
            let line = format!("{section}: {{ {setting}: {value} }}");
            assert_eq!(written(setting, value), Some((flag.to_owned(), line)));
        }
    }
}
