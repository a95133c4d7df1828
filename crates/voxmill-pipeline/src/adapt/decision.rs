//! What has to be changed to go from one setting to another.

use voxmill_telemetry::event::DecidedChange;

use super::settings::Settings;

/// One change: whether its stage gets or gives, the stage's index, and what is changed.
type StageChange = (bool, usize, DecidedChange);

/// All that differs between two settings; who gives comes before who gets. `back`: to where it was
/// before a trial.
pub(super) fn changes(from: &Settings, to: &Settings, back: bool) -> Vec<StageChange> {
    let differing = |from: &[usize], to: &[usize], change: fn(u64, u64, bool) -> DecidedChange| {
        let pairs = from.iter().zip(to).enumerate();
        let differing = pairs.filter(|(_, (from, to))| from != to);
        let changes = differing
            .map(|(stage, (from, to))| (to > from, stage, change(*from as u64, *to as u64, back)));
        changes.collect::<Vec<StageChange>>()
    };
    let mut all = differing(&from.workers, &to.workers, |from, to, back| match back {
        true => DecidedChange::WorkersBack { from, to },
        false => DecidedChange::Workers { from, to },
    });
    all.extend(differing(
        &from.capacity,
        &to.capacity,
        |from, to, back| match back {
            true => DecidedChange::CapacityBack { from, to },
            false => DecidedChange::Capacity { from, to },
        },
    ));
    all.sort_by_key(|(gets, ..)| *gets);
    all
}
