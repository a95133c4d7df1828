//! Disks: room for what is written, and how fast the dataset is read.

use voxmill_format::given_megabytes;
use voxmill_report::results::validate::FolderRoom;

use super::{Check, Facts, all_of, percent, size, span};
use crate::config::keys;

/// What was measured.
#[derive(Clone, Debug)]
pub struct DiskFacts {
    /// What the checkpoints take at most, and the room where they go. `None`: not known.
    pub checkpoints: FolderRoom,
    /// What the cache is still to grow by, and the room where it is.
    pub cache: FolderRoom,
    /// Reading some files of the dataset from beginning to end.
    pub reading: Option<ReadSpeed>,
    /// Of all clips to train on.
    pub audio_bytes: u64,
    /// What an epoch took in the run that is like this one, where there is one.
    pub epoch_seconds: Option<f64>,
}

/// How fast some files of the dataset were read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReadSpeed {
    pub files: usize,
    pub bytes: u64,
    pub seconds: f64,
}

impl ReadSpeed {
    /// On average.
    pub fn bytes_a_second(&self) -> f64 {
        self.bytes as f64 / self.seconds.max(1e-9)
    }
}

/// Reading may take this share of an epoch before it is worth a warning.
const MUCH: f64 = 0.5;

all_of!(checkpoints, cache, cache_budget, slow_disk);

fn checkpoints(facts: &Facts<'_>) -> Option<Check> {
    let disk = facts.disk.as_ref()?;
    let room = &disk.checkpoints;
    let folder = &room.folder;
    let about = |what: String| facts.error(&keys::CHECKPOINT_DIR, what);
    if !room.writable {
        let check = about(format!("checkpoints cannot be written into `{folder}`"));
        return Some(check.hint("give a folder that can be written with --checkpoint-dir"));
    }
    let free = room.free_bytes.filter(|free| room.needed_bytes > *free)?;
    let keep = facts.settings.checkpoints.keep.get() as u64;
    let (needed, are_free) = (size(room.needed_bytes), size(free));
    let what = format!("the checkpoints need {needed} in `{folder}`, where {are_free} are free");
    // Besides the kept ones there are the best, and the one that is being written.
    let each = room.needed_bytes / (keep + 2);
    Some(match free / each.max(1) {
        fit @ 3.. => about(what).suggest(&keys::KEEP, fit - 2),
        _ => about(what).hint("free some space, or move them with --checkpoint-dir"),
    })
}

fn cache(facts: &Facts<'_>) -> Option<Check> {
    let disk = facts.disk.as_ref()?;
    let room = &disk.cache;
    if !facts.settings.feeding.caching {
        return None;
    }
    let about = |what: String| {
        let check = facts.warning(&keys::CACHE_DIR, what);
        check.hint("move the cache with --cache-dir to a disk with room")
    };
    let anew = "without a cache every epoch computes its features again";
    if !room.writable {
        let what = format!("the cache cannot be written into `{}`", room.folder);
        return (room.needed_bytes > 0).then(|| about(what).costs(anew));
    }
    let free = room.free_bytes.filter(|free| room.needed_bytes > *free)?;
    let (folder, needed, free) = (&room.folder, size(room.needed_bytes), size(free));
    let what = format!("the cache needs {needed} more in `{folder}`, where {free} are free");
    Some(about(what).costs(anew))
}

fn cache_budget(facts: &Facts<'_>) -> Option<Check> {
    let disk = facts.disk.as_ref()?;
    let budget = facts.settings.data.cache_budget?;
    let needed = disk.cache.needed_bytes;
    if !facts.settings.feeding.caching || needed <= budget {
        return None;
    }
    let (take, may) = (size(needed), size(budget));
    let what = format!("the features take {take}, and cache_budget is {may}");
    let beyond = percent(1.0 - budget as f64 / needed as f64);
    let costs = format!("about {beyond} of the clips are computed again in every epoch");
    let enough = given_megabytes(needed + needed / 10);
    let check = facts.warning(&keys::CACHE_BUDGET, what).costs(costs);
    Some(check.suggest(&keys::CACHE_BUDGET, enough))
}

