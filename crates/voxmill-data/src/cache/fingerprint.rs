//! What a clip's features were computed from, kept in parts, so that the reason for a rebuild has a name.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File, Metadata};
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::{Xxh3, xxh3_128};

use voxmill_text::language::Language;

/// 128 bits of XXH3: far more than accidents can hit, at the speed of memory. A cryptographic hash
/// took 7 % of the whole of `prepare`, and whoever can forge a cache file can as well replace it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Hash128(pub [u8; 16]);

impl Hash128 {
    /// The hash of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Hash128(xxh3_128(bytes).to_be_bytes())
    }

    /// The text part of a fingerprint: all that the front-end gets of a clip.
    pub fn of_text(raw: &str, language: Option<Language>) -> Self {
        let mut hasher = Xxh3::new();
        // A language code has no zero byte, so the two parts cannot be confused.
        if let Some(language) = language {
            hasher.update(language.code().as_bytes());
        }
        hasher.update(&[0]);
        hasher.update(raw.as_bytes());
        Self::finish(&hasher)
    }

    pub(super) fn finish(hasher: &Xxh3) -> Self {
        Hash128(hasher.digest128().to_be_bytes())
    }

    pub(super) fn parse(hex: &str) -> Option<Self> {
        // One way to write a hash: no sign, no capitals.
        let value = u128::from_str_radix(hex, 16).ok()?;
        let hash = Hash128(value.to_be_bytes());
        (hash.to_string() == hex).then_some(hash)
    }
}

impl fmt::Display for Hash128 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

impl fmt::Debug for Hash128 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// How an audio file is recognised.
///
/// Take the stamp *before* decoding: a file that changes in between then differs from its stamp and
/// is rebuilt next time, instead of passing for fresh.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AudioStamp {
    pub bytes: u64,
    /// Time of the last change, nanoseconds since 1970.
    pub modified_ns: i64,
    /// Present when the file was read for it: always worth it when building, since the file is read
    /// anyway (`--verify` can vouch only for clips stored with it); when checking, only on `--verify`.
    pub content: Option<Hash128>,
}

impl AudioStamp {
    /// From one `stat`: enough to notice every honest change.
    pub(crate) fn of(metadata: &Metadata) -> Self {
        // 64 bits hold the years 1677 to 2262; a time outside is as good as the nearest of these.
        let seconds = metadata.mtime().saturating_mul(1_000_000_000);
        AudioStamp {
            bytes: metadata.size(),
            modified_ns: seconds.saturating_add(metadata.mtime_nsec()),
            content: None,
        }
    }

    /// Reads the whole file.
    pub(crate) fn with_content(path: &Path) -> io::Result<Self> {
        let stamp = Self::of(&fs::metadata(path)?);
        let mut hasher = Xxh3::new();
        let mut file = File::open(path)?;
        let mut buffer = vec![0; 1 << 16];
        loop {
            match file.read(&mut buffer)? {
                0 => break,
                length => hasher.update(&buffer[..length]),
            }
        }
        let content = Some(Hash128::finish(&hasher));
        Ok(AudioStamp { content, ..stamp })
    }
}

/// What is particular to one clip; the rest is in [`FeatureSettings`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fingerprint {
    pub audio: AudioStamp,
    /// See [`Hash128::of_text`].
    pub text: Hash128,
}

/// What is common to all clips of a run: names and values, as a person would write them, kept with
/// every shard so that the one which changed can be named.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FeatureSettings {
    /// All that shapes the mel, and the version of the code that computes it.
    pub audio: BTreeMap<String, String>,
    /// All that shapes the tokens: the front-end's version, its tables, the lexicon.
    pub text: BTreeMap<String, String>,
}

/// Whether a clip's features can be taken from the cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Freshness {
    Reuse,
    Rebuild {
        reason: RebuildReason,
        /// The mel in the cache is good: only the text half must be redone.
        audio_fresh: bool,
    },
}

impl Freshness {
    pub(crate) fn is_audio_fresh(&self) -> bool {
        match self {
            Freshness::Reuse => true,
            Freshness::Rebuild { audio_fresh, .. } => *audio_fresh,
        }
    }
}

