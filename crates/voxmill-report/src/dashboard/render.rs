//! Draws the state. No terminal is needed for it, and no size of one makes it fail.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Style, Stylize as _};
use ratatui::symbols::Marker;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Axis, Block, Chart, Dataset, GraphType, LineGauge, Paragraph};

use voxmill_untrusted::shown::is_obeyed;

use super::curve::Curve;
use super::panels;
use super::state::{DashboardState, Goal};
use crate::format::{clock, count, loss};

/// Below it, only the header and the curves are shown.
const HEIGHT_FOR_PANELS: u16 = 18;
const WIDTH_FOR_PANELS: u16 = 60;
const HEIGHT_FOR_ALL_CURVES: u16 = 14;

const VALIDATION: &str = "validation";

pub fn render(state: &DashboardState, frame: &mut Frame<'_>) {
    render_all(state, frame);
    // Ids, names and paths are shown as they are: whatever got into a cell is looked at once more.
    for cell in &mut frame.buffer_mut().content {
        if cell.symbol().contains(is_obeyed) {
            cell.set_symbol("\u{fffd}");
        }
    }
}

fn render_all(state: &DashboardState, frame: &mut Frame<'_>) {
    let area = frame.area();
    let [header, progress, body, keys] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Fill(1),
        Constraint::Length(1),
    ])
    .areas(area);
    render_header(state, frame, header);
    render_progress(state, frame, progress);
    render_keys(state, frame, keys);
    if area.height < HEIGHT_FOR_PANELS || area.width < WIDTH_FOR_PANELS {
        render_curves(state, frame, body);
        return;
    }
    // Of a tall terminal the curves get most, but never less than half of what the panels leave.
    let panel_lines = panel_lines(state).clamp(5, 12) + 2;
    let message_lines = (body.height / 4).clamp(5, 14);
    let [curves, panels, messages] = Layout::vertical([
        Constraint::Fill(1),
        Constraint::Length(panel_lines.min(body.height / 3)),
        Constraint::Length(message_lines),
    ])
    .areas(body);
    render_curves(state, frame, curves);
    render_panels(state, frame, panels);
    render_messages(state, frame, messages);
}

fn panel_lines(state: &DashboardState) -> u16 {
    let longest = panels::feed(state, 0)
        .len()
        .max(panels::speed(state).len())
        .max(panels::machine(state).len());
    u16::try_from(longest).unwrap_or(u16::MAX)
}

fn render_header(state: &DashboardState, frame: &mut Frame<'_>, area: Rect) {
    let facts = [&state.model_size, &state.device, &state.mode];
    let mut spans = vec![Span::from(" voxmill train ").reversed(), Span::from(" ")];
    spans.push(Span::from(state.run_name.clone()).bold());
    for fact in facts.into_iter().filter(|fact| !fact.is_empty()) {
        spans.push(Span::from(" · ").dim());
        spans.push(Span::from(fact.clone()));
    }
    frame.render_widget(Line::from(spans), area);
}

fn render_progress(state: &DashboardState, frame: &mut Frame<'_>, area: Rect) {
    let step = match state.goal {
        Goal::Steps(steps) => format!("step {}/{}", count(state.step), count(steps)),
        _ => format!("step {}", count(state.step)),
    };
    let time = match state.goal {
        Goal::Time(time) => format!("{}/{}", clock(state.elapsed), clock(time)),
        _ => clock(state.elapsed),
    };
    let mut label = format!(" {step}  epoch {}  {time}", state.epoch);
    if let Some(left) = state.time_left {
        label += &format!("  ETA {}", clock(left));
    }
    label.push(' ');
    let Some(progress) = state.progress() else {
        return frame.render_widget(Line::from(label), area);
    };
    let gauge = LineGauge::default()
        .ratio(progress)
        .label(label)
        .filled_symbol("━")
        .unfilled_symbol("┄")
        .filled_style(Style::new().fg(Color::Green))
        .unfilled_style(Style::new().dim());
    frame.render_widget(gauge, area);
}

fn render_keys(state: &DashboardState, frame: &mut Frame<'_>, area: Rect) {
    let line = if state.stopping {
        Line::from(" stopping: a checkpoint is being saved. Ctrl-C again: stop at once").yellow()
    } else {
        Line::from(" q or Ctrl-C: save and stop").dim()
    };
    frame.render_widget(line, area);
}