/// Only where a run says how long an epoch takes: a slow disk behind a slow model costs nothing.
fn slow_disk(facts: &Facts<'_>) -> Option<Check> {
    let disk = facts.disk.as_ref()?;
    let (reading, epoch) = (disk.reading?, disk.epoch_seconds?);
    let seconds = disk.audio_bytes as f64 / reading.bytes_a_second();
    if seconds < MUCH * epoch {
        return None;
    }
    let (rate, seconds) = (size(reading.bytes_a_second() as u64), span(seconds));
    let what = format!("the disk reads {rate}/s: the sound of an epoch takes {seconds}");
    let costs = format!("an epoch of the last run like this took {}", span(epoch));
    let check = facts.warning(&keys::TRAIN_DATA, what).costs(costs);
    Some(check.hint("copy the dataset to a faster disk, or run `voxmill prepare` first"))
}

#[cfg(test)]
mod tests {
    use super::super::Level;
    use super::super::tests::{Machine, found};
    use super::*;

    fn with(change: impl FnOnce(&mut DiskFacts)) -> Machine {
        let mut machine = Machine::with("--cache-budget 100MB", 2);
        let room = |needed| FolderRoom {
            folder: "there".to_owned(),
            needed_bytes: needed,
            free_bytes: Some(10_000_000_000),
            writable: true,
        };
        let mut disk = DiskFacts {
            checkpoints: room(200_000_000),
            cache: room(60_000_000),
            reading: Some(ReadSpeed {
                files: 10,
                bytes: 100_000_000,
                seconds: 1.0,
            }),
            audio_bytes: 1_000_000_000,
            epoch_seconds: Some(100.0),
        };
        change(&mut disk);
        machine.disk = Some(disk);
        machine
    }

    #[test]
    fn room_enough_and_a_fast_disk_have_no_findings() {
        assert!(check(&with(|_| ()).facts()).is_empty());
    }

    #[test]
    fn checkpoints_that_do_not_fit_are_an_error_with_fewer_to_keep() {
        let machine = with(|disk| disk.checkpoints.free_bytes = Some(130_000_000));
        let check = found(&machine.facts(), &keys::CHECKPOINT_DIR).unwrap();
        assert_eq!(check.level, Level::Error);
        assert_eq!(check.suggestions[0].flag().unwrap(), "--keep 1");
        let machine = with(|disk| disk.checkpoints.free_bytes = Some(1_000_000));
        let check = found(&machine.facts(), &keys::CHECKPOINT_DIR).unwrap();
        assert!(check.suggestions.is_empty());
        let machine = with(|disk| disk.checkpoints.writable = false);
        assert!(found(&machine.facts(), &keys::CHECKPOINT_DIR).is_some());
    }

    #[test]
    fn a_cache_without_room_is_a_warning() {
        let machine = with(|disk| disk.cache.free_bytes = Some(1_000_000));
        let check = found(&machine.facts(), &keys::CACHE_DIR).unwrap();
        assert_eq!(check.level, Level::Warning);
        let machine = with(|disk| disk.cache.needed_bytes = 150_000_000);
        let check = found(&machine.facts(), &keys::CACHE_BUDGET).unwrap();
        assert!(check.costs.unwrap().starts_with("about 33 % of the clips"));
    }

    #[test]
    fn a_disk_is_slow_only_compared_with_a_measured_epoch() {
        let slow = with(|disk| disk.epoch_seconds = Some(12.0));
        let check = found(&slow.facts(), &keys::TRAIN_DATA).unwrap();
        assert!(check.what.contains("takes 10.0 s"), "{}", check.what);
        let unknown = with(|disk| disk.epoch_seconds = None);
        assert!(found(&unknown.facts(), &keys::TRAIN_DATA).is_none());
    }
}
