//! Arithmetic on rows of numbers, in a form that the compiler turns into vector instructions.

/// Sums in eight parts side by side, which is how vector units add.
const LANES: usize = 8;

#[inline(always)]
pub(super) fn sum(row: &[f32]) -> f32 {
    fold(row, |lane, x| lane + x)
}

#[inline(always)]
pub(super) fn sum_of_squared_distances(row: &[f32], from: f32) -> f32 {
    fold(row, |lane, x| lane + (x - from) * (x - from))
}

#[inline(always)]
pub(super) fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut lanes = [0.0; LANES];
    let (whole_a, rest_a) = a.as_chunks::<LANES>();
    let (whole_b, rest_b) = b.as_chunks::<LANES>();
    for (a, b) in whole_a.iter().zip(whole_b) {
        for lane in 0..LANES {
            lanes[lane] += a[lane] * b[lane];
        }
    }
    let rest: f32 = rest_a.iter().zip(rest_b).map(|(a, b)| a * b).sum();
    lanes.iter().sum::<f32>() + rest
}

/// `onto += by * row`.
#[inline(always)]
pub(super) fn add_scaled(onto: &mut [f32], row: &[f32], by: &[f32]) {
    for ((onto, row), by) in onto.iter_mut().zip(row).zip(by) {
        *onto += row * by;
    }
}

#[inline(always)]
pub(super) fn add(onto: &mut [f32], row: &[f32]) {
    for (onto, row) in onto.iter_mut().zip(row) {
        *onto += row;
    }
}

#[inline(always)]
fn fold(row: &[f32], add: impl Fn(f32, f32) -> f32) -> f32 {
    let mut lanes = [0.0; LANES];
    let (whole, rest) = row.as_chunks::<LANES>();
    for eight in whole {
        for lane in 0..LANES {
            lanes[lane] = add(lanes[lane], eight[lane]);
        }
    }
    let rest = rest.iter().fold(0.0, |sum, &x| add(sum, x));
    lanes.iter().sum::<f32>() + rest
}
