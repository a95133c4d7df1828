//! Examines one file: everything wrong in it, the settings that are left, the dataset, the checks.

use std::path::Path;

use voxmill_data::batch_plan::PaddingWaste;
use voxmill_data::cache::clip_bytes;
use voxmill_data::manifest::{Filtered, Limits, Split};
use voxmill_report::results::validate::{DatasetFacts, MeasuredBusy};
use voxmill_trainer::checkpoint::checkpoint_bytes;

use super::File;
use super::probe::{ProbedMachine, folder_room};
use crate::session::data::{Data, loader_settings, training_loader};
use voxmill_data::{DatasetFolder, Loader, LoaderSettings};
use voxmill_settings::args::TrainArgs;
use voxmill_settings::checks::{
    self, Check, ClipLengths, DataFacts, DiskFacts, Facts, Length, Level, Needs, Suggestion, Where,
};
use voxmill_settings::config::edit::Edit;
use voxmill_settings::config::file::{ConfigFile, FileProblems, Place};
use voxmill_settings::config::keys::{self, Key, Role};
use voxmill_settings::error::{UserError, failure};
use voxmill_settings::recorded;
use voxmill_settings::{Repairs, TrainSettings};

/// What was found.
#[derive(Debug, Default)]
pub(super) struct Examined {
    /// The most severe first.
    pub(super) checks: Vec<Check>,
    /// What can be done about faults of the file itself.
    pub(super) file_fixes: Vec<Edit>,
    /// `None`: the settings contradict each other, or the dataset cannot be read.
    pub(super) data: Option<DatasetFacts>,
    pub(super) disk: Option<DiskFacts>,
    /// The device that trains, and the one that prepares where that is another one.
    pub(super) devices: Vec<String>,
    /// Of the newest run like this one: the only share that may be named, for it was measured.
    pub(super) busy: Option<MeasuredBusy>,
}

impl Examined {
    pub(super) fn count(&self, level: Level) -> usize {
        self.checks
            .iter()
            .filter(|check| check.level == level)
            .count()
    }

    pub(super) fn is_ready(&self) -> bool {
        self.count(Level::Error) == 0
    }
}

pub(super) fn examine(args: &TrainArgs, file: Option<&File>, machine: &ProbedMachine) -> Examined {
    let mut found = Examined::default();
    let path = file.map_or(Path::new(""), |file| &file.path);
    let (config, faults) = match file {
        Some(file) => ConfigFile::examine(&file.text, path),
        None => (Some(ConfigFile::default()), FileProblems::default()),
    };
    let more = faults.more;
    for fault in faults.described {
        found.file_fixes.extend(fault.fix);
        let place = Where::File(Place {
            file: path.to_owned(),
            line: fault.line,
            column: fault.column,
        });
        let mut check = finding(Level::Error, None, place, fault.what);
        check.hint = Some(fault.hint);
        found.checks.push(check);
    }
    if more > 0 {
        let what = format!("the file has {more} problems more");
        found
            .checks
            .push(finding(Level::Error, None, Where::Elsewhere, what));
    }
    let Some(config) = config else {
        return found;
    };
    found.checks.extend(without_meaning(&config));
    if let Some(settings) = settings(args, &config, machine, &mut found.checks) {
        check_data(&settings, args, file.is_some(), machine, &mut found);
    }
    found.checks.sort_by_key(|check| check.level);
    found
}

fn finding(level: Level, key: Option<&'static Key>, place: Where, what: String) -> Check {
    Check {
        level,
        key,
        place,
        what,
        costs: None,
        suggestions: Vec::new(),
        hint: None,
    }
}

fn without_meaning(config: &ConfigFile) -> Vec<Check> {
    let notes = config.without_meaning.iter().filter_map(|&key| {
        let Role::NoMeaning(why) = key.role else {
            return None;
        };
        let place = Where::File(config.place(key)?.clone());
        let what = format!("`{}` is ignored: {why}", key.name);
        Some(finding(Level::Note, Some(key), place, what))
    });
    notes.collect()
}

/// The settings as `train` resolves them. What it would refuse becomes a finding, is taken as it
/// should have been, and the rest is checked all the same.
fn settings(
    args: &TrainArgs,
    config: &ConfigFile,
    machine: &ProbedMachine,
    checks: &mut Vec<Check>,
) -> Option<TrainSettings> {
    let mut repairs = Repairs::new();
    loop {
        let resolved = TrainSettings::resolve_repaired(
            args.clone(),
            config.clone(),
            repairs.clone(),
            machine.host.cores,
            &machine.available,
        );
        let error = match resolved {
            Ok(settings) => {
                checks.extend(setting_notes(&settings, config));
                return Some(settings);
            }
            Err(error) => error,
        };
        let refused = of_error(&error, args, config);
        let before = repairs.len();
        for Suggestion { key, value } in &refused.suggestions {
            repairs.entry(key.name).or_insert_with(|| value.clone());
        }
        checks.push(refused);
        if repairs.len() == before {
            return None;
        }
    }
}

