//! A profile as text.

use std::fmt::Write as _;

use voxmill_analysis::bottleneck::{Finding, Level};
use voxmill_analysis::profile::{Profile, SlowStep};
use voxmill_analysis::scorecard::Tier;
use voxmill_analysis::timing::{Ratio, Spread};

use super::{Align, Mark, Paint, Table, bar};
use crate::format::{percent, size, time, whole, wrap};

pub fn profile_text(profile: &Profile, paint: Paint) -> String {
    let mut out = String::new();
    head(&mut out, profile);
    line(&mut out, profile, paint);
    stages(&mut out, profile, paint);
    feeding(&mut out, profile, paint);
    resources(&mut out, profile, paint);
    slowest(&mut out, profile, paint);
    findings(&mut out, &profile.findings, paint);
    scorecard(&mut out, profile, paint);
    out.truncate(out.trim_end().len());
    out
}

fn head(out: &mut String, profile: &Profile) {
    let fact = |name: &str| profile.facts.get(name).map_or("?", String::as_str);
    let _ = writeln!(
        out,
        "{} steps after {} to warm up, {:.1} s: {} model, batches of {}, {}, cache {}",
        profile.steps,
        profile.warm_up_steps,
        profile.seconds,
        fact("model size"),
        fact("batch size"),
        fact("device"),
        fact("cache"),
    );
    let _ = writeln!(
        out,
        "{} frames/s, {:.2} steps/s; first step after {:.1} s",
        whole(profile.frames_per_second),
        profile.steps_per_second,
        profile.time_to_first_step_seconds.unwrap_or(0.0)
    );
}

fn spread_cells(spread: &Spread) -> [String; 7] {
    [
        spread.mean,
        spread.std,
        spread.min,
        spread.p50,
        spread.p95,
        spread.p99,
        spread.max,
    ]
    .map(short)
}

/// Three digits that say something.
fn short(milliseconds: f64) -> String {
    match milliseconds {
        ms if ms <= 0.0 => "0".to_owned(),
        ms if ms < 10.0 => format!("{ms:.2}"),
        ms if ms < 100.0 => format!("{ms:.1}"),
        ms => whole(ms),
    }
}

fn line(out: &mut String, profile: &Profile, paint: Paint) {
    let _ = writeln!(out, "\n{}", paint.heading("The model thread's time"));
    let mut table = Table::new(2)
        .column("ms", Align::Left)
        .column("share", Align::Right)
        .column("mean", Align::Right)
        .column("std", Align::Right)
        .column("min", Align::Right)
        .column("p50", Align::Right)
        .column("p95", Align::Right)
        .column("p99", Align::Right)
        .column("max", Align::Right)
        .column("", Align::Left);
    for share in &profile.shares {
        let mut cells = vec![share.name.clone(), percent(share.share)];
        cells.extend(spread_cells(&share.ms));
        cells.push(bar(share.share, 6));
        table.row(cells);
        if share.name == "train" {
            for (name, spread) in &profile.train_parts {
                let part = spread.mean * spread.count as f64 / 1e3 / profile.seconds.max(1e-9);
                let mut cells = vec![format!("  {name}"), percent(part)];
                cells.extend(spread_cells(spread));
                table.row(cells);
            }
        }
    }
    let mut cells = vec!["step".to_owned(), String::new()];
    cells.extend(spread_cells(&profile.step_ms));
    table.row(cells);
    let _ = writeln!(out, "{}", table.text());
    let _ = writeln!(
        out,
        "  step = load + preprocess + transfer + train; it varies by {} within a shape",
        percent(profile.variation)
    );
    if (profile.explained - 1.0).abs() > 0.02 {
        let _ = writeln!(
            out,
            "  {} these add up to {} of the clock's time",
            paint.mark(Mark::Warn),
            percent(profile.explained)
        );
    }
}

fn stages(out: &mut String, profile: &Profile, paint: Paint) {
    let _ = writeln!(
        out,
        "\n{}",
        paint.heading("The stages' own work, beside it")
    );
    let mut table = Table::new(2)
        .column("", Align::Left)
        .column("workers", Align::Right)
        .column("busy", Align::Right)
        .column("mean ± std", Align::Right)
        .column("p95", Align::Right)
        .column("could do", Align::Right)
        .column("needed", Align::Right);
    for stage in &profile.stages {
        let part = stage.name.split_once('.');
        let rate = |rate: f64| format!("{}/s", whole(rate));
        table.row([
            part.map_or(stage.name.clone(), |(_, part)| format!("  {part}")),
            part.map_or(stage.workers.to_string(), |_| String::new()),
            percent(stage.busy),
            format!("{} ± {}", time(stage.ms.mean), time(stage.ms.std)),
            time(stage.ms.p95),
            part.map_or_else(|| rate(stage.capacity), |_| String::new()),
            part.map_or_else(|| rate(stage.needed), |_| String::new()),
        ]);
    }
    let _ = writeln!(out, "{}", table.text());
}

