//! What is looked at outside of the settings: the host, its cards, folders, the disk's speed.

use std::cell::OnceCell;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::time::{Duration, Instant};

use voxmill_data::cache::{free_space, may_write};
use voxmill_data::manifest::Clip;
use voxmill_report::results::validate::FolderRoom;
use voxmill_telemetry::probes::Roots;
use voxmill_telemetry::probes::topology::{self, GpuFacts};

use voxmill_settings::AvailableDevices;
use voxmill_settings::checks::ReadSpeed;
use voxmill_telemetry::probes::Host;

/// The machine, looked at once for the file and its corrected copy.
#[derive(Debug)]
pub(super) struct ProbedMachine {
    pub(super) host: Host,
    pub(super) available: AvailableDevices,
    /// Whether a backend of this build can use them or not.
    pub(super) cards: Vec<GpuFacts>,
    reading: OnceCell<Option<ReadSpeed>>,
}

impl ProbedMachine {
    pub(super) fn detect() -> ProbedMachine {
        let roots = Roots::default();
        ProbedMachine {
            host: Host::detect(&roots),
            available: AvailableDevices::detect(),
            cards: topology::gpus(&roots),
            reading: OnceCell::new(),
        }
    }

    /// Measured once, whatever the clips are the second time.
    pub(super) fn reading(&self, clips: &[Clip]) -> Option<ReadSpeed> {
        *self.reading.get_or_init(|| read_some(clips))
    }
}

/// Enough to see a disk behind its first requests, little enough not to be noticed.
const MOST_FILES: usize = 64;
const MOST_BYTES: u64 = 128 << 20;
const MOST_TIME: Duration = Duration::from_millis(500);

/// Reads some files from beginning to end, spread over the dataset.
fn read_some(clips: &[Clip]) -> Option<ReadSpeed> {
    let step = clips.len().div_ceil(MOST_FILES).max(1);
    let mut buffer = vec![0; 1 << 20];
    let (mut files, mut bytes) = (0, 0);
    let begin = Instant::now();
    for clip in clips.iter().step_by(step) {
        if bytes >= MOST_BYTES || begin.elapsed() >= MOST_TIME {
            break;
        }
        let Ok(mut file) = File::open(clip.audio_path()) else {
            continue;
        };
        while let Ok(read @ 1..) = file.read(&mut buffer) {
            bytes += read as u64;
        }
        files += 1;
    }
    (bytes > 0).then(|| ReadSpeed {
        files,
        bytes,
        seconds: begin.elapsed().as_secs_f64(),
    })
}

/// The room where a folder is or will be.
pub(super) fn folder_room(folder: &Path, needed: u64) -> FolderRoom {
    FolderRoom {
        folder: folder.display().to_string(),
        needed_bytes: needed,
        free_bytes: free_space(folder).ok(),
        writable: may_write(folder),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_is_not_there_yet_has_the_room_of_the_one_around_it() {
        let dir = tempfile::tempdir().unwrap();
        let there = folder_room(&dir.path().join("not/yet"), 5);
        assert!(there.writable && there.free_bytes.is_some_and(|free| free > 0));
        assert_eq!(
            std::fs::read_dir(dir.path()).unwrap().count(),
            0,
            "nothing is left"
        );
        let file = dir.path().join("file");
        std::fs::write(&file, "").unwrap();
        assert!(!folder_room(&file.join("below"), 5).writable);
    }

    #[test]
    fn no_clips_give_no_speed() {
        assert_eq!(read_some(&[]), None);
    }
}
