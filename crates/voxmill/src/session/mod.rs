//! Builds a run for every verb that needs one: open → plan → check → start → run → finish.
//!
//! [`Data`] is the dataset with its features; `analyze` and `validate` need no more. A [`Session`] has the
//! devices as well; `train` and `profile` plan, check, start and finish their runs with it.

pub(crate) mod data;
pub(crate) mod dataset;
pub(crate) mod devices;
pub(crate) mod facts;
pub(crate) mod feed;
pub(crate) mod memory;
mod parity;
pub(crate) mod placement;
pub(crate) mod predictions;
pub(crate) mod recording;
pub(crate) mod report_page;
pub(crate) mod run_lock;
pub(crate) mod steps;
pub(crate) mod voice;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use anyhow::Context as _;
use voxmill_data::batch::Batch;
use voxmill_data::batch_plan::ShapeChoice;
use voxmill_data::manifest::Quarantine;
use voxmill_data::{FeatureStore, Loader, LoaderSettings};
use voxmill_pipeline::stage::Work;
use voxmill_telemetry::event::{Event, Outcome};
use voxmill_trainer::checkpoint::{CheckpointFolder, PrepareOn, VoiceFacts};
use voxmill_trainer::device::Precision;
use voxmill_trainer::prepare::{Augment, ReadyBatch};
use voxmill_trainer::train::{Stopped, Summary, TrainOptions, Trainer};

use data::{Data, loader_settings, training_loader};
use devices::{OpenDevices, PrepareRecipe};
use recording::Recording;
use run_lock::FolderLock;
use voxmill_settings::TrainSettings;
use voxmill_settings::checks::Needs;
use voxmill_settings::error::of_library::{cannot_write, of_loader};
use voxmill_settings::run_folder::{self, Staged};

/// The checkpoint that `--resume` continues, and its run.
#[derive(Debug)]
pub(crate) struct Resumed {
    pub(crate) run: PathBuf,
    pub(crate) checkpoint: CheckpointFolder,
    /// On the run's folder. `None` where the settings are only shown.
    pub(crate) _lock: Option<FolderLock>,
}

/// Clips that were left out when the run began, by id; `None` for a run that begins.
pub(crate) fn frozen_before(resumed: Option<&Resumed>) -> Option<&[String]> {
    resumed.map(|resumed| &*resumed.checkpoint.facts().quarantine)
}

/// The threads that the model computes on, and what else a verb does before and between its steps.
pub(crate) fn compute_pool(threads: usize) -> anyhow::Result<rayon::ThreadPool> {
    rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .thread_name(|number| format!("compute-{number}"))
        .build()
        .context("cannot start compute threads")
}

/// Runs what goes through all clips before the first step on all threads that the run may have: where the model is on a
/// GPU, the threads that it computes on are few.
pub(crate) fn on_all_threads<T: Send>(
    settings: &TrainSettings,
    work: impl FnOnce() -> T + Send,
) -> T {
    let threads = settings.scan_threads();
    if threads <= rayon::current_num_threads() {
        return work();
    }
    let named = rayon::ThreadPoolBuilder::new().thread_name(|number| format!("scan-{number}"));
    match named.num_threads(threads).build() {
        Ok(pool) => pool.install(work),
        // On those that there are.
        Err(_) => work(),
    }
}

/// A run whose data and devices are open.
pub(crate) struct Session {
    /// With the place decided where frames are computed.
    pub(crate) settings: TrainSettings,
    pub(crate) data: Data,
    pub(crate) store: Arc<FeatureStore>,
    /// Every clip that was bad when the run began. What is found to be bad later is in the plan.
    pub(crate) bad: Quarantine,
    pub(crate) devices: OpenDevices,
    pub(crate) precision: Precision,
    /// Lines that say where frames are computed and why, where there was a choice, and how far those of a device are
    /// from the CPU's.
    pub(crate) placement: Vec<String>,
    began: Instant,
}

/// The batches of a run, and what they need of the devices.
pub(crate) struct RunPlan {
    pub(crate) loader: Loader,
    pub(crate) needs: Needs,
}

