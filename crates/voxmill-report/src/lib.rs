//! What a run shows of itself: pictures, files for TensorBoard, text for a terminal. Functions of plain numbers: nothing here
//! touches tensors, data or the terminal itself.

pub mod picture;
pub mod tensorboard;
pub mod terminal;
