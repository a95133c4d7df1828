//! Charts: rows of plots over one horizontal axis.
//!
//! What is drawn lies in a box of 1,000 by 100 that is stretched to its place, so a chart is as wide as its
//! reader's screen. Words and numbers stand around it as text of the page, and are never stretched.

use super::markup::{Html, fine, number};
use super::scale::{Scale, Unit};

/// The box that a plot is drawn into.
const WIDTH: f64 = 1_000.0;
const HEIGHT: f64 = 100.0;

/// Charts of one group are zoomed together: they have the same horizontal axis.
#[derive(Clone, Debug)]
pub(crate) struct Group(pub(crate) String);

#[derive(Clone, Debug)]
pub(crate) struct Chart {
    pub(crate) title: &'static str,
    /// What is drawn, how it was measured.
    pub(crate) note: String,
    pub(crate) x: Scale,
    pub(crate) x_name: &'static str,
    /// `None`: it cannot be zoomed.
    pub(crate) group: Option<Group>,
    pub(crate) rows: Vec<Row>,
    pub(crate) legend: Vec<(Colour, String)>,
}

#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) label: String,
    pub(crate) y: Scale,
    /// In pixels.
    pub(crate) height: u32,
    pub(crate) layers: Vec<Layer>,
    /// The script draws single steps here, once few enough are in view.
    pub(crate) has_steps: bool,
}

/// One of the colours of the style sheet, which are told apart by people who see few colours. Lines also differ in
/// their dashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Colour(pub(crate) usize);

pub(crate) const COLOURS: [&str; 7] = ["c1", "c2", "c3", "c4", "c5", "c6", "c7"];

impl Colour {
    pub(crate) const TRAIN: Colour = Colour(0);
    pub(crate) const WAITED: Colour = Colour(3);
    pub(crate) const GAP: Colour = Colour(6);

    pub(crate) fn class(self) -> &'static str {
        COLOURS[self.0 % COLOURS.len()]
    }
}

#[derive(Clone, Debug)]
pub(crate) enum Layer {
    /// Broken where a value is no number.
    Line(Colour, Vec<(f64, f64)>),
    Dots(Colour, Vec<(f64, f64)>),
    /// From zero, or from the layer below: `(from, to, bottom, top)`.
    Bars(Colour, Vec<(f64, f64, f64, f64)>),
    /// Across the whole height, with words for who points at it.
    Marks(Colour, Vec<(f64, String)>),
}

impl Row {
    pub(crate) fn new(label: impl Into<String>, y: Scale, height: u32) -> Row {
        Row {
            label: label.into(),
            y,
            height,
            layers: Vec::new(),
            has_steps: false,
        }
    }

    pub(crate) fn with(mut self, layer: Layer) -> Row {
        self.layers.push(layer);
        self
    }

    fn is_empty(&self) -> bool {
        self.layers.iter().all(|layer| match layer {
            Layer::Line(_, points) | Layer::Dots(_, points) => points.is_empty(),
            Layer::Bars(_, bars) => bars.is_empty(),
            Layer::Marks(..) => true,
        })
    }

    fn ticks(&self) -> Vec<f64> {
        self.y.ticks((self.height / 34).clamp(2, 6) as usize)
    }

    /// The box's content.
    fn draw(&self, x: &Scale) -> Html {
        let mut drawn = Html::new();
        let up = |value: f64| HEIGHT * (1.0 - self.y.share(value));
        let across = |value: f64| WIDTH * x.share(value);
        for tick in self.ticks() {
            let line = format!("M0 {}H{WIDTH}", number(up(tick)));
            drawn.shape("path", &[("class", "grid"), ("d", &line)]);
        }
        drawn.element("g", &[("class", "overview")], |g| {
            for layer in &self.layers {
                layer.draw(g, &across, &up);
            }
        });
        if self.has_steps {
            drawn.element("g", &[("class", "detail")], |_| {});
        }
        for layer in &self.layers {
            if let Layer::Marks(colour, marks) = layer {
                for (at, what) in marks {
                    let line = format!("M{} 0V{HEIGHT}", fine(across(*at)));
                    let class = format!("mark {}", colour.class());
                    drawn.element("path", &[("class", &class), ("d", &line)], |path| {
                        path.words("title", &[], what);
                    });
                }
            }
        }
        drawn
    }
}

