//! What a run begins with: its numbers for the trainer, and what the person is told.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

use serde_json::{Map, Value};
use voxmill_analysis::run::fact;
use voxmill_telemetry::probes::topology::Link;
use voxmill_telemetry::probes::{Roots, usable_memory};
use voxmill_trainer::checkpoint::Progress;
use voxmill_trainer::device::{Backend, DeviceId, Precision};
use voxmill_trainer::model;
use voxmill_trainer::optimizer::AdamW;
use voxmill_trainer::schedule::{Decay, Schedule};
use voxmill_trainer::train::{Limits, TrainOptions};

use super::data::{Data, feed_settings};
use super::memory::megabytes;
use crate::checks::{self, Level, Needs};
use crate::commands::tell;
use crate::config::keys;
use crate::config::value::show_bytes;
use crate::feed::train::{BatchFeed, Shelf};
use crate::settings::{self, ModelSize, Shown, TrainSettings};

pub(super) fn size(size: ModelSize) -> model::ModelSize {
    size.of_model()
}

/// The same as a setting.
pub(super) fn setting(size: model::ModelSize) -> ModelSize {
    match size {
        model::ModelSize::Nano => ModelSize::Nano,
        model::ModelSize::Tiny => ModelSize::Tiny,
        model::ModelSize::Small => ModelSize::Small,
        model::ModelSize::Base => ModelSize::Base,
        model::ModelSize::Big => ModelSize::Big,
    }
}

/// Every setting as it is shown, for the checkpoint.
pub(super) fn values(shown: &[Shown]) -> Value {
    let values = shown
        .iter()
        .map(|line| (line.key.name.to_owned(), Value::from(line.value.clone())));
    Value::Object(values.collect::<Map<_, _>>())
}

/// The trainer's numbers. A limit in epochs becomes one in steps, so that the learning rate knows
/// how far the run is.
pub(in crate::commands) fn options(
    settings: &TrainSettings,
    batches: &BatchFeed,
    validates: bool,
    precision: Precision,
) -> TrainOptions {
    let o = &settings.optimization;
    let accumulate = o.gradient_accumulation_steps.get() as usize;
    let of_epochs = settings
        .stop_at
        .epochs
        .map(|epochs| (epochs * batches.plan().batches_per_epoch()).div_ceil(accumulate as u64));
    let steps = match (settings.stop_at.steps, of_epochs) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    };
    TrainOptions {
        seed: settings.data.batches.seed,
        optimizer: AdamW {
            beta_1: o.beta_1 as f32,
            beta_2: o.beta_2 as f32,
            weight_decay: o.weight_decay as f32,
            clip_norm: o.gradient_clip_norm as f32,
            ema_decay: o.ema_decay.unwrap_or(0.0) as f32,
        },
        schedule: Schedule {
            peak: o.peak_learning_rate,
            warmup_steps: o.warmup_steps,
            decay: match o.schedule {
                settings::Schedule::Constant => Decay::Constant,
                settings::Schedule::Cosine { floor } => Decay::Cosine { to: floor },
                settings::Schedule::CosineRestarts { cycles, floor } => {
                    Decay::Restarts { to: floor, cycles }
                }
            },
        },
        limits: Limits {
            steps,
            seconds: settings.stop_at.minutes.map(|minutes| minutes * 60.0),
        },
        accumulate,
        log_every: settings.log_every.get(),
        checkpoint_every: Some(settings.checkpoints.every.get()),
        validate_every: settings
            .evaluation
            .filter(|_| validates)
            .map(|e| e.every.get()),
        sample_every: settings.sample_every.map(|every| every.get()),
        patience: settings.evaluation.and_then(|e| e.patience),
        max_bad_steps: settings.max_bad_steps,
        recompute: settings.gradient_checkpointing,
        precision,
        prepare_on: settings.devices.prepare_on,
    }
}

