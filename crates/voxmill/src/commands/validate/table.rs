//! What was found, as a person reads it: 80 columns, no colours, a word beside every sign.

use std::fmt::Write as _;

use super::File;
use super::examine::Examined;
use super::fix::Fixed;
use super::look::Here;
use super::report::Dataset;
use crate::checks::{
    Check, DiskFacts, Level, Line, Room, Where, flag, percent, size, span, thousands,
};
use crate::page::{LABEL, Page, WIDTH};

pub(super) fn render(
    file: Option<&File>,
    examined: &Examined,
    fixed: Option<&Fixed>,
    last: &Examined,
    here: &Here,
) -> String {
    let mut page = Page::default();
    facts(&mut page, examined, here);
    for check in &examined.checks {
        page.blank();
        finding(&mut page, check, file);
    }
    page.blank();
    if let Some(fixed) = fixed {
        changes(&mut page, fixed, examined);
    }
    verdict(&mut page, last, fixed);
    page.text()
}

fn facts(page: &mut Page, examined: &Examined, here: &Here) {
    page.line("machine", &here.host.describe());
    match &examined.devices[..] {
        [] => {}
        [one] => page.line("device", &format!("{one} prepares and trains")),
        [model, data, ..] => page.line("devices", &format!("{data} prepares, {model} trains")),
    }
    if let Some(data) = &examined.data {
        dataset(page, data);
    }
    if let Some(disk) = &examined.disk {
        disks(page, disk);
    }
}

fn dataset(page: &mut Page, data: &Dataset) {
    let demo = if data.demo {
        " (the built-in demo corpus)"
    } else {
        ""
    };
    page.line("dataset", &format!("{}{demo}", data.folder));
    let mut clips = format!(
        "{} of sound in {} clips to train on, {} held out",
        span(data.audio_seconds),
        thousands(data.to_train_on as u64),
        thousands(data.held_out as u64)
    );
    if data.bad + data.left_out_for_length > 0 {
        let _ = write!(
            clips,
            "; {} bad, {} left out for their length",
            data.bad, data.left_out_for_length
        );
    }
    page.line("", &clips);
    let longest: Vec<String> = (data.longest.iter())
        .map(|(id, seconds)| format!("{id} {seconds:.1} s"))
        .collect();
    page.line("", &format!("longest: {}", longest.join(", ")));
    page.line(
        "batches",
        &format!(
            "{} an epoch of about {} clips, in {} {}; {} of all frames are padding (all padded to the longest: {})",
            thousands(data.batches_an_epoch),
            data.batch_size,
            data.shapes,
            if data.shapes == 1 { "shape" } else { "shapes" },
            percent(data.padding_waste),
            percent(data.padding_waste_of_padding_to_the_longest)
        ),
    );
    let [rows, frames, _] = data.largest_batch;
    page.line(
        "memory",
        &format!(
            "up to {} to train, by calculation: {} for weights and their moments, {} for the largest batch ({rows} clips of {frames} frames), {} for {} batches on the device",
            size(data.model_device_bytes),
            size(data.weights_bytes),
            size(data.training_bytes),
            size(data.waiting_bytes),
            data.waiting_batches
        ),
    );
    page.line(
        "",
        &format!(
            "up to {} to make one batch, of {} that are for batches",
            size(data.making_bytes),
            size(data.batch_budget_bytes)
        ),
    );
}

fn disks(page: &mut Page, disk: &DiskFacts) {
    if let Some(reading) = disk.reading {
        page.line(
            "disk",
            &format!(
                "{}/s, measured on {} files of the dataset, {}; the page cache may hold them, a first read is then slower",
                size(reading.bytes_a_second() as u64),
                reading.files,
                size(reading.bytes)
            ),
        );
    }
    let free = |room: &Room| match room.free {
        Some(free) => format!("{} free", size(free)),
        None => "free space not known".to_owned(),
    };
    let (checkpoints, cache) = (&disk.checkpoints, &disk.cache);
    let cache_needs = match cache.needed {
        0 => "the cache is complete".to_owned(),
        needed => format!("the cache {} more, {}", size(needed), free(cache)),
    };
    page.line(
        "",
        &format!(
            "checkpoints take up to {}, {}; {cache_needs}",
            size(checkpoints.needed),
            free(checkpoints)
        ),
    );
}

