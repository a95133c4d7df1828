//! Runs compared with the first of them: what differs, by how much, and whether that is more than noise.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use voxmill_telemetry::device::DeviceLabel;
use voxmill_telemetry::event::{Outcome, Step};

use crate::resampling::{
    Change, ENOUGH_OF_A_SHAPE, StepSums, difference, mean_of_pairs, ratio, variation_difference,
};
use crate::run::{Run, fact};
use crate::timing::{
    Shapes, Spread, by_shape, frame_time_ratio, matched_ratio, mean, step_time, valid_frames,
    variation, without_warm_up,
};

/// Grows when a reader of the JSON would misread it.
pub const COMPARISON_VERSION: u32 = 1;

/// A run and what its log does not have.
#[derive(Clone, Debug)]
pub struct Candidate {
    pub name: String,
    pub run: Run,
    /// A process writes its log now.
    pub in_progress: bool,
    /// `None` where they are not kept.
    pub settings: Option<BTreeMap<String, String>>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Comparison {
    #[schemars(extend("const" = COMPARISON_VERSION))]
    pub version: u32,
    /// The first is what the others are compared with.
    pub runs: Vec<Side>,
    pub against_first: Vec<Against>,
    /// Settings and facts that are not the same in all runs.
    pub differing: Vec<Differing>,
    /// A share; a run whose step time is worse by more than that fails.
    pub fail_above: Option<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RunState {
    Finished,
    Interrupted,
    Failed,
    InProgress,
    /// The log ends without an end.
    Killed,
}

/// One run by itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Side {
    pub name: String,
    pub state: RunState,
    pub starts: usize,
    pub steps: u64,
    pub last_step: u64,
    /// Not in what is measured below: they pay for what is done once.
    pub warm_up_steps: u64,
    /// All starts, with all that is done before, between and after steps.
    pub total_seconds: f64,
    /// The lowest mel error on the held-out clips, and its step.
    #[serde(default)]
    pub best_held_out_mel: Option<(u64, f64)>,
    pub step_ms: Spread,
    pub frames_per_second: f64,
    pub busy: f64,
    pub stall: f64,
    /// `None`: too few steps of one shape.
    pub variation: Option<f64>,
    /// Bytes at most.
    pub process_memory: Option<u64>,
    pub device_memory: BTreeMap<DeviceLabel, u64>,
    /// The share of the machine's cores that other programs took, where the number of cores is known.
    pub others: Option<f64>,
    pub settings_known: bool,
    /// Events that are missing, and lines that could not be read.
    pub lost: u64,
}

/// A later run against the first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Against {
    pub run: String,
    pub steps_matched: Matched,
    pub differences: Vec<Difference>,
    pub loss: Option<Loss>,
    /// `None` where the two were not validated at a step in common.
    #[serde(default)]
    pub held_out: Option<HeldOut>,
    /// With a limit: whether the step time is within it.
    pub verdict: Option<Verdict>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Matched {
    /// Steps were compared with steps of the same shape.
    ByShape,
    /// Too few steps have shapes that both runs did often enough: times for each padded frame were compared.
    ByFrame,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    StepTime,
    Throughput,
    Busy,
    Stall,
    Variation,
}

impl Measure {
    fn more_is_better(self) -> bool {
        matches!(self, Measure::Throughput | Measure::Busy)
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Difference {
    pub measure: Measure,
    /// `None` where it could not be measured.
    pub change: Option<Change>,
    #[serde(rename = "told")]
    pub judgement: Judgement,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Judgement {
    Better,
    Worse,
    /// The interval contains no change, or it is too small to be shown.
    NoDifference,
    /// Also where there are too few steps to tell a difference from chance.
    NotMeasured,
}

/// At steps that both runs did.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Loss {
    pub common_steps: u64,
    /// Every one of them: the runs computed the same.
    pub same_to_the_last_bit: bool,
    /// Losses on different clips say nothing about which run is better. `None` where it is not known.
    #[serde(default)]
    pub same_dataset: Option<bool>,
    /// Whether as many frames were trained on, to within a tenth.
    pub same_amount_of_data: bool,
    /// The last one is the last common step.
    pub at: Vec<LossAt>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LossAt {
    pub step: u64,
    /// How many steps up to this one are averaged.
    pub averaged: u64,
    pub first: f64,
    pub this: f64,
    pub change: Change,
    #[serde(rename = "told")]
    pub judgement: Judgement,
}

/// The mel error on the held-out clips, at the last step at which both were validated. One number each: how much is
/// noise cannot be known.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HeldOut {
    pub step: u64,
    pub first: f64,
    pub this: f64,
    /// Other clips give another error. `None` where it is not known.
    pub same_clips: Option<bool>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    Within,
    /// Worse by more than the limit, but the interval reaches below it.
    Uncertain,
    /// Worse by more than the limit, the whole interval.
    Worse,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Differing {
    pub name: String,
    /// One for each run; `None` where the run did not record it.
    pub values: Vec<Option<String>>,
}

impl Comparison {
    /// Whether a run is worse than the first, by as much as was asked about.
    pub fn failed(&self) -> bool {
        let mut later = self.against_first.iter();
        later.any(|against| against.verdict == Some(Verdict::Worse))
    }
}

/// Compares all later runs with the first. Each run must have steps.
pub fn compare(runs: &[Candidate], fail_above: Option<f64>) -> Comparison {
    let warm = runs.iter().map(|run| without_warm_up(&run.run.steps));
    let warm: Vec<Vec<Step>> = warm.collect();
    let sides = runs.iter().zip(&warm);
    let against = |(candidate, steps): (&Candidate, &Vec<Step>)| {
        against(candidate, steps, &runs[0], &warm[0], fail_above)
    };
    Comparison {
        version: COMPARISON_VERSION,
        runs: sides.clone().map(|(run, warm)| side(run, warm)).collect(),
        against_first: sides.skip(1).map(against).collect(),
        differing: differing(runs),
        fail_above,
    }
}

fn side(candidate: &Candidate, warm: &[Step]) -> Side {
    let run = &candidate.run;
    let sums = StepSums::all(warm);
    let stats = &run.stats;
    // The library's own pools where it reports them, else what the driver reports.
    let pools = stats.device_memory.iter();
    let pools = pools.map(|(device, memory)| (device.clone(), memory.peak));
    let driver = stats.devices.iter().filter_map(|(name, device)| {
        let peak = device.memory_used.peak()?;
        Some((name.clone(), peak as u64))
    });
    Side {
        name: candidate.name.clone(),
        state: match run.outcome() {
            Some(Outcome::Finished) => RunState::Finished,
            Some(Outcome::Interrupted) => RunState::Interrupted,
            Some(Outcome::Failed) => RunState::Failed,
            None if candidate.in_progress => RunState::InProgress,
            None => RunState::Killed,
        },
        starts: run.starts,
        steps: run.steps.len() as u64,
        last_step: run.steps.last().map_or(0, |step| step.step),
        warm_up_steps: (run.steps.len() - warm.len()) as u64,
        total_seconds: run.run_time().seconds(),
        best_held_out_mel: run.best_validation(),
        step_ms: Spread::of(warm.iter().map(step_time)),
        frames_per_second: or_zero(sums.frames_per_second()),
        busy: or_zero(sums.busy()),
        stall: or_zero(sums.stall()),
        variation: variation(warm),
        process_memory: stats.host.process_memory.peak().map(|bytes| bytes as u64),
        device_memory: driver.chain(pools).collect(),
        others: run.others(),
        settings_known: candidate.settings.is_some(),
        lost: stats.lost + run.flaws.damaged,
    }
}

fn or_zero(value: f64) -> f64 {
    if value.is_finite() { value } else { 0.0 }
}

fn against(
    candidate: &Candidate,
    steps: &[Step],
    first: &Candidate,
    base: &[Step],
    fail_above: Option<f64>,
) -> Against {
    let (steps_matched, step_time) = step_time_change(steps, base);
    let throughput = ratio(steps, base, StepSums::frames_per_second).map(Change::from);
    let changes = [
        (Measure::StepTime, step_time),
        (Measure::Throughput, throughput),
        (Measure::Busy, difference(steps, base, StepSums::busy)),
        (Measure::Stall, difference(steps, base, StepSums::stall)),
        (Measure::Variation, variation_difference(steps, base)),
    ];
    let enough = steps.len().min(base.len()) >= LEAST_STEPS;
    let changes = changes.map(|(measure, change)| (measure, change.filter(|_| enough)));
    let step_time = changes[0].1;
    let differences = changes.map(|(measure, change)| Difference {
        measure,
        change,
        judgement: change.map_or(Judgement::NotMeasured, |change| {
            judge(change, measure.more_is_better())
        }),
    });
    Against {
        run: candidate.name.clone(),
        steps_matched,
        differences: differences.into(),
        loss: loss(
            &candidate.run.steps,
            &first.run.steps,
            same_dataset(candidate, first),
        ),
        held_out: held_out(candidate, first),
        verdict: fail_above
            .zip(step_time)
            .map(|(limit, change)| verdict(change, limit)),
    }
}

/// Of fewer steps no interval can be trusted, of times or of losses.
pub const LEAST_STEPS: usize = 5;

/// Like with like: shape by shape, where most steps of both runs have shapes that both did often. A shape that
/// came once shows no noise: its chance would count as certain.
fn step_time_change(steps: &[Step], base: &[Step]) -> (Matched, Option<Change>) {
    let (ours, theirs) = (by_shape(steps), by_shape(base));
    let comes_often = |shapes: &Shapes, step: &Step| {
        let times = shapes.get(&step.shape);
        times.is_some_and(|times| times.len() >= ENOUGH_OF_A_SHAPE)
    };
    let often = |steps: &[Step]| -> Vec<Step> {
        let often = |step: &&Step| comes_often(&ours, step) && comes_often(&theirs, step);
        steps.iter().filter(often).cloned().collect()
    };
    let (our_often, their_often) = (often(steps), often(base));
    let mostly = 2 * our_often.len() >= steps.len() && 2 * their_often.len() >= base.len();
    let by_shape = mostly.then(|| matched_ratio(&our_often, &their_often));
    let (matched, ratio, fewest) = match by_shape.flatten() {
        Some(ratio) => (
            Matched::ByShape,
            Some(ratio),
            our_often.len().min(their_often.len()),
        ),
        None => (
            Matched::ByFrame,
            frame_time_ratio(steps, base),
            steps.len().min(base.len()),
        ),
    };
    let change = ratio.map(Change::from);
    (
        matched,
        change.map(|change| widened_for_few(change, fewest)),
    )
}

/// Resamples of few steps lie too near to each other: by about the factor by which Student's distribution is
/// wider than the normal one.
fn widened_for_few(change: Change, steps: usize) -> Change {
    let steps = steps.max(LEAST_STEPS) as f64;
    let factor = (steps / (steps - 3.0)).sqrt();
    let wider = |end: f64| change.value + factor * (end - change.value);
    Change {
        value: change.value,
        low: wider(change.low),
        high: wider(change.high),
    }
}

/// A tenth of a per cent, or of a point: less is shown as nothing.
const SMALLEST_SHOWN: f64 = 0.001;

fn judge(change: Change, more_is_better: bool) -> Judgement {
    if !change.is_beyond_noise() || change.value.abs() < SMALLEST_SHOWN {
        return Judgement::NoDifference;
    }
    match (change.value > 0.0) == more_is_better {
        true => Judgement::Better,
        false => Judgement::Worse,
    }
}

fn verdict(step_time: Change, limit: f64) -> Verdict {
    if step_time.value <= limit {
        Verdict::Within
    } else if step_time.low <= limit {
        Verdict::Uncertain
    } else {
        Verdict::Worse
    }
}

/// The most steps that are averaged into one loss.
const WIDEST: usize = 20;

/// By the folder, where both kept it, and by the number of clips.
fn same_dataset(one: &Candidate, other: &Candidate) -> Option<bool> {
    let both = |of: &dyn Fn(&Candidate) -> Option<String>| Some(of(one)? == of(other)?);
    let setting =
        |name: &'static str| move |run: &Candidate| run.settings.as_ref()?.get(name).cloned();
    let known = [
        both(&setting("train_data")),
        both(&|run| run.run.fact(fact::CLIPS).map(str::to_owned)),
    ];
    match known.contains(&Some(false)) {
        true => Some(false),
        false => known.into_iter().flatten().next(),
    }
}

/// What decides which clips are held out, besides the dataset.
const HELD_OUT_BY: [&str; 3] = ["val_data", "val_fraction", "seed"];

fn held_out(this: &Candidate, first: &Candidate) -> Option<HeldOut> {
    let mel = |run: &Candidate, step: &u64| {
        let mel = *run.run.validations.get(step)?.losses.get("mel")?;
        mel.is_finite().then_some(mel)
    };
    let mut steps = this.run.validations.keys().rev();
    let found = steps.find_map(|step| Some((*step, mel(first, step)?, mel(this, step)?)));
    let (step, first_mel, this_mel) = found?;
    let settings = this.settings.as_ref().zip(first.settings.as_ref());
    let same = settings.map(|(a, b)| HELD_OUT_BY.iter().all(|key| a.get(*key) == b.get(*key)));
    Some(HeldOut {
        step,
        first: first_mel,
        this: this_mel,
        same_clips: match (same_dataset(this, first), same) {
            (Some(false), _) | (_, Some(false)) => Some(false),
            (Some(true), Some(true)) => Some(true),
            _ => None,
        },
    })
}

fn loss(steps: &[Step], base: &[Step], same_dataset: Option<bool>) -> Option<Loss> {
    let of = |step: &Step| step.values.get("loss").copied();
    let theirs: BTreeMap<u64, &Step> = base.iter().map(|step| (step.step, step)).collect();
    let both: Vec<(u64, f64, f64)> = steps
        .iter()
        .filter_map(|step| Some((step.step, of(theirs.get(&step.step)?)?, of(step)?)))
        .collect();
    let (last, ..) = *both.last()?;
    let frames = |steps: &[Step]| -> f64 {
        let done = steps.iter().filter(|step| step.step <= last);
        done.map(valid_frames).sum()
    };
    let data = frames(steps) / frames(base);
    let mut finite = both.clone();
    finite.retain(|(_, first, this)| first.is_finite() && this.is_finite());
    let count = finite.len();
    let width = (count / 8).clamp(LEAST_STEPS, WIDEST);
    // The quarters of what they have in common; of very few steps some fall together.
    let ends: BTreeSet<usize> = (1..=4).map(|n| n * count / 4).filter(|n| *n > 0).collect();
    Some(Loss {
        common_steps: both.len() as u64,
        same_to_the_last_bit: both.iter().all(|(_, a, b)| a.to_bits() == b.to_bits()),
        same_dataset,
        same_amount_of_data: data.is_nan() || (data - 1.0).abs() <= 0.1,
        at: ends
            .into_iter()
            .filter_map(|end| loss_at(&finite[end.saturating_sub(width)..end]))
            .map(|at| match same_dataset {
                Some(false) => LossAt {
                    judgement: Judgement::NotMeasured,
                    ..at
                },
                _ => at,
            })
            .collect(),
    })
}

fn loss_at(window: &[(u64, f64, f64)]) -> Option<LossAt> {
    let each = |of: fn(&(u64, f64, f64)) -> f64| -> Vec<f64> { window.iter().map(of).collect() };
    // In pairs: with the same seed both runs saw the same clips at a step.
    let change = mean_of_pairs(&each(|(_, first, this)| this - first))?;
    let first = mean(&each(|(_, first, _)| *first));
    let slight = change.value.abs() < SMALLEST_SHOWN * first.abs();
    let same = window.iter().all(|(_, first, this)| first == this);
    Some(LossAt {
        step: window.last()?.0,
        averaged: window.len() as u64,
        first,
        this: mean(&each(|(.., this)| *this)),
        change,
        judgement: match window.len() < LEAST_STEPS {
            _ if same => Judgement::NoDifference,
            true => Judgement::NotMeasured,
            false if slight => Judgement::NoDifference,
            false => judge(change, false),
        },
    })
}

/// Facts that a setting has too, by another name.
const SETTINGS_TOO: [&str; 8] = [
    fact::LAST_STEP,
    fact::MOST_SECONDS,
    fact::MODEL_SIZE,
    fact::WORKERS,
    fact::BUFFER,
    fact::SLOTS,
    fact::OVERLAP,
    fact::PADDING,
];

/// Where and under which name a run is written is no difference.
const PLACES: [&str; 4] = ["name", "run_dir", "checkpoint_dir", "tensorboard_log_dir"];

fn differing(runs: &[Candidate]) -> Vec<Differing> {
    let settings = runs.iter().map(|run| run.settings.clone());
    let facts = runs.iter().map(|run| {
        let started = run.run.stats.started.clone()?;
        let mut facts = started.facts;
        facts.insert("program".to_owned(), started.program);
        Some(facts)
    });
    let mut all = rows(settings);
    all.retain(|row| !PLACES.contains(&row.name.as_str()));
    // `batch size` of the facts is `batch_size` of the settings.
    let known: BTreeSet<String> = all.iter().map(|row| row.name.replace('_', " ")).collect();
    let all_known = runs.iter().all(|candidate| candidate.settings.is_some());
    all.extend(rows(facts).into_iter().filter(|row| {
        let name = row.name.as_str();
        let again = known.contains(name) || (all_known && SETTINGS_TOO.contains(&name));
        // It is a measure, and is in the total time.
        !again && name != fact::SECONDS_BEFORE
    }));
    all
}

fn rows(runs: impl Iterator<Item = Option<BTreeMap<String, String>>>) -> Vec<Differing> {
    let runs: Vec<BTreeMap<String, String>> = runs.map(Option::unwrap_or_default).collect();
    let names: BTreeSet<&String> = runs.iter().flat_map(BTreeMap::keys).collect();
    // A run that kept nothing at all differs in nothing that is known.
    let kept = || runs.iter().filter(|run| !run.is_empty());
    let differs = |name: &&String| {
        let values: BTreeSet<_> = kept().map(|run| run.get(*name)).collect();
        values.len() > 1
    };
    let row = |name: &String| Differing {
        name: name.clone(),
        values: runs.iter().map(|run| run.get(name).cloned()).collect(),
    };
    names.into_iter().filter(differs).map(row).collect()
}

#[cfg(test)]
mod tests;
