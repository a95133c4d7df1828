//! AdamW with clipping by the global norm, and a running mean of the weights next to it.
//!
//! Why not the library's: its clipping is by tensor, its state hangs on parameter ids that no
//! checkpoint carries, and it has no way to leave a step out. Here a step whose gradients are not
//! finite changes neither weights nor moments nor the mean, decided on the device, so that nobody
//! waits for the answer.

mod loss_scale;
mod packing;
mod update;

use std::sync::Arc;

use burn::module::{Module, ModuleMapper, ModuleVisitor, Param};
use burn::tensor::{Device, Gradients, Tensor};
use serde::{Deserialize, Serialize};

#[cfg(feature = "gpu")]
use crate::gpu;
use crate::model::Voice;
use crate::{cpu, device};
pub(crate) use loss_scale::{LEAST as LEAST_LOSS_SCALE, LossScale};
use packing::Packing;
#[cfg(feature = "fused")]
pub(crate) use update::WeightStateMetadata;
pub(crate) use update::{AdamNumbers, WeightState, updated};

/// What may be set of the optimizer.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct AdamW {
    pub beta_1: f32,
    pub beta_2: f32,
    /// Pulls matrices towards zero; gains and biases are left alone.
    pub weight_decay: f32,
    /// The most that the norm of all gradients together may be.
    pub clip_norm: f32,
    /// How slowly the running mean of the weights follows; 0: there is none, the weights
    /// themselves are used.
    pub ema_decay: f32,
}

impl Default for AdamW {
    fn default() -> Self {
        Self {
            beta_1: 0.9,
            beta_2: 0.98,
            weight_decay: 1e-4,
            clip_norm: 1.0,
            ema_decay: 0.999,
        }
    }
}

const EPSILON: f32 = 1e-8;

/// One weight's part of the state, each as long as the weight.
#[derive(Clone, Debug)]
pub(crate) struct Moments {
    pub(crate) path: String,
    pub(crate) first: Tensor<1>,
    pub(crate) second: Tensor<1>,
    pub(crate) mean_weight: Tensor<1>,
}

/// What AdamW remembers.
#[derive(Clone, Debug)]
pub(crate) struct OptimizerState {
    /// Weight by weight in the model's order; once a GPU has taken a step, group by group.
    pub(crate) moments: Vec<Moments>,
    packed: Option<PackedWeights>,
    /// Steps that counted, on the device: only it knows which did.
    pub(crate) updates: Tensor<1>,
}

/// The weights themselves, of which the model then holds the parts.
#[derive(Clone, Debug)]
struct PackedWeights {
    packing: Arc<Packing>,
    groups: Vec<Tensor<1>>,
    paths: Vec<String>,
}

/// Gradients, flat.
#[derive(Debug)]
pub(crate) struct FlatGradients {
    /// In the model's order; on a GPU those of each group.
    parts: Vec<Option<Tensor<1>>>,
    packing: Option<Arc<Packing>>,
    /// What the loss was multiplied by, and so they are.
    scaled_by: Option<Tensor<1>>,
}

