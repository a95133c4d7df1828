//! A device compared with the CPU, line by line.

use super::page::Page;
use super::{Mark, Paint};
use crate::format::{count, counted, pad, size};
use crate::results::selftest::{CheckUnit, CheckVerdict, DeviceCheck, SelfTest};

/// Columns of a check's name.
const NAME: usize = 30;

/// What the checks came to; each was shown as soon as it was made.
pub fn self_test_summary(result: &SelfTest, paint: Paint) -> String {
    let mut page = Page::new(0, paint);
    let of = |verdict| {
        let checks = result.checks.iter();
        checks.filter(|check| check.verdict == verdict).count() as u64
    };
    let (failed, open) = (of(CheckVerdict::Fail), of(CheckVerdict::NotMeasurable));
    let rest = format!(
        "{} passed, {open} not measurable here",
        of(CheckVerdict::Pass)
    );
    match failed {
        0 => page.point("", Mark::Good, format!("no check failed: {rest}")),
        _ => page.point(
            "",
            Mark::Bad,
            format!("{} failed, {rest}", counted(failed, "check")),
        ),
    }
    page.text()
}

/// One check.
pub fn check_text(check: &DeviceCheck, paint: Paint) -> String {
    let mut page = Page::new(0, paint);
    let (mark, word) = match check.verdict {
        CheckVerdict::Pass => (Mark::Good, "pass"),
        CheckVerdict::Fail => (Mark::Bad, "fail"),
        CheckVerdict::NotMeasurable => (Mark::Open, "not measurable"),
    };
    let measured = check.value.zip(check.unit).map(|(value, unit)| match unit {
        CheckUnit::Difference => match check.limit {
            Some(limit) => format!("off by {value:.1e} (at most {limit:.0e})"),
            None => format!("off by {value:.1e}"),
        },
        CheckUnit::BytesPerSecond => format!("{}/s", size(value as u64)),
        CheckUnit::Kernels => count(value as u64),
        CheckUnit::Bits => format!("{value} bits after the leading one"),
    });
    let seen = measured.or_else(|| check.note.clone());
    let text = seen.map_or(word.to_owned(), |seen| format!("{word}: {seen}"));
    let head = format!("{} {}", page.paint.mark(mark), pad(&check.name, NAME));
    page.wrapped(&head, text);
    page.text()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_has_its_verdict_and_what_was_seen() {
        let compared = |name, verdict, value| DeviceCheck {
            value: Some(value),
            limit: Some(1e-3),
            unit: Some(CheckUnit::Difference),
            ..DeviceCheck::new(name, verdict)
        };
        let noted = |name, verdict, note: &str| DeviceCheck {
            note: Some(note.to_owned()),
            ..DeviceCheck::new(name, verdict)
        };
        let rate = DeviceCheck {
            value: Some(12.5e9),
            unit: Some(CheckUnit::BytesPerSecond),
            ..DeviceCheck::new("transfer to the device", CheckVerdict::Pass)
        };
        let result = SelfTest {
            version: 1,
            program: "0.1.0".to_owned(),
            device: "vulkan:0".to_owned(),
            identity: Some("Some Card, spirv, driver 1.2".to_owned()),
            passed: false,
            checks: vec![
                compared("style", CheckVerdict::Pass, 3.1e-7),
                compared("gradients", CheckVerdict::Fail, 0.5),
                noted(
                    "device clock",
                    CheckVerdict::NotMeasurable,
                    "the backend has none",
                ),
                rate,
            ],
        };
        let lines = result.checks.iter();
        let lines = lines.map(|check| check_text(check, Paint::plain()));
        let summary = self_test_summary(&result, Paint::plain());
        let shown: Vec<_> = lines.chain([summary]).collect();
        insta::assert_snapshot!(shown.join("\n"));
    }
}