/// Why a clip is rebuilt. Ordered, so that callers can count by reason in a `BTreeMap`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RebuildReason {
    New,
    AudioChanged,
    /// `--verify` was asked for and the clip was stored without a content hash.
    AudioUnverified,
    TextChanged,
    /// An absent value means that the setting did not exist (or no longer does).
    SettingChanged {
        name: String,
        old: Option<String>,
        new: Option<String>,
    },
    VersionChanged {
        old: u32,
        new: u32,
    },
    DamagedShard,
}

impl fmt::Display for RebuildReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RebuildReason::New => f.write_str("new"),
            RebuildReason::AudioChanged => f.write_str("audio changed"),
            RebuildReason::AudioUnverified => f.write_str("stored without a content hash"),
            RebuildReason::TextChanged => f.write_str("text changed"),
            RebuildReason::SettingChanged { name, old, new } => {
                let [old, new] = [old, new].map(|value| value.as_deref().unwrap_or("none"));
                write!(f, "setting {name} changed from {old} to {new}")
            }
            RebuildReason::VersionChanged { old, new } => {
                write!(f, "cache version changed from {old} to {new}")
            }
            RebuildReason::DamagedShard => f.write_str("damaged shard"),
        }
    }
}

/// Compares what was stored with what is there now. Causes on the audio side are named first: they
/// are the expensive ones.
pub(super) fn compare(
    stored: (&Fingerprint, &FeatureSettings),
    now: (&Fingerprint, &FeatureSettings),
) -> Freshness {
    let ((old_print, old), (new_print, new)) = (stored, now);
    let audio_cause = first_difference(&old.audio, &new.audio)
        .or_else(|| audio_difference(&old_print.audio, &new_print.audio));
    let audio_fresh = audio_cause.is_none();
    let text_changed = || (old_print.text != new_print.text).then_some(RebuildReason::TextChanged);
    let cause = audio_cause
        .or_else(|| first_difference(&old.text, &new.text))
        .or_else(text_changed);
    match cause {
        Some(reason) => Freshness::Rebuild {
            reason,
            audio_fresh,
        },
        None => Freshness::Reuse,
    }
}

fn audio_difference(old: &AudioStamp, new: &AudioStamp) -> Option<RebuildReason> {
    let same_stat = (old.bytes, old.modified_ns) == (new.bytes, new.modified_ns);
    match (old.content, new.content) {
        (Some(old), Some(new)) => (old != new).then_some(RebuildReason::AudioChanged),
        (None, Some(_)) if same_stat => Some(RebuildReason::AudioUnverified),
        _ => (!same_stat).then_some(RebuildReason::AudioChanged),
    }
}

