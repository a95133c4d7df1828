//! What `validate` found, as text: a word next to every sign.

use super::page::{LABEL, Page};
use super::{Paint, machine};
use crate::format::{COLUMNS, count, counted, pad, short_percent, size, span, truncate};
use crate::results::validate::{
    CheckLevel, CheckResult, DatasetFacts, DiskSpeed, FixedCopy, FolderRoom, SettingLine,
    SettingPlace, ValidateResult,
};

/// What `validate` prints.
pub fn validation_text(found: &ValidateResult, paint: Paint) -> String {
    let mut page = Page::new(LABEL, paint);
    facts(&mut page, found);
    for check in &found.checks {
        page.blank();
        finding(&mut page, check);
    }
    page.blank();
    if let Some(fixed) = &found.fixed {
        changes(&mut page, fixed, found.passed);
    }
    verdict(&mut page, found);
    paint.marks(&page.text())
}

fn facts(page: &mut Page, found: &ValidateResult) {
    let host = &found.machine;
    let memory = (host.memory_bytes, host.memory_available_bytes);
    page.line("machine", machine(host.cpu.as_deref(), host.cores, memory));
    if let (Some(model), Some(data)) = (&found.model_device, &found.data_device) {
        match found.two_devices {
            true => page.line("devices", format!("{data} prepares, {model} trains")),
            false => page.line("device", format!("{model} prepares and trains")),
        }
    }
    if let Some(data) = &found.dataset {
        dataset(page, data);
    }
    if let Some(disk) = &found.disk {
        disks(page, disk);
    }
}

fn dataset(page: &mut Page, data: &DatasetFacts) {
    let demo = super::demo_note(data.demo);
    page.line("dataset", format!("{}{demo}", data.folder));
    let mut clips = format!(
        "{} of sound in {} clips to train on, {} held out",
        span(data.audio_seconds),
        count(data.to_train_on),
        count(data.held_out)
    );
    if data.bad + data.left_out_for_length > 0 {
        let (bad, left_out) = (data.bad, data.left_out_for_length);
        clips += &format!("; {bad} bad, {left_out} left out for their length");
    }
    page.line("", clips);
    let clip = |(id, seconds): &(String, f64)| format!("{id} {seconds:.1} s");
    let longest: Vec<String> = data.longest.iter().map(clip).collect();
    page.line("", format!("longest: {}", longest.join(", ")));
    let batches = format!(
        "{} an epoch of about {} clips, in {}; {} of all frames are padding (all padded to the longest: {})",
        count(data.batches_an_epoch),
        data.batch_size,
        counted(data.shapes as u64, "shape"),
        short_percent(data.padding_waste),
        short_percent(data.padding_waste_of_padding_to_the_longest)
    );
    page.line("batches", batches);
    let [rows, frames, _] = data.largest_batch;
    let memory = format!(
        "up to {} to train, by calculation: {} for weights and their moments, {} for the largest batch ({rows} clips of {frames} frames), {} for {} on the device, the one in training included",
        size(data.model_device_bytes),
        size(data.weights_bytes),
        size(data.training_bytes),
        size(data.waiting_bytes),
        counted(data.waiting_batches as u64, "batch")
    );
    page.line("memory", memory);
    let [one, all, budget] = [
        data.making_bytes,
        data.batch_budget_bytes,
        data.ram_budget_bytes,
    ]
    .map(size);
    let text = format!(
        "up to {one} to prepare one batch; of the RAM budget of {budget}, {all} are for batches"
    );
    page.line("", text);
}

fn disks(page: &mut Page, disk: &DiskSpeed) {
    if let (Some(speed), Some(files), Some(bytes)) =
        (disk.read_bytes_per_second, disk.read_files, disk.read_bytes)
    {
        let [speed, bytes] = [speed as u64, bytes].map(size);
        let text = format!(
            "{speed}/s, measured on {files} files of the dataset, {bytes}; the page cache may hold them, a first read is then slower"
        );
        page.line("disk", text);
    }
    let free = |room: &FolderRoom| match room.free_bytes {
        Some(free) => format!("{} free", size(free)),
        None => "free space not known".to_owned(),
    };
    let cache = match disk.cache.needed_bytes {
        0 => "the cache is complete".to_owned(),
        needed => format!("the cache {} more, {}", size(needed), free(&disk.cache)),
    };
    let needed = size(disk.checkpoints.needed_bytes);
    let free = free(&disk.checkpoints);
    page.line(
        "",
        format!("checkpoints take up to {needed}, {free}; {cache}"),
    );
}

