//! Files for TensorBoard. What cannot be written costs a warning, not the run.

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use voxmill_pipeline::control::Control;
use voxmill_report::picture::alignment_png;
use voxmill_report::tensorboard::{EventFileError, EventWriter, Moment, RunStart};
use voxmill_trainer::checkpoint::Progress;
use voxmill_trainer::train::{StepReport, Validation};

use super::screen::Screen;
use super::totals::Pace;
use crate::session::memory::DeviceWatch;
use voxmill_settings::TrainSettings;
use voxmill_settings::error::UserError;
use voxmill_settings::error::of_library::with_cause;
use voxmill_telemetry::probes::status_bytes;

pub(super) struct TensorBoard {
    /// `None` once a write has failed.
    writer: Option<EventWriter>,
    /// The file of a run that does not begin after all. It goes when this is dropped.
    begun: Option<PathBuf>,
}

impl Drop for TensorBoard {
    fn drop(&mut self) {
        if let Some(path) = &self.begun {
            // It holds settings alone.
            let _ = std::fs::remove_file(path);
        }
    }
}

impl TensorBoard {
    pub(super) fn create(
        settings: &TrainSettings,
        run: &Path,
        progress: &Progress,
    ) -> Result<TensorBoard, UserError> {
        let folder = settings.tensorboard_log_dir.as_deref().unwrap_or(run);
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let start = RunStart {
            wall_seconds: moment(0).wall_seconds,
            host: host.trim(),
            process_id: std::process::id(),
            first_step: progress.step,
        };
        let refused = |error: EventFileError| {
            let what = "the files for TensorBoard cannot be written";
            let hint = "give a folder that can be written with --tensorboard-log-dir";
            UserError::new(what, hint).because(error)
        };
        let writer = EventWriter::create(folder, start).map_err(refused)?;
        let mut tensorboard = TensorBoard {
            begun: Some(writer.path().to_owned()),
            writer: Some(writer),
        };
        let resolved = settings.resolved.iter();
        let values: Vec<_> = resolved.map(|line| (line.key.name, &*line.value)).collect();
        if let Some(writer) = &mut tensorboard.writer {
            let written = writer.settings(moment(progress.step), &values);
            written.and_then(|()| writer.flush()).map_err(refused)?;
        }
        Ok(tensorboard)
    }

    pub(super) fn off() -> TensorBoard {
        TensorBoard {
            writer: None,
            begun: None,
        }
    }

    /// The run begins.
    pub(super) fn stay(mut self) -> TensorBoard {
        self.begun = None;
        self
    }

    /// How full the machine is: memory of the process and of each device, buffers, and how busy the model device was.
    pub(super) fn machine(
        &mut self,
        screen: &Screen,
        step: u64,
        pace: &Pace,
        control: &Control,
        memory: &[DeviceWatch],
    ) {
        let mut values = vec![("devices/model busy share".to_owned(), pace.busy as f32)];
        let resident = status_bytes("self", "VmRSS");
        values.extend(resident.map(|bytes| ("memory/process MB".to_owned(), megabytes(bytes))));
        for watch in memory {
            let used = watch.now().map(megabytes);
            values.extend(used.map(|used| (format!("memory/{} MB", watch.name()), used)));
        }
        let snapshot = control.snapshot();
        // The model itself has nothing behind it.
        for stage in snapshot.stages.iter().filter(|stage| stage.capacity > 0) {
            values.push((format!("buffers/{}", stage.name), stage.buffered as f32));
        }
        if let Some(budget) = snapshot.budgets.first() {
            values.push((
                "buffers/bytes in use MB".to_owned(),
                megabytes(budget.in_use),
            ));
        }
        let values: Vec<(&str, f32)> = values.iter().map(|(tag, value)| (&**tag, *value)).collect();
        self.write(screen, |writer| writer.scalars(moment(step), &values));
    }

    pub(super) fn write(
        &mut self,
        screen: &Screen,
        write: impl FnOnce(&mut EventWriter) -> Result<(), EventFileError>,
    ) {
        if let Some(writer) = &mut self.writer
            && let Err(error) = write(writer)
        {
            self.writer = None;
            screen.warn(&format!(
                "no more files for TensorBoard: {}",
                with_cause(&error)
            ));
        }
    }

    pub(super) fn step(&mut self, screen: &Screen, last: &StepReport, pace: &Pace) {
        let mut values = vec![
            ("loss/total", last.losses.total as f32),
            ("loss/mel", last.losses.mel as f32),
            ("loss/mean", last.losses.mean as f32),
            ("loss/duration", last.losses.duration as f32),
            ("optimiser/learning_rate", last.rate as f32),
            ("optimiser/gradient_norm", last.gradient_norm as f32),
            ("speed/frames_per_second", pace.frames_per_second as f32),
            ("speed/step_ms", (pace.median.as_secs_f64() * 1e3) as f32),
            ("speed/stall_share", pace.stall as f32),
        ];
        values.extend(
            last.loss_scale
                .map(|scale| ("optimiser/loss_scale", scale as f32)),
        );
        self.write(screen, |writer| writer.scalars(moment(last.step), &values));
    }

    /// `held_out`: a picture of what is shown of it.
    pub(super) fn validated(&mut self, screen: &Screen, found: &Validation, held_out: &[u8]) {
        let values = [
            ("validation/total", found.losses.total as f32),
            ("validation/mel", found.losses.mel as f32),
            ("validation/mean", found.losses.mean as f32),
            ("validation/duration", found.losses.duration as f32),
        ];
        self.write(screen, |writer| {
            let at = moment(found.step);
            writer.scalars(at, &values)?;
            if let Some(shown) = &found.shown {
                writer.picture(at, "held out: recording above, model below", held_out)?;
                let alignment = alignment_png(&shown.durations);
                writer.picture(at, "held out: alignment", &alignment)?;
            }
            writer.flush()
        });
    }
}

fn megabytes(bytes: u64) -> f32 {
    (bytes as f64 / 1e6) as f32
}

pub(super) fn moment(step: u64) -> Moment {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH);
    Moment {
        wall_seconds: since_1970.map_or(0.0, |since| since.as_secs_f64()),
        step,
    }
}
