//! A run as one page that can be sent: a single file of HTML without anything from elsewhere.
//!
//! All charts are drawn here as SVG. The script in the page only zooms. Every number is one of `voxmill-analysis`.

mod buffers;
mod chart;
mod comparison;
mod dataset;
mod learning;
mod markup;
mod pictures;
mod samples;
mod scale;
mod settings;
mod single_steps;
mod steps;
mod timeline;
mod verdict;
mod words;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest as _, Sha256};
use voxmill_analysis::compare::Comparison;
use voxmill_analysis::history::History;
use voxmill_analysis::profile::Profile;
use voxmill_analysis::run::Run;

use chart::Group;
use markup::Html;
use words::{ENGLISH, Words};

pub use pictures::{Picture, picture};
pub use samples::{Sample, Samples, room as room_for_samples};

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// A page is kept below this, whatever the length of the run.
pub const MOST_BYTES: usize = 2_000_000;

/// One run of a page, with all that is known of it.
#[derive(Clone, Debug)]
pub struct Reported {
    pub name: String,
    pub run: Run,
    pub history: History,
    /// With its advice named as the program's settings are.
    pub profile: Profile,
    /// A process writes its log now.
    pub in_progress: bool,
    pub samples: Samples,
}

/// Several runs are compared with the first of them.
pub fn page(runs: &[Reported], comparison: Option<&Comparison>) -> String {
    let words = &ENGLISH;
    let names: Vec<&str> = runs.iter().map(|run| &*run.name).collect();
    let title = format!("{} {}", words.report_of, names.join(", "));
    let mut html = Html::new();
    html.own("<!DOCTYPE html>\n");
    html.element("html", &[("lang", words.language)], |html| {
        html.element("head", &[], |head| {
            head.empty("meta", &[("charset", "utf-8")]);
            let policy = policy();
            let policy = [
                ("http-equiv", "Content-Security-Policy"),
                ("content", &policy),
            ];
            head.empty("meta", &policy);
            let viewport = "width=device-width, initial-scale=1";
            head.empty("meta", &[("name", "viewport"), ("content", viewport)]);
            // Without it a browser asks the server of the page for one.
            head.empty("link", &[("rel", "icon"), ("href", "data:,")]);
            head.words("title", &[], &title);
            head.element("style", &[], |style| style.own(STYLE));
        });
        // What the script says.
        let said = [
            ("data-zoom-in", words.zoom_in),
            ("data-zoom-out", words.zoom_out),
            ("data-earlier", words.earlier),
            ("data-later", words.later),
            ("data-whole", words.whole_run),
            ("data-step", words.slow_step),
            ("data-gap", words.gap),
            ("data-waited", words.waited),
            ("data-train", words.train),
        ];
        html.element("body", &said, |body| {
            body.element("header", &[], |header| {
                header.words("h1", &[], &title);
            });
            body.element("main", &[], |main| {
                if let Some(comparison) = comparison {
                    comparison::part(main, comparison, words);
                }
                for (number, run) in (1..).zip(runs) {
                    one_run(main, run, number, runs.len() > 1, words);
                }
            });
            body.element("footer", &[], |footer| {
                let version = env!("CARGO_PKG_VERSION");
                let made = format!("{} {version}, {}", words.made_by, words.from_log);
                footer.words("p", &[], &made);
            });
            body.element("script", &[], |script| script.own(SCRIPT));
        });
    });
    html.into_string()
}

/// No request leaves the page, and no script runs in it but its own, whatever its data is.
fn policy() -> String {
    let script = STANDARD.encode(Sha256::digest(SCRIPT));
    format!(
        "default-src 'none'; style-src 'unsafe-inline'; img-src data:; media-src data:; \
         script-src 'sha256-{script}'; base-uri 'none'; form-action 'none'"
    )
}

/// What a part of the page needs to know.
struct Part<'a> {
    run: &'a Reported,
    words: &'a Words,
    /// From 1.
    number: usize,
}

impl Part<'_> {
    fn time_group(&self) -> Option<Group> {
        Some(Group(format!("time-{}", self.number)))
    }

    fn step_group(&self) -> Option<Group> {
        Some(Group(format!("step-{}", self.number)))
    }
}

fn one_run(main: &mut Html, run: &Reported, number: usize, one_of_several: bool, words: &Words) {
    let part = Part { run, words, number };
    let id = format!("run-{number}");
    main.element("article", &[("id", &id)], |article| {
        if one_of_several {
            article.words("h1", &[], &format!("{number} {}", run.name));
        }
        verdict::part(article, &part);
        timeline::part(article, &part);
        steps::part(article, &part);
        buffers::part(article, &part);
        learning::part(article, &part);
        samples::part(article, &part);
        dataset::part(article, &part);
        settings::part(article, &part);
        absent(article, &part);
    });
}

fn section(page: &mut Html, heading: &str, inside: impl FnOnce(&mut Html)) {
    page.element("section", &[], |section| {
        section.words("h2", &[], heading);
        inside(section);
    });
}

/// Rows of cells; the first cell of a row names it.
fn table(page: &mut Html, head: &[&str], rows: &[Vec<String>]) {
    page.element("div", &[("class", "scroll")], |scroll| {
        scroll.element("table", &[], |table| {
            if head.iter().any(|cell| !cell.is_empty()) {
                table.element("thead", &[], |thead| {
                    thead.element("tr", &[], |row| {
                        head.iter()
                            .for_each(|cell| row.words("th", &[("scope", "col")], cell));
                    });
                });
            }
            table.element("tbody", &[], |body| {
                for cells in rows {
                    body.element("tr", &[], |row| {
                        for (column, cell) in cells.iter().enumerate() {
                            match column {
                                0 => row.words("th", &[("scope", "row")], cell),
                                // Ids and transcripts may be of any script.
                                _ => row.words("td", &[("dir", "auto")], cell),
                            }
                        }
                    });
                }
            });
        });
    });
}

/// What older logs do not have is named, and nothing is drawn in its place.
fn absent(page: &mut Html, part: &Part<'_>) {
    let (words, history) = (part.words, &part.run.history);
    let trains = part.run.run.name() != "profile";
    let missing: Vec<&str> = [
        (history.steps.is_empty(), words.absent_steps),
        (history.buffers.is_empty(), words.absent_buffers),
        (
            trains && history.validations.is_empty(),
            words.absent_held_out,
        ),
        (history.dataset.is_none(), words.absent_dataset),
        (history.settings.is_empty(), words.absent_settings),
        (trains && part.run.samples.is_empty(), words.absent_samples),
    ]
    .into_iter()
    .filter_map(|(is_missing, what)| is_missing.then_some(what))
    .collect();
    if missing.is_empty() {
        return;
    }
    section(page, words.absent, |section| {
        section.words("p", &[("class", "note")], words.absent_note);
        section.element("ul", &[], |list| {
            missing.iter().for_each(|what| list.words("li", &[], what));
        });
    });
}

#[cfg(test)]
mod tests;
