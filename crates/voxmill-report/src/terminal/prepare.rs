//! What `prepare` found and did, as text.

use std::collections::BTreeMap;

use super::Paint;
use super::page::Page;
use crate::format::{count, counted, percent, size, span, whole};
use crate::results::prepare::{
    CacheFacts, ClipGroup, Percentiles, PlannedBatches, PreparedDataset, SourceGroup, TimeFacts,
};

/// Speakers and languages beyond this many are summed up.
const MOST_GROUPS: usize = 8;
const LABEL: usize = 12;

/// What `prepare` prints of one folder.
pub fn prepared_text(report: &PreparedDataset, paint: Paint) -> String {
    let mut page = Page::new(LABEL, paint);
    let demo = super::demo_note(report.demo);
    page.line("Dataset", format!("{}{demo}", report.folder));
    let clips = &report.clips;
    let rows = counted(clips.rows as u64, "row");
    let [usable, bad, filtered] = [clips.usable, clips.bad, clips.filtered].map(count);
    let [training, validation] = [clips.training, clips.validation].map(count);
    let mut usable = format!(
        "{rows}: {usable} usable ({training} training, {validation} validation), {bad} bad, {filtered} filtered"
    );
    if clips.not_reached > 0 {
        usable += &format!(", {} not reached", count(clips.not_reached));
    }
    page.line("Clips", usable);
    page.line("Audio", hours(report.hours));
    if !report.sources.is_empty() {
        page.line("Sources", sources(&report.sources, report.sample_rate));
    }
    page.line("Languages", groups(&report.languages));
    page.line("Speakers", groups(&report.speakers));
    page.line("Length", format!("seconds: {}", spread(&report.seconds, 1)));
    page.line("", format!("tokens: {}", spread(&report.tokens, 0)));
    if report.trimmed {
        page.line("", "lengths and shapes are those before trimming");
    }
    if let Some(batches) = &report.batches {
        batch_lines(&mut page, batches);
    }
    let (bad, suspicious) = (&report.quarantine, &report.suspicious);
    listed(&mut page, "Quarantine", bad, &report.quarantine_file);
    let filtered = report.filtered_file.as_deref().unwrap_or_default();
    listed(&mut page, "Filtered", &report.filtered, filtered);
    listed(&mut page, "Suspicious", suspicious, &report.suspicious_file);
    cache_lines(&mut page, &report.cache);
    times(&mut page, &report.time);
    if report.cache.up_to_date {
        page.push("up to date");
    }
    page.text()
}

fn batch_lines(page: &mut Page, batches: &PlannedBatches) {
    let (per_epoch, batch_size) = (batches.per_epoch, batches.batch_size);
    let shapes = counted(batches.shapes.len() as u64, "shape");
    let text = format!("{per_epoch} an epoch at --batch-size {batch_size}, padded to {shapes}");
    page.line("Batches", text);
    let columns = [8, 8, 6, 9, 9];
    page.cells(columns, ["frames", "tokens", "rows", "clips", "batches"]);
    for shape in &batches.shapes {
        let lengths = [shape.frames, shape.tokens, shape.rows].map(u64::from);
        let counts = [shape.clips as u64, shape.batches];
        let cells = lengths.into_iter().chain(counts);
        page.cells(columns, cells.map(|n| n.to_string()));
    }
    let text = format!(
        "{} of all frames (random batches {}, all padded to the longest {})",
        percent(batches.padding_waste),
        percent(batches.padding_waste_of_random_batches),
        percent(batches.padding_waste_of_padding_to_the_longest)
    );
    page.line("Padding", text);
}

