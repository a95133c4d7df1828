//! What other programs do while the data side is measured.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use anyhow::Context as _;
use voxmill_analysis::profile::OtherPrograms;
use voxmill_analysis::run::CoreLoad;
use voxmill_telemetry::event::Event;
use voxmill_telemetry::probes::{Probes, Roots, Sampler};
use voxmill_telemetry::stats::HostStats;

pub(super) struct Rivals {
    seen: Arc<Mutex<HostStats>>,
    _sampler: Sampler,
}

impl Rivals {
    pub(super) fn watch() -> anyhow::Result<Rivals> {
        let seen = Arc::new(Mutex::new(HostStats::default()));
        let began = Instant::now();
        let add = Arc::clone(&seen);
        let sampler = Sampler::start(
            Probes::find(&Roots::default()),
            Sampler::INTERVAL,
            move || began.elapsed().into(),
            move |event| {
                if let Event::HostSample(sample) = event {
                    add.lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .add(&sample);
                }
            },
        );
        Ok(Rivals {
            seen,
            _sampler: sampler.context("cannot start the thread that samples the machine")?,
        })
    }

    /// `None` where the system does not report it.
    pub(super) fn found(&self, cores: usize) -> Option<OtherPrograms> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        CoreLoad::of(&seen, Some(cores as f64)).map(OtherPrograms::from)
    }
}
