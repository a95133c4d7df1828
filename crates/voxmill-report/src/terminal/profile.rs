//! A profile as text.

use voxmill_analysis::bottleneck::Level;
use voxmill_analysis::profile::{OtherPrograms, Profile, SlowStep};
use voxmill_analysis::scorecard::Tier;
use voxmill_analysis::timing::{Ratio, Spread};

use super::page::Page;
use super::what_if::{predicted_gain, what_if};
use super::{Mark, Paint};
use crate::format::{
    Table, bar, count, counted, measure, pad, percent, size, three_digits, time, whole,
    whole_percent, width,
};

/// What `profile` prints.
pub fn profile_text(profile: &Profile, paint: Paint) -> String {
    let mut page = Page::new(0, paint);
    head(&mut page, profile);
    model_thread(&mut page, profile);
    stages(&mut page, profile);
    feeding(&mut page, profile);
    resources(&mut page, profile);
    slowest(&mut page, profile);
    findings(&mut page, profile);
    if let Some(prediction) = &profile.what_if {
        what_if(&mut page, prediction);
    }
    scorecard(&mut page, profile);
    page.text()
}

fn head(page: &mut Page, profile: &Profile) {
    let fact = |name: &str| profile.facts.get(name).map_or("?", String::as_str);
    let head = format!(
        "{} steps after {} to warm up, {:.1} s: {} model, batches of {}, {}, cache {}",
        profile.steps,
        profile.warm_up_steps,
        profile.seconds,
        fact("model size"),
        fact("batch size"),
        fact("device"),
        fact("cache"),
    );
    page.wrapped("", head);
    let text = format!(
        "{} frames/s, {:.2} steps/s; first step after {:.1} s",
        whole(profile.frames_per_second),
        profile.steps_per_second,
        profile.time_to_first_step_seconds.unwrap_or(0.0)
    );
    page.wrapped("", text);
    if let Some(why) = (profile.other_programs).and_then(OtherPrograms::why_ungraded) {
        let text = format!(
            "{why}, and none was free: times are not this program's own, and nothing is graded"
        );
        page.point("", Mark::Warn, text);
    }
}

fn model_thread(page: &mut Page, profile: &Profile) {
    page.heading("The model device's time");
    let mut table = Table::new(2)
        .left(["ms"])
        .right(["share", "mean", "std", "min", "p50", "p95", "p99", "max"]);
    let mut row = |name: &str, share: String, of: &Spread, bar: String| {
        let times = [of.mean, of.std, of.min, of.p50, of.p95, of.p99, of.max];
        let cells = [name.to_owned(), share].into_iter();
        table.row(cells.chain(times.map(three_digits)).chain([bar]));
    };
    for share in &profile.shares {
        let bar = bar(share.share, 6);
        row(&share.name, percent(share.share), &share.ms, bar);
        if share.name == "train" {
            for (name, spread) in &profile.train_parts {
                let part = spread.mean * spread.count as f64 / 1e3 / profile.seconds.max(1e-9);
                let name = format!("  {name}");
                row(&name, percent(part), spread, String::new());
            }
        }
    }
    row("step", String::new(), &profile.step_ms, String::new());
    page.table(&table);
    let varies = varies(profile.variation);
    let text = format!("step = load + preprocess + transfer + train; {varies}");
    page.wrapped("  ", text);
    if (profile.explained - 1.0).abs() > 0.02 {
        let explained = percent(profile.explained);
        let text = format!("these add up to {explained} of the clock's time");
        page.point("  ", Mark::Warn, text);
    }
}

fn varies(variation: Option<f64>) -> String {
    match variation {
        Some(share) => format!("it varies by {} within a shape", percent(share)),
        None => "too few of one shape to measure how it varies".to_owned(),
    }
}

