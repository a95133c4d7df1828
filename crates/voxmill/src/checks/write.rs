//! What to write: a setting as a line of the file and as a flag.

use crate::config::keys::Key;
use crate::config::value::Kind;

/// A setting as it should stand.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Line {
    pub(crate) key: &'static Key,
    /// `None`: leave it out.
    pub(crate) value: Option<String>,
}

impl Line {
    /// `num_workers: 1`
    pub(crate) fn in_file(&self) -> Option<String> {
        let value = self.value.as_ref()?;
        Some(format!("{}: {value}", self.key.name))
    }

    /// `--num-workers 1`
    pub(crate) fn flag(&self) -> Option<String> {
        let value = self.value.as_deref()?;
        let name = flag(self.key);
        // Two keys that say "yes" have a flag that says "no".
        let turned = name.starts_with("--no-") && !self.key.name.starts_with("no_");
        Some(match (self.key.kind, value) {
            (Kind::Switch, "false") if turned => name,
            (Kind::Switch, "true") if turned => format!("{name}=false"),
            (Kind::Switch, "true") => name,
            (Kind::Switch, value) => format!("{name}={value}"),
            (_, value) => format!("{name} {value}"),
        })
    }
}

/// The flag of a key.
pub(crate) fn flag(key: &Key) -> String {
    let name = match key.name {
        "size" => "model-size",
        "learning_rate" => "lr",
        "gradient_accumulation_steps" => "grad-accum",
        "enable_caching" => "no-cache",
        "auto_tune_performance" => "no-adapt",
        name => return format!("--{}", name.replace('_', "-")),
    };
    format!("--{name}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Cli;
    use crate::config::keys::{self, Role};
    use clap::{CommandFactory as _, Parser as _};

    #[test]
    fn every_key_that_acts_has_the_flag_that_is_named_for_it() {
        let cli = Cli::command();
        let train = cli.find_subcommand("train").unwrap();
        for key in keys::KEYS.iter().filter(|key| key.role == Role::Acts) {
            let flag = flag(key);
            let name = flag.trim_start_matches("--");
            assert!(
                train
                    .get_arguments()
                    .any(|arg| arg.get_long() == Some(name)),
                "{flag}"
            );
        }
    }

    #[test]
    fn switches_are_written_so_that_they_are_read_back() {
        let of = |key: &'static Key, value: &str| {
            let value = Some(value.to_owned());
            Line { key, value }.flag().unwrap()
        };
        assert_eq!(of(&keys::NUM_WORKERS, "1"), "--num-workers 1");
        assert_eq!(
            of(&keys::PAD_TO_FIXED_LENGTH, "false"),
            "--pad-to-fixed-length=false"
        );
        assert_eq!(of(&keys::ENABLE_CACHING, "false"), "--no-cache");
        assert_eq!(of(&keys::ENABLE_CACHING, "true"), "--no-cache=false");
        assert_eq!(of(&keys::NO_OVERLAP, "false"), "--no-overlap=false");
        for flag in [of(&keys::ENABLE_CACHING, "true"), of(&keys::SIZE, "tiny")] {
            let line = format!("voxmill train {flag}");
            assert!(Cli::try_parse_from(line.split(' ')).is_ok(), "{line}");
        }
    }
}
