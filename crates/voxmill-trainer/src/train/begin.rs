//! How a run begins: fresh, with another run's voice, or where it stopped.

use burn::tensor::{Device, Tensor};
use serde_json::Value;
use voxmill_data::batch_plan::Position;

use super::Trainer;
use super::alignments::{Alignments, Stored};
use super::fitting::Fitting;
use super::options::TrainOptions;
use super::styles::Styles;
use crate::checkpoint::{CheckpointError, CheckpointFolder, Progress, VoiceFacts};
use crate::device::{Precision, is_cpu};
use crate::model::Voice;
use crate::optimizer::{LossScale, OptimizerState};

impl Trainer {
    /// A fresh run. `device` without gradients; `speakers` are named by their numbers in batches.
    pub fn new(
        options: TrainOptions,
        voice: VoiceFacts,
        settings: Value,
        speakers: Vec<String>,
        device: &Device,
    ) -> Self {
        let with_gradients = options.device_with_gradients(device);
        let model = Voice::new(
            &voice.shape,
            voice.vocabulary,
            options.seed,
            &with_gradients,
        );
        Self::with_model(options, voice, settings, speakers, device, model)
    }

    /// A fresh run that begins with another run's voice: weights that fit are taken over, symbols
    /// are matched by name, and what is new begins as in a fresh run.
    pub fn from_voice(
        options: TrainOptions,
        voice: VoiceFacts,
        settings: Value,
        speakers: Vec<String>,
        device: &Device,
        from: &CheckpointFolder,
    ) -> Result<Self, CheckpointError> {
        let with_gradients = options.device_with_gradients(device);
        let fresh = Voice::new(
            &voice.shape,
            voice.vocabulary,
            options.seed,
            &with_gradients,
        );
        let old = from.voice(&with_gradients)?;
        let model = fresh.taking_over(old, &from.facts().voice.symbols, &voice.symbols);
        let mut training = Self::with_model(options, voice, settings, speakers, device, model);
        training.voice.speakers = from.facts().voice.speakers.clone();
        Ok(training)
    }

    fn with_model(
        options: TrainOptions,
        voice: VoiceFacts,
        settings: Value,
        speakers: Vec<String>,
        device: &Device,
        model: Voice,
    ) -> Self {
        let optimizer = OptimizerState::new(&model, device);
        Self {
            model: (model.recomputing(options.recompute)).computing_in(options.precision),
            optimizer,
            loss_scale: (options.precision == Precision::F16).then(|| LossScale::new(device)),
            progress: Progress {
                step: 0,
                seconds: 0.0,
                position: Position::default(),
                feed: Value::Null,
                validation: None,
                best: None,
                since_best: 0,
                bad_steps: 0,
            },
            lengths: Tensor::zeros([2], device),
            styles: Styles::new(speakers.len()),
            alignments: Alignments::new(!is_cpu(device), Stored::default()),
            fitting: Fitting::default(),
            saved_at: None,
            validated_at: None,
            device: device.clone(),
            speaker_names: speakers,
            options,
            voice,
            settings,
        }
    }

    /// Resumes a run after a checkpoint.
    pub fn resume(
        options: TrainOptions,
        settings: Value,
        speakers: Vec<String>,
        device: &Device,
        from: &CheckpointFolder,
    ) -> Result<Self, CheckpointError> {
        let restored = from.restore(&options.device_with_gradients(device))?;
        let lengths = restored.lengths;
        let same_plan = restored.facts.settings.get("plan") == settings.get("plan");
        let model = restored.model.recomputing(options.recompute);
        let loss_scale = (options.precision == Precision::F16).then(|| match restored.loss_scale {
            Some(stored) => LossScale::from_stored(stored, device),
            None => LossScale::new(device),
        });
        Ok(Self {
            model: model.computing_in(options.precision),
            optimizer: restored.optimizer,
            loss_scale,
            // Bad steps are counted anew: what was wrong may have been corrected.
            progress: Progress {
                bad_steps: 0,
                ..restored.facts.progress
            },
            voice: restored.facts.voice,
            lengths: Tensor::from_floats(lengths, device),
            styles: Styles::new(speakers.len()),
            alignments: Alignments::new(
                !is_cpu(device),
                match same_plan {
                    true => Stored {
                        known: restored.facts.alignments,
                        pending: restored.facts.pending_durations,
                        settling: restored.facts.settling,
                    },
                    // Its numbers are other clips'.
                    false => Stored::default(),
                },
            ),
            fitting: Fitting::default(),
            saved_at: None,
            validated_at: None,
            device: device.clone(),
            speaker_names: speakers,
            options,
            settings,
        })
    }
}
