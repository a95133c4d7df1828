//! Where log-mel frames are computed: in the workers, or on a data device, whichever is faster.
//!
//! With two devices both ways are tried on the first batches: the same pipeline as in training, without a
//! model at its end. What is found is printed and stays with the run: it changes how frames are rounded. The
//! model's own device is never chosen: what it does for batches it does not do for the model.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use voxmill_report::format::given_size;

use anyhow::Context as _;
use voxmill_pipeline::resume::ResumePoint;
use voxmill_pipeline::run::Delivery;
use voxmill_telemetry::recorder::Recorder;
use voxmill_trainer::checkpoint::PrepareOn;
use voxmill_trainer::device::Precision;
use voxmill_trainer::prepare::{MelStatistics, Preparation};

use super::data::{loader_settings, training_loader};
use super::devices::{self, OpenDevices};
use super::memory;
use crate::commands::status;
use voxmill_data::{FeatureStore, Loader, LoaderSettings};
use voxmill_settings::TrainSettings;
use voxmill_settings::checks::Needs;
use voxmill_settings::error::of_library::of_loader;

/// Batches that are taken before the clock starts: the pipeline is full then, and kernels are compiled.
const BEFORE: u64 = 4;
/// Batches that are timed, unless they take longer than [`ENOUGH`] together.
const TIMED: u64 = 8;
const ENOUGH: Duration = Duration::from_secs(3);
/// The data device has to be so much faster: with the workers, frames are kept from epoch to epoch.
const CLEARLY: f64 = 0.9;

/// The settings with the place decided, and a line that says why, where there was a choice. `before`: what a
/// resumed run did. A run that does not fit wherever frames are made is refused before anything is measured.
pub(crate) fn decide(
    settings: &TrainSettings,
    before: Option<PrepareOn>,
    store: &Arc<FeatureStore>,
    opened: &OpenDevices,
    precision: Precision,
    stop: &AtomicBool,
) -> anyhow::Result<(TrainSettings, Option<String>)> {
    if !settings.devices.measures_prepare_on {
        return Ok((settings.clone(), None));
    }
    let at = |place| {
        let mut settings = settings.clone();
        settings.devices.prepare_on = place;
        settings.devices.measures_prepare_on = false;
        settings
    };
    let devices = settings.devices.devices;
    let who = |place| match place {
        PrepareOn::Host => "the workers".to_owned(),
        PrepareOn::Data => devices.data().to_string(),
        PrepareOn::Model => devices.model().to_string(),
    };
    if let Some(before) = before {
        let line = format!("frames    by {}, as before the stop", who(before));
        return Ok((at(before), Some(line)));
    }
    let on_host = at(PrepareOn::Host);
    let batches = training_loader(&on_host, store, loader_settings(&on_host)).map_err(of_loader)?;
    memory::check(&on_host, precision, &batches)?;
    // What the measuring takes is not the run's.
    let opened = &OpenDevices {
        data: opened.data.clone(),
        model: opened.model.clone(),
        data_pools: Arc::default(),
    };
    let time = |place| batch_time(&at(place), store, opened, stop);
    let measured = room(&at(PrepareOn::Data), store).and_then(|()| {
        status!(
            "measuring whether the workers or {} compute frames faster …",
            devices.data()
        );
        Ok([time(PrepareOn::Host)?, time(PrepareOn::Data)?])
    });
    opened.data.memory_cleanup();
    opened.model.memory_cleanup();
    Ok(match measured {
        Ok([host, data]) => {
            let place = faster(host, data);
            let again = store.finds_again();
            let kept = if again { " (once they are kept)" } else { "" };
            let (who, host, data) = (who(place), ms(host), ms(data));
            let device = devices.data();
            let line = format!(
                "frames    by {who}: {host} ms a batch by the workers{kept}, {data} by {device}"
            );
            (at(place), Some(line))
        }
        Err(why) => {
            let line = format!("frames    by the workers: nothing could be measured ({why:#})");
            (on_host, Some(line))
        }
    })
}

fn faster(host: Duration, data: Duration) -> PrepareOn {
    match data.as_secs_f64() < CLEARLY * host.as_secs_f64() {
        true => PrepareOn::Data,
        false => PrepareOn::Host,
    }
}

fn ms(time: Duration) -> String {
    format!("{:.1}", time.as_secs_f64() * 1e3)
}

/// Whether the data device may try its largest batch at all.
fn room(on_data: &TrainSettings, store: &Arc<FeatureStore>) -> anyhow::Result<()> {
    let batches = training_loader(on_data, store, loader_settings(on_data))?;
    let needs = Needs::of(on_data, Precision::Single, batches.plan()).data;
    let may = on_data.devices.limits.data.or(on_data.devices.free.data);
    match may.filter(|may| needs > *may) {
        Some(may) => anyhow::bail!(
            "{} would need {} of the {} that it may take",
            on_data.devices.devices.data(),
            given_size(needs),
            given_size(may)
        ),
        None => Ok(()),
    }
}

/// How long one batch takes where nobody trains on it.
fn batch_time(
    settings: &TrainSettings,
    store: &Arc<FeatureStore>,
    opened: &OpenDevices,
    stop: &AtomicBool,
) -> anyhow::Result<Duration> {
    let batches = training_loader(
        settings,
        store,
        LoaderSettings {
            // What is made ahead while the first batches are waited for is not timed: as little as can be.
            buffer_size: 1,
            slots: 1,
            start_delay: Duration::ZERO,
            adapt: false,
            ..loader_settings(settings)
        },
    )?;
    if settings.devices.prepare_on != PrepareOn::Host || !store.finds_again() {
        return pass(settings, &batches, opened, stop);
    }
    // Twice the same batches: features are then found again, as in all epochs but the first.
    pass(settings, &batches, opened, stop)?;
    pass(settings, &batches, opened, stop)
}

/// Takes batches as fast as they come.
fn pass(
    settings: &TrainSettings,
    batches: &Loader,
    opened: &OpenDevices,
    stop: &AtomicBool,
) -> anyhow::Result<Duration> {
    let stage = devices::prepare_stage(settings, opened, |device| Preparation {
        data: device.clone(),
        model: opened.model.clone(),
        // No time depends on them.
        statistics: MelStatistics {
            mean: 0.0,
            deviation: 1.0,
        },
        audio: settings.data.audio.clone(),
        augment: settings.devices.augment,
        seed: 0,
    })?;
    let mut running = batches.start_with(ResumePoint::default(), None, stage, Recorder::off())?;
    // The device may still be at work on a batch that it gave: the last one is waited for.
    let mut take = |most: u64| -> anyhow::Result<u64> {
        let begin = Instant::now();
        let (mut taken, mut last) = (0, None);
        while taken < most && (taken == 0 || begin.elapsed() < ENOUGH) {
            anyhow::ensure!(!stop.load(Ordering::Relaxed), "interrupted");
            last = Some(running.next().context("there is no batch")??);
            taken += 1;
        }
        if let Some(Delivery::Item(batch)) = last {
            let (ready, _) = batch.into_parts();
            ready.wait().map_err(anyhow::Error::msg)?;
        }
        Ok(taken)
    };
    take(BEFORE)?;
    let begin = Instant::now();
    let taken = take(TIMED)?;
    Ok(begin.elapsed() / taken as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_data_device_has_to_be_clearly_faster() {
        let ms = Duration::from_millis;
        assert_eq!(faster(ms(100), ms(80)), PrepareOn::Data);
        assert_eq!(faster(ms(100), ms(95)), PrepareOn::Host);
        assert_eq!(faster(ms(100), ms(300)), PrepareOn::Host);
    }
}
