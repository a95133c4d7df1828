//! Where tensors live: which devices there are, how they are called, and opening one.
//!
//! One program holds several backends; which of them were compiled in is a matter of cargo features.
//! Opening goes through [`open`] alone, because the library panics where a driver is missing, and a
//! person deserves a sentence instead.

mod find;
mod gradients;
mod identity;
mod memory;
mod precision;
mod reader;
#[cfg(feature = "wgpu")]
pub(crate) mod wgpu;

use std::fmt;
use std::str::FromStr;

pub use burn::tensor::Device;
use burn::tensor::Tensor;

pub(crate) use find::panic_message;
pub use find::{FoundDevice, found, keep_kernels_in, open, signature, without_panic};
pub(crate) use gradients::{tracked_on, with_gradients};
pub use identity::{Identity, identity};
pub use memory::PoolMemory;
pub(crate) use memory::memory_in_use;
pub use precision::Precision;
pub(crate) use precision::widened;
pub(crate) use reader::{Coming, Reader};

/// The CPU: computes on the rayon pool of whoever calls.
pub fn cpu() -> Device {
    Device::flex()
}

/// Whether kernels of our own may read a device's tensors as plain memory.
pub fn is_cpu(device: &Device) -> bool {
    *device == Device::flex()
}

/// A way to reach devices, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Backend {
    Cuda,
    Rocm,
    Metal,
    Vulkan,
    Wgpu,
    Cpu,
}

impl Backend {
    /// The best first.
    pub const ALL: [Backend; 6] = [
        Backend::Cuda,
        Backend::Rocm,
        Backend::Metal,
        Backend::Vulkan,
        Backend::Wgpu,
        Backend::Cpu,
    ];

    /// As it is typed; also the cargo feature that compiles it in.
    pub fn name(self) -> &'static str {
        match self {
            Backend::Cuda => "cuda",
            Backend::Rocm => "rocm",
            Backend::Metal => "metal",
            Backend::Vulkan => "vulkan",
            Backend::Wgpu => "wgpu",
            Backend::Cpu => "cpu",
        }
    }

    pub(crate) fn is_compiled(self) -> bool {
        match self {
            Backend::Cuda => cfg!(feature = "cuda"),
            Backend::Rocm => cfg!(feature = "rocm"),
            Backend::Metal => cfg!(feature = "metal"),
            Backend::Vulkan => cfg!(feature = "spirv"),
            Backend::Wgpu => cfg!(feature = "wgpu"),
            Backend::Cpu => true,
        }
    }

    /// Those of this build.
    pub fn compiled() -> impl Iterator<Item = Backend> {
        (Self::ALL.into_iter()).filter(|backend| backend.is_compiled())
    }
}

/// Which device: `cpu`, `vulkan:1`. The number is the place in [`found`]'s list.
///
/// `wgpu:0+1` is a second logical device on the adapter of `wgpu:0`, with a queue and memory pools
/// of its own: what two GPUs do can be tried on one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DeviceId {
    pub backend: Backend,
    pub index: usize,
    pub logical: u32,
}

impl DeviceId {
    /// The one that is always there.
    pub const CPU: DeviceId = DeviceId::new(Backend::Cpu, 0);

    /// The `index`-th of a backend, without logical devices.
    pub const fn new(backend: Backend, index: usize) -> DeviceId {
        DeviceId {
            backend,
            index,
            logical: 0,
        }
    }

    /// Whether it is no GPU.
    pub fn is_cpu(self) -> bool {
        self.backend == Backend::Cpu
    }
}

impl fmt::Display for DeviceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.backend.name())?;
        if !self.is_cpu() {
            write!(f, ":{}", self.index)?;
        }
        if self.logical > 0 {
            write!(f, "+{}", self.logical)?;
        }
        Ok(())
    }
}

/// `auto` is no device and is not taken here.
impl FromStr for DeviceId {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<DeviceId, UnknownName> {
        let unknown = || UnknownName(text.to_owned());
        let (name, rest) = text.split_once(':').unwrap_or((text, "0"));
        let (index, logical) = rest.split_once('+').unwrap_or((rest, "0"));
        let backend = Backend::ALL.into_iter().find(|b| b.name() == name);
        let id = DeviceId {
            backend: backend.ok_or_else(unknown)?,
            index: index.parse().map_err(|_| unknown())?,
            logical: logical.parse().map_err(|_| unknown())?,
        };
        // The CPU is one device, and only these can be asked for a second logical one.
        let one_only = id.is_cpu() && text != "cpu";
        let not_logical = id.logical > 0 && !matches!(id.backend, Backend::Wgpu | Backend::Vulkan);
        match one_only || not_logical {
            true => Err(unknown()),
            false => Ok(id),
        }
    }
}

