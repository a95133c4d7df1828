//! Values as people write them, in a flag or in the file: one parser and one range for both.

use std::num::NonZero;
use std::path::PathBuf;

use voxmill_text::language::Language;

/// What a key accepts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    Whole {
        min: u64,
        max: u64,
    },
    Number {
        min: f64,
        max: f64,
    },
    /// `0.05` or `5%`.
    Share,
    /// `10GB`, `512MiB`, `1000000`.
    Bytes,
    Switch,
    OneOf(&'static [&'static str]),
    /// A device index or `auto`.
    DeviceIndex,
    /// `cpu`, `auto`, or a backend with or without a number, such as `vulkan:1`.
    Device,
    Language,
    /// A name that may be part of a file's name.
    Name,
    Path,
}

/// A value that has passed its kind's check.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Whole(u64),
    Number(f64),
    Switch(bool),
    Text(String),
}

impl Kind {
    /// What to write, in words, for messages.
    pub(crate) fn expects(&self) -> String {
        match self {
            Kind::Whole { min, max } => format!("a whole number from {min} to {max}"),
            &Kind::Number { min, max } if min > 0.0 && min < 1e-3 => {
                format!("a number from {min:e} to {max}")
            }
            Kind::Number { min, max } => format!("a number from {min} to {max}"),
            Kind::Share => "a share such as 0.05 or 5%".into(),
            Kind::Bytes => "a size above 0, such as 500MB, 10GB or 2GiB".into(),
            Kind::Switch => "true or false".into(),
            Kind::OneOf(words) => format!("one of {}", words.join(", ")),
            Kind::DeviceIndex => "a device number such as 0, or auto".into(),
            Kind::Device => format!(
                "auto, cpu, or one of {} with or without a number, such as vulkan:0",
                GPU_BACKENDS.join(", ")
            ),
            Kind::Name => "a name of up to 100 characters without `/`, `\\` or line ends".into(),
            Kind::Language => "a language code such as en or fa".into(),
            Kind::Path => "a path".into(),
        }
    }

    /// The words that a shell can complete; none where anything may stand.
    pub(crate) fn words(&self) -> Vec<&'static str> {
        match *self {
            Kind::OneOf(words) => words.to_vec(),
            Kind::Switch => vec!["true", "false"],
            Kind::DeviceIndex => vec!["auto"],
            Kind::Device => ["auto", "cpu"].into_iter().chain(GPU_BACKENDS).collect(),
            Kind::Language => vec!["en", "fa"],
            _ => Vec::new(),
        }
    }

    /// Reads a value, or says what would be one.
    pub fn parse(&self, text: &str) -> Result<Value, String> {
        let text_if = |fits: bool| fits.then(|| Value::Text(text.into()));
        let value = match *self {
            Kind::Whole { min, max } => {
                let number: Option<u64> = text.replace('_', "").parse().ok();
                let number = number.filter(|number| (min..=max).contains(number));
                number.map(Value::Whole)
            }
            Kind::Number { min, max } => {
                let number: Option<f64> = text.parse().ok();
                // A NaN is in no range.
                let number = number.filter(|number| (min..=max).contains(number));
                number.map(Value::Number)
            }
            Kind::Share => {
                let share = match text.strip_suffix('%') {
                    Some(percent) => percent.trim().parse::<f64>().map(|p| p / 100.0),
                    None => text.parse(),
                };
                let share = share.ok().filter(|share| (0.0..=1.0).contains(share));
                share.map(Value::Number)
            }
            Kind::Bytes => parse_bytes(text)
                .filter(|&bytes| bytes > 0)
                .map(Value::Whole),
            // YAML's spellings; Python writes the middle one.
            Kind::Switch => match text {
                "true" | "True" | "TRUE" => Some(Value::Switch(true)),
                "false" | "False" | "FALSE" => Some(Value::Switch(false)),
                _ => None,
            },
            Kind::OneOf(words) => text_if(words.contains(&text)),
            Kind::DeviceIndex => text_if(text == "auto" || text.parse::<u16>().is_ok()),
            Kind::Device => text_if(is_device(text)),
            Kind::Name => text_if(is_name(text)),
            Kind::Language => {
                let language = text.parse::<Language>().ok();
                language.map(|language| Value::Text(language.code().into()))
            }
            Kind::Path if text.is_empty() => return Err("the path is empty".into()),
            Kind::Path => text_if(true),
        };
        value.ok_or_else(|| format!("`{text}` is not {}", self.expects()))
    }
}

/// The tensor library's backends for GPUs, whether this build has them or not.
const GPU_BACKENDS: [&str; 5] = ["wgpu", "vulkan", "metal", "cuda", "rocm"];

fn is_device(text: &str) -> bool {
    match text.split_once(':') {
        // `wgpu:0+1` is a second logical device on the same GPU; see the trainer's `DeviceId`.
        Some(_) => text.parse::<voxmill_trainer::device::DeviceId>().is_ok(),
        None => matches!(text, "auto" | "cpu") || GPU_BACKENDS.contains(&text),
    }
}

