//! Sizes side by side, as text: a table, bars, and what follows from them.

use std::fmt::Write as _;

use voxmill_analysis::bottleneck::thresholds;
use voxmill_analysis::scaling::{Knee, Measured, Scaling, SizeRow, Swept, WORTH_IT};
use voxmill_analysis::timing::{Ratio, WARM_UP_STEPS};

use super::{Align, Mark, Paint, Table, bar};
use crate::format::{self, percent, size, time, whole, wrap};

const BAR: usize = 40;
/// Above this share of clips whose features were made in between, sizes are not measured alike.
const COLD: f64 = 0.1;

pub fn scaling_text(scaling: &Scaling, paint: Paint) -> String {
    let mut out = String::new();
    table(&mut out, scaling, paint);
    bars(&mut out, scaling, paint);
    let _ = writeln!(out, "\n{}", paint.heading("What follows"));
    died(&mut out, scaling, paint);
    knee(&mut out, scaling, paint);
    memory(&mut out, scaling, paint);
    cold(&mut out, scaling, paint);
    others(&mut out, scaling, paint);
    out.truncate(out.trim_end().len());
    out
}

fn ran(scaling: &Scaling) -> impl Iterator<Item = (u64, &Measured)> {
    let rows = scaling.sizes.iter();
    rows.filter_map(|row| Some((row.size, row.measured.as_ref()?)))
}

fn table(out: &mut String, scaling: &Scaling, paint: Paint) {
    let steps = ran(scaling).map(|(_, measured)| measured.steps).max();
    let heading = match steps {
        Some(steps) => format!("{steps} steps of each size, after {WARM_UP_STEPS} to warm up"),
        None => "No size ran".to_owned(),
    };
    let _ = writeln!(out, "{}", paint.heading(&heading));
    let on_device = ran(scaling).any(|(_, measured)| measured.device_memory.is_some());
    let mut table = Table::new(2)
        .column(scaling.swept.name(), Align::Right)
        .column("frames/s", Align::Right)
        .column("clips/s", Align::Right)
        .column("step", Align::Right)
        .column("busy", Align::Right)
        .column("stall", Align::Right)
        .column("memory", Align::Right);
    if on_device {
        table = table.column("on device", Align::Right);
    }
    for row in &scaling.sizes {
        let Some(measured) = &row.measured else {
            let died = format!("{} died", paint.mark(Mark::Bad));
            table.row([row.size.to_string(), died]);
            continue;
        };
        let known = |peak: Option<u64>| peak.map_or("–".to_owned(), size);
        let mut cells = vec![
            row.size.to_string(),
            whole(measured.frames_per_second),
            format!("{:.1}", measured.clips_per_second),
            time(measured.step_ms.mean),
            percent(measured.busy),
            percent(measured.stall),
            known(measured.host_memory),
        ];
        if on_device {
            cells.push(known(measured.device_memory));
        }
        table.row(cells);
    }
    let _ = writeln!(out, "{}", table.text());
}

fn bars(out: &mut String, scaling: &Scaling, paint: Paint) {
    let most = ran(scaling)
        .map(|(_, measured)| measured.frames_per_second)
        .fold(0.0, f64::max);
    if most <= 0.0 {
        return;
    }
    let _ = writeln!(out, "\n{}", paint.heading("Frames a second"));
    let mut table = Table::new(2)
        .column("", Align::Right)
        .column("", Align::Left);
    for row in &scaling.sizes {
        let cell = match &row.measured {
            Some(measured) => format!(
                "{} {}{}",
                bar(measured.frames_per_second / most, BAR),
                whole(measured.frames_per_second),
                measured.gain.map_or(String::new(), gained)
            ),
            None => format!("{} died", paint.mark(Mark::Bad)),
        };
        table.row([row.size.to_string(), cell]);
    }
    let _ = writeln!(out, "{}", table.text());
}