fn times(ratio: Option<Ratio>) -> String {
    ratio.map_or("not measured".to_owned(), |ratio| {
        format!(
            "{:.3} × ({:.3} to {:.3})",
            ratio.value, ratio.low, ratio.high
        )
    })
}

fn feeding(out: &mut String, profile: &Profile, paint: Paint) {
    let feeding = &profile.feeding;
    let _ = writeln!(
        out,
        "\n{}",
        paint.heading("Feeding: the run beside batches that were ready")
    );
    let mut table = Table::new(2)
        .column("", Align::Left)
        .column("", Align::Left);
    let floor = feeding.floor_ms.map_or("not measured".to_owned(), |ms| {
        format!("{} a step", time(ms))
    });
    table.row(["floor (a)".to_owned(), floor]);
    table.row([
        "while workers work (b/a)".to_owned(),
        times(feeding.interference),
    ]);
    table.row(["the run (c/a)".to_owned(), times(feeding.run_over_floor)]);
    table.row([
        "stall".to_owned(),
        format!("{} a step", time(feeding.stall_ms)),
    ]);
    table.row([
        "--no-overlap takes".to_owned(),
        times(feeding.no_overlap_over_run),
    ]);
    let _ = writeln!(out, "{}", table.text());
}

fn resources(out: &mut String, profile: &Profile, paint: Paint) {
    let _ = writeln!(out, "\n{}", paint.heading("Devices and memory"));
    let mut table = Table::new(2)
        .column("", Align::Left)
        .column("", Align::Left);
    table.row([
        "model busy".to_owned(),
        format!("{} of its own time line", percent(profile.busy)),
    ]);
    if let Some(busy) = profile.data_device_busy {
        table.row(["data device busy".to_owned(), percent(busy)]);
    }
    match profile.driver_utilisation_percent.is_empty() {
        true => table.row([
            "driver's utilisation".to_owned(),
            "not measured: no GPU driver here".to_owned(),
        ]),
        false => {
            for (device, percent) in &profile.driver_utilisation_percent {
                table.row([
                    format!("utilisation of {device}"),
                    format!("{percent:.0} % by its driver (some kernel ran)"),
                ]);
            }
        }
    }
    for (device, memory) in &profile.memory.devices {
        if let (Some(peak), Some(total)) = (memory.peak, memory.total) {
            table.row([
                format!("memory of {device}"),
                format!("{} of {} at most", size(peak), size(total)),
            ]);
        }
    }
    for (device, watts) in &profile.power_watts {
        table.row([format!("power of {device}"), format!("{watts:.0} W")]);
    }
    if let Some(peak) = profile.memory.process_peak {
        let of = profile
            .memory
            .host_total
            .map_or(String::new(), |total| format!(" of {}", size(total)));
        table.row([
            "host memory".to_owned(),
            format!("{}{of} at most", size(peak)),
        ]);
    }
    for (name, (peak, limit)) in &profile.memory.budgets {
        table.row([
            format!("budget `{name}`"),
            format!("{} of {} at most", size(*peak), size(*limit)),
        ]);
    }
    table.row([
        "padding".to_owned(),
        format!("{} of all frames", percent(profile.padding_waste)),
    ]);
    if let Some(seconds) = profile.cpu_seconds_per_audio_hour {
        table.row([
            "CPU".to_owned(),
            format!(
                "{} s for each hour of audio; {:.0} % of all cores in use",
                whole(seconds),
                profile.host_cpu_percent.unwrap_or(0.0)
            ),
        ]);
    }
    let _ = writeln!(out, "{}", table.text());
    if profile.lost > 0 {
        let _ = writeln!(
            out,
            "  {} {} events are missing from the record: the sums are too small",
            paint.mark(Mark::Warn),
            profile.lost
        );
    }
}

fn slowest(out: &mut String, profile: &Profile, paint: Paint) {
    if profile.slowest.is_empty() {
        return;
    }
    let _ = writeln!(out, "\n{}", paint.heading("The steps that waited longest"));
    for slow in &profile.slowest {
        let _ = writeln!(out, "{}", wrap("  ", &slow_step(slow)));
    }
}

