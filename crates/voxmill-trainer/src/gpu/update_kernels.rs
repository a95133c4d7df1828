//! The kernels of an update: one unit for each number.

use burn_cubecl::cubecl;
use burn_cubecl::cubecl::prelude::*;

/// Copies six parts to where they belong: each begins at `from` in the buffer, and its units at `to` among all.
#[cube(launch)]
pub(super) fn place_kernel<F: Float>(
    a: &Tensor<F>,
    b: &Tensor<F>,
    c: &Tensor<F>,
    d: &Tensor<F>,
    e: &Tensor<F>,
    f: &Tensor<F>,
    packed: &mut Tensor<F>,
    from_a: usize,
    from_b: usize,
    from_c: usize,
    from_d: usize,
    from_e: usize,
    from_f: usize,
    to_b: usize,
    to_c: usize,
    to_d: usize,
    to_e: usize,
    to_f: usize,
    numbers: usize,
    #[define(F)] _element: ElemType,
) {
    let at = ABSOLUTE_POS;
    if at < to_b {
        packed[from_a + at] = a[at];
    } else if at < to_c {
        packed[from_b + at - to_b] = b[at - to_b];
    } else if at < to_d {
        packed[from_c + at - to_c] = c[at - to_c];
    } else if at < to_e {
        packed[from_d + at - to_d] = d[at - to_d];
    } else if at < to_f {
        packed[from_e + at - to_e] = e[at - to_e];
    } else if at < numbers {
        packed[from_f + at - to_f] = f[at - to_f];
    }
}

/// AdamW; `control` as the optimizer makes it. A step that does not count leaves all as it was.
#[cube(launch)]
pub(super) fn adam_kernel<F: Float>(
    weight: &Tensor<F>,
    first: &Tensor<F>,
    second: &Tensor<F>,
    mean: &Tensor<F>,
    gradient: &Tensor<F>,
    control: &Tensor<F>,
    new_weight: &mut Tensor<F>,
    new_first: &mut Tensor<F>,
    new_second: &mut Tensor<F>,
    new_mean: &mut Tensor<F>,
    numbers: usize,
    beta_1: f32,
    beta_2: f32,
    rate: f32,
    shrink: f32,
    epsilon: f32,
    #[define(F)] _element: ElemType,
) {
    let at = ABSOLUTE_POS;
    if at < numbers {
        let one = F::new(1.0);
        let (beta_1, beta_2) = (F::cast_from(beta_1), F::cast_from(beta_2));
        let (old_weight, old_mean) = (weight[at], mean[at]);
        let (old_first, old_second) = (first[at], second[at]);
        let mut weight = old_weight;
        let mut first = old_first;
        let mut second = old_second;
        let mut mean = old_mean;
        if control[0] > F::new(0.5) {
            let gradient = gradient[at] * control[1];
            first = old_first * beta_1 + gradient * (one - beta_1);
            second = old_second * beta_2 + gradient * gradient * (one - beta_2);
            let divisor = (second / control[3]).sqrt() + F::cast_from(epsilon);
            let step = first / control[2] / divisor * F::cast_from(rate);
            weight = old_weight * F::cast_from(shrink) - step;
            mean = weight + (old_mean - weight) * control[4];
        }
        new_weight[at] = weight;
        new_first[at] = first;
        new_second[at] = second;
        new_mean[at] = mean;
    }
}
