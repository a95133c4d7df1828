//! NVIDIA devices against a stub of their library, which the test compiles with the `rustc` that
//! compiled the test: nothing of NVIDIA's is needed, nor a C compiler.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "test code outside of test functions")]

use std::env::consts::{DLL_PREFIX, DLL_SUFFIX};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;
use voxmill_telemetry::device::DeviceIdentity;
use voxmill_telemetry::event::{DeviceSample, Event, Nanos};
use voxmill_telemetry::probes::{Probes, Roots};

/// Each test has a library of its own: the loader keeps one copy, and its counters, for each file.
fn compile(directory: &TempDir, source: &Path, flags: &[&str]) -> PathBuf {
    let library = directory
        .path()
        .join(format!("{DLL_PREFIX}stub{DLL_SUFFIX}"));
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc)
        .args(["--crate-type=cdylib", "--edition=2024", "--crate-name=stub"])
        .args(["--check-cfg=cfg(init, values(\"no_driver\", \"fails\"))"])
        .args(flags)
        .arg("-o")
        .arg(&library)
        .arg(source)
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    library
}

fn stub(directory: &TempDir, flags: &[&str]) -> PathBuf {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/probes_nvml/stub.rs");
    compile(directory, Path::new(source), flags)
}

/// A machine that has nothing but this library.
fn probes(library: &Path) -> Probes {
    Probes::find(&Roots {
        proc: PathBuf::from("nowhere"),
        sys: PathBuf::from("nowhere"),
        nvml_library: Some(library.to_owned()),
    })
}

fn one_note(probes: &Probes) -> &str {
    match probes.notes() {
        [note] => note,
        other => panic!("{other:?}"),
    }
}

fn samples(probes: &mut Probes) -> Vec<DeviceSample> {
    let device = |event| match event {
        Event::DeviceSample(sample) => sample,
        other => panic!("{other:?}"),
    };
    probes.sample(Nanos(0)).into_iter().map(device).collect()
}

#[test]
fn cards_are_named_and_sampled_and_what_they_do_not_support_is_absent() {
    let directory = tempfile::tempdir().unwrap();
    let mut probes = probes(&stub(&directory, &[]));
    let shown: Vec<String> = probes.devices().map(ToString::to_string).collect();
    assert_eq!(
        shown,
        [
            "NVIDIA GeForce RTX 4090, 0000:01:00.0, PCIe 4 x16",
            "Quadro K600, 0000:0a:00.0"
        ]
    );
    assert_eq!(probes.facts()["nvidia1"], "Quadro K600, 0000:0a:00.0");
    // CUDA counts the other way round here; the addresses tell.
    let at = |device: &str, address: Option<&str>| DeviceIdentity {
        device: device.into(),
        pci_address: address.map(|address| address.parse().unwrap()),
        ..DeviceIdentity::default()
    };
    let mut devices = [
        at("cuda:0", Some("0000:0a:00.0")),
        at("cuda:1", Some("0000:01:00.0")),
        at("cuda:2", Some("0000:0b:00.0")),
        at("wgpu:0", None),
    ];
    probes.name_samples(&mut devices);
    let sampled = devices.map(|device| device.sampled_as);
    let sampled = sampled
        .each_ref()
        .map(|name| name.as_ref().map(|name| name.as_str()));
    assert_eq!(sampled, [Some("nvidia1"), Some("nvidia0"), None, None]);
    let modern = DeviceSample {
        device: "nvidia0".into(),
        utilisation_percent: Some(93.0),
        memory_used: Some((24 << 30) - (1 << 29) - (1 << 20)),
        memory_total: Some(24 << 30),
        power_watts: Some(412.5),
        temperature_celsius: Some(71.0),
        clock_mhz: Some(2520.0),
        memory_clock_mhz: Some(10_501.0),
        pcie_receive: Some(9_000_000_000),
        pcie_send: Some(150_000_000),
    };
    let old = DeviceSample {
        device: "nvidia1".into(),
        memory_used: Some((1 << 30) - (1 << 29) - (1 << 20)),
        memory_total: Some(1 << 30),
        temperature_celsius: Some(71.0),
        clock_mhz: Some(2520.0),
        memory_clock_mhz: Some(10_501.0),
        ..DeviceSample::default()
    };
    assert_eq!(samples(&mut probes), [modern, old]);
    assert_eq!(probes.notes(), [] as [&str; 0]);
}

#[test]
fn a_card_that_is_lost_is_reported_once_and_left_out() {
    let directory = tempfile::tempdir().unwrap();
    let mut probes = probes(&stub(&directory, &[]));
    let sampled: Vec<usize> = (0..5).map(|_| samples(&mut probes).len()).collect();
    assert_eq!(sampled, [2, 2, 1, 1, 1], "lost in the third sample");
    let note = one_note(&probes);
    let lost = "nvidia1 (Quadro K600) is no longer sampled: device fell off the bus";
    assert!(note.starts_with(lost), "{note}");
    let left: Vec<&str> = probes.devices().map(|device| device.id.as_str()).collect();
    assert_eq!(left, ["nvidia0"]);
}

#[test]
fn no_library_and_no_driver_are_no_reason_to_complain() {
    let directory = tempfile::tempdir().unwrap();
    let missing = directory.path().join("missing.so");
    let no_driver = stub(&directory, &["--cfg=init=\"no_driver\""]);
    for library in [missing, no_driver] {
        let mut probes = probes(&library);
        assert_eq!(probes.sample(Nanos(0)), []);
        assert_eq!(probes.notes(), [] as [&str; 0], "{}", library.display());
    }
}

#[test]
fn a_library_that_cannot_be_used_is_reported() {
    let [fails, lacks] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let source = lacks.path().join("empty.rs");
    let text = lacks.path().join("text.so");
    fs::write(&source, "").unwrap();
    fs::write(&text, "not a library").unwrap();
    let not_initialised = "NVIDIA devices are not sampled: an internal driver error occurred";
    for (library, expected) in [
        (stub(&fails, &["--cfg=init=\"fails\""]), not_initialised),
        (compile(&lacks, &source, &[]), "nvmlInit_v2"),
        (text, "text.so"),
    ] {
        let mut probes = probes(&library);
        assert_eq!(probes.sample(Nanos(0)), [], "{expected}");
        let note = one_note(&probes);
        assert!(note.contains(expected), "{note}");
        assert!(expected != not_initialised || note == expected, "{note}");
    }
}
