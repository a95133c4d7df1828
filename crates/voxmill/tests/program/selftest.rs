//! `selftest` on the CPU, which every machine has.

use crate::{assert_fits_page, assert_has, expect_refusal, json_of, voxmill};

#[test]
fn the_cpu_agrees_with_itself_and_says_what_it_cannot_measure() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("cpu.json");
    let mut command = voxmill("selftest --device cpu --json --output");
    let result = json_of(command.arg(&file), "selftest");
    assert_eq!(result["passed"], true, "{result:#}");
    assert_eq!(result["device"], "cpu");
    let written = std::fs::read_to_string(&file).unwrap();
    assert_eq!(
        serde_json::from_str::<serde_json::Value>(&written).unwrap(),
        result
    );
    let verdict = |name: &str| {
        let checks = result["checks"].as_array().unwrap();
        let check = checks.iter().find(|check| check["name"] == name);
        check.unwrap_or_else(|| panic!("{name}: {result:#}"))["verdict"].clone()
    };
    assert_eq!(verdict("gradients"), "pass");
    assert_eq!(verdict("memory report"), "not_measurable");
}

#[test]
fn each_check_is_a_line_that_fits_the_page() {
    let output = voxmill("selftest --device cpu").output().unwrap();
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    assert_fits_page(&text);
    assert_has(
        &text,
        &["optimizer step", "not measurable: ", "no check failed"],
    );
}

#[test]
fn a_device_that_is_not_there_is_refused() {
    expect_refusal(&mut voxmill("selftest --device cuda:9"), &["--device"]);
}
