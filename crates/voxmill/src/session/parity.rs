//! Before a run on a GPU: does it compute what the CPU computes?
//!
//! A driver or a tuned kernel that is wrong trains a wrong voice without a word. So each GPU is compared with the CPU
//! before its first step, once for each device, driver and build of the program; the answer is kept in the cache folder.
//! The comparison is a process of its own: a driver that crashes ends that one, and what it takes of the device's memory
//! is not the run's.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::UNIX_EPOCH;

use serde::{Deserialize, Serialize};
use voxmill_report::results::selftest::{CheckVerdict, DeviceCheck, SelfTest};
use voxmill_report::terminal::{Paint, check_text};
use voxmill_settings::TrainSettings;
use voxmill_settings::error::UserError;
use voxmill_trainer::checkpoint::PrepareOn;
use voxmill_trainer::device::{self, Device, DeviceId};
use voxmill_trainer::selftest::{FRAMES, PRODUCT_BITS};

use super::devices::OpenDevices;
use crate::commands::{note, print_lines, status, warning};
use voxmill_settings::demo_folder::cache_home;

/// A device that computes as the CPU does, as far as a run depends on it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Passed {
    /// Device, driver and kernel compiler.
    identity: String,
    /// Which file the program was, and when it was built.
    program: String,
    /// Whether frames may be computed on it.
    frames: bool,
    /// Of the numbers in a product, the bits that are not rounded away.
    #[serde(default)]
    product_bits: Option<u32>,
}

/// Of 32-bit numbers.
const ALL_BITS: u32 = 23;

/// Refuses a device of the run that differs from the CPU. Where only frames differ, they are computed by the workers
/// instead, unless the device was asked for.
pub(super) fn check(
    settings: &TrainSettings,
    opened: &OpenDevices,
) -> Result<TrainSettings, UserError> {
    let (data, model) = (
        settings.devices.devices.data(),
        settings.devices.devices.model(),
    );
    let mut settings = settings.clone();
    let mut checked = Vec::new();
    for (id, device) in [(model, &opened.model), (data, &opened.data)] {
        // Logical devices of one GPU are that GPU.
        let gpu = DeviceId { logical: 0, ..id };
        if id.is_cpu() || checked.contains(&gpu) {
            continue;
        }
        checked.push(gpu);
        let passed = kept_or_tested(gpu, device)?;
        if let Some(bits) = passed.product_bits.filter(|bits| *bits < ALL_BITS) {
            note!(
                "{gpu} keeps {bits} of {ALL_BITS} bits of the numbers in a product (10 bits: TF32)"
            );
        }
        let computes_frames = match settings.devices.prepare_on {
            PrepareOn::Host => settings.devices.measures_prepare_on && id == data,
            PrepareOn::Data => id == data,
            PrepareOn::Model => id == model,
        };
        if passed.frames || !computes_frames {
            continue;
        }
        if !settings.devices.measures_prepare_on {
            return Err(UserError::new(
                format!("{id} computes frames that differ from the CPU's by more than 1e-3"),
                "leave out --prepare-on: the workers then compute frames",
            ));
        }
        status!("frames computed by {id} would differ from the CPU's: the workers compute them");
        settings.devices.measures_prepare_on = false;
        settings.devices.prepare_on = PrepareOn::Host;
    }
    Ok(settings)
}

fn kept_or_tested(id: DeviceId, device: &Device) -> Result<Passed, UserError> {
    let identity = device::signature(id, device);
    let program = program();
    let file = kept_in(id);
    let kept = file.as_ref().and_then(|file| std::fs::read(file).ok());
    let kept = kept.and_then(|bytes| serde_json::from_slice::<Passed>(&bytes).ok());
    // Nothing is known of a device that does not name itself.
    let is_same = |kept: &Passed| {
        Some(&kept.identity) == identity.as_ref() && Some(&kept.program) == program.as_ref()
    };
    if let Some(kept) = kept.filter(is_same) {
        return Ok(kept);
    }
    status!("comparing {id} with the CPU, once for this device, driver and program …");
    let checks = compared(id)?;
    let frames = verdict(id, &checks)?;
    let product_bits = checks.iter().find(|check| check.name == PRODUCT_BITS);
    let can_be_kept = identity.is_some() && program.is_some();
    let passed = Passed {
        identity: identity.unwrap_or_default(),
        program: program.unwrap_or_default(),
        frames,
        product_bits: product_bits.and_then(|check| Some(check.value? as u32)),
    };
    if let Some(file) = file.filter(|_| can_be_kept) {
        keep(&passed, &file);
    }
    Ok(passed)
}

