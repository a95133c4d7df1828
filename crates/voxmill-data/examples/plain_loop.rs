//! Feeds a plain loop: `cargo run -p voxmill-data --example plain_loop -- path/to/LJSpeech-1.1`

use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;

use voxmill_data::batch_plan::{BatchSettings, Position};
use voxmill_data::manifest::{Limits, Split};
use voxmill_data::store::CacheHome;
use voxmill_data::{Dataset, FeatureStore, Loader, LoaderSettings, Recipe};
use voxmill_telemetry::recorder::Recorder;

#[expect(clippy::print_stdout, reason = "an example shows what it got")]
fn main() -> Result<(), Box<dyn Error>> {
    let folder = PathBuf::from(std::env::args_os().nth(1).ok_or("which dataset folder?")?);
    let dataset = Dataset::open(&folder, None, &Limits::default(), 0.05)?;
    let cache = CacheHome {
        dir: folder.join("voxmill-cache/features"),
        budget_bytes: None,
    };
    let clips = dataset.manifest.clips;
    let store = FeatureStore::open(
        clips,
        Recipe::default(),
        Some(cache),
        256 << 20,
        Recorder::off(),
    );
    let loader = Loader::new(
        &Arc::new(store),
        Split::Train,
        BatchSettings::default(),
        LoaderSettings::default(),
    )?;
    let mut batches = loader.batches(Position::default(), Some(1))?;
    for batch in batches.by_ref() {
        let batch = batch?;
        println!(
            "{:?}: {} clips, {:?}",
            batch.position,
            batch.clip_count(),
            batch.shape
        );
    }
    println!("resume at {:?}", batches.position());
    Ok(())
}
