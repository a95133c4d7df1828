//! How a run begins: resumed, with another run's voice, or new.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde_json::json;
use voxmill_pipeline::resume::ResumePoint;
use voxmill_text::symbols::SymbolTable;
use voxmill_trainer::checkpoint::Checkpoints;
use voxmill_trainer::train::{TrainOptions, Trainer};

use super::summary;
use crate::commands::{note, warning};
use crate::session::run_lock::FolderLock;
use crate::session::voice::from_other_voice;
use crate::session::{Resumed, RunPlan, Session, facts};
use voxmill_settings::args::TrainArgs;
use voxmill_settings::error::UserError;
use voxmill_settings::error::of_library::{of_checkpoint, with_cause};
use voxmill_settings::recorded;
use voxmill_settings::run_folder::{self, CheckpointPath};
use voxmill_settings::{Start, TrainSettings};

/// More than any run trains on.
const MOST_BATCHES: u64 = 1 << 40;

/// Finds the checkpoint to resume, and takes the run's own settings where no others are given.
pub(super) fn find_resumed(args: &mut TrainArgs) -> anyhow::Result<Option<Resumed>> {
    let Some(from) = args.resume() else {
        return Ok(None);
    };
    let runs_dir = recorded::runs_dir_of(&args.flags)?;
    let named = match from {
        Some(path) => CheckpointPath::find(&recorded::find(&runs_dir, &path)?),
        None => CheckpointPath::find(&run_folder::newest(&runs_dir)?),
    };
    let run = run_of(&named)?;
    // Before the checkpoint is read: a run that still trains has another one soon.
    let is_run = !args.flags.show_settings;
    let lock = is_run.then(|| FolderLock::of_run(&run)).transpose()?;
    let found = named.newest().map_err(of_checkpoint)?;
    for damaged in &found.damaged {
        warning!(
            "{}; resuming from `{}` instead",
            with_cause(damaged),
            found.checkpoint.path().display()
        );
    }
    let own = run.join(run_folder::SETTINGS);
    if own.is_file() {
        match &args.flags.config {
            None => args.flags.config = Some(own),
            Some(other) => note!(
                "the settings are those of `{}`, not the run's own",
                other.display()
            ),
        }
    }
    Ok(Some(Resumed {
        run,
        checkpoint: found.checkpoint,
        _lock: lock,
    }))
}

/// The run that a checkpoint belongs to: by its place, which is right also where the run was moved, unless either says
/// otherwise: another run may have its checkpoints there. A checkpoint that lies elsewhere names its run, and is believed
/// only if that run knows it: anybody may have written it.
fn run_of(named: &CheckpointPath) -> anyhow::Result<PathBuf> {
    let has_settings = |run: &&Path| run.join(run_folder::SETTINGS).is_file();
    if let CheckpointPath::Run(run) = named
        && has_settings(&&**run)
    {
        return Ok(run.clone());
    }
    let found = named.newest().map_err(of_checkpoint)?.checkpoint;
    let id = found.facts().run_id();
    // What is from before there were ids says nothing.
    let may_be = |run: &&Path| {
        let theirs = run_folder::id_of(run);
        theirs
            .as_deref()
            .zip(id)
            .is_none_or(|(theirs, id)| theirs == id)
    };
    if let Some(run) = named.run().filter(has_settings).filter(may_be) {
        return Ok(run.to_owned());
    }
    let stored = found.facts().settings["run"].as_str().map(Path::new);
    let is_its_folder = |run: &Path| {
        let real = |path: &Path| path.canonicalize().ok();
        let folder = named.folder().and_then(|folder| real(&folder));
        folder.is_some_and(|ours| real(&run_folder::checkpoints_of(run)) == Some(ours))
    };
    let knows_it = |run: &Path| {
        let theirs = Checkpoints::new(&run_folder::checkpoints_of(run), 1);
        id.is_some_and(|id| theirs.of_run(id).has_own())
    };
    let asked = found.path().display();
    match stored.filter(has_settings).filter(may_be) {
        Some(run) if is_its_folder(run) => Ok(run.to_owned()),
        Some(run) if knows_it(run) => {
            // Who resumes a copy may think that the copy grows.
            warning!(
                "`{asked}` is of the run `{}`, which is resumed where it is",
                run.display()
            );
            Ok(run.to_owned())
        }
        _ => {
            let what = format!("`{asked}` does not show which run it belongs to");
            let hint = "put it into the folder `checkpoints` of its run; --init-from takes its weights into a new run";
            Err(UserError::new(what, hint).into())
        }
    }
}

