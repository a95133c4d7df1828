//! A pipeline without threads: stages with workers and finite buffers, in simulated time.
//!
//! It hands items over in order and counts waits as the engine does, so the controller can be tried
//! on thousands of windows in a moment, and on loads for which the best setting is known.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::counters::{RunSnapshot, StageCounters};

/// How long an item takes: log-normal with this mean and variation (std/mean), times a slowdown.
#[derive(Clone, Debug)]
pub(super) struct ServiceTime {
    pub(super) milliseconds: f64,
    pub(super) variation: f64,
    pub(super) slowdown: Slowdown,
}

#[derive(Clone, Debug)]
pub(super) enum Slowdown {
    None,
    /// Needs a core of the machine for all of its time.
    Cpu,
    /// The factor for one worker of the stage at work, for two, and so on; the last one holds for all others.
    Crowd(Vec<f64>),
}

impl ServiceTime {
    pub(super) fn uneven(milliseconds: f64, variation: f64) -> ServiceTime {
        ServiceTime {
            milliseconds,
            variation,
            slowdown: Slowdown::None,
        }
    }

    pub(super) fn slowed(self, slowdown: Slowdown) -> ServiceTime {
        ServiceTime { slowdown, ..self }
    }
}

/// All times in nanoseconds.
#[derive(Clone, Debug)]
pub(super) struct Simulation {
    now: u64,
    /// The consumer is the last.
    stages: Vec<SimStage>,
    /// Cores, and what each worker beyond them costs everybody, as a share.
    cores: (usize, f64),
    random: u64,
}

#[derive(Clone, Debug)]
struct SimStage {
    work: ServiceTime,
    wanted: usize,
    workers: Vec<SimWorker>,
    capacity: usize,
    /// Finished items that wait behind the stage, by number.
    buffer: BTreeSet<u64>,
    /// Items that the next stage took.
    taken: u64,
    counters: StageCounters,
}

#[derive(Clone, Copy, Debug)]
enum SimWorker {
    Starved,
    /// `left` is the time it will still take at full speed.
    Working {
        left: f64,
        item: u64,
    },
    Blocked {
        item: u64,
    },
}

impl Simulation {
    /// Stages as (work, workers, capacity); the consumer has one worker.
    pub(super) fn new(
        stages: &[(ServiceTime, usize, usize)],
        consumer: ServiceTime,
        seed: u64,
    ) -> Simulation {
        let consumer = (consumer, 1, 0);
        let stages = stages
            .iter()
            .chain([&consumer])
            .map(|(work, workers, capacity)| SimStage {
                work: work.clone(),
                wanted: *workers,
                workers: vec![SimWorker::Starved; *workers],
                capacity: *capacity,
                buffer: BTreeSet::new(),
                taken: 0,
                counters: StageCounters::default(),
            });
        Simulation {
            now: 0,
            stages: stages.collect(),
            cores: (usize::MAX, 0.0),
            random: seed.wrapping_mul(2).wrapping_add(1),
        }
    }

    pub(super) fn with_cores(self, cores: usize, penalty: f64) -> Simulation {
        let cores = (cores, penalty);
        Simulation { cores, ..self }
    }

    pub(super) fn workers(&self, stage: usize) -> usize {
        self.stages[stage].wanted
    }

    pub(super) fn capacity(&self, stage: usize) -> usize {
        self.stages[stage].capacity
    }

    pub(super) fn all_workers(&self) -> Vec<usize> {
        let stages = &self.stages[..self.stages.len() - 1];
        stages.iter().map(|stage| stage.wanted).collect()
    }

    pub(super) fn consumed(&self) -> u64 {
        self.stages[self.stages.len() - 1].counters.items
    }

    pub(super) fn set_work(&mut self, stage: usize, work: ServiceTime) {
        self.stages[stage].work = work;
    }

    pub(super) fn set_workers(&mut self, stage: usize, workers: usize) {
        let stage = &mut self.stages[stage];
        stage.wanted = workers;
        if stage.workers.len() < workers {
            stage.workers.resize(workers, SimWorker::Starved);
        }
    }

    pub(super) fn set_capacity(&mut self, stage: usize, capacity: usize) {
        self.stages[stage].capacity = capacity;
    }

    pub(super) fn advance(&mut self, span: Duration) {
        let end = self.now + span.as_nanos() as u64;
        while self.now < end {
            while (0..self.stages.len())
                .rev()
                .fold(false, |moved, stage| self.move_items(stage) | moved)
            {}
            let speeds: Vec<f64> = self.stages.iter().map(|stage| self.speed(stage)).collect();
            let mut step = end - self.now;
            for (stage, speed) in self.stages.iter().zip(&speeds) {
                for worker in &stage.workers {
                    if let SimWorker::Working { left, .. } = worker {
                        step = step.min((left / speed).ceil() as u64);
                    }
                }
            }
            self.now += step;
            for (stage, speed) in self.stages.iter_mut().zip(&speeds) {
                stage.pass_time(step, *speed);
            }
        }
    }

