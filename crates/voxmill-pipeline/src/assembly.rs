//! A pipeline while it is being put together: stages become threads with buffers between them, or, where
//! they are not to overlap, functions that call each other.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
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

impl<T> Flow<T> {
    pub(crate) fn next(&mut self, watch: &Watch) -> Option<Envelope<T>> {
        match self {
            Flow::Inline(take) => watch.waiting_for_input(take),
            Flow::Tap(tap) => watch.next_of(tap),
        }
    }
}

/// Starts the threads of one stage.
pub(crate) type StartThreads = Box<dyn FnOnce() -> io::Result<()>>;

pub(crate) struct Assembly {
    shared: RunShared,
    /// The first number of each part of the pipeline, the source's part first.
    firsts: Vec<u64>,
    part: usize,
    next_stage: usize,
    done_before: DoneBefore,
    starts: Vec<StartThreads>,
}

impl Assembly {
    pub(crate) fn new(
        plan: Plan,
        recorder: Recorder,
        from: &ResumePoint,
        groups: Vec<Groups>,
        single: Vec<usize>,
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
        let mut firsts = vec![from.next];
        for groups in groups.iter().rev() {
            firsts.insert(0, groups.first_of(firsts[0]));
        }
        Ok(Assembly {
            shared: RunShared {
                faults: Arc::new(Faults {
                    recorder: recorder.clone(),
                    skipped: AtomicU64::new(skipped),
                    max_skipped: plan.max_skipped,
                }),
                plan,
                recorder,
                stages: Vec::new(),
                single,
                budgets,
                slots,
                cancelled: Arc::default(),
            },
            done_before: DoneBefore::new(from, groups, &firsts),
            firsts,
            part: 0,
            next_stage: 0,
            starts: Vec::new(),
        })
    }

    pub(crate) fn first_item(&self) -> u64 {
        self.firsts[0]
    }

    pub(crate) fn finish(self) -> (Arc<RunShared>, Vec<StartThreads>) {
        (Arc::new(self.shared), self.starts)
    }

    /// The next stage of the plan.
    pub(crate) fn stage(&mut self, naming: &OnceLock<Naming>) -> Arc<Stage> {
        let index = self.next_stage;
        self.next_stage += 1;
        let planned = &self.shared.plan.stages[index];
        let budget_before = index
            .checked_sub(1)
            .and_then(|before| self.shared.plan.stages[before].budget.as_ref());
        let stays = planned.budget.as_ref() == budget_before;
        let naming = self.naming(naming);
        self.shared
            .recorder
            .name_items(&planned.name, Arc::clone(&naming));
        let is_last = index + 1 == self.shared.plan.stages.len();
        Arc::new(Stage {
            name: planned.name.clone(),
            on_error: planned.on_error,
            enters: match stays {
                true => None,
                false => named(&self.shared.budgets, planned.budget.as_deref()),
            },
            holds_on: stays,
            slots: self.shared.slots.clone().filter(|_| is_last),
            naming,
            faults: Arc::clone(&self.shared.faults),
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
        let consumer = &self.shared.plan.consumer;
        self.shared
            .recorder
            .name_items(consumer, self.naming(naming));
    }

    fn buffer<T>(&self) -> Arc<Buffer<Envelope<T>>> {
        let index = self.next_stage - 1;
        let first = self.firsts[self.part];
        // Where there are slots, they bound what is behind the last stage.
        let capacity = match &self.shared.plan.slots {
            Some(slots) if index + 1 == self.shared.plan.stages.len() => slots.places(),
            _ => self.shared.plan.stages[index].buffer.value,
        };
        let name = self.shared.plan.stages[index].name.as_str();
        Arc::new(Buffer::new(name, self.shared.plan.order, capacity, first))
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
        let workers = self.shared.plan.stages[self.next_stage - 1].workers.value;
        self.shared.stages.push(StageHandle {
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
        self.shared.stages.push(StageHandle {
            name: stage.name.clone(),
            pool: None,
            inline: Some(Arc::clone(&meter)),
            buffer: None,
        });
        let lane = self.shared.recorder.lane(&stage.name, 0);
        Watch::new(meter, lane, self.shared.recorder.clone())
    }

    pub(crate) fn put_source<T: Send + 'static>(
        &mut self,
        stage: Arc<Stage>,
        items: Items<T>,
    ) -> Flow<T> {
        let mut source = NumberedSource {
            stage: Arc::clone(&stage),
            items,
            next: self.first_item(),
            done_before: self.done_before.clone(),
            ended: false,
        };
        let cancelled = Arc::clone(&self.shared.cancelled);
        self.put_single(&stage, move |watch| {
            watch.item_begins();
            match cancelled.load(SeqCst) {
                true => None,
                false => source.next(),
            }
        })
    }

    /// A stage with one worker, whose items come from a function.
    fn put_single<T: Send + 'static>(
        &mut self,
        stage: &Stage,
        mut next: impl FnMut(&mut Watch) -> Option<Envelope<T>> + Send + 'static,
    ) -> Flow<T> {
        if !self.shared.plan.overlap {
            let mut watch = self.called(stage);
            watch.now(Doing::Nothing);
            return Flow::Inline(Box::new(move || {
                watch.now(Doing::Working);
                let envelope = next(&mut watch);
                if let Some(envelope) = &envelope {
                    watch.item_ends(envelope.number);
                }
                watch.now(Doing::Nothing);
                envelope
            }));
        }
        let recorder = self.shared.recorder.clone();
        let next = Mutex::new(Some(next));
        self.threads(stage, |output| {
            move |presence: &Presence| {
                let Some(mut next) = lock(&next).take() else {
                    return;
                };
                let mut watch = presence.watch(&recorder);
                while let Some(envelope) = next(&mut watch) {
                    watch.item_ends(envelope.number);
                    let last = matches!(envelope.content, Content::Failed(_));
                    if hand_over(&output, envelope, &watch).is_err() || last {
                        return;
                    }
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
                let (recorder, at) = (self.shared.recorder.clone(), Arc::clone(&stage));
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
        mut input: Flow<T>,
        groups: Groups,
        naming: &OnceLock<Naming>,
    ) -> Result<Flow<Group<T>>, StartError> {
        check_reserves(&stage, false)?;
        self.part += 1;
        // It takes members and hands groups on; what it records are groups.
        self.shared
            .recorder
            .name_items(&stage.name, self.naming(naming));
        let mut batcher = Batcher::new(Arc::clone(&stage), groups, self.firsts[self.part]);
        let cancelled = Arc::clone(&self.shared.cancelled);
        Ok(self.put_single(&stage, move |watch| {
            loop {
                let member = input.next(watch);
                watch.item_begins();
                match member {
                    Some(member) => {
                        if let Some(group) = batcher.add(member) {
                            return Some(group);
                        }
                    }
                    // The end of the run is not the end of the items: half a group is none.
                    None if cancelled.load(SeqCst) => return None,
                    None => return batcher.take_rest(),
                }
            }
        }))
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