/// An error as a finding, about the setting that it names.
fn of_error(error: &anyhow::Error, args: &TrainArgs, config: &ConfigFile) -> Check {
    let what = failure(error).reason;
    let error = error.downcast_ref::<UserError>();
    let keys = error.map(UserError::keys).unwrap_or_default();
    let in_file = keys.iter().find(|key| config.place(key).is_some());
    let key = in_file.or(keys.first()).copied();
    let place = match key.map(|key| (config.place(key), args.flags.has(key))) {
        Some((_, true)) => Where::Flag(None),
        Some((Some(place), _)) => Where::File(place.clone()),
        _ => Where::Elsewhere,
    };
    Check {
        suggestions: error.map(UserError::fixes).unwrap_or_default(),
        hint: error.map(|error| error.hint().to_owned()),
        ..finding(Level::Error, key, place, what)
    }
}

fn setting_notes(settings: &TrainSettings, config: &ConfigFile) -> Vec<Check> {
    let notes = settings.setting_notes.iter().map(|about| {
        let place = match config.place(about.key) {
            Some(place) => Where::File(place.clone()),
            None => Where::Flag(None),
        };
        let note = about.note.clone();
        finding(note.level, Some(about.key), place, note.text)
    });
    notes.collect()
}

/// The dataset, the disks and the checks.
fn check_data(
    settings: &TrainSettings,
    args: &TrainArgs,
    file: bool,
    machine: &ProbedMachine,
    found: &mut Examined,
) {
    let devices = settings.devices.devices;
    found.devices.push(devices.model().to_string());
    if devices.is_pair() {
        found.devices.push(devices.data().to_string());
    }
    found.busy = recorded::newest_like(settings).map(|(run, profile)| MeasuredBusy {
        run,
        share: profile.busy,
        steps: profile.steps,
        seconds_per_step: profile.seconds / profile.steps.max(1) as f64,
    });
    let mut facts = Facts {
        settings,
        file,
        cores: machine.host.cores,
        memory: machine.host.memory,
        cards: &machine.cards,
        model_card: machine.available.card(devices.model()).ok(),
        data_card: machine.available.card(devices.data()).ok(),
        data: None,
        disk: None,
    };
    match Planned::read(settings) {
        Ok(planned) => {
            let epoch = found
                .busy
                .as_ref()
                .map(|busy| busy.seconds_per_step * planned.steps_an_epoch(settings));
            facts.disk = Some(planned.disk(settings, machine, epoch));
            facts.data = Some(planned.facts(settings));
            found.checks.extend(checks::check(&facts));
            found.data = facts
                .data
                .as_ref()
                .map(|data| planned.report(data, settings));
            found.disk = facts.disk;
        }
        Err(error) => {
            let key = &keys::TRAIN_DATA;
            let mut check = of_error(&error, args, &ConfigFile::default());
            check.key = check.key.or(Some(key));
            match facts.place(key) {
                place @ Where::File(_) => check.place = place,
                Where::Flag(_) => check.place = Where::Flag(None),
                _ => {}
            }
            found.checks.push(check);
            found.checks.extend(checks::check(&facts));
        }
    }
}

/// The dataset with the plan of its batches, as `train` makes it.
struct Planned {
    data: Data,
    batches: Loader,
    found_in_cache: usize,
    /// As many as it can have.
    to_cache: usize,
    lengths: Option<ClipLengths>,
}

impl Planned {
    fn read(settings: &TrainSettings) -> anyhow::Result<Planned> {
        let data = Data::open(settings, None)?;
        let store = data.store(settings);
        // Whether it fits is for the checks to say.
        let unbounded = LoaderSettings {
            ram_budget: u64::MAX,
            ..loader_settings(settings)
        };
        let batches = training_loader(settings, &store, unbounded)?;
        let lengths = match data.train.filtered.total() {
            0 => None,
            _ => lengths(settings, &data.folder),
        };
        Ok(Planned {
            found_in_cache: store.found_in_cache(),
            to_cache: data.to_cache(&store),
            data,
            batches,
            lengths,
        })
    }

    fn steps_an_epoch(&self, settings: &TrainSettings) -> f64 {
        let accumulate = settings.optimization.gradient_accumulation_steps.get();
        self.batches.plan().batches_per_epoch() as f64 / f64::from(accumulate)
    }

