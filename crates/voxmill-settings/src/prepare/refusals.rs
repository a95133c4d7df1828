//! What `prepare` refuses, and the next move.

use std::path::Path;

use voxmill_data::manifest::{Manifest, Reason, TooManyBad};
use voxmill_format::size;

use crate::PrepareSettings;
use crate::error::UserError;
use voxmill_data::DatasetFolder;
use voxmill_data::featurize::TOO_LARGE;

impl PrepareSettings {
    /// Why nothing should be trained on this dataset, if so: too many bad rows, or no clip left.
    pub fn refusal(
        &self,
        manifest: &Manifest,
        rows: usize,
        usable: usize,
        folder: &DatasetFolder,
    ) -> Option<UserError> {
        let list = folder.quarantine_list();
        if let Some(bad) = manifest.quarantine.too_many(rows, self.data.max_bad) {
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
}

/// The next move where too many rows are bad, by what most of them are; else what to do with the `list` of them.
pub fn hint_for_bad(bad: &TooManyBad, list: &str) -> String {
    let most = bad.counts.iter().max_by_key(|(_, count)| count);
    match most.map(|(reason, _)| reason) {
        Some(reason) if *reason == Reason::named(TOO_LARGE) => {
            "the clips are good; give them more memory with --ram-budget".to_owned()
        }
        Some(reason) if *reason == Reason::LINK_OUTSIDE => {
            "the links lead outside the dataset's folder: --follow-links reads them".to_owned()
        }
        _ => format!("{list}, or allow more with --max-bad"),
    }
}

/// Refuses to begin what the disk has no room for.
pub fn no_room_for_cache(needed: u64, free: u64, dir: &Path) -> UserError {
    let (needed, free) = (size(needed), size(free));
    let what = format!(
        "the cache needs {needed} in `{}`, where {free} are free",
        dir.display()
    );
    let hint = "free some space, move it with --cache-dir, or bound it with --cache-budget";
    UserError::new(what, hint)
}
