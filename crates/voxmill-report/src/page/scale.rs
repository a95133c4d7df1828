//! Axes: where a value lies, and which values are written at them.

use crate::format::{count, loss, measure, size, time};

/// What the numbers of an axis are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Of the run's clock.
    Seconds,
    Milliseconds,
    /// Between 0 and 1.
    Share,
    Bytes,
    /// Steps, items, clips.
    Count,
    Plain,
}

impl Unit {
    /// The value as an axis shows it.
    pub(crate) fn label(self, value: f64) -> String {
        match self {
            Unit::Seconds => clock(value),
            Unit::Milliseconds => time(value),
            Unit::Share => format!("{} %", trimmed(100.0 * value)),
            Unit::Bytes => match value {
                0.0 => "0".to_owned(),
                value => size(value.max(0.0) as u64),
            },
            Unit::Count => match value.fract() == 0.0 {
                true => count(format!("{value:.0}")),
                false => trimmed(value),
            },
            Unit::Plain if value == 0.0 => "0".to_owned(),
            Unit::Plain if value.abs() < 0.001 => loss(value),
            Unit::Plain => trimmed(value),
        }
    }

    /// As the script knows it, which writes the ticks of what was zoomed into.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Unit::Seconds => "seconds",
            _ => "count",
        }
    }
}

fn trimmed(value: f64) -> String {
    let text = match value.abs() {
        100.0.. => return measure(value),
        10.0.. => format!("{value:.1}"),
        1.0.. => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    };
    let text = text.trim_end_matches('0').trim_end_matches('.');
    match text {
        "-0" | "" => "0".to_owned(),
        text => text.to_owned(),
    }
}

/// Since the start: `12 s`, `3:20`, `2:05:00`.
fn clock(seconds: f64) -> String {
    let whole = seconds.round() as u64;
    let (hours, minutes, rest) = (whole / 3600, whole / 60 % 60, whole % 60);
    match seconds {
        ..60.0 => format!("{} s", trimmed(seconds)),
        ..3600.0 => format!("{minutes}:{rest:02}"),
        _ => format!("{hours}:{minutes:02}:{rest:02}"),
    }
}

/// A range of values along an axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Scale {
    pub(crate) from: f64,
    pub(crate) to: f64,
    pub(crate) unit: Unit,
}

impl Scale {
    pub(crate) fn new(from: f64, to: f64, unit: Unit) -> Scale {
        let to = if to > from { to } else { from + 1.0 };
        Scale { from, to, unit }
    }

    /// From zero: the height of what is drawn is then what it is.
    pub(crate) fn from_zero(values: impl IntoIterator<Item = f64>, unit: Unit) -> Scale {
        let values = values.into_iter().filter(|value| value.is_finite());
        let most = values.fold(0.0, f64::max);
        Scale::new(0.0, if most > 0.0 { 1.05 * most } else { 1.0 }, unit)
    }

    /// Around the values: for what has no zero that matters.
    pub(crate) fn around(values: impl IntoIterator<Item = f64>, unit: Unit) -> Scale {
        let values = values.into_iter().filter(|value| value.is_finite());
        let (low, high) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
            (low.min(value), high.max(value))
        });
        if low > high {
            return Scale::new(0.0, 1.0, unit);
        }
        let room = (0.05 * (high - low)).max(1e-9 * high.abs());
        Scale::new(low - room, high + room, unit)
    }

    /// 0 at the beginning of the axis, 1 at its end.
    pub(crate) fn share(&self, value: f64) -> f64 {
        (value - self.from) / (self.to - self.from)
    }

    /// At most `most` round values within the range.
    pub(crate) fn ticks(&self, most: usize) -> Vec<f64> {
        let span = self.to - self.from;
        let least = span / most.max(1) as f64;
        let step = match self.unit {
            Unit::Seconds if least > 1.0 => round_time(least),
            Unit::Count => round(least).max(1.0),
            _ => round(least),
        };
        let first = (self.from / step - 1e-9).ceil() as i64;
        let last = (self.to / step + 1e-9).floor() as i64;
        (first..=last).map(|n| n as f64 * step).collect()
    }
}

/// 1, 2 or 5 with zeros, at least as large.
fn round(least: f64) -> f64 {
    let power = 10f64.powf(least.max(1e-12).log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|n| n * power);
    let fitting = steps.into_iter().find(|step| *step >= least * (1.0 - 1e-9));
    fitting.unwrap_or(10.0 * power)
}

fn round_time(least: f64) -> f64 {
    const STEPS: [f64; 15] = [
        1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1_200.0, 1_800.0, 3_600.0,
        7_200.0, 21_600.0,
    ];
    let fitting = STEPS.into_iter().find(|step| *step >= least);
    fitting.unwrap_or_else(|| 86_400.0 * round(least / 86_400.0).max(0.5))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_few() {
        let labels = |from, to, unit: Unit| -> Vec<String> {
            let scale = Scale::new(from, to, unit);
            scale
                .ticks(5)
                .into_iter()
                .map(|tick| unit.label(tick))
                .collect()
        };
        assert_eq!(
            labels(0.0, 32.3, Unit::Seconds),
            ["0 s", "10 s", "20 s", "30 s"]
        );
        assert_eq!(
            labels(0.0, 10_000.0, Unit::Seconds),
            ["0 s", "1:00:00", "2:00:00"]
        );
        assert_eq!(
            labels(0.0, 1.0, Unit::Share),
            ["0 %", "20 %", "40 %", "60 %", "80 %", "100 %"]
        );
        assert_eq!(labels(1.0, 3.0, Unit::Count), ["1", "2", "3"]);
        assert_eq!(labels(0.0, 480.0, Unit::Milliseconds)[1], "100 ms");
        for (from, to) in [(0.0, 1e-9), (5.0, 5.0), (-3.0, 1e12)] {
            let ticks = Scale::new(from, to, Unit::Plain).ticks(5);
            assert!((1..=6).contains(&ticks.len()), "{from} {to} {ticks:?}");
        }
    }

    #[test]
    fn heights_begin_at_zero_where_they_are_amounts() {
        let scale = Scale::from_zero([3.0, f64::NAN, 4.0], Unit::Count);
        assert_eq!((scale.from, scale.share(0.0)), (0.0, 0.0));
        assert!(scale.to > 4.0);
        let around = Scale::around([10.0, 12.0], Unit::Plain);
        assert!(around.from > 9.0 && around.to < 13.0);
        assert_eq!(Scale::around([], Unit::Plain).to, 1.0);
    }
}
