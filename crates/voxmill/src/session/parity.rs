//! Before a run on a GPU: does it compute what the CPU computes?
//!
//! A driver or a tuned kernel that is wrong trains a wrong voice without a word. So each GPU is compared with the CPU
//! before its first step, once for each device, driver and build of the program; the answer is kept in the cache folder.
//! The comparison is a process of its own: a driver that crashes ends that one, and what it takes of the device's memory
//! is not the run's.
//!
//! How far frames are off depends on the sound too. Where a device computes those, some of the run's own clips are
//! compared in every run.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::UNIX_EPOCH;

use serde::{Deserialize, Serialize};
use voxmill_data::FeatureStore;
use voxmill_data::manifest::Split;
use voxmill_report::format::counted;
use voxmill_report::results::selftest::{CheckVerdict, DeviceCheck, SelfTest};
use voxmill_report::terminal::{Paint, check_text};
use voxmill_settings::error::UserError;
use voxmill_settings::{DeviceSettings, TrainSettings};
use voxmill_trainer::checkpoint::PrepareOn;
use voxmill_trainer::device::{self, Device, DeviceId};
use voxmill_trainer::selftest::{FRAMES, PRODUCT_BITS, SAME_FRAMES, frames_apart};

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
/// instead, unless the device was asked for. The line says how far its frames are from the CPU's, where it may compute
/// them.
pub(super) fn check(
    settings: &TrainSettings,
    opened: &OpenDevices,
    store: &FeatureStore,
) -> Result<(TrainSettings, Option<String>), UserError> {
    let (data, model) = (
        settings.devices.devices.data(),
        settings.devices.devices.model(),
    );
    let mut settings = settings.clone();
    let mut checked = Vec::new();
    for (id, device) in [(model, &opened.model), (data, &opened.data)] {
        let gpu = whole(id);
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
        let makes_frames = computes_frames(&settings.devices).filter(|id| whole(*id) == gpu);
        if let Some(id) = makes_frames.filter(|_| !passed.frames) {
            leave_to_workers(&mut settings.devices, id, "")?;
        }
    }
    let Some(id) = computes_frames(&settings.devices) else {
        return Ok((settings, None));
    };
    let device = if id == model {
        &opened.model
    } else {
        &opened.data
    };
    let line = compare_frames(&mut settings, id, device, store)?;
    Ok((settings, line))
}

/// Logical devices of one GPU are that GPU.
fn whole(id: DeviceId) -> DeviceId {
    DeviceId { logical: 0, ..id }
}

/// The device that computes frames, or may.
fn computes_frames(devices: &DeviceSettings) -> Option<DeviceId> {
    match devices.prepare_on {
        PrepareOn::Host => (devices.measures_prepare_on).then(|| devices.devices.data()),
        PrepareOn::Data => Some(devices.devices.data()),
        PrepareOn::Model => Some(devices.devices.model()),
    }
}

/// Clips of the run that are compared in each run: how far frames are off depends on the sound.
const CLIPS: usize = 4;

/// Of clips that the run trains on, from its shortest to its longest, each by itself.
fn compare_frames(
    settings: &mut TrainSettings,
    id: DeviceId,
    device: &Device,
    store: &FeatureStore,
) -> Result<Option<String>, UserError> {
    let (audio, longest) = (&settings.data.audio, settings.data.max_mel_frames);
    let clips = store.waveforms_by_length(Split::Train, CLIPS, longest);
    let clips =
        clips.map_err(|why| UserError::new(why.to_string(), "give other audio settings"))?;
    if clips.is_empty() {
        note!("no clip could be read to compare frames of {id} with the CPU's");
        return Ok(None);
    }
    let off = frames_apart(audio, device, &clips);
    device.memory_cleanup();
    let off = off.map_err(|why| {
        let what = format!("{id} cannot compute frames of the run's clips: {why}");
        UserError::new(what, WITHOUT_FRAMES)
    })?;
    // What is not a number is not close to anything.
    if f64::from(off) <= SAME_FRAMES {
        let framing = audio.framing();
        let frames = clips.iter().map(|clip| framing.frames_of_clip(clip.len()));
        let (least, most) = (frames.clone().min(), frames.max());
        return Ok(Some(format!(
            "compared  frames of {}, {} to {} long, by {id} and by the workers: at most {off:.0e} apart",
            counted(clips.len() as u64, "clip"),
            least.unwrap_or_default(),
            most.unwrap_or_default(),
        )));
    }
    let how_far = format!(", on clips of this run by {off:.0e}");
    leave_to_workers(&mut settings.devices, id, &how_far)?;
    Ok(None)
}

