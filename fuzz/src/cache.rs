//! Files of the cache. Their names hold the hash of their content, so that chance damage is found before it is read;
//! here the hash is always right, as somebody who means harm would have it.

use std::fs;
use std::path::Path;

use voxmill_audio::{AudioFeatures, Levels};
use voxmill_data::cache::{
    AudioStamp, Cache, CacheWriter, ClipView, FORMAT_VERSION, FeatureSettings, Fingerprint,
    Hash128, WriterOptions,
};
use voxmill_text::{Language, TextFeatures};

use crate::{FuzzFolder, kind, size};

pub(crate) fn read_shard(place: &FuzzFolder, bytes: &[u8]) -> String {
    let folder = place.empty("cache");
    write_named(&folder, "shard", 0, bytes);
    read_folder(&folder)
}

pub(crate) fn read_index(place: &FuzzFolder, bytes: &[u8]) -> String {
    let folder = place.empty("cache");
    let (_, shard) = written(place);
    write_named(&folder, "shard", 0, &shard);
    write_named(&folder, "index", 0, bytes);
    read_folder(&folder)
}

fn write_named(folder: &Path, kind: &str, number: u64, bytes: &[u8]) {
    let hash = Hash128::of(bytes);
    let name = format!("{kind}-v{FORMAT_VERSION}-{number:06}-{hash}.arrow");
    fs::write(folder.join(name), bytes).expect("the folder can be written");
}

/// Reads it, has it repaired, and reads it once more.
fn read_folder(folder: &Path) -> String {
    let mut found = read_all(folder);
    match CacheWriter::open(folder, FeatureSettings::default(), WriterOptions::default()) {
        Ok(mut writer) => {
            let (fingerprint, text, audio) = clip(1);
            let added = writer.add("new", &fingerprint, ClipView::new(&text, &audio));
            let committed = added.is_ok() && writer.commit().is_ok();
            drop(writer);
            let cache = Cache::open(folder).expect("it could be written");
            let whole = matches!(cache.get("new"), Ok(Some(_)));
            assert!(whole || !committed, "what was committed is there");
        }
        Err(error) => found.push_str(&kind(&error)),
    }
    found + &read_all(folder)
}

fn read_all(folder: &Path) -> String {
    let cache = match Cache::open(folder) {
        Ok(cache) => cache,
        Err(error) => return kind(&error),
    };
    cache.check_some();
    cache.check_shards();
    let (mut whole, mut damaged) = (0, 0);
    for (id, entry) in cache.entries() {
        match cache.get(id) {
            Ok(Some(clip)) => {
                assert_eq!(clip.frames(), entry.frames as usize);
                assert!(clip.mel.iter().all(|value| !value.is_nan()) || entry.frames > 0);
                whole += clip.tokens.len() + clip.normalized.len();
            }
            Ok(None) => panic!("an entry has no clip"),
            Err(_) => damaged += 1,
        }
    }
    let warnings: Vec<_> = cache
        .warnings()
        .iter()
        .map(|warning| kind(warning))
        .collect();
    format!("{} {damaged} {warnings:?}", size(whole))
}

/// A clip of a few frames.
fn clip(number: u16) -> (Fingerprint, TextFeatures, AudioFeatures) {
    let fingerprint = Fingerprint {
        audio: AudioStamp {
            bytes: 1_000,
            modified_ns: 5,
            content: Some(Hash128::of(b"audio")),
        },
        text: Hash128::of(b"text"),
    };
    let text = TextFeatures {
        language: Language::English,
        normalized: format!("clip {number}"),
        tokens: vec![number, 7, 9],
    };
    let audio = AudioFeatures {
        mel: vec![-3.5; 4 * 3],
        mel_channels: 4,
        levels: Levels {
            peak: 0.5,
            rms_dbfs: -20.0,
            clipped_share: 0.0,
        },
    };
    (fingerprint, text, audio)
}

/// The bytes of an index and of the shard that it names.
fn written(place: &FuzzFolder) -> (Vec<u8>, Vec<u8>) {
    let folder = place.path().join("written-cache");
    if !folder.exists() {
        let settings = FeatureSettings::default();
        let writer = CacheWriter::open(&folder, settings, WriterOptions::default());
        let mut writer = writer.expect("an empty folder is a cache");
        for number in 0..3 {
            let (fingerprint, text, audio) = clip(number);
            let view = ClipView::new(&text, &audio);
            let added = writer.add(&format!("clip-{number}"), &fingerprint, view);
            added.expect("it fits");
        }
        writer.commit().expect("the folder can be written");
    }
    let file = |kind: &str| {
        let files = fs::read_dir(&folder).expect("it is there").flatten();
        let mut files = files.filter(|file| file.file_name().to_string_lossy().starts_with(kind));
        let file = files.next().expect("it was written");
        fs::read(file.path()).expect("it can be read")
    };
    (file("index-"), file("shard-"))
}

pub(crate) fn shard_seeds(place: &FuzzFolder) -> Vec<Vec<u8>> {
    vec![written(place).1]
}

pub(crate) fn index_seeds(place: &FuzzFolder) -> Vec<Vec<u8>> {
    vec![written(place).0]
}
