//! What was found, as the result that is printed.

use voxmill_report::results::validate::{
    self as result, CheckResult, DiskSpeed, FixedCopy, MachineFacts, SettingLine, SettingPlace,
    ValidateResult,
};

use super::File;
use super::examine::Examined;
use super::fix::Fixed;
use super::probe::ProbedMachine;
use voxmill_settings::checks::{Check, DiskFacts, Level, Suggestion, Where};
use voxmill_settings::config::keys::Key;

pub(super) fn result(
    file: Option<&File>,
    examined: &Examined,
    fixed: Option<&Fixed>,
    last: &Examined,
    here: &ProbedMachine,
) -> ValidateResult {
    let host = &here.host;
    ValidateResult {
        version: result::VERSION,
        ready: last.is_ready(),
        passed: last.is_ready() && last.count(Level::Warning) == 0,
        config: file.map(|file| file.path.display().to_string()),
        errors: last.count(Level::Error),
        warnings: last.count(Level::Warning),
        notes: last.count(Level::Note),
        checks: checks(&examined.checks, file),
        machine: MachineFacts {
            cpu: host.cpu.clone(),
            cores: host.cores,
            memory_bytes: host.memory,
            memory_available_bytes: host.memory_available,
        },
        model_device: examined.devices.first().cloned(),
        data_device: examined.devices.last().cloned(),
        two_devices: examined.devices.len() > 1,
        dataset: examined.data.clone(),
        disk: examined.disk.as_ref().map(disk),
        busy: last.busy.clone(),
        fixed: fixed.map(self::fixed),
    }
}

fn fixed(fixed: &Fixed) -> FixedCopy {
    let copy = fixed.path.as_ref().map(|path| File {
        path: path.clone(),
        text: std::fs::read_to_string(path).unwrap_or_default(),
    });
    let left = fixed.left.as_ref();
    FixedCopy {
        file: fixed.path.clone(),
        changes: fixed.changes.clone(),
        checks: left.map(|left| checks(&left.checks, copy.as_ref())),
    }
}

fn disk(disk: &DiskFacts) -> DiskSpeed {
    DiskSpeed {
        read_bytes_per_second: disk.reading.map(|reading| reading.bytes_a_second()),
        read_files: disk.reading.map(|reading| reading.files),
        read_bytes: disk.reading.map(|reading| reading.bytes),
        page_cache_may_hold_them: true,
        checkpoints: disk.checkpoints.clone(),
        cache: disk.cache.clone(),
    }
}

fn checks(checks: &[Check], file: Option<&File>) -> Vec<CheckResult> {
    checks
        .iter()
        .map(|check| self::check(check, file))
        .collect()
}

fn check(check: &Check, file: Option<&File>) -> CheckResult {
    CheckResult {
        level: check.level,
        key: check.key.map(|key| key.name.to_owned()),
        section: check.key.map(|key| key.section.name().to_owned()),
        place: place(check, file),
        what: check.what.clone(),
        costs: check.costs.clone(),
        write: check.suggestions.iter().map(line).collect(),
        hint: check.hint.clone(),
    }
}

fn place(check: &Check, file: Option<&File>) -> Option<SettingPlace> {
    match &check.place {
        Where::File(place) => {
            let source = |file: &File| {
                let mut lines = file.text.lines();
                lines.nth(place.line.saturating_sub(1)).map(str::to_owned)
            };
            Some(SettingPlace::File {
                file: place.file.display().to_string(),
                line: place.line,
                column: place.column,
                source: file.and_then(source),
            })
        }
        Where::Flag(value) => {
            let flag = check.key.map(Key::flag);
            let value = value.clone();
            let typed = check.key.zip(value.as_deref());
            let typed = typed.map(|(key, value)| key.flag_with(value));
            Some(SettingPlace::Flag {
                typed: typed.or_else(|| flag.clone()).unwrap_or_default(),
                flag,
                value,
            })
        }
        Where::Default { value, why, file } => Some(SettingPlace::Default {
            default: value.clone(),
            why: why.map(str::to_owned),
            has_file: *file,
        }),
        Where::Elsewhere => None,
    }
}

fn line(line: &Suggestion) -> SettingLine {
    SettingLine {
        section: line.key.section.name().to_owned(),
        key: line.key.name.to_owned(),
        value: line.value.clone(),
        line: line.in_file(),
        flag: line.flag(),
    }
}
