//! A run as a setup that can be simulated: what its log says of stages, batches and the model, and the replay that
//! shows whether it was understood.
//!
//! Times in a log are those of a machine that was shared: where workers and the model compute on the same cores, each
//! was slower than it is alone. So what each part computes is scaled until the replay, whose threads share the same
//! cores, takes as long for it as was measured. Parts that wait (a disk, a device of its own) are not scaled.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use voxmill_telemetry::event::{DecidedChange, Nanos, Step, Wait};
use voxmill_telemetry::plan::Plan;
use voxmill_telemetry::shape::StepShape;
use voxmill_telemetry::stage::StageId;

use super::engine::{Simulated, SimulatedStep, simulate};
use super::setup::{Consumer, Demand, Load, Setup, SimulationError, Stage, Training};
use super::times::{Times, draw};
use crate::profile::part_of_featurize;
use crate::run::{CPU, Run, fact, phase};
use crate::timing::{WARM_UP_STEPS, clips};

/// Fewer show too little of what a run is like.
pub const LEAST_STEPS: usize = 20;
/// Of the workers' time: above it, bytes were what they waited for, and a log does not have the sizes of items.
const BYTES_BIND: f64 = 0.02;
/// Of a long run, the last ones tell how it goes on; and a prediction takes no longer for more.
const MOST_STEPS: usize = 500;
/// Of those before them, as many as fill the buffers of most runs.
const LONG_WARM_UP: usize = 100;
/// Times of a stage that are kept apart.
const MOST_ITEMS: usize = 16_384;
/// How often what computes is scaled to what was measured.
const ROUNDS: usize = 6;
/// Replays that look for scales take as many steps at the most.
const ROUND_STEPS: usize = 200;

/// Why a log makes no model.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ModelError {
    #[error("the log has no plan of its stages")]
    NoPlan,
    #[error(
        "the log has {steps} steps of the run itself, and {LEAST_STEPS} are the fewest that say how it goes on"
    )]
    TooShort { steps: usize },
    #[error("the log has no times of the stage `{0}`")]
    NoTimes(String),
    #[error("the workers waited {:.0} % of their time for bytes of a budget, and the log does not have the sizes of items", 100.0 * .0)]
    BytesUnknown(f64),
    #[error(transparent)]
    Simulation(#[from] SimulationError),
}

impl ModelError {
    /// The next move.
    pub fn hint(&self) -> &'static str {
        match self {
            ModelError::NoPlan | ModelError::NoTimes(_) => {
                "give a run of `voxmill train` or `voxmill profile` of this version, whose data was prepared while it ran"
            }
            ModelError::TooShort { .. } => "let it run longer: voxmill profile --num-steps 60",
            ModelError::BytesUnknown(_) => {
                "give --ram-budget more (or leave it out), profile that, and ask again"
            }
            ModelError::Simulation(_) => "please report it with the run's events.jsonl",
        }
    }
}

/// A stage's times, and what they are made of.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct StageModel {
    pub(crate) times: Times,
    /// The times of items, by number; they come round again.
    drawn: Vec<f64>,
    /// How many were measured.
    items: usize,
    /// Shares of the time, by what it is spent on; they add up to 1.
    pub(crate) parts: Vec<Part>,
    /// By what computing is to be scaled: less than 1 where others took the cores.
    scale: f64,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Part {
    pub(crate) name: &'static str,
    pub(crate) share: f64,
    pub(crate) computes: bool,
    /// How much longer than measured it takes in a changed world.
    pub(crate) factor: f64,
}

impl Part {
    fn new(name: &'static str, share: f64, computes: bool) -> Part {
        Part {
            name,
            share,
            computes,
            factor: 1.0,
        }
    }
}

/// A batch as it was trained on.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Trained {
    service: f64,
    overhead: f64,
    rows: u64,
}

