//! The plain layers: a matrix with a bias, and the norm of a frame's channels.

#[cfg(feature = "gpu")]
use burn::module::ParamId;
use burn::module::{Module, Param};
use burn::tensor::{DType, Tensor};

use super::init::Init;
use crate::cpu::NORM_EPSILON;
use crate::device::widened;
#[cfg(feature = "gpu")]
use crate::gpu;

#[derive(Module, Debug)]
pub(super) struct Dense {
    /// inputs × outputs
    pub(super) weight: Param<Tensor<2>>,
    pub(super) bias: Param<Tensor<1>>,
    /// Both in 16 bits, made once a step of the weights as they are now; of no other use.
    #[cfg(feature = "gpu")]
    #[module(skip)]
    casts: Option<Casts>,
}

#[cfg(feature = "gpu")]
#[derive(Clone, Debug)]
struct Casts {
    weight: Tensor<2>,
    bias: Tensor<1>,
}

impl Dense {
    pub(super) fn new(init: &Init<'_>, inputs: usize, outputs: usize, gain: f32) -> Self {
        let deviation = gain / (inputs as f32).sqrt();
        Self {
            weight: init.normal("weight", [inputs, outputs], deviation),
            bias: init.constant([outputs], 0.0),
            #[cfg(feature = "gpu")]
            casts: None,
        }
    }

    /// Takes copies of its weights in 16 bits, flat, by their ids; or none.
    #[cfg(feature = "gpu")]
    pub(super) fn take_casts(&mut self, cast: &impl Fn(ParamId) -> Option<Tensor<1>>) {
        let casts = cast(self.weight.id).zip(cast(self.bias.id));
        self.casts = casts.map(|(weight, bias)| Casts {
            weight: weight.reshape(self.weight.shape()),
            bias,
        });
    }

    /// Matrix and bias in this precision.
    pub(super) fn weights_in(&self, dtype: DType) -> (Tensor<2>, Tensor<1>) {
        let (weight, bias) = (self.weight.val(), self.bias.val());
        #[cfg(feature = "gpu")]
        if let Some(casts) = (self.casts.as_ref()).filter(|casts| casts.weight.dtype() == dtype) {
            return (
                gpu::stand_in(weight, casts.weight.clone()),
                gpu::stand_in(bias, casts.bias.clone()),
            );
        }
        (weight.cast(dtype), bias.cast(dtype))
    }

    /// Every frame by itself, as one product.
    pub(super) fn forward(&self, frames: Tensor<3>) -> Tensor<3> {
        let [rows, time, inputs] = frames.dims();
        let flat = self.forward_rows(frames.reshape([rows * time, inputs]));
        let outputs = flat.dims()[1];
        flat.reshape([rows, time, outputs])
    }

    /// In the precision of the rows. The weights' gradients come back in the weights' own.
    pub(super) fn forward_rows(&self, rows: Tensor<2>) -> Tensor<2> {
        let (weight, bias) = self.weights_in(rows.dtype());
        rows.matmul(weight) + bias.unsqueeze()
    }
}

#[derive(Module, Debug)]
pub(super) struct Norm {
    pub(super) gain: Param<Tensor<1>>,
    pub(super) bias: Param<Tensor<1>>,
}

impl Norm {
    pub(super) fn new(init: &Init<'_>, channels: usize) -> Self {
        Self {
            gain: init.constant([channels], 1.0),
            bias: init.constant([channels], 0.0),
        }
    }

    /// In at least 32 bits, and so is what comes out: means and variances are sums over all channels.
    pub(super) fn forward(&self, frames: Tensor<3>) -> Tensor<3> {
        let frames = widened(frames);
        let centred = frames.clone() - frames.mean_dim(2);
        let variance = centred.clone().square().mean_dim(2);
        let unit = centred / (variance + NORM_EPSILON).sqrt();
        unit * self.gain.val().unsqueeze() + self.bias.val().unsqueeze()
    }
}
