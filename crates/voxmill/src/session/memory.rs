//! Memory of the devices: whether a run fits, asked before it begins, and what it takes, looked at
//! while it runs.

use std::sync::Arc;
use voxmill_report::format::{given_megabytes, given_size};

use voxmill_telemetry::event::{DeviceMemory, Event};
use voxmill_telemetry::recorder::Recorder;
use voxmill_trainer::checkpoint::PrepareOn;
use voxmill_trainer::device::Precision;
use voxmill_trainer::memory::{MemoryFinding, MemoryWatch, Pools};
use voxmill_trainer::train::FeedError;

use super::Session;
use crate::commands::note;
use voxmill_data::Loader;
use voxmill_settings::checks::Needs;
use voxmill_settings::checks::need::{StepClips, largest_fitting};
use voxmill_settings::error::UserError;
use voxmill_settings::{DeviceSettings, TrainSettings};

/// What a run may take of a device, and the flag that limits it.
#[derive(Clone, Copy)]
struct Bound {
    bytes: u64,
    flag: Option<&'static str>,
}

impl Bound {
    fn of(limit: Option<u64>, free: Option<u64>, flag: &'static str) -> Option<Bound> {
        let flag = limit.map(|_| flag);
        let bytes = limit.or(free)?;
        Some(Bound { bytes, flag })
    }

    fn refuse(self, needs: u64, what: String, hint: String) -> UserError {
        UserError::new(format!("{what}, and {self}"), hint).short_of_memory(needs, self.bytes)
    }
}

impl std::fmt::Display for Bound {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let bytes = given_size(self.bytes);
        match self.flag {
            Some(flag) => write!(f, "{flag} is {bytes}"),
            None => write!(f, "nine tenths of what is free there are {bytes}"),
        }
    }
}

/// Refuses a run that cannot fit, with what would.
pub(crate) fn check(
    settings: &TrainSettings,
    precision: Precision,
    batches: &Loader,
) -> Result<Needs, UserError> {
    let needs = Needs::of(settings, precision, batches.plan());
    let DeviceSettings {
        devices,
        limits,
        free,
        ..
    } = &settings.devices;
    let largest =
        |fits: &dyn Fn(&Needs) -> bool| largest_fitting(settings, precision, batches.plan(), fits);
    let data = Bound::of(limits.data, free.data, "--data-gpu-memory");
    if let Some(bound) = data.filter(|bound| needs.data > bound.bytes) {
        let (device, takes) = (devices.data(), given_megabytes(needs.data));
        let what = format!("{device} cannot prepare the largest batch: that takes {takes}");
        let other_ways = match settings.devices.prepare_on {
            PrepareOn::Data => "shorter clips by --max-mel-frames, or --prepare-on host, take less",
            PrepareOn::Host | PrepareOn::Model => {
                "shorter clips by --max-mel-frames take less, and with --prepare-on model nothing comes there"
            }
        };
        let smaller = largest(&|needs| needs.data <= bound.bytes);
        return Err(bound.refuse(needs.data, what, fitting(smaller, other_ways)));
    }
    let model = Bound::of(limits.model, free.model, "--model-gpu-memory");
    if let Some(bound) = model.filter(|bound| needs.on_model() > bound.bytes) {
        let other_ways = match settings.gradient_checkpointing {
            true => "a smaller --prefetch-buffer-size or --model-size takes less",
            false => {
                "--enable-gradient-checkpointing, a smaller --prefetch-buffer-size or a smaller --model-size takes less"
            }
        };
        let what = format!(
            "the run does not fit on {}: it needs {} ({} for weights, moments and kept references, {} for the largest batch in training, {} for {} batches)",
            devices.model(),
            given_megabytes(needs.on_model()),
            given_megabytes(needs.model.weights),
            given_megabytes(needs.model.activations),
            given_megabytes(needs.model.batch * needs.slots as u64),
            needs.slots,
        );
        let smaller = largest(&|needs| needs.on_model() <= bound.bytes);
        return Err(bound.refuse(needs.on_model(), what, fitting(smaller, other_ways)));
    }
    Ok(needs)
}

