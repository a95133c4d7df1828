//! The report as a person reads it.

use std::collections::BTreeMap;
use std::fmt::{Display, Write as _};

use voxmill_report::terminal::whole;

use super::report::{Batches, CacheFacts, FolderReport, Group, Percentiles, TimeFacts};

/// Speakers and languages beyond this many are summed up in one word.
const MOST_GROUPS: usize = 8;

pub(super) fn render(report: &FolderReport) -> String {
    let mut lines = Vec::new();
    let mut line = |label: &str, text: String| lines.push(format!("{label:<12}{text}"));
    let demo = if report.demo {
        " (the built-in demo corpus)"
    } else {
        ""
    };
    line("Dataset", format!("{}{demo}", report.folder));
    let clips = &report.clips;
    let mut usable = format!(
        "{} rows: {} usable ({} training, {} validation), {} bad, {} filtered",
        count(clips.rows),
        count(clips.usable),
        count(clips.training),
        count(clips.validation),
        count(clips.bad),
        count(clips.filtered)
    );
    if clips.not_reached > 0 {
        let _ = write!(usable, ", {} not reached", count(clips.not_reached));
    }
    line("Clips", usable);
    line("Audio", hours(report.hours));
    line("Languages", groups(&report.languages));
    line("Speakers", groups(&report.speakers));
    line("Length", format!("seconds  {}", spread(&report.seconds, 1)));
    line("", format!("tokens   {}", spread(&report.tokens, 0)));
    if report.trimmed {
        line(
            "",
            "lengths and shapes are those before trimming".to_owned(),
        );
    }
    if let Some(batches) = &report.batches {
        batch_lines(batches, &mut line);
    }
    line(
        "Quarantine",
        listed(&report.quarantine, &report.quarantine_file),
    );
    line("Filtered", listed(&report.filtered, ""));
    line(
        "Suspicious",
        listed(&report.suspicious, &report.suspicious_file),
    );
    cache_lines(&report.cache, &mut line);
    line("Time", time(&report.time));
    if report.cache.up_to_date {
        lines.push("up to date".to_owned());
    }
    lines.join("\n")
}

fn batch_lines(batches: &Batches, line: &mut impl FnMut(&str, String)) {
    line(
        "Batches",
        format!(
            "{} an epoch at --batch-size {}, padded to {} shape{}",
            batches.per_epoch,
            batches.batch_size,
            batches.shapes.len(),
            if batches.shapes.len() == 1 { "" } else { "s" }
        ),
    );
    line(
        "",
        format!(
            "{:>8}{:>8}{:>6}{:>9}{:>9}",
            "frames", "tokens", "rows", "clips", "batches"
        ),
    );
    for shape in &batches.shapes {
        let (frames, tokens, rows, clips, batches) = (
            shape.frames,
            shape.tokens,
            shape.rows,
            shape.clips,
            shape.batches,
        );
        line(
            "",
            format!("{frames:>8}{tokens:>8}{rows:>6}{clips:>9}{batches:>9}"),
        );
    }
    line(
        "Padding",
        format!(
            "{} of all frames (random batches {}, all padded to the longest {})",
            percent(batches.padding_waste),
            percent(batches.padding_waste_of_random_batches),
            percent(batches.padding_waste_of_padding_to_the_longest)
        ),
    );
}

fn cache_lines(cache: &CacheFacts, line: &mut impl FnMut(&str, String)) {
    line(
        "Cache",
        format!(
            "{} clips, {} in {}",
            count(cache.clips),
            bytes(cache.bytes),
            cache.folder
        ),
    );
    let mut work = format!(
        "{} reused, {} rebuilt",
        count(cache.reused),
        count(cache.rebuilt)
    );
    if !cache.reasons.is_empty() {
        let _ = write!(work, " ({})", counts(&cache.reasons));
    }
    if cache.frames_kept > 0 {
        let _ = write!(work, "; {} kept their frames", count(cache.frames_kept));
    }
    line("", work);
    if let (Some(budget), beyond @ 1..) = (cache.budget, cache.not_cached_for_budget) {
        let budget = bytes(budget);
        line(
            "",
            format!(
                "{} of them did not fit into the budget of {budget}: they are made anew each time",
                count(beyond)
            ),
        );
    }
    if let Some(budget) = cache.budget.filter(|budget| cache.bytes > *budget) {
        line(
            "",
            format!(
                "it is larger than the budget of {}: `--gc` drops what is no longer used",
                bytes(budget)
            ),
        );
    }
    if let Some(collected) = &cache.collected {
        line(
            "",
            format!(
                "collected {} deleted clips, {} freed",
                count(collected.clips),
                bytes(collected.bytes_freed)
            ),
        );
    }
}

fn time(time: &TimeFacts) -> String {
    let mut text = format!(
        "{:.2} s: scan {:.2} s, features {:.2} s",
        time.total_seconds, time.scan_seconds, time.features_seconds
    );
    if let (Some(clips), Some(hours)) = (time.clips_per_second, time.audio_hours_per_hour) {
        let _ = write!(
            text,
            "; {} clips/s, {} hours of audio an hour",
            count(clips as usize),
            count(hours as usize)
        );
    }
    text
}

fn groups(groups: &[Group]) -> String {
    let mut shown: Vec<_> = groups
        .iter()
        .take(MOST_GROUPS)
        .map(|group| {
            format!(
                "{} {} ({})",
                group.name,
                count(group.clips),
                hours(group.hours)
            )
        })
        .collect();
    if groups.len() > MOST_GROUPS {
        let rest = &groups[MOST_GROUPS..];
        let clips = rest.iter().map(|group| group.clips).sum();
        shown.push(format!(
            "and {} more with {} clips",
            rest.len(),
            count(clips)
        ));
    }
    shown.join(", ")
}

fn spread(p: &Percentiles, decimals: usize) -> String {
    format!(
        "min {:.decimals$}, 5 % {:.decimals$}, median {:.decimals$}, 95 % {:.decimals$}, max {:.decimals$}",
        p.min, p.p5, p.p50, p.p95, p.max
    )
}

fn listed<K: Display>(reasons: &BTreeMap<K, usize>, file: &str) -> String {
    if reasons.is_empty() {
        return "none".to_owned();
    }
    let place = if file.is_empty() {
        String::new()
    } else {
        format!(" — see {file}")
    };
    format!("{}{place}", counts(reasons))
}

fn counts<K: Display>(reasons: &BTreeMap<K, usize>) -> String {
    let shown: Vec<_> = reasons
        .iter()
        .map(|(reason, n)| format!("{reason} {}", count(*n)))
        .collect();
    shown.join(", ")
}

fn hours(hours: f64) -> String {
    // The sum of nothing is -0.0.
    let hours = hours + 0.0;
    if hours < 1.0 {
        format!("{:.1} min", hours * 60.0)
    } else {
        format!("{hours:.2} h")
    }
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

fn count(n: usize) -> String {
    whole(n as f64)
}

pub(super) fn bytes(n: u64) -> String {
    let n = n as f64;
    match n {
        0.0..1e3 => format!("{n} B"),
        1e3..1e6 => format!("{:.1} kB", n / 1e3),
        1e6..1e9 => format!("{:.1} MB", n / 1e6),
        _ => format!("{:.2} GB", n / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_as_people_write_them() {
        assert_eq!(count(0), "0");
        assert_eq!(count(999), "999");
        assert_eq!(count(13_100), "13,100");
        assert_eq!(count(1_000_000), "1,000,000");
        assert_eq!(bytes(2_400_000_000), "2.40 GB");
        assert_eq!(hours(0.5), "30.0 min");
    }
}
