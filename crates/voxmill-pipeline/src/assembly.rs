//! A pipeline while it is being put together: stages become threads with buffers between them, or, where
//! they are not to overlap, functions that call each other.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, OnceLock};

use voxmill_sync::lock;
use voxmill_telemetry::event::Wait;
use voxmill_telemetry::recorder::{Naming, Recorder};

use crate::budget::Budget;
use crate::buffer::{Buffer, Tap};
use crate::builder::StartError;
use crate::control::{RunShared, StageHandle};
use crate::group::{Batcher, Group, Groups};
use crate::intake::Intake;
use crate::item::{Content, Envelope};
use crate::meter::{Doing, Meter, Watch};
use crate::plan::Plan;
use crate::pool::{Body, Pool, Presence};
use crate::resume::ResumePoint;
use crate::slots::Slots;
use crate::source::{DoneBefore, Items, NumberedSource};
use crate::stage::{Faults, Stage, Work, Worker};

/// How items come out of a stage.
pub(crate) enum Flow<T> {
    /// From a buffer that threads fill, named after the stage.
    Tap(Tap<Envelope<T>>),
    /// By doing the work here and now.
    Inline(Box<dyn FnMut() -> Option<Envelope<T>> + Send>),
}

/// Starts the threads of one stage.
pub(crate) type StartThreads = Box<dyn FnOnce() -> io::Result<()>>;

pub(crate) struct Assembly {
    plan: Plan,
    recorder: Recorder,
    faults: Arc<Faults>,
    budgets: Vec<Arc<Budget>>,
    slots: Option<Arc<Slots>>,
    /// The first number of each part of the pipeline, the source's part first.
    firsts: Vec<u64>,
    part: usize,
    next_stage: usize,
    done_before: DoneBefore,
    cancelled: Arc<AtomicBool>,
    handles: Vec<StageHandle>,
    starts: Vec<StartThreads>,
}

impl Assembly {
    pub(crate) fn new(
        plan: Plan,
        recorder: Recorder,
        position: &ResumePoint,
        groups: Vec<Groups>,
        skipped: u64,
    ) -> Result<Assembly, StartError> {
        let budgets = plan.budgets.iter();
        let budgets: Vec<_> = budgets
            .map(|budget| Budget::new(budget.name.clone(), budget.bytes))
            .collect();
        let slots = plan.slots.as_ref().map(|slots| {
            let (places, recorder) = (slots.places(), recorder.clone());
            match named(&budgets, slots.budget.as_deref()) {
                Some(budget) => Slots::within(places, slots.bytes_each, &budget, recorder),
                None => Ok(Slots::new(places, recorder)),
            }
        });
        let slots = slots.transpose().map_err(StartError::Slots)?;
        let mut firsts = vec![position.next];
        for groups in groups.iter().rev() {
            firsts.insert(0, groups.first_of(firsts[0]));
        }
        Ok(Assembly {
            faults: Arc::new(Faults {
                recorder: recorder.clone(),
                skipped: AtomicU64::new(skipped),
                max_skipped: plan.max_skipped,
            }),
            plan,
            recorder,
            budgets,
            slots,
            done_before: DoneBefore::new(position, groups, &firsts),
            firsts,
            cancelled: Arc::new(AtomicBool::new(false)),
            part: 0,
            next_stage: 0,
            handles: Vec::new(),
            starts: Vec::new(),
        })
    }

    pub(crate) fn first_item(&self) -> u64 {
        self.firsts[0]
    }

    pub(crate) fn finish(self, single: Vec<usize>) -> (Arc<RunShared>, Vec<StartThreads>) {
        let shared = RunShared {
            plan: self.plan,
            recorder: self.recorder,
            stages: self.handles,
            single,
            budgets: self.budgets,
            slots: self.slots,
            cancelled: self.cancelled,
            faults: self.faults,
        };
        (Arc::new(shared), self.starts)
    }

    /// The next stage of the plan.
    pub(crate) fn stage(&mut self, naming: &OnceLock<Naming>) -> Arc<Stage> {
        let index = self.next_stage;
        self.next_stage += 1;
        let planned = &self.plan.stages[index];
        let budget_before = index
            .checked_sub(1)
            .and_then(|before| self.plan.stages[before].budget.as_ref());
        let stays = planned.budget.as_ref() == budget_before;
        let naming = self.naming(naming);
        self.recorder.name_items(&planned.name, Arc::clone(&naming));
        let is_last = index + 1 == self.plan.stages.len();
        Arc::new(Stage {
            name: planned.name.clone(),
            on_error: planned.on_error,
            enters: match stays {
                true => None,
                false => named(&self.budgets, planned.budget.as_deref()),
            },
            holds_on: stays,
            slots: self.slots.clone().filter(|_| is_last),
            naming,
            faults: Arc::clone(&self.faults),
        })
    }

