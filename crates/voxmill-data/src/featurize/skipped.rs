//! Clips without features: what the quarantine and the run log say about them.

use voxmill_pipeline::item::ItemFault;
use voxmill_telemetry::event::{Event, Fault, FaultAction, FaultKind};
use voxmill_telemetry::stage::StageId;

use super::with_causes;
use crate::manifest::{Clip, QuarantineEntry, Reason};

/// Why a clip is left out that alone is larger than the memory budget.
pub const TOO_LARGE: &str = "does not fit into memory";

/// A bad clip is data, not a fault of the work; a reader of the log wants to see it all the same.
pub(crate) fn left_out(number: u64, bad: &QuarantineEntry) -> Event {
    Event::Fault(Fault {
        stage: StageId::Featurize.name().to_owned(),
        item: number,
        name: bad.clip.to_string(),
        kind: FaultKind::Error,
        message: format!("{}: {}", bad.reason, bad.detail),
        action: FaultAction::Skipped,
    })
}

/// A clip without features, for a reason that is not in its data.
pub(crate) fn lost(clip: &Clip, fault: &ItemFault) -> QuarantineEntry {
    let why = with_causes(fault.error.as_ref());
    let (reason, detail) = match fault.kind {
        FaultKind::TooLarge => (
            TOO_LARGE,
            format!("{why}; a larger --ram-budget would take it"),
        ),
        FaultKind::Panic => (
            "internal error",
            format!("voxmill panicked on this clip: {why}"),
        ),
        FaultKind::Outgrown | FaultKind::Error | FaultKind::Setup => ("internal error", why),
    };
    clip.quarantine(Reason::named(reason), detail)
}