fn stages(page: &mut Page, profile: &Profile) {
    page.heading("The stages' own work, alongside");
    let mut table = Table::new(2).left([""]).right([
        "workers",
        "busy",
        "mean ± std",
        "p95",
        "could do",
        "needed",
    ]);
    for stage in &profile.stages {
        let rate = |rate: f64| format!("{}/s", whole(rate));
        let own = [
            stage.name.clone(),
            stage.workers.to_string(),
            rate(stage.capacity),
            rate(stage.needed),
        ];
        // A part of a stage shares its workers.
        let [name, workers, capacity, needed] = match stage.name.split_once('.') {
            Some((_, part)) => [format!("  {part}"), "".into(), "".into(), "".into()],
            None => own,
        };
        let mean = format!("{} ± {}", time(stage.ms.mean), time(stage.ms.std));
        let p95 = time(stage.ms.p95);
        table.row([
            name,
            workers,
            percent(stage.busy),
            mean,
            p95,
            capacity,
            needed,
        ]);
    }
    page.table(&table);
}

fn times(ratio: Option<Ratio>) -> String {
    ratio.map_or("not measured".to_owned(), |Ratio { value, low, high }| {
        format!("{value:.3} × ({low:.3} to {high:.3})")
    })
}

fn feeding(page: &mut Page, profile: &Profile) {
    let feeding = &profile.feeding;
    page.heading("Feeding: the run compared with batches that were ready");
    let mut table = Table::new(2);
    let a_step = |ms: f64| format!("{} a step", time(ms));
    let floor = feeding.floor_ms.map_or("not measured".to_owned(), a_step);
    table.fact("floor (a)", floor);
    table.fact("while workers work (b/a)", times(feeding.interference));
    table.fact("the run (c/a)", times(feeding.run_over_floor));
    table.fact("stall", a_step(feeding.stall_ms));
    table.fact("--no-overlap takes", times(feeding.no_overlap_over_run));
    page.table(&table);
    if feeding.rounds > 0 {
        let rounds = counted(feeding.rounds, "round");
        page.push(&format!(
            "  (90 % intervals, from the changes between {rounds})"
        ));
    }
    // The scorecard has goals beyond this.
    if let Some(most) = feeding.most_overlap_can_gain.filter(|most| *most < 2.0) {
        let work = percent(most - 1.0);
        let word = if most < 1.05 { "nothing" } else { "little" };
        let text = format!(
            "{word} to overlap: the data side works {work} of a step, so overlap gains at most {most:.3} ×"
        );
        page.point("  ", Mark::Open, text);
    }
}

fn resources(page: &mut Page, profile: &Profile) {
    page.heading("Devices and memory");
    let mut table = Table::new(2);
    let busy = format!("{} of its own time line", percent(profile.busy));
    table.fact("model busy", busy);
    if let Some(busy) = profile.data_device_busy {
        table.fact("data device busy", percent(busy));
    }
    if profile.driver_utilisation_percent.is_empty() {
        let none = "not measured: no GPU driver here";
        table.fact("driver's utilisation", none);
    }
    for (device, percent) in &profile.driver_utilisation_percent {
        let utilisation = format!("{percent:.0} % by its driver (some kernel ran)");
        table.fact(format!("utilisation of {device}"), utilisation);
    }
    let at_most = |peak: u64, of: u64| format!("{} of {} at most", size(peak), size(of));
    let memory = &profile.memory;
    for (device, memory) in &memory.devices {
        if let (Some(peak), Some(total)) = (memory.peak, memory.total) {
            table.fact(format!("memory of {device}"), at_most(peak, total));
        }
    }
    for (device, watts) in &profile.power_watts {
        table.fact(format!("power of {device}"), format!("{watts:.0} W"));
    }
    match (memory.process_peak, memory.host_total) {
        (Some(peak), Some(total)) => table.fact("host memory", at_most(peak, total)),
        (Some(peak), None) => table.fact("host memory", format!("{} at most", size(peak))),
        (None, _) => {}
    }
    for (name, (peak, limit)) in &memory.budgets {
        table.fact(format!("budget `{name}`"), at_most(*peak, *limit));
    }
    let padding = format!("{} of all frames", percent(profile.padding_waste));
    table.fact("padding", padding);
    if let Some(seconds) = profile.cpu_seconds_per_audio_hour {
        let cpu = format!(
            "{} s an hour of audio; {} of all cores",
            whole(seconds),
            whole_percent(profile.host_cpu_percent.unwrap_or(0.0) / 100.0)
        );
        table.fact("CPU", cpu);
    }
    page.table(&table);
    if profile.lost > 0 {
        let lost = count(profile.lost);
        let text = format!("{lost} events are missing from the record: the sums are too small");
        page.point("  ", Mark::Warn, text);
    }
}

