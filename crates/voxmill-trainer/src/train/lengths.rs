//! How much longer clips are than the model predicts.

use burn::tensor::{Device, Tensor, TensorData};

use crate::device::read;
use crate::loss::Pass;

/// How fast the running sums forget.
const KEEP: f32 = 0.98;

/// Running sums of true and of predicted frames, on the device.
#[derive(Clone, Debug)]
pub(super) struct LengthSums(Tensor<1>);

impl LengthSums {
    pub(super) fn new(sums: [f32; 2], device: &Device) -> Self {
        Self(Tensor::from_floats(sums, device))
    }

    /// Adds a batch, as [`lengths_of`] gives it. One that is not finite must not spoil the sums for good.
    pub(super) fn add(&mut self, batch: Tensor<1>) {
        let is_fine = batch.clone().is_finite().all().expand([2]);
        let sums = self.0.clone();
        self.0 = sums.clone().mask_where(is_fine, sums * KEEP + batch);
    }

    /// Waits for the device.
    pub(super) fn read(&self) -> [f32; 2] {
        let values = read(self.0.clone());
        std::array::from_fn(|n| values.get(n).copied().unwrap_or(0.0))
    }
}

/// True and predicted frames of a batch.
pub(super) fn lengths_of(made: &Pass) -> Tensor<1> {
    let logs = made.encoded.log_durations.clone().inner();
    let (device, shape) = (logs.device(), logs.dims());
    let (_, mask) = made.durations.logs_and_mask();
    let mask = Tensor::<2>::from_data(TensorData::new(mask, shape), &device);
    let real: u32 = made.durations.all().iter().sum();
    let real = Tensor::from_floats([real as f32], &device);
    Tensor::cat(vec![real, (logs.exp() * mask).sum()], 0)
}
