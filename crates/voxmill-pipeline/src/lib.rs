//! Moves items of any kind through stages. Knows nothing of speech or of tensors.

pub mod adapt;
pub mod counters;
