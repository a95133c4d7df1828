//! Files that are not as they were written.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};

use super::Round;
use crate::torture::checks;
use crate::torture::draws::Draws;
use crate::torture::program::Signal;

/// What a bad disk, a cut cable or a careless hand does.
fn damage(path: &Path, draws: &mut Draws) -> anyhow::Result<()> {
    let mut bytes = fs::read(path)?;
    let at = draws.below(bytes.len() as u64) as usize;
    match draws.below(5) {
        0 if !bytes.is_empty() => bytes[at] ^= 1 << draws.below(8),
        1 => bytes.truncate(at),
        2 => bytes.clear(),
        3 => bytes[at..].fill(0),
        _ => return Ok(fs::remove_file(path)?),
    }
    // A page of zeros may have been one before.
    let unchanged = bytes == fs::read(path)?;
    if let (true, Some(byte)) = (unchanged, bytes.last_mut()) {
        *byte ^= 1;
    }
    Ok(fs::write(path, bytes)?)
}

fn files(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_file() && path.extension().is_some() {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

impl Round<'_> {
    /// Found and repaired by whoever comes next.
    pub(super) fn damage_cache(&mut self) -> anyhow::Result<()> {
        self.finish_prepare("")?;
        for _ in 0..=self.draws.below(2) {
            let files = files(&checks::cache(self.folder))?;
            let file = self.draws.one(&Vec::from_iter(files.iter()));
            damage(file, self.draws)?;
            self.counts.others += 1;
        }
        if self.draws.chance(2) {
            self.finish_train()?;
        }
        self.finish_prepare("--verify")
    }

    /// A run of which some checkpoints are there and nobody works on it.
    fn begin_run(&mut self, least: usize) -> anyhow::Result<()> {
        let run = self.run();
        let moment = self.draws.within(self.train_span());
        let mut running = self.start_train()?;
        let enough = || checks::checkpoints(&run).is_ok_and(|found| found.len() >= least);
        if running.runs_until(|passed| enough() && passed >= moment)? {
            running.signal(Signal::Kill)?;
            running.wait()?;
            self.counts.killed += 1;
        }
        ensure!(enough(), "the run ended without {least} checkpoints");
        Ok(())
    }

    /// The one before is taken.
    pub(super) fn damage_checkpoint(&mut self) -> anyhow::Result<()> {
        self.begin_run(2)?;
        let found = checks::checkpoints(&self.run())?;
        let newest = found.last().context("there are two")?;
        let files = files(newest)?;
        let file = self.draws.one(&Vec::from_iter(files.iter()));
        damage(file, self.draws)?;
        self.counts.others += 1;
        self.finish_train()
    }

    /// Its end is cut off in a line, or what a power cut leaves stands there.
    pub(super) fn damage_log(&mut self) -> anyhow::Result<()> {
        self.begin_run(1)?;
        let log = checks::log(&self.run());
        let junk: &[u8] = self.draws.one(&[
            &br#"{"at":123,"event":"ste"#[..],
            &[0; 300],
            b"\n\n\xff\xfe{}\n",
            br#"{"at":1,"event":"step","step":99999999999999999999999}"#,
        ]);
        File::options().append(true).open(log)?.write_all(junk)?;
        self.counts.others += 1;
        self.finish_train()
    }
}
