//! Parts of the check that run at low priority next to the others, as a process of their own.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use anyhow::{Context, ensure};
use xtask::{python, tell};

pub(super) struct Background {
    process: Child,
    parts: String,
    /// What it prints: two outputs in one terminal would be hard to read.
    output: PathBuf,
}

impl Background {
    /// Starts this program once more, for some parts.
    pub(super) fn start(root: &Path, parts: &[&str]) -> anyhow::Result<Background> {
        let folder = python::target_dir(root);
        std::fs::create_dir_all(&folder)?;
        let parts = parts.join(" ");
        let name = parts.replace("--", "").replace(' ', "-");
        let output = folder.join(format!("check-{name}.log"));
        let file = File::create(&output)?;
        tell(&format!(
            "in the background: {parts}; its output is in {}",
            output.display()
        ));
        let process = Command::new("nice")
            .args(["-n", "19"])
            .arg(std::env::current_exe()?)
            .arg("test")
            .args(parts.split(' '))
            .current_dir(root)
            .stderr(file.try_clone()?)
            .stdout(file)
            .spawn()
            .context("cannot start `nice`")?;
        Ok(Background {
            process,
            parts,
            output,
        })
    }

    /// Waits for its end, and shows all that it printed if it failed, else where its minutes went.
    pub(super) fn finish(mut self) -> anyhow::Result<()> {
        let status = self.process.wait()?;
        let printed = std::fs::read_to_string(&self.output)?;
        let by_itself = |line: &&str| !status.success() || line.starts_with("xtask:");
        for line in printed.lines().filter(by_itself) {
            tell(&format!("| {line}"));
        }
        ensure!(status.success(), "`cargo xtask test {}` failed", self.parts);
        Ok(())
    }
}
