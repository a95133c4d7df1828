//! The trace event format: one JSON object with a list of slices, counters, marks and names.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde::Serialize;

use crate::event::{Event, Nanos};
use crate::shape::StepShape;

/// How every trace of ours begins.
pub(super) const HEAD: &[u8] = b"{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n";

/// The groups that a trace viewer shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TraceProcess {
    Run = 1,
    Slots = 2,
    Levels = 3,
    Devices = 4,
}

/// Something that took time.
pub(super) struct Slice<'a> {
    pub(super) process: TraceProcess,
    pub(super) thread: u32,
    pub(super) name: &'a str,
    pub(super) category: &'a str,
    pub(super) start: Nanos,
    pub(super) end: Nanos,
    pub(super) args: Args,
}

#[derive(Clone, Copy, Default, Serialize)]
pub(super) struct Args {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) item: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) step: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) shape: Option<StepShape>,
}

impl From<Option<u64>> for Args {
    fn from(item: Option<u64>) -> Args {
        Args {
            item,
            ..Args::default()
        }
    }
}

/// One entry of the list. Times are in microseconds.
#[derive(Serialize)]
struct TraceEntry<'a, A> {
    ph: &'a str,
    pid: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    tid: Option<u32>,
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    cat: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ts: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dur: Option<f64>,
    /// How wide a mark is drawn.
    #[serde(skip_serializing_if = "Option::is_none")]
    s: Option<&'a str>,
    args: A,
}

impl<'a, A> TraceEntry<'a, A> {
    fn new(ph: &'a str, process: TraceProcess, name: &'a str, args: A) -> TraceEntry<'a, A> {
        TraceEntry {
            ph,
            pid: process as u32,
            tid: None,
            name,
            cat: None,
            ts: None,
            dur: None,
            s: None,
            args,
        }
    }
}

fn micros(span: Nanos) -> f64 {
    span.0 as f64 / 1e3
}

/// Writes entries as they come; nothing but the open slices of one thread is kept.
pub(super) struct ChromeWriter<W> {
    out: W,
    first: bool,
    /// The thread of the last slice, and the slices that it lies in, outermost first.
    thread: (u32, u32),
    around: Vec<(Nanos, Nanos)>,
}

impl<W: Write> ChromeWriter<W> {
    pub(super) fn begin(mut out: W) -> io::Result<ChromeWriter<W>> {
        out.write_all(HEAD)?;
        Ok(ChromeWriter {
            out,
            first: true,
            thread: (0, 0),
            around: Vec::new(),
        })
    }

    pub(super) fn end(mut self, facts: &BTreeMap<&str, String>) -> io::Result<W> {
        self.out.write_all(b"\n],\"otherData\":")?;
        serde_json::to_writer(&mut self.out, facts)?;
        self.out.write_all(b"}\n")?;
        self.out.flush()?;
        Ok(self.out)
    }

    pub(super) fn process(&mut self, process: TraceProcess, name: &str) -> io::Result<()> {
        let named = BTreeMap::from([("name", name)]);
        self.entry(&TraceEntry::new("M", process, "process_name", named))?;
        let place = BTreeMap::from([("sort_index", process as u32)]);
        self.entry(&TraceEntry::new("M", process, "process_sort_index", place))
    }

    pub(super) fn thread(
        &mut self,
        process: TraceProcess,
        thread: u32,
        name: &str,
    ) -> io::Result<()> {
        let named = BTreeMap::from([("name", name)]);
        self.entry(&TraceEntry {
            tid: Some(thread),
            ..TraceEntry::new("M", process, "thread_name", named)
        })?;
        let place = BTreeMap::from([("sort_index", thread)]);
        self.entry(&TraceEntry {
            tid: Some(thread),
            ..TraceEntry::new("M", process, "thread_sort_index", place)
        })
    }

    /// Slices of a thread come in the order of their start, one thread after another.
    pub(super) fn slice(&mut self, slice: &Slice<'_>) -> io::Result<()> {
        let thread = (slice.process as u32, slice.thread);
        if self.thread != thread {
            self.thread = thread;
            self.around.clear();
        }
        let (start, end) = self.fit(slice.start, slice.end);
        self.entry(&TraceEntry {
            tid: Some(slice.thread),
            cat: Some(slice.category),
            ts: Some(micros(start)),
            dur: Some(micros(end.since(start))),
            ..TraceEntry::new("X", slice.process, slice.name, slice.args)
        })
    }

    /// Viewers draw slices next to or within each other, and garble those that half overlap. Such
    /// come from clocks read at slightly different moments: the later one gives way.
    fn fit(&mut self, mut start: Nanos, end: Nanos) -> (Nanos, Nanos) {
        let end = end.max(start);
        while let Some(&(outer_start, outer_end)) = self.around.last() {
            start = start.max(outer_start);
            if start < outer_end && end <= outer_end {
                break;
            }
            start = start.max(outer_end.min(end));
            self.around.pop();
        }
        let end = end.max(start);
        self.around.push((start, end));
        (start, end)
    }

    pub(super) fn counter(
        &mut self,
        process: TraceProcess,
        name: &str,
        at: Nanos,
        series: &[(&str, f64)],
    ) -> io::Result<()> {
        let series: BTreeMap<&str, f64> = series.iter().copied().collect();
        self.entry(&TraceEntry {
            ts: Some(micros(at)),
            ..TraceEntry::new("C", process, name, series)
        })
    }

    /// How full something is, and how full it may be.
    pub(super) fn level(
        &mut self,
        name: &str,
        at: Nanos,
        series: [(&str, u64); 2],
    ) -> io::Result<()> {
        let series = series.map(|(name, value)| (name, value as f64));
        self.counter(TraceProcess::Levels, name, at, &series)
    }

    pub(super) fn instant(
        &mut self,
        thread: u32,
        name: &str,
        at: Nanos,
        event: &Event,
    ) -> io::Result<()> {
        self.entry(&TraceEntry {
            tid: Some(thread),
            ts: Some(micros(at)),
            // On its thread only: it is a mark among many, not a line through all lanes.
            s: Some("t"),
            ..TraceEntry::new("i", TraceProcess::Run, name, event)
        })
    }

    fn entry(&mut self, entry: &impl Serialize) -> io::Result<()> {
        if !std::mem::take(&mut self.first) {
            self.out.write_all(b",\n")?;
        }
        Ok(serde_json::to_writer(&mut self.out, entry)?)
    }
}