/// How many batches, up to `most`, may be kept on the model device besides those of the run; at least one.
pub(crate) fn room_for_more(
    settings: &TrainSettings,
    needs: &Needs,
    most: usize,
) -> Result<usize, UserError> {
    let DeviceSettings {
        devices,
        limits,
        free,
        ..
    } = &settings.devices;
    let Some(bound) = Bound::of(limits.model, free.model, "--model-gpu-memory") else {
        return Ok(most);
    };
    let taken = |more: usize| needs.model.with_slots(needs.slots + more);
    let fits = |more: &usize| taken(*more) <= bound.bytes;
    if let Some(more) = (1..=most).rev().find(fits) {
        return Ok(more);
    }
    let what = format!(
        "the run fits on {}, but not with one more batch, which is kept there to be measured: together {}",
        devices.model(),
        given_megabytes(taken(1))
    );
    let hint = "a smaller --prefetch-buffer-size or --batch-size takes less";
    Err(bound.refuse(taken(1), what, hint.to_owned()))
}

/// With as many batches ahead on the device as fit there.
pub(crate) fn within_memory(settings: &TrainSettings, batches: Loader, needs: &Needs) -> Loader {
    let asked = settings.feeding.device_slots;
    if needs.slots_ahead() == asked {
        return batches;
    }
    note!(
        "{} batches ahead on the device instead of {asked}: more do not fit into its memory",
        needs.slots_ahead()
    );
    batches.with_slots(needs.slots_ahead())
}

/// The largest batch that fits, with what keeps the effective batch; and what else would help.
fn fitting(smaller: Option<StepClips>, other_ways: &str) -> String {
    match smaller {
        Some(smaller) => format!(
            "--batch-size {} fits, and with --grad-accum {} the model still learns from {} clips a step; or: {other_ways}",
            smaller.batch_size,
            smaller.accumulate,
            smaller.clips()
        ),
        None => format!("no batch fits: give more memory, or --device cpu; or: {other_ways}"),
    }
}

/// A device whose pools are watched while the run trains, and the flag that limits it.
#[derive(Debug)]
pub(crate) struct DeviceWatch {
    name: String,
    flag: &'static str,
    watch: MemoryWatch,
}