/// What a report wants to know of the run, by the names that the analysis looks for.
pub(in crate::commands) fn facts(
    settings: &TrainSettings,
    precision: Precision,
    batches: &BatchFeed,
    shelf: &Shelf,
    parameters: usize,
    began: Instant,
) -> BTreeMap<String, String> {
    let (feeding, devices) = (&settings.feeding, settings.devices.devices);
    let plan = batches.plan();
    let audio = &settings.data.audio;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let mode = if devices.is_pair() {
        "two devices"
    } else {
        "one device"
    };
    let cache = match (shelf.found_in_cache(), shelf.clips().len()) {
        _ if !feeding.caching => "off",
        (0, _) => "cold",
        (found, all) if found == all => "warm",
        _ => "partly warm",
    };
    let padding = if plan.settings().pad_to_fixed_length {
        "fixed"
    } else {
        "shapes"
    };
    let mut facts = vec![
        (fact::MODEL_SIZE, settings.model_size.name().to_owned()),
        (fact::WEIGHTS, parameters.to_string()),
        (fact::BATCH_SIZE, plan.settings().batch_size.to_string()),
        (fact::CLIPS, plan.clips().len().to_string()),
        (fact::DEVICE, devices.model().to_string()),
        (fact::DATA_DEVICE, devices.data().to_string()),
        (fact::MODE, mode.to_owned()),
        (fact::CORES, cores.to_string()),
        (fact::WORKERS, feeding.workers.to_string()),
        (fact::COMPUTE_THREADS, settings.compute_threads.to_string()),
        (fact::BUFFER, feeding.buffered_batches.to_string()),
        (fact::SLOTS, batches.slots_ahead().to_string()),
        (fact::CACHE, cache.to_owned()),
        (fact::PADDING, padding.to_owned()),
        (
            fact::OVERLAP,
            if feeding.overlap { "on" } else { "off" }.to_owned(),
        ),
        (
            fact::HOP_SECONDS,
            (audio.hop_length as f64 / f64::from(audio.sample_rate)).to_string(),
        ),
        (
            fact::PREPARE_ON,
            format!("{:?}", settings.devices.prepare_on).to_lowercase(),
        ),
        (
            fact::SECONDS_BEFORE,
            began.elapsed().as_secs_f64().to_string(),
        ),
        (fact::PRECISION, precision.describe().to_owned()),
    ];
    facts.extend(machine_cores().map(|cores| (fact::MACHINE_CORES, cores.to_string())));
    facts
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}

/// All of them, whether this process may use them or not.
fn machine_cores() -> Option<usize> {
    let info = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let cores = info.lines().filter(|line| line.starts_with("processor"));
    Some(cores.count()).filter(|cores| *cores > 0)
}

/// The lines before the first step.
pub(super) struct Told<'a> {
    pub(super) settings: &'a TrainSettings,
    pub(super) run: &'a Path,
    pub(super) data: &'a Data,
    pub(super) batches: &'a BatchFeed,
    pub(super) shelf: &'a Shelf,
    pub(super) parameters: usize,
    pub(super) needs: &'a Needs,
    pub(super) precision: Precision,
    /// How the two devices are linked, where that is known.
    pub(super) link: Option<Link>,
    /// Where frames are made and why, where there was a choice.
    pub(super) place: Option<String>,
    pub(super) held_out: Option<&'a BatchFeed>,
    pub(super) progress: &'a Progress,
}

