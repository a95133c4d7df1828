//! What a run shows of itself: results for programs, text for a terminal, the dashboard, pictures, a page,
//! files for TensorBoard. Functions of plain values: nothing here touches tensors, data or the terminal itself.

pub mod dashboard;
pub use voxmill_format as format;
pub mod page;
pub mod picture;
pub mod results;
pub mod tensorboard;
pub mod terminal;
