//! What `prepare` refuses, and the next move.

use std::path::Path;

use voxmill_data::manifest::Manifest;
use voxmill_report::format::size;

use crate::session::dataset::hint_for_bad;
use voxmill_data::DatasetFolder;
use voxmill_settings::PrepareSettings;
use voxmill_settings::error::UserError;

/// Why nothing should be trained on this dataset, if so: too many bad rows, or no clip left.
pub(super) fn refusal(
    manifest: &Manifest,
    rows: usize,
    usable: usize,
    settings: &PrepareSettings,
    folder: &DatasetFolder,
) -> Option<UserError> {
    let list = folder.quarantine_list();
    if let Some(bad) = manifest.quarantine.too_many(rows, settings.data.max_bad) {
        let fix = format!("fix the rows listed in `{}`", list.display());
        return Some(UserError::new(bad.to_string(), hint_for_bad(&bad, &fix)));
    }
    if usable > 0 {
        return None;
    }
    let (bad, filtered) = (manifest.quarantine.len(), manifest.filtered);
    let what = format!(
        "no clip of `{}` is left: of {rows} rows {bad} are bad, {} too long and {} too short",
        folder.path.display(),
        filtered.audio_too_long + filtered.text_too_long,
        filtered.audio_too_short
    );
    let hint = if bad >= filtered.total() {
        format!("the reasons are listed in `{}`", list.display())
    } else if filtered.audio_too_short > filtered.total() / 2 {
        "give clips of a tenth of a second or more".to_owned()
    } else {
        "raise --max-mel-frames or --max-text-length".to_owned()
    };
    Some(UserError::new(what, hint))
}

pub(super) fn no_room(needed: u64, free: u64, dir: &Path) -> UserError {
    let (needed, free) = (size(needed), size(free));
    let what = format!(
        "the cache needs {needed} in `{}`, where {free} are free",
        dir.display()
    );
    let hint = "free some space, move it with --cache-dir, or bound it with --cache-budget";
    UserError::new(what, hint)
}
