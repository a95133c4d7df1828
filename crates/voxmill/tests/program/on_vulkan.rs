//! `train` with kernels in SPIR-V, fused (and tuned, in the build that is), on whatever Vulkan driver there is.

use std::path::Path;

use crate::on_gpu::near;
use crate::train::Run;
use crate::{assert_has, expect};

/// The verdict on the device and the tuned kernels are kept where the other runs find them.
fn trained(cache: &Path, more: &str) -> (Run, String) {
    let run = Run::new();
    let more = format!("--max-steps 4 --no-evaluation --prepare-on host {more}");
    let text = expect(run.train(more).env("XDG_CACHE_HOME", cache), 0, &[]);
    (run, text)
}

/// The start of the run compares every part of the model with the CPU, and ends it where one differs.
#[test]
fn the_same_voice_is_trained_on_vulkan() {
    let cache = tempfile::tempdir().unwrap();
    let (cpu, _) = trained(cache.path(), "--device cpu");
    let (single, text) = trained(cache.path(), "--device vulkan:0");
    assert_has(&text, &["comparing vulkan:0 with the CPU"]);
    let pair = "--data-device vulkan:0 --model-device vulkan:0+1";
    let (pair, text) = trained(cache.path(), pair);
    assert_has(
        &text,
        &["two devices: vulkan:0 prepares, vulkan:0+1 trains"],
    );
    near(&cpu.losses(), &single.losses());
    near(&cpu.losses(), &pair.losses());
    #[cfg(feature = "vulkan")]
    {
        let kept = walk(&cache.path().join("voxmill/kernels"));
        assert!(kept > 0, "tuned kernels are kept from start to start");
    }
}

#[cfg(feature = "vulkan")]
fn walk(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let bytes = entries.map(|entry| match entry.path() {
        path if path.is_dir() => walk(&path),
        path => path.metadata().map_or(0, |file| file.len()),
    });
    bytes.sum()
}
