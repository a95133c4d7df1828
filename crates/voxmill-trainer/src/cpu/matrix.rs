//! Products of matrices that lie row after row in slices.

use gemm::{Parallelism, gemm};

/// How a matrix lies in its slice.
#[derive(Clone, Copy, Debug)]
pub(super) enum Lies {
    AsIs,
    /// The slice holds the transpose.
    Transposed,
}

/// An operand: its numbers and how they lie.
#[derive(Clone, Copy, Debug)]
pub(super) struct Operand<'a> {
    pub(super) numbers: &'a [f32],
    pub(super) lies: Lies,
}

impl<'a> Operand<'a> {
    pub(super) fn new(numbers: &'a [f32]) -> Self {
        Self {
            numbers,
            lies: Lies::AsIs,
        }
    }

    pub(super) fn transposed(numbers: &'a [f32]) -> Self {
        Self {
            numbers,
            lies: Lies::Transposed,
        }
    }

    /// Distance in memory between neighbours in a column and in a row, of a matrix of this size.
    fn strides(&self, rows: usize, columns: usize) -> (isize, isize) {
        assert_eq!(
            self.numbers.len(),
            rows * columns,
            "a matrix of another size"
        );
        match self.lies {
            Lies::AsIs => (columns as isize, 1),
            Lies::Transposed => (1, rows as isize),
        }
    }
}

/// What becomes of the numbers that the result's slice holds already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Onto {
    Nothing,
    WhatIsThere,
}

/// `result` (rows × columns) = left (rows × inner) · right (inner × columns), on this thread.
pub(super) fn product(
    result: &mut [f32],
    onto: Onto,
    (rows, inner, columns): (usize, usize, usize),
    left: Operand<'_>,
    right: Operand<'_>,
) {
    product_on(
        Parallelism::None,
        result,
        onto,
        (rows, inner, columns),
        left,
        right,
    );
}

/// The same on all threads of the current pool. How the work is cut does not change the sums'
/// order, so the result does not depend on which thread is first.
pub(super) fn product_by_all(
    result: &mut [f32],
    onto: Onto,
    (rows, inner, columns): (usize, usize, usize),
    left: Operand<'_>,
    right: Operand<'_>,
) {
    product_on(
        Parallelism::Rayon(0),
        result,
        onto,
        (rows, inner, columns),
        left,
        right,
    );
}

#[expect(unsafe_code, reason = "the product takes pointers and strides")]
fn product_on(
    parallelism: Parallelism,
    result: &mut [f32],
    onto: Onto,
    (rows, inner, columns): (usize, usize, usize),
    left: Operand<'_>,
    right: Operand<'_>,
) {
    assert_eq!(result.len(), rows * columns, "a result of another size");
    let (left_down, left_right) = left.strides(rows, inner);
    let (right_down, right_right) = right.strides(inner, columns);
    // SAFETY: the lengths of all three slices were compared with the sizes above, so every element
    // that the strides reach lies in its slice; `result` is borrowed mutably, so it overlaps neither.
    unsafe {
        gemm(
            rows,
            columns,
            inner,
            result.as_mut_ptr(),
            1,
            columns as isize,
            onto == Onto::WhatIsThere,
            left.numbers.as_ptr(),
            left_right,
            left_down,
            right.numbers.as_ptr(),
            right_right,
            right_down,
            1.0,
            1.0,
            false,
            false,
            false,
            parallelism,
        );
    }
}
