//! Pythons of our own below the target folder, each with a pinned list of packages.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail, ensure};

use crate::tell;

/// Makes the environment `name` with the packages that the file `requirements` (relative to the root) lists, or takes the one that is
/// there as long as the list is the same.
pub fn environment(root: &Path, name: &str, requirements: &str) -> anyhow::Result<PathBuf> {
    let requirements = root.join(requirements);
    let wanted = std::fs::read_to_string(&requirements)?;
    let home = target_dir(root).join(name);
    let python = home.join("bin/python");
    let stamp = home.join("installed.txt");
    if python.exists() && std::fs::read_to_string(&stamp).is_ok_and(|installed| installed == wanted)
    {
        return Ok(python);
    }
    tell(&format!(
        "installing the Python packages of {}",
        requirements.display()
    ));
    match Command::new("python3")
        .args(["-m", "venv", "--clear"])
        .arg(&home)
        .status()
    {
        Ok(status) if status.success() => {}
        Ok(_) => bail!(
            "`python3 -m venv` failed\n\nhint: on Debian and Ubuntu: apt install python3-venv"
        ),
        Err(error) => bail!("cannot start python3: {error}\n\nhint: install Python 3.11 or newer"),
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

pub fn target_dir(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from)
}