/// A run as it is simulated: its stages with their times, its buffers, its consumer.
#[derive(Clone, Debug)]
pub struct RunModel {
    pub(crate) setup: Setup,
    pub(crate) stages: Vec<StageModel>,
    /// In the order of the run; those to warm up first.
    trained: Vec<Trained>,
    warm_up: usize,
    /// Cores that the model keeps busy; 0 with a device of its own.
    threads: f64,
    model_scale: f64,
    pub(crate) model_factor: f64,
    seed: u64,
    /// Bytes of a batch in its slot.
    pub(crate) batch_bytes: u64,
    pub(crate) facts: Facts,
    pub measured: Pace,
}

/// What a change must know of the run.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Facts {
    pub(crate) on_cpu: bool,
    pub(crate) cores: Option<f64>,
    pub(crate) cache: String,
    /// Of the rows, those with a file that was decoded.
    pub(crate) decoded: f64,
    pub(crate) peak_bytes: u64,
    /// Other programs took cores, and none was free.
    pub(crate) crowded: bool,
}

/// Where the time of steps goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Pace {
    /// Milliseconds from asking for a batch to the end of its step.
    pub step_ms: f64,
    /// Shares of the model device's time; the rest lies between steps.
    pub busy: f64,
    pub stall: f64,
}

impl Pace {
    fn of(steps: impl Iterator<Item = [f64; 3]>) -> Pace {
        let (mut count, mut sums) = (0.0, [0.0; 3]);
        for step in steps {
            count += 1.0;
            for (sum, nanos) in sums.iter_mut().zip(step) {
                *sum += nanos;
            }
        }
        let [waited, service, overhead] = sums;
        let all = f64::max(waited + service + overhead, 1.0);
        Pace {
            step_ms: (waited + service) / f64::max(count, 1.0) / 1e6,
            busy: service / all,
            stall: waited / all,
        }
    }

    /// Milliseconds of a step with what lies between it and the next.
    pub(crate) fn wall_ms(self) -> f64 {
        let within = self.busy + self.stall;
        match within > 0.0 {
            true => self.step_ms / within,
            false => self.step_ms,
        }
    }

    /// Of steps that were measured.
    pub fn of_steps(steps: &[Step]) -> Pace {
        let nanos = |span: Nanos| span.0 as f64;
        let of = |step: &Step| [step.waited, step.service, step.overhead].map(nanos);
        Pace::of(steps.iter().map(of))
    }

    /// Of steps that were simulated.
    pub fn of_simulated(steps: &[SimulatedStep]) -> Pace {
        let of =
            |step: &SimulatedStep| [step.waited, step.service, step.overhead].map(|n| n as f64);
        Pace::of(steps.iter().map(of))
    }
}

