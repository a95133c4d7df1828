//! Weights that lie one after another in few large buffers, so that a GPU updates all of them with one
//! row of kernels instead of one row for each.

use burn::tensor::{Device, Tensor};

#[cfg(feature = "gpu")]
use crate::gpu;

/// Numbers of a buffer at most: devices limit what they bind, and the update makes a few more of its size on the way.
const MOST: usize = 1 << 24;
/// Every weight begins at a multiple of so many numbers: there a backend can use it where it lies. 512 bytes are what
/// CUDA wants, the most of all, and so many they are in 16 bits.
const ALIGNMENT: usize = 256;

/// Which weight lies where.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Packing {
    pub(super) groups: Vec<WeightGroup>,
    weights: usize,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct WeightGroup {
    /// Whether they are matrices, which are pulled towards zero.
    pub(super) matrices: bool,
    length: usize,
    slots: Vec<PackedWeight>,
}

#[derive(Debug, PartialEq, Eq)]
struct PackedWeight {
    /// Its place in the model's order.
    weight: usize,
    from: usize,
    length: usize,
}

impl Packing {
    /// Of weights with these shapes, in the model's order.
    pub(super) fn new(shapes: &[Vec<usize>]) -> Self {
        let mut groups: Vec<WeightGroup> = Vec::new();
        for (weight, shape) in shapes.iter().enumerate() {
            let (matrices, length) = (shape.len() > 1, shape.iter().product());
            let has_room =
                |group: &WeightGroup| group.matrices == matrices && group.length + length <= MOST;
            let at = groups.iter().position(has_room).unwrap_or_else(|| {
                groups.push(WeightGroup {
                    matrices,
                    length: 0,
                    slots: Vec::new(),
                });
                groups.len() - 1
            });
            let group = &mut groups[at];
            group.slots.push(PackedWeight {
                weight,
                from: group.length,
                length,
            });
            group.length += length.next_multiple_of(ALIGNMENT);
        }
        Self {
            groups,
            weights: shapes.len(),
        }
    }

    /// One buffer for each group; zeros where a weight has nothing.
    pub(super) fn pack(
        &self,
        mut parts: Vec<Option<Tensor<1>>>,
        device: &Device,
    ) -> Vec<Tensor<1>> {
        let groups = self.groups.iter().map(|group| {
            let zeros = Tensor::zeros([group.length], device);
            #[cfg(feature = "gpu")]
            if !crate::device::is_cpu(device) {
                return placed(group, zeros, &mut parts);
            }
            group.slots.iter().fold(zeros, |packed, slot| {
                let range = slot.from..slot.from + slot.length;
                match parts[slot.weight].take() {
                    Some(part) => packed.slice_assign([range], part),
                    None => packed,
                }
            })
        });
        groups.collect()
    }

    /// Multiplies what belongs to each weight by its factor. Weights that follow one another have mostly the same, so
    /// this is a few operations for each buffer.
    pub(super) fn times(
        &self,
        packed: Vec<Option<Tensor<1>>>,
        factors: &[f32],
    ) -> Vec<Option<Tensor<1>>> {
        let groups = self.groups.iter().zip(packed);
        let times = |(group, packed): (&WeightGroup, Option<Tensor<1>>)| {
            let packed = packed?;
            // What lies between two weights belongs to the one before.
            let ends = group.slots.iter().skip(1).map(|slot| slot.from);
            let slots = group.slots.iter().zip(ends.chain([group.length]));
            let slots: Vec<_> = slots.collect();
            let alike = slots.chunk_by(|(a, _), (b, _)| factors[a.weight] == factors[b.weight]);
            let runs = alike.filter_map(|run| {
                let ((first, _), (_, end)) = (run.first()?, run.last()?);
                let part = packed.clone().narrow(0, first.from, end - first.from);
                Some(part * factors[first.weight])
            });
            Some(Tensor::cat(runs.collect(), 0))
        };
        groups.map(times).collect()
    }

    /// Each weight's part, in the model's order.
    pub(super) fn unpack(&self, packed: &[Tensor<1>]) -> Vec<Tensor<1>> {
        let mut parts = vec![None; self.weights];
        for (group, packed) in self.groups.iter().zip(packed) {
            for slot in &group.slots {
                let part = packed.clone().narrow(0, slot.from, slot.length);
                parts[slot.weight] = Some(part);
            }
        }
        let parts = parts
            .into_iter()
            .map(|part| part.expect("a place for each weight"));
        parts.collect()
    }
}

#[cfg(feature = "gpu")]
fn placed(group: &WeightGroup, packed: Tensor<1>, parts: &mut [Option<Tensor<1>>]) -> Tensor<1> {
    let parts = group.slots.iter().filter_map(|slot| {
        let part = parts[slot.weight].take()?;
        Some((slot.from, part))
    });
    let parts: Vec<_> = parts.collect();
    let few = parts.chunks(gpu::PLACED_AT_ONCE);
    few.fold(packed, |packed, few| gpu::place(packed, few.to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_weight_is_multiplied_by_its_own_factor() {
        let shapes = [vec![3, 2], vec![4], vec![130, 1], vec![2, 2], vec![1]];
        let device = crate::device::cpu();
        let weight = |shape: &Vec<usize>| Tensor::ones([shape.iter().product::<usize>()], &device);
        let packing = Packing::new(&shapes);
        let packed = packing.pack(shapes.iter().map(|s| Some(weight(s))).collect(), &device);
        let factors = [2.0, 2.0, 0.5, 0.5, 3.0];
        let times = packing.times(packed.into_iter().map(Some).collect(), &factors);
        let times: Vec<_> = times.into_iter().flatten().collect();
        for ((part, shape), factor) in packing.unpack(&times).into_iter().zip(&shapes).zip(factors)
        {
            let expected = vec![factor; shape.iter().product()];
            assert_eq!(crate::device::read(part), expected);
        }
    }

    #[test]
    fn weights_lie_apart_aligned_and_in_buffers_that_can_be_bound() {
        let shapes = [
            vec![300, 7],
            vec![7],
            vec![5000, 3000],
            vec![2000, 2000],
            vec![1],
        ];
        let packing = Packing::new(&shapes);
        let weights = |group: &WeightGroup| group.slots.iter().map(|slot| slot.weight).collect();
        let groups: Vec<Vec<usize>> = packing.groups.iter().map(weights).collect();
        assert_eq!(groups, [vec![0, 2], vec![1, 4], vec![3]]);
        for group in &packing.groups {
            let ends = group.slots.iter().map(|slot| slot.from + slot.length);
            let next = group.slots.iter().skip(1).map(|slot| slot.from);
            for (end, next) in ends.zip(next.chain([group.length])) {
                assert!(end <= next && next.is_multiple_of(ALIGNMENT));
            }
            assert!(group.length <= MOST + ALIGNMENT);
        }
    }
}
