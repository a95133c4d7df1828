//! How many kernels a step launches, by the backend's own report of each launch.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use burn_cubecl::cubecl::logging::{LaunchObservation, LaunchObserver};

use super::parity::{COUNTS, batch, prepared};
use crate::align::Durations;
use crate::device::Device;
use crate::loss::pass_with;
use crate::model::{ModelSize, Voice};
use crate::optimizer::{AdamW, FlatGradients, OptimizerState};
use crate::test_data::small_voice;

/// How often each kernel was launched.
pub(crate) type ByKernel = BTreeMap<String, usize>;

/// Launches of all threads: a backend that fuses kernels launches them on a thread of its own. So nothing else may use a
/// GPU meanwhile.
#[derive(Default)]
struct Launches {
    by_kernel: Mutex<ByKernel>,
}

impl Launches {
    fn by_kernel(&self) -> MutexGuard<'_, ByKernel> {
        self.by_kernel
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl LaunchObserver for Launches {
    fn launched(&self, kernel: &'static str) {
        let kernel = kernel.split('<').next().unwrap_or(kernel);
        let kernel = kernel.rsplit("::").next().unwrap_or(kernel).to_owned();
        *self.by_kernel().entry(kernel).or_default() += 1;
    }
}

/// What some work gives, and the kernels that it launched.
pub(crate) fn counted<T>(device: &Device, work: impl FnOnce() -> T) -> (T, ByKernel) {
    let launches = Arc::new(Launches::default());
    let observation = LaunchObservation::new(Arc::clone(&launches) as _);
    let made = work();
    // What was only queued is launched. Where that fails, whoever reads hears of it.
    let _ = device.sync();
    drop(observation);
    let by_kernel = std::mem::take(&mut *launches.by_kernel());
    (made, by_kernel)
}

/// Forward, backward and optimizer of a step of the tiny model, once alignments are settled; few frames, which change
/// nothing about the number of kernels. The second step: in the first, what is kept for later steps is made.
pub(super) fn of_a_tiny_step(gpu: &Device) -> [ByKernel; 3] {
    let (facts, device) = (small_voice(), gpu.clone().autodiff());
    let mut model = Voice::new(&ModelSize::Tiny.shape(), facts.vocabulary, 3, &device);
    let mut state = OptimizerState::new(&model, gpu);
    let batch = prepared(gpu, batch());
    let durations = Durations::new([vec![4; 10], vec![0; 10], vec![3; 10]].concat(), 10);
    let mut launched = Default::default();
    for _ in 0..2 {
        let forward = || pass_with(&model, &batch, durations.clone(), false, COUNTS).0;
        let (made, forward) = counted(gpu, forward);
        let backward = || FlatGradients::collect(&model, made.losses.total().backward());
        let (gradients, backward) = counted(gpu, backward);
        let step = || AdamW::default().step(model, state, gradients, 1e-3);
        let (stepped, optimizer) = counted(gpu, step);
        (model, state, _) = stepped;
        launched = [forward, backward, optimizer];
    }
    launched
}

#[cfg(all(test, feature = "wgpu"))]
mod tests {
    use super::*;
    use crate::device::test_gpu;

    #[test]
    fn a_step_launches_few_kernels_on_gpu() {
        let launched = of_a_tiny_step(&test_gpu());
        println!("{launched:#?}");
        let sum: usize = launched.iter().flat_map(ByKernel::values).sum();
        // 653; 8,329 before weights were updated together and blocks were one operation.
        assert!(sum < 700, "{sum}");
    }
}
