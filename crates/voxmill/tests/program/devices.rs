//! `devices` on whatever machine the tests run on: what must hold everywhere.

use serde_json::Value;

use crate::{assert_fits_page, assert_has, expect_refusal, json_of, voxmill};

fn devices(args: &str) -> Value {
    json_of(&mut voxmill(format!("devices --json {args}")), "devices")
}

#[test]
fn the_cpu_is_there_and_every_backend_is_accounted_for() {
    let devices = devices("");
    assert_eq!(devices["version"], 1);
    assert!(devices["cpu"]["cores"].as_u64().unwrap() > 0);
    let backends = devices["backends"].as_array().unwrap();
    let cpu = backends.iter().find(|backend| backend["name"] == "cpu");
    let cpu = cpu.unwrap();
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
    let devices = devices("--data-device cpu --model-device cpu");
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
fn the_text_fits_the_page_and_says_what_is_used() {
    let output = voxmill("devices").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_fits_page(&text);
    let phrases = ["cpu       ", "trains by default", "✓ cpu: compiled in"];
    assert_has(&text, &phrases);
}

#[test]
fn a_device_that_is_not_there_is_an_error_with_a_hint() {
    for device in ["cuda:9", "rocm:9"] {
        let args = format!("devices --data-device cpu --model-device {device}");
        expect_refusal(&mut voxmill(args), &[]);
    }
    let alone = voxmill("devices --data-device cpu").output().unwrap();
    assert!(!alone.status.success());
}

#[test]
fn the_device_flags_of_train_choose_here_too() {
    assert_eq!(devices("--device cpu")["used"], "cpu");
    let none = "--data-gpu 7 --model-gpu 8";
    let refused = ["Insufficient GPUs for Multi-GPU Mode"];
    expect_refusal(&mut voxmill(format!("devices {none}")), &refused);
}
