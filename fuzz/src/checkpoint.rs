//! Checkpoints: a voice may be anybody's, and so may a run that is resumed.

use std::collections::BTreeMap;

use safetensors::tensor::{Dtype, TensorView};
use serde_json::json;
use voxmill_audio::{AudioSettings, GriffinLim, Vocoder as _};
use voxmill_text::symbols::SymbolTable;
use voxmill_text::{LANGUAGE_IDS, Language};
use voxmill_trainer::checkpoint::{
    CHECKPOINT_VERSION, CheckpointFacts, CheckpointFolder, PrepareOn, Progress, StoredAlignments,
    VoiceFacts,
};
use voxmill_trainer::device::{self, Precision};
use voxmill_trainer::model::{ModelShape, ModelSize, Vocabulary, Voice};
use voxmill_trainer::prepare::MelStatistics;
use voxmill_trainer::synthesis::TrainedVoice;

use crate::{FuzzFolder, kind, size};

/// Between the three files: facts, voice, training.
const NEXT_FILE: &[u8] = b"\n--next file--\n";

/// Stand in the facts for the length and hash of the files, whatever is in these.
const VOICE: [&str; 2] = ["7001", "voice-hash"];
const TRAINING: [&str; 2] = ["7002", "training-hash"];

pub(crate) fn read_checkpoint(place: &FuzzFolder, bytes: &[u8]) -> String {
    let (json, rest) = split(bytes);
    let (voice, training) = split(rest);
    let cpu = device::cpu();
    let mut found = match TrainedVoice::from_bytes(json, voice, &cpu) {
        Ok(trained) => speak(&trained),
        Err(error) => kind(&error),
    };
    let folder = place.empty("checkpoint");
    let named = with_hashes(json, VOICE, voice);
    let named = with_hashes(&named, TRAINING, training);
    let files = [
        ("checkpoint.json", &named[..]),
        ("voice.safetensors", voice),
        ("training.safetensors", training),
    ];
    for (name, bytes) in files {
        place.put(&format!("checkpoint/{name}"), bytes);
    }
    found.push(' ');
    match CheckpointFolder::open(&folder) {
        Ok(opened) => match opened.check_training(&cpu.autodiff()) {
            Ok(()) => found.push_str("resumes"),
            Err(error) => found.push_str(&kind(&error)),
        },
        Err(error) => found.push_str(&kind(&error)),
    }
    found
}

/// What `synthesize` does with a voice, for a short text.
fn speak(voice: &TrainedVoice) -> String {
    let facts = voice.facts();
    let style = vec![0.1; facts.shape.style];
    let last = facts.symbols.symbols.len().min(20) as u16 - 1;
    let spoken = voice.speak(&[last, 0, last], Language::English, &style, 1.0);
    let sound = spoken.frames() < 200 && facts.audio.n_fft <= 4096;
    let samples = sound.then(|| match GriffinLim::new(&facts.audio) {
        Ok(vocoder) => size(vocoder.with_iterations(1).waveform(&spoken.mel).len()).to_string(),
        Err(error) => kind(&error),
    });
    format!("{} {samples:?}", size(spoken.frames()))
}

/// The part before the separator and the one after it, which may be empty.
fn split(bytes: &[u8]) -> (&[u8], &[u8]) {
    let mut windows = bytes.windows(NEXT_FILE.len());
    match windows.position(|window| window == NEXT_FILE) {
        Some(at) => (&bytes[..at], &bytes[at + NEXT_FILE.len()..]),
        None => (bytes, &[]),
    }
}

fn with_hashes(json: &[u8], [length, hash]: [&str; 2], file: &[u8]) -> Vec<u8> {
    let Ok(text) = std::str::from_utf8(json) else {
        return json.to_owned();
    };
    let text = text.replacen(length, &file.len().to_string(), 1);
    let text = text.replacen(hash, &blake3::hash(file).to_hex(), 1);
    text.into_bytes()
}

/// The smallest voice there can be.
fn facts() -> CheckpointFacts {
    let symbols = SymbolTable::built_in();
    let audio = AudioSettings {
        n_mels: 4,
        n_fft: 64,
        hop_length: 16,
        ..AudioSettings::default()
    };
    let voice = VoiceFacts {
        size: ModelSize::Nano,
        shape: ModelShape {
            channels: 1,
            encoder_blocks: 1,
            encoder_widen: 1,
            decoder_blocks: 1,
            decoder_widen: 1,
            reference_channels: 1,
            reference_blocks: 1,
            style: 2,
        },
        vocabulary: Vocabulary {
            tokens: symbols.symbols.len(),
            languages: LANGUAGE_IDS,
            mel_channels: audio.n_mels,
        },
        symbols,
        audio,
        mel_statistics: MelStatistics {
            mean: -5.0,
            deviation: 2.0,
        },
        length_scale: 1.0,
        speakers: BTreeMap::from([("one".to_owned(), vec![0.5, -0.5])]),
        main_speaker: "one".to_owned(),
        languages: Default::default(),
        recordings: None,
    };
    CheckpointFacts {
        voice,
        progress: Progress::default(),
        settings: json!({"run": "somewhere"}),
        quarantine: vec!["clip-7".to_owned()],
        alignments: StoredAlignments::default(),
        prepare_on: PrepareOn::Host,
        precision: Precision::default(),
    }
}

pub(crate) fn checkpoint_seeds(_: &FuzzFolder) -> Vec<Vec<u8>> {
    let facts = facts();
    let model = Voice::new(
        &facts.voice.shape,
        facts.voice.vocabulary,
        0,
        &device::cpu(),
    );
    let weights = model.shapes();
    let named = |prefix: &str| {
        let name =
            |(path, shape): &(String, Vec<usize>)| (format!("{prefix}{path}"), shape.clone());
        weights.iter().map(name).collect::<Vec<_>>()
    };
    let moments = |kind: &str| {
        let flat = |(name, shape): (String, Vec<usize>)| (name, vec![shape.iter().product()]);
        named(kind).into_iter().map(flat).collect()
    };
    let counts = vec![
        ("updates".to_owned(), vec![1]),
        ("lengths".to_owned(), vec![2]),
    ];
    let training = [
        named("weight/"),
        moments("first/"),
        moments("second/"),
        counts,
    ]
    .concat();
    let mut json = serde_json::to_value(&facts).expect("plain values");
    let file = |[length, hash]: [&str; 2]| {
        let bytes: u64 = length.parse().expect("it is a number");
        json!({"bytes": bytes, "blake3": hash})
    };
    json["version"] = json!(CHECKPOINT_VERSION);
    json["program"] = json!("fuzz");
    json["files"] =
        json!({"voice.safetensors": file(VOICE), "training.safetensors": file(TRAINING)});
    let json = serde_json::to_vec(&json).expect("plain values");
    vec![[&json[..], &tensors(&named("")), &tensors(&training)].join(NEXT_FILE)]
}

/// A file of these tensors, all halves.
fn tensors(shapes: &[(String, Vec<usize>)]) -> Vec<u8> {
    let most = shapes.iter().map(|(_, shape)| shape.iter().product());
    let bytes = 0.5_f32.to_le_bytes().repeat(most.max().unwrap_or(0));
    let views = shapes.iter().map(|(name, shape)| {
        let length = 4 * shape.iter().product::<usize>();
        let view = TensorView::new(Dtype::F32, shape.clone(), &bytes[..length]);
        (name.clone(), view.expect("as many bytes as the shape says"))
    });
    safetensors::serialize(views, None).expect("distinct names and sizes that fit")
}