/// What names no device.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no device called `{0}`")]
pub struct UnknownName(pub String);

/// Why a device cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeviceError {
    #[error("this build has no `{}` backend", .0.name())]
    NotCompiled(Backend),
    /// The library said why, or panicked.
    #[error("`{}` finds no device: {why}", backend.name())]
    NoDriver { backend: Backend, why: String },
    #[error("there is no {id}: {}", count(*.id, *.found))]
    NoSuchIndex { id: DeviceId, found: usize },
    #[error("{id} cannot be opened: {why}")]
    NotOpened { id: DeviceId, why: String },
}

fn count(id: DeviceId, found: usize) -> String {
    let backend = id.backend.name();
    match found {
        0 => format!("`{backend}` sees no device"),
        1 => format!("`{backend}` sees one device, {backend}:0"),
        n => {
            let last = n - 1;
            format!("`{backend}` sees {n} devices, {backend}:0 to {backend}:{last}")
        }
    }
}

/// The values of a tensor, copied to the host at once.
///
/// The way in which this crate reads from a device, except for what it does not wait for (`train::alignments`). The bytes
/// that the library hands out may be filled in at the first access only, and a later operation on the same memory would
/// then show through; [`open`] turns that off, and this one reads at once.
pub(crate) fn read<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    tensor.into_data().iter::<f32>().collect()
}

/// The same for a single number.
pub(crate) fn read_one(tensor: Tensor<1>) -> f32 {
    read(tensor).first().copied().unwrap_or(f32::NAN)
}

/// The CPU and, where the build has it, the first GPU that wgpu finds, software or not. A build for
/// GPUs that finds none fails: tests that run on nothing prove nothing. `VOXMILL_TEST_DEVICE=cpu` leaves
/// the GPU out, so that one build can be tested on the CPU first and then, in a second run, on the GPU.
///
/// Tests that use it end in `on_every_device`: the second run chooses them by that name.
#[cfg(test)]
pub(crate) fn test_devices() -> Vec<Device> {
    // One test at a time runs on the main thread, whose name says nothing.
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("main");
    assert!(
        test == "main" || test.ends_with("on_every_device"),
        "{test} would be left out on the GPU: its name must end in `on_every_device`"
    );
    let mut devices = vec![cpu()];
    if cfg!(feature = "wgpu")
        && std::env::var_os("VOXMILL_TEST_DEVICE").is_none_or(|on| on != "cpu")
    {
        devices.push(test_gpu());
    }
    devices
}

#[cfg(test)]
pub(crate) fn test_gpu() -> Device {
    let gpu = open(DeviceId::new(Backend::Wgpu, 0));
    gpu.expect("a GPU, or Mesa's software one (mesa-vulkan-drivers)")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_called_as_they_are_typed() {
        for text in ["cpu", "cuda:0", "vulkan:3", "wgpu:0+1", "vulkan:1+1"] {
            let id: DeviceId = text.parse().expect(text);
            assert_eq!(id.to_string(), text);
        }
        let short: DeviceId = "vulkan".parse().expect("a name without a number");
        assert_eq!(short.to_string(), "vulkan:0");
    }

    #[test]
    fn names_that_mean_nothing_are_refused() {
        for text in [
            "", "gpu", "cpu:1", "cpu:0", "vulkan:", "vulkan:x", "cuda:0+1", "wgpu:0+", "auto",
        ] {
            assert!(text.parse::<DeviceId>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_backend_that_was_not_compiled_in_is_named() {
        for backend in Backend::ALL.into_iter().filter(|b| !b.is_compiled()) {
            let refused = open(DeviceId::new(backend, 0)).expect_err("not compiled in");
            assert_eq!(refused, DeviceError::NotCompiled(backend));
            assert!(refused.to_string().contains(backend.name()));
        }
    }

    #[test]
    fn the_cpu_is_always_there() {
        assert_eq!(open(DeviceId::CPU).expect("the CPU"), cpu());
        assert_eq!(found(Backend::Cpu).expect("the CPU").len(), 1);
    }
}
