//! Memory: of the host for batches that are made, of the devices for training.

use super::need::{Needs, StepClips, largest_fitting};
use super::{Check, DataFacts, Facts, Level, size};
use crate::USABLE_SHARE;
use crate::config::keys::{self, Key};
use voxmill_format::{given_megabytes, given_size};

pub(super) fn check(facts: &Facts<'_>) -> Vec<Check> {
    let mut all = Vec::new();
    all.extend(budget_beyond_memory(facts));
    if let Some(data) = &facts.data {
        all.extend(batch_beyond_budget(facts, data));
        all.extend(model_beyond_memory(facts, data));
        all.extend(batch_beyond_data_card(facts, data));
        all.extend(beyond_limits(facts, data));
    }
    all.extend(limit_beyond_card(facts));
    all
}

fn budget_beyond_memory(facts: &Facts<'_>) -> Option<Check> {
    let (budget, memory) = (facts.settings.feeding.ram_budget, facts.memory?);
    if budget <= memory {
        return None;
    }
    let (is, has) = (given_size(budget), size(memory));
    let what = format!("ram_budget is {is}, and this machine has {has}");
    let costs = "a bound above the memory bounds nothing: the machine would swap or end the run";
    let check = facts.warning(&keys::RAM_BUDGET, what).costs(costs);
    Some(check.suggest(&keys::RAM_BUDGET, given_megabytes(memory / 4)))
}

fn batch_beyond_budget(facts: &Facts<'_>, data: &DataFacts<'_>) -> Option<Check> {
    let budget = facts.settings.feeding.ram_budget;
    if data.making <= data.batch_budget {
        return None;
    }
    let what = format!(
        "one batch takes up to {} while it is prepared, and {} of ram_budget {} are for batches",
        size(data.making),
        size(data.batch_budget),
        given_size(budget)
    );
    let share = data.batch_budget.max(1) as f64 / budget.max(1) as f64;
    let enough = (data.making as f64 / share).ceil() as u64;
    let check = facts.error(&keys::RAM_BUDGET, what);
    Some(
        match facts.memory.is_some_and(|memory| enough > memory / 2) {
            false => check.suggest(&keys::RAM_BUDGET, given_megabytes(enough)),
            true => check.hint("make batches smaller with --batch-size or --max-mel-frames"),
        },
    )
}

/// Against the memory that the model device has.
fn model_beyond_memory(facts: &Facts<'_>, data: &DataFacts<'_>) -> Option<Check> {
    let settings = facts.settings;
    let model = settings.devices.devices.model();
    let need = data.needs.on_model();
    let (total, usable, whose) = match model.is_cpu() {
        true => {
            let memory = facts.memory?;
            let left = memory.saturating_sub(settings.feeding.ram_budget);
            let whose = "what ram_budget leaves of the memory".to_owned();
            (memory, left, whose)
        }
        false => {
            let card = facts.model_card?;
            let total = card.memory_total_bytes?;
            let free = card.memory_free_bytes.unwrap_or(total);
            let usable = (free as f64 * USABLE_SHARE) as u64;
            let whose = format!("nine tenths of what is free on {model}");
            (total, usable, whose)
        }
    };
    if need <= usable {
        return None;
    }
    // `train` refuses what does not fit into what is free on a card; a limit takes the place of that.
    let is_refused = !model.is_cpu()
        && settings.devices.limits.model.is_none()
        && facts.model_card?.memory_free_bytes.is_some();
    let level = match need > total || is_refused {
        true => Level::Error,
        false => Level::Warning,
    };
    let what = format!(
        "with its largest batch the run needs up to {} on {model}, by calculation",
        size(need)
    );
    let costs = format!("{whose} is {}", size(usable));
    let check = facts.about(level, &keys::BATCH_SIZE, what).costs(costs);
    let smaller = fitting(facts, data, |needs| needs.on_model() <= usable);
    Some(smaller_batches(check, smaller))
}

