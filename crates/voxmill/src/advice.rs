//! Profiles whose advice is written as this program's settings are: only here are keys and flags known.

use voxmill_analysis::bottleneck::name_settings;
use voxmill_analysis::profile::Profile;
use voxmill_analysis::run::Run;

use voxmill_settings::checks::Line;
use voxmill_settings::config::keys::KEYS;

pub(crate) fn profile(run: &Run) -> Profile {
    let mut profile = voxmill_analysis::profile::profile(run);
    name_settings(&mut profile.findings, written);
    profile
}

/// As a flag, and as a line of the file in its section.
fn written(setting: &str, value: &str) -> Option<(String, String)> {
    let key = KEYS.iter().copied().find(|key| key.name == setting)?;
    let line = Line {
        key,
        value: Some(value.to_owned()),
    };
    let in_file = format!("{}: {{ {} }}", key.section.name(), line.in_file()?);
    Some((line.flag()?, in_file))
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
        let of = |flag: &str, line: &str| Some((flag.to_owned(), line.to_owned()));
        assert_eq!(
            written("num_workers", "4"),
            of("--num-workers 4", "data: { num_workers: 4 }")
        );
        assert_eq!(
            written("size", "small"),
            of("--model-size small", "model: { size: small }")
        );
        assert_eq!(
            written("pad_to_fixed_length", "false"),
            of(
                "--pad-to-fixed-length=false",
                "data: { pad_to_fixed_length: false }"
            )
        );
    }
}
