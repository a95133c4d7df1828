//! How fast batches get from one device to another, measured by the trainer's own move.

use voxmill_trainer::device::DeviceId;
use voxmill_trainer::prepare::{Transfer, time_transfer};

use super::open_device;
use crate::error::UserError;

/// From a short batch to one that is larger than any cache.
const SIZES: [u64; 4] = [100_000, 1_000_000, 8_000_000, 64_000_000];
const ROUNDS: usize = 9;

#[derive(Debug)]
pub(crate) struct Copied {
    pub(crate) data: DeviceId,
    pub(crate) model: DeviceId,
    /// Each size, or why nothing could be measured.
    pub(crate) sizes: Result<Vec<Transfer>, String>,
}

pub(crate) fn measure(data: DeviceId, model: DeviceId) -> Result<Copied, UserError> {
    let (from, to) = (open_device(data)?, open_device(model)?);
    let sizes = SIZES.map(|bytes| time_transfer(&from, &to, bytes, ROUNDS));
    Ok(Copied {
        data,
        model,
        sizes: sizes.into_iter().collect(),
    })
}