/// The losses on a logarithmic scale: they start ten times as high as they end, and the parts differ as much.
fn render_curves(state: &DashboardState, frame: &mut Frame<'_>, area: Rect) {
    let curves = [
        ("total", &state.total_loss, Color::Green),
        (VALIDATION, &state.validation_loss, Color::Yellow),
        ("mel", &state.mel_loss, Color::Cyan),
        ("prior", &state.prior_loss, Color::Blue),
        ("duration", &state.duration_loss, Color::Magenta),
    ];
    let block = Block::bordered().title(curves_title(&curves, area.width));
    // Five curves in a few rows are a tangle; the title still has the numbers of all.
    let is_low = area.height < HEIGHT_FOR_ALL_CURVES;
    let drawn: Vec<_> = curves
        .into_iter()
        .filter(|(name, ..)| !is_low || ["total", VALIDATION].contains(name))
        .map(|(name, curve, colour)| (name, colour, logarithms(curve)))
        .collect();
    let Some([steps, losses]) = bounds(drawn.iter().flat_map(|(.., points)| points)) else {
        let waiting = Paragraph::new(" waiting for the first steps").block(block);
        return frame.render_widget(waiting, area);
    };
    let datasets = drawn.iter().map(|(name, colour, points)| {
        // Validation is rare, so it is dots, which also set it apart from the others without colours.
        let (marker, graph) = if *name == VALIDATION {
            (Marker::Dot, GraphType::Scatter)
        } else {
            (Marker::Braille, GraphType::Line)
        };
        Dataset::default()
            .data(points)
            .marker(marker)
            .graph_type(graph)
            .style(Style::new().fg(*colour))
    });
    let ends_and_middle = |[low, high]: [f64; 2]| [low, (low + high) / 2.0, high];
    let chart = Chart::new(datasets.collect())
        .block(block)
        .x_axis(axis(steps).labels(ends_and_middle(steps).map(|step| count(step as u64))))
        .y_axis(axis(losses).labels(ends_and_middle(losses).map(|log| loss(10_f64.powf(log)))));
    frame.render_widget(chart, area);
}

/// The newest values, the telling ones first, in the colours of their curves: a legend that covers nothing.
/// A value that does not fit is left out whole; cut, it would be another number.
fn curves_title(curves: &[(&'static str, &Curve, Color)], width: u16) -> Line<'static> {
    let mut title = Line::from(" loss: ");
    for (name, curve, colour) in curves {
        let Some(last) = curve.last() else { continue };
        let dot = if *name == VALIDATION { "• " } else { "" };
        let value = Span::from(format!("{dot}{name} {}  ", loss(last))).fg(*colour);
        if title.width() + value.width() > usize::from(width) {
            break;
        }
        title.push_span(value);
    }
    title
}

fn axis(bounds: [f64; 2]) -> Axis<'static> {
    Axis::default().bounds(bounds).style(Style::new().dim())
}

fn logarithms(curve: &Curve) -> Vec<(f64, f64)> {
    let points = curve.points().into_iter();
    points
        .filter(|&(_, value)| value > 0.0)
        .map(|(step, value)| (step, value.log10()))
        .collect()
}

/// Smallest and largest of each coordinate, with some room between them even if all are equal.
fn bounds<'a>(points: impl Iterator<Item = &'a (f64, f64)>) -> Option<[[f64; 2]; 2]> {
    let nothing = [[f64::INFINITY, f64::NEG_INFINITY]; 2];
    let [mut steps, mut losses] = points.fold(nothing, |[steps, losses], &(step, loss)| {
        let widen = |[low, high]: [f64; 2], value: f64| [low.min(value), high.max(value)];
        [widen(steps, step), widen(losses, loss)]
    });
    if steps[0] > steps[1] {
        return None;
    }
    steps[1] = steps[1].max(steps[0] + 1.0);
    if losses[1] - losses[0] < 0.1 {
        losses = [losses[0] - 0.05, losses[1] + 0.05];
    }
    Some([steps, losses])
}

fn render_panels(state: &DashboardState, frame: &mut Frame<'_>, area: Rect) {
    let columns: [Rect; 3] = Layout::horizontal([Constraint::Ratio(1, 3); 3]).areas(area);
    let inner_width = usize::from(columns[0].width.saturating_sub(2));
    let contents = [
        (" buffers ", panels::feed(state, inner_width)),
        (" speed ", panels::speed(state)),
        (" machine ", panels::machine(state)),
    ];
    for ((title, lines), column) in contents.into_iter().zip(columns) {
        frame.render_widget(panel(title, lines), column);
    }
}

fn render_messages(state: &DashboardState, frame: &mut Frame<'_>, area: Rect) {
    let messages = state.last_messages(usize::from(area.height.saturating_sub(2)));
    let lines = messages.map(|message| match message.is_warning {
        true => Line::from(format!("! {}", message.text)).yellow(),
        false => Line::from(format!("  {}", message.text)),
    });
    frame.render_widget(panel(" messages ", lines.collect()), area);
}

fn panel<'a>(title: &'a str, lines: Vec<Line<'a>>) -> Paragraph<'a> {
    Paragraph::new(lines).block(Block::bordered().title(title))
}

#[cfg(test)]
mod tests;
