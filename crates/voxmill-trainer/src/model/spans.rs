//! How long the rows of a batch are: beyond that is padding, which no result may depend on.

use std::ops::Range;
use std::sync::Arc;

use burn::tensor::{DType, Device, Tensor, TensorData};

/// The valid part of each row, as a list for the host and as a mask for the device.
#[derive(Clone, Debug)]
pub(crate) struct Spans {
    lengths: Arc<[usize]>,
    /// rows × time × 1: one where a row is valid.
    mask: Tensor<3>,
}

impl Spans {
    pub(crate) fn new(lengths: &[u32], time: usize, device: &Device) -> Self {
        let lengths: Arc<[usize]> = lengths.iter().map(|&n| n as usize).collect();
        let mask: Vec<f32> = lengths
            .iter()
            .flat_map(|&n| (0..time).map(move |at| f32::from(u8::from(at < n))))
            .collect();
        let mask = Tensor::from_data(TensorData::new(mask, [lengths.len(), time, 1]), device);
        Self { lengths, mask }
    }

    pub(crate) fn to_device(&self, device: &Device) -> Self {
        Self {
            lengths: Arc::clone(&self.lengths),
            mask: self.mask.clone().to_device(device),
        }
    }

    /// Of some rows.
    pub(crate) fn of_rows(&self, rows: Range<usize>) -> Self {
        Self {
            lengths: self.lengths[rows.clone()].into(),
            mask: self.mask.clone().narrow(0, rows.start, rows.len()),
        }
    }

    pub(crate) fn lengths(&self) -> &Arc<[usize]> {
        &self.lengths
    }

    pub(crate) fn mask(&self) -> Tensor<3> {
        self.mask.clone()
    }

    pub(crate) fn time(&self) -> usize {
        self.mask.dims()[1]
    }
}

/// Whether the kernels of our own can take a tensor: single precision on the CPU.
pub(super) fn by_hand<const D: usize>(tensor: &Tensor<D>) -> bool {
    tensor.dtype() == DType::F32 && crate::device::is_cpu(&tensor.device())
}
