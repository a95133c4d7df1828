//! Draws the state. No terminal is needed for it, and no size of one makes it fail.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Style, Stylize as _};
use ratatui::symbols::Marker;
use ratatui::text::{Line, Span};
use ratatui::widgets::canvas::{Canvas, Line as Segment};
use ratatui::widgets::{Block, Clear, LineGauge, Paragraph};

use voxmill_untrusted::shown::is_obeyed;

use super::curve::Curve;
use super::panels;
use super::state::{CURVES, DashboardState, Goal, Watching};
use super::watched::ended;
use crate::format::{clock, count, loss};

/// Below it, only the header and the curves are shown.
const HEIGHT_FOR_PANELS: u16 = 18;
const WIDTH_FOR_PANELS: u16 = 60;
const HEIGHT_FOR_ALL_CURVES: u16 = 14;

const VALIDATION: &str = "held-out mel";

pub fn render(state: &DashboardState, frame: &mut Frame<'_>) {
    render_all(state, frame);
    if state.view.help {
        render_help(state, frame);
    }
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
    let verb = match state.watching {
        None => " voxmill train ",
        Some(_) => " voxmill watch ",
    };
    let mut spans = vec![Span::from(verb).reversed(), Span::from(" ")];
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
    let epoch = state.epoch.map(|epoch| format!("  epoch {epoch}"));
    let mut label = match &state.doing {
        Some(doing) => format!(" {doing}  {time}"),
        None => format!(" {step}{}  {time}", epoch.unwrap_or_default()),
    };
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
    let line = if let Some(watching) = state.watching {
        let keys = "↑↓: messages   1-5: curves   p: pause   ?: help";
        let step = state.step;
        match watching {
            _ if state.view.paused => Line::from(PAUSED).yellow(),
            Watching::Running => Line::from(format!(" q: leave   {keys}")).dim(),
            Watching::Ended(outcome) => {
                Line::from(format!(" {}   q: leave   ?: help", ended(outcome, step))).yellow()
            }
            Watching::Killed => {
                let killed = "the run was killed: its log has no end   q: leave   ?: help";
                Line::from(format!(" {killed}")).yellow()
            }
        }
    } else if state.stopping {
        Line::from(" stopping: a checkpoint is being saved. Ctrl-C again: stop at once").yellow()
    } else if state.view.paused {
        Line::from(PAUSED).yellow()
    } else {
        Line::from(" q: save and stop   ↑↓: messages   1-5: curves   p: pause   ?: help").dim()
    };
    frame.render_widget(line, area);
}

/// Name, mark and colour of each curve: without colours the marks tell them apart.
const LOOKS: [(&str, &str, Color); CURVES] = [
    ("total", "●", Color::Green),
    (VALIDATION, "◆", Color::Yellow),
    ("mel", "▲", Color::Cyan),
    ("mean", "■", Color::Blue),
    ("duration", "✚", Color::Magenta),
];

/// Marks on a curve, each between those of the others.
const MARKS: usize = 6;

struct Drawn<'a> {
    name: &'static str,
    mark: &'static str,
    colour: Color,
    curve: &'a Curve,
    /// In the list of all curves.
    place: usize,
}

/// Five curves in a few rows are a tangle: there it is two, unless a person chose others.
fn drawn(state: &DashboardState, height: u16) -> Vec<Drawn<'_>> {
    let has_room = state.view.all_curves || height >= HEIGHT_FOR_ALL_CURVES;
    let by_height = [true, true, has_room, has_room, has_room];
    let chosen: Vec<bool> = (by_height.iter().zip(state.view.turned))
        .map(|(shown, turned)| shown ^ turned)
        .collect();
    let curves = [
        &state.total_loss,
        &state.validation_loss,
        &state.mel_loss,
        &state.mean_loss,
        &state.duration_loss,
    ];
    let all = LOOKS.into_iter().zip(curves).zip(chosen).enumerate();
    all.filter(|(_, (_, chosen))| *chosen)
        .map(|(place, (((name, mark, colour), curve), _))| Drawn {
            name,
            mark,
            colour,
            curve,
            place,
        })
        .collect()
}