impl FlatGradients {
    pub(crate) fn collect(model: &impl Module, mut gradients: Gradients) -> Self {
        struct Collect<'a> {
            gradients: &'a mut Gradients,
            parts: Vec<Option<Tensor<1>>>,
            shapes: Vec<Vec<usize>>,
        }
        impl ModuleVisitor for Collect<'_> {
            fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
                let gradient = param.val().grad_remove(self.gradients);
                self.parts.push(gradient.map(|g| g.inner().reshape([-1])));
                self.shapes.push(param.val().dims().to_vec());
            }
        }
        let mut collect = Collect {
            gradients: &mut gradients,
            parts: Vec::new(),
            shapes: Vec::new(),
        };
        model.visit(&mut collect);
        let gradients = Self {
            parts: collect.parts,
            packing: None,
            scaled_by: None,
        };
        let on = gradients.parts.iter().flatten().next().map(Tensor::device);
        match on.filter(|device| !device::is_cpu(device)) {
            Some(gpu) => gradients.packed(&Arc::new(Packing::new(&collect.shapes)), &gpu),
            None => gradients,
        }
    }

    fn packed(self, packing: &Arc<Packing>, device: &Device) -> Self {
        if self.packing.is_some() {
            return self;
        }
        let parts = packing.pack(self.parts, device);
        Self {
            parts: parts.into_iter().map(Some).collect(),
            packing: Some(Arc::clone(packing)),
            ..self
        }
    }

    /// Each weight's, in the model's order.
    pub(crate) fn by_weight(&self) -> Vec<Option<Tensor<1>>> {
        let Some(packing) = &self.packing else {
            return self.parts.clone();
        };
        let groups: Vec<_> = self.parts.iter().flatten().cloned().collect();
        packing.unpack(&groups).into_iter().map(Some).collect()
    }

    /// Gradients of a loss that was multiplied by this.
    pub(crate) fn scaled_by(self, factor: Option<Tensor<1>>) -> Self {
        Self {
            scaled_by: factor,
            ..self
        }
    }

    /// Micro-batches add up.
    pub(crate) fn add(&mut self, other: FlatGradients) {
        for (sum, one) in self.parts.iter_mut().zip(other.parts) {
            *sum = match (sum.take(), one) {
                (Some(sum), Some(one)) => Some(sum + one),
                (sum, one) => sum.or(one),
            };
        }
    }

    /// One number of each part: they are there when all gradients are.
    pub(crate) fn first_numbers(&self) -> Option<Tensor<1>> {
        let parts = self.parts.iter().flatten();
        let numbers: Vec<_> = parts.map(|part| part.clone().narrow(0, 0, 1)).collect();
        (!numbers.is_empty()).then(|| Tensor::cat(numbers, 0))
    }

    /// Each weight's gradient multiplied, by one factor for each in the model's order.
    pub(crate) fn times(self, factors: &[f32]) -> Self {
        let parts = match &self.packing {
            Some(packing) => packing.times(self.parts, factors),
            None => {
                let pairs = self.parts.into_iter().zip(factors);
                let times = |(part, factor): (Option<Tensor<1>>, &f32)| Some(part? * *factor);
                pairs.map(times).collect()
            }
        };
        Self { parts, ..self }
    }

    /// The norm of all gradients together, as if the loss had not been multiplied.
    pub(crate) fn norm(&self, device: &Device) -> Tensor<1> {
        let squares = self.parts.iter().flatten();
        let squares: Vec<_> = squares.map(|g| g.clone().square().sum()).collect();
        let norm = match squares.is_empty() {
            true => Tensor::zeros([1], device),
            false => Tensor::cat(squares, 0).sum().sqrt(),
        };
        match &self.scaled_by {
            Some(factor) => norm / factor.clone(),
            None => norm,
        }
    }
}

impl OptimizerState {
    pub(crate) fn new(model: &Voice, device: &Device) -> Self {
        let moments = model.weights().into_iter().map(|weight| {
            let zeros = Tensor::zeros(weight.flat.dims(), device);
            Moments {
                path: weight.path,
                first: zeros.clone(),
                second: zeros,
                mean_weight: weight.flat,
            }
        });
        Self::of(moments.collect(), Tensor::zeros([1], device))
    }

    /// Of moments in the model's order.
    pub(crate) fn of(moments: Vec<Moments>, updates: Tensor<1>) -> Self {
        Self {
            moments,
            packed: None,
            updates,
        }
    }

    /// What is remembered of each weight, in the model's order.
    pub(crate) fn by_weight(&self) -> Vec<Moments> {
        let Some(PackedWeights { packing, paths, .. }) = &self.packed else {
            return self.moments.clone();
        };
        let unpacked = |part: fn(&Moments) -> &Tensor<1>| {
            let groups: Vec<_> = self.moments.iter().map(|m| part(m).clone()).collect();
            packing.unpack(&groups).into_iter()
        };
        let parts = unpacked(|m| &m.first).zip(unpacked(|m| &m.second));
        let parts = parts.zip(unpacked(|m| &m.mean_weight)).zip(paths);
        let moments = parts.map(|(((first, second), mean_weight), path)| Moments {
            path: path.clone(),
            first,
            second,
            mean_weight,
        });
        moments.collect()
    }

    /// Group by group, with the weights themselves.
    fn packed(self, model: &Voice) -> (Vec<Moments>, PackedWeights) {
        if let Some(packed) = self.packed {
            return (self.moments, packed);
        }
        let device = self.updates.device();
        let weights = model.weights();
        let shapes: Vec<_> = weights.iter().map(|weight| weight.shape.clone()).collect();
        let packing = Packing::new(&shapes);
        let pack = |parts: &mut dyn Iterator<Item = Tensor<1>>| {
            packing.pack(parts.map(Some).collect(), &device)
        };
        let groups = pack(&mut weights.into_iter().map(|weight| weight.flat));
        let part = |part: fn(&Moments) -> &Tensor<1>| {
            pack(&mut self.moments.iter().map(|m| part(m).clone())).into_iter()
        };
        let moments = part(|m| &m.first)
            .zip(part(|m| &m.second))
            .zip(part(|m| &m.mean_weight));
        let moments = moments.map(|((first, second), mean_weight)| Moments {
            path: String::new(),
            first,
            second,
            mean_weight,
        });
        let moments = moments.collect();
        let packed = PackedWeights {
            packing: Arc::new(packing),
            groups,
            paths: self
                .moments
                .into_iter()
                .map(|moments| moments.path)
                .collect(),
        };
        (moments, packed)
    }
}

