//! The data road of training: clips in, padded batches out.
//!
//! ```text
//! Shelf       features of all clips: found in the cache or made, once
//! Epochs      which rows of the road make which batch
//! BatchFeed   rows → featurize → keep → batch → collate → the caller's last stage
//! statistics  mean and deviation of the mel values of some clips
//! ```
//!
//! Batches are the same with a cold cache, a warm one or none, and with any number of workers.

mod batches;
mod epochs;
mod keeper;
mod shelf;
mod statistics;
#[cfg(test)]
mod tests;

pub(crate) use batches::{BatchFeed, FeedError, FeedSettings};
pub(crate) use keeper::CacheHome;
pub(crate) use shelf::Shelf;