/// `, +12 % (+8 to +15)`
fn gained(gain: Ratio) -> String {
    let percents = |ratio: f64| format!("{:+.0}", 100.0 * (ratio - 1.0)).replace('-', "−");
    format!(
        ", {} % ({} to {})",
        percents(gain.value),
        percents(gain.low),
        percents(gain.high)
    )
}

fn point(out: &mut String, paint: Paint, mark: Mark, text: &str) {
    let head = format!("  {} ", paint.mark(mark));
    let _ = writeln!(out, "{}", wrap(&head, text));
}

fn died(out: &mut String, scaling: &Scaling, paint: Paint) {
    for SizeRow {
        size,
        died,
        refused,
        ..
    } in &scaling.sizes
    {
        let Some(reason) = died else { continue };
        let mut text = format!("{} died: {reason}", scaling.swept.of(*size));
        if let Some(short) = refused {
            let _ = write!(
                text,
                "; that is {} more than there may be",
                format::size(short.needs.saturating_sub(short.limit))
            );
        }
        point(out, paint, Mark::Bad, &text);
    }
}

fn knee(out: &mut String, scaling: &Scaling, paint: Paint) {
    let flag = &scaling.flag;
    let gain = format!("{:.0} %", 100.0 * WORTH_IT);
    let (mark, text) = match scaling.knee {
        None => (
            Mark::Bad,
            "no size ran, so there is nothing to say of how they scale".to_owned(),
        ),
        Some(Knee::OneSize(_)) => (
            Mark::Open,
            "only one size ran: how throughput scales takes two".to_owned(),
        ),
        Some(Knee::StillRises(size)) => (
            Mark::Good,
            format!(
                "throughput still rises at {}: it gains more than {gain} beyond noise over the size before, and larger ones \
                 may do better",
                scaling.swept.of(size)
            ),
        ),
        Some(Knee::At(size)) => {
            let smallest = ran(scaling).next().map(|(size, _)| size) == Some(size);
            let text = match smallest {
                true => format!(
                    "no size gains more than {gain} beyond noise over the one before: {flag} {size} does as well"
                ),
                false => format!(
                    "it stops scaling at {}: no larger one gains more than {gain} beyond noise over the one \
                     before; {flag} {size} is the one to take",
                    scaling.swept.of(size)
                ),
            };
            (Mark::Good, text)
        }
    };
    point(out, paint, mark, &text);
}

fn memory(out: &mut String, scaling: &Scaling, paint: Paint) {
    if scaling.swept != Swept::BatchSize {
        return;
    }
    match scaling.memory.extrapolated {
        Some(found) => {
            let text = format!(
                "host memory grows by about {} for each clip in a batch; by extrapolation batch size {} would be the first that \
                 does not fit into the {} that are free",
                size(found.bytes_each as u64),
                whole(found.first_that_would_not_fit as f64),
                size(found.available)
            );
            point(out, paint, Mark::Open, &text);
        }
        None if ran(scaling)
            .filter(|(_, m)| m.host_memory.is_some())
            .count()
            > 1 =>
        {
            let text = "host memory does not grow with the size here: what would not fit cannot be told from it";
            point(out, paint, Mark::Open, text);
        }
        None => {}
    }
}

fn cold(out: &mut String, scaling: &Scaling, paint: Paint) {
    let most = ran(scaling)
        .map(|(_, measured)| measured.decoded)
        .fold(0.0, f64::max);
    if most > COLD {
        let text = format!(
            "features of up to {:.0} % of a size's clips were made while it ran, which later sizes then found in the cache: \
             `voxmill prepare` first, then all are measured alike",
            100.0 * most.min(1.0)
        );
        point(out, paint, Mark::Warn, &text);
    }
}

