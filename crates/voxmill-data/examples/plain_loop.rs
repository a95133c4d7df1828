//! Feeds a plain loop: `cargo run -p voxmill-data --example plain_loop -- path/to/LJSpeech-1.1`

use std::path::PathBuf;
use std::sync::Arc;

use voxmill_data::batch_plan::{BatchSettings, Position};
use voxmill_data::manifest::{Limits, Split};
use voxmill_data::{CacheHome, DatasetFolder, FeatureStore, Loader, LoaderSettings};
use voxmill_data::{Recipe, Recorder};

#[expect(clippy::print_stdout, reason = "an example prints what it got")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = PathBuf::from(std::env::args_os().nth(1).ok_or("which dataset folder?")?);
    let folder = DatasetFolder::new(path, None, None);
    let clips = folder.open(&Limits::default(), 0.05)?.manifest.clips;
    let cache = CacheHome::unbounded(folder.cache_dir());
    let (recipe, memory) = (Recipe::default(), 256 << 20);
    let store = FeatureStore::open(clips, recipe, Some(cache), memory, Recorder::off());
    let (plan, settings) = (BatchSettings::default(), LoaderSettings::default());
    let loader = Loader::new(&Arc::new(store), Split::Train, plan, settings)?;
    // Later, start with the position that was saved instead.
    let mut batches = loader.batches(Position::default(), Some(1))?;
    while let Some(batch) = batches.next().transpose()? {
        // Here the model trains on `batch.tokens`, `batch.sound` and their counts.
        println!("{:?}: {} clips", batch.position, batch.clip_count());
    }
    println!("resume at {:?}", batches.position());
    Ok(())
}
