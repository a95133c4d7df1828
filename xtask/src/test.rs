//! The README's test command: everything that must hold before a change lands.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail, ensure};

#[derive(Debug, clap::Args)]
pub(crate) struct TestArgs {
    /// Only the tests; leave out the format and lint checks
    #[arg(long)]
    tests_only: bool,
}

pub(crate) fn run(args: TestArgs) -> anyhow::Result<()> {
    let root = project_root();
    let python = python_with_pyarrow(&root)?;
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
    cargo(&root, &["test", "--workspace", "--locked"], &python)
}

pub(crate) fn project_root() -> PathBuf {
    // This file's crate lies one folder below the workspace.
    let mut root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    root.pop();
    root
}

fn cargo(root: &Path, args: &[&str], python: &Path) -> anyhow::Result<()> {
    eprintln_line(&format!("cargo {}", args.join(" ")));
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

/// A Python of our own below the target folder, with the pinned packages; made once and kept until
/// the list of packages changes.
fn python_with_pyarrow(root: &Path) -> anyhow::Result<PathBuf> {
    let requirements = root.join("xtask/python/requirements.txt");
    let wanted = std::fs::read_to_string(&requirements)?;
    let home = target_dir(root).join("test-python");
    let python = home.join("bin/python");
    let stamp = home.join("installed.txt");
    if python.exists() && std::fs::read_to_string(&stamp).is_ok_and(|installed| installed == wanted)
    {
        return Ok(python);
    }
    eprintln_line("installing the pinned Python packages that the tests read our files with");
    let made = Command::new("python3")
        .args(["-m", "venv", "--clear"])
        .arg(&home)
        .status();
    match made {
        Ok(status) if status.success() => {}
        Ok(_) => bail!(
            "`python3 -m venv` failed\n\nhint: the tests read the cache back with pyarrow; on Debian and Ubuntu: apt install python3-venv"
        ),
        Err(error) => bail!(
            "cannot start python3: {error}\n\nhint: the tests read the cache back with pyarrow, so they need Python 3.10 or newer"
        ),
    }
    let installed = Command::new(&python)
        .args([
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "--requirement",
        ])
        .arg(&requirements)
        .status()
        .context("cannot start pip")?;
    ensure!(
        installed.success(),
        "pip could not install {}",
        requirements.display()
    );
    std::fs::write(stamp, wanted)?;
    Ok(python)
}

fn target_dir(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from)
}

#[expect(
    clippy::print_stderr,
    reason = "a chore talks to the person who runs it"
)]
fn eprintln_line(line: &str) {
    eprintln!("xtask: {line}");
}
