//! The cache is Arrow to others too: read back by pyarrow, value by value.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::{Synthetic, add, writer};

#[test]
fn pyarrow_reads_what_we_wrote() {
    let python = std::env::var_os("VOXMILL_TEST_PYTHON").expect(
        "VOXMILL_TEST_PYTHON is not set: run `cargo xtask test`, which installs pyarrow for this test",
    );
    let dir = tempfile::tempdir().unwrap();
    let mut writer = writer(&dir, 3);
    // Rewritten clips leave dead rows behind, which a reader must not take for live ones.
    for version in [1, 2] {
        for number in version..8 {
            add(&mut writer, &format!("clip-{number}"), version, 9);
        }
    }
    writer.remove("clip-5");
    writer.commit().unwrap();

    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../xtask/python/read_cache.py");
    let output = Command::new(python)
        .arg(script)
        .arg(dir.path())
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");

    let text = String::from_utf8(output.stdout).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
    assert_eq!(
        Vec::<Value>::from_iter(lines),
        [1, 2, 3, 4, 6, 7].map(as_json)
    );
}

fn as_json(number: i64) -> Value {
    let id = format!("clip-{number}");
    let version = if number == 1 { 1 } else { 2 };
    let clip = Synthetic::new(&id, version, 9);
    let mel_bytes = clip.audio.mel.iter().flat_map(|value| value.to_le_bytes());
    let mel: String = mel_bytes.map(|byte| format!("{byte:02x}")).collect();
    serde_json::json!({
        "id": id,
        "language": clip.text.language.code(),
        "normalized": clip.text.normalized,
        "tokens": clip.text.tokens,
        "mel": mel,
        "shape": [9, 80],
        "audio_bytes": clip.fingerprint.audio.bytes,
        "audio_modified_ns": version,
        "audio_hash": clip.fingerprint.audio.content.map(|hash| hash.to_string()),
        "text_hash": clip.fingerprint.text.to_string(),
        "hop_length": "256",
        "aligned": true,
        "copied": false,
    })
}
