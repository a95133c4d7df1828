//! The record of a run: date, host, command, raw numbers. Kept in the repository.

use std::path::{Path, PathBuf};
use std::process::Command;

use xtask::tell;

use crate::output_of;

pub(super) struct Record {
    file: PathBuf,
    text: String,
}

impl Record {
    pub(super) fn begin(root: &Path) -> anyhow::Result<Record> {
        let file = root.join("benches/records/data-side.md");
        let said = |program: &str, args: &[&str]| {
            let mut command = Command::new(program);
            let said = output_of(command.args(args).current_dir(root))?;
            anyhow::Ok(String::from_utf8_lossy(&said).trim().to_owned())
        };
        let date = said("date", &["-u", "+%Y-%m-%d %H:%M UTC"])?;
        let commit = said("git", &["describe", "--always", "--dirty"])?;
        let compiler = said("rustc", &["--version"])?;
        let text = format!(
            "# The data side\n\n\
            Written by `cargo bench-record --data DIR` (an alias for `cargo run --release --package tools -- bench`), where DIR holds\n\
            32 clips and the 13,100 transcripts of LJ Speech. Numbers stand in the order they were taken.\n\n\
            - date: {date}\n- commit: {commit}\n- host: {}\n- compiler: {compiler}\n",
            host()?
        );
        Ok(Record { file, text })
    }

    pub(super) fn section(&mut self, title: &str, what: &str) {
        self.text.push_str(&format!("\n## {title}\n\n{what}\n\n"));
    }

    pub(super) fn line(&mut self, line: &str) {
        tell(line);
        self.text.push_str(&format!("- {line}\n"));
    }

    pub(super) fn rounds(&mut self, what: &str, values: &[f64], decimals: usize) {
        let values = values.iter().map(|value| format!("{value:.decimals$}"));
        let values: Vec<_> = values.collect();
        self.line(&format!("{what}: {}", values.join(", ")));
    }

    pub(super) fn target(&mut self, target: &str, met: bool) {
        let met = if met { "met" } else { "NOT met" };
        self.line(&format!("target {target}: {met}"));
    }

    /// `a` over `b`, round by round; the target is held against their median, since a shared host
    /// slows now one side and now the other.
    pub(super) fn ratio(&mut self, a: &[f64], b: &[f64], target: &str, least: f64) {
        let mut ratios: Vec<f64> = a.iter().zip(b).map(|(a, b)| a / b).collect();
        self.rounds("ratio, round by round", &ratios, 2);
        ratios.sort_by(f64::total_cmp);
        let median = ratios[ratios.len() / 2];
        self.line(&format!("median ratio: {median:.2} ×"));
        self.target(target, median >= least);
    }

    pub(super) fn write(self) -> anyhow::Result<()> {
        std::fs::write(&self.file, self.text)?;
        tell(&format!("recorded in {}", self.file.display()));
        Ok(())
    }
}

fn host() -> anyhow::Result<String> {
    let field = |file: &str, name: &str| -> anyhow::Result<String> {
        let text = std::fs::read_to_string(file)?;
        let mut lines = text.lines();
        let line = lines.find(|line| line.starts_with(name));
        let line = line.unwrap_or_default();
        Ok(line.split(':').nth(1).unwrap_or_default().trim().to_owned())
    };
    let cores = std::thread::available_parallelism()?;
    Ok(format!(
        "{}, {cores} cores, {} of memory",
        field("/proc/cpuinfo", "model name")?,
        field("/proc/meminfo", "MemTotal")?
    ))
}
