//! What limited the run, in one sentence with its evidence, and what to change. Then how it went.

use voxmill_analysis::bottleneck::{Evidence, Finding, Level};
use voxmill_analysis::profile::OtherPrograms;
use voxmill_telemetry::event::Outcome;

use super::markup::Html;
use super::{Part, section, table};
use crate::format::{counted, elapsed, measure, percent, whole};

pub(super) fn part(page: &mut Html, part: &Part<'_>) {
    let (words, run) = (part.words, part.run);
    let profile = &run.profile;
    section(page, words.verdict, |section| {
        let Some((top, others)) = profile.findings.split_first() else {
            section.words("p", &[], words.no_findings);
            return;
        };
        let class = format!("verdict {}", level(top.level));
        section.element("div", &[("class", &class)], |card| {
            card.element("p", &[("class", "bound")], |line| line.text(&top.bound_by));
            card.words("p", &[("class", "what")], &top.what);
            finding(card, top, part);
        });
        let numbers = [
            (percent(profile.busy), words.trained),
            (percent(waited(part)), words.waited),
            (
                percent((1.0 - profile.busy - waited(part)).max(0.0)),
                words.gap,
            ),
            (whole(profile.frames_per_second), words.frames_per_second),
        ];
        section.element("dl", &[("class", "numbers")], |list| {
            for (value, name) in &numbers {
                list.element("div", &[], |pair| {
                    pair.words("dt", &[], name);
                    pair.words("dd", &[], value);
                });
            }
        });
        let extent = format!(
            "{}, {}",
            counted(profile.steps, "step"),
            elapsed(profile.seconds)
        );
        section.words("p", &[("class", "note")], &extent);
        if let Some(why) = (profile.other_programs).and_then(OtherPrograms::why_ungraded) {
            section.words("p", &[("class", "warn")], &why);
        }
        if !others.is_empty() {
            section.element("details", &[], |details| {
                details.words("summary", &[], words.other_findings);
                for other in others {
                    details.element("div", &[("class", level(other.level))], |card| {
                        card.words("p", &[("class", "what")], &other.what);
                        finding(card, other, part);
                    });
                }
            });
        }
    });
    starts(page, part);
}

fn waited(part: &Part<'_>) -> f64 {
    let shares = part.run.profile.shares.iter();
    let waits = shares.filter(|share| share.name != "train" && share.name != "gap");
    waits.map(|share| share.share).sum()
}

fn level(level: Level) -> &'static str {
    match level {
        Level::Bottleneck => "bottleneck",
        Level::Warning => "warning",
        Level::Note => "note-finding",
    }
}

fn finding(card: &mut Html, finding: &Finding, part: &Part<'_>) {
    let words = part.words;
    if !finding.evidence.is_empty() {
        card.element("ul", &[("class", "evidence")], |list| {
            for Evidence {
                measure: name,
                value,
                threshold,
            } in &finding.evidence
            {
                let (value, threshold) = (measure(*value), measure(*threshold));
                let because = words.because;
                let text = format!(
                    "{because} {name}: {value} ({} {threshold})",
                    words.threshold
                );
                list.words("li", &[], &text);
            }
        });
    }
    if finding.changes.is_empty() {
        return;
    }
    card.words("h3", &[], words.to_change);
    card.element("ul", &[("class", "changes")], |list| {
        for change in &finding.changes {
            list.element("li", &[], |item| {
                item.text(&change.what);
                if let Some(flag) = &change.flag {
                    item.text(" ");
                    item.words("code", &[], flag);
                }
                if let Some(line) = &change.config {
                    item.text(&format!(" ({} ", words.in_the_file));
                    item.words("code", &[], line);
                    item.text(")");
                }
            });
        }
    });
    if finding.level != Level::Note && finding.costs > 0.0 {
        let costs = format!(
            "{} {} {}",
            words.at_most,
            percent(finding.costs),
            words.of_the_time
        );
        card.words("p", &[("class", "note")], &costs);
    }
}

/// Whether it ended, was killed, and how often it began again.
fn starts(page: &mut Html, part: &Part<'_>) {
    let (words, run) = (part.words, part.run);
    let starts = &run.history.starts;
    let last = starts.len().saturating_sub(1);
    let row = |(number, start): (usize, &voxmill_analysis::history::Start)| {
        let ended = match start.outcome {
            Some(Outcome::Finished) => words.finished,
            Some(Outcome::Interrupted) => words.interrupted,
            Some(Outcome::Failed) => words.failed,
            None if number == last && run.in_progress => words.running,
            None => words.killed,
        };
        vec![
            (number + 1).to_string(),
            super::settings::date(start.unix_seconds),
            elapsed(start.end - start.at),
            ended.to_owned(),
        ]
    };
    let rows: Vec<Vec<String>> = starts.iter().enumerate().map(row).collect();
    let damaged = [
        (run.run.flaws.damaged, words.damaged),
        (run.run.stats.lost, words.lost),
    ];
    section(page, words.starts, |section| {
        let head = [words.start, words.began, words.total_time, words.ended];
        table(section, &head, &rows);
        if run.history.was_killed() {
            section.words(
                "p",
                &[("class", "warn"), ("id", "killed")],
                words.resumed_after_kill,
            );
        }
        if starts.len() > 1 {
            section.words("p", &[("class", "note")], words.of_last_start);
        }
        for (count, what) in damaged.into_iter().filter(|(count, _)| *count > 0) {
            let text = format!("{} {what}", crate::format::count(count));
            section.words("p", &[("class", "warn")], &text);
        }
    });
}