fn others(out: &mut String, scaling: &Scaling, paint: Paint) {
    let most = ran(scaling)
        .filter_map(|(_, measured)| measured.others)
        .fold(0.0, f64::max);
    if most > thresholds::RIVALS {
        let text = format!(
            "other programs took up to {:.0} % of the cores meanwhile: what gains and what does not may be their doing; \
             measure again when they are done",
            100.0 * most
        );
        point(out, paint, Mark::Warn, &text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::COLUMNS;
    use voxmill_analysis::scaling::{Extrapolated, MemoryLimit, SCALING_VERSION, Shortage};
    use voxmill_analysis::timing::Spread;

    fn row(size: u64, frames_per_second: f64, gain: Option<Ratio>) -> SizeRow {
        SizeRow {
            size,
            measured: Some(Measured {
                steps: 30,
                frames_per_second,
                clips_per_second: frames_per_second / 140.0,
                step_ms: Spread {
                    mean: 1e3 * 140.0 * size as f64 / frames_per_second,
                    ..Spread::default()
                },
                busy: 0.981,
                stall: 0.012,
                variation: 0.03,
                gain,
                host_memory: Some(300_000_000 + size * 11_000_000),
                device_memory: None,
                decoded: 0.0,
                others: Some(0.05),
            }),
            died: None,
            refused: None,
        }
    }

    fn gain(value: f64) -> Option<Ratio> {
        Some(Ratio {
            value,
            low: value - 0.02,
            high: value + 0.03,
        })
    }

    fn dead(size: u64, reason: &str, refused: Option<Shortage>) -> SizeRow {
        SizeRow {
            size,
            measured: None,
            died: Some(reason.to_owned()),
            refused,
        }
    }

    fn of(swept: Swept, sizes: Vec<SizeRow>, knee: Option<Knee>) -> Scaling {
        Scaling {
            version: SCALING_VERSION,
            swept,
            flag: swept.flag().to_owned(),
            sizes,
            knee,
            memory: MemoryLimit::default(),
        }
    }

    #[track_caller]
    fn shown(scaling: &Scaling) -> String {
        let text = scaling_text(scaling, Paint::plain());
        for line in text.lines() {
            assert!(line.chars().count() <= COLUMNS, "{line}");
        }
        text
    }

    #[test]
    fn rising() {
        let sizes = vec![row(8, 8_000.0, None), row(16, 10_400.0, gain(1.3))];
        let mut scaling = of(Swept::BatchSize, sizes, Some(Knee::StillRises(16)));
        scaling.memory.extrapolated = Some(Extrapolated {
            bytes_each: 11_000_000.0,
            available: 23_400_000_000,
            first_that_would_not_fit: 2_101,
        });
        insta::assert_snapshot!(shown(&scaling));
    }

    #[test]
    fn a_knee_and_a_size_that_did_not_fit() {
        let refused = Shortage {
            needs: 2_100_000_000,
            limit: 1_500_000_000,
        };
        let mut sizes = vec![
            row(8, 8_000.0, None),
            row(16, 10_400.0, gain(1.3)),
            row(24, 10_500.0, gain(1.01)),
            dead(
                32,
                "the run does not fit on cuda:0: it needs 2100MB, and --model-gpu-memory is 1500MB",
                Some(refused),
            ),
        ];
        for row in &mut sizes {
            if let Some(measured) = &mut row.measured {
                measured.device_memory = Some(60_000_000 * row.size);
                measured.decoded = 0.4;
                measured.others = Some(0.6);
            }
        }
        let scaling = of(Swept::BatchSize, sizes, Some(Knee::At(16)));
        insta::assert_snapshot!(shown(&scaling));
    }

    #[test]
    fn workers_that_change_nothing() {
        let sizes = vec![row(1, 8_000.0, None), row(2, 7_900.0, gain(0.99))];
        let scaling = of(Swept::Workers, sizes, Some(Knee::At(1)));
        insta::assert_snapshot!(shown(&scaling));
    }

    #[test]
    fn all_died() {
        let sizes = vec![
            dead(
                8,
                "killed by signal 9: the system does that where memory runs out",
                None,
            ),
            dead(16, "the disk is full", None),
        ];
        insta::assert_snapshot!(shown(&of(Swept::BatchSize, sizes, None)));
    }
}
