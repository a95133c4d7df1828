//! The real pipeline without a model: its throughput by number of workers, and the waits of a consumer that
//! takes a batch at a given pace.

use std::time::{Duration, Instant};
use voxmill_report::format::counted;

use voxmill_analysis::data_side::Capacity;
use voxmill_analysis::timing::Spread;
use voxmill_data::manifest::Split;
use voxmill_pipeline::resume::ResumePoint;
use voxmill_pipeline::run::Delivery;
use voxmill_telemetry::recorder::{Recorder, RecorderOptions};

use crate::commands::status;
use crate::session::data::{Data, loader_settings};
use voxmill_data::{Loader, LoaderSettings};
use voxmill_settings::TrainSettings;
use voxmill_settings::error::of_library::of_loader;

/// How long the pipeline runs with each number of workers.
const LONG_ENOUGH: Duration = Duration::from_millis(1_500);
/// And with a consumer that takes its time.
const FEEDING: Duration = Duration::from_secs(8);
const MOST_BATCHES: usize = 200;

pub(super) struct DataPipeline<'a> {
    pub(super) settings: &'a TrainSettings,
    pub(super) data: &'a Data,
}

pub(super) struct Waits {
    pub(super) waits: Spread,
    pub(super) lost: f64,
    pub(super) clips_per_batch: f64,
}

impl DataPipeline<'_> {
    /// With 1, 2, 4, … workers, up to the cores and once beyond them.
    pub(super) fn capacities(&self, warm: bool, cores: usize) -> anyhow::Result<Vec<Capacity>> {
        let mut counts: Vec<usize> = (0..).map(|n| 1 << n).take_while(|n| *n < cores).collect();
        counts.extend([cores, 2 * cores]);
        counts.dedup();
        counts
            .into_iter()
            .map(|workers| {
                let state = if warm { "warm" } else { "cold" };
                status!("capacity  {}, {state}", counted(workers as u64, "worker"));
                self.capacity(warm, workers)
            })
            .collect()
    }

    fn feed(&self, warm: bool, ours: LoaderSettings) -> anyhow::Result<Loader> {
        let store = match warm {
            true => self.data.store(self.settings),
            false => self.data.store_without_cache(self.settings),
        };
        let batches = self.settings.data.batches;
        let feed = Loader::new(&store, Split::Train, batches, ours);
        feed.map_err(of_loader)
    }

    fn capacity(&self, warm: bool, workers: usize) -> anyhow::Result<Capacity> {
        let (mut clips, mut batches, mut seconds) = (0, 0, 0.0);
        let recorder = Recorder::start(RecorderOptions::default())?;
        // A small dataset is read several times. Each time nothing is in memory.
        while seconds < LONG_ENOUGH.as_secs_f64() {
            let ours = LoaderSettings {
                workers,
                adapt: false,
                overlap: true,
                start_delay: Duration::ZERO,
                ..loader_settings(self.settings)
            };
            let feed = self.feed(warm, ours)?;
            let began = Instant::now();
            let running = feed.start(ResumePoint::default(), Some(1), recorder.clone());
            let mut some = 0;
            for delivery in running.map_err(of_loader)? {
                if let Delivery::Item(batch) = delivery? {
                    let (batch, receipt) = batch.into_parts();
                    some += batch.clip_count();
                    batches += 1;
                    receipt.done();
                }
                if seconds + began.elapsed().as_secs_f64() > 2.0 * LONG_ENOUGH.as_secs_f64() {
                    break;
                }
            }
            seconds += began.elapsed().as_secs_f64();
            clips += some;
            if some == 0 {
                break;
            }
        }
        // What is in the lanes belongs to the sums.
        recorder.flush()?;
        let stats = recorder.stats();
        let of_plan = ["featurize", "keep", "batch", "collate"];
        let stages = stats
            .stages
            .iter()
            .filter(|stage| of_plan.contains(&stage.stage.as_str()) && !stage.service.is_empty());
        let clips_per_batch = clips as f64 / f64::from(batches.max(1));
        let stages = stages.map(|stage| {
            let many = match stage.stage.as_str() {
                "featurize" => workers as f64,
                "keep" => 1.0,
                _ => clips_per_batch,
            };
            let rate = many * 1e9 / stage.service.mean_nanos().max(1.0);
            (stage.stage.clone(), rate)
        });
        Ok(Capacity {
            workers: workers as u64,
            clips_per_second: clips as f64 / seconds.max(1e-9),
            stages: stages.collect(),
        })
    }

    /// As the settings have it, with a consumer that sleeps for each batch as long as a step takes. A cache that does not
    /// have everything is left alone: to look at the data is not to change it.
    pub(super) fn feed_at(&self, warm: bool, step_ms: f64) -> anyhow::Result<Waits> {
        let step = Duration::from_secs_f64(step_ms / 1e3);
        let feed = self.feed(warm, loader_settings(self.settings))?;
        let mut running = feed
            .start(ResumePoint::default(), None, Recorder::off())
            .map_err(of_loader)?;
        let (mut waits, mut clips) = (Vec::new(), 0);
        let began = Instant::now();
        while began.elapsed() < FEEDING && waits.len() < MOST_BATCHES {
            let asked = Instant::now();
            let Some(delivery) = running.next() else {
                break;
            };
            let Delivery::Item(batch) = delivery? else {
                continue;
            };
            waits.push(asked.elapsed().as_secs_f64() * 1e3);
            let (batch, receipt) = batch.into_parts();
            clips += batch.clip_count();
            std::thread::sleep(step);
            receipt.done();
        }
        // The first wait is that for full buffers, once in a run.
        let counted = waits.get(1..).unwrap_or_default();
        let waited: f64 = counted.iter().sum();
        let whole = waited + step_ms * counted.len() as f64;
        Ok(Waits {
            lost: waited / whole.max(1e-9),
            clips_per_batch: clips as f64 / waits.len().max(1) as f64,
            waits: Spread::of(counted.iter().copied()),
        })
    }
}