impl DeviceWatch {
    /// The model device first. `settle_after`: see [`MemoryWatch::new`].
    pub(crate) fn of_session(session: &Session, settle_after: u64) -> Vec<DeviceWatch> {
        let DeviceSettings {
            devices, limits, ..
        } = &session.settings.devices;
        let model = Pools::Model(session.devices.model.clone());
        let mut watches = vec![DeviceWatch {
            name: devices.model().to_string(),
            flag: "--model-gpu-memory",
            watch: MemoryWatch::new(model, limits.model, settle_after),
        }];
        if devices.is_pair() {
            let pools = Pools::Data(Arc::clone(&session.devices.data_pools));
            watches.push(DeviceWatch {
                name: devices.data().to_string(),
                flag: "--data-gpu-memory",
                watch: MemoryWatch::new(pools, limits.data, settle_after),
            });
        }
        watches
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// At the last check; `None` where the backend does not say.
    pub(crate) fn now(&self) -> Option<u64> {
        self.watch.now()
    }

    /// The device, and the most that its pools held; `None` where the backend does not say.
    pub(crate) fn peak(&self) -> Option<(&str, u64)> {
        Some((&self.name, self.watch.peak()?))
    }

    /// A warning, or an error that ends the run: the limit holds.
    pub(crate) fn check_step(
        &mut self,
        step: u64,
        recorder: &Recorder,
    ) -> Result<Option<String>, FeedError> {
        let finding = self.watch.check(step);
        if let (Some(bytes), Some(peak)) = (self.watch.now(), self.watch.peak()) {
            recorder.record(Event::DeviceMemory(DeviceMemory {
                device: self.name.clone().into(),
                bytes,
                limit: self.watch.limit(),
                peak,
            }));
        }
        let (name, flag) = (&self.name, self.flag);
        match finding {
            None => Ok(None),
            Some(MemoryFinding::AboveLimit { bytes, limit }) => Err(format!(
                "{name} holds {} after step {step}, above {flag} {}; the run stops with its checkpoint, and a smaller --batch-size with --grad-accum stays within the limit",
                given_megabytes(bytes),
                given_size(limit)
            )
            .into()),
            Some(MemoryFinding::WasAboveLimit { most, limit }) => Ok(Some(format!(
                "{name} held {}, above {flag} {}, until it released what was only kept for later",
                given_megabytes(most),
                given_size(limit)
            ))),
            Some(MemoryFinding::Grows {
                since,
                steps,
                bytes,
            }) => Ok(Some(format!(
                "memory on {name} grows: {} more than at step {since}, about {} bytes a step",
                given_megabytes(bytes),
                bytes / steps
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use voxmill_data::LoaderError;
    use voxmill_data::batch_plan::Shape;
    use voxmill_settings::args::{Cli, Verb};
    use voxmill_telemetry::event::Shortage;
    use voxmill_trainer::memory::PoolUsage;
    use voxmill_trainer::need::ModelNeed;

    use super::*;
    use voxmill_settings::error::failure;
    use voxmill_settings::error::of_library::of_loader;

    #[test]
    fn a_refusal_says_how_far_off_it_is_whoever_set_the_limit() {
        let limits = [(Some(30), None), (None, Some(30))];
        for (limit, free) in limits {
            let bound = Bound::of(limit, free, "--model-gpu-memory").unwrap();
            let refused = bound.refuse(120, "it needs 120".to_owned(), String::new());
            let (needs, limit) = (120, 30);
            let found = failure(&refused.into());
            assert_eq!(found.shortage, Some(Shortage { needs, limit }), "{found:?}");
        }
        let (needed, budget) = (900, 70);
        let refused = of_loader(LoaderError::TooLittleMemory { needed, budget });
        let (needs, limit) = (900, 70);
        assert_eq!(failure(&refused).shortage, Some(Shortage { needs, limit }));
    }

    #[test]
    fn batches_that_are_kept_to_be_measured_are_counted() {
        let needs = Needs {
            model: ModelNeed {
                weights: 1_000_000,
                activations: 1_000_000,
                batch: 500_000,
            },
            slots: 3,
            data: 0,
            largest: Shape::default(),
        };
        let room = |limit: Option<u64>| {
            let line = "voxmill train --device cpu";
            let Verb::Train(args) = Cli::try_parse_from(line.split_whitespace()).unwrap().verb
            else {
                panic!("another verb")
            };
            let mut settings = TrainSettings::resolve(*args).unwrap();
            settings.devices.limits.model = limit;
            room_for_more(&settings, &needs, 24)
        };
        assert_eq!(room(None).unwrap(), 24);
        assert_eq!(room(Some(100_000_000)).unwrap(), 24);
        assert_eq!(room(Some(6_000_000)).unwrap(), 5);
        let refused = room(Some(3_900_000)).unwrap_err();
        let found = failure(&refused.into());
        let (needs, limit) = (4_000_000, 3_900_000);
        assert_eq!(found.shortage, Some(Shortage { needs, limit }), "{found:?}");
    }

    #[test]
    fn a_data_device_above_its_limit_ends_the_run() {
        let pools = Arc::new(PoolUsage::default());
        let watched = Pools::Data(Arc::clone(&pools));
        let mut watch = DeviceWatch {
            name: "vulkan:1".to_owned(),
            flag: "--data-gpu-memory",
            watch: MemoryWatch::new(watched, Some(1_000_000), 2),
        };
        let recorder = Recorder::off();
        pools.record(1_100_000);
        pools.record(500_000);
        let message = watch.check_step(1, &recorder).unwrap().unwrap_or_default();
        assert!(
            message.contains("held 2MB, above --data-gpu-memory 1MB"),
            "{message}"
        );
        assert_eq!(
            watch.check_step(2, &recorder).unwrap(),
            None,
            "it settles here"
        );
        pools.record(900_000);
        let message = watch.check_step(4, &recorder).unwrap().unwrap_or_default();
        assert!(message.contains("1MB more than at step 2"), "{message}");
        assert!(message.contains("200000 bytes a step"), "{message}");
        pools.record(2_000_000);
        let message = watch.check_step(5, &recorder).unwrap_err().to_string();
        assert!(
            message.contains("vulkan:1 holds 2MB") && message.contains("--data-gpu-memory"),
            "{message}"
        );
    }
}
