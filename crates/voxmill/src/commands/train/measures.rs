//! The measures of a profile, on a run that trains: a warning where feeding goes wrong, and the closing lines.

use std::path::PathBuf;
use std::time::Duration;
use voxmill_report::format::{percent, size, whole_percent};

use voxmill_analysis::bottleneck::{Finding, thresholds};
use voxmill_analysis::profile::Profile;
use voxmill_analysis::run::Run;
use voxmill_analysis::timing::{Line, variation, warmed};
use voxmill_settings::advice::profile;
use voxmill_telemetry::event::{Nanos, Step};
use voxmill_telemetry::recorder::Recorder;
use voxmill_trainer::train::StepReport;

use crate::session::steps::step_event;

/// Fewer steps say little.
const LEAST_STEPS: usize = 50;

#[derive(Debug)]
pub(super) struct Measures {
    log: PathBuf,
    warned: bool,
}

impl Measures {
    pub(super) fn new(log: PathBuf) -> Measures {
        Measures { log, warned: false }
    }

    /// What to warn of, once, if the last steps waited too much or vary too much. The reason is looked for
    /// in the log: that takes a moment, once in a run.
    pub(super) fn check<'a>(
        &mut self,
        recent: impl ExactSizeIterator<Item = &'a StepReport>,
        recorder: &Recorder,
    ) -> Option<String> {
        if self.warned || recent.len() < LEAST_STEPS {
            return None;
        }
        let steps: Vec<Step> = recent.map(|report| step_event(report, Nanos(0))).collect();
        let (what, share) = noticed(&steps)?;
        self.warned = true;
        let why = match recorder.flush() {
            Ok(()) => self.read(),
            // Reported at the end.
            Err(_) => None,
        };
        let reason = why
            .and_then(|profile| top(&profile).map(sentence))
            .unwrap_or_default();
        Some(format!(
            "{what} {} in the last {} steps{reason}",
            percent(share),
            steps.len()
        ))
    }

    /// The whole run so far, all its starts. `None` where the log cannot be read.
    pub(super) fn read(&self) -> Option<Profile> {
        let run = Run::read(&self.log).ok()?;
        (!run.steps.is_empty()).then(|| profile(&run))
    }
}

/// What is wrong with these steps, and how much. The first of a shape pay for what is done once, and say nothing.
fn noticed(steps: &[Step]) -> Option<(&'static str, f64)> {
    let (stall, varies) = (Line::of(steps).stall(), variation(&warmed(steps)));
    if stall > thresholds::STALL {
        return Some(("the model waited", stall));
    }
    let varies = varies.filter(|share| *share > thresholds::VARIATION)?;
    Some(("steps of one shape varied by", varies))
}

/// What matters most, whatever its level.
pub(super) fn top(profile: &Profile) -> Option<&Finding> {
    profile.findings.first()
}

fn sentence(finding: &Finding) -> String {
    let change = finding.changes.first().map_or(String::new(), |change| {
        let flag = change.flag.as_ref();
        let flag = flag.map_or(String::new(), |flag| format!(" ({flag})"));
        format!("; {}{flag}", change.what)
    });
    format!(": {}{change}", finding.what)
}

/// The closing lines on speed.
pub(super) fn closing(profile: &Profile) -> Vec<String> {
    let time = |ms: f64| Duration::from_secs_f64(ms / 1e3).as_millis();
    let step = &profile.step_ms;
    let times = match step.count {
        0 | 1 => format!("one of {} ms", time(step.mean)),
        _ => format!(
            "{} ms on average ± {}, from {} to {}",
            time(step.mean),
            time(step.std),
            time(step.min),
            time(step.max)
        ),
    };
    let varies = profile.variation.map_or(
        "how they vary within a shape is not measured".to_owned(),
        |share| format!("within a shape they vary by {}", whole_percent(share)),
    );
    let padding = percent(profile.padding_waste);
    let mut lines = vec![format!(
        "steps     {times}; {varies}; {padding} of all frames are padding"
    )];
    if let Some(peak) = profile.memory.process_peak {
        lines.push(format!("host      {} at most", size(peak)));
    }
    if let Some(finding) = top(profile) {
        lines.push(format!("finding   {}", finding.what));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(milliseconds: impl Iterator<Item = u64>) -> Vec<Step> {
        let step = |(number, ms): (usize, u64)| Step {
            step: number as u64 + 1,
            service: Nanos(ms * 1_000_000),
            ..Step::default()
        };
        milliseconds.enumerate().map(step).collect()
    }

    #[test]
    fn slow_first_steps_are_no_variation() {
        let first = (1..=50).map(|number| if number <= 3 { 900 } else { 100 });
        assert_eq!(noticed(&steps(first)), None);
        let always = (1..=50).map(|number| if number % 2 == 0 { 300 } else { 100 });
        let (what, share) = noticed(&steps(always)).unwrap();
        assert_eq!(what, "steps of one shape varied by");
        assert!(share > thresholds::VARIATION);
    }
}
