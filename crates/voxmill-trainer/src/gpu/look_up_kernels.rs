//! The kernels of looking rows up: one unit for each number that is made.

use burn_cubecl::cubecl;
use burn_cubecl::cubecl::prelude::*;

#[cube(launch)]
pub(super) fn look_up_kernel<F: Float, I: Int>(
    table: &Tensor<F>,
    ids: &Tensor<I>,
    found: &mut Tensor<F>,
    numbers: usize,
    #[comptime] columns: usize,
    #[define(F, I)] _elements: [ElemType; 2],
) {
    let at = ABSOLUTE_POS;
    if at < numbers {
        let id = i32::cast_from(ids[at / columns]);
        let mut value = F::new(0.0);
        if id >= 0 {
            value = table[id as usize * columns + at % columns];
        }
        found[at] = value;
    }
}

#[cube(launch)]
pub(super) fn look_up_back_kernel<F: Float, I: Int>(
    gradient: &Tensor<F>,
    ids: &Tensor<I>,
    places: &Tensor<I>,
    of_table: &mut Tensor<F>,
    numbers: usize,
    count: usize,
    #[comptime] columns: usize,
    #[comptime] in_order: bool,
    #[define(F, I)] _elements: [ElemType; 2],
) {
    let at = ABSOLUTE_POS;
    if at < numbers {
        let (row, column) = (at / columns, at % columns);
        let mut sum = f32::new(0.0);
        if comptime!(in_order) {
            let begin = i32::cast_from(places[2 * row]) as usize;
            let end = i32::cast_from(places[2 * row + 1]) as usize;
            for place in begin..end {
                sum += f32::cast_from(gradient[place * columns + column]);
            }
        } else {
            for place in 0..count {
                if i32::cast_from(ids[place]) as usize == row {
                    sum += f32::cast_from(gradient[place * columns + column]);
                }
            }
        }
        of_table[at] = F::cast_from(sum);
    }
}
