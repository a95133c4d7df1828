//! What a model computes in: 32 bits, or 16 where the device has them.

use burn::tensor::{DType, Device, FloatDType, Tensor};
use serde::{Deserialize, Serialize};

use super::find::without_panic;
use super::read;

/// What products and activations are made of. Weights, moments, losses and the statistics of norms
/// are 32-bit floats with each of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Precision {
    /// 32 bits.
    #[default]
    Single,
    /// 16 bits with the range of 32 and 8 bits of precision.
    Bf16,
    /// 16 bits with 11 bits of precision, in which small gradients vanish: it needs a loss scale.
    F16,
}

impl Precision {
    /// The 16 bits that a device can compute in; `None` where it has neither kind. bf16 comes first:
    /// nothing overflows in it that does not in 32 bits.
    pub fn half_of(device: &Device) -> Option<Precision> {
        [Precision::Bf16, Precision::F16]
            .into_iter()
            .find(|half| half.works_on(device))
    }

    /// Whether the device reports it, and then does it: a driver may report more than it can.
    pub(crate) fn works_on(self, device: &Device) -> bool {
        let dtype = self.dtype();
        without_panic(|| {
            device.supports_dtype(dtype) && {
                let numbers = Tensor::<2>::from_floats([[1.0, 2.0], [3.0, 4.0]], device);
                let numbers = numbers.cast(dtype);
                read(numbers.clone().matmul(numbers)) == [7.0, 10.0, 15.0, 22.0]
            }
        })
        .unwrap_or(false)
    }

    pub(crate) fn dtype(self) -> FloatDType {
        match self {
            Precision::Single => FloatDType::F32,
            Precision::Bf16 => FloatDType::BF16,
            Precision::F16 => FloatDType::F16,
        }
    }

    /// For people.
    pub fn describe(self) -> &'static str {
        match self {
            Precision::Single => "32-bit floats",
            Precision::Bf16 => "bf16 with 32-bit weights",
            Precision::F16 => "f16 with 32-bit weights and a loss scale",
        }
    }
}

/// In at least 32 bits: where sums over many values are made, or values are subtracted from their
/// like.
pub(crate) fn widened<const D: usize>(tensor: Tensor<D>) -> Tensor<D> {
    match tensor.dtype() {
        DType::F16 | DType::BF16 => tensor.cast(DType::F32),
        _ => tensor,
    }
}
