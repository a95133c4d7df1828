//! A device compared with the CPU, one thing at a time: what `voxmill selftest` reports, and what a run asks of a
//! device before its first step.
//!
//! A backend that computes something else than the CPU trains a wrong voice without a word. Drivers, kernel compilers
//! and tuned kernels differ from machine to machine, so this is checked where the run is, not only where it was built.

#[cfg(feature = "gpu")]
pub(crate) mod launches;
mod machinery;
pub(crate) mod parity;

use voxmill_audio::AudioSettings;

use crate::device::{Device, without_panic};

/// One line of the report.
#[derive(Clone, Debug, PartialEq)]
pub struct SelftestCheck {
    pub name: &'static str,
    pub outcome: CheckOutcome,
}

/// What one check found.
#[derive(Clone, Debug, PartialEq)]
pub enum CheckOutcome {
    /// How far the device is from the CPU, and the most that passes.
    Compared {
        off: f64,
        most: f64,
    },
    /// A number that is neither right nor wrong.
    Measured {
        value: f64,
        unit: MeasuredUnit,
    },
    Passed(String),
    Failed(String),
    NotMeasurable(String),
}

/// What a measured number counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MeasuredUnit {
    BytesPerSecond,
    Kernels,
    Bits,
}

impl CheckOutcome {
    /// Whether the device must not be trained on.
    pub fn is_failure(&self) -> bool {
        match self {
            // What is not a number is not close to anything.
            CheckOutcome::Compared { off, most } => off.is_nan() || off > most,
            CheckOutcome::Failed(_) => true,
            CheckOutcome::Measured { .. }
            | CheckOutcome::Passed(_)
            | CheckOutcome::NotMeasurable(_) => false,
        }
    }
}

impl SelftestCheck {
    fn compared(name: &'static str, off: f32, most: f64) -> SelftestCheck {
        let off = f64::from(off);
        let outcome = CheckOutcome::Compared { off, most };
        SelftestCheck { name, outcome }
    }

    fn failed(name: &'static str, why: impl Into<String>) -> SelftestCheck {
        let outcome = CheckOutcome::Failed(why.into());
        SelftestCheck { name, outcome }
    }

    fn not_measurable(name: &'static str, why: impl Into<String>) -> SelftestCheck {
        let outcome = CheckOutcome::NotMeasurable(why.into());
        SelftestCheck { name, outcome }
    }
}

/// The check of frames that a device computes from samples: a run depends on it only where the device does that.
pub const FRAMES: &str = "frames of samples";

/// The check of how many bits of a number a matrix product keeps.
pub const PRODUCT_BITS: &str = "precision of products";

/// Some checks that are made together, and the name under which a panic in them is reported.
type CheckGroup = (&'static str, fn(&Device) -> Vec<SelftestCheck>);

/// What a wrong voice would come of.
const PARITY: [CheckGroup; 6] = [
    ("matrix products", parity::products),
    (PRODUCT_BITS, parity::product_bits),
    ("parts of the model", parity::parts),
    ("gradients", parity::gradients),
    ("training steps", parity::steps),
    (FRAMES, parity::frames),
];

/// What feeding and measuring rest on.
const MACHINERY: [CheckGroup; 6] = [
    ("reads that are not waited for", machinery::reads),
    ("completion stamps", machinery::stamps),
    ("device clock", machinery::clock),
    ("memory report", machinery::memory),
    ("transfer", machinery::transfer),
    ("kernels of a step", machinery::kernels),
];

/// Compares what the device computes with the CPU: a few seconds on a GPU whose kernels are compiled. `report` is given
/// each check as soon as it is made.
pub fn parity(device: &Device, report: &mut dyn FnMut(&SelftestCheck)) -> Vec<SelftestCheck> {
    run(&PARITY, device, report)
}

/// The most by which log-mel frames made on a device may differ from the CPU's, as promised: natural logarithms.
pub const SAME_FRAMES: f64 = 1e-3;

/// By how much log-mel frames that the device computes of these clips differ at most from the CPU's; or why it cannot.
pub fn frames_apart(
    settings: &AudioSettings,
    device: &Device,
    clips: &[Vec<f32>],
) -> Result<f32, String> {
    let device = device.clone().inner();
    without_panic(|| parity::frames_apart(settings, &device, clips)).and_then(|apart| apart)
}

/// All checks there are.
pub fn all(device: &Device, report: &mut dyn FnMut(&SelftestCheck)) -> Vec<SelftestCheck> {
    let mut checks = parity(device, report);
    checks.extend(run(&MACHINERY, device, report));
    checks
}

fn run(
    groups: &[CheckGroup],
    device: &Device,
    report: &mut dyn FnMut(&SelftestCheck),
) -> Vec<SelftestCheck> {
    let device = device.clone().inner();
    let mut checks = Vec::new();
    for (name, group) in groups {
        let made = without_panic(|| group(&device));
        let made = made.unwrap_or_else(|why| vec![SelftestCheck::failed(name, why)]);
        made.iter().for_each(&mut *report);
        checks.extend(made);
    }
    checks
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::{cpu, test_devices};

    #[test]
    fn what_a_device_computes_is_what_the_cpu_computes_on_every_device() {
        for device in test_devices() {
            let mut reported = Vec::new();
            let checks = parity(&device, &mut |check| reported.push(check.clone()));
            assert_eq!(checks, reported);
            let failed: Vec<_> = (checks.iter())
                .filter(|check| check.outcome.is_failure())
                .collect();
            assert_eq!(failed, [] as [&SelftestCheck; 0], "{device:?}");
        }
    }

    /// What it measures depends on the machine, and is no matter of a test; but that it can be measured is.
    #[test]
    fn the_rest_is_measured_or_says_why_not_on_every_device() {
        for device in test_devices() {
            let checks = run(&MACHINERY, &device, &mut |_| {});
            println!("{device:?}: {checks:#?}");
            assert!(checks.len() >= MACHINERY.len());
            let not_measurable = |check: &&SelftestCheck| match &check.outcome {
                CheckOutcome::NotMeasurable(why) => !why.is_empty(),
                _ => false,
            };
            let open = checks.iter().filter(not_measurable).count();
            match crate::device::is_cpu(&device) {
                true => assert_eq!(open, checks.len()),
                false => assert!(open < checks.len()),
            }
        }
    }

    #[test]
    fn what_is_no_number_is_a_failure() {
        let passes = |off| !SelftestCheck::compared("", off, 1e-3).outcome.is_failure();
        assert!(passes(0.0) && passes(9e-4));
        assert!(!passes(2e-3) && !passes(f32::NAN) && !passes(f32::INFINITY));
    }

    #[test]
    fn a_panic_fails_its_group_and_the_next_one_is_still_made() {
        let groups: [CheckGroup; 2] = [
            ("breaks", |_| panic!("the driver is gone")),
            ("works", |_| {
                vec![SelftestCheck::compared("works", 0.0, 0.0)]
            }),
        ];
        let checks = run(&groups, &cpu(), &mut |_| {});
        assert_eq!(
            checks[0],
            SelftestCheck::failed("breaks", "the driver is gone")
        );
        assert!(!checks[1].outcome.is_failure());
    }
}
