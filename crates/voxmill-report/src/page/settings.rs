//! With what the run was made: settings and their origins, the machine, versions, and how to do it again.

use std::collections::BTreeMap;

use voxmill_format::Utc;
use voxmill_telemetry::facts::RecordedSetting;

use super::markup::Html;
use super::{Part, section, table};

pub(super) fn part(page: &mut Html, part: &Part<'_>) {
    let words = part.words;
    let history = &part.run.history;
    section(page, words.settings, |section| {
        let mut facts: Vec<Vec<String>> = Vec::new();
        if let Some(started) = &part.run.run.stats.started {
            facts.push(vec![words.program.to_owned(), started.program.clone()]);
            facts.push(vec![words.began.to_owned(), date(started.unix_seconds)]);
            for device in &started.devices {
                let parts = [
                    device.model.clone(),
                    device.pci_address.as_ref().map(ToString::to_string),
                    device.uuid.clone(),
                ];
                let parts: Vec<String> = parts.into_iter().flatten().collect();
                facts.push(vec![device.device.to_string(), parts.join(", ")]);
            }
            let named = started.facts.iter();
            facts.extend(named.map(|(name, value)| vec![name.clone(), value.clone()]));
        }
        if !history.settings.is_empty() {
            reproduce(section, &history.settings, part);
            section.element("details", &[], |details| {
                details.words("summary", &[], words.all_settings);
                let row = |setting: &RecordedSetting| {
                    let RecordedSetting {
                        name,
                        value,
                        origin,
                        ..
                    } = setting;
                    vec![name.clone(), value.clone(), origin.clone()]
                };
                let rows: Vec<Vec<String>> = history.settings.iter().map(row).collect();
                table(details, &[words.name, words.value, words.origin], &rows);
            });
        }
        section.element("details", &[], |details| {
            details.words("summary", &[], words.facts);
            table(details, &["", ""], &facts);
        });
    });
}

/// The lines of a file with what somebody gave.
fn reproduce(page: &mut Html, settings: &[RecordedSetting], part: &Part<'_>) {
    let words = part.words;
    let mut sections: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for setting in settings {
        if let Some(value) = &setting.given {
            let line = format!("  {}: {value}", setting.name);
            sections.entry(&setting.section).or_default().push(line);
        }
    }
    page.words("h3", &[], words.reproduce);
    if sections.is_empty() {
        page.words("p", &[("class", "note")], words.reproduce_default);
        page.words("pre", &[], words.reproduce_bare);
        return;
    }
    page.words("p", &[("class", "note")], words.reproduce_note);
    let of_section =
        |(name, lines): (&&str, &Vec<String>)| format!("{name}:\n{}\n", lines.join("\n"));
    let file: String = sections.iter().map(of_section).collect();
    page.words("pre", &[], &file);
    page.words("pre", &[], words.reproduce_command);
}

/// `2026-11-18 20:14:21`, in UTC. Where the log has none: a dash.
pub(super) fn date(unix_seconds: f64) -> String {
    if !(unix_seconds > 0.0 && unix_seconds < 1e12) {
        return "–".to_owned();
    }
    Utc::of_unix(unix_seconds as u64).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_dates() {
        assert_eq!(date(951_782_400.0), "2000-02-29 00:00:00");
        assert_eq!(date(1_794_800_000.5), "2026-11-16 03:33:20");
        assert_eq!([date(0.0), date(f64::NAN)], ["–", "–"]);
    }
}
