//! The simulation itself: what ends next, and who can continue then.
//!
//! Workers of a stage are alike, so they are counted, not told apart: idle, with the right to take the next item (and
//! waiting for room for it), at work, or with a finished item that has no room yet.

use std::collections::BTreeMap;

use super::belt::{Belt, Item};
use super::cores::{Ended, UnderWay};
use super::setup::{Bytes, Demand, Load, Order, Setup, SimulationError};

/// A step of the consumer, in nanoseconds: `waited + service + overhead` is its wall time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SimulatedStep {
    pub waited: u64,
    pub service: u64,
    pub overhead: u64,
    /// When it ended, from the beginning of the run.
    pub ended: u64,
}

impl SimulatedStep {
    /// All of it together.
    pub fn wall(self) -> u64 {
        self.waited + self.service + self.overhead
    }
}

/// What a stage did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StageSums {
    pub items: u64,
    /// Of all its workers, from taking an item to being done with it.
    pub worked: u64,
    /// The most that waited behind it.
    pub most_buffered: usize,
}

/// What a simulated run came to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Simulated {
    pub steps: Vec<SimulatedStep>,
    pub stages: Vec<StageSums>,
    /// The most bytes of each budget that were in use.
    pub peak_bytes: Vec<u64>,
    /// How long the first batch was waited for, the gate included; the first step's own wait is without it.
    pub began_after: u64,
    /// What was handled: the simulation's own effort.
    pub events: u64,
}

/// Runs the setup until so many steps are done.
pub fn simulate(setup: &Setup, load: &impl Load, steps: u64) -> Result<Simulated, SimulationError> {
    setup.check()?;
    if steps == 0 {
        return Err(SimulationError::Nothing);
    }
    match setup.overlap {
        true => Engine::new(setup, load, steps).run(),
        false => one_after_another(setup, load, steps),
    }
}

#[derive(Clone, Copy, Debug)]
enum Job {
    /// Of a stage: the item, what it holds of the budget that it leaves, and what becomes of what it holds here.
    Item {
        stage: usize,
        item: Item,
        leaves: u64,
    },
    /// The longest wait at the start is over.
    Gate,
    /// The consumer is done with the batch in its hands, or its device has begun with it.
    Batch(Item),
    /// What lies between steps is over.
    Between,
}

#[derive(Debug)]
struct Line {
    idle: usize,
    /// The item for which the worker with the right to take the next one waits for room.
    asking: Option<Item>,
    /// Finished, without room behind the stage.
    blocked: Vec<Item>,
    /// Groups that are being put together: members still to come, and the bytes of those that are here. Where order is
    /// kept there is one at a time.
    open: BTreeMap<u64, (u64, u64)>,
    /// The first member of each group so far, and of the next one.
    firsts: Vec<u64>,
    out: Belt,
    sums: StageSums,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doing {
    /// Behind the gate.
    Starting,
    Asking,
    Busy,
}

struct Engine<'a, L> {
    setup: &'a Setup,
    load: &'a L,
    under_way: UnderWay<Job>,
    lines: Vec<Line>,
    in_use: Vec<u64>,
    /// The budget that items enter at each stage.
    enters: Vec<Option<usize>>,
    /// Whether what an item held before is held on, because it stays in the same budget.
    holds_on: Vec<bool>,
    /// Where each budget is entered.
    entrances: Vec<Option<usize>>,
    out: Simulated,
    next_item: u64,
    free_slots: usize,
    /// Stages to look at; the consumer is behind the last.
    look: Vec<usize>,
    doing: Doing,
    asked: u64,
    /// When a device that runs ahead has nothing more to do.
    device_until: u64,
    taken: u64,
    step: SimulatedStep,
    wanted: u64,
    stuck: Option<SimulationError>,
}