impl RunModel {
    /// From what a log has of it.
    pub fn of(run: &Run) -> Result<RunModel, ModelError> {
        let run = &run.last_start();
        let plan = run.plan().filter(|plan| !plan.stages.is_empty());
        let plan = plan.ok_or(ModelError::NoPlan)?;
        let (warm_up, steps) = split(run);
        if steps.len() < LEAST_STEPS {
            return Err(ModelError::TooShort { steps: steps.len() });
        }
        let waited = waited_for_bytes(run, plan);
        if waited > BYTES_BIND {
            return Err(ModelError::BytesUnknown(waited));
        }
        let on_cpu = run.fact(fact::DEVICE).is_none_or(|device| device == CPU);
        let batches = |step: &&Step| match step.shape {
            Some(StepShape::Batches(count)) => count.max(1),
            _ => 1,
        };
        let batches_a_step = steps.iter().map(|step| batches(&step)).max().unwrap_or(1);
        let (setup, stages) = parts_of(run, plan, on_cpu, batches_a_step)?;
        let counted = |of: StageId| run.stats.stage(of.name()).map_or(0, |s| s.service.count());
        // Where steps do not say how many clips they have, all have as many as there were on average.
        let rows_each =
            counted(StageId::Featurize) as f64 / counted(StageId::Collate).max(1) as f64;
        let mut trained = Vec::new();
        for step in warm_up.iter().chain(&steps) {
            let share = batches(&step) as f64;
            let rows = match clips(step) {
                known if known > 0.0 => known / share,
                _ => rows_each,
            };
            let of_batch = Trained {
                service: step.service.0 as f64 / share,
                overhead: 0.0,
                rows: (rows.round() as u64).max(1),
            };
            for batch in 0..batches(&step) {
                trained.push(Trained {
                    overhead: if batch + 1 == batches(&step) {
                        step.overhead.0 as f64
                    } else {
                        0.0
                    },
                    ..of_batch
                });
            }
        }
        let threads = run.number(fact::COMPUTE_THREADS).unwrap_or(1.0).max(1.0);
        let budgets = run.stats.budgets.values().map(|budget| budget.peak);
        let mut model = RunModel {
            threads: match on_cpu {
                true => threads.min(setup.cores.unwrap_or(threads)),
                false => 0.0,
            },
            facts: Facts {
                on_cpu,
                cores: run.number(fact::CORES),
                cache: run.fact(fact::CACHE).unwrap_or("").to_owned(),
                decoded: counted(StageId::Decode) as f64
                    / counted(StageId::Featurize).max(1) as f64,
                peak_bytes: budgets.max().unwrap_or(0),
                crowded: run.core_load().is_some_and(|load| load.is_oversubscribed()),
            },
            setup,
            stages,
            warm_up: warm_up.len(),
            trained,
            model_scale: 1.0,
            model_factor: 1.0,
            seed: 1,
            batch_bytes: plan.slots.as_ref().map_or(0, |slots| slots.bytes_each),
            measured: Pace::of_steps(&steps),
        };
        model.calibrate()?;
        Ok(model)
    }

    /// As many steps as were measured, behind as many to warm up.
    pub fn steps(&self) -> usize {
        let batches = self.setup.consumer.batches_a_step as usize;
        self.trained.len() / batches - self.warm_up
    }

    /// Lets it run.
    pub fn simulate(&self) -> Result<Simulated, ModelError> {
        self.simulate_steps(self.steps())
    }

    fn simulate_steps(&self, steps: usize) -> Result<Simulated, ModelError> {
        let mut simulated = simulate(&self.setup, self, (self.warm_up + steps) as u64)?;
        simulated.steps.drain(..self.warm_up);
        Ok(simulated)
    }

    /// The same run as it could have been as well: its steps in other blocks, the mean times of its stages as far from
    /// those measured as chance would have them. The first one is the run itself.
    pub(crate) fn resampled(&self, draw_number: u64) -> RunModel {
        let mut model = self.clone();
        if draw_number == 0 {
            return model;
        }
        model.seed = self.seed.wrapping_add(draw_number.wrapping_mul(7_919));
        let batches = self.setup.consumer.batches_a_step as usize;
        let first = self.warm_up * batches;
        let measured = &self.trained[first..];
        let block = ((measured.len() / batches) as f64).sqrt().ceil() as usize * batches;
        let mut place = 0;
        for at in 0..measured.len() {
            if at % block == 0 {
                let starts = (measured.len() / batches) as u64;
                place = (draw(model.seed, 1_000, at as u64) % starts) as usize * batches;
            }
            model.trained[first + at] = measured[(place + at % block) % measured.len()];
        }
        for (number, stage) in model.stages.iter_mut().enumerate() {
            let drawn = super::times::uniform(draw(model.seed, 2_000, number as u64));
            let off = super::times::normal_quantile(drawn) * stage.times.uncertain();
            stage.times = stage.times.scaled((1.0 + off).max(0.1));
            let seed = draw(model.seed, 4_000, number as u64);
            stage.drawn = stage.times.shuffled(stage.items, seed);
        }
        model
    }