impl Layer {
    fn draw(&self, out: &mut Html, across: &impl Fn(f64) -> f64, up: &impl Fn(f64) -> f64) {
        match self {
            Layer::Line(colour, points) => {
                let mut path = String::new();
                let mut pen_down = false;
                for (x, y) in points {
                    if !(x.is_finite() && y.is_finite()) {
                        pen_down = false;
                        continue;
                    }
                    path.push(if pen_down { 'L' } else { 'M' });
                    path += &format!("{} {}", fine(across(*x)), number(up(*y)));
                    // A point alone is seen as a dot.
                    if !pen_down {
                        path += "h0";
                    }
                    pen_down = true;
                }
                let class = format!("line {}", colour.class());
                out.shape("path", &[("class", &class), ("d", &path)]);
            }
            Layer::Dots(colour, points) => {
                let dots = points
                    .iter()
                    .filter(|(x, y)| x.is_finite() && y.is_finite());
                let dot =
                    |(x, y): &(f64, f64)| format!("M{} {}h0", fine(across(*x)), number(up(*y)));
                let path: String = dots.map(dot).collect();
                let class = format!("dots {}", colour.class());
                out.shape("path", &[("class", &class), ("d", &path)]);
            }
            Layer::Bars(colour, bars) => {
                let mut path = String::new();
                for (from, to, bottom, top) in bars {
                    // Nor is a bar drawn that is no number.
                    let has_height = top > bottom;
                    if !has_height {
                        continue;
                    }
                    let (left, right) = (across(*from), across(*to));
                    path += &format!(
                        "M{} {}H{}V{}H{}z",
                        fine(left),
                        number(up(*bottom)),
                        fine(right),
                        number(up(*top)),
                        fine(left)
                    );
                }
                let class = format!("bars {}", colour.class());
                out.shape("path", &[("class", &class), ("d", &path)]);
            }
            // Drawn above everything else.
            Layer::Marks(..) => {}
        }
    }
}

impl Chart {
    /// Whether there is anything in it.
    pub(crate) fn has_data(&self) -> bool {
        self.rows.iter().any(|row| !row.is_empty())
    }

    /// As part of a page.
    pub(crate) fn figure(&self, page: &mut Html) {
        let (from, to) = (self.x.from.to_string(), self.x.to.to_string());
        let mut attributes = vec![("class", "chart"), ("data-from", &*from), ("data-to", &*to)];
        attributes.push(("data-unit", self.x.unit.name()));
        if let Some(Group(group)) = &self.group {
            attributes.push(("data-group", group));
        }
        page.element("figure", &attributes, |figure| {
            figure.element("figcaption", &[], |caption| {
                caption.words("h3", &[], self.title);
                caption.words("p", &[("class", "note")], &self.note);
            });
            self.legend_of(figure);
            let single = self.rows.len() == 1;
            for row in &self.rows {
                if !(single || row.label.is_empty()) {
                    figure.words("p", &[("class", "lane")], &row.label);
                }
                self.row(figure, row);
            }
            figure.element(
                "div",
                &[("class", "xaxis"), ("aria-hidden", "true")],
                |axis| {
                    for tick in self.x.ticks(5) {
                        let style = format!("left:{}%", number(100.0 * self.x.share(tick)));
                        axis.words("span", &[("style", &style)], &self.x.unit.label(tick));
                    }
                },
            );
            figure.words("p", &[("class", "xname")], self.x_name);
        });
    }

    fn row(&self, figure: &mut Html, row: &Row) {
        figure.element("div", &[("class", "row")], |line| {
            line.element(
                "div",
                &[("class", "yaxis"), ("aria-hidden", "true")],
                |axis| {
                    for tick in row.ticks() {
                        let style = format!("bottom:{}%", number(100.0 * row.y.share(tick)));
                        axis.words("span", &[("style", &style)], &row.y.unit.label(tick));
                    }
                },
            );
            let name = match row.label.is_empty() {
                true => self.title.to_owned(),
                false => format!("{}: {}", self.title, row.label),
            };
            let style = format!("height:{}px", row.height);
            let view = format!("0 0 {WIDTH} {HEIGHT}");
            let plot = [
                ("class", "plot"),
                ("viewBox", &*view),
                ("preserveAspectRatio", "none"),
                ("style", &style),
                ("role", "img"),
                ("aria-label", &name),
            ];
            line.element("svg", &plot, |svg| svg.append(row.draw(&self.x)));
        });
    }

