//! Sizes side by side, as text: a table, bars, and what follows from them.

use voxmill_analysis::bottleneck::thresholds;
use voxmill_analysis::scaling::{Knee, Measured, Scaling, Swept, WORTH_IT};
use voxmill_analysis::timing::{Ratio, WARM_UP_STEPS};

use super::page::Page;
use super::{Mark, Paint};
use crate::format::{
    Table, bar, count, given_percent, percent, short_percent, signed, size, time, whole,
};

const BAR: usize = 40;
/// Above this share of clips whose features were computed in between, sizes are not measured alike.
const COLD: f64 = 0.1;

/// What `scale` prints.
pub fn scaling_text(scaling: &Scaling, paint: Paint) -> String {
    let mut page = Page::new(0, paint);
    table(&mut page, scaling);
    bars(&mut page, scaling);
    page.heading("What follows");
    died(&mut page, scaling);
    let (mark, text) = knee(scaling);
    page.point("  ", mark, text);
    if let Some(text) = memory(scaling) {
        page.point("  ", Mark::Open, text);
    }
    disturbances(&mut page, scaling);
    page.text()
}

fn ran(scaling: &Scaling) -> impl Iterator<Item = (u64, &Measured)> {
    let rows = scaling.sizes.iter();
    rows.filter_map(|row| Some((row.size, row.measured.as_ref()?)))
}

/// The largest value of all sizes that ran.
fn most(scaling: &Scaling, of: impl Fn(&Measured) -> f64) -> f64 {
    ran(scaling)
        .map(|(_, measured)| of(measured))
        .fold(0.0, f64::max)
}

fn table(page: &mut Page, scaling: &Scaling) {
    let steps = ran(scaling).map(|(_, measured)| measured.steps).max();
    page.heading(&match steps {
        Some(steps) => format!(
            "{steps} steps of each size, without the first {WARM_UP_STEPS} and the first of each shape"
        ),
        None => "No size ran".to_owned(),
    });
    let on_device = ran(scaling).any(|(_, measured)| measured.device_memory.is_some());
    let mut table = Table::new(2)
        .right([scaling.swept.name()])
        .right(["frames/s", "clips/s", "step", "busy", "stall", "memory"])
        .right(on_device.then_some("on device"));
    for row in &scaling.sizes {
        let Some(measured) = &row.measured else {
            table.fact(row.size.to_string(), died_mark(page.paint));
            continue;
        };
        let known = |peak: Option<u64>| peak.map_or("–".to_owned(), size);
        let cells = [
            row.size.to_string(),
            whole(measured.frames_per_second),
            format!("{:.1}", measured.clips_per_second),
            time(measured.step_ms.mean),
            percent(measured.busy),
            percent(measured.stall),
            known(measured.host_memory),
        ];
        let on_device = on_device.then(|| known(measured.device_memory));
        table.row(cells.into_iter().chain(on_device));
    }
    page.table(&table);
}

fn died_mark(paint: Paint) -> String {
    format!("{} died", paint.mark(Mark::Bad))
}

fn bars(page: &mut Page, scaling: &Scaling) {
    let most = most(scaling, |measured| measured.frames_per_second);
    if most <= 0.0 {
        return;
    }
    page.heading("Frames a second, and the gain over the best size before");
    let mut table = Table::new(2).right([""]);
    for row in &scaling.sizes {
        let cell = row.measured.as_ref().map(|measured| {
            let bar = bar(measured.frames_per_second / most, BAR);
            let gained = measured.gain.map_or(String::new(), gained);
            format!("{bar} {}{gained}", whole(measured.frames_per_second))
        });
        let cell = cell.unwrap_or_else(|| died_mark(page.paint));
        table.fact(row.size.to_string(), cell);
    }
    page.table(&table);
}

/// `, +12 % (+8 to +15)`
fn gained(Ratio { value, low, high }: Ratio) -> String {
    let [value, low, high] = [value, low, high].map(|ratio| signed(100.0 * (ratio - 1.0), 0));
    format!(", {value} % ({low} to {high})")
}

