//! The full detail of a run's last part, in a file that Perfetto and chrome://tracing open.
//!
//! The newest events, up to a limit, are kept in memory and written when the run ends. Writing as
//! the run goes would keep all of them, but tens of gigabytes in a day.

mod chrome;
mod rare;
mod target;

use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::event::{Event, Nanos, SlotState, Stamped};
use crate::recorder::{ItemEvent, LaneShared};

use chrome::{ChromeWriter, Slice, TraceProcess};
use rare::write_rare;
use target::{TraceFile, canonical_path, partial_of};

/// Memory for these: 80 MB.
const MOST_EVENTS: usize = 2_000_000;
/// Steps, samples, decisions and the like: an hour and more of them.
const MOST_RARE: usize = 200_000;

/// Where a trace goes and how long it may be.
#[derive(Clone, Debug)]
pub struct TraceOptions {
    pub path: PathBuf,
    /// How many of the newest events of single items are kept, at 40 bytes each.
    pub most_events: usize,
}

impl TraceOptions {
    /// A trace into this file.
    pub fn new(path: impl Into<PathBuf>) -> TraceOptions {
        TraceOptions {
            path: path.into(),
            most_events: MOST_EVENTS,
        }
    }

    /// Whether the trace would be written over that file.
    pub(crate) fn overwrites(&self, file: &Path) -> bool {
        let (trace, file) = (canonical_path(&self.path), canonical_path(file));
        self.path == file || trace == file || partial_of(&trace) == file
    }
}

/// Why there is no trace.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    #[error("the trace cannot be {}: that is a folder", path.display())]
    IsAFolder { path: PathBuf },
    #[error("cannot create the trace {}", path.display())]
    Create { path: PathBuf, source: io::Error },
    #[error("cannot write the trace {}", path.display())]
    Write { path: PathBuf, source: io::Error },
}

/// The newest events in memory, and the file that they will go to.
#[derive(Debug)]
pub(crate) struct Trace {
    options: TraceOptions,
    target: TraceFile,
    lanes: Vec<Arc<LaneShared>>,
    events: VecDeque<(u32, ItemEvent)>,
    rare: VecDeque<Stamped>,
    /// Older ones, for which there was no more room.
    dropped: u64,
    /// Those that came too fast to be taken.
    lost: u64,
    run: Option<String>,
    /// Stages in the order of the plan.
    planned: Vec<String>,
}

impl Trace {
    pub(crate) fn create(options: TraceOptions) -> Result<Trace, TraceError> {
        let target = TraceFile::open(&options.path)?;
        Ok(Trace {
            options,
            target,
            lanes: Vec::new(),
            events: VecDeque::new(),
            rare: VecDeque::new(),
            dropped: 0,
            lost: 0,
            run: None,
            planned: Vec::new(),
        })
    }

    /// Gives the lane its number here.
    pub(crate) fn lane(&mut self, lane: &Arc<LaneShared>) -> u32 {
        self.lanes.push(Arc::clone(lane));
        (self.lanes.len() - 1) as u32
    }

    pub(crate) fn add(&mut self, lane: u32, events: &[ItemEvent], lost: u64) {
        self.lost += lost;
        for &event in events {
            if self.events.len() >= self.options.most_events {
                self.events.pop_front();
                self.dropped += 1;
            }
            self.events.push_back((lane, event));
        }
    }

    pub(crate) fn add_rare(&mut self, events: &[Stamped]) {
        for stamped in events {
            if let Event::RunStarted(started) = &stamped.event {
                self.run = Some(started.name.clone());
                if let Some(plan) = &started.plan {
                    self.planned = plan.stages.iter().map(|stage| stage.name.clone()).collect();
                    self.planned.push(plan.consumer.clone());
                }
            }
            if self.rare.len() >= MOST_RARE {
                self.rare.pop_front();
                self.dropped += 1;
            }
            self.rare.push_back(stamped.clone());
        }
    }

    /// What a reader of the trace should know.
    pub(crate) fn note(&self) -> Option<String> {
        (self.dropped > 0).then(|| {
            let kept = grouped(self.options.most_events as u64);
            let dropped = grouped(self.dropped);
            format!("the trace holds the newest {kept} events; {dropped} older ones are not in it")
        })
    }

    /// Writes the file and gives it its name. `now` ends what is still going on.
    pub(crate) fn write(mut self, now: Nanos) -> Result<(), TraceError> {
        let written = self.write_all(now).and_then(|()| self.target.done());
        written.map_err(|source| TraceError::Write {
            path: self.options.path,
            source,
        })
    }

    fn write_all(&mut self, now: Nanos) -> io::Result<()> {
        let file = self.target.file.try_clone()?;
        let mut out = ChromeWriter::begin(BufWriter::with_capacity(1 << 20, file))?;
        let run = self.run.clone().unwrap_or_else(|| "run".to_owned());
        let (steps, events) = self.write_lanes(&mut out, &run)?;
        self.write_slots(&mut out, now)?;
        out.thread(TraceProcess::Run, steps, "steps")?;
        out.thread(TraceProcess::Run, events, "events")?;
        for stamped in &self.rare {
            write_rare(&mut out, stamped, steps, events)?;
        }
        let facts = BTreeMap::from([
            ("run", run),
            ("dropped_events", (self.dropped + self.lost).to_string()),
            ("kept_events", self.events.len().to_string()),
        ]);
        out.end(&facts)?;
        Ok(())
    }

