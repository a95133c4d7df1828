//! Speech datasets as training batches: manifest → clip → features → cache → batch.
//!
//! Three types are enough to feed a loop of your own:
//!
//! - [`Dataset`]: the clips of a folder, how they are split, and which are bad (quarantine);
//! - [`FeatureStore`]: the features of all clips, in the cache, in memory, or computed on demand;
//! - [`Loader`]: the batches of a split in plan order, computed ahead on worker threads within a byte budget.
//!
//! ```
//! use std::sync::Arc;
//! use voxmill_data::batch::Sound;
//! use voxmill_data::batch_plan::{BatchSettings, Position};
//! use voxmill_data::manifest::{Limits, Split};
//! use voxmill_data::{Dataset, FeatureStore, Loader, LoaderSettings, Recipe, Recorder};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let home = tempfile::tempdir()?;
//! # let folder = voxmill_data::demo::unpack(&home.path().join("demo"))?.dir;
//! // 5 % of the clips are for validation, unless the folder has a split of its own.
//! let dataset = Dataset::open(&folder, None, &Limits::default(), 0.05)?;
//! let clips = dataset.manifest.clips;
//! // No cache here; up to 256 MB of features stay in memory.
//! let store = FeatureStore::open(clips, Recipe::default(), None, 256 << 20, Recorder::off());
//! let (plan, settings) = (BatchSettings::default(), LoaderSettings::default());
//! let loader = Loader::new(&Arc::new(store), Split::Train, plan, settings)?;
//! // One epoch from the start; `None` in place of `Some(1)` never ends.
//! let mut batches = loader.batches(Position::default(), Some(1))?;
//! for batch in batches.by_ref().take(3) {
//!     let batch = batch?;
//!     // Plain vectors: row after row, padded to the shape; the counts are the lengths before padding.
//!     let rows = batch.shape.rows as usize;
//!     assert_eq!(batch.tokens.len(), rows * batch.shape.tokens as usize);
//!     assert_eq!(batch.token_counts.len(), rows);
//!     if let Sound::LogMel { frames, .. } = &batch.sound {
//!         let frame = usize::from(batch.mel_channels);
//!         assert_eq!(frames.len(), rows * batch.shape.frames as usize * frame);
//!     }
//! }
//! batches.finish_batch();
//! assert_eq!(batches.position(), Position { epoch: 0, batch: 3 });
//! # Ok(())
//! # }
//! ```
//!
//! `examples/plain_loop.rs` does the same with a cache, in about 20 lines.
//!
//! **Batches.** A [`batch::Batch`] holds token ids, log-mel frames (natural logarithms, not normalised; see
//! [`FeatureStore::mel_statistics`]), speakers, languages, and a reference for each row: a crop of another
//! clip of its speaker. A model without references ignores it. Every batch of a shape has the same size; a
//! row without a clip is masked, with counts of 0.
//!
//! **Resuming.** A [`batch_plan::Position`] is two integers. Save [`Batches::position`] and give it to
//! [`Loader::batches`]: the same batches follow, to the bit, with any number of workers and with a cold or a
//! warm cache. [`Loader::for_rank`] gives the batches of one of several ranks; their number may change where
//! a run resumes.
//!
//! **What goes wrong.** A bad clip ends nothing. Rows that cannot be used are in the manifest's quarantine;
//! clips that fail later become masked rows, and [`FeatureStore::bad`] lists them. A cache that cannot be
//! used is one of [`FeatureStore::notes`]. The iterator yields an error only if the pipeline itself fails.
//!
//! Nothing in this crate prints or knows tensors.

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
pub use store::{CacheHome, FeatureStore};
#[doc(inline)]
pub use voxmill_pipeline::plan::Order;
#[doc(inline)]
pub use voxmill_telemetry::recorder::Recorder;

/// The features of a clip: what the model gets of it.
pub mod features {
    #[doc(inline)]
    pub use voxmill_audio::{AudioFeatures, Levels, Quality};
    #[doc(inline)]
    pub use voxmill_text::TextFeatures;
}