fn compared(id: DeviceId) -> Result<Vec<DeviceCheck>, UserError> {
    let failed = |why: String| {
        let what = format!("{id} cannot be compared with the CPU: {why}");
        let hint = format!("{OTHERWISE}; `voxmill selftest --device {id}` shows how far it comes");
        UserError::new(what, hint)
    };
    let program = std::env::current_exe();
    let program = program.map_err(|error| failed(format!("{error}")))?;
    let output = Command::new(program)
        .args(["selftest", "--compare-only", "--json", "--device"])
        .arg(id.to_string())
        .stdin(Stdio::null())
        .output()
        .map_err(|error| failed(format!("{error}")))?;
    let result = serde_json::from_slice::<SelfTest>(&output.stdout);
    // A process that was killed, by a driver's fault or a person, leaves no result.
    let result =
        result.map_err(|_| failed(format!("the comparison ended with {}", output.status)))?;
    Ok(result.checks)
}

const OTHERWISE: &str = "try another driver or backend, or --device cpu";

/// Whether frames may be computed on it, or what it computes wrongly.
fn verdict(id: DeviceId, checks: &[DeviceCheck]) -> Result<bool, UserError> {
    let failed = (checks.iter()).filter(|check| check.verdict == CheckVerdict::Fail);
    let (frames, wrong): (Vec<_>, Vec<_>) = failed.partition(|check| check.name == FRAMES);
    if wrong.is_empty() {
        return Ok(frames.is_empty());
    }
    for check in &wrong {
        print_lines(&check_text(check, Paint::plain()));
    }
    let names: Vec<_> = wrong.iter().map(|check| check.name.as_str()).collect();
    Err(UserError::new(
        format!(
            "{id} does not compute what the CPU computes: {}",
            names.join(", ")
        ),
        format!("{OTHERWISE}; `voxmill selftest --device {id}` shows every part"),
    ))
}

fn kept_in(id: DeviceId) -> Option<PathBuf> {
    let name = id.to_string().replace([':', '+'], "-");
    let folder = cache_home()?.join("voxmill").join("selftest");
    Some(folder.join(format!("{name}.json")))
}

/// Another build may compute something else.
fn program() -> Option<String> {
    let file = std::env::current_exe().ok()?;
    let facts = std::fs::metadata(file).ok()?;
    let built = facts.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
    Some(format!("{} bytes, {}", facts.len(), built.as_nanos()))
}

/// What cannot be kept is tested again by the next run. Renamed, so that a run that starts meanwhile reads a whole one.
fn keep(passed: &Passed, file: &Path) {
    let Some(folder) = file.parent() else { return };
    let write = || -> anyhow::Result<()> {
        std::fs::create_dir_all(folder)?;
        let mut temporary = tempfile::NamedTempFile::new_in(folder)?;
        serde_json::to_writer(&mut temporary, passed)?;
        temporary.persist(file)?;
        Ok(())
    };
    if let Err(why) = write() {
        let file = file.display();
        warning!("cannot write `{file}`: the next run compares the device again ({why:#})");
    }
}

#[cfg(test)]
mod tests {
    use voxmill_trainer::device::Backend;

    use super::*;

    const GPU: DeviceId = DeviceId::new(Backend::Vulkan, 0);

    #[test]
    fn a_device_that_computes_something_else_is_refused_by_what_is_wrong() {
        let checks = [
            DeviceCheck::new("style", CheckVerdict::Pass),
            DeviceCheck::new("gradients", CheckVerdict::Fail),
        ];
        let refused = verdict(GPU, &checks).expect_err("gradients are wrong");
        let text = refused.to_string();
        assert!(
            text.contains("vulkan:0") && text.contains("gradients"),
            "{text}"
        );
        assert!(!text.contains("style"), "{text}");
    }

    #[test]
    fn wrong_frames_alone_leave_the_model_alone() {
        for (frames, may) in [(CheckVerdict::Fail, false), (CheckVerdict::Pass, true)] {
            let checks = [
                DeviceCheck::new("style", CheckVerdict::Pass),
                DeviceCheck::new(FRAMES, frames),
            ];
            assert_eq!(verdict(GPU, &checks).ok(), Some(may));
        }
    }

    /// This process is a test and no `voxmill`: what it prints is no result.
    #[test]
    fn a_comparison_without_a_result_is_a_refusal() {
        let refused = compared(GPU).expect_err("no result");
        let text = refused.to_string();
        assert!(text.contains("vulkan:0 cannot be compared"), "{text}");
    }
}
