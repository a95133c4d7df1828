//! The items of a random pipeline, which count themselves, and the stages that do to them what the case asks.

use std::collections::HashMap;

use crate::case::{Case, SOURCE, StageCase, Trouble, batch_name, stage_name};
use crate::common::*;

/// What there is now of something, and the most there ever was.
#[derive(Debug, Default)]
pub(crate) struct Gauge {
    pub(crate) now: AtomicU64,
    pub(crate) peak: AtomicU64,
}

impl Gauge {
    fn count(self: &Arc<Self>, amount: u64) -> Counted {
        let now = self.now.fetch_add(amount, SeqCst) + amount;
        self.peak.fetch_max(now, SeqCst);
        Counted(Arc::clone(self), amount)
    }
}

#[derive(Debug)]
pub(crate) struct Counted(Arc<Gauge>, u64);

impl Counted {
    fn shrink_to(&mut self, amount: u64) {
        self.0.now.fetch_sub(self.1 - amount, SeqCst);
        self.1 = amount;
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.now.fetch_sub(self.1, SeqCst);
    }
}

/// It knows which numbers of the source it is made of, and counts itself.
#[derive(Debug)]
pub(crate) struct TestItem {
    pub(crate) number: u64,
    pub(crate) parts: Parts,
    bytes: Vec<Counted>,
    place: Option<Counted>,
    _alive: Counted,
}

impl TestItem {
    fn new(number: u64, parts: Parts, items: &Arc<Gauge>) -> TestItem {
        TestItem {
            number,
            parts,
            bytes: Vec::new(),
            place: None,
            _alive: items.count(1),
        }
    }
}

/// Numbers, and whether there was an item for them.
pub(crate) type Parts = Vec<(u64, bool)>;

/// What the pipeline and its test share.
#[derive(Debug, Default)]
pub(crate) struct Gauges {
    pub(crate) workers: Arc<Gauge>,
    pub(crate) items: Arc<Gauge>,
    pub(crate) bytes: Arc<Gauge>,
    pub(crate) places: Arc<Gauge>,
}

/// What one stage does to an item, whether it came as one or was just made of a group.
#[derive(Clone)]
struct StageWork {
    case: Arc<Case>,
    index: usize,
    gauges: Arc<Gauges>,
    tries: Arc<Mutex<HashMap<u64, u32>>>,
}

impl StageWork {
    fn of(&self) -> &StageCase {
        &self.case.stages[self.index]
    }

    fn work_on(&self, mut item: TestItem) -> Result<TestItem, BoxError> {
        let (case, index, number) = (&self.case, self.index, item.number);
        let enters = case.enters_budget(index);
        if enters {
            let bytes = case.largest_bytes(index, number);
            item.bytes = vec![self.gauges.bytes.count(bytes)];
        } else if !case.is_in_budget(index) {
            item.bytes.clear();
        }
        if case.slots_ahead.is_some() && index + 1 == case.stages.len() {
            item.place = Some(self.gauges.places.count(1));
        }
        case.takes_a_while(index, number, self.of());
        match case.trouble(index, number, self.of()) {
            Some(Trouble::Panics) => panic!("{ON_PURPOSE}: item {number}"),
            Some(Trouble::Errors(times)) => {
                let mut tries = self.tries.lock().unwrap();
                let tries = tries.entry(number).or_default();
                *tries += 1;
                if *tries <= times {
                    return Err(format!("try {tries} of item {number}").into());
                }
            }
            None => {}
        }
        if enters {
            let less = item.bytes[0].1.div_ceil(2);
            item.bytes[0].shrink_to(less);
        }
        Ok(item)
    }

    fn pack(&self, group: Group<TestItem>) -> TestItem {
        let size = self.of().batch.unwrap();
        let number = group_number(&group, size);
        let mut packed = TestItem::new(number, Vec::new(), &self.gauges.items);
        for member in group.members {
            match member {
                Ok(item) => {
                    assert_eq!(item.number / size, packed.number);
                    packed.parts.extend(item.parts);
                    packed.bytes.extend(item.bytes);
                }
                Err(gap) => packed.parts.push((gap.number, false)),
            }
        }
        packed
    }

