//! What the settings and the plan say of a run: the trainer's options, and the facts in its log.

use std::collections::BTreeMap;
use std::time::Instant;

use serde_json::{Map, Value};
use voxmill_analysis::run::fact;
use voxmill_data::Loader;
use voxmill_data::manifest::Split;
use voxmill_telemetry::facts::{BucketFacts, DatasetFacts, LengthCount, RecordedSetting};
use voxmill_trainer::device::Precision;
use voxmill_trainer::optimizer::AdamW;
use voxmill_trainer::schedule::Schedule;
use voxmill_trainer::train::{RunLimits, TrainOptions};

use voxmill_telemetry::probes::{cores, machine_cores, processor};

use super::{RunPlan, Session};
use voxmill_settings::{ResolvedSetting, TrainSettings, run_folder};

/// Every setting as it is shown, for the checkpoint.
pub(crate) fn values(shown: &[ResolvedSetting]) -> Value {
    let values = shown
        .iter()
        .map(|line| (line.key.name.to_owned(), Value::from(line.value.clone())));
    Value::Object(values.collect::<Map<_, _>>())
}

/// The trainer's numbers. A limit in epochs becomes one in steps, so that the learning rate knows
/// how far the run is.
pub(crate) fn options(
    settings: &TrainSettings,
    batches: &Loader,
    validates: bool,
    precision: Precision,
) -> TrainOptions {
    let o = &settings.optimization;
    let accumulate = o.gradient_accumulation_steps.get() as usize;
    let steps_of =
        |epochs: u64| (epochs * batches.plan().batches_per_epoch()).div_ceil(accumulate as u64);
    let of_epochs = settings.stop_at.epochs.map(steps_of);
    let steps = settings.stop_at.steps.into_iter().chain(of_epochs).min();
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
            decay: o.decay,
        },
        limits: RunLimits {
            steps,
            seconds: settings.stop_at.minutes.map(|minutes| minutes * 60.0),
        },
        accumulate,
        log_every: settings.log_every.get(),
        checkpoint_every: Some(settings.checkpoints.every.get()),
        validate_every: (settings.evaluation.filter(|_| validates)).map(|e| e.every.get()),
        sample_every: settings.sample_every.map(|every| every.get()),
        patience: settings.evaluation.and_then(|e| e.patience),
        max_bad_steps: settings.max_bad_steps,
        max_failed_checkpoints: settings.checkpoints.max_failed.get(),
        recompute: settings.gradient_checkpointing,
        precision,
        prepare_on: settings.devices.prepare_on,
        as_settled: false,
    }
}