fn finding(page: &mut Page, check: &CheckResult) {
    let sign = match check.level {
        CheckLevel::Error => "✗ error",
        CheckLevel::Warning => "! warning",
        CheckLevel::Note => "· note",
    };
    let place = check.place.as_ref().map(place);
    let parts: Vec<String> = check.key.clone().into_iter().chain(place).collect();
    page.push(&format!("{}{}", pad(sign, LABEL), parts.join("  ")));
    if let Some(SettingPlace::File {
        line,
        source: Some(source),
        ..
    }) = &check.place
    {
        let shown = truncate(source.trim(), COLUMNS - LABEL - 8);
        page.push(&format!("{line:>7} | {shown}"));
    }
    page.line("", &check.what);
    if let Some(costs) = &check.costs {
        page.line("    costs", costs);
    }
    if let Some(advice) = advice(&check.write) {
        page.line("    write", advice);
    }
    // The line to write is enough, unless a setting is to be left out: then the hint says what else helps.
    let is_enough = check.write.iter().any(|line| line.value.is_some());
    if let Some(hint) = check.hint.as_ref().filter(|_| !is_enough) {
        page.line("     hint", hint);
    }
}

fn place(place: &SettingPlace) -> String {
    match place {
        SettingPlace::File {
            file, line, column, ..
        } => format!("{file}:{line}:{column}"),
        SettingPlace::Flag { typed, .. } => format!("typed as {typed}"),
        SettingPlace::Default {
            default,
            why,
            has_file,
        } => {
            let from = if *has_file { "not in the file, " } else { "" };
            match why {
                None => format!("{from}default {default}"),
                Some(why) => format!("{from}{default} ({why})"),
            }
        }
    }
}

/// Config lines and the flags for them.
fn advice(lines: &[SettingLine]) -> Option<String> {
    let all = |part: fn(&SettingLine) -> Option<&String>, between: &str| {
        let parts: Vec<&str> = lines.iter().filter_map(part).map(String::as_str).collect();
        parts.join(between)
    };
    let sections = lines.chunk_by(|a, b| a.section == b.section);
    let written = sections.filter_map(|lines| {
        let written: Vec<&str> = lines
            .iter()
            .filter_map(|line| line.line.as_deref())
            .collect();
        let section = &lines[0].section;
        (!written.is_empty()).then(|| format!("{} (under {section}:)", written.join(", ")))
    });
    let written = written.collect::<Vec<_>>().join(" and ");
    let flags = all(|line| line.flag.as_ref(), " ");
    let out = all(|line| line.value.is_none().then_some(&line.key), " and ");
    match (written.as_str(), out.as_str()) {
        ("", "") => None,
        (_, "") => Some(format!("{written}, or type {flags}")),
        ("", _) => Some(format!("leave {out} out")),
        _ => Some(format!("{written}, or type {flags}; leave {out} out")),
    }
}

fn changes(page: &mut Page, fixed: &FixedCopy, passed: bool) {
    let Some(path) = &fixed.file else {
        let why = match passed {
            true => "nothing to fix",
            false => "what is found cannot be fixed without you",
        };
        page.line("fixed", format!("{why}: no copy was written"));
        return page.blank();
    };
    let lines = counted(fixed.changes.len() as u64, "line");
    page.line("fixed", format!("{}: {lines} changed", path.display()));
    for change in &fixed.changes {
        let after = change.after.trim();
        let text = match &change.before {
            Some(before) => format!("`{}` is now `{after}`", before.trim()),
            None => format!("new: `{after}`"),
        };
        page.line(&format!("{:>8}", change.line), text);
    }
    let left = fixed.checks.iter().flatten();
    for check in left.filter(|check| check.level <= CheckLevel::Warning) {
        page.blank();
        finding(page, check);
    }
    page.blank();
}

