//! Batches for each phase of a profile.
//!
//! The run itself takes them from the pipeline, as `train` does. Before it come a few batches without overlap.
//! Before and after it come batches that are on the device already, with the workers idle (the floor) or at
//! work (interference): a thread then takes a batch off the pipeline for each that is trained on, and
//! discards it.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::Value;
use voxmill_analysis::run::phase;
use voxmill_data::batch::Batch;
use voxmill_data::batch_plan::Position;
use voxmill_pipeline::control::Control;
use voxmill_pipeline::resume::ResumePoint;
use voxmill_pipeline::run::{Delivery, Running};
use voxmill_pipeline::stage::Work;
use voxmill_telemetry::event::Event;
use voxmill_telemetry::recorder::Recorder;
use voxmill_trainer::prepare::ReadyBatch;
use voxmill_trainer::train::{Fed, Feed, FeedError};

use crate::session::feed::{after, in_memory, next_of};
use voxmill_data::Loader;

/// Which step is of which phase: `(name, steps)` one after another.
#[derive(Clone, Debug)]
pub(super) struct Phases(Vec<(&'static str, u64)>);

/// The share of the steps that a side phase gets, and the least it needs.
const SIDE_SHARE: u64 = 8;
const LEAST: u64 = 4;
/// Steps into a new phase that still pay for the old one.
const SETTLE: u64 = 1;

impl Phases {
    pub(super) fn new(steps: u64, warm_up: u64, overlap: bool) -> Phases {
        let side = (steps / SIDE_SHARE).max(LEAST);
        let mut phases = Vec::new();
        let mut settled = |name, settle, steps| {
            phases.extend([(phase::WARM_UP, settle), (name, steps)]);
        };
        // Before and after the run, so that a machine that gets slower or faster does not decide.
        if overlap {
            settled(phase::NO_OVERLAP, 2, side);
            settled(phase::FLOOR, SETTLE, side);
        }
        settled(phase::RUN, warm_up.max(1), steps);
        if overlap {
            settled(phase::INTERFERENCE, SETTLE, side);
        }
        settled(phase::FLOOR, SETTLE, side);
        if overlap {
            settled(phase::INTERFERENCE, SETTLE, side);
        }
        Phases(phases)
    }

    pub(super) fn steps(&self) -> u64 {
        self.0.iter().map(|(_, steps)| steps).sum()
    }

    pub(super) fn has_no_overlap(&self) -> bool {
        self.0.iter().any(|(name, _)| *name == phase::NO_OVERLAP)
    }

    /// `step` counts from 1; `None`: the run itself.
    pub(super) fn of(&self, step: u64) -> Option<&'static str> {
        let (name, _) = self.at(step)?;
        (name != phase::RUN).then_some(name)
    }

    /// The phase of a step, and the next one if the step is for settling into it.
    fn at(&self, step: u64) -> Option<(&'static str, Option<&'static str>)> {
        let mut before = 0;
        for (number, (name, steps)) in self.0.iter().enumerate() {
            before += steps;
            if step <= before {
                return Some((name, self.0.get(number + 1).map(|(next, _)| *next)));
            }
        }
        None
    }

    /// Where a step's batches come from: a warm-up is of the phase that it is for.
    fn source(&self, step: u64) -> &'static str {
        match self.at(step) {
            Some((phase::WARM_UP, Some(next))) => next,
            Some((name, _)) => name,
            None => phase::FLOOR,
        }
    }
}

pub(super) struct ProfileFeed<'a> {
    batches: &'a Loader,
    phases: Phases,
    /// Batches to a step.
    accumulate: u64,
    recorder: Recorder,
    pub(super) one_by_one: Option<Running<ReadyBatch>>,
    /// The last stage of the pipeline, until it is started.
    pub(super) start_of_run: Option<Work<Batch, ReadyBatch>>,
    pipeline: Option<Running<ReadyBatch>>,
    drain: Option<Drain>,
    given: u64,
    source: &'static str,
    announced: &'static str,
    /// The last batches of the run, for the floor.
    kept: Vec<ReadyBatch>,
    late: Option<String>,
    /// An injected delay: the model takes so much longer, asleep.
    asleep: Option<Duration>,
}

/// Batches that are kept for the floor: enough to have every shape.
const KEPT: usize = 24;