/// Against what is free on the card that prepares batches, where no limit takes the place of that.
fn batch_beyond_data_card(facts: &Facts<'_>, data: &DataFacts<'_>) -> Option<Check> {
    let devices = &facts.settings.devices;
    let free = facts.data_card?.memory_free_bytes?;
    let usable = (free as f64 * USABLE_SHARE) as u64;
    let need = data.needs.data;
    if devices.limits.data.is_some() || need <= usable {
        return None;
    }
    let data_device = devices.devices.data();
    let (takes, free) = (given_megabytes(need), size(usable));
    let what = format!(
        "{data_device} cannot prepare the largest batch: that takes {takes} by calculation"
    );
    let costs = format!("nine tenths of what is free on {data_device} is {free}");
    let check = facts.error(&keys::BATCH_SIZE, what);
    let smaller = fitting(facts, data, |needs| needs.data <= usable);
    Some(smaller_batches(check.costs(costs), smaller))
}

fn fitting(
    facts: &Facts<'_>,
    data: &DataFacts<'_>,
    fits: impl Fn(&Needs) -> bool,
) -> Option<StepClips> {
    let precision = facts.settings.devices.planned_precision();
    largest_fitting(facts.settings, precision, data.plan, fits)
}

fn smaller_batches(check: Check, smaller: Option<StepClips>) -> Check {
    match smaller {
        Some(smaller) => check
            .suggest(&keys::BATCH_SIZE, smaller.batch_size)
            .suggest(&keys::GRADIENT_ACCUMULATION_STEPS, smaller.accumulate),
        None => {
            check.hint("no batch fits: give more memory, a smaller --model-size, or --device cpu")
        }
    }
}

/// What `train` refuses, too.
fn beyond_limits(facts: &Facts<'_>, data: &DataFacts<'_>) -> Vec<Check> {
    let (settings, needs) = (facts.settings, &data.needs);
    let (limits, devices) = (settings.devices.limits, settings.devices.devices);
    let refused = |key: &'static Key, what: String, smaller: Option<StepClips>| {
        smaller_batches(facts.error(key, what), smaller)
    };
    let mut all = Vec::new();
    if let Some(limit) = limits.data.filter(|limit| needs.data > *limit) {
        let what = format!(
            "{} cannot prepare the largest batch: that takes {}, and data_gpu_memory is {}",
            devices.data(),
            given_megabytes(needs.data),
            given_size(limit)
        );
        let smaller = fitting(facts, data, |needs| needs.data <= limit);
        all.push(refused(&keys::DATA_GPU_MEMORY, what, smaller));
    }
    if let Some(limit) = limits.model.filter(|limit| needs.on_model() > *limit) {
        let what = format!(
            "the run does not fit on {}: it needs {} by calculation, and model_gpu_memory is {}",
            devices.model(),
            given_megabytes(needs.on_model()),
            given_size(limit)
        );
        let smaller = fitting(facts, data, |needs| needs.on_model() <= limit);
        all.push(refused(&keys::MODEL_GPU_MEMORY, what, smaller));
    }
    all
}