    fn legend_of(&self, figure: &mut Html) {
        if self.legend.is_empty() {
            return;
        }
        figure.element("ul", &[("class", "legend")], |list| {
            for (colour, name) in &self.legend {
                list.element("li", &[], |item| {
                    let class = format!("key {}", colour.class());
                    item.element("span", &[("class", &class)], |_| {});
                    item.text(name);
                });
            }
        });
    }

    /// As a picture by itself.
    pub(crate) fn picture(&self, style: &'static str) -> String {
        const LEFT: f64 = 70.0;
        const RIGHT: f64 = 20.0;
        const WHOLE: f64 = 860.0;
        let wide = WHOLE - LEFT - RIGHT;
        let head = 34.0 + if self.legend.is_empty() { 0.0 } else { 22.0 };
        let above = |row: &Row| match self.rows.len() == 1 || row.label.is_empty() {
            true => 8.0,
            false => 22.0,
        };
        let rows: f64 = self
            .rows
            .iter()
            .map(|row| above(row) + f64::from(row.height))
            .sum();
        let tall = head + rows + 44.0;
        let view = format!("0 0 {WHOLE} {}", number(tall));
        let mut picture = Html::new();
        let attributes = [
            ("xmlns", "http://www.w3.org/2000/svg"),
            ("viewBox", &*view),
            ("role", "img"),
            ("aria-label", self.title),
        ];
        picture.element("svg", &attributes, |svg| {
            svg.element("style", &[], |sheet| sheet.own(style));
            svg.shape(
                "rect",
                &[("class", "paper"), ("width", "100%"), ("height", "100%")],
            );
            text(svg, "title", (LEFT, 22.0), "start", self.title);
            let mut x = LEFT;
            for (colour, name) in &self.legend {
                let (left, class) = (number(x), format!("bars {}", colour.class()));
                let key = [("class", &*class), ("x", &left), ("y", "36")];
                let key = [&key[..], &[("width", "11"), ("height", "11")]].concat();
                svg.shape("rect", &key);
                text(svg, "", (x + 16.0, 46.0), "start", name);
                x += 34.0 + 7.2 * name.chars().count() as f64;
            }
            let mut top = head;
            for row in &self.rows {
                if above(row) > 8.0 {
                    text(svg, "lane", (LEFT, top + 16.0), "start", &row.label);
                }
                top += above(row);
                let height = f64::from(row.height);
                for tick in row.ticks() {
                    let y = top + height * (1.0 - row.y.share(tick)) + 4.0;
                    text(svg, "", (LEFT - 6.0, y), "end", &row.y.unit.label(tick));
                }
                let (left, y) = (number(LEFT), number(top));
                let (width, height) = (number(wide), number(height));
                let place = [
                    ("x", &*left),
                    ("y", &y),
                    ("width", &width),
                    ("height", &height),
                ];
                let view = [("viewBox", "0 0 1000 100"), ("preserveAspectRatio", "none")];
                let place = [&place[..], &view].concat();
                svg.element("svg", &place, |plot| plot.append(row.draw(&self.x)));
                top += f64::from(row.height);
            }
            for tick in self.x.ticks(6) {
                let x = LEFT + wide * self.x.share(tick);
                text(svg, "", (x, top + 18.0), "middle", &self.x.unit.label(tick));
            }
            text(
                svg,
                "",
                (LEFT + wide / 2.0, top + 36.0),
                "middle",
                self.x_name,
            );
        });
        picture.into_string() + "\n"
    }
}

fn text(svg: &mut Html, class: &str, (x, y): (f64, f64), anchor: &str, words: &str) {
    let (x, y) = (number(x), number(y));
    let attributes = [
        ("class", class),
        ("x", &x),
        ("y", &y),
        ("text-anchor", anchor),
    ];
    svg.words("text", &attributes, words);
}

/// Points of a series in steps or seconds, as few as are needed to see what stands out.
pub(crate) const PARTS: usize = 600;

/// A span of time as words: an axis label.
pub(crate) fn at_time(seconds: f64) -> String {
    Unit::Seconds.label(seconds)
}
