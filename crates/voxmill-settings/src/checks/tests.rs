//! A machine and a dataset to check settings with, and what holds for all checks.

use clap::Parser as _;
use voxmill_data::batch_plan::PlanClip;
use voxmill_telemetry::probes::topology::{Source, Vendor};
use voxmill_trainer::device::{Backend, DeviceId, FoundDevice, Precision};

use super::*;
use crate::AvailableDevices;
use crate::args::{Cli, Verb};

/// 16 GB of memory, and 100 clips of 2 to 9 seconds.
pub(super) struct Machine {
    pub(super) settings: TrainSettings,
    pub(super) cores: usize,
    pub(super) memory: Option<u64>,
    pub(super) cards: Vec<GpuFacts>,
    pub(super) plan: BatchPlan,
    pub(super) filtered: Filtered,
    pub(super) bad: usize,
    pub(super) lengths: Option<ClipLengths>,
    pub(super) sources: Vec<SourceFormat>,
    pub(super) held_out: usize,
    pub(super) making: u64,
    pub(super) disk: Option<DiskFacts>,
}

impl Machine {
    pub(super) fn with(flags: &str, cores: usize) -> Machine {
        Machine::having(flags, cores, &AvailableDevices::default())
    }

    pub(super) fn of_two_gpus(flags: &str) -> Machine {
        let found = (0..2).map(|index| FoundDevice {
            id: DeviceId::new(Backend::Vulkan, index),
            is_software: false,
        });
        let available = AvailableDevices {
            backends: vec![(Backend::Vulkan, Ok(found.collect()))],
            // Nobody is to be asked.
            identities: [].into_iter().collect(),
            ..AvailableDevices::default()
        };
        Machine::having(flags, 8, &available)
    }

    fn having(flags: &str, cores: usize, available: &AvailableDevices) -> Machine {
        let line = format!("voxmill train --train-data d {flags}");
        let Verb::Train(args) = Cli::try_parse_from(line.split_whitespace()).unwrap().verb else {
            panic!("another verb")
        };
        let settings = TrainSettings::resolve_on(*args, cores, available).unwrap();
        let clips = (0..100).map(|n| PlanClip {
            id: format!("c{n:03}"),
            frames: 172 + 6 * n * n / 95,
            tokens: 30 + n,
            speaker: 0,
        });
        let plan = BatchPlan::new(clips.collect(), settings.data.batches).unwrap();
        Machine {
            settings,
            cores,
            memory: Some(16_000_000_000),
            cards: Vec::new(),
            plan,
            filtered: Filtered::default(),
            bad: 0,
            lengths: None,
            sources: Vec::new(),
            held_out: 5,
            making: 1_000_000,
            disk: None,
        }
    }

    pub(super) fn data(&self) -> DataFacts<'_> {
        DataFacts {
            plan: &self.plan,
            rows: 100,
            bad: self.bad,
            filtered: self.filtered,
            lengths: self.lengths,
            sources: self.sources.clone(),
            held_out: self.held_out,
            audio_seconds: 590.0,
            making: self.making,
            batch_budget: self.settings.feeding.ram_budget / 8 * 5,
            needs: Needs::of(&self.settings, Precision::Single, &self.plan),
        }
    }

    pub(super) fn facts(&self) -> Facts<'_> {
        let card = |device: DeviceId| match device.is_cpu() {
            true => None,
            false => self.cards.get(device.index),
        };
        let devices = self.settings.devices.devices;
        Facts {
            settings: &self.settings,
            file: false,
            cores: self.cores,
            memory: self.memory,
            cards: &self.cards,
            model_card: card(devices.model()),
            data_card: card(devices.data()),
            data: Some(self.data()),
            disk: self.disk.clone(),
        }
    }
}

pub(super) fn card(name: &str, gibibytes: u64) -> GpuFacts {
    GpuFacts {
        name: name.to_owned(),
        vendor: Vendor::Nvidia,
        pci: None,
        uuid: None,
        memory_total_bytes: Some(gibibytes << 30),
        memory_free_bytes: Some(gibibytes << 30),
        numa_node: None,
        pcie: None,
        source: Source::Nvml,
    }
}

/// The finding about a setting, where there is one.
pub(super) fn found(facts: &Facts<'_>, key: &Key) -> Option<Check> {
    let mut all = check(facts).into_iter();
    all.find(|check| check.key == Some(key))
}

/// The same with these flags, on two cores.
pub(super) fn finding(flags: &str, key: &Key) -> Option<Check> {
    found(&Machine::with(flags, 2).facts(), key)
}

#[test]
fn a_usual_run_on_a_usual_machine_passes_everything() {
    let machine = Machine::with("--batch-size 6", 4);
    let all = check(&machine.facts());
    assert!(all.is_empty(), "{all:#?}");
}

#[test]
fn the_most_severe_come_first_and_each_says_where_it_is() {
    let mut machine = Machine::with("--num-workers 12 --batch-size 6 --ram-budget 16MB", 2);
    machine.making = 20_000_000;
    machine.held_out = 0;
    let all = check(&machine.facts());
    let levels: Vec<Level> = all.iter().map(|check| check.level).collect();
    assert!(levels.is_sorted() && levels.len() == 3, "{all:#?}");
    assert_eq!(all[1].place, Where::Flag(Some("12".to_owned())));
    let (value, why, file) = ("0.05".to_owned(), None, false);
    assert_eq!(all[2].place, Where::Default { value, why, file });
}

#[test]
fn a_finding_in_one_line_ends_with_what_to_type() {
    let machine = Machine::with("--num-workers 12", 2);
    let check = found(&machine.facts(), &keys::NUM_WORKERS).unwrap();
    assert_eq!(
        check.line(),
        "12 workers on 2 cores; 12 of feeding and 2 of the model are 14 threads, 7.0 for each core: \
         they take the cores from each other; try --num-workers 1"
    );
}

#[test]
fn figures_are_short() {
    for (figure, expected) in [
        (count(1u64, "batch"), "1 batch"),
        (count(13_100u64, "batch"), "13,100 batches"),
        (size(999), "999 B"),
        (size(1_240_000_000), "1.2 GB"),
        (span(0.004), "4.0 ms"),
        (span(75.0), "75.0 s"),
        (percent(0.613), "61 %"),
        (percent(0.0712), "7.1 %"),
    ] {
        assert_eq!(figure, expected);
    }
}
