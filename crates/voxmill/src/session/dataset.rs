//! The folders that the settings name, and what their manifests say.

use voxmill_data::manifest::{FollowedLinks, Limits, MIN_SECONDS, Manifest, Reason, Split};
use voxmill_data::{Dataset, DatasetFolder};
use voxmill_report::format::counted;

use crate::commands::{note, warning};
use voxmill_settings::demo_folder;
use voxmill_settings::error::UserError;
use voxmill_settings::error::of_library::of_manifest;
use voxmill_settings::{DataSettings, Origin};

/// The folder to train on, and the folder to validate on where that is another one.
pub(crate) fn folders(settings: &DataSettings) -> anyhow::Result<Vec<DatasetFolder>> {
    let path = match &settings.train_data {
        Some(folder) => folder.clone(),
        None => demo_folder::unpack()?,
    };
    let given = settings.val_data.is_some().then_some(Split::Train);
    let mut train = DatasetFolder::new(path, given, settings.cache_dir.clone());
    train.demo = settings.train_data.is_none();
    let links = match settings.follow_links {
        true => FollowedLinks::Everywhere,
        false => FollowedLinks::Inside,
    };
    train.links = links;
    let Some(val) = &settings.val_data else {
        return Ok(vec![train]);
    };
    let home = settings.cache_dir.as_ref();
    let home = home.map(|dir| dir.join("validation"));
    let mut validation = DatasetFolder::new(val.clone(), Some(Split::Validation), home);
    validation.links = links;
    if train.is_same(&validation) {
        let val = val.display();
        let what = format!("--train-data and --val-data are the same folder, `{val}`");
        let hint = "leave --val-data out: a share of the clips is then held out";
        return Err(UserError::new(what, hint).into());
    }
    Ok(vec![train, validation])
}

/// Reads the manifest and the audio headers, on the current rayon pool.
pub(crate) fn scan(folder: &DatasetFolder, settings: &DataSettings) -> anyhow::Result<Manifest> {
    let limits = Limits {
        audio: settings.audio.clone(),
        max_mel_frames: Some(settings.max_mel_frames as usize),
        max_text_length: Some(settings.max_text_length as usize),
        min_seconds: MIN_SECONDS,
    };
    let Dataset {
        manifest,
        has_own_split,
        notes,
    } = folder
        .open(&limits, settings.val_fraction)
        .map_err(of_manifest)?;
    for note in notes {
        note!("{note}");
    }
    let counts = manifest.quarantine.counts();
    let links = counts.iter().find(|(why, _)| *why == Reason::LINK_OUTSIDE);
    if let Some((_, links)) = links {
        let clips = counted(*links as u64, "clip");
        let folder = folder.path.display();
        warning!(
            "{clips} of `{folder}` left out: links that lead outside it; --follow-links reads them"
        );
    }
    if has_own_split {
        let what = format!(
            "val_fraction has no effect: `{}` has a split of its own",
            folder.path.display()
        );
        match &settings.val_fraction_origin {
            Origin::Flag => return Err(UserError::new(what, "leave --val-fraction out").into()),
            Origin::File(place) => note!("{}:{}: {what}", place.file.display(), place.line),
            Origin::Auto(_) | Origin::Default => {}
        }
    }
    Ok(manifest)
}
