//! Weights before the first step: normal numbers drawn from the seed and a weight's own path, on
//! the host, so that every device starts from the same ones.

use burn::module::Param;
use burn::tensor::{Device, Tensor, TensorData};
use voxmill_data::draw::draw;

/// Hands out the first values of the weights below one path.
pub(super) struct Init<'a> {
    seed: u64,
    path: String,
    device: &'a Device,
}

impl<'a> Init<'a> {
    pub(super) fn new(seed: u64, device: &'a Device) -> Self {
        Self {
            seed,
            path: String::new(),
            device,
        }
    }

    /// Of the part with this name.
    pub(super) fn part(&self, name: &str) -> Init<'a> {
        Init {
            path: format!("{}{name}.", self.path),
            ..*self
        }
    }

    pub(super) fn normal<const D: usize>(
        &self,
        name: &str,
        shape: [usize; D],
        deviation: f32,
    ) -> Param<Tensor<D>> {
        let mut state = draw(self.seed, 0, &format!("{}{name}", self.path), "weights");
        let count = shape.iter().product();
        let mut values = Vec::with_capacity(count + 1);
        while values.len() < count {
            let [a, b] = two_normal(&mut state);
            values.extend([a * deviation, b * deviation]);
        }
        values.truncate(count);
        Param::from_tensor(Tensor::from_data(
            TensorData::new(values, shape),
            self.device,
        ))
    }

    pub(super) fn constant<const D: usize>(
        &self,
        shape: [usize; D],
        value: f32,
    ) -> Param<Tensor<D>> {
        Param::from_tensor(Tensor::full(shape, value, self.device))
    }
}

/// Box–Muller: two even draws make two normal ones.
fn two_normal(state: &mut u64) -> [f32; 2] {
    let mut even = || (split_mix(state) >> 11) as f64 / (1u64 << 53) as f64;
    let radius = (-2.0 * (1.0 - even()).ln()).sqrt();
    let angle = std::f64::consts::TAU * even();
    [(radius * angle.cos()) as f32, (radius * angle.sin()) as f32]
}

/// SplitMix64, the usual generator for long runs of draws from one seed.
fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
