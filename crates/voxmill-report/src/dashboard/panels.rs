//! The lines of the three panels below the chart. The most telling lines come first: a small terminal cuts the rest.

use std::time::Duration;

use ratatui::style::{Color, Style, Stylize as _};
use ratatui::text::{Line, Span};

use super::state::DashboardState;
use crate::format::{self, count, short_percent, size};

/// Widest name of a row; the rest of the line is its value.
const NAME_WIDTH: usize = 11;

/// Above it, waiting for data is worth a look.
const STALL_WORTH_A_LOOK: f64 = 0.02;

pub(super) fn feed(state: &DashboardState, width: usize) -> Vec<Line<'static>> {
    let buffers = state.buffers.iter().map(|buffer| {
        let share = buffer.items as f64 / buffer.capacity.max(1) as f64;
        let level = format!("{}/{}", buffer.items, buffer.capacity);
        gauge(&buffer.name, share, &level, width)
    });
    let budget = state.budget.map(|budget| {
        let share = budget.used_bytes as f64 / budget.limit_bytes.max(1) as f64;
        let of_limit = format!("of {}", size(budget.limit_bytes));
        gauge("budget", share, &of_limit, width)
    });
    let lines: Vec<Line<'static>> = buffers.chain(budget).collect();
    if lines.is_empty() {
        return vec![Line::from("no buffers").dim()];
    }
    lines
}

pub(super) fn speed(state: &DashboardState) -> Vec<Line<'static>> {
    let times = state.step_times;
    let stalls = state
        .stall_share
        .is_some_and(|share| share > STALL_WORTH_A_LOOK);
    let stall = named_value("stall", or_unknown(state.stall_share, short_percent));
    vec![
        named_value(
            "step",
            or_unknown(times, |times| format!("{} ms", milliseconds(times.now))),
        ),
        named_value(
            "p50 / p95",
            or_unknown(times, |times| {
                let (median, p95) = (milliseconds(times.median), milliseconds(times.p95));
                format!("{median} / {p95}")
            }),
        ),
        if stalls { stall.yellow() } else { stall },
        named_value(
            "frames/s",
            or_unknown(state.frames_per_second, |rate| count(rate.round() as u64)),
        ),
        named_value(
            "rate",
            or_unknown(state.learning_rate, |rate| format!("{rate:.1e}")),
        ),
        named_value("grad norm", or_unknown(state.gradient_norm, loss)),
    ]
}

pub(super) fn machine(state: &DashboardState) -> Vec<Line<'static>> {
    let mut lines = vec![named_value(
        "best val",
        or_unknown(state.best_validation, |best| {
            format!("{} @{}", loss(best.loss), count(best.step))
        }),
    )];
    lines.push(named_value(
        "saved",
        or_unknown(state.last_checkpoint.clone(), |at| at),
    ));
    for device in &state.devices {
        let busy = device.busy_share.map(short_percent);
        let memory = device.memory_bytes.map(size);
        let known: Vec<String> = busy.into_iter().chain(memory).collect();
        let value = (!known.is_empty()).then(|| known.join(", "));
        lines.push(named_value(&device.name, or_unknown(value, |value| value)));
    }
    lines.push(named_value(
        "CPU",
        or_unknown(state.host_cpu_share, short_percent),
    ));
    lines.push(named_value(
        "memory",
        or_unknown(state.resident_bytes, size),
    ));
    lines
}

fn named_value(name: &str, value: String) -> Line<'static> {
    let name: String = name.chars().take(NAME_WIDTH - 1).collect();
    Line::from(vec![
        Span::from(format!("{name:<NAME_WIDTH$}")).dim(),
        Span::from(value),
    ])
}

/// A name, a bar, a level. The bar is made of letters, so that it can be read without colours.
fn gauge(name: &str, share: f64, level: &str, width: usize) -> Line<'static> {
    let name_width = NAME_WIDTH.min(width / 2);
    let name: String = name.chars().take(name_width.saturating_sub(1)).collect();
    let bar_width = width.saturating_sub(name_width + format::width(level) + 1);
    let filled = (share.clamp(0.0, 1.0) * bar_width as f64).round() as usize;
    Line::from(vec![
        Span::from(format!("{name:<name_width$}")).dim(),
        Span::styled("█".repeat(filled), Style::new().fg(Color::Cyan)),
        Span::from("░".repeat(bar_width - filled)).dim(),
        Span::from(format!(" {level}")),
    ])
}

fn or_unknown<T>(value: Option<T>, show: impl Fn(T) -> String) -> String {
    value.map_or_else(|| "–".to_owned(), show)
}

fn milliseconds(time: Duration) -> String {
    let milliseconds = time.as_secs_f64() * 1e3;
    let digits = usize::from(milliseconds < 99.95);
    format!("{milliseconds:.digits$}")
}

/// Three significant digits, whether a loss is 12 or 0.0004.
pub(super) fn loss(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        size if size < 0.001 => format!("{value:.1e}"),
        size if size < 0.1 => format!("{value:.4}"),
        size if size < 10.0 => format!("{value:.3}"),
        _ => format!("{value:.1}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        assert_eq!(milliseconds(Duration::from_micros(1_540)), "1.5");
        assert_eq!(
            [loss(12.34), loss(1.234), loss(0.01234)],
            ["12.3", "1.234", "0.0123"]
        );
        assert_eq!(or_unknown(None, short_percent), "–");
    }
}
