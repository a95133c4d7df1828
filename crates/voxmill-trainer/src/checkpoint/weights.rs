//! Tensors to and from safetensors files, by their paths in the model.

use std::collections::HashMap;
use std::path::Path;

use burn::module::{Module, ModuleMapper, Param};
use burn::tensor::{Device, Tensor, TensorData};
use safetensors::tensor::{Dtype, SafeTensors, TensorView};

use super::{CheckpointError, Facts, Restored, Snapshot};
use crate::device::read;
use crate::model::Voice;
use crate::optimizer::{Moments, OptimizerState};

fn flat(tensor: &Tensor<1>) -> TensorData {
    TensorData::new(read(tensor.clone()), tensor.dims())
}

/// The file's bytes of the weights to speak with: their running mean.
pub(super) fn voice_file(optimizer: &OptimizerState, model: &Voice) -> Vec<u8> {
    let means = model.weights().into_iter().zip(optimizer.by_weight());
    let means = means.map(|(weight, moments)| {
        let mean = read(moments.mean_weight);
        (weight.path, TensorData::new(mean, weight.shape))
    });
    file(means.collect())
}

const LOSS_SCALE: &str = "loss_scale";

/// The file's bytes of all that training resumes from. The running mean of the weights is in the
/// voice's file.
pub(super) fn training_file(snapshot: &Snapshot<'_>) -> Vec<u8> {
    let mut all = Vec::new();
    for weight in snapshot.model.weights() {
        let data = TensorData::new(read(weight.flat), weight.shape);
        all.push((format!("weight/{}", weight.path), data));
    }
    for moments in snapshot.optimizer.by_weight() {
        let path = &moments.path;
        all.push((format!("first/{path}"), flat(&moments.first)));
        all.push((format!("second/{path}"), flat(&moments.second)));
    }
    let updates = flat(&snapshot.optimizer.updates);
    all.push(("updates".to_owned(), updates));
    all.push(("lengths".to_owned(), snapshot.lengths.into()));
    let loss_scale = snapshot.loss_scale.map(TensorData::from);
    all.extend(loss_scale.map(|scale| (LOSS_SCALE.to_owned(), scale)));
    file(all)
}

fn file(tensors: Vec<(String, TensorData)>) -> Vec<u8> {
    let bytes =
        |data: &TensorData| -> Vec<u8> { data.iter::<f32>().flat_map(f32::to_le_bytes).collect() };
    let bytes: Vec<_> = tensors.iter().map(|(_, data)| bytes(data)).collect();
    let views = tensors.iter().zip(&bytes).map(|((name, data), bytes)| {
        let view = TensorView::new(Dtype::F32, data.shape().to_vec(), bytes)
            .expect("as many bytes as the shape says");
        (name.clone(), view)
    });
    safetensors::serialize(views, None).expect("distinct names and sizes that fit")
}

struct Loaded<'a> {
    path: &'a Path,
    tensors: HashMap<String, TensorData>,
}

impl<'a> Loaded<'a> {
    fn read(path: &'a Path) -> Result<Self, CheckpointError> {
        let bytes = std::fs::read(path).map_err(|source| CheckpointError::Read {
            path: path.to_owned(),
            source,
        })?;
        let damaged = |why: safetensors::SafeTensorError| CheckpointError::damaged(path, why);
        let file = SafeTensors::deserialize(&bytes).map_err(damaged)?;
        let mut tensors = HashMap::new();
        for (name, view) in file.iter() {
            if view.dtype() != Dtype::F32 {
                let why = format!("`{name}` holds no 32-bit floats");
                return Err(CheckpointError::damaged(path, why));
            }
            let (numbers, _) = view.data().as_chunks::<4>();
            let values: Vec<f32> = numbers.iter().map(|b| f32::from_le_bytes(*b)).collect();
            tensors.insert(
                name.to_owned(),
                TensorData::new(values, view.shape().to_vec()),
            );
        }
        Ok(Self { path, tensors })
    }

    fn take(&mut self, name: &str, shape: &[usize]) -> Result<TensorData, CheckpointError> {
        let why = match self.tensors.remove(name) {
            Some(data) if data.num_elements() == shape.iter().product::<usize>() => {
                let values: Vec<f32> = data.iter::<f32>().collect();
                return Ok(TensorData::new(values, shape.to_vec()));
            }
            Some(data) => format!("`{name}` is {:?}, not {shape:?}", data.shape().to_vec()),
            None => format!("`{name}` is missing"),
        };
        Err(CheckpointError::damaged(self.path, why))
    }

    fn two(&mut self, name: &str) -> Result<[f32; 2], CheckpointError> {
        let data = self.take(name, &[2])?;
        let mut values = data.iter::<f32>();
        Ok(std::array::from_fn(|_| values.next().unwrap_or(0.0)))
    }

    /// Puts the file's weights in place of a model's own.
    fn place_into(&mut self, model: Voice, prefix: &str) -> Result<Voice, CheckpointError> {
        struct Place<'a, 'b> {
            loaded: &'a mut Loaded<'b>,
            prefix: &'a str,
            path: Vec<String>,
            error: Option<CheckpointError>,
        }
        impl ModuleMapper for Place<'_, '_> {
            fn enter_module(&mut self, name: &str, _: &str) {
                self.path.push(name.to_owned());
            }
            fn exit_module(&mut self, _: &str, _: &str) {
                self.path.pop();
            }
            fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
                let name = format!("{}{}", self.prefix, self.path.join("."));
                let shape = param.val().shape();
                match self.loaded.take(&name, &shape) {
                    Ok(data) => param.map(|weight| {
                        let device = weight.device();
                        let loaded = Tensor::from_data(data, &device);
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

pub(super) fn load_voice(fresh: Voice, path: &Path) -> Result<Voice, CheckpointError> {
    Loaded::read(path)?.place_into(fresh, "")
}

pub(super) fn load_training(
    fresh: Voice,
    (training, voice): (&Path, &Path),
    device: &Device,
    facts: Facts,
) -> Result<Restored, CheckpointError> {
    let mut loaded = Loaded::read(training)?;
    let mut means = Loaded::read(voice)?;
    let model = loaded.place_into(fresh, "weight/")?;
    let plain = device.clone().without_autodiff();
    let OptimizerState { moments, .. } = OptimizerState::new(&model, &plain);
    let moments = moments.into_iter().map(|moments| {
        let length = moments.first.dims()[0];
        let mut flat = |kind: &str| {
            let data = loaded.take(&format!("{kind}/{}", moments.path), &[length])?;
            Ok(Tensor::from_data(data, &plain))
        };
        Ok(Moments {
            first: flat("first")?,
            second: flat("second")?,
            mean_weight: Tensor::from_data(means.take(&moments.path, &[length])?, &plain),
            path: moments.path.clone(),
        })
    });
    let moments = moments.collect::<Result<_, CheckpointError>>()?;
    let updates = Tensor::from_data(loaded.take("updates", &[1])?, &plain);
    let lengths = loaded.two("lengths")?;
    let has_scale = loaded.tensors.contains_key(LOSS_SCALE);
    let loss_scale = has_scale.then(|| loaded.two(LOSS_SCALE)).transpose()?;
    Ok(Restored {
        facts,
        model,
        optimizer: OptimizerState::of(moments, updates),
        lengths,
        loss_scale,
    })
}
