//! All devices of a machine, for a person who looks at what there is.

use voxmill_telemetry::probes::topology::{self, GpuFacts, GpuPair, Links};
use voxmill_telemetry::probes::{Host, Roots};
use voxmill_trainer::device::{Backend, DeviceError, DeviceId, FoundDevice, found};

use super::copy::{self, Copied};
use super::inventory::{self, Gpu};
use super::{AvailableDevices, Devices};
use crate::error::UserError;

/// All that was found.
#[derive(Debug)]
pub struct FoundDevices {
    pub(crate) host: Host,
    pub(crate) backends: Vec<(Backend, Result<Vec<FoundDevice>, DeviceError>)>,
    pub(crate) cards: Vec<GpuFacts>,
    /// Of each card.
    pub(crate) drivers: Vec<Option<String>>,
    pub(crate) links: Links,
    pub(crate) gpus: Vec<Gpu>,
    /// The best pair of cards that a run can use, where there are two.
    pub(crate) pair: Option<GpuPair>,
    /// What a run uses by default, or with the flags that were given.
    pub(crate) usual: DeviceId,
    pub(crate) by_flags: bool,
    pub(crate) copied: Option<Copied>,
}

impl FoundDevices {
    /// Looks at every backend of this build and at the machine's buses.
    pub fn detect(available: &AvailableDevices) -> FoundDevices {
        let roots = Roots::default();
        let cards = topology::gpus(&roots);
        let compiled = Backend::compiled().filter(|backend| *backend != Backend::Cpu);
        let backends: Vec<_> = compiled.map(|backend| (backend, found(backend))).collect();
        let links = topology::links(&cards, &roots);
        let driver = |card: &GpuFacts| topology::driver(&card.pci?, &roots);
        FoundDevices {
            host: Host::detect(&roots),
            gpus: inventory::gpus(&backends, &cards, |id| available.address(id)),
            pair: available.best_pair(),
            drivers: cards.iter().map(driver).collect(),
            usual: available.usual(),
            by_flags: false,
            backends,
            cards,
            links,
            copied: None,
        }
    }

    /// Takes the devices that flags chose as those that a run would use, and measures copies between a pair.
    pub fn choose(&mut self, chosen: Devices) -> Result<(), UserError> {
        (self.usual, self.by_flags) = (chosen.model(), true);
        if let Devices::Pair { data, model } = chosen {
            self.copied = Some(copy::measure(data, model)?);
        }
        Ok(())
    }
}
