//! Tensors to and from safetensors files, by their paths in the model.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use burn::module::{Module, ModuleMapper, Param};
use burn::tensor::{Device, Tensor, TensorData};
use safetensors::tensor::{Dtype, SafeTensors, TensorView};

use super::{CheckpointError, CheckpointFacts, Restored, TrainingState, VoiceFacts};
use crate::device::read;
use crate::model::{Voice, Weight};
use crate::optimizer::{Moments, OptimizerState};

/// A tensor that was copied to the host.
#[derive(Debug)]
pub(super) struct HostTensor {
    name: String,
    shape: Vec<usize>,
    values: Vec<f32>,
}

impl HostTensor {
    fn new(name: String, shape: Vec<usize>, values: Vec<f32>) -> Self {
        Self {
            name,
            shape,
            values,
        }
    }

    fn flat(name: String, values: Vec<f32>) -> Self {
        Self::new(name, vec![values.len()], values)
    }
}

const LOSS_SCALE: &str = "loss_scale";

/// The weights to speak with, which are their running mean; and all that training resumes from besides.
pub(super) fn tensors(state: &TrainingState<'_>) -> [Vec<HostTensor>; 2] {
    let (mut voice, mut training) = (Vec::new(), Vec::new());
    let weights = state.model.weights().into_iter();
    for (weight, moments) in weights.zip(state.optimizer.by_weight()) {
        let Weight { path, shape, flat } = weight;
        let of_kind = |kind: &str| format!("{kind}/{path}");
        training.push(HostTensor::new(
            of_kind("weight"),
            shape.clone(),
            read(flat),
        ));
        training.push(HostTensor::flat(of_kind("first"), read(moments.first)));
        training.push(HostTensor::flat(of_kind("second"), read(moments.second)));
        voice.push(HostTensor::new(path, shape, read(moments.mean_weight)));
    }
    let updates = read(state.optimizer.updates.clone());
    training.push(HostTensor::flat("updates".to_owned(), updates));
    let lengths = state.lengths.to_vec();
    training.push(HostTensor::flat("lengths".to_owned(), lengths));
    let scale = state.loss_scale.map(|scale| scale.to_vec());
    training.extend(scale.map(|scale| HostTensor::flat(LOSS_SCALE.to_owned(), scale)));
    [voice, training]
}

/// The bytes of a file with these tensors.
pub(super) fn file(tensors: Vec<HostTensor>) -> Vec<u8> {
    let bytes = tensors.into_iter().map(|tensor| {
        let bytes: Vec<u8> = tensor
            .values
            .into_iter()
            .flat_map(f32::to_le_bytes)
            .collect();
        (tensor.name, tensor.shape, bytes)
    });
    let bytes: Vec<_> = bytes.collect();
    let views = bytes.iter().map(|(name, shape, bytes)| {
        let view = TensorView::new(Dtype::F32, shape.clone(), bytes);
        (name, view.expect("as many bytes as the shape says"))
    });
    safetensors::serialize(views, None).expect("distinct names and sizes that fit")
}

struct Loaded<'a> {
    path: &'a Path,
    tensors: SafeTensors<'a>,
    untaken: RefCell<BTreeSet<String>>,
}

impl<'a> Loaded<'a> {
    fn new(path: &'a Path, bytes: &'a [u8]) -> Result<Self, CheckpointError> {
        let damaged = |why: safetensors::SafeTensorError| CheckpointError::damaged(path, why);
        let tensors = SafeTensors::deserialize(bytes).map_err(damaged)?;
        let names = tensors.names().into_iter().map(ToString::to_string);
        let untaken = RefCell::new(names.collect());
        Ok(Self {
            path,
            tensors,
            untaken,
        })
    }

    /// The numbers of a tensor: finite, as many as the shape says and none below `least`.
    fn take(&self, name: &str, shape: &[usize], least: f32) -> Result<Vec<f32>, CheckpointError> {
        let damaged = |why: String| Err(CheckpointError::damaged(self.path, why));
        self.untaken.borrow_mut().remove(name);
        let Ok(view) = self.tensors.tensor(name) else {
            return damaged(format!("`{name}` is missing"));
        };
        if view.dtype() != Dtype::F32 {
            return damaged(format!("`{name}` holds no 32-bit floats"));
        }
        if view.shape() != shape {
            return damaged(format!("`{name}` is {:?}, not {shape:?}", view.shape()));
        }
        let (numbers, _) = view.data().as_chunks::<4>();
        let values: Vec<f32> = numbers.iter().map(|b| f32::from_le_bytes(*b)).collect();
        match (values.iter()).find(|value| !value.is_finite() || **value < least) {
            Some(value) => damaged(format!("`{name}` holds {value}")),
            None => Ok(values),
        }
    }

