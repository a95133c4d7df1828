//! What is known of the clips, and the lists of the bad and the odd ones.

use std::path::Path;

use rayon::prelude::*;
use voxmill_data::cache::Cache;
use voxmill_data::manifest::{
    Clip, Manifest, Measured, Quarantine, Suspicious, TableError, find_suspicious,
};

use crate::session::errors::OWN_FOLDER;
use voxmill_data::Recipe;
use voxmill_data::build::Known;
use voxmill_settings::error::UserError;

/// By clip number: from this run where the clip was made, else from the cache's index.
pub(super) fn all_known<'a>(
    clips: &[Clip],
    cache: &Cache,
    made: &[(usize, Known)],
    stale: impl Iterator<Item = &'a usize>,
) -> Vec<Option<Known>> {
    let of_entry = |clip: &Clip| {
        let entry = cache.entry(&clip.id)?;
        Some(Known {
            language: entry.language,
            tokens: entry.token_count,
            frames: entry.frames,
            levels: entry.levels,
        })
    };
    let mut known: Vec<Option<Known>> = clips.iter().map(of_entry).collect();
    // A stale clip that was not made (bad, or not reached) may have an old entry: that is not what it is now.
    for &clip in stale {
        known[clip] = None;
    }
    for &(clip, now) in made {
        known[clip] = Some(now);
    }
    known
}

pub(super) fn write_quarantine(quarantine: &Quarantine, file: &Path) -> anyhow::Result<()> {
    quarantine.write_csv(file).map_err(cannot_write)
}

/// Finds the clips that a person should listen to, and lists them in `file`.
pub(super) fn write_suspicious(
    manifest: &Manifest,
    known: &[Option<Known>],
    recipe: &Recipe,
    file: &Path,
) -> anyhow::Result<Vec<Suspicious>> {
    let measured: Vec<Measured> = manifest
        .clips
        .par_iter()
        .zip(known)
        .filter_map(|(clip, known)| {
            let known = (*known)?;
            Some(Measured {
                unread: recipe.unread(clip, known.language),
                clip: &clip.id,
                speaker: manifest.speaker(clip),
                tokens: known.tokens as usize,
                seconds: clip.header.seconds(),
                levels: known.levels,
            })
        })
        .collect();
    let suspicious = find_suspicious(&measured);
    voxmill_data::manifest::write_suspicious(file, &suspicious).map_err(cannot_write)?;
    Ok(suspicious)
}

fn cannot_write(error: TableError) -> anyhow::Error {
    UserError::new("cannot write the list of bad or odd clips", OWN_FOLDER)
        .because(error)
        .into()
}
