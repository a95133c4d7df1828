//! `voxmill devices`: what there is to train on, how it is linked, and how fast batches get across.

mod copy;
mod inventory;
mod report;

use voxmill_report::terminal::devices_text;
use voxmill_telemetry::probes::Roots;
use voxmill_telemetry::probes::topology::{self, GpuFacts, GpuPair, Links};
use voxmill_trainer::device::{Backend, DeviceError, DeviceId, FoundDevice, found};

use super::{paint, print_note, print_result};
use crate::machine::Host;
use copy::Copied;
use inventory::Gpu;
use voxmill_settings::args::DevicesArgs;
use voxmill_settings::{AvailableDevices, Devices as Chosen};

/// All that was found.
#[derive(Debug)]
struct FoundDevices {
    host: Host,
    backends: Vec<(Backend, Result<Vec<FoundDevice>, DeviceError>)>,
    cards: Vec<GpuFacts>,
    /// Of each card.
    drivers: Vec<Option<String>>,
    links: Links,
    gpus: Vec<Gpu>,
    /// The best pair of cards that a run can use, where there are two.
    pair: Option<GpuPair>,
    /// What a run uses by default, or with the flags that were given.
    usual: DeviceId,
    by_flags: bool,
    copied: Option<Copied>,
}

pub(crate) fn run(args: &DevicesArgs) -> anyhow::Result<()> {
    let available = AvailableDevices::detect();
    let mut devices = FoundDevices::detect(&available);
    if let Some((chosen, notes)) = args.flags().choose(&available)? {
        for note in notes {
            print_note(&note);
        }
        (devices.usual, devices.by_flags) = (chosen.model(), true);
        if let Chosen::Pair { data, model } = chosen {
            devices.copied = Some(copy::measure(data, model)?);
        }
    }
    let result = report::result(&devices);
    print_result(&result, args.json, |found| devices_text(found, paint()))
}

impl FoundDevices {
    fn detect(available: &AvailableDevices) -> FoundDevices {
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
}
