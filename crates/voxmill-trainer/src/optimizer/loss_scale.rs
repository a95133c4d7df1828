//! The loss scale of f16: what the loss is multiplied by so that small gradients do not vanish.
//!
//! f16 has nothing between 6e-8 and zero, and ends at 65,504. So the loss is made as large as its
//! gradients can bear: a step whose gradients overflow halves the scale, and a long row of steps
//! without one doubles it. Gradients are divided by it again in 32 bits, and as it is a power of two,
//! that changes no digit.
//!
//! It lives on the device and is adapted there after every step. Adapted on the host it would have to
//! wait for each step's answer; adapted when the answers are read, every `log_every` steps, the losses
//! would depend on how often they are read.

use burn::tensor::{Device, Tensor};

use crate::device;

#[derive(Clone, Debug)]
pub(crate) struct LossScale {
    factor: Tensor<1>,
    /// Good steps since the factor last changed.
    good: Tensor<1>,
}

/// Good steps before a larger factor is tried.
const GROW_AFTER: f32 = 2_000.0;
const FIRST: f32 = 65_536.0;
/// Gradients that overflow unscaled are no matter of scale.
pub(crate) const LEAST: f32 = 1.0;
/// Far above what any gradient bears, far below where 32 bits end.
const MOST: f32 = 16_777_216.0;

impl LossScale {
    pub(crate) fn new(device: &Device) -> Self {
        Self::from_stored([FIRST, 0.0], device)
    }

    /// As [`LossScale::stored`] gave it.
    pub(crate) fn from_stored([factor, good]: [f32; 2], device: &Device) -> Self {
        Self {
            factor: Tensor::from_floats([factor], device),
            good: Tensor::from_floats([good], device),
        }
    }

    /// The factor and the good steps since it changed. Waits for the device.
    pub(crate) fn stored(&self) -> [f32; 2] {
        [self.factor.clone(), self.good.clone()].map(device::read_one)
    }

    pub(crate) fn factor(&self) -> Tensor<1> {
        self.factor.clone()
    }

    /// After a step. `counted`: 1 where all gradients were finite, else 0; `loss`: what they are of.
    ///
    /// A loss that is not finite itself says nothing about the scale: it is left as it is.
    pub(crate) fn after(self, counted: &Tensor<1>, loss: Tensor<1>) -> Self {
        let overflowed = loss.is_finite().float() * (-counted.clone() + 1.0);
        let good = (self.good + counted.clone()) * (-overflowed.clone() + 1.0);
        let grows = good.clone().greater_equal_elem(GROW_AFTER).float();
        // 1, or ½, or 2: no step both overflows and lets it grow.
        let change = -overflowed * 0.5 + grows.clone() + 1.0;
        Self {
            factor: (self.factor * change).clamp(LEAST, MOST),
            good: good * (-grows + 1.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::test_devices;

    /// From a state through some steps, each given as whether it counted and its loss.
    fn through(from: [f32; 2], steps: &[(f32, f32)], device: &Device) -> [f32; 2] {
        let one = |number: f32| Tensor::<1>::from_floats([number], device);
        let from = LossScale::from_stored(from, device);
        let after =
            |scale: LossScale, &(counted, loss): &(f32, f32)| scale.after(&one(counted), one(loss));
        steps.iter().fold(from, after).stored()
    }

    #[test]
    fn it_halves_on_overflow_doubles_after_many_good_steps_and_ignores_bad_losses_on_every_device()
    {
        for device in test_devices() {
            let good = (1.0, 2.5);
            let through = |from, steps: &[(f32, f32)]| through(from, steps, &device);
            assert_eq!(through([1024.0, 7.0], &[good]), [1024.0, 8.0]);
            assert_eq!(through([1024.0, 7.0], &[(0.0, 2.5)]), [512.0, 0.0]);
            assert_eq!(through([1024.0, 1998.0], &[good]), [1024.0, 1999.0]);
            assert_eq!(through([1024.0, 1998.0], &[good, good]), [2048.0, 0.0]);
            for bad in [f32::NAN, f32::INFINITY] {
                assert_eq!(through([1024.0, 7.0], &[(0.0, bad)]), [1024.0, 7.0]);
            }
            assert_eq!(through([1.0, 7.0], &[(0.0, 2.5)]), [1.0, 0.0]);
            assert_eq!(through([MOST, 1999.0], &[good]), [MOST, 0.0]);
        }
    }
}
