//! How far ahead batches are made, and what keeps them from being.

use super::{Check, Facts, Level, all_of, count, size, span};
use crate::config::keys;
use crate::usual_slots;
use voxmill_format::given_size;

all_of!(
    one_after_another,
    few_slots,
    many_slots,
    buffer_beyond_budget,
    no_cache,
    frames_made_anew,
);

fn one_after_another(facts: &Facts<'_>) -> Option<Check> {
    let feeding = &facts.settings.feeding;
    (!feeding.overlap).then(|| {
        facts.warning(&keys::NO_OVERLAP, "nothing is prepared ahead: the model waits for every batch")
            .costs("a step takes the time of its batch on top of its own; it is meant as a baseline to measure with")
            .suggest(&keys::NO_OVERLAP, false)
    })
}

/// Below this the model has nothing in hand while the next batch is on its way.
const LEAST_SLOTS: usize = 2;

fn few_slots(facts: &Facts<'_>) -> Option<Check> {
    let slots = facts.settings.feeding.device_slots;
    let batch = facts.data.as_ref()?.needs.model.batch;
    if slots >= LEAST_SLOTS || !facts.settings.feeding.overlap {
        return None;
    }
    let batches = count(slots as u64, "batch");
    let what =
        format!("{batches} ahead on the device: a batch that is late by anything is waited for");
    let more = size(batch * (LEAST_SLOTS - slots) as u64);
    let costs = format!("one more takes {more} of its memory");
    let key = &keys::PREFETCH_BUFFER_SIZE;
    let check = facts.warning(key, what).costs(costs);
    Some(check.suggest(key, LEAST_SLOTS))
}

fn many_slots(facts: &Facts<'_>) -> Option<Check> {
    let slots = facts.settings.feeding.device_slots;
    let needs = &facts.data.as_ref()?.needs;
    let memory = match facts.settings.devices.devices.model().is_cpu() {
        true => facts.memory?,
        false => facts.model_card?.memory_total_bytes?,
    };
    let ahead = needs.model.batch * slots as u64;
    if !facts.given(&keys::PREFETCH_BUFFER_SIZE) || ahead < memory / 4 {
        return None;
    }
    let batch_size = facts.settings.data.batches.batch_size;
    let (usual, _) = usual_slots(batch_size, facts.settings.devices.devices.is_pair());
    let what = format!("{slots} batches wait on the device");
    let costs = format!("they take up to {} of its {}", size(ahead), size(memory));
    let key = &keys::PREFETCH_BUFFER_SIZE;
    let check = facts.warning(key, what).costs(costs);
    Some(check.suggest(key, usual))
}

/// The budget holds; the number of batches is then only a wish.
fn buffer_beyond_budget(facts: &Facts<'_>) -> Option<Check> {
    let feeding = &facts.settings.feeding;
    let data = facts.data.as_ref()?;
    let largest = data.needs.model.batch;
    let fit = data.batch_budget.checked_div(largest)?;
    if fit >= feeding.buffered_batches as u64 || !facts.given(&keys::BUFFER_SIZE) {
        return None;
    }
    let (ahead, budget) = (feeding.buffered_batches, given_size(feeding.ram_budget));
    let what = format!("{ahead} batches ahead do not fit into ram_budget {budget}");
    let each = size(largest);
    let costs = format!("it holds {fit} of the largest, {each} each; the budget wins");
    let check = facts.note(&keys::BUFFER_SIZE, what);
    Some(check.costs(costs).suggest(&keys::BUFFER_SIZE, fit.max(1)))
}

/// Without a cache, features stay in memory as far as a quarter of the budget holds them.
const HELD_SHARE: u64 = 4;

fn no_cache(facts: &Facts<'_>) -> Option<Check> {
    let data = facts.data.as_ref()?;
    if facts.settings.feeding.caching || is_made_on_device(facts) {
        return None;
    }
    let frames = data.plan.clips().iter().map(|clip| u64::from(clip.frames));
    let bytes = frames.sum::<u64>() * 4 * facts.settings.data.audio.n_mels as u64;
    let held = facts.settings.feeding.ram_budget / HELD_SHARE;
    let (level, what, costs) = match bytes <= held {
        true => (
            Level::Note,
            "without a cache, features are computed again by every run",
            format!(
                "each decodes {} of sound and keeps {} in memory",
                span(data.audio_seconds),
                size(bytes)
            ),
        ),
        false => {
            let beyond = 1.0 - held as f64 / bytes as f64;
            (
                Level::Warning,
                "without a cache, features that do not fit into memory are computed again in every epoch",
                format!(
                    "they take {}, and a quarter of ram_budget is {}: about {} of sound is decoded again and again",
                    size(bytes),
                    size(held),
                    span(beyond * data.audio_seconds)
                ),
            )
        }
    };
    let check = facts.about(level, &keys::ENABLE_CACHING, what);
    Some(check.costs(costs).suggest(&keys::ENABLE_CACHING, true))
}

