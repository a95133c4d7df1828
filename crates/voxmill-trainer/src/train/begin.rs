//! How a run begins: fresh, with another run's voice, or where it stopped.

use std::sync::Arc;

use burn::tensor::Device;
use serde_json::Value;

use super::Trainer;
use super::alignments::Alignments;
use super::fitting::Fitting;
use super::lengths::LengthSums;
use super::options::TrainOptions;
use super::report::PendingReports;
use super::styles::Styles;
use super::unsaved::Unsaved;
use crate::checkpoint::{CheckpointError, CheckpointFacts, CheckpointFolder, Progress, VoiceFacts};
use crate::device::Reader;
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
        let model = fresh_model(&options, &voice, device);
        let optimizer = OptimizerState::new(&model, device);
        Self::with_model(options, voice, settings, speakers, device, model, optimizer)
    }

    /// A fresh run that begins with another run's voice: weights that fit are taken over, symbols
    /// are matched by name, and what is new begins as in a fresh run.
    pub fn from_voice(
        options: TrainOptions,
        mut voice: VoiceFacts,
        settings: Value,
        speakers: Vec<String>,
        device: &Device,
        from: &CheckpointFolder,
    ) -> Result<Self, CheckpointError> {
        let fresh = fresh_model(&options, &voice, device);
        let old = from.voice(&options.device_with_gradients(device))?;
        let model = fresh.taking_over(old, &from.facts().voice.symbols, &voice.symbols);
        let optimizer = OptimizerState::new(&model, device);
        voice.speakers = from.facts().voice.speakers.clone();
        Ok(Self::with_model(
            options, voice, settings, speakers, device, model, optimizer,
        ))
    }

    /// Adds to what checkpoints store of the run's settings.
    pub fn store(&mut self, name: &str, value: impl Into<Value>) {
        self.settings[name] = value.into();
    }

    fn with_model(
        options: TrainOptions,
        voice: VoiceFacts,
        settings: Value,
        speakers: Vec<String>,
        device: &Device,
        model: Voice,
        optimizer: OptimizerState,
    ) -> Self {
        let reader = (!is_cpu(device)).then(|| Arc::new(Reader::start()));
        Self {
            model: (model.recomputing(options.recompute)).computing_in(options.precision),
            optimizer,
            loss_scale: (options.precision == Precision::F16).then(|| LossScale::new(device)),
            progress: Progress::default(),
            lengths: LengthSums::new([0.0; 2], device),
            styles: Styles::new(speakers.len()),
            alignments: match options.as_settled {
                true => Alignments::assumed(reader.clone()),
                false => Alignments::new(reader.clone(), Default::default()),
            },
            fitting: Fitting::default(),
            reports: PendingReports::new(reader.clone()),
            reader,
            saved_at: None,
            validated_at: None,
            has_sampled: false,
            unsaved: Unsaved::default(),
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
        let CheckpointFacts {
            voice, progress, ..
        } = restored.facts;
        let (model, optimizer) = (restored.model, restored.optimizer);
        let same_plan = restored.facts.settings.get("plan") == settings.get("plan");
        let mut resumed =
            Self::with_model(options, voice, settings, speakers, device, model, optimizer);
        // Bad steps are counted anew: what was wrong may have been corrected.
        resumed.progress = Progress {
            bad_steps: 0,
            ..progress
        };
        resumed.has_sampled = resumed.progress.step > 0;
        resumed.unsaved = Unsaved::after(resumed.progress.best);
        resumed.lengths = LengthSums::new(restored.lengths, device);
        if let (Some(scale), Some(stored)) = (&mut resumed.loss_scale, restored.loss_scale) {
            *scale = LossScale::from_stored(stored, device);
        }
        // In another plan the numbers are other clips'.
        if same_plan {
            resumed.alignments = Alignments::new(resumed.reader.clone(), restored.facts.alignments);
        }
        Ok(resumed)
    }
}

fn fresh_model(options: &TrainOptions, voice: &VoiceFacts, device: &Device) -> Voice {
    let device = options.device_with_gradients(device);
    Voice::new(&voice.shape, voice.vocabulary, options.seed, &device)
}
