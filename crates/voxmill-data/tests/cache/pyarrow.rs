//! The cache is Arrow to others too: read back by pyarrow, value by value.

use std::path::Path;
use std::process::Command;

use super::{Made, writer};

#[test]
fn pyarrow_reads_what_we_wrote() {
    let python = std::env::var_os("VOXMILL_TEST_PYTHON").expect(
        "VOXMILL_TEST_PYTHON is not set: run `cargo xtask test`, which installs pyarrow for this test",
    );
    let dir = tempfile::tempdir().unwrap();
    let mut writer = writer(dir.path(), 3);
    // Rewritten clips leave dead rows behind, which a reader must not take for live ones.
    for version in [1, 2] {
        for number in version..8 {
            let id = format!("clip-{number}");
            let clip = Made::new(&id, version, 9);
            writer.add(&id, &clip.fingerprint, clip.view()).unwrap();
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
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}");

    let text = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<serde_json::Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let expected: Vec<serde_json::Value> = [1, 2, 3, 4, 6, 7].map(as_json).into();
    assert_eq!(lines, expected);
}

fn as_json(number: i64) -> serde_json::Value {
    let id = format!("clip-{number}");
    let version = if number == 1 { 1 } else { 2 };
    let made = Made::new(&id, version, 9);
    let mel_bytes = made.audio.mel.iter().flat_map(|value| value.to_le_bytes());
    let mel: String = mel_bytes.map(|byte| format!("{byte:02x}")).collect();
    serde_json::json!({
        "id": id,
        "language": made.text.language.code(),
        "normalized": made.text.normalized,
        "tokens": made.text.tokens,
        "mel": mel,
        "shape": [9, 80],
        "audio_bytes": made.fingerprint.audio.bytes,
        "audio_modified_ns": version,
        "audio_hash": made.fingerprint.audio.content.map(|hash| hash.to_string()),
        "text_hash": made.fingerprint.text.to_string(),
        "hop_length": "256",
        "aligned": true,
        "copied": false,
    })
}