    /// How fast each worker of a stage is while as many are at work as now.
    fn speed(&self, stage: &SimStage) -> f64 {
        match &stage.work.slowdown {
            Slowdown::None => 1.0,
            Slowdown::Crowd(factors) => {
                let others = stage.at_work().saturating_sub(1);
                1.0 / factors[others.min(factors.len() - 1)]
            }
            Slowdown::Cpu => {
                let stages = self.stages.iter();
                let on_cpu = stages.filter(|s| matches!(s.work.slowdown, Slowdown::Cpu));
                let running = on_cpu.map(SimStage::at_work).sum::<usize>();
                let (cores, penalty) = self.cores;
                let beyond = running.saturating_sub(cores) as f64;
                (cores as f64 / running as f64).min(1.0) / (1.0 + penalty * beyond)
            }
        }
    }

    /// Hands finished items on, removes workers that are too many, and takes what is there.
    fn move_items(&mut self, index: usize) -> bool {
        let mut moved = false;
        let is_consumer = index + 1 == self.stages.len();
        for place in 0..self.stages[index].workers.len() {
            let stage = &mut self.stages[index];
            if let SimWorker::Blocked { item } = stage.workers[place]
                && (is_consumer || item < stage.taken + stage.capacity as u64)
            {
                stage.counters.items += 1;
                if !is_consumer {
                    stage.buffer.insert(item);
                }
                stage.workers[place] = SimWorker::Starved;
                moved = true;
            }
        }
        for place in (0..self.stages[index].workers.len()).rev() {
            let stage = &mut self.stages[index];
            if !matches!(stage.workers[place], SimWorker::Starved) {
                continue;
            }
            if stage.workers.len() > stage.wanted {
                stage.workers.swap_remove(place);
                continue;
            }
            if let Some(item) = self.take(index) {
                let left = self.draw(index);
                self.stages[index].workers[place] = SimWorker::Working { left, item };
                moved = true;
            }
        }
        moved
    }

    fn take(&mut self, index: usize) -> Option<u64> {
        let Some(before) = index.checked_sub(1) else {
            let source = &self.stages[0];
            let workers = source.workers.iter();
            let in_hand = workers.filter(|w| !matches!(w, SimWorker::Starved));
            return Some(source.counters.items + in_hand.count() as u64);
        };
        let before = &mut self.stages[before];
        let item = before.taken;
        before.buffer.remove(&item).then(|| {
            before.taken += 1;
            item
        })
    }

    /// The time that an item takes at full speed.
    fn draw(&mut self, index: usize) -> f64 {
        let work = &self.stages[index].work;
        let (mean, spread) = (work.milliseconds * 1e6, (1.0 + work.variation.powi(2)).ln());
        mean * (spread.sqrt() * self.normal() - spread / 2.0).exp()
    }

    fn normal(&mut self) -> f64 {
        let angle = std::f64::consts::TAU * self.uniform();
        (-2.0 * (1.0 - self.uniform()).ln()).sqrt() * angle.cos()
    }

    /// SplitMix64.
    fn uniform(&mut self) -> f64 {
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    pub(super) fn snapshot(&self) -> RunSnapshot {
        let stages = self.stages.iter().map(|stage| StageCounters {
            workers: stage.workers.len(),
            buffered: stage.buffer.len(),
            capacity: stage.capacity,
            ..stage.counters.clone()
        });
        RunSnapshot {
            at: Duration::from_nanos(self.now),
            stages: stages.collect(),
            budgets: Vec::new(),
        }
    }
}

impl SimStage {
    fn at_work(&self) -> usize {
        let at_work = |worker: &&SimWorker| matches!(worker, SimWorker::Working { .. });
        self.workers.iter().filter(at_work).count()
    }

    fn pass_time(&mut self, step: u64, speed: f64) {
        let span = Duration::from_nanos(step);
        for worker in &mut self.workers {
            match worker {
                SimWorker::Starved => self.counters.starved += span,
                SimWorker::Blocked { .. } => self.counters.blocked += span,
                SimWorker::Working { left, item } => {
                    self.counters.working += span;
                    *left -= step as f64 * speed;
                    if *left <= 0.0 {
                        *worker = SimWorker::Blocked { item: *item };
                    }
                }
            }
        }
    }
}
