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
    /// The tests on a GPU instead, with wgpu, and a type check for CUDA; installs Mesa's software GPU where no Vulkan driver is
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
    test(&["--test", "program", "on_gpu", "--"])?;
    type_check(root, "cuda")
}

/// What cannot be run here, or not even linked, must at least be right by its types.
fn type_check(root: &Path, feature: &str) -> anyhow::Result<()> {
    let args = ["check", "-p", "voxmill", "--features", feature, "--locked"];
    let mut command = cargo_command(root, &args);
    // The build script then does without the compiler that it would fetch.
    command.env("DOCS_RS", "1");
    run_command(command, &args)
}

fn cargo(root: &Path, args: &[&str], python: &Path) -> anyhow::Result<()> {
    let mut command = cargo_command(root, args);
    command.env("VOXMILL_TEST_PYTHON", python);
    run_command(command, args)
}

fn cargo_command(root: &Path, args: &[&str]) -> Command {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(args).current_dir(root);
    command
}

fn run_command(mut command: Command, args: &[&str]) -> anyhow::Result<()> {
    tell(&format!("cargo {}", args.join(" ")));
    let status = command.status().context("cannot start cargo")?;
    ensure!(status.success(), "`cargo {}` failed", args.join(" "));
    Ok(())
}