/// What a step came to, on the device: the gradients' norm and whether the step counted (1 or 0).
#[derive(Clone, Debug)]
pub(crate) struct Taken {
    pub(crate) norm: Tensor<1>,
    pub(crate) counted: Tensor<1>,
}

impl AdamW {
    /// One step at the given rate.
    pub(crate) fn step(
        &self,
        model: Voice,
        state: OptimizerState,
        gradients: FlatGradients,
        rate: f64,
    ) -> (Voice, OptimizerState, Taken) {
        let norm = gradients.norm(&state.updates.device());
        let counted = norm.clone().is_finite().float();
        let updates = state.updates + counted.clone();
        let scaled_by = gradients.scaled_by.clone();
        let control = StepControl::new(self.control(&norm, &counted, &updates, scaled_by));
        let update = Update {
            adam: *self,
            rate: rate as f32,
            control,
        };
        let taken = Taken { norm, counted };
        match update.control.on_host.is_some() {
            true => {
                let (model, moments) = update.weight_by_weight(model, state.moments, gradients);
                (model, OptimizerState::of(moments, updates), taken)
            }
            false => {
                let state = OptimizerState {
                    updates: updates.clone(),
                    ..state
                };
                let (model, state) = update.group_by_group(model, state, gradients);
                (model, state, taken)
            }
        }
    }

    /// Five numbers that steer the update of every weight: whether it counts, what gradients are
    /// multiplied by, what the two moments are divided by, how much the mean keeps.
    fn control(
        &self,
        norm: &Tensor<1>,
        counted: &Tensor<1>,
        updates: &Tensor<1>,
        scaled_by: Option<Tensor<1>>,
    ) -> Tensor<1> {
        let clip = ((norm.clone() + 1e-6).recip() * self.clip_norm).clamp_max(1.0);
        let clip = match scaled_by {
            Some(factor) => clip / factor,
            None => clip,
        };
        // A step that does not count may divide by zero here; nobody reads it.
        let bias = |beta: f32| -((updates.clone() * beta.ln()).exp()) + 1.0;
        // Young means move faster: the first weights say little about the last ones.
        let young = (updates.clone() + 1.0) / (updates.clone() + 10.0);
        let decay = young.clamp_max(self.ema_decay);
        let (bias_1, bias_2) = (bias(self.beta_1), bias(self.beta_2));
        Tensor::cat(vec![counted.clone(), clip, bias_1, bias_2, decay], 0)
    }
}

/// The steering numbers, where they are needed.
struct StepControl {
    #[cfg(feature = "gpu")]
    on_device: Tensor<1>,
    /// The CPU's memory is the host's: reading costs nothing there.
    on_host: Option<[f32; 5]>,
}

impl StepControl {
    fn new(on_device: Tensor<1>) -> Self {
        let on_host = device::is_cpu(&on_device.device()).then(|| {
            let all = device::read(on_device.clone());
            std::array::from_fn(|n| all.get(n).copied().unwrap_or(0.0))
        });
        Self {
            #[cfg(feature = "gpu")]
            on_device,
            on_host,
        }
    }
}

struct Update {
    adam: AdamW,
    rate: f32,
    control: StepControl,
}

