//! How much memory a backend's pools hold on a device.

use burn::tensor::Device;

/// Of all pools of the process on that device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolMemory {
    /// Tensors that are alive.
    pub in_use: u64,
    /// All that was taken from the device, in use or kept for later.
    pub reserved: u64,
}

/// `None` where the backend does not report it, as on the CPU.
pub(crate) fn memory_in_use(device: &Device) -> Option<PoolMemory> {
    let usage = device.clone().inner().memory_pool_usage()?;
    Some(PoolMemory {
        in_use: usage.bytes_in_use,
        reserved: usage.bytes_reserved,
    })
}