fn sign(level: Level) -> &'static str {
    match level {
        Level::Error => "✗ error",
        Level::Warning => "! warning",
        Level::Note => "· note",
    }
}

fn finding(page: &mut Page, check: &Check, file: Option<&File>) {
    let mut head = format!("{:<LABEL$}", sign(check.level));
    let mut parts = Vec::new();
    parts.extend(check.key.map(|key| key.name.to_owned()));
    parts.extend(place(&check.place, check));
    let _ = write!(head, "{}", parts.join("  "));
    page.push(&head);
    if let (Where::File(place), Some(file)) = (&check.place, file)
        && let Some(source) = file.text.lines().nth(place.line.saturating_sub(1))
    {
        let shown: String = source.trim().chars().take(WIDTH - LABEL - 8).collect();
        page.push(&format!("{:>7} | {shown}", place.line));
    }
    let indentation = " ".repeat(LABEL);
    page.wrapped(&indentation, &check.what);
    if let Some(costs) = &check.costs {
        page.line("    costs", costs);
    }
    if let Some(advice) = advice(&check.write) {
        page.line("    write", &advice);
    }
    // What to write says it all, unless it is to be left out: then there is another way.
    let says_it_all = check.write.iter().any(|line| line.value.is_some());
    if let Some(hint) = check.hint.as_ref().filter(|_| !says_it_all) {
        page.line("     hint", hint);
    }
}

fn place(place: &Where, check: &Check) -> Option<String> {
    match place {
        Where::File(place) => Some(format!(
            "{}:{}:{}",
            place.file.display(),
            place.line,
            place.column
        )),
        Where::Flag(value) => {
            let (key, value) = (check.key?, value.clone());
            let typed = Line { key, value }.flag();
            Some(format!("typed as {}", typed.unwrap_or_else(|| flag(key))))
        }
        Where::Usual { value, why, file } => {
            let from = if *file { "not in the file, " } else { "" };
            Some(match why {
                None => format!("{from}default {value}"),
                Some(why) => format!("{from}{value} ({why})"),
            })
        }
        Where::Elsewhere => None,
    }
}

/// Config lines and the flags for them.
fn advice(lines: &[Line]) -> Option<String> {
    let written: Vec<String> = lines.iter().filter_map(Line::in_file).collect();
    let flags: Vec<String> = lines.iter().filter_map(Line::flag).collect();
    let out: Vec<&str> = (lines.iter().filter(|line| line.value.is_none()))
        .map(|line| line.key.name)
        .collect();
    let mut parts = Vec::new();
    if !written.is_empty() {
        let sections: Vec<&str> = lines.iter().map(|line| line.key.section.name()).collect();
        parts.push(format!(
            "{} (under {}:), or type {}",
            written.join(", "),
            sections.first().copied().unwrap_or_default(),
            flags.join(" ")
        ));
    }
    if !out.is_empty() {
        parts.push(format!("leave {} out", out.join(" and ")));
    }
    (!parts.is_empty()).then(|| parts.join("; "))
}

fn changes(page: &mut Page, fixed: &Fixed, examined: &Examined) {
    let Some(path) = &fixed.path else {
        let why = match examined.is_ready() && examined.count(Level::Warning) == 0 {
            true => "nothing to fix: no copy was written",
            false => "what is found cannot be fixed without you: no copy was written",
        };
        page.line("fixed", why);
        page.blank();
        return;
    };
    let n = fixed.changes.len();
    page.line(
        "fixed",
        &format!(
            "{}: {n} {} changed",
            path.display(),
            if n == 1 { "line" } else { "lines" }
        ),
    );
    for change in &fixed.changes {
        let after = change.after.trim();
        let text = match &change.before {
            Some(before) => format!("`{}` is now `{after}`", before.trim()),
            None => format!("new: `{after}`"),
        };
        page.line(&format!("{:>8}", change.line), &text);
    }
    if let Some(left) = &fixed.left {
        let of_copy = File {
            path: path.clone(),
            text: std::fs::read_to_string(path).unwrap_or_default(),
        };
        for check in left
            .checks
            .iter()
            .filter(|check| check.level <= Level::Warning)
        {
            page.blank();
            finding(page, check, Some(&of_copy));
        }
    }
    page.blank();
}