const WITHOUT_FRAMES: &str = "leave out --prepare-on: the workers then compute frames";

/// Frames of this device would be wrong: it is refused where it was asked for.
fn leave_to_workers(
    devices: &mut DeviceSettings,
    id: DeviceId,
    how_far: &str,
) -> Result<(), UserError> {
    if !devices.measures_prepare_on {
        let what =
            format!("{id} computes frames that differ from the CPU's by more than 1e-3{how_far}");
        return Err(UserError::new(what, WITHOUT_FRAMES));
    }
    status!(
        "frames computed by {id} would differ from the CPU's{how_far}: the workers compute them"
    );
    devices.measures_prepare_on = false;
    devices.prepare_on = PrepareOn::Host;
    Ok(())
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
    use clap::Parser as _;
    use voxmill_settings::args::{Cli, Verb};
    use voxmill_trainer::device::Backend;

    use super::*;
    use crate::session::data::Data;

    const GPU: DeviceId = DeviceId::new(Backend::Vulkan, 0);

    /// What the start of a run on this dataset says of frames that the CPU's lane computes, and where they are computed.
    fn checked(
        dataset: &Path,
        devices: &str,
    ) -> Result<(PrepareOn, bool, Option<String>), UserError> {
        let dataset = dataset.display();
        let line = format!("voxmill train --train-data {dataset} --no-cache {devices}");
        let cli = Cli::try_parse_from(line.split_whitespace()).unwrap();
        let Verb::Train(args) = cli.verb else {
            panic!("another verb")
        };
        let settings = TrainSettings::resolve(*args).unwrap();
        let store = Data::open(&settings, None).unwrap().store(&settings);
        let opened = OpenDevices::open(settings.devices.devices).unwrap();
        let (settings, line) = check(&settings, &opened, &store)?;
        let DeviceSettings {
            prepare_on,
            measures_prepare_on,
            ..
        } = settings.devices;
        Ok((prepare_on, measures_prepare_on, line))
    }

    const LANES: &str = "--data-device cpu --model-device cpu";

    #[test]
    fn frames_of_the_runs_own_clips_are_compared_where_a_device_computes_them() {
        let home = tempfile::tempdir().unwrap();
        let speech = voxmill_data::demo::unpack(home.path()).unwrap().dir;
        let on_model = checked(&speech, "--device cpu --prepare-on model").unwrap();
        let on_data = checked(&speech, &format!("{LANES} --prepare-on data")).unwrap();
        let measured = checked(&speech, LANES).unwrap();
        assert_eq!((on_model.0, on_data.0), (PrepareOn::Model, PrepareOn::Data));
        assert!(measured.1);
        for (_, _, line) in [on_model, on_data, measured] {
            let line = line.unwrap();
            assert!(line.starts_with("compared  frames of 4 clips, "), "{line}");
            assert!(
                line.contains(" long, by cpu and by the workers: at most "),
                "{line}"
            );
        }
        let by_workers = checked(&speech, "--device cpu").unwrap();
        assert_eq!(by_workers, (PrepareOn::Host, false, None));
    }

    /// A loud pure tone leaves bins so empty that rounding shows in them, also in products of 32 bits.
    #[test]
    fn where_frames_of_the_runs_clips_differ_the_workers_compute_them_or_the_run_is_refused() {
        let tones = tempfile::tempdir().unwrap();
        std::fs::create_dir(tones.path().join("wavs")).unwrap();
        let mut rows = String::new();
        for n in 0..4 {
            let turn = |at: i32| 0.9 * (0.11 * (n + 1) as f32 * at as f32).sin();
            let sound: Vec<f32> = (0..22_050).map(turn).collect();
            let file = tones.path().join(format!("wavs/c{n}.wav"));
            std::fs::write(file, voxmill_audio::wav_bytes(&sound, 22_050)).unwrap();
            rows += &format!("c{n}|The river runs past the old mill.\n");
        }
        std::fs::write(tones.path().join("metadata.csv"), rows).unwrap();
        let measured = checked(tones.path(), LANES).unwrap();
        assert_eq!(measured, (PrepareOn::Host, false, None));
        let refused = checked(tones.path(), "--device cpu --prepare-on model");
        let text = refused.expect_err("frames are wrong").to_string();
        let what = "cpu computes frames that differ from the CPU's by more than 1e-3, on clips of this run by ";
        assert!(text.contains(what), "{text}");
    }

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