    /// Scales what computes until the replay takes as long for it as was measured.
    fn calibrate(&mut self) -> Result<(), ModelError> {
        if self.setup.cores.is_none() || !self.setup.overlap {
            return Ok(());
        }
        let steps = self.steps().min(ROUND_STEPS);
        for _ in 0..ROUNDS {
            let simulated = self.simulate_steps(steps)?;
            for (stage, sums) in self.stages.iter_mut().zip(&simulated.stages) {
                let took = sums.worked as f64 / sums.items.max(1) as f64;
                let waits: f64 = stage.waits();
                let computing = (took - waits * stage.times.mean()).max(1.0);
                let measured = (1.0 - waits) * stage.times.mean();
                stage.scale = (stage.scale * measured / computing).clamp(0.05, 1.0);
            }
            let service = simulated
                .steps
                .iter()
                .map(|step| step.service as f64)
                .sum::<f64>();
            let batches = steps * self.setup.consumer.batches_a_step as usize;
            let first = self.warm_up * self.setup.consumer.batches_a_step as usize;
            let measured = self.trained[first..first + batches]
                .iter()
                .map(|it| it.service)
                .sum::<f64>();
            if service > 0.0 {
                self.model_scale = (self.model_scale * measured / service).clamp(0.05, 1.0);
            }
        }
        Ok(())
    }
}

impl StageModel {
    /// The share of its time in which it needs no core.
    fn waits(&self) -> f64 {
        let waiting = self.parts.iter().filter(|part| !part.computes);
        waiting.map(|part| part.share).sum()
    }
}

impl Load for RunModel {
    fn demand(&self, stage: usize, number: u64) -> Demand {
        let of = &self.stages[stage];
        let time = of.drawn[number as usize % of.items];
        let (mut waits, mut computes) = (0.0, 0.0);
        for part in &of.parts {
            let time = time * part.share * part.factor;
            match part.computes {
                true => computes += time * of.scale,
                false => waits += time,
            }
        }
        Demand {
            waits: waits.round() as u64,
            computes: computes.round() as u64,
            threads: 1.0,
        }
    }

    fn training(&self, batch: u64) -> Training {
        let trained = self.trained[batch as usize % self.trained.len()];
        let nanos = (trained.service * self.model_scale * self.model_factor).round() as u64;
        Training {
            demand: Demand::on_threads(nanos, self.threads),
            overhead: trained.overhead.round() as u64,
        }
    }

    fn members(&self, _: usize, group: u64) -> u64 {
        self.trained[group as usize % self.trained.len()].rows
    }
}

/// The steps of the run itself that a prediction is about.
pub(crate) fn measured_steps(run: &Run) -> Vec<Step> {
    split(run).1
}

/// The steps to warm up, and those that were measured.
fn split(run: &Run) -> (Vec<Step>, Vec<Step>) {
    let warm_up = run.phase(phase::WARM_UP);
    if !run.phases.is_empty() {
        return (warm_up.to_vec(), run.steps.clone());
    }
    let all = run.steps.len();
    if all > MOST_STEPS + LONG_WARM_UP {
        let last = all - MOST_STEPS;
        return (
            run.steps[last - LONG_WARM_UP..last].to_vec(),
            run.steps[last..].to_vec(),
        );
    }
    let first = WARM_UP_STEPS.min(all);
    (run.steps[..first].to_vec(), run.steps[first..].to_vec())
}

fn waited_for_bytes(run: &Run, plan: &Plan) -> f64 {
    let share = |stage: &voxmill_telemetry::plan::StagePlan| {
        let stats = run.stats.stage(&stage.name)?;
        let waited = stats.waits.get(&Wait::Bytes)?.total.seconds();
        let workers = stage.workers.value.max(1) as f64;
        Some(waited / (workers * run.run_time().seconds().max(1e-9)))
    };
    plan.stages.iter().filter_map(share).fold(0.0, f64::max)
}