fn verdict(page: &mut Page, last: &Examined, fixed: Option<&Fixed>) {
    let counted = |level: Level, one: &str| {
        let n = last.count(level);
        format!("{n} {one}{}", if n == 1 { "" } else { "s" })
    };
    let (errors, warnings) = (last.count(Level::Error), last.count(Level::Warning));
    let copy = match fixed {
        Some(Fixed {
            path: Some(path), ..
        }) => format!(" in {}", path.display()),
        _ => String::new(),
    };
    let notes = match last.count(Level::Note) {
        0 => String::new(),
        _ => format!(", {}", counted(Level::Note, "note")),
    };
    let (label, text) = match (errors, warnings) {
        (0, 0) => ("✓", format!("ALL CHECKS PASSED{copy}{notes}")),
        (0, _) => (
            "✓",
            format!(
                "READY{copy}, with {}{notes}",
                counted(Level::Warning, "warning")
            ),
        ),
        _ => (
            "✗",
            format!(
                "NOT READY{copy}: {}, {}{notes}",
                counted(Level::Error, "error"),
                counted(Level::Warning, "warning")
            ),
        ),
    };
    page.wrapped(&format!("{label} "), &text);
    if errors > 0 {
        return;
    }
    match &last.busy {
        Some(busy) => page.wrapped(
            "  ",
            &format!(
                "busy share to expect: {}, measured over {} steps of {} in run {}, the newest here of the same size, batch size and device",
                percent(busy.share),
                thousands(busy.steps),
                span(busy.seconds_a_step),
                busy.run.display()
            ),
        ),
        None => page.wrapped(
            "  ",
            "no busy share: nothing has been measured here yet; `voxmill profile` measures it",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::file::Place;
    use crate::config::keys;

    fn warning() -> Check {
        Check {
            level: Level::Warning,
            key: Some(&keys::NUM_WORKERS),
            place: Where::File(Place {
                file: "my.yaml".into(),
                line: 2,
                column: 3,
            }),
            what: "12 workers on 2 cores".to_owned(),
            costs: Some("12 of feeding and 2 of the model are 14 threads, 7.0 for each core: they take the cores from each other".to_owned()),
            write: vec![Line {
                key: &keys::NUM_WORKERS,
                value: Some("1".to_owned()),
            }],
            hint: None,
        }
    }

    #[test]
    fn findings_as_a_person_sees_them() {
        let file = File {
            path: "my.yaml".into(),
            text: "data:\n  num_workers: 12 # all of them\n".to_owned(),
        };
        let left_out = Check {
            level: Level::Error,
            key: Some(&keys::DATA_GPU),
            place: Where::Flag(Some("0".to_owned())),
            what: "no GPU".to_owned(),
            costs: None,
            write: vec![Line {
                key: &keys::DATA_GPU,
                value: None,
            }],
            hint: Some("build with --features vulkan".to_owned()),
        };
        let note = Check {
            level: Level::Note,
            key: Some(&keys::BATCH_SIZE),
            place: Where::Usual {
                value: "16".to_owned(),
                why: None,
                file: true,
            },
            hint: Some("look elsewhere".to_owned()),
            write: Vec::new(),
            ..warning()
        };
        let examined = Examined {
            checks: vec![left_out, warning(), note],
            ..Examined::default()
        };
        let mut page = Page::default();
        for check in &examined.checks {
            page.blank();
            finding(&mut page, check, Some(&file));
        }
        page.blank();
        verdict(&mut page, &examined, None);
        assert!(
            page.text()
                .lines()
                .all(|line| line.chars().count() <= WIDTH),
            "{}",
            page.text()
        );
        insta::assert_snapshot!(page.text());
    }

    #[test]
    fn a_file_without_faults_is_told_in_capitals() {
        let mut page = Page::default();
        verdict(&mut page, &Examined::default(), None);
        insta::assert_snapshot!(page.text());
        let busy = super::super::busy::Busy {
            run: "runs/20261116-033320-demo-tiny".into(),
            share: 0.973,
            steps: 1_204,
            seconds_a_step: 0.41,
        };
        let examined = Examined {
            checks: vec![warning()],
            busy: Some(busy),
            ..Examined::default()
        };
        let mut page = Page::default();
        verdict(&mut page, &examined, None);
        insta::assert_snapshot!(page.text());
    }
}