fn is_name(text: &str) -> bool {
    let fits = !text.trim().is_empty() && text.chars().count() <= 100;
    let hidden_or_up = text.starts_with('.');
    fits && !hidden_or_up && !text.contains(|c: char| matches!(c, '/' | '\\') || c.is_control())
}

fn parse_bytes(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let scale: f64 = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1.0,
        "k" | "kb" => 1e3,
        "m" | "mb" => 1e6,
        "g" | "gb" => 1e9,
        "t" | "tb" => 1e12,
        "kib" => 1024.0,
        "mib" => 1_048_576.0,
        "gib" => 1_073_741_824.0,
        "tib" => 1_099_511_627_776.0,
        _ => return None,
    };
    let bytes = number.parse::<f64>().ok()? * scale;
    (bytes < 9e18).then_some(bytes.round() as u64)
}

/// The Rust types that settings are made of. `None` means that the key's kind and the type asked
/// for do not go together, a mistake in this program that the tests of `settings` rule out.
pub trait FromValue: Sized {
    fn from_value(value: Value) -> Option<Self>;
    fn show(&self) -> String;
}

/// `type: from => what it becomes`, with how it is shown.
macro_rules! from_value {
    ($show:expr; $($ty:ty: $variant:ident($value:ident) => $made:expr;)*) => {$(
        impl FromValue for $ty {
            fn from_value(value: Value) -> Option<Self> {
                match value {
                    Value::$variant($value) => $made,
                    _ => None,
                }
            }

            fn show(&self) -> String {
                $show(self)
            }
        }
    )*};
}
from_value! { ToString::to_string;
    u32: Whole(number) => number.try_into().ok();
    u64: Whole(number) => Some(number);
    usize: Whole(number) => number.try_into().ok();
    NonZero<u8>: Whole(number) => Self::new(number.try_into().ok()?);
    NonZero<u32>: Whole(number) => Self::new(number.try_into().ok()?);
    NonZero<u64>: Whole(number) => Self::new(number);
    NonZero<usize>: Whole(number) => Self::new(number.try_into().ok()?);
    f64: Number(number) => Some(number);
    f32: Number(number) => Some(number as f32);
    bool: Switch(on) => Some(on);
    String: Text(text) => Some(text);
    Language: Text(text) => text.parse().ok();
}
from_value! { |path: &PathBuf| path.display().to_string();
    // A shell expands `~/` for a flag; nobody does in a file.
    PathBuf: Text(text) => Some(match (text.strip_prefix("~/"), std::env::var_os("HOME")) {
        (Some(rest), Some(home)) => PathBuf::from(home).join(rest),
        _ => text.into(),
    });
}

#[cfg(test)]
mod tests {
    use voxmill_format::given_size;

    use super::*;

    #[test]
    fn numbers_may_be_written_with_an_exponent() {
        let rate = Kind::Number { min: 0.0, max: 1.0 };
        assert_eq!(rate.parse("1e-4"), Ok(Value::Number(1e-4)));
        assert_eq!(rate.parse("1E-4"), Ok(Value::Number(1e-4)));
        assert!(rate.parse("nan").is_err());
        assert!(rate.parse("2").is_err());
    }

    #[test]
    fn devices_and_names() {
        for device in ["auto", "cpu", "cuda", "vulkan:1", "vulkan:0+1"] {
            assert!(Kind::Device.parse(device).is_ok(), "{device}");
        }
        for device in ["gpu", "cpu:0", "auto:1", "cuda:", "cuda:x", "0"] {
            assert!(Kind::Device.parse(device).is_err(), "{device}");
        }
        assert!(Kind::Name.parse("my voice 2").is_ok());
        for name in ["", " ", "..", "a/b", "a\nb"] {
            assert!(Kind::Name.parse(name).is_err(), "{name:?}");
        }
    }

    #[test]
    fn sizes_and_shares() {
        for size in [0, 999, 1_000, 6_318_000_000, 2_000_000_000, 1_048_576] {
            assert_eq!(parse_bytes(&given_size(size)), Some(size));
        }
        assert_eq!(Kind::Bytes.parse("10GB"), Ok(Value::Whole(10_000_000_000)));
        assert_eq!(Kind::Bytes.parse("1.5 MiB"), Ok(Value::Whole(1_572_864)));
        assert!(Kind::Bytes.parse("ten").is_err());
        assert!(Kind::Bytes.parse("-1").is_err());
        assert_eq!(Kind::Share.parse("5%"), Ok(Value::Number(0.05)));
        assert!(Kind::Share.parse("5").is_err());
        assert_eq!(Kind::Switch.parse("True"), Ok(Value::Switch(true)));
        assert!(Kind::Switch.parse("yes").is_err());
    }
}