impl Told<'_> {
    pub(super) fn tell(&self) {
        let settings = self.settings;
        let feeding = &settings.feeding;
        let plan = self.batches.plan();
        let begins = match self.progress.step {
            0 => "new".to_owned(),
            step => format!("goes on after step {step}"),
        };
        tell(&format!("run       {} ({begins})", self.run.display()));
        for line in self.mode() {
            tell(&line);
        }
        tell(&format!(
            "model     {}, {:.1} million weights",
            settings.model_size.name(),
            self.parameters as f64 / 1e6
        ));
        let held_out = self.held_out.map_or(0, |feed| feed.plan().clips().len());
        let speakers = self.data.train.speakers.len();
        tell(&format!(
            "data      {} clips to train on, {held_out} held out, {speakers} {}; {} batches an epoch in {} shapes",
            plan.clips().len(),
            if speakers == 1 { "speaker" } else { "speakers" },
            plan.batches_per_epoch(),
            plan.buckets().len(),
        ));
        tell(&format!(
            "feeding   {} {}, {} batches ahead on the host, {} for the device, at most {}{}",
            feeding.workers,
            if feeding.workers == 1 {
                "worker"
            } else {
                "workers"
            },
            feeding.buffered_batches,
            self.needs.slots_ahead(),
            show_bytes(feeding.ram_budget),
            if feeding.overlap {
                ""
            } else {
                "; one after another (--no-overlap)"
            },
        ));
        let (bad, filtered) = (
            self.data.train.quarantine.len(),
            self.data.train.filtered.total(),
        );
        if bad + filtered > 0 {
            tell(&format!(
                "left out  {bad} bad clips (quarantine.csv in the run's folder), {filtered} too long or too short"
            ));
        }
        if self.progress.step > 0 && self.settings.stop_at.minutes.is_some() {
            tell(
                "note: with a limit in time the learning rate follows the clock: the losses are not exactly those of \
                 a run that was never stopped",
            );
        }
        let (found, clips) = (self.shelf.found_in_cache(), self.shelf.clips().len());
        let cache = match (feeding.caching, found) {
            (false, _) => "off".to_owned(),
            (true, found) if found == clips => format!("warm: all {clips} clips"),
            (true, 0) => {
                "empty: the first epoch makes the features as it goes and keeps them".to_owned()
            }
            (true, found) => format!("{found} of {clips} clips; the rest is made as it is needed"),
        };
        tell(&format!("cache     {cache}"));
        for warning in self.warnings() {
            tell(&format!("warning: {warning}"));
        }
    }

    /// Who prepares, who trains, and what lies between them.
    fn mode(&self) -> Vec<String> {
        let settings = self.settings;
        let devices = settings.devices.devices;
        let threads = settings.compute_threads;
        let threads = format!("{threads} compute {}", plural(threads, "thread"));
        let precision = self.precision.describe();
        let (data, model) = (devices.data(), devices.model());
        if !devices.is_pair() {
            let mut lines = vec![format!(
                "mode      single device, buffered: {model}, {threads}, {precision}"
            )];
            lines.extend(self.memory());
            return lines;
        }
        let lane = settings.feeding.lane_threads;
        let prepares = match data.is_cpu() {
            true => format!("{data} ({lane} {})", plural(lane, "thread")),
            false => data.to_string(),
        };
        let path = match (data.is_cpu(), model.is_cpu()) {
            (true, true) => "a copy in memory",
            (true, false) => "from host memory",
            (false, true) => "to host memory",
            // The library moves tensors between two devices of one backend by itself where it can;
            // wgpu has no way to.
            (false, false) if data.backend == model.backend && !is_wgpu(model) => {
                "from GPU to GPU where the driver can, else through host memory"
            }
            (false, false) => "through host memory",
        };
        let mut lines = vec![
            format!(
                "mode      two devices: {prepares} prepares, {model} trains ({threads}), {precision}"
            ),
            format!(
                "between   {} slots, transfers {path}{}",
                self.needs.slots_ahead(),
                match self.link {
                    Some(link) => format!("; they are linked {}", link.describe()),
                    None => String::new(),
                }
            ),
        ];
        lines.extend(self.place.clone());
        lines.extend(self.memory());
        lines
    }

    /// What the run will take of the devices, and what it may.
    fn memory(&self) -> Option<String> {
        let settings = self.settings;
        let devices = settings.devices.devices;
        if devices.model().is_cpu() && !devices.is_pair() {
            return None;
        }
        let may = |limit: Option<u64>| match limit {
            Some(limit) => format!(" of at most {}", show_bytes(limit)),
            None => String::new(),
        };
        let limits = settings.devices.limits;
        let mut line = format!(
            "memory    {} on {}{}",
            megabytes(self.needs.model.with_slots(self.needs.slots)),
            devices.model(),
            may(limits.model)
        );
        if devices.is_pair() {
            line += &format!(
                ", {} on {}{}",
                megabytes(self.needs.data),
                devices.data(),
                may(limits.data)
            );
        }
        line += ", by calculation";
        if devices.are_lanes() {
            line += "; the CPU tells of no pools to watch";
        }
        Some(line)
    }

    /// What is plainly off, by the checks of `validate`: what headers and the plan tell, no disk.
    fn warnings(&self) -> Vec<String> {
        let settings = self.settings;
        let plan = self.batches.plan();
        let facts = checks::Facts {
            settings,
            file: false,
            cores: settings::cores(),
            memory: usable_memory(&Roots::default()),
            cards: &[],
            model_card: None,
            data_card: None,
            data: Some(checks::DataFacts {
                plan,
                rows: self.data.rows,
                bad: self.data.train.quarantine.len(),
                filtered: self.data.train.filtered,
                longest: None,
                held_out: self.held_out.map_or(0, |feed| feed.plan().clips().len()),
                audio_seconds: self.batches.audio_seconds(),
                making: self.batches.most_bytes(),
                batch_budget: feed_settings(settings).ram_budget,
                needs: self.needs.clone(),
            }),
            disk: None,
        };
        let found = checks::check(&facts).into_iter();
        // How many clips are left out has a line of its own.
        let told_already = |check: &checks::Check| check.key == Some(&keys::TRAIN_DATA);
        found
            .filter(|check| check.level <= Level::Warning && !told_already(check))
            .map(|check| check.line())
            .collect()
    }
}

fn plural(count: usize, one: &str) -> String {
    match count {
        1 => one.to_owned(),
        _ => format!("{one}s"),
    }
}

fn is_wgpu(id: DeviceId) -> bool {
    matches!(id.backend, Backend::Wgpu | Backend::Vulkan | Backend::Metal)
}
