//! The README's test command: everything that must hold before a change lands.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, ensure};

use crate::{project_root, python, tell};

#[derive(Debug, clap::Args)]
pub(crate) struct TestArgs {
    /// Only the tests; leave out the format and lint checks
    #[arg(long)]
    tests_only: bool,
}

pub(crate) fn run(args: TestArgs) -> anyhow::Result<()> {
    let root = project_root();
    // The tests read the cache back with pyarrow; without it they fail rather than pass by silence.
    let python = python::environment(&root, "test-python", "requirements.txt")?;
    if !args.tests_only {
        cargo(&root, &["fmt", "--all", "--check"], &python)?;
        cargo(
            &root,
            &[
                "clippy",
                "--workspace",
                "--all-targets",
                "--locked",
                "--",
                "-D",
                "warnings",
            ],
            &python,
        )?;
    }
    cargo(&root, &["test", "--workspace", "--locked"], &python)?;
    // The model checker takes the place of locks and threads, so it needs a build of its own.
    cargo(
        &root,
        &[
            "test",
            "-p",
            "voxmill-pipeline",
            "--features",
            "loom",
            "--test",
            "loom",
            "--locked",
        ],
        &python,
    )
}

fn cargo(root: &Path, args: &[&str], python: &Path) -> anyhow::Result<()> {
    tell(&format!("cargo {}", args.join(" ")));
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .args(args)
        .current_dir(root)
        .env("VOXMILL_TEST_PYTHON", python)
        .status()
        .context("cannot start cargo")?;
    ensure!(status.success(), "`cargo {}` failed", args.join(" "));
    Ok(())
}