/// What a report wants to know of the run, by the names that the analysis looks for.
pub(crate) fn facts(
    session: &Session,
    run_plan: &RunPlan,
    parameters: usize,
    began: Instant,
) -> BTreeMap<String, String> {
    let Session {
        settings, store, ..
    } = session;
    let batches = &run_plan.loader;
    let (feeding, devices) = (&settings.feeding, settings.devices.devices);
    let plan = batches.plan();
    let audio = &settings.data.audio;
    let mode = if devices.is_pair() {
        "two devices"
    } else {
        "one device"
    };
    let cache = match (store.found_in_cache(), session.data.to_cache(store)) {
        _ if !feeding.caching => "off",
        (0, _) => "cold",
        (found, all) if found == all => "warm",
        _ => "partly warm",
    };
    let is_fixed = plan.settings().pad_to_fixed_length;
    let padding = if is_fixed { "fixed" } else { "shapes" };
    let overlap = if feeding.overlap { "on" } else { "off" };
    let hop_seconds = audio.hop_length as f64 / f64::from(audio.sample_rate);
    let before = began.elapsed().as_secs_f64();
    let limits = session.options(run_plan, false).limits;
    let mut facts = vec![
        (fact::MODEL_SIZE, settings.model_size.name().to_owned()),
        (fact::WEIGHTS, parameters.to_string()),
        (fact::BATCH_SIZE, plan.settings().batch_size.to_string()),
        (fact::CLIPS, plan.clips().len().to_string()),
        (fact::DEVICE, devices.model().to_string()),
        (fact::DATA_DEVICE, devices.data().to_string()),
        (fact::MODE, mode.to_owned()),
        (fact::CORES, cores().to_string()),
        (fact::WORKERS, feeding.workers.to_string()),
        (fact::COMPUTE_THREADS, settings.compute_threads.to_string()),
        (fact::BUFFER, feeding.buffered_batches.to_string()),
        (fact::SLOTS, batches.slots_ahead().to_string()),
        (fact::CACHE, cache.to_owned()),
        (fact::PADDING, padding.to_owned()),
        (fact::OVERLAP, overlap.to_owned()),
        (fact::HOP_SECONDS, hop_seconds.to_string()),
        (
            fact::PREPARE_ON,
            settings.devices.prepare_on.name().to_owned(),
        ),
        (fact::SECONDS_BEFORE, before.to_string()),
        (fact::PRECISION, session.precision.describe().to_owned()),
    ];
    if let Some(delays) = feeding.delays {
        facts.push((fact::INJECTED, format!("{delays:?}")));
    }
    if let Some(path) = settings.start.init_from() {
        facts.push((fact::INIT_FROM, path.display().to_string()));
    }
    facts.extend(
        limits
            .steps
            .map(|steps| (fact::LAST_STEP, steps.to_string())),
    );
    facts.extend(
        limits
            .seconds
            .map(|most| (fact::MOST_SECONDS, most.to_string())),
    );
    facts.extend(machine_cores().map(|cores| (fact::MACHINE_CORES, cores.to_string())));
    facts.extend(processor().map(|name| (fact::PROCESSOR, name)));
    let facts = facts.into_iter();
    facts
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}

/// For a report that is made from the log alone.
pub(crate) fn recorded(shown: &[ResolvedSetting]) -> Vec<RecordedSetting> {
    let recorded = |line: &ResolvedSetting| RecordedSetting {
        section: line.key.section.name().to_owned(),
        name: line.key.name.to_owned(),
        value: line.value.clone(),
        origin: line.origin.to_string(),
        given: run_folder::given_in_a_file(line),
    };
    shown.iter().map(recorded).collect()
}

/// Lengths are counted in as many groups of equal width.
const LENGTH_GROUPS: usize = 20;

/// What a run is trained on.
pub(crate) fn dataset(session: &Session, plan: &RunPlan) -> DatasetFacts {
    let batches = plan.loader.plan();
    let audio = &session.settings.data.audio;
    let seconds =
        |frames: u32| f64::from(frames) * audio.hop_length as f64 / f64::from(audio.sample_rate);
    let longest = batches.clips().iter().map(|clip| clip.frames).max();
    let longest = longest.unwrap_or(0).max(1);
    let width = longest.div_ceil(LENGTH_GROUPS as u32).max(1);
    let mut lengths: Vec<LengthCount> = (1..=longest.div_ceil(width))
        .map(|group| LengthCount {
            seconds: seconds(group * width),
            count: 0,
        })
        .collect();
    for clip in batches.clips() {
        let group = clip.frames.max(1).div_ceil(width) as usize - 1;
        lengths[group].count += 1;
    }
    let buckets = batches.buckets().iter().map(|bucket| BucketFacts {
        shape: bucket.shape,
        clips: bucket.clips.len() as u64,
        batches: bucket.batches(),
    });
    let filtered = &session.data.train.filtered;
    let filtered = [
        ("audio too long", filtered.audio_too_long),
        ("audio too short", filtered.audio_too_short),
        ("text too long", filtered.text_too_long),
    ];
    let quarantine = session.bad.counts().into_iter();
    DatasetFacts {
        rows: session.data.rows as u64,
        clips: batches.clips().len() as u64,
        validation: session.data.held_out().clips_of(Split::Validation).count() as u64,
        lengths,
        buckets: buckets.collect(),
        quarantine: quarantine
            .map(|(reason, count)| (reason.as_str().to_owned(), count as u64))
            .collect(),
        filtered: (filtered.into_iter().filter(|(_, count)| *count > 0))
            .map(|(reason, count)| (reason.to_owned(), count as u64))
            .collect(),
    }
}