fn slow_step(slow: &SlowStep) -> String {
    let waited = format!("step {} waited {}", slow.step, time(slow.waited_ms));
    match &slow.doing {
        Some(doing) => format!(
            "{waited}: {} {} took {}",
            doing_word(&doing.part),
            doing.item,
            time(doing.ms)
        ),
        None => format!("{waited} for `{}`", slow.stage),
    }
}

fn doing_word(part: &str) -> &str {
    match part {
        "read" => "reading",
        "decode" => "decoding",
        "resample" => "resampling",
        "mel" => "the mel frames of",
        "featurize" => "the features of",
        "collate" => "putting together batch",
        "prepare" => "bringing to the device batch",
        other => other,
    }
}

fn findings(out: &mut String, findings: &[Finding], paint: Paint) {
    let _ = writeln!(out, "\n{}", paint.heading("Findings"));
    for finding in findings {
        let (mark, word) = match finding.level {
            Level::Bottleneck => (Mark::Bad, "bottleneck"),
            Level::Warning => (Mark::Warn, "warning"),
            Level::Note => (Mark::Good, "note"),
        };
        let head = format!("  {} {word}: ", paint.mark(mark));
        let text = format!("{} [{}]", finding.what, finding.bound_by);
        let _ = writeln!(out, "{}", wrap(&head, &text));
        for evidence in &finding.evidence {
            let text = format!(
                "{}: {} (threshold {})",
                evidence.measure,
                number(evidence.value),
                number(evidence.threshold)
            );
            let _ = writeln!(out, "{}", wrap("      because ", &text));
        }
        for change in &finding.changes {
            let mut text = change.what.clone();
            if let Some(flag) = &change.flag {
                let _ = write!(text, ": {flag}");
            }
            if let Some(config) = &change.config {
                let _ = write!(text, " (in the file: {config})");
            }
            let _ = writeln!(out, "{}", wrap("      change  ", &text));
        }
    }
}

fn number(value: f64) -> String {
    match value.abs() {
        v if v >= 100.0 => whole(value),
        v if v >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

fn scorecard(out: &mut String, profile: &Profile, paint: Paint) {
    let _ = writeln!(out, "\n{}", paint.heading("Scorecard"));
    let mut table = Table::new(2)
        .column("", Align::Left)
        .column("", Align::Left)
        .column("", Align::Left)
        .column("", Align::Left);
    for row in &profile.scorecard {
        let tier = match row.tier {
            Tier::Must => "must",
            Tier::Target => "target",
            Tier::Stretch => "stretch",
        };
        let (mark, word) = match row.reached {
            Some(true) => (Mark::Good, "reached"),
            Some(false) => (Mark::Bad, "missed"),
            None => (Mark::Open, "open"),
        };
        table.row([
            tier.to_owned(),
            format!("{} {word}", paint.mark(mark)),
            row.goal.clone(),
            row.note.clone(),
        ]);
    }
    let _ = writeln!(out, "{}", table.text());
}

#[cfg(test)]
mod tests {
    use voxmill_analysis::bottleneck::name_settings;
    use voxmill_analysis::profile::profile;
    use voxmill_analysis::synthetic::SyntheticRun;

    use super::*;

    #[test]
    fn what_a_person_sees_of_a_healthy_run_and_of_one_that_waits() {
        let healthy = profile(&SyntheticRun::default().run());
        insta::assert_snapshot!(profile_text(&healthy, Paint::plain()));
        let waits = SyntheticRun {
            waited_ms: 40,
            late: Some("featurize"),
            stage_ms: vec![
                ("featurize", 17),
                ("featurize.resample", 12),
                ("collate", 1),
                ("prepare", 2),
            ],
            slowest_ms: Some(("featurize", 90)),
            ..SyntheticRun::default()
        };
        let mut waits = profile(&waits.run());
        name_settings(&mut waits.findings, |setting, value| {
            let flag = format!("--{} {value}", setting.replace('_', "-"));
            Some((flag, format!("data: {{ {setting}: {value} }}")))
        });
        insta::assert_snapshot!(profile_text(&waits, Paint::plain()));
    }

    #[test]
    fn no_line_is_wider_than_the_page() {
        let text = profile_text(&profile(&SyntheticRun::default().run()), Paint::plain());
        for line in text.lines() {
            assert!(line.chars().count() <= crate::format::COLUMNS, "{line}");
        }
    }
}
