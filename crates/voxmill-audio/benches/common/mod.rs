use std::path::{Path, PathBuf};

/// The clips of `VOXMILL_BENCH_CLIPS`, or LJ Speech's next to the project, or else a fixture.
pub(crate) fn clips() -> Vec<PathBuf> {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = std::env::var_os("VOXMILL_BENCH_CLIPS").map_or_else(
        || package.join("../../../shared/data/ljspeech-32/wavs"),
        PathBuf::from,
    );
    let mut clips: Vec<PathBuf> = std::fs::read_dir(folder)
        .into_iter()
        .flatten()
        .map(|entry| entry.expect("readable folder").path())
        .collect();
    clips.sort();
    if clips.is_empty() {
        clips.push(package.join("data/fixtures/audio/mel/voice.wav"));
    }
    clips
}
