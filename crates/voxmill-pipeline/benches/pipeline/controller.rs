//! The controller finds the workers that a load needs, and goes back where more of them hurt.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

pub(crate) fn run() {
    println!(
        "Stages that sleep: an item takes 80 ms to make and 10 ms to use, so 8 workers are needed.\n"
    );
    compare(
        &[2, 4, 6, 7, 8, 9, 10, 12],
        2,
        16,
        600,
        Duration::from_millis(10),
        || each(|_| sleep(Duration::from_millis(80))),
    );
    println!(
        "\nA stage that computes 2 ms an item, and whose workers slow each other down from the third on:\n"
    );
    compare(&[1, 2, 3, 4], 1, 6, 12_000, Duration::ZERO, contended);
}

/// Computes 2 ms an item. Beyond two workers, each makes all of them slower, as a lock or a memory
/// bus that many want would: three together do less than two.
fn contended() -> Work<u64, u64> {
    static AT_WORK: AtomicUsize = AtomicUsize::new(0);
    let rounds = rounds_in(Duration::from_millis(2));
    each(move |_| {
        let at_work = AT_WORK.fetch_add(1, Ordering::Relaxed) + 1;
        let slower = 1.0 + 0.34 * (at_work.saturating_sub(2) * at_work) as f64;
        compute((rounds as f64 * slower) as u64);
        AT_WORK.fetch_sub(1, Ordering::Relaxed);
    })
}

/// Work that takes CPU time, however long it has to wait for a core.
pub(crate) fn compute(rounds: u64) {
    let mut value = 1u64;
    for round in 0..rounds {
        value = std::hint::black_box(value.rotate_left(7) ^ round);
    }
}

/// How many rounds this machine computes in the time given: the fastest of several tries.
pub(crate) fn rounds_in(time: Duration) -> u64 {
    const ROUNDS: u64 = 100_000;
    let tries = (0..50).map(|_| {
        let begin = Instant::now();
        compute(ROUNDS);
        begin.elapsed().as_secs_f64()
    });
    let fastest = tries.fold(f64::INFINITY, f64::min);
    (time.as_secs_f64() / fastest * ROUNDS as f64) as u64
}

fn compare(
    fixed: &[usize],
    start: usize,
    most_workers: usize,
    items: u64,
    using: Duration,
    work: impl Fn() -> Work<u64, u64>,
) {
    println!("| setting | items a second |\n|---|---|");
    let mut best = (0.0, 0);
    for &workers in fixed {
        let (rate, _) = one_run(Setting::fixed(workers), None, items / 4, using, work());
        println!("| {workers} workers, fixed | {rate:.1} |");
        best = if rate > best.0 { (rate, workers) } else { best };
    }
    let adapt = AdaptPlan {
        most_workers: most_workers + 1,
        most_buffered: 64,
    };
    let (rate, decisions) = one_run(Setting::from(start), Some(adapt), items, using, work());
    println!("| from {start} workers, adapting; its second half | {rate:.1} |");
    println!(
        "\ncompared with the best fixed setting ({} workers): {:.3} × (at least 0.95 asked)\n",
        best.1,
        rate / best.0
    );
    for decision in &decisions {
        println!("- {decision}");
    }
    let settled = decisions.iter().filter(|line| line.contains("Settled"));
    println!("\nsettled {} times", settled.count());
}

/// Items a second in the second half, and what the controller decided.
fn one_run(
    workers: Setting,
    adapt: Option<AdaptPlan>,
    items: u64,
    using: Duration,
    work: Work<u64, u64>,
) -> (f64, Vec<String>) {
    let recorder = Recorder::start(RecorderOptions::default()).expect("no file to open");
    let plan = Plan {
        adapt,
        ..Plan::new("controller", "use")
    };
    let running = numbers(plan, items)
        .buffer(Setting::fixed(8))
        .stage("make", work)
        .workers(workers)
        .buffer(Setting::from(8))
        .start(recorder.clone())
        .expect("the plan is good");
    let mut half = Instant::now();
    for (number, item) in running.enumerate() {
        if number as u64 == items / 2 {
            half = Instant::now();
        }
        sleep(using);
        drop(item);
    }
    let rate = (items - items / 2) as f64 / half.elapsed().as_secs_f64();
    recorder.finish().expect("no file to write");
    let decisions = recorder.stats().decisions.into_iter();
    let decisions = decisions.map(|(at, it)| {
        let (subject, change, reason) = (it.subject, it.change, it.reason);
        format!("{:.1} s: {subject} {change:?}: {reason}", at.seconds())
    });
    (rate, decisions.collect())
}
