//! What is known of the clips, and the lists of the bad and the odd ones.

use std::path::Path;

use rayon::prelude::*;
use voxmill_data::cache::Cache;
use voxmill_data::manifest::{
    Clip, FilteredClip, Manifest, MeasuredClip, QualityList, Quarantine, Suspicious, TableError,
    find_suspicious,
};

use crate::commands::warning;
use voxmill_data::Recipe;
use voxmill_data::build::KnownClip;
use voxmill_settings::error::UserError;
use voxmill_settings::error::of_library::OWN_FOLDER;

/// By clip number: from this run where the clip was made, else from the cache's index.
pub(super) fn all_known<'a>(
    clips: &[Clip],
    cache: &Cache,
    made: &[(usize, KnownClip)],
    stale: impl Iterator<Item = &'a usize>,
) -> Vec<Option<KnownClip>> {
    let of_entry = |clip: &Clip| {
        let entry = cache.entry(&clip.id)?;
        Some(KnownClip {
            language: entry.language,
            tokens: entry.token_count,
            frames: entry.frames,
            levels: entry.levels,
            quality: None,
        })
    };
    let mut known: Vec<Option<KnownClip>> = clips.iter().map(of_entry).collect();
    // A stale clip that was not made (bad, or not reached) may have an old entry: that is not what it is now.
    for &clip in stale {
        known[clip] = None;
    }
    for &(clip, now) in made {
        known[clip] = Some(now);
    }
    known
}

/// Completes what is known by the sound of the frames: as the list of before has it, else from the cache. A clip of
/// a damaged shard stays without: the next run computes it again.
pub(super) fn measure(
    clips: &[Clip],
    known: &mut [Option<KnownClip>],
    cache: &Cache,
    recipe: &Recipe,
    file: &Path,
) {
    // A list that cannot be read is written anew.
    let before = QualityList::read(file, &recipe.audio).unwrap_or_default();
    clips.par_iter().zip(&mut *known).for_each(|(clip, known)| {
        if let Some(known) = known {
            let listed = || before.of(clip);
            let cached = || Some(recipe.quality(cache.get(&clip.id).ok()??.mel));
            known.quality = known.quality.or_else(listed).or_else(cached);
        }
    });
    let rows = clips.iter().zip(&*known).filter_map(|(clip, known)| {
        let known = (*known)?;
        Some((clip, known.quality?))
    });
    if let Err(error) = QualityList::write(file, &recipe.audio, rows) {
        // Nothing of this run depends on it, and a folder that cannot be written is still good.
        warning!("what was measured of the clips is not kept: {error}");
    }
}

pub(super) fn write_quarantine(quarantine: &Quarantine, file: &Path) -> anyhow::Result<()> {
    quarantine.write_csv(file).map_err(cannot_write)
}

/// Lists in `file` what is left out for its length: by the header, and by `max_mel_frames` once frames are known.
pub(super) fn write_filtered(
    manifest: &Manifest,
    known: &[Option<KnownClip>],
    max_mel_frames: u32,
    file: &Path,
) -> anyhow::Result<Vec<FilteredClip>> {
    let clips = manifest.clips.iter().zip(known);
    let too_long = clips.filter_map(|(clip, known)| {
        let known = known.filter(|known| known.frames > max_mel_frames)?;
        Some(FilteredClip::too_long(clip, known.frames, max_mel_frames))
    });
    let filtered: Vec<_> = manifest
        .filtered_clips
        .iter()
        .cloned()
        .chain(too_long)
        .collect();
    voxmill_data::manifest::write_filtered(file, &filtered).map_err(cannot_write)?;
    Ok(filtered)
}

/// Finds the clips that a person should listen to, and lists them in `file`.
pub(super) fn write_suspicious(
    manifest: &Manifest,
    known: &[Option<KnownClip>],
    recipe: &Recipe,
    min_snr: Option<f64>,
    file: &Path,
) -> anyhow::Result<Vec<Suspicious>> {
    let measured: Vec<MeasuredClip> = manifest
        .clips
        .par_iter()
        .zip(known)
        .filter_map(|(clip, known)| {
            let known = (*known)?;
            Some(MeasuredClip {
                unread: recipe.unread(clip, known.language),
                clip: &clip.id,
                language: known.language,
                speaker: manifest.speaker(clip),
                tokens: known.tokens as usize,
                seconds: clip.header.seconds(),
                levels: known.levels,
                quality: known.quality?,
            })
        })
        .collect();
    let suspicious = find_suspicious(&measured, min_snr);
    voxmill_data::manifest::write_suspicious(file, &recipe.audio, &suspicious)
        .map_err(cannot_write)?;
    Ok(suspicious)
}

fn cannot_write(error: TableError) -> anyhow::Error {
    UserError::new("cannot write the list of bad or odd clips", OWN_FOLDER)
        .because(error)
        .into()
}
