//! The update of all weights of a buffer in one kernel, and gradients put into such a buffer, several at once.

#[cfg(feature = "fused")]
use burn::backend::fusion::custom::TensorSpec;
use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, Dispatch, ExtensionType, TensorMetadata as _, backend_extension};
use burn::tensor::Tensor;
use burn_cubecl::tensor::CubeTensor;

use super::launch::{Cube, element, empty, one_for_each, plain};
use super::update_kernels::{adam_kernel, place_kernel};
#[cfg(feature = "fused")]
use crate::optimizer::WeightStateMetadata;
use crate::optimizer::{AdamNumbers, Moments, WeightState, updated};

/// The new weights and their state. `control` is on the device: nobody waits to learn whether the step counts.
pub(crate) fn adam(
    n: AdamNumbers,
    control: Tensor<1>,
    weight: Tensor<1>,
    gradient: Tensor<1>,
    moments: Moments,
) -> (Tensor<1>, Moments) {
    let (gradient, control) = (gradient.into_dispatch(), control.into_dispatch());
    updated(weight, moments, |old| {
        <Dispatch as UpdateOps>::adam(old, gradient, control, n)
    })
}

/// How many parts one kernel puts into a buffer: with the buffer and the sizes as many as every device binds.
pub(crate) const PLACED_AT_ONCE: usize = 6;

/// The buffer with these parts where they belong, at most [`PLACED_AT_ONCE`] of them.
pub(crate) fn place(packed: Tensor<1>, parts: Vec<(usize, Tensor<1>)>) -> Tensor<1> {
    assert!(parts.len() <= PLACED_AT_ONCE, "{} parts", parts.len());
    let Some((_, first)) = parts.first() else {
        return packed;
    };
    // Places that are left over take nothing.
    let nothing = (0, 0, first.clone());
    let mut places = (parts.iter()).map(|(from, part)| (*from, part.dims()[0], part.clone()));
    let all: [_; PLACED_AT_ONCE] =
        std::array::from_fn(|_| places.next().unwrap_or_else(|| nothing.clone()));
    let (froms, lengths) = (all.each_ref().map(|p| p.0), all.each_ref().map(|p| p.1));
    let [a, b, c, d, e, f] = all.map(|(_, _, part)| part.into_dispatch());
    let parts = Parts { a, b, c, d, e, f };
    let packed = packed.into_dispatch();
    Tensor::from_dispatch(<Dispatch as UpdateOps>::place(
        packed, parts, froms, lengths,
    ))
}

#[derive(Clone, Debug, ExtensionType)]
#[extension_type(fusion: cfg(feature = "fused"))]
pub(crate) struct Parts<B: Backend> {
    a: FloatTensor<B>,
    b: FloatTensor<B>,
    c: FloatTensor<B>,
    d: FloatTensor<B>,
    e: FloatTensor<B>,
    f: FloatTensor<B>,
}

#[backend_extension(Cube, Fusion: cfg(feature = "fused"))]
pub(crate) trait UpdateOps: Backend {
    #[fusion(meta = like_the_old)]
    fn adam(
        #[extension_type] old: WeightState<Self>,
        gradient: FloatTensor<Self>,
        control: FloatTensor<Self>,
        n: AdamNumbers,
    ) -> WeightState<Self>;

    #[fusion(meta = like_before)]
    fn place(
        packed: FloatTensor<Self>,
        #[extension_type] parts: Parts<Self>,
        froms: [usize; PLACED_AT_ONCE],
        lengths: [usize; PLACED_AT_ONCE],
    ) -> FloatTensor<Self>;
}

#[cfg(feature = "fused")]
fn like_the_old(
    old: &WeightStateMetadata,
    _gradient: &TensorSpec,
    _control: &TensorSpec,
    _n: &AdamNumbers,
) -> WeightStateMetadata {
    old.clone()
}

#[cfg(feature = "fused")]
fn like_before(
    packed: &TensorSpec,
    _parts: &PartsMetadata,
    _froms: &[usize; PLACED_AT_ONCE],
    _lengths: &[usize; PLACED_AT_ONCE],
) -> TensorSpec {
    packed.clone()
}

impl UpdateOps for Cube {
    fn adam(
        old: WeightState<Self>,
        gradient: CubeTensor,
        control: CubeTensor,
        n: AdamNumbers,
    ) -> WeightState<Self> {
        let weight = plain(old.weight);
        let [numbers] = weight.shape().dims();
        let made = || empty(&weight, [numbers], weight.dtype);
        let new = WeightState::<Self> {
            weight: made(),
            first: made(),
            second: made(),
            mean: made(),
        };
        let (count, units) = one_for_each(numbers);
        adam_kernel::launch(
            &weight.client,
            count,
            units,
            weight.clone().into_tensor_arg(),
            plain(old.first).into_tensor_arg(),
            plain(old.second).into_tensor_arg(),
            plain(old.mean).into_tensor_arg(),
            plain(gradient).into_tensor_arg(),
            plain(control).into_tensor_arg(),
            new.weight.clone().into_tensor_arg(),
            new.first.clone().into_tensor_arg(),
            new.second.clone().into_tensor_arg(),
            new.mean.clone().into_tensor_arg(),
            numbers,
            n.beta_1,
            n.beta_2,
            n.rate,
            n.shrink,
            n.epsilon,
            element(&weight),
        );
        new
    }

    fn place(
        packed: CubeTensor,
        parts: Parts<Self>,
        froms: [usize; PLACED_AT_ONCE],
        lengths: [usize; PLACED_AT_ONCE],
    ) -> CubeTensor {
        // In place where nobody else holds it, which is the rule.
        let packed = match packed.can_mut() {
            true => plain(packed),
            false => packed.copy(),
        };
        let mut end = 0;
        let ends = lengths.map(|length| {
            end += length;
            end
        });
        let (count, units) = one_for_each(end);
        place_kernel::launch(
            &packed.client,
            count,
            units,
            plain(parts.a).into_tensor_arg(),
            plain(parts.b).into_tensor_arg(),
            plain(parts.c).into_tensor_arg(),
            plain(parts.d).into_tensor_arg(),
            plain(parts.e).into_tensor_arg(),
            plain(parts.f).into_tensor_arg(),
            packed.clone().into_tensor_arg(),
            froms[0],
            froms[1],
            froms[2],
            froms[3],
            froms[4],
            froms[5],
            ends[0],
            ends[1],
            ends[2],
            ends[3],
            ends[4],
            ends[5],
            element(&packed),
        );
        packed
    }
}