/// The losses on a logarithmic scale: they start ten times as high as they end, and the parts differ as much.
fn render_curves(state: &DashboardState, frame: &mut Frame<'_>, area: Rect) {
    let drawn = drawn(state, area.height);
    let [title, rest] = curves_titles(&drawn, area.width);
    let block = Block::bordered().title(title).title_bottom(rest);
    let points: Vec<_> = drawn.iter().map(|drawn| logarithms(drawn.curve)).collect();
    let Some([steps, losses]) = bounds(points.iter().flatten()) else {
        let mut lines = vec![Line::from(
            " no losses yet: they are read every --log-every steps",
        )];
        let doing = state.doing.as_ref();
        lines.extend(
            doing.map(|doing| Line::from(format!(" {doing}, for {}", clock(state.elapsed)))),
        );
        let waiting = Paragraph::new(lines);
        return frame.render_widget(waiting.block(block), area);
    };
    let inner = block.inner(area);
    frame.render_widget(block, area);
    let ends_and_middle = |[low, high]: [f64; 2]| [low, (low + high) / 2.0, high];
    let heights = ends_and_middle(losses).map(|log| loss(10_f64.powf(log)));
    let label_width = heights.iter().map(|label| label.len()).max().unwrap_or(0) as u16 + 1;
    let [upper, below] =
        Layout::vertical([Constraint::Fill(1), Constraint::Length(1)]).areas(inner);
    let [labels, plot] =
        Layout::horizontal([Constraint::Length(label_width), Constraint::Fill(1)]).areas(upper);
    let [low, middle, high] = heights.map(|label| Line::from(label).dim());
    let row = |y: u16| Rect {
        y,
        height: 1.min(labels.height),
        ..labels
    };
    if labels.height > 0 {
        frame.render_widget(high, row(labels.top()));
        if labels.height > 4 {
            frame.render_widget(middle, row(labels.top() + labels.height / 2));
        }
        frame.render_widget(low, row(labels.bottom() - 1));
    }
    let [first, halfway, last] = ends_and_middle(steps).map(|step| count(step as u64));
    let below = Rect {
        x: plot.x,
        width: plot.width,
        ..below
    };
    frame.render_widget(Line::from(first).dim(), below);
    frame.render_widget(Line::from(halfway).dim().centered(), below);
    frame.render_widget(
        Line::from(format!("step {last}")).dim().right_aligned(),
        below,
    );
    let canvas = Canvas::default()
        .marker(Marker::Braille)
        .x_bounds(steps)
        .y_bounds(losses)
        .paint(|context| {
            for (drawn, points) in drawn.iter().zip(&points) {
                for pair in points.windows(2) {
                    let [(x1, y1), (x2, y2)] = [pair[0], pair[1]];
                    let color = drawn.colour;
                    context.draw(&Segment {
                        x1,
                        y1,
                        x2,
                        y2,
                        color,
                    });
                }
            }
            for (drawn, points) in drawn.iter().zip(&points) {
                for point in marked(points, drawn.place, steps) {
                    let (x, y) = in_cell(point, [steps, losses], plot);
                    context.print(x, y, Span::from(drawn.mark).fg(drawn.colour));
                }
            }
        });
    frame.render_widget(canvas, plot);
}

/// Where text has to be printed to stand in the cell that the line has its dots in: text is placed by cells, lines by
/// the two by four dots of a cell, and the two are rounded differently.
fn in_cell((x, y): (f64, f64), [steps, losses]: [[f64; 2]; 2], plot: Rect) -> (f64, f64) {
    let cell = |share: f64, cells: u16, dots: f64| {
        let dot = (share * (f64::from(cells) * dots - 1.0)).round();
        let cell = (dot / dots).floor() + 0.5;
        (cell / f64::from(cells.max(2) - 1)).min(1.0)
    };
    let (wide, high) = (steps[1] - steps[0], losses[1] - losses[0]);
    let x = steps[0] + wide * cell((x - steps[0]) / wide, plot.width, 2.0);
    let y = losses[1] - high * cell((losses[1] - y) / high, plot.height, 4.0);
    // At the border a rounding error would leave it out, or put it a cell off.
    let is_last = |value: f64, end: f64, span: f64| (value - end).abs() < 1e-9 * span;
    (
        if is_last(x, steps[1], wide) {
            steps[1]
        } else {
            x
        },
        if is_last(y, losses[0], high) {
            losses[0]
        } else {
            y
        },
    )
}

