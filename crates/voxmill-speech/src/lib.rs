//! From speech files to features and training batches.
//!
//! Everything here is a function of one clip, or of plain lists, that callers run in parallel as
//! they see fit: no threads, no tensors, no printing. The data road of this crate reads
//! manifest → clip → features → cache → batch plan.

pub mod audio;
pub mod batch;
pub mod batch_plan;
pub mod cache;
pub mod demo;
pub mod draw;
pub mod features;
pub mod language;
pub mod manifest;
pub mod text;
