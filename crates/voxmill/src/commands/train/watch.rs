//! What a run is watched with: files for TensorBoard, the dashboard, the devices' memory.

use std::io::IsTerminal as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use voxmill_report::tensorboard::{EventWriter, Start};
use voxmill_trainer::checkpoint::Progress;
use voxmill_trainer::device::DeviceId;
use voxmill_trainer::schedule::PRIOR_STEPS;
use voxmill_trainer::train::Limits;

use super::memory::{MemoryWatch, Pools};
use super::observer::moment;
use super::prepare::Opened;
use crate::complaint::Complaint;
use crate::dashboard::{Dashboard, Goal};
use crate::exit::Exit;
use crate::feed::train::BatchFeed;
use crate::interrupt;
use crate::settings::TrainSettings;

pub(super) fn tensorboard(
    settings: &TrainSettings,
    run: &Path,
    progress: &Progress,
) -> Result<EventWriter, Complaint> {
    let folder = settings.tensorboard_log_dir.as_deref().unwrap_or(run);
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let start = Start {
        wall_seconds: moment(0).wall_seconds,
        host: host.trim(),
        process_id: std::process::id(),
        first_step: progress.step,
    };
    EventWriter::create(folder, start).map_err(|error| {
        Complaint::new(
            "the files for TensorBoard cannot be written",
            "give a folder that can be written with --tensorboard-log-dir",
        )
        .because(error)
    })
}

/// `None` where progress is told in lines.
pub(super) fn dashboard(
    settings: &TrainSettings,
    run: &Path,
    limits: Limits,
) -> anyhow::Result<Option<Dashboard>> {
    let on_a_terminal = std::io::stderr().is_terminal();
    let is_wanted = match settings.dashboard {
        Some(true) if !on_a_terminal => {
            return Err(Complaint::new(
                "--dashboard needs a terminal, and standard error is none",
                "leave it out: progress is then told in lines",
            )
            .into());
        }
        asked => asked.unwrap_or(on_a_terminal),
    };
    if !is_wanted {
        return Ok(None);
    }
    let dashboard = Dashboard::start(interrupt::ask, || Exit::Interrupted.leave())
        .context("the dashboard cannot be drawn; --no-dashboard does without")?;
    let devices = settings.devices.devices;
    dashboard.update(|state| {
        let name = run.file_name();
        state.run_name = name.map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        state.model_size = settings.model_size.name().to_owned();
        state.device = devices.model().to_string();
        state.mode = match devices.is_pair() {
            true => "two devices".to_owned(),
            false => "single device".to_owned(),
        };
        state.goal = match (limits.steps, limits.seconds) {
            (Some(steps), None) => Goal::Steps(steps),
            (_, Some(seconds)) => Goal::Time(Duration::from_secs_f64(seconds)),
            (None, None) => Goal::Open,
        };
    });
    Ok(Some(dashboard))
}

/// The model device first.
pub(super) fn memory(
    settings: &TrainSettings,
    opened: &Opened,
    batches: &BatchFeed,
    progress: &Progress,
) -> Vec<MemoryWatch> {
    let (devices, limits) = (settings.devices.devices, settings.devices.limits);
    // An epoch after steps have become what they stay, every shape has come by.
    let settled = progress.step.max(PRIOR_STEPS) + batches.plan().batches_per_epoch();
    let watch =
        |pools, id: DeviceId, limit| MemoryWatch::new(pools, id.to_string(), limit, settled);
    let mut watches = vec![watch(
        Pools::Model(opened.model.clone()),
        devices.model(),
        limits.model,
    )];
    if devices.is_pair() {
        let pools = Pools::Data(Arc::clone(&opened.data_pools));
        watches.push(watch(pools, devices.data(), limits.data));
    }
    watches
}
