//! What the program is made of, held to `deny.toml`: licences, sources, banned crates.
//!
//! `cargo deny` checks the same and more, but takes minutes to install; this part of it needs nothing that a build
//! does not need, so it can fail on every machine.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot set itself up has failed"
)]

use std::collections::BTreeMap;
use std::process::Command;

use serde_json::Value;
use spdx::{Expression, Licensee, ParseMode};
use toml::Table;
use xtask::project_root;

fn rules() -> Table {
    let text = std::fs::read_to_string(project_root().join("deny.toml")).unwrap();
    text.parse().unwrap()
}

fn texts<'a>(list: &'a toml::Value, key: Option<&str>) -> Vec<&'a str> {
    let text = |value: &'a toml::Value| match key {
        Some(key) => value[key].as_str(),
        None => value.as_str(),
    };
    let list = list.as_array().unwrap().iter();
    list.map(|value| text(value).unwrap()).collect()
}

/// Every package of the build with the most backends, as cargo describes it.
fn packages(rules: &Table) -> Vec<Value> {
    let graph = &rules["graph"];
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--format-version=1", "--locked"])
        .args(["--filter-platform", texts(&graph["targets"], None)[0]])
        .args(["--features", &texts(&graph["features"], None).join(",")])
        .current_dir(project_root())
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let mut metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let Value::Array(nodes) = metadata["resolve"]["nodes"].take() else {
        panic!("cargo resolved nothing");
    };
    let Value::Array(mut packages) = metadata["packages"].take() else {
        panic!("cargo knows no packages");
    };
    packages.retain(|package| nodes.iter().any(|node| node["id"] == package["id"]));
    packages
}

/// Why a package may not be here, if so.
fn fault(package: &Value, rules: &Table) -> Option<String> {
    let name = package["name"].as_str().unwrap();
    if texts(&rules["bans"]["deny"], Some("crate")).contains(&name) {
        return Some("it is banned".to_owned());
    }
    // Those without a source are our own.
    let source = package["source"].as_str()?;
    let registries = texts(&rules["sources"]["allow-registry"], None);
    let registry = source.strip_prefix("registry+");
    if !registry.is_some_and(|registry| registries.contains(&registry)) {
        return Some(format!("it comes from {source}"));
    }
    let licences = &rules["licenses"];
    let clarified = licences["clarify"].as_array().unwrap().iter();
    let clarified: BTreeMap<_, _> = clarified
        .map(|entry| (entry["crate"].as_str(), entry["expression"].as_str()))
        .collect();
    let stated = clarified.get(&Some(name)).copied().flatten();
    let Some(stated) = stated.or(package["license"].as_str()) else {
        return Some("it states no licence".to_owned());
    };
    let allowed = texts(&licences["allow"], None).into_iter();
    let allowed: Vec<_> = allowed.map(|one| Licensee::parse(one).unwrap()).collect();
    let holds = Expression::parse_mode(stated, ParseMode::LAX).is_ok_and(|stated| {
        stated.evaluate(|asked| allowed.iter().any(|one| one.satisfies(asked)))
    });
    (!holds).then(|| format!("its licence is {stated}"))
}

#[test]
fn every_dependency_is_one_that_deny_toml_allows() {
    let rules = rules();
    let packages = packages(&rules);
    assert!(packages.len() > 500, "the GPU backends are missing");
    let faults: Vec<String> = packages
        .iter()
        .filter_map(|package| Some(format!("{}: {}", package["id"], fault(package, &rules)?)))
        .collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn what_deny_toml_does_not_allow_is_named() {
    let registry = "registry+https://github.com/rust-lang/crates.io-index";
    let fault = |name: &str, source: &str, licence: Option<&str>| {
        let package = serde_json::json!({"name": name, "source": source, "license": licence});
        fault(&package, &rules())
    };
    for fine in ["MIT/GPL-3.0-only", "(MIT OR Apache-2.0) AND Unicode-3.0"] {
        assert_eq!(fault("fine", registry, Some(fine)), None);
    }
    for (name, source, licence, why) in [
        (
            "a",
            registry,
            Some("GPL-3.0-only"),
            "its licence is GPL-3.0-only",
        ),
        (
            "b",
            registry,
            Some("MIT AND GPL-3.0-only"),
            "its licence is MIT AND GPL-3.0-only",
        ),
        ("c", registry, None, "it states no licence"),
        (
            "d",
            "git+https://example.org/d",
            Some("MIT"),
            "it comes from git+https://example.org/d",
        ),
        ("serde_yaml", registry, Some("MIT"), "it is banned"),
    ] {
        assert_eq!(fault(name, source, licence).as_deref(), Some(why));
    }
}
