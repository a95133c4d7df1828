//! AMD GPUs, by what the `amdgpu` driver writes into sysfs.

use std::path::PathBuf;
use std::thread::{self, JoinHandle};

use super::drm::Card;
use super::{DeviceProbe, ProbedDevice, read_number, read_text};
use crate::event::{DeviceSample, Nanos};

#[derive(Debug)]
pub(super) struct AmdGpu {
    device: ProbedDevice,
    card: Card,
    pcie: Option<PcieBandwidth>,
}

impl AmdGpu {
    pub(super) fn new(device: ProbedDevice, card: Card) -> AmdGpu {
        let pcie_bw = card.device.join("pcie_bw");
        AmdGpu {
            device,
            pcie: pcie_bw.is_file().then(|| PcieBandwidth::new(pcie_bw)),
            card,
        }
    }
}

impl DeviceProbe for AmdGpu {
    fn device(&self) -> &ProbedDevice {
        &self.device
    }

    fn sample(&mut self, _now: Nanos) -> Result<DeviceSample, String> {
        self.card.check()?;
        let device = |name: &str| read_number(&self.card.device.join(name));
        let sensor = |name: &str| read_number(&self.card.hwmon.as_ref()?.join(name));
        let in_millions = |value: u64| value as f64 / 1e6;
        let pcie = self.pcie.as_mut().and_then(PcieBandwidth::latest);
        Ok(DeviceSample {
            device: self.device.id.clone(),
            utilisation_percent: device("gpu_busy_percent").map(|percent| percent as f64),
            memory_used: device("mem_info_vram_used"),
            memory_total: device("mem_info_vram_total"),
            // The average where there is one; some cards only know the present.
            power_watts: sensor("power1_average")
                .or_else(|| sensor("power1_input"))
                .map(in_millions),
            temperature_celsius: sensor("temp1_input").map(|milli| milli as f64 / 1e3),
            clock_mhz: sensor("freq1_input").map(in_millions),
            memory_clock_mhz: sensor("freq2_input").map(in_millions),
            pcie_receive: pcie.map(|pcie| pcie.received),
            pcie_send: pcie.map(|pcie| pcie.sent),
        })
    }
}

/// Bytes in one second, at most: the card counts packets, and each is taken for a full one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PcieBytes {
    received: u64,
    sent: u64,
}

impl PcieBytes {
    /// `packets-received packets-sent largest-payload`
    fn parse(pcie_bw: &str) -> Option<PcieBytes> {
        let mut numbers = pcie_bw.split_whitespace().map(str::parse::<u64>);
        let mut next = || numbers.next()?.ok();
        let (received, sent, payload) = (next()?, next()?, next()?);
        Some(PcieBytes {
            received: received.checked_mul(payload)?,
            sent: sent.checked_mul(payload)?,
        })
    }
}

/// Reads `pcie_bw` alongside the samples: the driver counts for a whole second while it is being read,
/// and samples must not wait for that.
#[derive(Debug)]
struct PcieBandwidth {
    path: PathBuf,
    /// Not joined at drop, which would take up to a second; it reads its file and ends.
    reading: Option<JoinHandle<Option<PcieBytes>>>,
}

impl PcieBandwidth {
    fn new(path: PathBuf) -> PcieBandwidth {
        PcieBandwidth {
            path,
            reading: None,
        }
    }

    /// What was counted since the last call, where the counting has ended.
    fn latest(&mut self) -> Option<PcieBytes> {
        if self.reading.as_ref().is_some_and(|r| !r.is_finished()) {
            return None;
        }
        let counted = self.reading.take().and_then(|reading| reading.join().ok()?);
        let path = self.path.clone();
        self.reading = thread::Builder::new()
            .name("pcie_bw".to_owned())
            .spawn(move || PcieBytes::parse(&read_text(&path)?))
            .ok();
        counted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_taken_for_full_ones() {
        let bytes = PcieBytes::parse("1000 200 256\n").unwrap();
        assert_eq!((bytes.received, bytes.sent), (256_000, 51_200));
        assert_eq!(PcieBytes::parse("1000 200"), None);
        assert_eq!(PcieBytes::parse("18446744073709551615 1 256"), None);
    }
}
