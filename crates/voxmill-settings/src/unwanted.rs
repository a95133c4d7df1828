//! Clips that are left out because they are noisy or suspicious, as `prepare` measured and listed them.

use std::collections::BTreeSet;

use voxmill_data::DatasetFolder;
use voxmill_data::manifest::{Manifest, QualityList, Quarantine, TableError, read_suspicious_ids};
use voxmill_format::counted;

use crate::DataSettings;
use crate::error::UserError;

/// The ids of the clips that the settings do not want. What `prepare` has not measured is no guess: it is refused.
pub fn unwanted(
    manifest: &Manifest,
    folder: &DatasetFolder,
    settings: &DataSettings,
) -> anyhow::Result<Vec<String>> {
    if !settings.drop_suspicious && settings.min_snr.is_none() {
        return Ok(Vec::new());
    }
    let list = QualityList::read(&folder.quality_list(), &settings.audio).map_err(unreadable)?;
    let clips = &manifest.clips;
    // What could not be decoded has no measure, and is left out when training meets it.
    let bad = Quarantine::read_csv(&folder.quarantine_list()).map_err(unreadable)?;
    let bad: BTreeSet<&str> = bad.entries().iter().map(|entry| &*entry.clip).collect();
    let unknown = clips
        .iter()
        .filter(|clip| list.of(clip).is_none() && !bad.contains(&*clip.id));
    let unknown = unknown.count();
    if unknown > 0 {
        let unknown = counted(unknown as u64, "clip");
        let elsewise = match list.elsewise {
            0 => "",
            _ => ": it was measured at other audio settings",
        };
        return Err(not_measured(folder, &unknown, elsewise).into());
    }
    let mut ids = BTreeSet::new();
    if let Some(min_snr) = settings.min_snr {
        ids.extend(manifest.below_snr(&list, min_snr).map(str::to_owned));
    }
    if settings.drop_suspicious {
        let path = folder.suspicious_list();
        let listed = read_suspicious_ids(&path, &settings.audio).map_err(unreadable)?;
        let other = ": suspicious.csv is of other audio settings";
        ids.extend(listed.ok_or_else(|| not_measured(folder, "its clips", other))?);
    }
    let known: BTreeSet<&str> = clips.iter().map(|clip| &*clip.id).collect();
    Ok(ids.into_iter().filter(|id| known.contains(&**id)).collect())
}

fn not_measured(folder: &DatasetFolder, clips: &str, why: &str) -> UserError {
    let what = format!(
        "--drop-suspicious and --min-snr need measures that `{}` lacks for {clips}{why}",
        folder.path.display(),
    );
    let hint = "run `voxmill prepare` with the same data and audio settings first";
    UserError::new(what, hint)
}

fn unreadable(error: TableError) -> anyhow::Error {
    let hint = "delete the list; `voxmill prepare` writes it again";
    UserError::new("cannot read a list of `voxmill prepare`", hint)
        .because(error)
        .into()
}
