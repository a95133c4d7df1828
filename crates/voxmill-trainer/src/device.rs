//! Where the model runs.

pub use burn::tensor::Device;

/// The CPU: computes on the rayon pool of whoever calls.
pub fn cpu() -> Device {
    Device::flex()
}

/// Whether kernels of our own may look at a device's tensors as plain memory.
pub(crate) fn is_cpu(device: &Device) -> bool {
    *device == Device::flex()
}