impl<'a, L: Load> Engine<'a, L> {
    fn new(setup: &'a Setup, load: &'a L, steps: u64) -> Engine<'a, L> {
        let places = setup.slots_ahead.map(|ahead| ahead + 1);
        let last = setup.stages.len() - 1;
        let line = |(number, stage): (usize, &super::setup::Stage)| Line {
            idle: stage.workers,
            asking: None,
            blocked: Vec::new(),
            open: BTreeMap::new(),
            firsts: vec![0],
            // Where there are slots, they bound what is behind the last stage.
            out: Belt::new(
                setup.order,
                places.filter(|_| number == last).unwrap_or(stage.buffer),
            ),
            sums: StageSums::default(),
        };
        let budget = |stage: usize| setup.stages[stage].budget;
        let stays = |stage: &usize| *stage > 0 && budget(stage - 1) == budget(*stage);
        let stages = 0..setup.stages.len();
        let enters: Vec<Option<usize>> = stages
            .clone()
            .map(|stage| budget(stage).filter(|_| !stays(&stage)))
            .collect();
        let entered = |at: usize| enters.iter().position(|budget| *budget == Some(at));
        let entrances = (0..setup.budgets.len()).map(entered).collect();
        Engine {
            setup,
            load,
            holds_on: stages
                .map(|stage| budget(stage).is_some() && stays(&stage))
                .collect(),
            entrances,
            enters,
            under_way: UnderWay::new(setup.cores),
            lines: setup.stages.iter().enumerate().map(line).collect(),
            in_use: vec![0; setup.budgets.len()],
            out: Simulated {
                steps: Vec::with_capacity(steps.min(1 << 20) as usize),
                peak_bytes: vec![0; setup.budgets.len()],
                ..Simulated::default()
            },
            next_item: 0,
            free_slots: places.unwrap_or(usize::MAX),
            look: vec![0],
            doing: match setup.start_delay {
                0 => Doing::Asking,
                _ => Doing::Starting,
            },
            asked: 0,
            device_until: 0,
            taken: 0,
            step: SimulatedStep::default(),
            wanted: steps,
            stuck: None,
        }
    }

    fn run(mut self) -> Result<Simulated, SimulationError> {
        if self.doing == Doing::Starting {
            let delay = Demand::waiting(self.setup.start_delay);
            self.under_way.start(delay, Job::Gate);
        }
        while (self.out.steps.len() as u64) < self.wanted {
            while let Some(stage) = self.look.pop() {
                match stage == self.lines.len() {
                    true => self.consumer_looks(),
                    false => self.stage_looks(stage),
                }
            }
            if let Some(error) = self.stuck {
                return Err(error);
            }
            let Some(ended) = self.under_way.next() else {
                return Err(self.why_stuck());
            };
            self.out.events += 1;
            self.handle(ended);
        }
        self.out.stages = self.lines.iter().map(|line| line.sums).collect();
        for (sums, line) in self.out.stages.iter_mut().zip(&self.lines) {
            sums.most_buffered = line.out.peak;
        }
        Ok(self.out)
    }

    fn why_stuck(&self) -> SimulationError {
        let asking = self.lines.iter().position(|line| line.asking.is_some());
        SimulationError::Stuck {
            stage: self.setup.stages[asking.unwrap_or(0)].name.clone(),
        }
    }

    fn handle(&mut self, ended: Ended<Job>) {
        match ended.work {
            Job::Item {
                stage,
                item,
                leaves,
            } => self.item_ends(stage, item, leaves, ended.at - ended.began),
            Job::Gate => {
                if self.doing == Doing::Starting {
                    self.open_gate();
                }
            }
            Job::Batch(item) => self.batch_ends(item, ended),
            Job::Between => self.ask(),
        }
    }

    fn stage_looks(&mut self, stage: usize) {
        self.hand_over(stage);
        if let Some(item) = self.lines[stage].asking {
            if !self.admit(stage, item) {
                return;
            }
            self.lines[stage].asking = None;
        }
        while self.lines[stage].idle > 0 {
            let Some(item) = self.take(stage) else { return };
            let Some(item) = self.gathered(stage, item) else {
                continue;
            };
            self.lines[stage].idle -= 1;
            if !self.admit(stage, item) {
                self.lines[stage].asking = Some(item);
                return;
            }
        }
    }

    /// Finished items go behind the stage, as far as there is room.
    fn hand_over(&mut self, stage: usize) {
        let line = &mut self.lines[stage];
        let mut moved = false;
        while let Some(place) = line
            .blocked
            .iter()
            .position(|item| line.out.has_room_for(item.number))
        {
            let item = line.blocked.remove(place);
            line.out.push(item);
            line.idle += 1;
            moved = true;
        }
        if moved {
            self.look.push(stage + 1);
        }
    }

    fn take(&mut self, stage: usize) -> Option<Item> {
        let Some(before) = stage.checked_sub(1) else {
            self.next_item += 1;
            return Some(Item {
                number: self.next_item - 1,
                held: 0,
            });
        };
        let (item, freed) = self.lines[before].out.take();
        if freed && !self.lines[before].blocked.is_empty() {
            self.look.push(before);
        }
        item
    }

    /// The item itself, or the group that it completes.
    fn gathered(&mut self, stage: usize, item: Item) -> Option<Item> {
        if !self.setup.stages[stage].gathers {
            return Some(item);
        }
        let held = if self.holds_on[stage] { item.held } else { 0 };
        let load = self.load;
        let line = &mut self.lines[stage];
        while *line.firsts.last()? <= item.number {
            let group = line.firsts.len() as u64 - 1;
            let first = *line.firsts.last()?;
            line.firsts.push(first + load.members(stage, group).max(1));
        }
        let group = line.firsts.partition_point(|first| *first <= item.number) - 1;
        let size = line.firsts[group + 1] - line.firsts[group];
        let group = group as u64;
        let (missing, bytes) = line.open.entry(group).or_insert((size, 0));
        *missing -= 1;
        *bytes += held;
        if *missing > 0 {
            return None;
        }
        let (_, held) = line.open.remove(&group)?;
        Some(Item {
            number: group,
            held,
        })
    }

    /// Begins to work on the item if there is room for it.
    fn admit(&mut self, stage: usize, item: Item) -> bool {
        let mut held = item.held;
        let mut leaves = 0;
        let enters = self.enters[stage];
        let is_last = stage + 1 == self.lines.len();
        // The engine asks for the bytes first; who waits for a slot here holds none yet. That is a difference only
        // where items enter a budget at the last stage.
        if is_last && self.free_slots == 0 {
            return false;
        }
        if let Some(budget) = enters {
            let bytes = self.load.bytes(stage, item.number).unwrap_or_default();
            let limit = self.setup.budgets.get(budget).copied().unwrap_or(u64::MAX);
            if bytes.reserved > limit {
                self.stuck = Some(SimulationError::TooLarge {
                    stage: self.setup.stages[stage].name.clone(),
                    need: bytes.reserved,
                    limit,
                });
                return false;
            }
            if self.in_use[budget] + bytes.reserved > limit {
                return false;
            }
            self.in_use[budget] += bytes.reserved;
            let peak = &mut self.out.peak_bytes[budget];
            *peak = (*peak).max(self.in_use[budget]);
            (held, leaves) = (bytes.reserved, item.held);
        } else if !self.holds_on[stage] {
            (held, leaves) = (0, item.held);
        }
        if is_last && self.setup.slots_ahead.is_some() {
            self.free_slots -= 1;
        }
        let number = item.number;
        let demand = self.load.demand(stage, number);
        let item = Item { number, held };
        self.under_way.start(
            demand,
            Job::Item {
                stage,
                item,
                leaves,
            },
        );
        true
    }

    fn item_ends(&mut self, stage: usize, mut item: Item, leaves: u64, took: u64) {
        self.lines[stage].sums.items += 1;
        self.lines[stage].sums.worked += took;
        if let Some(budget) = self.setup.stages[stage].budget
            && let Some(Bytes { kept, .. }) = self.load.bytes(stage, item.number)
        {
            let kept = kept.min(item.held);
            self.free(budget, item.held - kept);
            item.held = kept;
        }
        if leaves > 0
            && let Some(budget) = stage
                .checked_sub(1)
                .and_then(|before| self.setup.stages[before].budget)
        {
            self.free(budget, leaves);
        }
        self.lines[stage].blocked.push(item);
        if self.setup.order == Order::Kept && self.lines[stage].blocked.len() > 1 {
            self.lines[stage].blocked.sort_by_key(|item| item.number);
        }
        self.look.push(stage);
    }

    fn free(&mut self, budget: usize, bytes: u64) {
        if bytes == 0 {
            return;
        }
        self.in_use[budget] -= bytes;
        if let Some(stage) = self.entrances[budget]
            && self.lines[stage].asking.is_some()
        {
            self.look.push(stage);
        }
    }

    fn open_gate(&mut self) {
        self.doing = Doing::Asking;
        self.out.began_after = self.under_way.now;
        self.asked = self.under_way.now;
        self.device_until = self.under_way.now;
        self.look.push(self.lines.len());
    }

    fn ask(&mut self) {
        self.doing = Doing::Asking;
        self.asked = self.under_way.now;
        self.look.push(self.lines.len());
    }

    fn consumer_looks(&mut self) {
        let last = self.lines.len() - 1;
        if self.doing == Doing::Starting {
            let enough = match self.setup.slots_ahead {
                Some(ahead) => self.lines[last].out.level() >= ahead,
                None => self.lines[last].out.is_full(),
            };
            if !enough {
                return;
            }
            self.open_gate();
        }
        if self.doing != Doing::Asking {
            return;
        }
        let (item, freed) = self.lines[last].out.take();
        if freed && !self.lines[last].blocked.is_empty() {
            self.look.push(last);
        }
        let Some(item) = item else { return };
        self.doing = Doing::Busy;
        let now = self.under_way.now;
        if self.taken == 0 && self.setup.start_delay == 0 {
            self.out.began_after = now;
            (self.asked, self.device_until) = (now, now);
        }
        self.taken += 1;
        let training = self.load.training(item.number);
        if !self.setup.consumer.runs_ahead {
            self.step.waited += now - self.asked;
            self.under_way.start(training.demand, Job::Batch(item));
            return;
        }
        // The thread is free again when the device begins with this batch; until then it waits for the one before.
        let begins = now.max(self.device_until);
        self.step.waited += begins - self.device_until;
        self.device_until = begins + training.demand.alone() + training.overhead;
        let until = Demand::waiting(begins - now);
        self.under_way.start(until, Job::Batch(item));
    }

    /// The batch's bytes and its slot are free.
    fn batch_ends(&mut self, item: Item, ended: Ended<Job>) {
        let last = self.lines.len() - 1;
        if self.setup.slots_ahead.is_some() {
            self.free_slots += 1;
            self.look.push(last);
        }
        if let Some(budget) = self.setup.stages[last].budget {
            self.free(budget, item.held);
        }
        let training = self.load.training(item.number);
        let runs_ahead = self.setup.consumer.runs_ahead;
        let (service, end) = match runs_ahead {
            true => (
                training.demand.alone(),
                ended.at + training.demand.alone() + training.overhead,
            ),
            false => (ended.at - ended.began, ended.at),
        };
        self.step.service += service;
        self.step.overhead += training.overhead;
        self.step.ended = end;
        if self
            .taken
            .is_multiple_of(self.setup.consumer.batches_a_step)
        {
            self.out.steps.push(std::mem::take(&mut self.step));
        }
        match runs_ahead {
            true => self.ask(),
            false if training.overhead > 0 => {
                let between = Demand::waiting(training.overhead);
                self.under_way.start(between, Job::Between);
            }
            false => self.ask(),
        }
    }
}

