//! How long after it is there an item reaches a consumer that sleeps, and how soon a new pipeline delivers.

use super::*;

pub(crate) fn run() {
    wake_up();
    first_item();
}

/// The source makes an item every 2 ms and stamps it; by then everyone behind it is asleep.
fn wake_up() {
    let plan = Plan::new("latency", "consumer");
    let pipeline = Pipeline::source(plan, "clock", |_| {
        (0..500).map(|_| {
            sleep(Duration::from_millis(2));
            Ok::<_, Infallible>(Instant::now())
        })
    });
    let mut waits: Vec<f64> = start(pipeline)
        .filter_map(|made| match made {
            Ok(Delivery::Item(made)) => Some(made.elapsed().as_secs_f64() * 1e6),
            _ => None,
        })
        .collect();
    waits.sort_by(f64::total_cmp);
    let at = |share: f64| waits[(waits.len() as f64 * share) as usize];
    println!(
        "wake-up latency, µs from one thread to a sleeping one: p50 {:.0}, p95 {:.0}, p99 {:.0}",
        at(0.5),
        at(0.95),
        at(0.99)
    );
}

fn first_item() {
    let mut times = Vec::new();
    for _ in 0..50 {
        let plan = Plan::new("first", "consumer");
        let begin = Instant::now();
        let mut pipeline = numbers(plan, 1000);
        for stage in ["a", "b", "c"] {
            pipeline = pipeline.stage(stage, pass()).workers(Setting::fixed(4));
        }
        let mut running = start(pipeline);
        assert!(running.next().is_some());
        times.push(begin.elapsed().as_secs_f64() * 1e3);
    }
    times.sort_by(f64::total_cmp);
    println!(
        "from build to first item, three stages of 4 workers: median {:.2} ms, longest of 50 {:.2} ms (below 5 asked)",
        median(&times),
        times[times.len() - 1]
    );
}