    /// Items, waits and levels of all workers; gives the thread numbers that come after theirs.
    fn write_lanes(
        &mut self,
        out: &mut ChromeWriter<BufWriter<File>>,
        run: &str,
    ) -> io::Result<(u32, u32)> {
        out.process(TraceProcess::Run, run)?;
        out.process(TraceProcess::Levels, "buffers and budgets")?;
        out.process(TraceProcess::Devices, "devices")?;
        let threads = self.threads();
        let mut after = 1;
        for ((_, _, worker), (thread, lane)) in &threads {
            let stage = &self.lanes[*lane].stage.name;
            out.thread(TraceProcess::Run, *thread, &format!("{stage} {worker}"))?;
            after = thread + 1;
        }
        let thread_of: Vec<u32> = (self.lanes.iter())
            .map(|lane| threads[&self.key(lane)].0)
            .collect();
        let sorted = self.events.make_contiguous();
        sorted.sort_unstable_by_key(|(lane, event)| {
            // Of those that start together, the outer one first, but after those without length.
            let (start, end) = (event.start(), event.end());
            let longest_first = (end > start, std::cmp::Reverse(end));
            (thread_of[*lane as usize], start, longest_first)
        });
        for (lane, event) in &self.events {
            let shared = &self.lanes[*lane as usize];
            let thread = thread_of[*lane as usize];
            let (name, category, item) = match *event {
                ItemEvent::Item { item, .. } => (shared.stage.item_name(item), "item", Some(item)),
                ItemEvent::Wait { wait, item, .. } => {
                    let name = format!("waits for {}", wait.name());
                    (name, "wait", item.number())
                }
                ItemEvent::Level {
                    buffer,
                    at,
                    items,
                    capacity,
                } => {
                    let name = format!("buffer {}", shared.buffer_name(buffer));
                    out.level(&name, at, [("items", items), ("capacity", capacity)])?;
                    continue;
                }
                ItemEvent::Slot { .. } => continue,
            };
            out.slice(&Slice {
                process: TraceProcess::Run,
                thread,
                name: &name,
                category,
                start: event.start(),
                end: event.end(),
                args: item.into(),
            })?;
        }
        Ok((after, after + 1))
    }

    /// Workers by the plan's order of their stages. One that comes again later, with a new lane,
    /// has the same thread. With each, one of its lanes.
    fn threads(&self) -> BTreeMap<(usize, String, u32), (u32, usize)> {
        let mut threads = BTreeMap::new();
        for (index, lane) in self.lanes.iter().enumerate() {
            threads.entry(self.key(lane)).or_insert((0, index));
        }
        for (number, (thread, _)) in threads.values_mut().enumerate() {
            *thread = number as u32 + 1;
        }
        threads
    }

    fn key(&self, lane: &LaneShared) -> (usize, String, u32) {
        let name = &lane.stage.name;
        let planned = self.planned.iter().position(|stage| stage == name);
        // Stages that no plan names come last, as they came up.
        let first = || self.lanes.iter().position(|lane| &lane.stage.name == name);
        let place = planned.unwrap_or_else(|| self.planned.len() + first().unwrap_or_default());
        (place, name.clone(), lane.worker)
    }

    fn write_slots(&self, out: &mut ChromeWriter<BufWriter<File>>, now: Nanos) -> io::Result<()> {
        let moves = self.events.iter().filter_map(|(_, event)| match *event {
            ItemEvent::Slot {
                place,
                item,
                at,
                to,
            } => Some((place, at, item, to)),
            _ => None,
        });
        let mut moves: Vec<(u32, Nanos, u64, SlotState)> = moves.collect();
        moves.sort_unstable();
        let mut named = None;
        for (index, &(place, at, item, to)) in moves.iter().enumerate() {
            let next = moves.get(index + 1).filter(|next| next.0 == place);
            if to == SlotState::Free {
                continue;
            }
            // Only places that are seen at work have a lane.
            if named.is_none() {
                out.process(TraceProcess::Slots, "slots")?;
            }
            if named != Some(place) {
                named = Some(place);
                out.thread(TraceProcess::Slots, place + 1, &format!("slot {place}"))?;
            }
            out.slice(&Slice {
                process: TraceProcess::Slots,
                thread: place + 1,
                name: &format!("{to:?}"),
                category: "slot",
                start: at,
                end: next.map_or(now.max(at), |next| next.1),
                args: Some(item).into(),
            })?;
        }
        Ok(())
    }
}

/// `2,000,000`
fn grouped(number: u64) -> String {
    let rest = number % 1_000;
    match number / 1_000 {
        0 => rest.to_string(),
        thousands => format!("{},{rest:03}", grouped(thousands)),
    }
}

#[cfg(test)]
mod tests;