/// Without overlap the consumer's thread does everything itself.
fn one_after_another(
    setup: &Setup,
    load: &impl Load,
    steps: u64,
) -> Result<Simulated, SimulationError> {
    let cores = setup.cores.unwrap_or(f64::INFINITY);
    let took = |demand: Demand| {
        let pace = (cores / demand.threads.max(1.0)).min(1.0);
        demand.waits + (demand.computes as f64 / pace).round() as u64
    };
    let mut out = Simulated {
        stages: vec![StageSums::default(); setup.stages.len()],
        peak_bytes: vec![0; setup.budgets.len()],
        ..Simulated::default()
    };
    let mut now = 0;
    let mut next = vec![0u64; setup.stages.len()];
    let mut batch = 0;
    for _ in 0..steps {
        let mut step = SimulatedStep::default();
        for _ in 0..setup.consumer.batches_a_step {
            // How many items each stage handles for this batch, from the last back to the source.
            let mut items = vec![1; setup.stages.len()];
            for stage in (0..setup.stages.len()).rev() {
                if stage > 0 {
                    let groups = next[stage]..next[stage] + items[stage];
                    items[stage - 1] = match setup.stages[stage].gathers {
                        true => groups.map(|group| load.members(stage, group).max(1)).sum(),
                        false => items[stage],
                    };
                }
            }
            for (stage, count) in items.into_iter().enumerate() {
                for number in next[stage]..next[stage] + count {
                    let span = took(load.demand(stage, number));
                    step.waited += span;
                    out.stages[stage].worked += span;
                    out.stages[stage].items += 1;
                    out.events += 1;
                }
                next[stage] += count;
            }
            let training = load.training(batch);
            step.service += took(training.demand);
            step.overhead += training.overhead;
            batch += 1;
        }
        now += step.wall();
        step.ended = now - step.overhead;
        out.steps.push(step);
    }
    Ok(out)
}