/// The points of a curve that get its mark: all of a few, else some, and never where another curve has its own.
fn marked(points: &[(f64, f64)], place: usize, [first, last]: [f64; 2]) -> Vec<(f64, f64)> {
    if points.len() <= MARKS {
        return points.to_vec();
    }
    let places = (0..MARKS).map(|mark| {
        let share = (mark as f64 + (place as f64 + 0.5) / CURVES as f64) / MARKS as f64;
        first + share * (last - first)
    });
    let nearest = places.filter_map(|at| points.iter().find(|(step, _)| *step >= at));
    nearest.copied().collect()
}

/// The newest values of what is drawn, with its marks and colours: a legend that covers nothing. What does not fit above
/// the curves is below them. A value that fits in neither is left out whole; cut, it would be another number.
fn curves_titles(drawn: &[Drawn<'_>], width: u16) -> [Line<'static>; 2] {
    let mut titles = [Line::from(" loss, log scale: "), Line::from(" ")];
    let mut at = 0;
    for Drawn {
        name,
        mark,
        colour,
        curve,
        ..
    } in drawn
    {
        let Some(last) = curve.last() else { continue };
        let value = Span::from(format!("{mark} {name} {}  ", loss(last))).fg(*colour);
        let fits = |title: &Line<'_>| title.width() + value.width() <= usize::from(width);
        if at == 0 && !fits(&titles[0]) {
            at = 1;
        }
        if !fits(&titles[at]) {
            break;
        }
        titles[at].push_span(value);
    }
    let [title, rest] = titles;
    [title, if at == 0 { Line::default() } else { rest }]
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
    let [rows, width] = [area.height, area.width].map(|size| usize::from(size.saturating_sub(2)));
    let lines = state.lines_in_sight(rows, width).into_iter();
    let lines = lines.map(|(line, is_warning)| match is_warning {
        true => Line::from(line).yellow(),
        false => Line::from(line),
    });
    let title = match state.view.scroll {
        0 => " messages ".to_owned(),
        newer => format!(" messages, {newer} newer below "),
    };
    frame.render_widget(panel(&title, lines.collect()), area);
}

const PAUSED: &str = " paused: the picture stands still, the run goes on. p: show it again";

const STOP_KEYS: [&str; 2] = [
    "q, Ctrl-C      save a checkpoint and stop",
    "Ctrl-C again   stop at once",
];
const LEAVE_KEYS: [&str; 1] = ["q, Ctrl-C      leave; the run goes on"];

const HELP: [&str; 7] = [
    "↑ ↓ PgUp PgDn  scroll the messages",
    "Home, End      oldest and newest message",
    "1 2 3 4 5      show or hide a curve: total,",
    "               held-out mel, mel, mean, duration",
    "0              show all curves",
    "p              hold the picture; the run goes on",
    "?, Esc         this help; back to the start view",
];

fn render_help(state: &DashboardState, frame: &mut Frame<'_>) {
    let area = frame.area();
    let keys: &[&str] = match state.watching {
        None => &STOP_KEYS,
        Some(_) => &LEAVE_KEYS,
    };
    let lines = keys.iter().chain(&HELP);
    let lines: Vec<Line<'_>> = lines.map(|line| Line::from(format!(" {line}"))).collect();
    let (width, height) = (
        52.min(area.width),
        (lines.len() as u16 + 2).min(area.height),
    );
    let area = Rect {
        x: (area.width - width) / 2,
        y: (area.height - height) / 2,
        width,
        height,
    };
    frame.render_widget(Clear, area);
    frame.render_widget(panel(" keys ", lines), area);
}

fn panel<'a>(title: &'a str, lines: Vec<Line<'a>>) -> Paragraph<'a> {
    Paragraph::new(lines).block(Block::bordered().title(title))
}

#[cfg(test)]
mod tests;