fn cache_lines(page: &mut Page, cache: &CacheFacts) {
    let [reused, rebuilt] = [cache.reused, cache.rebuilt].map(count);
    let clips = counted(cache.clips as u64, "clip");
    let text = format!("{clips}, {} in {}", size(cache.bytes), cache.folder);
    page.line("Cache", text);
    let mut work = format!("{reused} reused, {rebuilt} rebuilt");
    if !cache.reasons.is_empty() {
        // A reason may end in a number.
        let reasons = cache.reasons.iter();
        let reasons = reasons.map(|(reason, n)| format!("{reason}: {}", count(n)));
        work += &format!(" ({})", reasons.collect::<Vec<_>>().join(", "));
    }
    if cache.frames_kept > 0 {
        work += &format!("; {} kept their frames", count(cache.frames_kept));
    }
    page.line("", work);
    if let (Some(budget), beyond @ 1..) = (cache.budget, cache.not_cached_for_budget) {
        let text = format!(
            "{} of them did not fit into the budget of {}: they are computed again each time",
            count(beyond),
            size(budget)
        );
        page.line("", text);
    }
    if let Some(budget) = cache.budget.filter(|budget| cache.bytes > *budget) {
        let budget = size(budget);
        let text = format!(
            "it is larger than the budget of {budget}: `--gc` drops what is no longer used"
        );
        page.line("", text);
    }
    if let Some(repaired) = cache.repaired {
        let shards = (repaired.shards, "damaged shard");
        let indexes = (repaired.indexes, "damaged index");
        let files = [shards, indexes].into_iter().filter(|(n, _)| *n > 0);
        let files: Vec<String> = files.map(|(n, what)| format!("{n} × {what}")).collect();
        page.line("", format!("repaired: {}", files.join(", ")));
    }
    if let Some(collected) = &cache.collected {
        let clips = counted(collected.clips as u64, "deleted clip");
        let freed = size(collected.bytes_freed);
        page.line("", format!("collected {clips}, {freed} freed"));
    }
}

fn times(page: &mut Page, time: &TimeFacts) {
    let text = format!(
        "{:.2} s: scan {:.2} s, features {:.2} s",
        time.total_seconds, time.scan_seconds, time.features_seconds
    );
    page.line("Time", text);
    if let (Some(clips), Some(hours)) = (time.clips_per_second, time.audio_hours_per_hour) {
        let [clips, hours] = [clips, hours].map(|rate| whole(rate.floor()));
        page.line(
            "",
            format!("{clips} clips/s, {hours} hours of audio an hour"),
        );
    }
}

fn groups(groups: &[ClipGroup]) -> String {
    let (shown, rest) = groups.split_at(groups.len().min(MOST_GROUPS));
    let shown = shown.iter().map(|group| {
        let (clips, hours) = (count(group.clips), hours(group.hours));
        format!("{} {clips} ({hours})", group.name)
    });
    let mut shown: Vec<_> = shown.collect();
    if !rest.is_empty() {
        let clips: usize = rest.iter().map(|group| group.clips).sum();
        let clips = counted(clips as u64, "clip");
        shown.push(format!("and {} more with {clips}", rest.len()));
    }
    shown.join(", ")
}

/// What the files are, and what becomes of those of another rate.
fn sources(sources: &[SourceGroup], rate: u32) -> String {
    let (shown, rest) = sources.split_at(sources.len().min(MOST_GROUPS));
    let shown = shown.iter().map(|source| {
        let (hz, clips) = (count(source.sample_rate), count(source.clips));
        let channels = match source.channels {
            1 => "mono".to_owned(),
            2 => "stereo".to_owned(),
            more => format!("{more} channels"),
        };
        format!("{clips} {} {hz} Hz {channels}", source.codec)
    });
    let mut text = shown.collect::<Vec<_>>().join(", ");
    if !rest.is_empty() {
        let clips: usize = rest.iter().map(|source| source.clips).sum();
        text += &format!(", {} in {} formats more", count(clips), rest.len());
    }
    if sources.iter().any(|source| source.sample_rate != rate) {
        text += &format!("; resampled to {} Hz", count(rate));
    }
    text
}

fn hours(hours: f64) -> String {
    span(3_600.0 * hours)
}

fn spread(p: &Percentiles, decimals: usize) -> String {
    format!(
        "min {:.decimals$}, 5 % {:.decimals$}, median {:.decimals$}, 95 % {:.decimals$}, max {:.decimals$}",
        p.min, p.p5, p.p50, p.p95, p.max
    )
}

/// Reasons, and below them the file with the clips.
fn listed(page: &mut Page, label: &str, counts: &BTreeMap<String, usize>, file: &str) {
    if counts.is_empty() {
        return page.line(label, "none");
    }
    page.line(label, reasons(counts));
    if !file.is_empty() {
        page.line("", format!("see {file}"));
    }
}

fn reasons(counts: &BTreeMap<String, usize>) -> String {
    let shown = |(reason, n): (&String, &usize)| format!("{reason} {}", count(n));
    counts.iter().map(shown).collect::<Vec<_>>().join(", ")
}