fn verdict(page: &mut Page, found: &ValidateResult) {
    let copy = found.fixed.as_ref().and_then(|fixed| fixed.file.as_ref());
    let copy = copy.map_or(String::new(), |path| format!(" in {}", path.display()));
    let notes = match found.notes {
        0 => String::new(),
        notes => format!(", {}", counted(notes as u64, "note")),
    };
    let warnings = counted(found.warnings as u64, "warning");
    let (label, text) = match (found.errors, found.warnings) {
        (0, 0) => ("✓", format!("ALL CHECKS PASSED{copy}{notes}")),
        (0, _) => ("✓", format!("READY{copy}, with {warnings}{notes}")),
        (errors, _) => {
            let errors = counted(errors as u64, "error");
            ("✗", format!("NOT READY{copy}: {errors}, {warnings}{notes}"))
        }
    };
    page.wrapped(&format!("{label} "), text);
    if found.errors > 0 {
        return;
    }
    let busy = found.busy.as_ref().map(|busy| {
        format!(
            "busy share to expect: {}, measured over {} steps of {} in run {}, the newest here of the same size, batch size and device",
            short_percent(busy.share),
            count(busy.steps),
            span(busy.seconds_per_step),
            busy.run.display()
        )
    });
    let none = "no busy share: nothing has been measured here yet; `voxmill profile` measures it";
    page.wrapped("  ", busy.as_deref().unwrap_or(none));
}

#[cfg(test)]
mod tests {
    use super::super::tests::fits;
    use super::*;
    use crate::results::validate::MeasuredBusy;

    fn write(key: &str, value: Option<&str>, flag: &str) -> Vec<SettingLine> {
        vec![SettingLine {
            section: "data".to_owned(),
            key: key.to_owned(),
            value: value.map(str::to_owned),
            line: value.map(|value| format!("{key}: {value}")),
            flag: value.map(|value| format!("{flag} {value}")),
        }]
    }

    fn warning() -> CheckResult {
        CheckResult {
            level: CheckLevel::Warning,
            key: Some("num_workers".to_owned()),
            section: Some("data".to_owned()),
            place: Some(SettingPlace::File {
                file: "my.yaml".to_owned(),
                line: 2,
                column: 3,
                source: Some("  num_workers: 12 # all of them".to_owned()),
            }),
            what: "12 workers on 2 cores".to_owned(),
            costs: Some("12 of feeding and 2 of the model are 14 threads, 7.0 for each core: they take the cores from each other".to_owned()),
            write: write("num_workers", Some("1"), "--num-workers"),
            hint: None,
        }
    }

    fn verdict_text(found: &ValidateResult) -> String {
        let mut page = Page::new(LABEL, Paint::plain());
        verdict(&mut page, found);
        page.text()
    }

    #[test]
    fn findings_as_a_person_sees_them() {
        let left_out = CheckResult {
            level: CheckLevel::Error,
            key: Some("data_gpu".to_owned()),
            section: Some("data".to_owned()),
            place: Some(SettingPlace::Flag {
                flag: Some("--data-gpu".to_owned()),
                value: Some("0".to_owned()),
                typed: "--data-gpu 0".to_owned(),
            }),
            what: "no GPU".to_owned(),
            costs: None,
            write: write("data_gpu", None, "--data-gpu"),
            hint: Some("build with --features vulkan".to_owned()),
        };
        let note = CheckResult {
            level: CheckLevel::Note,
            key: Some("batch_size".to_owned()),
            place: Some(SettingPlace::Default {
                default: "16".to_owned(),
                why: None,
                has_file: true,
            }),
            hint: Some("read the manual".to_owned()),
            write: Vec::new(),
            ..warning()
        };
        let found = ValidateResult {
            errors: 1,
            warnings: 1,
            notes: 1,
            checks: vec![left_out, warning(), note],
            ..ValidateResult::default()
        };
        let mut page = Page::new(LABEL, Paint::plain());
        for check in &found.checks {
            page.blank();
            finding(&mut page, check);
        }
        page.blank();
        verdict(&mut page, &found);
        insta::assert_snapshot!(fits(page.text()));
    }

    /// Settings of different sections are each named with their own.
    #[test]
    fn advice_names_the_section_of_each_key() {
        let mut lines = write("batch_size", Some("4"), "--batch-size");
        let steps = "gradient_accumulation_steps";
        lines.extend(write(steps, Some("2"), "--grad-accum"));
        lines[1].section = "training".to_owned();
        let expected = "batch_size: 4 (under data:) and gradient_accumulation_steps: 2 (under training:), \
                        or type --batch-size 4 --grad-accum 2";
        assert_eq!(advice(&lines).as_deref(), Some(expected));
    }

    #[test]
    fn a_file_without_faults_passes_in_capitals() {
        insta::assert_snapshot!(verdict_text(&ValidateResult::default()));
        let found = ValidateResult {
            warnings: 1,
            busy: Some(MeasuredBusy {
                run: "runs/20261116-033320-demo-tiny".into(),
                share: 0.973,
                steps: 1_204,
                seconds_per_step: 0.41,
            }),
            ..ValidateResult::default()
        };
        insta::assert_snapshot!(verdict_text(&found));
    }
}
