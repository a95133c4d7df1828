//! A disk that is full for a while: a small one in memory, filled with ballast.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::ensure;

use super::{Ended, Round};
use crate::torture::checks;
use crate::torture::program::Verb;

const MEGABYTES: u64 = 96;

/// A mounted folder; unmounted when dropped.
#[derive(Debug)]
struct SmallDisk {
    path: PathBuf,
}

impl SmallDisk {
    /// Why it cannot be had, otherwise.
    fn mount(path: PathBuf) -> anyhow::Result<Result<SmallDisk, String>> {
        fs::create_dir_all(&path)?;
        let size = format!("size={MEGABYTES}m");
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &size, "tmpfs"])
            .arg(&path)
            .output();
        Ok(match mounted {
            Ok(output) if output.status.success() => Ok(SmallDisk { path }),
            Ok(output) => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
            Err(error) => Err(format!("cannot start `mount`: {error}")),
        })
    }

    fn ballast(&self) -> PathBuf {
        self.path.join("ballast")
    }

    /// Writes until there is no room for another byte.
    fn fill(&self) -> anyhow::Result<()> {
        let mut file = File::create(self.ballast())?;
        for size in [1 << 20, 1 << 12, 1] {
            while file.write_all(&vec![1; size]).is_ok() {}
        }
        Ok(())
    }

    fn free(&self) -> anyhow::Result<()> {
        Ok(fs::remove_file(self.ballast())?)
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.path).output();
    }
}

impl Round<'_> {
    pub(super) fn full_disk(&mut self) -> anyhow::Result<Ended> {
        let disk = match SmallDisk::mount(self.folder.join("disk"))? {
            Ok(disk) => disk,
            Err(why) => {
                return Ok(Ended::Skipped(format!(
                    "no small disk can be mounted: {why}"
                )));
            }
        };
        match self.draws.chance(3) {
            true => self.full_for_prepare(&disk)?,
            false => self.full_for_checkpoints(&disk)?,
        }
        Ok(Ended::Well)
    }

    /// A run that cannot save for a while continues, and saves when it can. Its log is on another disk.
    fn full_for_checkpoints(&mut self, disk: &SmallDisk) -> anyhow::Result<()> {
        let saved = disk.path.join("checkpoints");
        let verb = Verb::train(self.folder).with_path("--checkpoint-dir", &saved);
        let mut running = self.program.start(&verb)?;
        let pause = self.draws.within(Duration::from_millis(700));
        if running.runs_until(|_| saved.join("step-000000003").exists())? {
            disk.fill()?;
            self.counts.others += 1;
            std::thread::sleep(pause);
            disk.free()?;
        }
        running.expect(0)?;
        // Where the checks look for checkpoints.
        fs::create_dir_all(self.run().join("checkpoints"))?;
        for entry in fs::read_dir(&saved)? {
            let entry = entry?;
            let copied = self.run().join("checkpoints").join(entry.file_name());
            if entry.path().is_dir() {
                fs::create_dir_all(copied)?;
            }
        }
        self.undisturbed.check_run(&self.run())
    }

    /// `prepare` says that there is no room, and does the rest when there is.
    fn full_for_prepare(&mut self, disk: &SmallDisk) -> anyhow::Result<()> {
        let cache = disk.path.join("cache");
        let verb = Verb::prepare(self.folder).with_path("--cache-dir", &cache);
        let mut running = self.program.start(&verb)?;
        let moment = self.draws.within(self.undisturbed.prepare_took);
        if running.runs_after(moment)? {
            disk.fill()?;
            self.counts.others += 1;
            let status = running.wait()?;
            ensure!(
                matches!(status.code(), Some(0 | 1)),
                "ended with {status} on a full disk"
            );
            disk.free()?;
        }
        self.program.start(&verb)?.expect(0)?;
        // Where the checks look for the cache.
        let usual = checks::cache(self.folder);
        copy_files(&features(&cache)?, &usual)?;
        self.undisturbed.check_cache(self.program, self.folder)
    }
}

/// Below `--cache-dir` there may be a folder for each dataset.
fn features(cache: &Path) -> anyhow::Result<PathBuf> {
    let mut folders = vec![cache.to_owned()];
    while let Some(folder) = folders.pop() {
        if folder.ends_with("features") {
            return Ok(folder);
        }
        for entry in fs::read_dir(&folder)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            }
        }
    }
    anyhow::bail!("there is no cache below {}", cache.display())
}

fn copy_files(from: &Path, to: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        fs::copy(entry.path(), to.join(entry.file_name()))?;
    }
    Ok(())
}
