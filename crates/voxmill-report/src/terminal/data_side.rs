//! What `analyze` found, as text.

use std::fmt::Write as _;

use voxmill_analysis::data_side::{Capacity, DataSide, Grade};

use super::{Align, Mark, Paint, Table, bar};
use crate::format::{percent, time, whole, wrap};

pub fn data_side_text(data: &DataSide, paint: Paint) -> String {
    let mut out = String::new();
    let _ = writeln!(
        out,
        "{} clips, {:.1} minutes of audio, {} cores",
        whole(data.clips as f64),
        data.audio_seconds / 60.0,
        data.cores
    );
    clips(&mut out, data, paint);
    disk(&mut out, data, paint);
    capacities(&mut out, "Capacity, every file decoded", &data.cold, paint);
    if data.warm.is_empty() {
        let _ = writeln!(
            out,
            "  the cache does not have all clips: `voxmill prepare` fills it, and then it is measured too"
        );
    } else {
        capacities(
            &mut out,
            "Capacity, features from the cache",
            &data.warm,
            paint,
        );
    }
    feeding(&mut out, data, paint);
    let _ = writeln!(out, "\n{}", paint.heading("Verdicts"));
    for verdict in &data.verdicts {
        let (mark, word) = match verdict.grade {
            Grade::Good => (Mark::Good, "good"),
            Grade::Fair => (Mark::Warn, "fair"),
            Grade::Bad => (Mark::Bad, "bad"),
            Grade::Unknown => (Mark::Open, "open"),
        };
        let head = format!("  {} {word:4}  {:8} ", paint.mark(mark), verdict.about);
        let _ = writeln!(out, "{}", wrap(&head, &verdict.text));
    }
    out.truncate(out.trim_end().len());
    out
}

fn clips(out: &mut String, data: &DataSide, paint: Paint) {
    let _ = writeln!(out, "\n{}", paint.heading("One clip, on one thread"));
    let mut table = Table::new(2)
        .column("", Align::Left)
        .column("mean", Align::Right)
        .column("std", Align::Right)
        .column("p50", Align::Right)
        .column("p95", Align::Right)
        .column("max", Align::Right);
    let audio = &data.audio;
    for (name, spread) in [
        ("text", &data.text.ms_per_clip),
        ("read", &audio.read_ms),
        ("decode", &audio.decode_ms),
        ("resample", &audio.resample_ms),
        ("mel frames", &audio.mel_ms),
        ("audio, all of it", &audio.whole_ms),
    ] {
        table.row([
            name.to_owned(),
            time(spread.mean),
            time(spread.std),
            time(spread.p50),
            time(spread.p95),
            time(spread.max),
        ]);
    }
    let _ = writeln!(out, "{}", table.text());
    let _ = writeln!(
        out,
        "  audio of {} clips, CV {:.2}; all texts in {:.2} s on all cores",
        audio.clips,
        audio.cv(),
        data.text.total_seconds
    );
}

fn disk(out: &mut String, data: &DataSide, paint: Paint) {
    let _ = writeln!(out, "\n{}", paint.heading("Reading the files"));
    let cold = data.disk.cold_mb_s.map_or(
        "not measured: the system does not let go of files it has read".to_owned(),
        |rate| format!("{} MB/s (the system was asked to forget them)", whole(rate)),
    );
    let mut table = Table::new(2)
        .column("", Align::Left)
        .column("", Align::Left);
    table.row(["cold".to_owned(), cold]);
    table.row([
        "warm".to_owned(),
        format!("{} MB/s", whole(data.disk.warm_mb_s)),
    ]);
    let _ = writeln!(out, "{}", table.text());
}

fn capacities(out: &mut String, heading: &str, all: &[Capacity], paint: Paint) {
    let _ = writeln!(out, "\n{}", paint.heading(heading));
    let most = all.iter().map(|c| c.clips_per_second).fold(0.0, f64::max);
    let mut table = Table::new(2)
        .column("workers", Align::Right)
        .column("clips/s", Align::Right)
        .column("", Align::Left)
        .column("the slowest stage by itself", Align::Left);
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
    let _ = writeln!(out, "{}", table.text());
}

fn feeding(out: &mut String, data: &DataSide, paint: Paint) {
    let Some(at) = &data.feeding else {
        return;
    };
    let _ = writeln!(
        out,
        "\n{}",
        paint.heading("Feeding a model that takes its time")
    );
    let mut table = Table::new(2)
        .column("", Align::Left)
        .column("", Align::Left);
    table.row([
        "step".to_owned(),
        format!("{} ({})", time(at.step_ms), at.from),
    ]);
    table.row([
        "needed".to_owned(),
        format!(
            "{} clips/s in batches of {:.1}",
            whole(at.needed_clips_per_second),
            at.clips_per_batch
        ),
    ]);
    table.row([
        "wait for a batch".to_owned(),
        format!(
            "{} on average, p95 {}, {} at most",
            time(at.wait_ms.mean),
            time(at.wait_ms.p95),
            time(at.wait_ms.max)
        ),
    ]);
    table.row([
        "lost".to_owned(),
        format!(
            "{} of the time with {} {}",
            percent(at.lost),
            at.workers,
            if at.workers == 1 { "worker" } else { "workers" }
        ),
    ]);
    let enough = at.enough_workers.map_or(
        "none of the numbers that were tried keeps up".to_owned(),
        |workers| format!("{workers}, with every file decoded"),
    );
    table.row(["fewest workers".to_owned(), enough]);
    let _ = writeln!(out, "{}", table.text());
}
