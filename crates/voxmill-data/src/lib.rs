//! Speech datasets as training batches: manifest → clip → features → cache → batch.
//!
//! Three types are enough to feed a loop of one's own:
//!
//! - [`Dataset`]: the clips of a folder, how they are split, and which are bad (quarantine);
//! - [`FeatureStore`]: the features of all clips, in the cache, in memory, or computed on demand;
//! - [`Loader`]: the batches of a split in plan order, made ahead on worker threads within a byte budget.
//!
//! A position is two integers: hand [`Batches::position`] to [`Loader::batches`] and the rest comes,
//! to the bit, with any number of workers, with a cold cache or a warm one. [`Loader::for_rank`] gives
//! the batches of one of several ranks; their number may change where a run resumes.
//!
//! ```
//! use std::sync::Arc;
//! use voxmill_data::batch_plan::{BatchSettings, Position};
//! use voxmill_data::manifest::{Limits, Split};
//! use voxmill_data::{Dataset, FeatureStore, Loader, LoaderSettings, Recipe};
//! use voxmill_telemetry::recorder::Recorder;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let home = tempfile::tempdir()?;
//! # let folder = voxmill_data::demo::unpack(&home.path().join("demo"))?.dir;
//! let dataset = Dataset::open(&folder, None, &Limits::default(), 0.05)?;
//! let clips = dataset.manifest.clips;
//! let hold_bytes = 256 << 20;
//! let store = FeatureStore::open(clips, Recipe::default(), None, hold_bytes, Recorder::off());
//! let loader = Loader::new(
//!     &Arc::new(store),
//!     Split::Train,
//!     BatchSettings::default(),
//!     LoaderSettings::default(),
//! )?;
//! let mut batches = loader.batches(Position::default(), Some(1))?;
//! for batch in batches.by_ref().take(3) {
//!     let batch = batch?;
//!     assert_eq!(batch.tokens.len(), (batch.shape.rows * batch.shape.tokens) as usize);
//! }
//! batches.finish_batch();
//! assert_eq!(batches.position(), Position { epoch: 0, batch: 3 });
//! # Ok(())
//! # }
//! ```
//!
//! `examples/plain_loop.rs` does the same with a cache. Nothing in this crate prints or knows tensors.

pub mod batch;
pub mod batch_plan;
pub mod build;
pub mod cache;
pub mod dataset;
pub mod demo;
pub mod draw;
pub mod featurize;
pub mod loader;
pub mod manifest;
pub mod store;

pub use dataset::{Dataset, DatasetFolder};
pub use featurize::Recipe;
pub use loader::{Batches, Loader, LoaderError, LoaderSettings};
pub use store::FeatureStore;

/// What the model gets of a clip.
pub mod features {
    pub use voxmill_audio::{AudioFeatures, Levels};
    pub use voxmill_text::TextFeatures;
}
