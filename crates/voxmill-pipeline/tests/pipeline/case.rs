//! A random pipeline, and what must come out of it.
//!
//! Whether an item fails, how large it is and how long it takes are functions of the case, the stage
//! and the item's number. So a plain loop without threads computes what must come out.

use std::collections::BTreeMap;

use voxmill_pipeline::control::Control;

use crate::common::*;
use crate::test_items::{Gauges, Parts, pipeline};

/// The largest item, in bytes of the host budget.
const LARGEST: u64 = 10;

#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) items: u64,
    pub(crate) source: StageCase,
    pub(crate) stages: Vec<StageCase>,
    pub(crate) order: Order,
    pub(crate) overlap: bool,
    pub(crate) gate: bool,
    /// The stages (first and last) whose items are within the host budget, and how many times what
    /// is needed at least it holds. Zero: enough for any item, but perhaps not for a batch.
    pub(crate) budget: Option<(usize, usize, u64)>,
    pub(crate) slots_ahead: Option<usize>,
    pub(crate) max_skipped: Option<u64>,
    pub(crate) end: End,
    pub(crate) changes: Vec<(Duration, LiveChange)>,
    pub(crate) salt: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct StageCase {
    /// Items are put together by so many before this stage.
    pub(crate) batch: Option<u64>,
    pub(crate) workers: usize,
    pub(crate) capacity: usize,
    pub(crate) retries: u32,
    pub(crate) then: AfterError,
    pub(crate) errors_permille: u64,
    pub(crate) panics_permille: u64,
    pub(crate) longest_micros: u64,
}

