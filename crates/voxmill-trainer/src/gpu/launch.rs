//! What every launch needs: memory for results, and how many units.

use burn::tensor::{DType, Shape};
pub(super) use burn_cubecl::CubeBackend as Cube;
use burn_cubecl::cubecl::ir::ElemType;
use burn_cubecl::cubecl::prelude::{CubeCount, CubeDim};
use burn_cubecl::kernel::into_contiguous;
use burn_cubecl::ops::numeric::empty_device_contiguous_dtype;
use burn_cubecl::tensor::CubeTensor;

/// Units of a cube: few enough for every device, and a whole number of the planes of each.
pub(super) const UNITS: usize = 64;

/// Memory for a result, on the device of `like`, row after row without gaps.
pub(super) fn empty(like: &CubeTensor, shape: impl Into<Shape>, dtype: DType) -> CubeTensor {
    empty_device_contiguous_dtype(
        like.client.clone(),
        like.device.clone(),
        shape.into(),
        dtype,
    )
}

/// Row after row without gaps: kernels of our own count on it.
pub(super) fn plain(tensor: CubeTensor) -> CubeTensor {
    into_contiguous(tensor)
}

/// The same numbers, which lie row after row, in another shape.
pub(super) fn shaped(tensor: CubeTensor, shape: impl Into<Shape>) -> CubeTensor {
    let tensor = plain(tensor);
    CubeTensor::new_contiguous(
        tensor.client,
        tensor.device,
        shape.into(),
        tensor.handle,
        tensor.dtype,
    )
}

pub(super) fn element(tensor: &CubeTensor) -> ElemType {
    burn::backend::cubecl::dtype_to_elem_type(tensor.dtype)
}

/// One unit for each of so many numbers.
pub(super) fn one_for_each(numbers: usize) -> (CubeCount, CubeDim) {
    // A device may take no more than 65,535 cubes along one axis.
    const ROW: u32 = 32_768;
    let units = 4 * UNITS as u32;
    let cubes = (numbers as u64).div_ceil(u64::from(units)) as u32;
    let count = match cubes <= ROW {
        true => CubeCount::Static(cubes.max(1), 1, 1),
        false => CubeCount::Static(ROW, cubes.div_ceil(ROW), 1),
    };
    (count, CubeDim::new_1d(units))
}