fn slowest(page: &mut Page, profile: &Profile) {
    if profile.slowest.is_empty() {
        return;
    }
    page.heading("The steps that waited longest");
    for slow in &profile.slowest {
        page.wrapped("  ", slow_step(slow));
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
        "collate" => "putting together",
        "prepare" => "bringing to the device:",
        other => other,
    }
}

fn findings(page: &mut Page, profile: &Profile) {
    page.heading("Findings");
    for finding in &profile.findings {
        let (mark, word) = match finding.level {
            Level::Bottleneck => (Mark::Bad, "bottleneck"),
            Level::Warning => (Mark::Warn, "warning"),
            Level::Note => (Mark::Good, "note"),
        };
        let head = format!("  {} {word}: ", page.paint.mark(mark));
        page.wrapped(&head, format!("{} [{}]", finding.what, finding.bound_by));
        for evidence in &finding.evidence {
            let [value, threshold] = [evidence.value, evidence.threshold].map(measure);
            let text = format!("{}: {value} (threshold {threshold})", evidence.measure);
            page.wrapped("      because ", text);
        }
        for change in &finding.changes {
            let mut text = change.what.clone();
            if let Some(flag) = &change.flag {
                text += &format!(": {flag}");
            }
            if let Some(config) = &change.config {
                text += &format!(" (in the file: {config})");
            }
            page.wrapped("      change  ", text);
            if let Some(gain) = change.gain {
                page.wrapped("      gain    ", predicted_gain(gain));
            }
        }
    }
    if let Some(why) = &profile.not_predicted {
        let text = format!("not all gains could be predicted: {why}");
        page.point("  ", Mark::Open, text);
    }
}

fn scorecard(page: &mut Page, profile: &Profile) {
    page.heading("Scorecard");
    let mut rows = Vec::new();
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
        let reached = format!("{} {word}", page.paint.mark(mark));
        rows.push(([tier.to_owned(), reached, row.goal.to_string()], &row.note));
    }
    let widest = |cell: usize| rows.iter().map(|(cells, _)| width(&cells[cell])).max();
    let widths = [0, 1, 2].map(|cell| widest(cell).unwrap_or(0));
    for (cells, note) in &rows {
        let cells = cells.iter().zip(widths);
        let cells: String = cells.map(|(cell, width)| pad(cell, width) + "  ").collect();
        page.wrapped(&format!("  {cells}"), note);
    }
}

#[cfg(test)]
mod tests {
    use voxmill_analysis::profile::profile;
    use voxmill_analysis::setting::{AdvisedSetting, SettingNames};
    use voxmill_analysis::synthetic::SyntheticRun;

    use super::super::tests::fits;
    use super::*;

    const NAMES: SettingNames = SettingNames {
        flag,
        written: |setting, value| {
            let in_file = format!("data: {{ {}: {value} }}", setting.key());
            (format!("{} {value}", flag(setting)), in_file)
        },
    };

    fn flag(setting: AdvisedSetting) -> String {
        format!("--{}", setting.key().replace('_', "-"))
    }

    #[test]
    fn what_a_person_sees_of_a_healthy_run_and_of_one_that_waits() {
        let mut healthy = profile(&SyntheticRun::default().run());
        healthy.name_settings(&NAMES);
        insta::assert_snapshot!(fits(profile_text(&healthy, Paint::plain())));
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
        waits.name_settings(&NAMES);
        insta::assert_snapshot!(profile_text(&waits, Paint::plain()));
    }
}
