//! Rows looked up in a table, as one kernel; and their gradient without adding one after another, and without atomic
//! additions, whose order differs from run to run.
//!
//! One unit makes one number of the table's gradient: it goes over all places that may have looked its row up. Where a
//! table's row is looked up by places that follow one another, these are given; else it is all places, of which a text
//! has some hundred.

use burn::backend::autodiff::checkpoint::{base::Checkpointer, strategy::CheckpointStrategy};
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
#[cfg(feature = "fused")]
use burn::backend::fusion::custom::TensorSpec;
use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Autodiff, Backend, Dispatch, TensorMetadata as _, backend_extension};
use burn::tensor::{Int, Tensor};
use burn_cubecl::tensor::CubeTensor;

use super::launch::{Cube, element, empty, one_for_each, plain};
use super::look_up_kernels::{look_up_back_kernel, look_up_kernel};

/// The table's row for each id; zeros where it is negative. `places`: for each row of the table, the first place that
/// looks it up and the one after the last.
pub(crate) fn look_up(
    table: Tensor<2>,
    ids: Tensor<1, Int>,
    places: Option<Tensor<1, Int>>,
) -> Tensor<2> {
    let in_order = places.is_some();
    let places = places.unwrap_or_else(|| ids.clone());
    let rows = <Dispatch as LookUpOps>::look_up(
        table.into_dispatch(),
        ids.into_dispatch(),
        places.into_dispatch(),
        in_order,
    );
    Tensor::from_dispatch(rows)
}

#[backend_extension(Cube, Fusion: cfg(feature = "fused"), Autodiff)]
pub(crate) trait LookUpOps: Backend {
    #[fusion(meta = rows_found)]
    fn look_up(
        table: FloatTensor<Self>,
        ids: IntTensor<Self>,
        places: IntTensor<Self>,
        in_order: bool,
    ) -> FloatTensor<Self>;
}

/// The backward pass, for backends without gradients.
#[backend_extension(Cube, Fusion: cfg(feature = "fused"))]
pub(crate) trait LookUpPasses: Backend {
    #[fusion(meta = table_again)]
    fn look_up_backward(
        gradient: FloatTensor<Self>,
        ids: IntTensor<Self>,
        places: IntTensor<Self>,
        in_order: bool,
        rows: usize,
    ) -> FloatTensor<Self>;
}

#[cfg(feature = "fused")]
fn rows_found(
    table: &TensorSpec,
    ids: &TensorSpec,
    _places: &TensorSpec,
    _in_order: &bool,
) -> TensorSpec {
    let [_, columns] = table.shape.dims();
    let [count] = ids.shape.dims();
    TensorSpec::new([count, columns].into(), table.dtype)
}

#[cfg(feature = "fused")]
fn table_again(
    gradient: &TensorSpec,
    _ids: &TensorSpec,
    _places: &TensorSpec,
    _in_order: &bool,
    rows: &usize,
) -> TensorSpec {
    let [_, columns] = gradient.shape.dims();
    TensorSpec::new([*rows, columns].into(), gradient.dtype)
}

impl LookUpOps for Cube {
    fn look_up(
        table: CubeTensor,
        ids: CubeTensor,
        _places: CubeTensor,
        _in_order: bool,
    ) -> CubeTensor {
        let [_, columns] = table.shape().dims();
        let [count] = ids.shape().dims();
        let found = empty(&table, [count, columns], table.dtype);
        let (cubes, units) = one_for_each(count * columns);
        look_up_kernel::launch(
            &table.client,
            cubes,
            units,
            plain(table.clone()).into_tensor_arg(),
            plain(ids.clone()).into_tensor_arg(),
            found.clone().into_tensor_arg(),
            count * columns,
            columns,
            [element(&table), element(&ids)],
        );
        found
    }
}

impl LookUpPasses for Cube {
    fn look_up_backward(
        gradient: CubeTensor,
        ids: CubeTensor,
        places: CubeTensor,
        in_order: bool,
        rows: usize,
    ) -> CubeTensor {
        let [_, columns] = gradient.shape().dims();
        let [count] = ids.shape().dims();
        let of_table = empty(&gradient, [rows, columns], gradient.dtype);
        let (cubes, units) = one_for_each(rows * columns);
        look_up_back_kernel::launch(
            &gradient.client,
            cubes,
            units,
            plain(gradient.clone()).into_tensor_arg(),
            plain(ids.clone()).into_tensor_arg(),
            plain(places).into_tensor_arg(),
            of_table.clone().into_tensor_arg(),
            rows * columns,
            count,
            columns,
            in_order,
            [element(&gradient), element(&ids)],
        );
        of_table
    }
}

impl<B: LookUpOps + LookUpPasses, C: CheckpointStrategy> LookUpOps for Autodiff<B, C> {
    fn look_up(
        table: FloatTensor<Self>,
        ids: IntTensor<Self>,
        places: IntTensor<Self>,
        in_order: bool,
    ) -> FloatTensor<Self> {
        let (table, node) = table.into_parts();
        let [rows, _] = table.shape().dims();
        match LookUp.prepare::<C>([node]).compute_bound().stateful() {
            OpsKind::Tracked(prep) => {
                let found = B::look_up(table, ids.clone(), places.clone(), in_order);
                prep.finish((ids, places, in_order, rows), found)
            }
            OpsKind::UnTracked(prep) => prep.finish(B::look_up(table, ids, places, in_order)),
        }
    }
}

#[derive(Debug)]
struct LookUp;

impl<B: LookUpPasses> Backward<B, 1> for LookUp {
    /// The last is how many rows the table has.
    type State = (IntTensor<B>, IntTensor<B>, bool, usize);

    fn backward(
        self,
        ops: Ops<Self::State, 1>,
        grads: &mut Gradients,
        _checkpointer: &mut Checkpointer,
    ) {
        let gradient = grads.consume::<B>(&ops.node);
        let [Some(parent)] = ops.parents else { return };
        let (ids, places, in_order, rows) = ops.state;
        let of_table = B::look_up_backward(gradient, ids, places, in_order, rows);
        grads.register::<B>(parent.id, of_table);
    }
}
