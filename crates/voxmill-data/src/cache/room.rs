//! Bytes on disk: how many a clip will take, and how many are left.

use std::io;
use std::path::Path;

/// What a row takes besides text, tokens and mel: the fixed columns and their padding.
const ROW_BYTES: u64 = 192;

/// What a file takes besides its rows: schema (twice, with settings), padding, footer.
pub(super) const FILE_BYTES: u64 = 16 << 10;

/// Size on disk of a clip, from its shape: for estimates before there are features.
pub fn clip_bytes(frames: u64, mel_channels: u64, tokens: u64, text_bytes: u64) -> u64 {
    frames * mel_channels * 4 + tokens * 2 + text_bytes + ROW_BYTES
}

/// What a clip takes in the index, rounded up.
pub(super) fn index_row_bytes(id: &str) -> u64 {
    160 + id.len() as u64
}

/// Bytes that an unprivileged process can still write where `dir` is or will be.
pub fn free_space(dir: &Path) -> io::Result<u64> {
    let mut at = dir;
    loop {
        let here = if at.as_os_str().is_empty() {
            Path::new(".")
        } else {
            at
        };
        match rustix::fs::statvfs(here) {
            Ok(stat) => return Ok(stat.f_bavail.saturating_mul(stat.f_frsize)),
            Err(rustix::io::Errno::NOENT) => match at.parent() {
                Some(parent) => at = parent,
                None => return Err(rustix::io::Errno::NOENT.into()),
            },
            Err(error) => return Err(error.into()),
        }
    }
}

/// Whether this process may write where `dir` is or will be, as far as is known without writing.
pub fn may_write(dir: &Path) -> bool {
    let whole = std::path::absolute(dir).unwrap_or_else(|_| dir.to_owned());
    let existing = whole.ancestors().find(|path| path.exists());
    existing.is_some_and(|path| {
        path.is_dir() && rustix::fs::access(path, rustix::fs::Access::WRITE_OK).is_ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_space_is_that_of_the_nearest_folder_that_exists() {
        let dir = tempfile::tempdir().unwrap();
        assert!(free_space(dir.path()).unwrap() > 0);
        assert!(free_space(&dir.path().join("not/yet/there")).unwrap() > 0);
        assert!(may_write(&dir.path().join("not/yet/there")));
        assert!(!may_write(Path::new("/dev/null/below")));
        assert!(free_space(Path::new("not-yet-there")).unwrap() > 0);
    }
}