/// How the first run ends; one that ends early is resumed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum End {
    Finish,
    /// By another thread, while the consumer takes items.
    Cancel(Duration),
    /// The consumer stops after so many.
    Drop(usize),
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum LiveChange {
    Workers(usize, usize),
    Capacity(usize, usize),
    /// As a multiple of what is needed at least, like the case's own.
    Budget(u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// The first few tries fail.
    Errors(u32),
    Panics,
}

impl Case {
    /// Different for every purpose, stage and item, and always the same.
    fn draw(&self, purpose: u64, stage: usize, number: u64) -> u64 {
        let mut z = self.salt ^ (purpose << 56) ^ ((stage as u64) << 40) ^ number;
        z = z.wrapping_add(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn trouble(&self, stage: usize, number: u64, of: &StageCase) -> Option<Trouble> {
        match self.draw(1, stage, number) % 1000 {
            draw if draw < of.errors_permille => Some(Trouble::Errors(match draw % 3 {
                0 => u32::MAX,
                tries => tries as u32,
            })),
            draw if draw < of.errors_permille + of.panics_permille => Some(Trouble::Panics),
            _ => None,
        }
    }

    pub(crate) fn takes_a_while(&self, stage: usize, number: u64, of: &StageCase) {
        if of.longest_micros > 0 {
            let micros = self.draw(2, stage, number) % of.longest_micros;
            if micros > 50 {
                std::thread::sleep(Duration::from_micros(micros));
            } else {
                let until = Instant::now() + Duration::from_micros(micros);
                while Instant::now() < until {
                    std::hint::spin_loop();
                }
            }
        }
    }

    pub(crate) fn largest_bytes(&self, stage: usize, number: u64) -> u64 {
        1 + self.draw(3, stage, number) % LARGEST
    }

    pub(crate) fn is_in_budget(&self, stage: usize) -> bool {
        self.budget
            .is_some_and(|(from, to, _)| (from..=to).contains(&stage))
    }

    pub(crate) fn enters_budget(&self, stage: usize) -> bool {
        self.budget.is_some_and(|(from, ..)| from == stage)
    }

    /// The members of a group hold their bytes until the group is made into one.
    pub(crate) fn batch_is_in_budget(&self, stage: usize) -> bool {
        stage > 0 && self.is_in_budget(stage - 1)
    }

    /// The sizes of batches that are put together within the budget.
    fn batches_in_budget(&self) -> impl Iterator<Item = u64> {
        let stages = self.stages.iter().enumerate();
        stages
            .filter(|(index, _)| self.batch_is_in_budget(*index))
            .filter_map(|(_, stage)| stage.batch)
    }

    /// With less than once this, a batch could not be finished.
    fn budget_bytes(&self, times: u64) -> u64 {
        match times {
            0 => LARGEST,
            times => LARGEST * self.batches_in_budget().product::<u64>() * times,
        }
    }

    /// The budget, in the multiples it has in the course of the run.
    fn budget_times(&self) -> impl Iterator<Item = u64> {
        let changes = self.changes.iter().filter_map(|(_, change)| match change {
            LiveChange::Budget(times) => Some(*times),
            _ => None,
        });
        self.budget
            .into_iter()
            .flat_map(move |(.., times)| changes.clone().chain([times]))
    }

    /// Whether batches may be refused for want of bytes.
    fn may_not_fit(&self) -> bool {
        let too_small = || self.budget_times().any(|times| times == 0);
        self.batches_in_budget().next().is_some() && too_small()
    }

    pub(crate) fn places(&self) -> u64 {
        self.slots_ahead.map_or(0, |ahead| ahead as u64 + 1)
    }

    pub(crate) fn plan(&self) -> Plan {
        let mut plan = Plan {
            order: self.order,
            overlap: self.overlap,
            max_skipped: self.max_skipped,
            start_delay_seconds: if self.gate { 0.000_5 } else { 0.0 },
            ..Plan::new("random", "consumer")
        };
        let mut budget = |name: &str, bytes: u64| {
            let name = name.to_owned();
            plan.budgets.push(BudgetPlan { name, bytes });
        };
        if let Some((.., times)) = self.budget {
            budget("host", self.budget_bytes(times));
        }
        if let Some(ahead) = self.slots_ahead {
            budget("device", 7 * self.places());
            plan.slots = Some(SlotsPlan {
                ahead: Setting::from(ahead),
                bytes_each: 7,
                budget: Some("device".into()),
            });
        }
        plan
    }

    /// Groups cannot be copied, and a copy of what counts its bytes would count them twice.
    pub(crate) fn retries(&self, index: usize, of: &StageCase) -> u32 {
        let can = of.batch.is_none() && !self.batch_is_in_budget(index);
        if can { of.retries } else { 0 }
    }
}

pub(crate) fn batch_name(index: usize) -> String {
    format!("b{index}")
}

pub(crate) fn stage_name(index: usize) -> String {
    format!("s{index}")
}

/// The source among the stages.
pub(crate) const SOURCE: usize = 99;

/// What came out of a run.
#[derive(Debug, Default)]
pub(crate) struct Out {
    /// By the consumer's number; nothing for a gap.
    delivered: Vec<(u64, Option<Parts>)>,
    failure: Option<RunFailure>,
    resume_point: ResumePoint,
}

/// Runs the case from there on and checks everything but what came out.
pub(crate) fn run(case: &Arc<Case>, from: ResumePoint, end: End, more_workers: usize) -> Out {
    let gauges = Arc::new(Gauges::default());
    let mut running = start(pipeline(case, more_workers, &gauges).resume_at(from));
    let mut out = Out::default();
    let over = Arc::new(AtomicU64::new(0));
    let changer = {
        let (case, control, over) = (Arc::clone(case), running.control(), Arc::clone(&over));
        std::thread::spawn(move || change(&case, &control, end, &over))
    };
    let enough = match end {
        End::Drop(enough) => enough,
        _ => usize::MAX,
    };
    while out.delivered.len() < enough {
        match running.next() {
            None => break,
            Some(Err(failure)) => {
                out.failure = Some(failure);
                assert!(running.next().is_none(), "an end is an end");
                break;
            }
            Some(Ok(Delivery::Gap(gap))) => out.delivered.push((gap.number, None)),
            Some(Ok(Delivery::Item(item))) => {
                assert_eq!(item.number(), item.number);
                let parts = Some(item.parts.clone());
                out.delivered.push((item.number(), parts));
                item.done();
            }
        }
    }
    out.resume_point = running.resume_point();
    drop(running);
    // Whoever cancels drops what was in the buffers.
    over.store(1, SeqCst);
    changer.thread().unpark();
    changer.join().unwrap();
    let left = [&gauges.workers, &gauges.items, &gauges.bytes].map(|it| it.now.load(SeqCst));
    assert_eq!(
        left, [0; 3],
        "workers not joined, items and bytes not released"
    );
    let limits = case.budget_times().map(|times| case.budget_bytes(times));
    let most = limits.max().unwrap_or(0);
    assert!(gauges.bytes.peak.load(SeqCst) <= most, "above the budget");
    assert!(gauges.places.peak.load(SeqCst) <= case.places());
    out
}

fn change(case: &Case, control: &Control, end: End, over: &AtomicU64) {
    let mut changes = case.changes.iter().cycle().take(20);
    let cancel_at = match end {
        End::Cancel(after) => Some(Instant::now() + after),
        _ => None,
    };
    while over.load(SeqCst) == 0 {
        if cancel_at.is_some_and(|at| Instant::now() >= at) {
            return control.cancel();
        }
        let Some((pause, change)) = changes.next() else {
            match cancel_at {
                Some(at) => std::thread::park_timeout(at - Instant::now()),
                None => return,
            }
            continue;
        };
        let name = |stage: &usize| stage_name(stage % case.stages.len().max(1));
        // Refusals (no such stage, no overlap, slots) are part of it.
        let _ = match change {
            LiveChange::Workers(stage, workers) => control.set_workers(&name(stage), *workers),
            LiveChange::Capacity(stage, items) => control.set_capacity(&name(stage), *items),
            LiveChange::Budget(times) => control.set_budget("host", case.budget_bytes(*times)),
        };
        std::thread::park_timeout(*pause);
    }
}

/// What there must be for a number.
#[derive(Clone, Debug, PartialEq)]
enum Expected {
    Item(Parts),
    Gap,
    Failed,
}

/// What must come out, computed by a loop; and how many items are skipped on the way.
fn expected(case: &Case) -> (Vec<Expected>, u64) {
    let mut skipped = 0;
    let mut after = |then: AfterError| match then {
        AfterError::Skip => {
            skipped += 1;
            Expected::Gap
        }
        AfterError::Stop => Expected::Failed,
    };
    let mut all = Vec::new();
    for number in 0..case.items {
        let content = match case.trouble(SOURCE, number, &case.source) {
            None => Expected::Item(vec![(number, true)]),
            Some(Trouble::Panics) => Expected::Failed,
            Some(Trouble::Errors(_)) => after(case.source.then),
        };
        all.push(content);
        if all.last() == Some(&Expected::Failed) {
            break;
        }
    }
    for (index, of) in case.stages.iter().enumerate() {
        if let Some(size) = of.batch {
            all = all
                .chunks(size as usize)
                .enumerate()
                .map(|(group, members)| packed(group as u64 * size, members))
                .collect();
        }
        for (number, content) in all.iter_mut().enumerate() {
            let trouble = case.trouble(index, number as u64, of);
            let retries = case.retries(index, of);
            if matches!(content, Expected::Item(_)) {
                match trouble {
                    None => {}
                    Some(Trouble::Errors(times)) if times <= retries => {}
                    Some(_) => *content = after(of.then),
                }
            }
        }
    }
    (all, skipped)
}

fn packed(first: u64, members: &[Expected]) -> Expected {
    let mut parts = Vec::new();
    for (number, member) in (first..).zip(members) {
        match member {
            Expected::Item(of) => parts.extend(of),
            Expected::Gap => parts.push((number, false)),
            Expected::Failed => return Expected::Failed,
        }
    }
    Expected::Item(parts)
}

/// Runs the case, resumes it if it ended early, and checks what came out of both together.
pub(crate) fn check(case: Case) {
    let _watched = watch(format!("{case:?}"));
    let case = Arc::new(case);
    let (expected, skipped) = expected(&case);
    let first = run(&case, ResumePoint::default(), case.end, 0);
    let too_many = case.max_skipped.is_some_and(|most| skipped > most);
    let fails = expected.contains(&Expected::Failed);
    let mut delivered = first.delivered;
    let mut failure = first.failure;
    if failure.is_none() && !matches!(case.end, End::Finish) {
        let second = run(&case, first.resume_point, End::Finish, 1);
        delivered.extend(second.delivered);
        failure = second.failure;
    } else if matches!(case.end, End::Finish) && too_many {
        assert!(failure.is_some(), "{skipped} items were skipped");
    }
    if failure.is_some() {
        assert!(fails || too_many || case.may_not_fit(), "{failure:?}");
    }
    let mut by_number = BTreeMap::new();
    for (place, (number, content)) in delivered.into_iter().enumerate() {
        if case.order == Order::Kept || !case.overlap {
            assert_eq!(number, place as u64, "out of order");
        }
        let content = content.map_or(Expected::Gap, Expected::Item);
        if !case.may_not_fit() {
            assert_eq!(content, expected[number as usize], "item {number}");
        }
        let before = by_number.insert(number, content);
        assert!(before.is_none(), "{number} came twice");
    }
    if failure.is_none() {
        assert!(!fails || case.may_not_fit(), "a failure was swallowed");
        assert_eq!(by_number.len(), expected.len(), "items were lost");
    } else if case.order == Order::Kept && !too_many && !case.may_not_fit() {
        let mut all = expected.iter();
        let first = all.position(|content| *content == Expected::Failed);
        assert_eq!(Some(by_number.len()), first, "all before the failure come");
    }
}
