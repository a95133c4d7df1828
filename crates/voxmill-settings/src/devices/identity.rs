//! Which card a device is: backends and drivers count in orders of their own, and only the address on the
//! bus is the same for both.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;

use voxmill_telemetry::device::DeviceIdentity;
use voxmill_telemetry::probes::topology::{GpuFacts, PciAddress};
use voxmill_trainer::device::{DeviceError, DeviceId, Identity, identity};

use super::AvailableDevices;

/// Asks devices who they are, each one once, for that opens it.
#[derive(Debug)]
pub struct Identities {
    /// `None`: nobody is to be asked, for that would take a share of the device.
    ask: Option<fn(DeviceId) -> Result<Identity, DeviceError>>,
    answers: RefCell<HashMap<DeviceId, Result<Identity, DeviceError>>>,
}

impl Default for Identities {
    fn default() -> Identities {
        Identities {
            ask: Some(identity),
            answers: RefCell::default(),
        }
    }
}

impl Identities {
    pub(super) fn unasked() -> Identities {
        Identities {
            ask: None,
            answers: RefCell::default(),
        }
    }

    pub(super) fn are_asked(&self) -> bool {
        self.ask.is_some()
    }

    fn of(&self, id: DeviceId) -> Result<Identity, NoCard> {
        let ask = self.ask.ok_or(NoCard::NotAsked)?;
        let id = DeviceId { logical: 0, ..id };
        let mut answers = self.answers.borrow_mut();
        let answer = answers.entry(id).or_insert_with(|| ask(id)).clone();
        answer.map_err(NoCard::NotOpened)
    }
}

/// For tests: what devices would say.
impl FromIterator<(DeviceId, Identity)> for Identities {
    fn from_iter<I: IntoIterator<Item = (DeviceId, Identity)>>(known: I) -> Identities {
        let known = known.into_iter();
        Identities {
            ask: Some(|id| Err(DeviceError::NotCompiled(id.backend))),
            answers: RefCell::new(known.map(|(id, who)| (id, Ok(who))).collect()),
        }
    }
}

/// Why the card behind a device is not known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoCard {
    Cpu,
    Software,
    NotAsked,
    NotOpened(DeviceError),
    NoAddress,
    NotListed(PciAddress),
}

impl fmt::Display for NoCard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoCard::Cpu => f.write_str("it is the CPU"),
            NoCard::Software => {
                f.write_str("it is a software GPU, which computes in the host's memory")
            }
            NoCard::NotAsked => f.write_str("it was not opened"),
            NoCard::NotOpened(error) => write!(f, "{error}"),
            NoCard::NoAddress => f.write_str("its driver does not give its PCI address"),
            NoCard::NotListed(address) => {
                write!(f, "this machine's buses list no card at {address}")
            }
        }
    }
}

impl AvailableDevices {
    /// The card that a device is, by its address on the bus. Opens the device.
    pub fn card(&self, id: DeviceId) -> Result<&GpuFacts, NoCard> {
        Ok(&self.cards[self.place(id)?])
    }

    /// The card's place in the list of cards.
    pub fn place(&self, id: DeviceId) -> Result<usize, NoCard> {
        let address = self.address(id)?;
        let mut cards = self.cards.iter();
        let place = cards.position(|card| card.pci == Some(address));
        place.ok_or(NoCard::NotListed(address))
    }

    /// Where a device is on the bus.
    pub fn address(&self, id: DeviceId) -> Result<PciAddress, NoCard> {
        if id.is_cpu() {
            return Err(NoCard::Cpu);
        }
        if self.is_software(id) {
            return Err(NoCard::Software);
        }
        let known = self.identities.of(id)?;
        let address = known.pci_address.and_then(|address| address.parse().ok());
        address.ok_or(NoCard::NoAddress)
    }

    /// A device by all its names, except for that of its samples: the probes know that one.
    pub fn identity(&self, id: DeviceId) -> DeviceIdentity {
        let card = self.card(id).ok();
        let known = match id.is_cpu() {
            true => None,
            false => self.identities.of(id).ok(),
        };
        DeviceIdentity {
            device: id.to_string().into(),
            model: known.and_then(|known| known.model),
            pci_address: self.address(id).ok(),
            uuid: card.and_then(|card| card.uuid.clone()),
            sampled_as: None,
        }
    }

    /// What the driver says is free on a device, or why that is not known.
    pub(super) fn free_bytes(&self, id: DeviceId) -> Result<u64, String> {
        let card = self.card(id).map_err(|why| why.to_string())?;
        let unknown = || format!("the driver of {} does not report free memory", card.name);
        card.memory_free_bytes.ok_or_else(unknown)
    }

    fn is_software(&self, id: DeviceId) -> bool {
        let mut found = self.backends.iter();
        let found = found.find(|(backend, _)| *backend == id.backend);
        let devices = found.and_then(|(_, found)| found.as_deref().ok());
        let device = devices.and_then(|devices| devices.get(id.index));
        device.is_some_and(|device| device.is_software)
    }
}