impl Session {
    pub(crate) fn open(
        settings: &TrainSettings,
        data: Data,
        resumed: Option<&Resumed>,
        began: Instant,
        stop: &AtomicBool,
    ) -> anyhow::Result<Session> {
        let mut settings = settings.clone();
        if let Some(resumed) = resumed {
            // The plan that it began with: its position counts the batches of that one.
            let number = resumed.checkpoint.facts().settings["shape_choice"].as_u64();
            settings.data.batches.shape_choice = ShapeChoice::of_number(number);
        }
        let settings = &settings;
        let store = match resumed {
            None => data.store(settings),
            // A run of an earlier version planned by headers, which is the default.
            Some(resumed) => {
                let lengths = &resumed.checkpoint.facts().settings["lengths"];
                let lengths = serde_json::from_value(lengths.clone()).unwrap_or_default();
                data.store_with_lengths(settings, lengths)
            }
        };
        let mut bad = data.train.quarantine.clone();
        bad.extend(store.bad());
        let devices = OpenDevices::open(settings.devices.devices)?;
        let precision = devices::precision(&settings.devices, &devices)?;
        let (settings, compared) = parity::check(settings, &devices, &store)?;
        let before = resumed.map(|resumed| resumed.checkpoint.facts().prepare_on);
        let (settings, placement) =
            placement::decide(&settings, before, &store, &devices, precision, stop)?;
        let on_device = settings.devices.prepare_on != PrepareOn::Host;
        Ok(Session {
            settings,
            data,
            store,
            bad,
            devices,
            precision,
            placement: placement
                .into_iter()
                .chain(compared.filter(|_| on_device))
                .collect(),
            began,
        })
    }

    /// Plans the batches, and refuses a run that cannot fit on its devices.
    pub(crate) fn plan(&self) -> anyhow::Result<RunPlan> {
        let loader = self.loader(loader_settings(&self.settings))?;
        let needs = memory::check(&self.settings, self.precision, &loader)?;
        let loader = memory::within_memory(&self.settings, loader, &needs);
        Ok(RunPlan { loader, needs })
    }

    pub(crate) fn loader(&self, ours: LoaderSettings) -> anyhow::Result<Loader> {
        training_loader(&self.settings, &self.store, ours).map_err(of_loader)
    }

    /// The batches of the held-out clips, where there are any and they are wanted.
    pub(crate) fn validation_loader(&self) -> anyhow::Result<Option<Loader>> {
        self.data.validation_loader(&self.settings, &self.store)
    }

    pub(crate) fn options(&self, plan: &RunPlan, validates: bool) -> TrainOptions {
        facts::options(&self.settings, &plan.loader, validates, self.precision)
    }

    /// A voice that has not learnt anything yet.
    pub(crate) fn new_voice(&self) -> anyhow::Result<VoiceFacts> {
        voice::new_voice(&self.settings, &self.data, &self.store)
    }

    /// Starts the log in the run's folder.
    pub(crate) fn record(
        &self,
        verb: &str,
        folder: &Path,
        plan: &RunPlan,
        parameters: usize,
    ) -> anyhow::Result<Recording> {
        let facts = facts::facts(self, plan, parameters, self.began);
        let log = folder.join(run_folder::EVENTS);
        let trace = self.settings.trace.as_deref();
        let (pipeline, devices) = (
            plan.loader.pipeline_plan(),
            self.settings.devices.identities.clone(),
        );
        let given = facts::recorded(&self.settings.resolved);
        let recording =
            Recording::start(verb, &pipeline, facts, devices, given, Some(&log), trace)?;
        let dataset = Event::Dataset(facts::dataset(self, plan));
        recording.recorder().record(dataset);
        Ok(recording)
    }

    /// The settings of the run, ready to be put next to its log.
    pub(crate) fn stage_settings(
        &self,
        folder: &Path,
        run_id: Option<&str>,
    ) -> anyhow::Result<Staged> {
        let yaml = run_folder::settings_yaml(&self.settings.resolved, run_id);
        let staged = Staged::write(&folder.join(run_folder::SETTINGS), &yaml);
        staged.map_err(|error| cannot_write(folder, error).into())
    }

    /// The last stage of the pipeline: batches come to the model device.
    pub(crate) fn prepare_stage(
        &self,
        training: &Trainer,
    ) -> anyhow::Result<Work<Batch, ReadyBatch>> {
        let augment = self.settings.devices.augment;
        devices::prepare_stage(&self.settings, &self.devices, |device| {
            training.preparing(device, augment)
        })
    }

    /// How held-out batches come there: as those of training do, but nothing of theirs is changed.
    pub(crate) fn prepare_held_out(&self, training: &Trainer) -> anyhow::Result<PrepareRecipe> {
        PrepareRecipe::new(&self.settings, &self.devices, |device| {
            training.preparing(device, Augment::default())
        })
    }

    /// Keeps the features that were computed, and ends the log.
    pub(crate) fn finish<E>(&self, recording: Recording, outcome: &Result<Summary, E>) {
        self.store.save();
        recording.finish(match outcome {
            Ok(summary) if summary.stopped == Stopped::Interrupted => Outcome::Interrupted,
            Ok(_) => Outcome::Finished,
            Err(_) => Outcome::Failed,
        });
    }
}