impl<'a> ProfileFeed<'a> {
    pub(super) fn new(
        batches: &'a Loader,
        phases: Phases,
        accumulate: u64,
        recorder: Recorder,
        asleep: Option<Duration>,
    ) -> ProfileFeed<'a> {
        ProfileFeed {
            batches,
            phases,
            accumulate,
            recorder,
            one_by_one: None,
            start_of_run: None,
            pipeline: None,
            drain: None,
            given: 0,
            source: "",
            announced: "",
            kept: Vec::new(),
            late: None,
            asleep,
        }
    }

    /// What happens next to the steps is counted by the phase that was begun last. The sums are closed
    /// first; that takes a moment, so it is done one step early.
    fn announce_phase(&mut self, step: u64) {
        let phase = match self.phases.at(step) {
            Some((phase::WARM_UP, _)) => {
                let last_of_warm_up = self.phases.at(step + 1);
                last_of_warm_up.map_or(phase::WARM_UP, |(name, _)| name)
            }
            Some((name, _)) => name,
            None => return,
        };
        if phase != self.announced {
            self.announced = phase;
            // A log that cannot be written is reported at the end.
            let _ = self.recorder.flush();
            self.recorder.record(Event::PhaseBegan {
                phase: phase.to_owned(),
            });
        }
    }

    /// Once at the beginning of each source.
    fn change_source(&mut self, source: &'static str) -> Result<(), FeedError> {
        match source {
            phase::NO_OVERLAP => {}
            phase::FLOOR if self.start_of_run.is_some() => {}
            phase::RUN => {
                let done = self.one_by_one.take().map_or(0, |r| r.resume_point().next);
                let prepare = self.start_of_run.take();
                let prepare = prepare.ok_or("the pipeline was started before")?;
                let from = ResumePoint::at(done);
                let recorder = self.recorder.clone();
                self.pipeline = Some(self.batches.start_with(from, None, prepare, recorder)?);
            }
            _ => {
                if let Some(pipeline) = self.pipeline.take() {
                    self.drain = Some(Drain::start(pipeline));
                }
                if source == phase::FLOOR
                    && let Some(drain) = &self.drain
                {
                    until_idle(&drain.control);
                }
            }
        }
        self.source = source;
        Ok(())
    }

    fn take(&mut self) -> Option<Result<Fed, FeedError>> {
        let step = self.given / self.accumulate + 1;
        self.given += 1;
        self.announce_phase(step);
        let source = self.phases.source(step);
        if source != self.source
            && let Err(error) = self.change_source(source)
        {
            return Some(Err(error));
        }
        let pipeline = match source {
            phase::NO_OVERLAP => self.one_by_one.as_mut(),
            phase::RUN => self.pipeline.as_mut(),
            _ => None,
        };
        let Some(pipeline) = pipeline else {
            if let (phase::INTERFERENCE, Some(drain)) = (source, &self.drain) {
                drain.one_more();
            }
            self.late = None;
            let number = self.given as usize % self.kept.len().max(1);
            return Some(Ok(in_memory(self.kept.get(number)?.clone())));
        };
        let (fed, late) = next_of(pipeline)?;
        self.late = late;
        if let Ok(fed) = &fed {
            if self.kept.len() == KEPT {
                self.kept.remove(0);
            }
            self.kept.push(fed.ready.clone());
        }
        Some(fed)
    }
}

impl Feed for ProfileFeed<'_> {
    fn next(&mut self) -> Option<Result<Fed, FeedError>> {
        let asleep = self.asleep;
        let fed = self.take()?;
        Some(fed.map(|Fed { ready, done }| Fed {
            ready,
            done: match asleep {
                None => done,
                // Within the step: its batch is released afterwards.
                Some(asleep) => Box::new(move || {
                    std::thread::sleep(asleep);
                    done();
                }),
            },
        }))
    }

    fn after(&self, position: Position) -> Position {
        after(self.batches, position)
    }

    fn position(&self) -> Value {
        Value::Null
    }

    fn late(&self) -> Option<String> {
        self.late.clone()
    }

    fn validation(
        &mut self,
    ) -> Result<Box<dyn Iterator<Item = Result<Batch, FeedError>> + '_>, FeedError> {
        Ok(Box::new(std::iter::empty()))
    }

    fn quarantine(&self) -> Vec<String> {
        Vec::new()
    }
}

/// Takes batches off the pipeline and discards them, one for each call.
struct Drain {
    control: Control,
    asks: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Drain {
    fn start(mut pipeline: Running<ReadyBatch>) -> Drain {
        let (asks, asked): (Sender<()>, Receiver<()>) = channel();
        let control = pipeline.control();
        let thread = std::thread::spawn(move || {
            for () in asked {
                match pipeline.next() {
                    Some(Ok(Delivery::Item(batch))) => batch.done(),
                    Some(Ok(Delivery::Gap(_))) => {}
                    // The model's own batches are there: what is measured is not harmed.
                    Some(Err(_)) | None => break,
                }
            }
        });
        Drain {
            control,
            asks: Some(asks),
            thread: Some(thread),
        }
    }

    fn one_more(&self) {
        if let Some(asks) = &self.asks {
            let _ = asks.send(());
        }
    }
}

impl Drop for Drain {
    fn drop(&mut self) {
        self.control.cancel();
        self.asks = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Workers are idle when their buffers are full, or nothing moves for a while.
fn until_idle(control: &Control) {
    const LONGEST: Duration = Duration::from_secs(30);
    const INTERVAL: Duration = Duration::from_millis(50);
    const STILL: u32 = 6;
    let levels = || {
        let stages = control.snapshot().stages;
        let levels = stages.iter().map(|stage| stage.buffered);
        levels.collect::<Vec<_>>()
    };
    let begin = Instant::now();
    let (mut last, mut still) = (levels(), 0);
    while still < STILL && begin.elapsed() < LONGEST {
        std::thread::sleep(INTERVAL);
        let now = levels();
        still = if now == last { still + 1 } else { 0 };
        last = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_phase_has_its_steps_and_a_warm_up_is_for_what_follows() {
        let phases = Phases::new(40, 5, true);
        let of: Vec<_> = (1..=phases.steps()).map(|step| phases.of(step)).collect();
        let count = |name| of.iter().filter(|phase| **phase == name).count();
        assert_eq!(count(None), 40);
        assert_eq!(count(Some(phase::NO_OVERLAP)), 5);
        assert_eq!(count(Some(phase::FLOOR)), 10);
        assert_eq!(count(Some(phase::INTERFERENCE)), 10);
        assert_eq!(phases.source(1), phase::NO_OVERLAP);
        assert_eq!(phases.source(8), phase::FLOOR);
        assert_eq!(phases.of(8), Some(phase::WARM_UP));
        assert_eq!(phases.source(14), phase::RUN);
        assert_eq!(phases.of(14), Some(phase::WARM_UP));
        assert_eq!(phases.of(19), None);
    }

    #[test]
    fn a_run_without_overlap_has_no_workers_to_interfere() {
        let phases = Phases::new(40, 5, false);
        assert!(!phases.has_no_overlap());
        let interference = Some(phase::INTERFERENCE);
        assert!((1..=phases.steps()).all(|step| phases.of(step) != interference));
    }
}