/// The stages of the plan as they were in the end: the controller may have changed them.
fn parts_of(
    run: &Run,
    plan: &Plan,
    on_cpu: bool,
    batches_a_step: u64,
) -> Result<(Setup, Vec<StageModel>), ModelError> {
    let decided = |name: &str, workers: bool| {
        let decisions = run.stats.decisions.iter().rev();
        decisions
            .filter(|(_, decision)| decision.subject == name)
            .find_map(|(_, decision)| match decision.change {
                DecidedChange::Workers { to, .. } | DecidedChange::WorkersBack { to, .. }
                    if workers =>
                {
                    Some(to)
                }
                DecidedChange::Capacity { to, .. } | DecidedChange::CapacityBack { to, .. }
                    if !workers =>
                {
                    Some(to)
                }
                _ => None,
            })
    };
    let (mut stages, mut models) = (Vec::new(), Vec::new());
    let prepares_on_cpu = run
        .fact(fact::DATA_DEVICE)
        .is_none_or(|device| device == CPU);
    for planned in &plan.stages {
        let name = planned.name.as_str();
        let stats = run.stats.stage(name);
        let times = stats.and_then(|stats| Times::measured(&stats.service));
        let times = times.ok_or_else(|| ModelError::NoTimes(name.to_owned()))?;
        stages.push(Stage {
            name: name.to_owned(),
            workers: decided(name, true).map_or(planned.workers.value, |to| to as usize),
            buffer: decided(name, false).map_or(planned.buffer.value, |to| to as usize),
            // A log has no sizes; where budgets bind, it is refused.
            budget: None,
            gathers: *name == StageId::Batch,
        });
        let items = stats.map_or(0, |stats| stats.service.count() as usize);
        let items = items.clamp(1, MOST_ITEMS);
        models.push(StageModel {
            drawn: times.shuffled(items, stages.len() as u64),
            items,
            parts: parts_of_stage(run, name, prepares_on_cpu),
            times,
            scale: 1.0,
        });
    }
    let others = run.others().unwrap_or(0.0).min(0.9);
    Ok((
        Setup {
            stages,
            order: plan.order,
            overlap: plan.overlap,
            slots_ahead: plan.slots.as_ref().map(|slots| slots.ahead.value),
            start_delay: (plan.start_delay_seconds * 1e9) as u64,
            budgets: Vec::new(),
            cores: run.number(fact::CORES).map(|cores| cores * (1.0 - others)),
            consumer: Consumer {
                batches_a_step,
                runs_ahead: !on_cpu,
            },
        },
        models,
    ))
}

/// What the log says of a stage's time: reading files waits for a disk, bringing batches to a device of its own waits
/// for that; everything else computes.
fn parts_of_stage(run: &Run, name: &str, prepares_on_cpu: bool) -> Vec<Part> {
    if *name == StageId::Featurize {
        let mut parts: Vec<Part> = StageId::PARTS
            .map(|part| {
                let short = part.name().split('.').next_back().unwrap_or_default();
                Part::new(short, part_of_featurize(run, part), part != StageId::Read)
            })
            .to_vec();
        let known: f64 = parts.iter().map(|part| part.share).sum();
        if known > 1.0 {
            parts.iter_mut().for_each(|part| part.share /= known);
        }
        parts.push(Part::new(REST, (1.0 - known).max(0.0), true));
        return parts;
    }
    if *name == StageId::Prepare {
        return vec![Part::new(TRANSFER, 1.0, prepares_on_cpu)];
    }
    if *name == StageId::Collate {
        return vec![Part::new(COLLATE, 1.0, true)];
    }
    vec![Part::new(REST, 1.0, true)]
}

/// Parts that a change can name.
pub(crate) const TRANSFER: &str = "transfer";
pub(crate) const COLLATE: &str = "collate";
/// What no change names.
pub(crate) const REST: &str = "rest";