fn died(page: &mut Page, scaling: &Scaling) {
    for row in &scaling.sizes {
        let Some(reason) = &row.died else { continue };
        let mut text = format!("{} died: {reason}", scaling.swept.of(row.size));
        if let Some(short) = &row.refused {
            let missing = size(short.needs.saturating_sub(short.limit));
            text += &format!("; that is {missing} more than the limit");
        }
        page.point("  ", Mark::Bad, text);
    }
}

fn knee(scaling: &Scaling) -> (Mark, String) {
    let flag = &scaling.flag;
    let gain = given_percent(WORTH_IT);
    match scaling.knee {
        None => (
            Mark::Bad,
            "no size ran: how throughput scales is not known".to_owned(),
        ),
        Some(Knee::OneSize(_)) => (
            Mark::Open,
            "only one size ran: how throughput scales takes two".to_owned(),
        ),
        Some(Knee::StillRises(size)) => (
            Mark::Good,
            format!(
                "throughput still rises at {}: it gains more than {gain} beyond noise over all smaller sizes, and larger ones \
                 may do better",
                scaling.swept.of(size)
            ),
        ),
        // The smallest that ran.
        Some(Knee::At(size)) if ran(scaling).next().map(|(size, _)| size) == Some(size) => (
            Mark::Good,
            format!(
                "no size gains more than {gain} beyond noise over the smallest: {flag} {size} does as well"
            ),
        ),
        Some(Knee::At(size)) => (
            Mark::Good,
            format!(
                "it stops scaling at {}: no size gains more than {gain} beyond noise over it; {flag} {size} is the one to \
                 take",
                scaling.swept.of(size)
            ),
        ),
    }
}

fn memory(scaling: &Scaling) -> Option<String> {
    if scaling.swept != Swept::BatchSize {
        return None;
    }
    let measured = ran(scaling).filter(|(_, measured)| measured.host_memory.is_some());
    match scaling.memory.extrapolated {
        Some(found) => Some(format!(
            "host memory grows by about {} for each clip in a batch; by extrapolation batch size {} would be the first that \
             does not fit into the {} that are free",
            size(found.bytes_each as u64),
            count(found.first_that_would_not_fit),
            size(found.available)
        )),
        None if measured.count() > 1 => Some(
            "host memory does not grow with the size here: which size would not fit is not known"
                .to_owned(),
        ),
        None => None,
    }
}

/// What made the sizes unequal: features computed in between, and other programs.
fn disturbances(page: &mut Page, scaling: &Scaling) {
    let decoded = most(scaling, |measured| measured.decoded);
    if decoded > COLD {
        let text = format!(
            "features of up to {} of a size's clips were computed while it ran, which later sizes then found in the cache: \
             `voxmill prepare` first, then all are measured alike",
            short_percent(decoded.min(1.0))
        );
        page.point("  ", Mark::Warn, text);
    }
    let others = most(scaling, |measured| measured.others.unwrap_or(0.0));
    if others > thresholds::RIVALS {
        let text = format!(
            "other programs took up to {} of the cores meanwhile: they may be why a size gains or does not; \
             measure again when they are done",
            short_percent(others)
        );
        page.point("  ", Mark::Warn, text);
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::fits;
    use super::*;
    use voxmill_analysis::scaling::{
        Extrapolated, MemoryLimit, SCALING_VERSION, Shortage, SizeRow,
    };
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
                variation: Some(0.03),
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
            flag: format!("--{}", swept.setting().key().replace('_', "-")),
            sizes,
            knee,
            memory: MemoryLimit::default(),
        }
    }

    #[track_caller]
    fn shown(scaling: &Scaling) -> String {
        fits(scaling_text(scaling, Paint::plain()))
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
        let reason =
            "the run does not fit on cuda:0: it needs 2100MB, and --model-gpu-memory is 1500MB";
        let mut sizes = vec![
            row(8, 8_000.0, None),
            row(16, 10_400.0, gain(1.3)),
            row(24, 10_500.0, gain(1.01)),
            dead(32, reason, Some(refused)),
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
        let killed = "killed by signal 9: the system does that where memory runs out";
        let sizes = vec![dead(8, killed, None), dead(16, "the disk is full", None)];
        insta::assert_snapshot!(shown(&of(Swept::BatchSize, sizes, None)));
    }
}
