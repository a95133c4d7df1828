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
use crate::control::{Shared, StageHandle};
use crate::group::{Collector, Group, Groups};
use crate::intake::Intake;
use crate::item::{Content, Envelope};
use crate::meter::{Doing, Meter, Watch};
use crate::plan::Plan;
use crate::pool::{Body, Pool, Presence};
use crate::position::Position;
use crate::slots::Slots;
use crate::source::{DoneBefore, Items, Source};
use crate::stage::{Asked, Faults, Stage, Work, Worker};

/// How items come out of a stage.
pub(crate) enum Flow<T> {
    /// From a buffer that threads fill, named after the stage.
    Buffer(Arc<Buffer<Envelope<T>>>),
    /// By doing the work here and now.
    Inline(Box<dyn FnMut() -> Option<Envelope<T>> + Send>),
}

/// Starts the threads of one stage.
pub(crate) type Start = Box<dyn FnOnce() -> io::Result<()>>;

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
    starts: Vec<Start>,
}

impl Assembly {
    pub(crate) fn new(
        plan: Plan,
        recorder: Recorder,
        position: &Position,
        groups: Vec<Groups>,
        skipped: u64,
    ) -> Result<Assembly, StartError> {
        let budgets = plan.budgets.iter();
        let budgets: Vec<_> = budgets
            .map(|budget| Budget::new(budget.name.clone(), budget.bytes))
            .collect();
        let slots = match &plan.slots {
            None => None,
            Some(slots) => {
                let named = |budget: &&Arc<Budget>| Some(budget.name()) == slots.budget.as_deref();
                Some(match budgets.iter().find(named) {
                    Some(budget) => {
                        Slots::within(slots.places(), slots.bytes_each, budget, recorder.clone())
                            .map_err(StartError::Slots)?
                    }
                    None => Slots::new(slots.places(), recorder.clone()),
                })
            }
        };
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

    pub(crate) fn finish(self, single: Vec<usize>) -> (Arc<Shared>, Vec<Start>) {
        let shared = Shared {
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
        let named = |budget: &&Arc<Budget>| Some(budget.name()) == planned.budget.as_deref();
        let naming = self.naming(naming);
        self.recorder.name_items(&planned.name, Arc::clone(&naming));
        let is_last = index + 1 == self.plan.stages.len();
        Arc::new(Stage {
            name: planned.name.clone(),
            on_error: planned.on_error,
            enters: match stays {
                true => None,
                false => self.budgets.iter().find(named).cloned(),
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

    /// Registers a stage that has threads, and what they do.
    fn threads<T: Send + 'static>(
        &mut self,
        stage: &Stage,
        output: &Arc<Buffer<Envelope<T>>>,
        body: Body,
    ) {
        let closes = Arc::clone(output);
        let pool = Pool::new(&stage.name, move || closes.close());
        let workers = self.plan.stages[self.next_stage - 1].workers.value;
        self.handles.push(StageHandle {
            name: stage.name.clone(),
            pool: Some(Arc::clone(&pool)),
            inline: None,
            buffer: Some(Arc::clone(output) as _),
        });
        self.starts
            .push(Box::new(move || pool.start(workers, body)));
    }

    /// Registers a stage that is called, and gives it something to tell its time with.
    fn called(&mut self, stage: &Stage) -> Watch {
        let meter = Arc::new(Meter::new());
        self.handles.push(StageHandle {
            name: stage.name.clone(),
            pool: None,
            inline: Some(Arc::clone(&meter)),
            buffer: None,
        });
        Watch::new(
            meter,
            self.recorder.lane(&stage.name, 0),
            self.recorder.clone(),
        )
    }

    pub(crate) fn put_source<T: Send + 'static>(
        &mut self,
        stage: Arc<Stage>,
        items: Items<T>,
    ) -> Flow<T> {
        let mut source = Source::new(
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
                watch.on_duty();
                watch.item_begins();
                let envelope = source.next();
                if let Some(envelope) = &envelope {
                    watch.item_ends(envelope.number);
                }
                watch.off_duty();
                envelope
            }));
        }
        let output = self.buffer();
        let (recorder, to) = (self.recorder.clone(), Arc::clone(&output));
        let source = Mutex::new(Some(source));
        let body = move |presence: &Presence| {
            let Some(mut source) = lock(&source).take() else {
                return;
            };
            let mut watch = presence.watch(&recorder);
            watch.item_begins();
            while let Some(envelope) = source.next() {
                watch.item_ends(envelope.number);
                if hand_over(&to, envelope, &watch).is_err() {
                    return;
                }
                watch.item_begins();
            }
        };
        self.threads(&stage, &output, Arc::new(body));
        Flow::Buffer(output)
    }

    pub(crate) fn put_stage<T: Send + 'static, U: Send + 'static>(
        &mut self,
        stage: Arc<Stage>,
        input: Flow<T>,
        work: Work<T, U>,
    ) -> Result<Flow<U>, StartError> {
        if stage.on_error.retries > 0 && !work.can_retry() {
            return Err(StartError::CannotRetry {
                stage: stage.name.clone(),
            });
        }
        check_reserves(&stage, work.can_reserve())?;
        Ok(match input {
            Flow::Inline(mut before) => {
                let watch = self.called(&stage);
                let mut worker = Worker::new(stage, work, watch);
                worker.watch.off_duty();
                Flow::Inline(Box::new(move || {
                    let envelope = worker.watch.waiting_for_input(&mut before);
                    let envelope =
                        envelope.and_then(|envelope| match worker.ask(envelope, false) {
                            Asked::Admitted(number, item, room, held) => {
                                Some(worker.process(number, item, room, held))
                            }
                            Asked::Passed(envelope) => Some(worker.pass(envelope)),
                            Asked::Cancelled => None,
                        });
                    worker.watch.off_duty();
                    envelope
                }))
            }
            Flow::Buffer(input) => {
                let output = self.buffer();
                let intake = Intake::new(input);
                let recorder = self.recorder.clone();
                let (to, at) = (Arc::clone(&output), Arc::clone(&stage));
                let body = move |presence: &Presence| {
                    let watch = presence.watch(&recorder);
                    let mut worker = Worker::new(Arc::clone(&at), work.clone(), watch);
                    while !presence.is_surplus() {
                        if worker.cannot_work() && presence.leaves_it_to_others() {
                            worker.report_why_not();
                            return;
                        }
                        let envelope = match intake.take(&worker) {
                            None | Some(Asked::Cancelled) => return,
                            Some(Asked::Passed(envelope)) => worker.pass(envelope),
                            Some(Asked::Admitted(number, item, room, held)) => {
                                worker.process(number, item, room, held)
                            }
                        };
                        if hand_over(&to, envelope, &worker.watch).is_err() {
                            return;
                        }
                    }
                };
                self.threads(&stage, &output, Arc::new(body));
                Flow::Buffer(output)
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
        let mut collector = Collector::new(Arc::clone(&stage), groups, self.firsts[self.part]);
        Ok(match input {
            Flow::Inline(mut before) => {
                let mut watch = self.called(&stage);
                watch.off_duty();
                let cancelled = Arc::clone(&self.cancelled);
                Flow::Inline(Box::new(move || {
                    let group = loop {
                        let member = watch.waiting_for_input(&mut before);
                        watch.item_begins();
                        match member {
                            Some(member) => {
                                if let Some(group) = collector.add(member) {
                                    break Some(group);
                                }
                            }
                            // The end of the run is not the end of the items: half a group is none.
                            None if cancelled.load(SeqCst) => break None,
                            None => break collector.take_rest(),
                        }
                    };
                    if let Some(group) = &group {
                        watch.item_ends(group.number);
                    }
                    watch.off_duty();
                    group
                }))
            }
            Flow::Buffer(input) => {
                let output = self.buffer();
                let (recorder, to) = (self.recorder.clone(), Arc::clone(&output));
                let collector = Mutex::new(Some(collector));
                let body = move |presence: &Presence| {
                    let Some(mut collector) = lock(&collector).take() else {
                        return;
                    };
                    let mut watch = presence.watch(&recorder);
                    let mut tap = Tap::new(Arc::clone(&input));
                    loop {
                        let mut since = None;
                        let member = tap.next(|| since = Some(watch.waits(Doing::Starved)));
                        let number = member.as_ref().map(|member| member.number);
                        watch.waited(since, Wait::Input, number);
                        watch.level(&input);
                        watch.item_begins();
                        let ended = member.is_none();
                        let group = match member {
                            Some(member) => collector.add(member),
                            None => collector.take_rest(),
                        };
                        match group {
                            None if ended => return,
                            None => {}
                            Some(group) => {
                                watch.item_ends(group.number);
                                let last = matches!(group.content, Content::Failed(_));
                                if hand_over(&to, group, &watch).is_err() || last {
                                    return;
                                }
                            }
                        }
                    }
                };
                self.threads(&stage, &output, Arc::new(body));
                Flow::Buffer(output)
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

/// Puts an item into the buffer behind a stage. An error: nobody wants it any more.
fn hand_over<T>(
    output: &Buffer<Envelope<T>>,
    envelope: Envelope<T>,
    watch: &Watch,
) -> Result<(), Envelope<T>> {
    let number = envelope.number;
    let mut since = None;
    output.push(number, envelope, || {
        since = Some(watch.waits(Doing::Blocked));
    })?;
    watch.waited(since, Wait::Output, Some(number));
    watch.level(output);
    Ok(())
}
