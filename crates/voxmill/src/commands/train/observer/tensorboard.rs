//! Files for TensorBoard. What cannot be written costs a warning, not the run.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use voxmill_report::picture::{Mel, alignment_png, two_mels_png};
use voxmill_report::tensorboard::{EventFileError, EventWriter, Moment, Start};
use voxmill_trainer::checkpoint::Progress;
use voxmill_trainer::train::{StepReport, Validation};

use super::screen::Screen;
use super::totals::Pace;
use crate::session::errors::with_cause;
use voxmill_settings::TrainSettings;
use voxmill_settings::error::UserError;

pub(super) struct TensorBoard {
    /// `None` once a write has failed.
    writer: Option<EventWriter>,
}

impl TensorBoard {
    pub(super) fn create(
        settings: &TrainSettings,
        run: &Path,
        progress: &Progress,
    ) -> Result<TensorBoard, UserError> {
        let folder = settings.tensorboard_log_dir.as_deref().unwrap_or(run);
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let start = Start {
            wall_seconds: moment(0).wall_seconds,
            host: host.trim(),
            process_id: std::process::id(),
            first_step: progress.step,
        };
        let writer = EventWriter::create(folder, start).map_err(|error| {
            let what = "the files for TensorBoard cannot be written";
            let hint = "give a folder that can be written with --tensorboard-log-dir";
            UserError::new(what, hint).because(error)
        })?;
        Ok(TensorBoard {
            writer: Some(writer),
        })
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

    pub(super) fn validated(&mut self, screen: &Screen, found: &Validation) {
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
                let real = Mel::new(&shown.real, shown.channels);
                let made = Mel::new(&shown.made, shown.channels);
                let both = two_mels_png(real, made);
                writer.picture(at, "held out: recording above, model below", &both)?;
                let alignment = alignment_png(&shown.durations);
                writer.picture(at, "held out: alignment", &alignment)?;
            }
            writer.flush()
        });
    }
}

pub(super) fn moment(step: u64) -> Moment {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH);
    Moment {
        wall_seconds: since_1970.map_or(0.0, |since| since.as_secs_f64()),
        step,
    }
}
