//! The voice model: training, checkpoints and speaking, on one device or two.
//!
//! The only crate that names the tensor library. It takes batches from anyone who has them and
//! knows neither files of speech nor threads that make features.

pub mod align;
pub mod checkpoint;
mod cpu;
pub mod device;
#[cfg(feature = "gpu")]
mod gpu;
mod loss;
pub mod memory;
pub mod model;
pub mod need;
#[cfg(all(test, feature = "wgpu"))]
mod on_gpu;
pub mod optimizer;
pub mod panics;
pub mod prepare;
pub mod schedule;
pub mod selftest;
pub mod synthesis;
mod test_data;
pub mod train;