    fn work<T: 'static>(
        &self,
        number: impl Fn(&T) -> u64 + Send + Sync + 'static,
        make: impl Fn(&StageWork, T) -> TestItem + Send + Sync + Clone + 'static,
    ) -> Work<T, TestItem> {
        let stage_work = self.clone();
        let work = Work::with_state(move || {
            let (stage_work, make) = (stage_work.clone(), make.clone());
            let alive = stage_work.gauges.workers.count(1);
            Ok::<_, BoxError>(move |item| {
                let _ = &alive;
                stage_work.work_on(make(&stage_work, item))
            })
        });
        if self.case.enters_budget(self.index) {
            let (case, index) = (Arc::clone(&self.case), self.index);
            work.reserving(move |item| case.largest_bytes(index, number(item)))
                .keeping(|item: &TestItem| item.bytes.iter().map(|bytes| bytes.1).sum())
        } else {
            work
        }
    }
}

fn group_number(group: &Group<TestItem>, size: u64) -> u64 {
    match &group.members[0] {
        Ok(item) => item.number / size,
        Err(gap) => gap.number / size,
    }
}

impl Clone for TestItem {
    fn clone(&self) -> TestItem {
        assert!(self.bytes.is_empty() && self.place.is_none());
        TestItem::new(self.number, self.parts.clone(), &self._alive.0)
    }
}

pub(crate) fn pipeline(
    case: &Arc<Case>,
    more_workers: usize,
    gauges: &Arc<Gauges>,
) -> Pipeline<TestItem> {
    let (from_case, from_gauges) = (Arc::clone(case), Arc::clone(gauges));
    let mut pipeline = Pipeline::source(case.plan(), "source", move |from| {
        let alive = from_gauges.workers.count(1);
        (from..from_case.items).map(move |number| {
            let _ = &alive;
            let source = &from_case.source;
            match from_case.trouble(SOURCE, number, source) {
                Some(Trouble::Panics) => panic!("{ON_PURPOSE}: the source"),
                Some(Trouble::Errors(_)) => Err(format!("no item {number}")),
                None => Ok(TestItem::new(
                    number,
                    vec![(number, true)],
                    &from_gauges.items,
                )),
            }
        })
    });
    pipeline = planned(pipeline, &case.source, false);
    for (index, of) in case.stages.iter().enumerate() {
        let stage_work = StageWork {
            case: Arc::clone(case),
            index,
            gauges: Arc::clone(gauges),
            tries: Arc::default(),
        };
        let name = stage_name(index);
        pipeline = match of.batch {
            None => {
                let work = stage_work.work(|item: &TestItem| item.number, |_, item| item);
                let retries = case.retries(index, of);
                let work = if retries > 0 { work.retrying() } else { work };
                pipeline.stage(&name, work)
            }
            Some(size) => {
                let number = move |group: &Group<TestItem>| group_number(group, size);
                let work = stage_work.work(number, |stage_work, group| stage_work.pack(group));
                let batch = pipeline.batch(&batch_name(index), Groups::of(size as usize));
                planned(batch, of, case.batch_is_in_budget(index)).stage(&name, work)
            }
        };
        pipeline = planned(pipeline, of, case.is_in_budget(index))
            .workers(Setting::from(of.workers + more_workers))
            .on_error(case.retries(index, of), of.then);
    }
    pipeline
}

/// What the source, a batching stage and any other have in common.
fn planned<T: Send + 'static>(
    pipeline: Pipeline<T>,
    of: &StageCase,
    in_budget: bool,
) -> Pipeline<T> {
    let pipeline = pipeline
        .buffer(Setting::from(of.capacity))
        .on_error(0, of.then);
    match in_budget {
        true => pipeline.in_budget("host"),
        false => pipeline,
    }
}