/// The model, new or as it was, and where its batches begin.
pub(super) fn begin(
    session: &Session,
    plan: &RunPlan,
    options: TrainOptions,
    resumed: Option<&Resumed>,
) -> anyhow::Result<(Trainer, ResumePoint)> {
    let settings = &session.settings;
    let fingerprint = plan.loader.plan().fingerprint();
    let stored = json!({
        "plan": fingerprint,
        "values": facts::values(&settings.resolved),
        "lengths": session.store.lengths(),
        "shape_choice": settings.data.batches.shape_choice.number(),
    });
    let speakers = session.data.train.speakers.clone();
    let device = &session.devices.model;
    if let Some(resumed) = resumed {
        check_fits(resumed, settings, &fingerprint)?;
        note_differences(session, resumed);
        let from = &resumed.checkpoint;
        let training =
            Trainer::resume(options, stored, speakers, device, from).map_err(of_checkpoint)?;
        if let Some(over) = training.limit_reached() {
            let what = format!(
                "the run is over at step {}: {}",
                training.progress().step,
                summary::reason(over)
            );
            let hint = "give a larger --max-steps, --max-minutes or --epochs to continue";
            return Err(UserError::new(what, hint).into());
        }
        let position: ResumePoint = serde_json::from_value(training.progress().feed.clone())
            .context("the checkpoint does not say where its batches were")?;
        // It may be anybody's: numbers near the end of their range would overflow in the plan.
        let last = position.beyond.last().copied().unwrap_or(position.next);
        anyhow::ensure!(
            position.next.max(last) <= MOST_BATCHES,
            "the checkpoint's position cannot be: batch {last}"
        );
        return Ok((training, position));
    }
    let voice = session.new_voice()?;
    let training = match &settings.start {
        Start::New {
            init_from: Some(path),
            ..
        } => from_other_voice(path, options, voice, stored, speakers, device)?,
        _ => Trainer::new(options, voice, stored, speakers, device),
    };
    Ok((training, ResumePoint::default()))
}

/// What makes the losses differ from those of a run that was never stopped.
fn note_differences(session: &Session, resumed: &Resumed) {
    let before = resumed.checkpoint.facts();
    if before.prepare_on != session.settings.devices.prepare_on {
        note!(
            "--prepare-on is not what it was before: frames are rounded differently, so the losses are \
             not exactly those of a run that was never stopped",
        );
    }
    if before.precision != session.precision {
        note!(
            "the run was computed in {} before, so the losses are not exactly those of a run that was \
             never stopped",
            before.precision.describe()
        );
    }
}

/// A checkpoint can only be resumed as the voice that it is.
fn check_fits(resumed: &Resumed, settings: &TrainSettings, plan: &str) -> anyhow::Result<()> {
    let facts = resumed.checkpoint.facts();
    let (voice, path) = (&facts.voice, resumed.checkpoint.path().display());
    let refuse = |what: String, hint: String| Err(UserError::new(what, hint).into());
    if voice.size != settings.model_size {
        return refuse(
            format!(
                "`{path}` is of size {}, not {}",
                voice.size, settings.model_size
            ),
            format!(
                "give --model-size {}, or start again without --resume (--init-from takes its weights)",
                voice.size
            ),
        );
    }
    let symbols = SymbolTable::built_in();
    if voice.symbols != symbols {
        return refuse(
            format!(
                "`{path}` knows {} symbols, this program {}",
                voice.symbols.symbols.len(),
                symbols.symbols.len()
            ),
            "--init-from takes its weights into a new run and adds what is new".to_owned(),
        );
    }
    if voice.audio != settings.data.audio {
        return refuse(
            format!("`{path}` was trained with other audio settings"),
            "leave the audio flags out: the run's own settings are then used".to_owned(),
        );
    }
    if facts.settings["plan"] != plan {
        warning!(
            "the dataset or the batch settings have changed since the checkpoint, or the cache no longer \
             has the lengths of trimmed clips: the run resumes at the same position in another order of batches",
        );
    }
    Ok(())
}
