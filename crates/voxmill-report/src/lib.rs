//! What a run shows of itself. Functions of plain numbers: nothing here touches tensors, data or the terminal.

pub mod picture;
pub mod tensorboard;
