//! Fuzzing for as long as somebody wants, from the build of the tests.

use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, ensure};
use xtask::{project_root, tell};

use crate::test::BUILD;

pub(crate) fn run(args: &[&str]) -> anyhow::Result<()> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
    let seed = now.as_secs().to_string();
    // What is given comes later, and counts.
    let mut more = vec!["--seed", &seed];
    if !args.contains(&"--input") {
        more.extend(["--seconds", "60"]);
    }
    more.extend(args);
    tell(&format!("fuzz {}", more.join(" ")));
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .arg("test")
        .args(BUILD)
        .args(["--test", "fuzz", "--"])
        .args(more)
        .current_dir(project_root())
        .status()
        .context("cannot start cargo")?;
    ensure!(status.success(), "an input failed");
    Ok(())
}
