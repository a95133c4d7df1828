//! Products of matrices that lie row after row in slices.

pub(super) use gemm::Parallelism;
use gemm::gemm;

/// A matrix in a slice.
#[derive(Clone, Copy, Debug)]
pub(super) struct Operand<'a> {
    numbers: &'a [f32],
    /// The slice holds the transpose.
    is_transposed: bool,
}

impl<'a> Operand<'a> {
    pub(super) fn new(numbers: &'a [f32]) -> Self {
        let is_transposed = false;
        Self {
            numbers,
            is_transposed,
        }
    }

    pub(super) fn transposed(numbers: &'a [f32]) -> Self {
        let is_transposed = true;
        Self {
            numbers,
            is_transposed,
        }
    }

    /// Distance in memory between neighbours in a column and in a row, of a matrix of this size.
    fn strides(&self, rows: usize, columns: usize) -> (isize, isize) {
        assert_eq!(self.numbers.len(), rows * columns, "wrong matrix size");
        match self.is_transposed {
            false => (columns as isize, 1),
            true => (1, rows as isize),
        }
    }
}

/// What becomes of the numbers that the result's slice holds already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Existing {
    Overwrite,
    Add,
}

/// `result` (rows × columns) = left (rows × inner) · right (inner × columns), on this thread or on all
/// threads of the current pool. How the work is cut does not change the order of the sums, so the result
/// does not depend on which thread is first.
#[expect(unsafe_code, reason = "the product takes pointers and strides")]
pub(super) fn product(
    parallelism: Parallelism,
    result: &mut [f32],
    existing: Existing,
    (rows, inner, columns): (usize, usize, usize),
    left: Operand<'_>,
    right: Operand<'_>,
) {
    assert_eq!(result.len(), rows * columns, "wrong result size");
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
            existing == Existing::Add,
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
