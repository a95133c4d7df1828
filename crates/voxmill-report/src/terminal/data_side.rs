//! What `analyze` found, as text.

use voxmill_analysis::data_side::{Capacity, DataSide, Grade};

use super::page::Page;
use super::{Mark, Paint};
use crate::format::{Table, bar, count, counted, percent, time, whole};

/// What `analyze` prints.
pub fn data_side_text(data: &DataSide, paint: Paint) -> String {
    let mut page = Page::new(0, paint);
    page.push(&format!(
        "{} clips, {:.1} minutes of audio, {} cores",
        count(data.clips),
        data.audio_seconds / 60.0,
        data.cores
    ));
    clips(&mut page, data);
    slowest(&mut page, data);
    disk(&mut page, data);
    capacities(&mut page, "Capacity, every file decoded", &data.cold);
    match data.cached {
        None => page.push("  the cache is off"),
        Some(_) if data.is_cached() => {
            capacities(&mut page, "Capacity, features from the cache", &data.warm);
        }
        Some(cached) => {
            let [cached, all] = [cached, data.all_clips].map(count);
            let text = format!(
                "the cache has {cached} of {all} clips: `voxmill prepare` adds the others, or lists what is wrong with them; a full cache is measured too"
            );
            page.wrapped("  ", text);
        }
    }
    feeding(&mut page, data);
    page.heading("Verdicts");
    for verdict in &data.verdicts {
        let (mark, word) = match verdict.grade {
            Grade::Good => (Mark::Good, "good"),
            Grade::Fair => (Mark::Warn, "fair"),
            Grade::Bad => (Mark::Bad, "bad"),
            Grade::Unknown => (Mark::Open, "open"),
        };
        let head = format!("  {} {word:4}  {:8} ", paint.mark(mark), verdict.about);
        page.wrapped(&head, &verdict.text);
    }
    page.text()
}

fn clips(page: &mut Page, data: &DataSide) {
    page.heading("One clip, on one thread");
    let mut table = Table::new(2)
        .left([""])
        .right(["mean", "std", "p50", "p95", "max"]);
    let audio = &data.audio;
    for (name, spread) in [
        ("text", &data.text.ms_per_clip),
        ("read", &audio.read_ms),
        ("decode", &audio.decode_ms),
        ("resample", &audio.resample_ms),
        ("mel frames", &audio.mel_ms),
        ("audio, all of it", &audio.whole_ms),
    ] {
        let times = [spread.mean, spread.std, spread.p50, spread.p95, spread.max];
        table.row(std::iter::once(name.to_owned()).chain(times.map(time)));
    }
    page.table(&table);
    page.push(&format!(
        "  audio of {} clips, CV {:.2}; all texts in {} on all cores",
        audio.clips,
        audio.cv(),
        time(1e3 * data.text.total_seconds)
    ));
}

fn slowest(page: &mut Page, data: &DataSide) {
    page.heading("The slowest clips");
    let mut table = Table::new(2)
        .left(["clip"])
        .right(["took", "audio"])
        .left(["most of it"]);
    for slow in &data.audio.slowest {
        let length = format!("{:.1} s", slow.audio_seconds);
        table.row([slow.clip.clone(), time(slow.ms), length, slow.part.clone()]);
    }
    page.table(&table);
}

fn disk(page: &mut Page, data: &DataSide) {
    page.heading("Reading the files");
    let cold = data.disk.cold_mb_s.map_or(
        "not measured: the system keeps files that it has read in memory".to_owned(),
        |rate| format!("{} MB/s (page cache dropped)", whole(rate)),
    );
    let mut table = Table::new(2);
    table.fact("cold", cold);
    table.fact("warm", format!("{} MB/s", whole(data.disk.warm_mb_s)));
    page.table(&table);
}

fn capacities(page: &mut Page, heading: &str, all: &[Capacity]) {
    page.heading(heading);
    let most = all.iter().map(|c| c.clips_per_second).fold(0.0, f64::max);
    let mut table = Table::new(2)
        .right(["workers", "clips/s"])
        .left(["", "the slowest stage by itself"]);
    for capacity in all {
        let slowest = capacity.stages.iter().min_by(|a, b| a.1.total_cmp(&b.1));
        table.row([
            capacity.workers.to_string(),
            whole(capacity.clips_per_second),
            bar(capacity.clips_per_second / most.max(1e-9), 20),
            slowest.map_or(String::new(), |(name, rate)| {
                format!("{name}, {} clips/s", whole(*rate))
            }),
        ]);
    }
    page.table(&table);
}

fn feeding(page: &mut Page, data: &DataSide) {
    let Some(at) = &data.feeding else {
        return;
    };
    page.heading("Feeding a model that takes its time");
    let mut table = Table::new(2);
    table.fact("step", format!("{} ({})", time(at.step_ms), at.from));
    let needed = whole(at.needed_clips_per_second);
    let batches = format!("{needed} clips/s in batches of {:.1}", at.clips_per_batch);
    table.fact("needed", batches);
    let [mean, p95, max] = [at.wait_ms.mean, at.wait_ms.p95, at.wait_ms.max].map(time);
    let waits = format!("{mean} on average, p95 {p95}, {max} at most");
    table.fact("wait for a batch", waits);
    let workers = counted(at.workers, "worker");
    let lost = format!("{} of the time with {workers}", percent(at.lost));
    table.fact("lost", lost);
    let enough = at.enough_workers.map_or(
        "none of the numbers that were tried keeps up".to_owned(),
        |workers| match data.is_cached() {
            true => format!("{workers}, with features from the cache"),
            false => format!("{workers}, with every file decoded"),
        },
    );
    table.fact("fewest workers", enough);
    page.table(&table);
}
