//! How many kernels a step launches, by the backend's own report of each launch.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::thread::ThreadId;

use burn_cubecl::cubecl::logging::{LaunchObservation, LaunchObserver};

use super::*;
use crate::align::Durations;
use crate::loss::pass_with;
use crate::model::ModelSize;

/// Launches by kernel, of the thread that made it: other tests may run at the same time.
struct Launches {
    of: ThreadId,
    by_kernel: Mutex<BTreeMap<String, usize>>,
}

impl LaunchObserver for Launches {
    fn launched(&self, kernel: &'static str) {
        if std::thread::current().id() == self.of {
            let kernel = kernel.split('<').next().unwrap_or(kernel);
            let kernel = kernel.rsplit("::").next().unwrap_or(kernel).to_owned();
            *self
                .by_kernel
                .lock()
                .expect("nobody panics with it")
                .entry(kernel)
                .or_default() += 1;
        }
    }
}

/// What some work gives, and how many kernels it launched, which it prints by kind.
fn counted<T>(what: &str, work: impl FnOnce() -> T) -> (T, usize) {
    let launches = Arc::new(Launches {
        of: std::thread::current().id(),
        by_kernel: Mutex::default(),
    });
    let observation = LaunchObservation::new(Arc::clone(&launches) as _);
    let made = work();
    drop(observation);
    let by_kernel = launches.by_kernel.lock().expect("nobody panics with it");
    let sum = by_kernel.values().sum();
    #[allow(clippy::print_stdout, reason = "the record is made of it")]
    {
        println!("{what}: {sum} kernels {by_kernel:#?}");
    }
    (made, sum)
}

/// A tiny step once alignments are settled, and not the first one: the model that is trained by default, and few frames,
/// which change nothing about the number of kernels.
#[test]
fn a_step_launches_few_kernels() {
    let gpu = test_gpu();
    let (facts, device) = (small_voice(), gpu.clone().autodiff());
    let mut model = Voice::new(&ModelSize::Tiny.shape(), facts.vocabulary, 3, &device);
    let mut state = OptimizerState::new(&model, &gpu);
    let batch = prepared(&gpu, batch());
    let durations = Durations::new([vec![4; 10], vec![0; 10], vec![3; 10]].concat(), 10);
    let mut launched = 0;
    for _ in 0..2 {
        let forward = || pass_with(&model, &batch, durations.clone(), false, COUNTS).0;
        let (made, forward) = counted("forward", forward);
        let backward = || FlatGradients::collect(&model, made.losses.total().backward());
        let (gradients, backward) = counted("backward", backward);
        let step = || AdamW::default().step(model, state, gradients, 1e-3);
        let (stepped, optimizer) = counted("optimizer", step);
        (model, state, _) = stepped;
        launched = forward + backward + optimizer;
        println!("step: {launched} kernels");
    }
    // 8,329 before weights were updated together and blocks were one operation.
    assert!(launched < 3_200, "{launched}");
}
