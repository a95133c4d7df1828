//! The record of a run, from its first event to its last: a log, a trace, or nothing.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use voxmill_telemetry::device::DeviceIdentity;
use voxmill_telemetry::event::{Event, Outcome, RunStarted};
use voxmill_telemetry::facts::RecordedSetting;
use voxmill_telemetry::log::{LOG_VERSION, LogError};
use voxmill_telemetry::plan::Plan;
use voxmill_telemetry::probes::{Probes, Roots, Sampler};
use voxmill_telemetry::recorder::{RecordError, Recorder, RecorderOptions};
use voxmill_telemetry::trace::TraceOptions;

use crate::commands::{note, warning};
use voxmill_settings::error::UserError;

/// Records for as long as it lives; [`Recording::finish`] says how the run ended.
#[derive(Debug)]
pub(crate) struct Recording {
    recorder: Recorder,
    sampler: Option<Sampler>,
    /// Notes of the probes that were printed at the start.
    printed: usize,
}

impl Recording {
    /// Opens the files that are asked for; without any, only the clock runs.
    pub(crate) fn start(
        name: &str,
        plan: &Plan,
        facts: BTreeMap<String, String>,
        mut devices: Vec<DeviceIdentity>,
        settings: Vec<RecordedSetting>,
        log: Option<&Path>,
        trace: Option<&Path>,
    ) -> anyhow::Result<Recording> {
        if log.is_none() && trace.is_none() {
            return Ok(Recording {
                recorder: Recorder::off(),
                sampler: None,
                printed: 0,
            });
        }
        let options = RecorderOptions {
            log: log.map(Path::to_owned),
            trace: trace.map(TraceOptions::new),
        };
        let refused = |error| {
            let hint = match &error {
                RecordError::Log(cause) => match **cause {
                    LogError::NotALog { .. } => "give --log a new file, or a log to append to",
                    LogError::InUse { .. } => "give each run a --log of its own",
                    _ => "give --log a file in a folder that you can write to",
                },
                RecordError::SamePath { .. } => "give --log and --trace two different files",
                _ => "give --trace a file in a folder that you can write to",
            };
            UserError::new("the run cannot be recorded", hint).because(error)
        };
        let recorder = Recorder::start(options).map_err(refused)?;
        let probes = Probes::find(&Roots::default());
        for note in probes.notes() {
            note!("{note}");
        }
        let printed = probes.notes().len();
        probes.name_samples(&mut devices);
        // The date of the moment at which the run's clock was at zero.
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH);
        let unix_seconds = since_1970.map_or(0.0, |span| span.as_secs_f64());
        recorder.record(Event::RunStarted(RunStarted {
            log_version: LOG_VERSION,
            name: name.to_owned(),
            unix_seconds: unix_seconds - recorder.now().seconds(),
            program: concat!("voxmill ", env!("CARGO_PKG_VERSION")).to_owned(),
            plan: Some(plan.clone()),
            facts: probes.facts().into_iter().chain(facts).collect(),
            devices,
            settings,
        }));
        let (clock, to) = (recorder.clone(), recorder.clone());
        let sampler = Sampler::start(
            probes,
            Sampler::INTERVAL,
            move || clock.now(),
            move |event| to.record(event),
        )?;
        Ok(Recording {
            recorder,
            sampler: Some(sampler),
            printed,
        })
    }

    pub(crate) fn recorder(&self) -> Recorder {
        self.recorder.clone()
    }

    /// A record that could not be written in full costs a warning, not the run.
    pub(crate) fn finish(self, outcome: Outcome) {
        // First of all: the probes may take their time.
        self.recorder.record(Event::RunEnded { outcome });
        if let Some(sampler) = self.sampler {
            for note in sampler.notes().iter().skip(self.printed) {
                note!("{note}");
            }
        }
        let finished = self.recorder.finish();
        for note in self.recorder.notes() {
            note!("{note}");
        }
        let Err(error) = finished else {
            return;
        };
        for error in error.each() {
            let error = anyhow::Error::from(error.clone());
            warning!("the record is not complete: {error:#}");
        }
    }
}