    fn facts<'a>(&'a self, settings: &TrainSettings) -> DataFacts<'a> {
        let plan = self.batches.plan();
        DataFacts {
            plan,
            rows: self.data.rows,
            bad: self.data.train.quarantine.len(),
            filtered: Filtered {
                audio_too_long: self.data.train.filtered.audio_too_long + self.batches.too_long(),
                ..self.data.train.filtered
            },
            lengths: self.lengths,
            sources: self.data.train.source_formats(),
            held_out: self.data.held_out().clips_of(Split::Validation).count(),
            audio_seconds: self.batches.audio_seconds(),
            making: self.batches.most_bytes(),
            batch_budget: loader_settings(settings).ram_budget,
            needs: Needs::of(settings, settings.devices.planned_precision(), plan),
        }
    }

    fn disk(
        &self,
        settings: &TrainSettings,
        machine: &ProbedMachine,
        epoch_seconds: Option<f64>,
    ) -> DiskFacts {
        let parameters = checks::need::parameters(settings);
        // The kept ones, the best, and the one that is being written.
        let kept = settings.checkpoints.keep.get() as u64 + 2;
        let folder = settings.checkpoints.dir.as_ref();
        let folder = folder.unwrap_or(&settings.run_folder.runs_dir);
        let audio = &settings.data.audio;
        let clips = &self.data.train.clips;
        let tokens = |text: &str| text.chars().count() as u64;
        let sizes = clips.iter().map(|clip| {
            let frames = audio.frames_for_header(&clip.header) as u64;
            clip_bytes(
                frames,
                audio.n_mels as u64,
                tokens(&clip.text),
                clip.text.len() as u64,
            )
        });
        let missing = self.to_cache.saturating_sub(self.found_in_cache);
        let missing = missing as f64 / clips.len().max(1) as f64;
        let cache = (sizes.sum::<u64>() as f64 * missing) as u64;
        DiskFacts {
            checkpoints: folder_room(folder, kept * checkpoint_bytes(parameters)),
            cache: folder_room(&self.data.folder.cache_dir(), cache),
            reading: machine.reading(clips),
            audio_bytes: clips.iter().map(|clip| clip.audio_bytes).sum(),
            epoch_seconds,
        }
    }

    fn report(&self, data: &DataFacts<'_>, settings: &TrainSettings) -> DatasetFacts {
        let plan = data.plan;
        let mut clips: Vec<_> = (self.data.train.clips.iter())
            .map(|clip| (clip.id.to_string(), clip.header.seconds()))
            .collect();
        clips.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        clips.truncate(3);
        let largest = data.needs.largest;
        DatasetFacts {
            folder: self.data.folder.path.display().to_string(),
            demo: self.data.folder.demo,
            rows: data.rows,
            to_train_on: plan.clips().len(),
            held_out: data.held_out,
            bad: data.bad,
            left_out_for_length: data.filtered.total(),
            audio_seconds: data.audio_seconds,
            longest: clips,
            batch_size: plan.settings().batch_size.get(),
            batches_an_epoch: plan.batches_per_epoch(),
            shapes: plan.buckets().len(),
            padding_waste: checks::waste(plan),
            padding_waste_of_padding_to_the_longest: PaddingWaste::of_longest(
                plan.clips(),
                plan.settings(),
            )
            .frames
            .waste(),
            largest_batch: [largest.rows, largest.frames, largest.tokens],
            model_device_bytes: data.needs.on_model(),
            weights_bytes: data.needs.model.weights,
            training_bytes: data.needs.model.activations,
            waiting_bytes: data.needs.model.batch * data.needs.slots as u64,
            waiting_batches: data.needs.slots,
            data_device_bytes: data.needs.data,
            making_bytes: data.making,
            batch_budget_bytes: data.batch_budget,
            ram_budget_bytes: settings.feeding.ram_budget,
            cached_clips: self.found_in_cache,
            all_clips: self.to_cache,
        }
    }
}

/// The lengths of all clips, those included that limits leave out: the headers are read once more.
fn lengths(settings: &TrainSettings, folder: &DatasetFolder) -> Option<ClipLengths> {
    let limits = Limits {
        audio: settings.data.audio.clone(),
        ..Limits::default()
    };
    let dataset = folder.open(&limits, settings.data.val_fraction).ok()?;
    let clips = dataset.manifest.clips.iter();
    let frames = clips
        .clone()
        .map(|clip| settings.data.audio.frames_for_header(&clip.header));
    let [mut frames, mut characters]: [Vec<usize>; 2] = [
        frames.collect(),
        clips.map(|clip| clip.text.chars().count()).collect(),
    ];
    frames.sort_unstable();
    characters.sort_unstable();
    let last = frames.len().checked_sub(1)?;
    // The nearest rank: a length that a clip has.
    let usual = (99 * frames.len()).div_ceil(100).max(1) - 1;
    let at = |place: usize| {
        let [frames, characters] = [frames[place], characters[place]];
        Length {
            frames: u32::try_from(frames).unwrap_or(u32::MAX),
            characters: u32::try_from(characters).unwrap_or(u32::MAX),
        }
    };
    Some(ClipLengths {
        longest: at(last),
        usual: at(usual),
    })
}