fn frames_made_anew(facts: &Facts<'_>) -> Option<Check> {
    let data = facts.data.as_ref()?;
    if !is_made_on_device(facts) {
        return None;
    }
    let what = "frames are computed on a device: the cache is not used for sound";
    let sound = span(data.audio_seconds);
    let costs = format!("every epoch decodes {sound} of sound again");
    let check = facts.note(&keys::PREPARE_ON, what);
    Some(check.costs(costs).suggest(&keys::PREPARE_ON, "host"))
}

fn is_made_on_device(facts: &Facts<'_>) -> bool {
    use voxmill_trainer::checkpoint::PrepareOn;
    facts.settings.devices.prepare_on != PrepareOn::Host
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Machine, finding, found};
    use super::*;

    #[test]
    fn what_is_usual_is_right() {
        assert!(check(&Machine::with("", 2).facts()).is_empty());
    }

    #[test]
    fn nothing_made_ahead_is_a_warning() {
        let check = finding("--no-overlap", &keys::NO_OVERLAP).unwrap();
        assert_eq!(check.suggestions[0].in_file().unwrap(), "no_overlap: false");
    }

    #[test]
    fn one_slot_is_too_few() {
        let check = finding("--prefetch-buffer-size 1", &keys::PREFETCH_BUFFER_SIZE).unwrap();
        let what = check.what;
        assert!(what.starts_with("1 batch ahead on the device"), "{what}");
        assert_eq!(
            check.suggestions[0].flag().unwrap(),
            "--prefetch-buffer-size 2"
        );
        assert!(finding("--prefetch-buffer-size 2", &keys::PREFETCH_BUFFER_SIZE).is_none());
    }

    #[test]
    fn slots_that_fill_the_memory_are_too_many() {
        let mut machine = Machine::with("--prefetch-buffer-size 64", 2);
        machine.memory = Some(400_000_000);
        let check = found(&machine.facts(), &keys::PREFETCH_BUFFER_SIZE).unwrap();
        assert!(check.what.starts_with("64 batches wait"), "{}", check.what);
        machine.memory = Some(64_000_000_000);
        assert!(found(&machine.facts(), &keys::PREFETCH_BUFFER_SIZE).is_none());
    }

    #[test]
    fn instead_of_too_many_slots_the_default_is_advised() {
        let mut machine = Machine::with("--prefetch-buffer-size 64 --batch-size 32", 2);
        machine.memory = Some(400_000_000);
        let check = found(&machine.facts(), &keys::PREFETCH_BUFFER_SIZE).unwrap();
        let default = Machine::with("--batch-size 32", 2).settings;
        let default = default.feeding.device_slots;
        assert_eq!(check.suggestions[0].value, Some(default.to_string()));
    }

    #[test]
    fn a_buffer_that_the_budget_cannot_hold_is_a_note() {
        let check = finding("--buffer-size 500 --ram-budget 100MB", &keys::BUFFER_SIZE).unwrap();
        assert_eq!(check.level, Level::Note);
        assert!(check.what.contains("ram_budget 100MB"), "{}", check.what);
        assert!(finding("--buffer-size 2 --ram-budget 100MB", &keys::BUFFER_SIZE).is_none());
    }

    #[test]
    fn no_cache_costs_decoding_as_far_as_memory_cannot_hold_the_features() {
        let check = finding("--no-cache", &keys::ENABLE_CACHING).unwrap();
        assert_eq!(check.level, Level::Note);
        let check = finding("--no-cache --ram-budget 30MB", &keys::ENABLE_CACHING).unwrap();
        assert_eq!(check.level, Level::Warning);
        let costs = check.costs.unwrap();
        assert!(costs.contains("a quarter of ram_budget is 8 MB"), "{costs}");
        let made = finding("--prepare-on model", &keys::PREPARE_ON).unwrap();
        assert_eq!(made.level, Level::Note);
        assert!(finding("--no-cache --prepare-on model", &keys::ENABLE_CACHING).is_none());
    }
}