fn limit_beyond_card(facts: &Facts<'_>) -> Vec<Check> {
    let limits = facts.settings.devices.limits;
    let pairs = [
        (&keys::DATA_GPU_MEMORY, limits.data, facts.data_card),
        (&keys::MODEL_GPU_MEMORY, limits.model, facts.model_card),
    ];
    let beyond = pairs.into_iter().filter_map(|(key, limit, card)| {
        let (limit, total) = (limit?, card?.memory_total_bytes?);
        (limit > total).then(|| {
            let (limit, has) = (given_size(limit), size(total));
            let what = format!("{limit} is above the {has} that the GPU has");
            let check = facts.warning(key, what);
            let fits = (total as f64 * USABLE_SHARE) as u64 / 1_000_000 * 1_000_000;
            check
                .costs("such a limit has no effect")
                .suggest(key, given_size(fits))
        })
    });
    beyond.collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Machine, card, finding, found};
    use super::*;

    #[test]
    fn a_machine_with_memory_enough_has_no_findings() {
        assert!(check(&Machine::with("", 2).facts()).is_empty());
    }

    #[test]
    fn a_budget_above_the_memory_is_a_warning() {
        let check = finding("--ram-budget 64GB", &keys::RAM_BUDGET).unwrap();
        assert_eq!(check.level, Level::Warning);
        assert_eq!(check.suggestions[0].flag().unwrap(), "--ram-budget 4GB");
    }

    #[test]
    fn a_batch_that_does_not_fit_into_the_budget_is_an_error() {
        let mut machine = Machine::with("--ram-budget 16MB", 2);
        machine.making = 20_000_000;
        let check = found(&machine.facts(), &keys::RAM_BUDGET).unwrap();
        assert_eq!(check.level, Level::Error);
        assert_eq!(check.suggestions[0].in_file().unwrap(), "ram_budget: 32MB");
        machine.making = 9_000_000;
        assert!(found(&machine.facts(), &keys::RAM_BUDGET).is_none());
    }

    #[test]
    fn a_model_that_the_memory_cannot_hold_gets_smaller_batches() {
        let mut machine = Machine::with("--batch-size 64 --ram-budget 100MB", 2);
        machine.memory = Some(600_000_000);
        let check = model_beyond_memory(&machine.facts(), &machine.data()).unwrap();
        assert_eq!(check.level, Level::Error, "{}", check.what);
        assert_eq!(check.suggestions.len(), 2, "{:?}", check.suggestions);
        machine.memory = Some(100_000_000_000);
        assert!(model_beyond_memory(&machine.facts(), &machine.data()).is_none());
    }

    #[test]
    fn a_card_is_compared_with_the_need() {
        let mut machine = Machine::of_two_gpus("--data-gpu 1 --model-gpu 0 --batch-size 64");
        machine.cards = vec![card("A", 24), card("B", 12)];
        assert!(model_beyond_memory(&machine.facts(), &machine.data()).is_none());
        machine.cards[0].memory_free_bytes = Some(300_000_000);
        let check = model_beyond_memory(&machine.facts(), &machine.data()).unwrap();
        assert_eq!(check.level, Level::Error, "train refuses it");
        assert!(check.costs.unwrap().contains("free on vulkan:0"));
        assert!(batch_beyond_data_card(&machine.facts(), &machine.data()).is_none());
        machine.cards[1].memory_free_bytes = Some(300_000);
        let check = batch_beyond_data_card(&machine.facts(), &machine.data()).unwrap();
        assert!(check.what.starts_with("vulkan:1 cannot prepare"));
    }

    #[test]
    fn limits_that_do_not_hold_or_hold_nothing() {
        let tight = "--data-gpu 1 --model-gpu 0 --enable-memory-isolation --model-gpu-memory 300MB \
                     --data-gpu-memory 10kB --batch-size 64";
        let mut machine = Machine::of_two_gpus(tight);
        machine.cards = vec![card("A", 24), card("B", 12)];
        for key in [&keys::MODEL_GPU_MEMORY, &keys::DATA_GPU_MEMORY] {
            let check = found(&machine.facts(), key).expect(key.name);
            assert_eq!(check.level, Level::Error);
        }
        let wide = "--data-gpu 1 --model-gpu 0 --enable-memory-isolation --model-gpu-memory 40GB";
        let mut machine = Machine::of_two_gpus(wide);
        machine.cards = vec![card("A", 24), card("B", 12)];
        let check = found(&machine.facts(), &keys::MODEL_GPU_MEMORY).unwrap();
        assert_eq!(check.level, Level::Warning);
        assert_eq!(
            check.suggestions[0].in_file().unwrap(),
            "model_gpu_memory: 23192MB"
        );
    }
}
