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
    /// The tests on a GPU instead, with wgpu; installs Mesa's software GPU where no Vulkan driver is
    #[arg(long)]
    gpu: bool,
}

pub(crate) fn run(args: TestArgs) -> anyhow::Result<()> {
    let root = project_root();
    // The tests read the cache back with pyarrow; without it they fail rather than pass by silence.
    let python = python::environment(&root, "test-python", "requirements.txt")?;
    if args.gpu {
        return on_gpu(&root, &python);
    }
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

/// Where the drivers say that they are there.
const VULKAN_DRIVERS: &str = "/usr/share/vulkan/icd.d";

/// The same code as on the CPU, on a GPU. It fails where there is none: tests on nothing prove
/// nothing.
fn on_gpu(root: &Path, python: &Path) -> anyhow::Result<()> {
    let has_driver = Path::new(VULKAN_DRIVERS)
        .read_dir()
        .is_ok_and(|mut drivers| drivers.next().is_some());
    if !has_driver {
        tell("apt-get install mesa-vulkan-drivers");
        for args in [&["update"][..], &["install", "-y", "mesa-vulkan-drivers"]] {
            let status = Command::new("apt-get").args(args).status();
            let status = status.context("cannot start apt-get; install a Vulkan driver by hand")?;
            ensure!(status.success(), "`apt-get {}` failed", args.join(" "));
        }
    }
    // Both packages each time: another choice would have cargo build all dependencies once more.
    let test = |rest: &[&str]| {
        let features = "voxmill/wgpu,voxmill-trainer/wgpu";
        let mut args = vec![
            "test",
            "-p",
            "voxmill",
            "-p",
            "voxmill-trainer",
            "--features",
            features,
        ];
        args.push("--locked");
        args.extend(rest);
        // One test at a time: they share one GPU, and a software one has no cores of its own.
        args.push("--test-threads=1");
        cargo(root, &args, python)
    };
    test(&["--lib", "--"])?;
    test(&["--test", "program", "on_gpu", "--"])
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