    fn two(&self, name: &str) -> Result<[f32; 2], CheckpointError> {
        let values = self.take(name, &[2], 0.0)?;
        Ok(std::array::from_fn(|at| values[at]))
    }

    /// A voice without some of its layers speaks as if nothing were missing.
    fn check_all_taken(&self) -> Result<(), CheckpointError> {
        match self.untaken.borrow().first() {
            None => Ok(()),
            Some(name) => {
                let why = format!("a voice of this shape has no `{name}`");
                Err(CheckpointError::damaged(self.path, why))
            }
        }
    }

    /// Puts the file's weights in place of a model's own.
    fn place_into(&self, model: Voice, prefix: &str) -> Result<Voice, CheckpointError> {
        struct Place<'a> {
            loaded: &'a Loaded<'a>,
            prefix: &'a str,
            path: Vec<String>,
            error: Option<CheckpointError>,
        }
        impl ModuleMapper for Place<'_> {
            fn enter_module(&mut self, name: &str, _: &str) {
                self.path.push(name.to_owned());
            }
            fn exit_module(&mut self, _: &str, _: &str) {
                self.path.pop();
            }
            fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
                let name = format!("{}{}", self.prefix, self.path.join("."));
                let shape = param.val().shape();
                match self.loaded.take(&name, &shape, f32::MIN) {
                    Ok(values) => param.map(|weight| {
                        let data = TensorData::new(values, shape);
                        let loaded = Tensor::from_data(data, &weight.device());
                        loaded.set_require_grad(weight.is_require_grad())
                    }),
                    Err(error) => {
                        self.error.get_or_insert(error);
                        param
                    }
                }
            }
        }
        let mut place = Place {
            loaded: self,
            prefix,
            path: Vec::new(),
            error: None,
        };
        let model = model.map(&mut place);
        place.error.map_or(Ok(model), Err)
    }
}

pub(super) fn load_voice(
    facts: &VoiceFacts,
    path: &Path,
    bytes: &[u8],
    device: &Device,
) -> Result<Voice, CheckpointError> {
    let loaded = Loaded::new(path, bytes)?;
    let fresh = Voice::new(&facts.shape, facts.vocabulary, 0, device);
    let voice = loaded.place_into(fresh, "")?;
    loaded.check_all_taken()?;
    Ok(voice)
}

/// From the files with all that training resumes from, and with the voice.
pub(super) fn load_training(
    [training, voice]: [(PathBuf, Vec<u8>); 2],
    device: &Device,
    facts: CheckpointFacts,
) -> Result<Restored, CheckpointError> {
    let loaded = Loaded::new(&training.0, &training.1)?;
    let means = Loaded::new(&voice.0, &voice.1)?;
    let fresh = Voice::new(&facts.voice.shape, facts.voice.vocabulary, 0, device);
    let model = loaded.place_into(fresh, "weight/")?;
    let plain = device.clone().without_autodiff();
    let flat = |values: Vec<f32>| Tensor::<1>::from_data(&values[..], &plain);
    let moments = model
        .weights()
        .into_iter()
        .map(|Weight { path, shape, .. }| {
            let length = shape.iter().product();
            let moment =
                |kind: &str, least| loaded.take(&format!("{kind}/{path}"), &[length], least);
            Ok(Moments {
                first: flat(moment("first", f32::MIN)?),
                // Its root is divided by.
                second: flat(moment("second", 0.0)?),
                mean_weight: flat(means.take(&path, &shape, f32::MIN)?),
                path,
            })
        });
    let moments = moments.collect::<Result<_, CheckpointError>>()?;
    let updates = flat(loaded.take("updates", &[1], 0.0)?);
    let lengths = loaded.two("lengths")?;
    let has_scale = loaded.tensors.tensor(LOSS_SCALE).is_ok();
    let loss_scale = has_scale.then(|| loaded.two(LOSS_SCALE)).transpose()?;
    loaded.check_all_taken()?;
    means.check_all_taken()?;
    Ok(Restored {
        facts,
        model,
        optimizer: OptimizerState::of(moments, updates),
        lengths,
        loss_scale,
    })
}