fn first_difference(
    old: &BTreeMap<String, String>,
    new: &BTreeMap<String, String>,
) -> Option<RebuildReason> {
    // Nearly always, and asked for every clip.
    if old == new {
        return None;
    }
    let changed = |name: &String| RebuildReason::SettingChanged {
        name: name.clone(),
        old: old.get(name).cloned(),
        new: new.get(name).cloned(),
    };
    let differs = |name: &&String| old.get(*name) != new.get(*name);
    // The others follow it, given or not: f_max is at most half of it.
    let rate = "sample_rate".to_owned();
    if differs(&&rate) {
        return Some(changed(&rate));
    }
    let in_new = new.keys().find(differs);
    in_new.or_else(|| old.keys().find(differs)).map(changed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(pairs: &[(&str, &str)]) -> FeatureSettings {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        FeatureSettings {
            audio: pairs.iter().map(owned).collect(),
            text: BTreeMap::from([owned(&("lexicon", "none"))]),
        }
    }

    fn print(content: Option<&str>) -> Fingerprint {
        Fingerprint {
            audio: AudioStamp {
                bytes: 10,
                modified_ns: 5,
                content: content.map(|text| Hash128::of(text.as_bytes())),
            },
            text: Hash128::of_text("one", None),
        }
    }

    fn rebuild(reason: RebuildReason, audio_fresh: bool) -> Freshness {
        Freshness::Rebuild {
            reason,
            audio_fresh,
        }
    }

    #[test]
    fn the_changed_setting_is_named() {
        let old = settings(&[("hop_length", "256"), ("n_fft", "1024")]);
        let new = settings(&[("hop_length", "300"), ("n_fft", "1024")]);
        let clip = print(None);
        let changed = |new: Option<&str>| RebuildReason::SettingChanged {
            name: "hop_length".to_owned(),
            old: Some("256".to_owned()),
            new: new.map(str::to_owned),
        };
        let freshness = compare((&clip, &old), (&clip, &new));
        assert_eq!(freshness, rebuild(changed(Some("300")), false));
        let message = "setting hop_length changed from 256 to 300";
        assert_eq!(changed(Some("300")).to_string(), message);
        let lower = settings(&[("f_max", "4000"), ("sample_rate", "8000")]);
        let higher = settings(&[("f_max", "8000"), ("sample_rate", "22050")]);
        let freshness = compare((&clip, &higher), (&clip, &lower));
        assert!(
            format!("{freshness:?}").contains("\"sample_rate\""),
            "not what follows from it: {freshness:?}"
        );
        let dropped = settings(&[("n_fft", "1024")]);
        let freshness = compare((&clip, &old), (&clip, &dropped));
        assert_eq!(freshness, rebuild(changed(None), false));
    }

    #[test]
    fn a_text_side_change_keeps_the_audio() {
        let old = settings(&[]);
        let clip = print(None);
        let mut other = clip;
        other.text = Hash128::of_text("two", None);
        let freshness = compare((&clip, &old), (&other, &old));
        assert_eq!(freshness, rebuild(RebuildReason::TextChanged, true));
        let mut new = old.clone();
        new.text.insert("lexicon".to_owned(), "mine".to_owned());
        assert!(matches!(
            compare((&clip, &old), (&clip, &new)),
            Freshness::Rebuild { reason: RebuildReason::SettingChanged { name, .. }, audio_fresh: true } if name == "lexicon"
        ));
    }

    #[test]
    fn content_overrules_size_and_time() {
        let settings = settings(&[]);
        let touched = |content| {
            let mut touched = print(content);
            touched.audio.modified_ns += 1;
            touched
        };
        let [plain, a, b] = [None, Some("a"), Some("b")].map(print);
        for (stored, now, expected) in [
            (a, plain, Freshness::Reuse),
            (a, b, rebuild(RebuildReason::AudioChanged, false)),
            (a, touched(Some("a")), Freshness::Reuse),
            (
                a,
                touched(None),
                rebuild(RebuildReason::AudioChanged, false),
            ),
            (plain, a, rebuild(RebuildReason::AudioUnverified, false)),
        ] {
            let freshness = compare((&stored, &settings), (&now, &settings));
            assert_eq!(freshness, expected, "{stored:?} {now:?}");
        }
    }

    #[test]
    fn text_and_language_hint_do_not_run_together() {
        let plain = Hash128::of_text("en", None);
        assert_ne!(plain, Hash128::of_text("", Some(Language::English)));
        let hinted = [Language::English, Language::Persian];
        let [english, persian] = hinted.map(|hint| Hash128::of_text("en", Some(hint)));
        assert_ne!(english, persian);
        let hex = plain.to_string();
        assert_eq!(Hash128::parse(&hex), Some(plain));
        for other in [
            &hex.to_uppercase()[..31],
            "+123456789abcdef0123456789abcdef",
        ] {
            assert_eq!(Hash128::parse(other), None, "{other}");
        }
    }

    #[test]
    fn a_stamp_sees_content_behind_an_equal_stat() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.wav");
        fs::write(&path, b"one").unwrap();
        let first = AudioStamp::with_content(&path).unwrap();
        let modified = fs::metadata(&path).unwrap().modified().unwrap();
        fs::write(&path, b"two").unwrap();
        let file = File::options().write(true).open(&path).unwrap();
        file.set_modified(modified).unwrap();
        let second = AudioStamp::with_content(&path).unwrap();
        let [a, b] = [first, second].map(|stamp| (stamp.bytes, stamp.modified_ns));
        assert_eq!(a, b);
        assert_ne!(first.content, second.content);
    }
}
