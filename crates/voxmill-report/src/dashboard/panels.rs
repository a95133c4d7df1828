//! The lines of the three panels below the chart. The most telling lines come first: a small terminal cuts the rest.

use ratatui::style::{Color, Style, Stylize as _};
use ratatui::text::{Line, Span};

use super::state::DashboardState;
use crate::format::{self, count, loss, milliseconds, pad, short_percent, size, truncate, whole};

/// Widest name of a row; the rest of the line is its value.
const NAME_WIDTH: usize = 11;

/// Above it, waiting for data is worth a warning.
const HIGH_STALL: f64 = 0.02;

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
    let stalls = state.stall_share.is_some_and(|share| share > HIGH_STALL);
    let stall = named_value("stall", or_unknown(state.stall_share, short_percent));
    let step = or_unknown(times, |times| format!("{} ms", milliseconds(times.now)));
    let percentiles = or_unknown(times, |times| {
        format!(
            "{} / {}",
            milliseconds(times.median),
            milliseconds(times.p95)
        )
    });
    let rate = or_unknown(state.learning_rate, |rate| format!("{rate:.1e}"));
    vec![
        named_value("step", step),
        named_value("p50 / p95", percentiles),
        if stalls { stall.yellow() } else { stall },
        named_value("frames/s", or_unknown(state.frames_per_second, whole)),
        named_value("rate", rate),
        named_value("grad norm", or_unknown(state.gradient_norm, loss)),
    ]
}

pub(super) fn machine(state: &DashboardState) -> Vec<Line<'static>> {
    let best = or_unknown(state.best_validation, |best| {
        format!("{} @{}", loss(best.loss), count(best.step))
    });
    let saved = or_unknown(state.last_checkpoint.clone(), |at| at);
    let mut lines = vec![named_value("best mel", best), named_value("saved", saved)];
    for device in &state.devices {
        let busy = device.busy_share.map(short_percent);
        let memory = device.memory_bytes.map(size);
        let known: Vec<String> = busy.into_iter().chain(memory).collect();
        let value = (!known.is_empty()).then(|| known.join(", "));
        lines.push(named_value(&device.name, or_unknown(value, |value| value)));
    }
    let cpu = or_unknown(state.host_cpu_share, short_percent);
    let memory = or_unknown(state.resident_bytes, size);
    lines.extend([named_value("CPU", cpu), named_value("memory", memory)]);
    lines
}

fn named_value(name: &str, value: String) -> Line<'static> {
    Line::from(vec![name_span(name, NAME_WIDTH), Span::from(value)])
}

/// A name cut and padded to a width, with a blank at its end.
fn name_span(name: &str, columns: usize) -> Span<'static> {
    Span::from(pad(&truncate(name, columns.saturating_sub(1)), columns)).dim()
}

/// A name, a bar, a level. The bar is made of letters, so that it can be read without colours.
fn gauge(name: &str, share: f64, level: &str, width: usize) -> Line<'static> {
    let name_width = NAME_WIDTH.min(width / 2);
    let bar_width = width.saturating_sub(name_width + format::width(level) + 1);
    let filled = (share.clamp(0.0, 1.0) * bar_width as f64).round() as usize;
    Line::from(vec![
        name_span(name, name_width),
        Span::styled("█".repeat(filled), Style::new().fg(Color::Cyan)),
        Span::from("░".repeat(bar_width - filled)).dim(),
        Span::from(format!(" {level}")),
    ])
}

fn or_unknown<T>(value: Option<T>, show: impl Fn(T) -> String) -> String {
    value.map_or_else(|| "–".to_owned(), show)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_is_a_dash() {
        assert_eq!(or_unknown(None, short_percent), "–");
    }
}
