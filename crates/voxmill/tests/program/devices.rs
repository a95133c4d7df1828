//! `devices` on whatever machine the tests run on: what must hold everywhere.

use serde_json::Value;

use crate::schema::assert_fits;
use crate::{said, voxmill};

fn json(args: &[&str]) -> Value {
    let output = voxmill(&["devices", "--json"]).args(args).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    let devices = serde_json::from_slice(&output.stdout).unwrap();
    assert_fits(&devices, "devices");
    devices
}

#[test]
fn the_cpu_is_there_and_every_backend_is_accounted_for() {
    let devices = json(&[]);
    assert_eq!(devices["version"], 1);
    assert!(devices["cpu"]["cores"].as_u64().unwrap() > 0);
    let backends = devices["backends"].as_array().unwrap();
    let cpu = backends
        .iter()
        .find(|backend| backend["name"] == "cpu")
        .unwrap();
    assert_eq!(
        (&cpu["compiled_in"], &cpu["devices"]),
        (&Value::from(true), &Value::from(1))
    );
    assert_eq!(backends.len(), 6);
    assert_eq!(devices["copy"], Value::Null);
    // The CPU's share of the check hides GPUs from the program.
    let is_hidden = std::env::var("VOXMILL_TEST_DEVICE").is_ok_and(|on| on == "cpu");
    if is_hidden || cfg!(not(feature = "wgpu")) {
        assert_eq!(devices["used"], "cpu");
    }
}

#[test]
fn a_copy_between_two_lanes_is_measured_and_checked() {
    let devices = json(&["--data-device", "cpu", "--model-device", "cpu"]);
    let sizes = devices["copy"]["sizes"].as_array().unwrap();
    assert_eq!(sizes.len(), 4, "{devices:#}");
    for size in sizes {
        let rate = |name: &str| size[name].as_f64().unwrap();
        assert!(rate("best_bytes_per_second") >= rate("median_bytes_per_second"));
        assert!(rate("median_bytes_per_second") > 0.0);
        assert_eq!(size["checksum"].as_str().unwrap().len(), 16);
    }
}

#[test]
fn what_is_told_fits_the_page_and_says_what_is_used() {
    let output = voxmill(&["devices"]).output().unwrap();
    let told = String::from_utf8(output.stdout).unwrap();
    assert!(
        told.lines().all(|line| line.chars().count() <= 80),
        "{told}"
    );
    for expected in ["cpu       ", "trains by default", "✓ cpu: compiled in"] {
        assert!(told.contains(expected), "{expected}\n{told}");
    }
}

#[test]
fn a_device_that_is_not_there_is_an_error_with_a_way_out() {
    for device in ["cuda:9", "rocm:9"] {
        let args = ["devices", "--data-device", "cpu", "--model-device", device];
        let output = voxmill(&args).output().unwrap();
        let told = said(&output);
        assert_eq!(output.status.code(), Some(1), "{told}");
        assert!(told.contains("hint: "), "{told}");
        assert!(!told.contains("panicked"), "{told}");
    }
    let alone = voxmill(&["devices", "--data-device", "cpu"])
        .output()
        .unwrap();
    assert!(!alone.status.success());
}