impl Update {
    fn weight_by_weight(
        self,
        model: Voice,
        moments: Vec<Moments>,
        gradients: FlatGradients,
    ) -> (Voice, Vec<Moments>) {
        struct EachWeight {
            update: Update,
            moments: std::vec::IntoIter<Moments>,
            gradients: std::vec::IntoIter<Option<Tensor<1>>>,
            done: Vec<Moments>,
        }
        impl ModuleMapper for EachWeight {
            fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
                let moments = self.moments.next().expect("a state for each weight");
                let gradient = self.gradients.next().flatten();
                param.map(|weight| {
                    let (shape, device) = (weight.shape(), weight.device());
                    let weight = weight.inner().reshape([-1]);
                    let gradient = gradient.unwrap_or_else(|| weight.zeros_like());
                    let (weight, moments) = self.update.update(weight, gradient, moments, D > 1);
                    self.done.push(moments);
                    device::tracked_on(weight.reshape(shape), &device)
                })
            }
        }
        let mut each = EachWeight {
            update: self,
            moments: moments.into_iter(),
            gradients: gradients.parts.into_iter(),
            done: Vec::new(),
        };
        let model = model.map(&mut each);
        (model, each.done)
    }

    fn group_by_group(
        self,
        model: Voice,
        state: OptimizerState,
        gradients: FlatGradients,
    ) -> (Voice, OptimizerState) {
        let updates = state.updates.clone();
        let (moments, packed) = state.packed(&model);
        let gradients = gradients.packed(&packed.packing, &updates.device());
        let gradients = gradients.parts.into_iter().flatten();
        let groups = (packed.packing.groups.iter().zip(packed.groups))
            .zip(moments.into_iter().zip(gradients));
        let updated = groups.map(|((group, weight), (moments, gradient))| {
            self.update(weight, gradient, moments, group.matrices)
        });
        let (groups, moments): (Vec<_>, Vec<_>) = updated.unzip();
        let model = with_weights(model, packed.packing.unpack(&groups));
        #[cfg(feature = "gpu")]
        let model = casting_once(model, &packed.packing, &groups);
        let state = OptimizerState {
            moments,
            packed: Some(PackedWeights { groups, ..packed }),
            updates,
        };
        (model, state)
    }

    fn update(
        &self,
        weight: Tensor<1>,
        gradient: Tensor<1>,
        moments: Moments,
        is_matrix: bool,
    ) -> (Tensor<1>, Moments) {
        let AdamW { beta_1, beta_2, .. } = self.adam;
        let weight_decay = if is_matrix {
            self.adam.weight_decay
        } else {
            0.0
        };
        let numbers = AdamNumbers {
            beta_1,
            beta_2,
            rate: self.rate,
            shrink: 1.0 - self.rate * weight_decay,
            epsilon: EPSILON,
        };
        if let Some([counted, clip, bias_1, bias_2, mean_keeps]) = self.control.on_host {
            if counted == 0.0 {
                return (weight, moments);
            }
            let rate = self.rate / bias_1;
            let of_step = cpu::StepNumbers {
                clip,
                second_scale: 1.0 / bias_2,
                mean_keeps,
            };
            let numbers = AdamNumbers { rate, ..numbers };
            return cpu::adam(numbers, of_step, weight, gradient, moments);
        }
        self.update_on_device(numbers, weight, gradient, moments)
    }

    #[cfg(feature = "gpu")]
    fn update_on_device(
        &self,
        numbers: AdamNumbers,
        weight: Tensor<1>,
        gradient: Tensor<1>,
        moments: Moments,
    ) -> (Tensor<1>, Moments) {
        let control = self.control.on_device.clone();
        gpu::adam(numbers, control, weight, gradient, moments)
    }

    #[cfg(not(feature = "gpu"))]
    fn update_on_device(
        &self,
        _numbers: AdamNumbers,
        _weight: Tensor<1>,
        _gradient: Tensor<1>,
        _moments: Moments,
    ) -> (Tensor<1>, Moments) {
        unreachable!("a build without GPUs has no device but the CPU")
    }
}

/// With 16 bits, the weights' copies are made here: a cast for each buffer instead of one for each use of each weight.
#[cfg(feature = "gpu")]
fn casting_once(model: Voice, packing: &Packing, groups: &[Tensor<1>]) -> Voice {
    let casts = model.half().map(|half| {
        let groups = groups.iter().map(|group| group.clone().cast(half.dtype()));
        packing.unpack(&groups.collect::<Vec<_>>())
    });
    model.with_casts(casts)
}

/// The model with these weights, in its order, in place of its own; they take gradients as those did.
fn with_weights(model: Voice, weights: Vec<Tensor<1>>) -> Voice {
    struct Replace(std::vec::IntoIter<Tensor<1>>);
    impl ModuleMapper for Replace {
        fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
            let weight = self.0.next().expect("one for each weight");
            param.map(|old| device::tracked_on(weight.reshape(old.shape()), &old.device()))
        }
    }
    model.map(&mut Replace(weights.into_iter()))
}

/// The model with the running mean of its weights in place of the weights, in 32 bits: that is how
/// it will speak.
pub(crate) fn with_mean_weights(model: &Voice, state: &OptimizerState) -> Voice {
    let means = state
        .by_weight()
        .into_iter()
        .map(|moments| moments.mean_weight);
    let model = with_weights(model.clone(), means.collect());
    #[cfg(feature = "gpu")]
    let model = model.with_casts(None);
    model.valid().computing_in(device::Precision::Single)
}

#[cfg(test)]
mod tests;
