//! The record of a run, from its first event to its last: a log, a trace, or nothing.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use voxmill_telemetry::event::{Event, Outcome, RunStarted};
use voxmill_telemetry::log::LOG_VERSION;
use voxmill_telemetry::plan::Plan;
use voxmill_telemetry::probes::{Probes, Roots, Sampler};
use voxmill_telemetry::recorder::{RecordError, Recorder, RecorderOptions};
use voxmill_telemetry::trace::TraceOptions;

use crate::commands::tell;
use crate::complaint::Complaint;

/// Records for as long as it lives; [`Recording::finish`] says how the run ended.
#[derive(Debug)]
pub(crate) struct Recording {
    recorder: Recorder,
    sampler: Option<Sampler>,
}

impl Recording {
    /// Opens the files that are asked for; without any, only the clock runs.
    pub(crate) fn start(
        name: &str,
        plan: &Plan,
        log: Option<&Path>,
        trace: Option<&Path>,
    ) -> anyhow::Result<Recording> {
        if log.is_none() && trace.is_none() {
            return Ok(Recording {
                recorder: Recorder::off(),
                sampler: None,
            });
        }
        let options = RecorderOptions {
            log: log.map(Path::to_owned),
            trace: trace.map(TraceOptions::new),
        };
        let refused = |error| {
            let hint = match &error {
                RecordError::Log(_) => "give --log a file in a folder that you can write to",
                _ => "give --trace a file in a folder that you can write to",
            };
            Complaint::new("the run cannot be recorded", hint).because(error)
        };
        let recorder = Recorder::start(options).map_err(refused)?;
        let probes = Probes::find(&Roots::default());
        for note in probes.notes() {
            tell(&format!("note: {note}"));
        }
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH);
        recorder.record(Event::RunStarted(RunStarted {
            log_version: LOG_VERSION,
            name: name.to_owned(),
            unix_seconds: since_1970.map_or(0.0, |span| span.as_secs_f64()),
            program: concat!("voxmill ", env!("CARGO_PKG_VERSION")).to_owned(),
            plan: Some(plan.clone()),
            facts: probes.facts(),
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
        })
    }

    pub(crate) fn recorder(&self) -> Recorder {
        self.recorder.clone()
    }

    /// A record that could not be written in full costs a warning, not the run.
    pub(crate) fn finish(self, outcome: Outcome) {
        drop(self.sampler);
        self.recorder.record(Event::RunEnded { outcome });
        if let Err(error) = self.recorder.finish() {
            let error = anyhow::Error::from(error);
            tell(&format!("warning: the record is not complete: {error:#}"));
        }
    }
}