    /// How the items of this part of the pipeline are called.
    fn naming(&self, given: &OnceLock<Naming>) -> Naming {
        let grouped = self.part > 0;
        given.get().cloned().unwrap_or_else(|| {
            Arc::new(move |number| match grouped {
                false => format!("item {number}"),
                true => format!("batch {number}"),
            })
        })
    }

    /// The consumer's items are those that the last stage hands on.
    pub(crate) fn name_consumer(&self, naming: &OnceLock<Naming>) {
        let consumer = &self.plan.consumer;
        self.recorder.name_items(consumer, self.naming(naming));
    }

    fn buffer<T>(&self) -> Arc<Buffer<Envelope<T>>> {
        let index = self.next_stage - 1;
        let first = self.firsts[self.part];
        // Where there are slots, they bound what is behind the last stage.
        let capacity = match &self.plan.slots {
            Some(slots) if index + 1 == self.plan.stages.len() => slots.places(),
            _ => self.plan.stages[index].buffer.value,
        };
        let name = self.plan.stages[index].name.as_str();
        Arc::new(Buffer::new(name, self.plan.order, capacity, first))
    }

    /// Registers a stage that has threads, and what they do. `body` is given the buffer that they fill.
    fn threads<T: Send + 'static, B>(
        &mut self,
        stage: &Stage,
        body: impl FnOnce(Arc<Buffer<Envelope<T>>>) -> B,
    ) -> Flow<T>
    where
        B: Fn(&Presence) + Send + Sync + 'static,
    {
        let output = self.buffer();
        let body: Body = Arc::new(body(Arc::clone(&output)));
        let closes = Arc::clone(&output);
        let pool = Pool::new(&stage.name, move || closes.close());
        let workers = self.plan.stages[self.next_stage - 1].workers.value;
        self.handles.push(StageHandle {
            name: stage.name.clone(),
            pool: Some(Arc::clone(&pool)),
            inline: None,
            buffer: Some(Arc::clone(&output) as _),
        });
        self.starts
            .push(Box::new(move || pool.start(workers, body)));
        Flow::Tap(Tap::new(output))
    }

    /// Registers a stage that is called, and gives it something to keep time with.
    fn called(&mut self, stage: &Stage) -> Watch {
        let meter = Arc::<Meter>::default();
        self.handles.push(StageHandle {
            name: stage.name.clone(),
            pool: None,
            inline: Some(Arc::clone(&meter)),
            buffer: None,
        });
        let lane = self.recorder.lane(&stage.name, 0);
        Watch::new(meter, lane, self.recorder.clone())
    }

    pub(crate) fn put_source<T: Send + 'static>(
        &mut self,
        stage: Arc<Stage>,
        items: Items<T>,
    ) -> Flow<T> {
        let mut source = NumberedSource::new(
            Arc::clone(&stage),
            items,
            self.first_item(),
            self.done_before.clone(),
        );
        if !self.plan.overlap {
            let mut watch = self.called(&stage);
            let cancelled = Arc::clone(&self.cancelled);
            return Flow::Inline(Box::new(move || {
                if cancelled.load(SeqCst) {
                    return None;
                }
                watch.now(Doing::Working);
                watch.item_begins();
                let envelope = source.next();
                if let Some(envelope) = &envelope {
                    watch.item_ends(envelope.number);
                }
                watch.now(Doing::Nothing);
                envelope
            }));
        }
        let recorder = self.recorder.clone();
        let source = Mutex::new(Some(source));
        self.threads(&stage, |output| {
            move |presence: &Presence| {
                let Some(mut source) = lock(&source).take() else {
                    return;
                };
                let mut watch = presence.watch(&recorder);
                watch.item_begins();
                while let Some(envelope) = source.next() {
                    watch.item_ends(envelope.number);
                    if hand_over(&output, envelope, &watch).is_err() {
                        return;
                    }
                    watch.item_begins();
                }
            }
        })
    }

    pub(crate) fn put_stage<T: Send + 'static, U: Send + 'static>(
        &mut self,
        stage: Arc<Stage>,
        input: Flow<T>,
        work: Work<T, U>,
    ) -> Result<Flow<U>, StartError> {
        if stage.on_error.retries > 0 && work.copy.is_none() {
            return Err(StartError::CannotRetry(stage.name.clone()));
        }
        check_reserves(&stage, work.reserve.is_some())?;
        Ok(match input {
            Flow::Inline(mut before) => {
                let watch = self.called(&stage);
                let mut worker = Worker::new(stage, work, watch);
                worker.watch.now(Doing::Nothing);
                Flow::Inline(Box::new(move || {
                    let envelope = worker.watch.waiting_for_input(&mut before);
                    let admission = envelope.map(|envelope| worker.ask(envelope, false));
                    let envelope = admission.and_then(|admission| worker.process(admission));
                    worker.watch.now(Doing::Nothing);
                    envelope
                }))
            }
            Flow::Tap(input) => {
                let intake = Intake::new(input);
                let (recorder, at) = (self.recorder.clone(), Arc::clone(&stage));
                self.threads(&stage, |output| {
                    move |presence: &Presence| {
                        let watch = presence.watch(&recorder);
                        let mut worker = Worker::new(Arc::clone(&at), work.clone(), watch);
                        while !presence.is_surplus() {
                            if worker.cannot_work() && presence.leaves_it_to_others() {
                                worker.report_why_not();
                                return;
                            }
                            let admission = intake.take(&worker);
                            let envelope = admission.and_then(|it| worker.process(it));
                            let Some(envelope) = envelope else { return };
                            if hand_over(&output, envelope, &worker.watch).is_err() {
                                return;
                            }
                        }
                    }
                })
            }
        })
    }

    pub(crate) fn put_batching<T: Send + 'static>(
        &mut self,
        stage: Arc<Stage>,
        input: Flow<T>,
        groups: Groups,
        naming: &OnceLock<Naming>,
    ) -> Result<Flow<Group<T>>, StartError> {
        check_reserves(&stage, false)?;
        self.part += 1;
        // It takes members and hands groups on; what it records are groups.
        self.recorder.name_items(&stage.name, self.naming(naming));
        let mut batcher = Batcher::new(Arc::clone(&stage), groups, self.firsts[self.part]);
        Ok(match input {
            Flow::Inline(mut before) => {
                let mut watch = self.called(&stage);
                watch.now(Doing::Nothing);
                let cancelled = Arc::clone(&self.cancelled);
                Flow::Inline(Box::new(move || {
                    let group = loop {
                        let member = watch.waiting_for_input(&mut before);
                        watch.item_begins();
                        match member {
                            Some(member) => {
                                if let Some(group) = batcher.add(member) {
                                    break Some(group);
                                }
                            }
                            // The end of the run is not the end of the items: half a group is none.
                            None if cancelled.load(SeqCst) => break None,
                            None => break batcher.take_rest(),
                        }
                    };
                    if let Some(group) = &group {
                        watch.item_ends(group.number);
                    }
                    watch.now(Doing::Nothing);
                    group
                }))
            }
            Flow::Tap(input) => {
                let recorder = self.recorder.clone();
                let once = Mutex::new(Some((batcher, input)));
                self.threads(&stage, |output| {
                    move |presence: &Presence| {
                        let Some((mut batcher, mut input)) = lock(&once).take() else {
                            return;
                        };
                        let mut watch = presence.watch(&recorder);
                        loop {
                            let member = watch.next_of(&mut input);
                            watch.item_begins();
                            let ended = member.is_none();
                            let group = match member {
                                Some(member) => batcher.add(member),
                                None => batcher.take_rest(),
                            };
                            let Some(group) = group else {
                                if ended {
                                    return;
                                }
                                continue;
                            };
                            watch.item_ends(group.number);
                            let last = matches!(group.content, Content::Failed(_));
                            if hand_over(&output, group, &watch).is_err() || last {
                                return;
                            }
                        }
                    }
                })
            }
        })
    }
}

fn check_reserves(stage: &Stage, can_reserve: bool) -> Result<(), StartError> {
    match &stage.enters {
        Some(budget) if !can_reserve => Err(StartError::ReservesNothing {
            stage: stage.name.clone(),
            budget: budget.name().to_owned(),
        }),
        _ => Ok(()),
    }
}

pub(crate) fn named(budgets: &[Arc<Budget>], name: Option<&str>) -> Option<Arc<Budget>> {
    let mut budgets = budgets.iter();
    budgets.find(|budget| Some(budget.name()) == name).cloned()
}

/// Puts an item into the buffer behind a stage. An error: nobody wants it any more.
fn hand_over<T>(
    output: &Buffer<Envelope<T>>,
    envelope: Envelope<T>,
    watch: &Watch,
) -> Result<(), Envelope<T>> {
    let number = envelope.number;
    let mut since = None;
    output.push(number, envelope, || {
        since = Some(watch.now(Doing::Blocked));
    })?;
    watch.waited(since, Wait::Output, Some(number));
    watch.level(output);
    Ok(())
}
