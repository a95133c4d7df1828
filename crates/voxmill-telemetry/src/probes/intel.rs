//! Intel GPUs, by what the `i915` and `xe` drivers write into sysfs.
//!
//! Neither reports how busy the card is. Both report how long its render engines slept, and what was not
//! slept is given as the utilisation: an upper bound, for a card may be awake and wait. Of a card
//! with several tiles it is the first tile's. Memory in use is not in sysfs.

use std::path::PathBuf;

use super::drm::Card;
use super::rate::Counter;
use super::{DeviceProbe, ProbedDevice, read_number};
use crate::event::{DeviceSample, Nanos};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CounterLayout {
    I915,
    Xe,
}

#[derive(Debug)]
pub(super) struct IntelGpu {
    device: ProbedDevice,
    card: Card,
    layout: CounterLayout,
    asleep_ms: Counter,
    /// The card's, or the package's where the card's is not measured.
    energy_microjoules: Counter,
}

impl IntelGpu {
    pub(super) fn new(device: ProbedDevice, card: Card, layout: CounterLayout) -> IntelGpu {
        IntelGpu {
            device,
            card,
            layout,
            asleep_ms: Counter::default(),
            energy_microjoules: Counter::default(),
        }
    }

    /// The first of some files that holds a number: newer kernels first.
    fn first(&self, paths: &[&str]) -> Option<u64> {
        let root: &PathBuf = match self.layout {
            CounterLayout::I915 => &self.card.card,
            CounterLayout::Xe => &self.card.device,
        };
        paths.iter().find_map(|path| read_number(&root.join(path)))
    }

    fn sensor(&self, name: &str) -> Option<u64> {
        read_number(&self.card.hwmon.as_ref()?.join(name))
    }
}

impl DeviceProbe for IntelGpu {
    fn device(&self) -> &ProbedDevice {
        &self.device
    }

    fn sample(&mut self, now: Nanos) -> Result<DeviceSample, String> {
        self.card.check()?;
        let (asleep, clock, temperature) = match self.layout {
            CounterLayout::I915 => (
                self.first(&["gt/gt0/rc6_residency_ms", "power/rc6_residency_ms"]),
                self.first(&["gt/gt0/rps_act_freq_mhz", "gt_act_freq_mhz"]),
                self.sensor("temp1_input"),
            ),
            CounterLayout::Xe => (
                self.first(&["tile0/gt0/gtidle/idle_residency_ms"]),
                self.first(&["tile0/gt0/freq0/act_freq"]),
                self.sensor("temp2_input"),
            ),
        };
        let energy = self.sensor("energy1_input");
        let energy = energy.or_else(|| self.sensor("energy2_input"));
        let asleep = self.asleep_ms.per_second(now, asleep);
        let energy = self.energy_microjoules.per_second(now, energy);
        Ok(DeviceSample {
            device: self.device.id.clone(),
            // Milliseconds asleep in a second; the two clocks differ a little.
            utilisation_percent: asleep.map(|ms| (100.0 - ms / 10.0).clamp(0.0, 100.0)),
            power_watts: energy.map(|microjoules| microjoules / 1e6),
            temperature_celsius: temperature.map(|milli| milli as f64 / 1e3),
            clock_mhz: clock.map(|mhz| mhz as f64),
            ..DeviceSample::default()
        })
    }
}
