//! What is under way, and when it ends. Work that waits ends at its time; work that computes shares the cores: where
//! more threads compute than there are cores, all of them slow down alike.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use super::setup::Demand;

/// A kind of work that ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Ended<W> {
    pub(super) at: u64,
    pub(super) work: W,
    pub(super) began: u64,
}

#[derive(Debug)]
pub(super) struct UnderWay<W> {
    pub(super) now: u64,
    cores: Option<f64>,
    /// Threads that compute.
    threads: f64,
    /// How much work each computing thread has done since the beginning: the one clock that all of them share.
    done: f64,
    waiting: BinaryHeap<Entry<u64, W>>,
    computing: BinaryHeap<Entry<f64, W>>,
    started: u64,
}

#[derive(Debug)]
struct Entry<T, W> {
    until: T,
    /// What was started first ends first, of two that end together.
    turn: u64,
    began: u64,
    /// What it computes once it has waited.
    then: Demand,
    work: W,
}

impl<T: PartialOrd, W> Ord for Entry<T, W> {
    fn cmp(&self, other: &Self) -> Ordering {
        let until = other.until.partial_cmp(&self.until);
        until
            .unwrap_or(Ordering::Equal)
            .then(other.turn.cmp(&self.turn))
    }
}

impl<T: PartialOrd, W> PartialOrd for Entry<T, W> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T: PartialOrd, W> PartialEq for Entry<T, W> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<T: PartialOrd, W> Eq for Entry<T, W> {}

impl<W: Copy> UnderWay<W> {
    pub(super) fn new(cores: Option<f64>) -> UnderWay<W> {
        UnderWay {
            now: 0,
            cores,
            threads: 0.0,
            done: 0.0,
            waiting: BinaryHeap::new(),
            computing: BinaryHeap::new(),
            started: 0,
        }
    }

    pub(super) fn start(&mut self, demand: Demand, work: W) {
        self.started += 1;
        let entry = |until, then| Entry {
            until,
            turn: self.started,
            began: self.now,
            then,
            work,
        };
        if self.cores.is_none() {
            let end = self.now + demand.alone();
            self.waiting.push(entry(end, Demand::default()));
        } else if demand.waits > 0 || demand.computes == 0 {
            self.waiting.push(entry(self.now + demand.waits, demand));
        } else {
            self.compute(demand, self.started, self.now, work);
        }
    }

    fn compute(&mut self, demand: Demand, turn: u64, began: u64, work: W) {
        self.threads += demand.threads;
        self.computing.push(Entry {
            until: self.done + demand.computes as f64,
            turn,
            began,
            then: demand,
            work,
        });
    }

    /// Work of each computing thread in a nanosecond.
    fn pace(&self) -> f64 {
        match self.cores {
            Some(cores) if self.threads > cores => cores / self.threads,
            _ => 1.0,
        }
    }

    /// The next work that ends; `None` where nothing is under way.
    pub(super) fn next(&mut self) -> Option<Ended<W>> {
        loop {
            let pace = self.pace();
            let computed = self.computing.peek().map(|entry| {
                let left = (entry.until - self.done).max(0.0) / pace;
                self.now + left.ceil() as u64
            });
            let waited = self.waiting.peek().map(|entry| entry.until);
            let computes_first = match (computed, waited) {
                (None, None) => return None,
                (Some(computed), Some(waited)) => computed < waited,
                (computed, _) => computed.is_some(),
            };
            let at = if computes_first { computed } else { waited };
            let at = at.unwrap_or(self.now);
            if !self.computing.is_empty() {
                self.done += (at - self.now) as f64 * pace;
            }
            self.now = at;
            if computes_first {
                let entry = self.computing.pop()?;
                self.done = self.done.max(entry.until);
                self.threads -= entry.then.threads;
                if self.computing.is_empty() {
                    // No rounding is carried on.
                    (self.threads, self.done) = (0.0, 0.0);
                }
                return Some(self.ended(entry.began, entry.work));
            }
            let entry = self.waiting.pop()?;
            if entry.then.computes == 0 {
                return Some(self.ended(entry.began, entry.work));
            }
            self.compute(entry.then, entry.turn, entry.began, entry.work);
        }
    }

    fn ended(&self, began: u64, work: W) -> Ended<W> {
        Ended {
            at: self.now,
            work,
            began,
        }
    }
}
