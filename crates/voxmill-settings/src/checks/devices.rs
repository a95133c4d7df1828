//! Which devices are used, and whether the two of a pair suit each other.

use voxmill_telemetry::probes::topology::Link;
use voxmill_trainer::checkpoint::PrepareOn;
use voxmill_trainer::device::Backend;

use super::{Check, Facts, Where, all_of, count, size};
use crate::config::keys;

all_of!(
    unused_card,
    slow_link,
    weaker_trains,
    two_lanes,
    idle_data_device
);

/// A GPU in the machine that this build cannot use is the costliest thing of all.
fn unused_card(facts: &Facts<'_>) -> Option<Check> {
    let card = facts.cards.first()?;
    let reaches_gpus = Backend::compiled().any(|backend| backend != Backend::Cpu);
    if reaches_gpus || !facts.settings.devices.devices.model().is_cpu() {
        return None;
    }
    let what = format!(
        "{} is not used: this build has the CPU only",
        match facts.cards.len() {
            1 => card.name.clone(),
            n => format!("{} and {} more", card.name, count(n as u64 - 1, "GPU")),
        }
    );
    let mut check = facts.warning(&keys::DEVICE, what);
    check.place = Where::Elsewhere;
    Some(check.hint(
        "build with GPUs: cargo install --locked --path crates/voxmill --features vulkan (or cuda)",
    ))
}

fn slow_link(facts: &Facts<'_>) -> Option<Check> {
    let link = facts.settings.devices.link;
    let link = link.filter(|link| Link::is_slow(*link))?;
    let what = format!(
        "the two GPUs are linked {}: {}",
        link.describe(),
        link.name()
    );
    let hint = "two GPUs on one PCIe switch or host bridge pass batches on faster; `voxmill devices` lists the links and measures the copy";
    Some(facts.warning(facts.model_key(), what).hint(hint))
}

fn weaker_trains(facts: &Facts<'_>) -> Option<Check> {
    let devices = facts.settings.devices.devices;
    let memory = |card: Option<&voxmill_telemetry::probes::topology::GpuFacts>| {
        card.and_then(|card| card.memory_total_bytes)
    };
    let (data, model) = (memory(facts.data_card)?, memory(facts.model_card)?);
    if !devices.is_pair() || data <= model {
        return None;
    }
    let what = format!(
        "the smaller GPU trains: {} has {}, {} has {} and only prepares",
        devices.model(),
        size(model),
        devices.data(),
        size(data)
    );
    let mut check = facts.warning(facts.model_key(), what);
    for (to, from) in [
        (&keys::DATA_GPU, &keys::MODEL_GPU),
        (&keys::MODEL_GPU, &keys::DATA_GPU),
        (&keys::DATA_DEVICE, &keys::MODEL_DEVICE),
        (&keys::MODEL_DEVICE, &keys::DATA_DEVICE),
    ] {
        let shown = facts.settings.resolved.iter().find(|line| line.key == from);
        if let (true, Some(line)) = (facts.given(from), shown) {
            check = check.suggest(to, &line.value);
        }
    }
    Some(check)
}

fn two_lanes(facts: &Facts<'_>) -> Option<Check> {
    let settings = facts.settings;
    if !settings.devices.devices.are_lanes() {
        return None;
    }
    let (lane, model) = (settings.feeding.lane_threads, settings.compute_threads);
    let what = "one CPU is both devices, in two lanes";
    let costs = format!(
        "the model computes on {model} of {}; the lane that prepares has {lane}, and most of its time it is idle",
        count(facts.cores as u64, "core")
    );
    let check = facts.note(&keys::MODEL_DEVICE, what).costs(costs);
    let hint = "one device does the same with all cores: leave data_device and model_device out";
    Some(check.hint(hint))
}

fn idle_data_device(facts: &Facts<'_>) -> Option<Check> {
    let devices = &facts.settings.devices;
    let data = devices.devices.data();
    let to_host = devices.prepare_on == PrepareOn::Host && !devices.measures_prepare_on;
    if !devices.devices.is_pair() || data.is_cpu() || !to_host {
        return None;
    }
    let what = format!("{data} only normalises and passes on: the workers make the frames");
    let check = facts.note(&keys::PREPARE_ON, what);
    Some(check.suggest(&keys::PREPARE_ON, "auto"))
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Machine, card, found};
    use super::super::{Level, Suggestion};
    use super::*;

    #[test]
    fn a_card_that_the_build_cannot_use_is_named() {
        let mut machine = Machine::with("", 2);
        assert!(check(&machine.facts()).is_empty());
        machine.cards = vec![card("RTX 4090", 24)];
        let found = check(&machine.facts());
        let reaches_gpus = Backend::compiled().any(|backend| backend != Backend::Cpu);
        if !reaches_gpus {
            let expected = "RTX 4090 is not used: this build has the CPU only";
            assert_eq!(found[0].what, expected);
        }
    }

    #[test]
    fn two_lanes_say_what_they_take() {
        let machine = Machine::with("--data-device cpu --model-device cpu", 4);
        let check = found(&machine.facts(), &keys::MODEL_DEVICE).unwrap();
        assert_eq!(check.level, Level::Note);
        let costs = check.costs.unwrap();
        assert!(costs.starts_with("the model computes on 2 of 4 cores"));
    }

    #[test]
    fn of_two_gpus_the_larger_one_trains() {
        let mut machine = Machine::of_two_gpus("--data-gpu 0 --model-gpu 1");
        machine.cards = vec![card("A", 24), card("B", 12)];
        let check = found(&machine.facts(), &keys::MODEL_GPU).expect("the smaller one trains");
        let what = check.what;
        assert!(what.contains("vulkan:1 has 12.9 GB"), "{what}");
        let lines = check.suggestions.iter();
        let lines: Vec<_> = lines.filter_map(Suggestion::in_file).collect();
        assert_eq!(lines, ["data_gpu: 1", "model_gpu: 0"]);
        machine.cards.reverse();
        assert!(found(&machine.facts(), &keys::MODEL_GPU).is_none());
        assert!(found(&machine.facts(), &keys::PREPARE_ON).is_none());
        let machine = Machine::of_two_gpus("--data-gpu 0 --model-gpu 1 --prepare-on host");
        let idle = found(&machine.facts(), &keys::PREPARE_ON).unwrap();
        assert!(idle.what.starts_with("vulkan:0 only normalises"));
    }

    #[test]
    fn a_slow_link_is_a_warning() {
        let mut machine = Machine::of_two_gpus("--data-gpu 0 --model-gpu 1");
        machine.settings.devices.link = Some(Link::Pix);
        assert!(slow_link(&machine.facts()).is_none());
        machine.settings.devices.link = Some(Link::Sys);
        let check = slow_link(&machine.facts()).unwrap();
        assert!(check.what.ends_with("SYS"), "{}", check.what);
    }
}
