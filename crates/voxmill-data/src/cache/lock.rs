//! One writer at a time: an advisory lock that dies with its process, however that dies.

use std::fs::{File, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use rustix::fs::OFlags;

/// Held until dropped. The file stays: removing it would let two processes lock two files of one name.
#[derive(Debug)]
pub struct WriteLock {
    file: File,
}

/// The process that holds the lock, if it is known.
pub type Holder = Option<u32>;

impl WriteLock {
    /// Takes the lock that a file stands for, and makes the file where there is none; or says who has it. A link in its
    /// place is refused: what it leads to would be overwritten.
    pub fn attempt(path: &Path) -> io::Result<Result<WriteLock, Holder>> {
        let mut file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .custom_flags(OFlags::NOFOLLOW.bits() as i32)
            .open(path)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(Err(holder(&mut file))),
            Err(TryLockError::Error(error)) => return Err(error),
        }
        // The process id is a courtesy to those who wait; the lock holds without it, so a full disk
        // does not keep it from being taken.
        let _ = write_process_id(&mut file);
        Ok(Ok(WriteLock { file }))
    }
}

impl Drop for WriteLock {
    /// Closing the file alone is not enough: a child that was forked at this moment and has not yet
    /// called exec shares the lock, and would hold it a little longer.
    fn drop(&mut self) {
        // Nothing is lost if it fails: the closing that follows unlocks as well.
        let _ = self.file.unlock();
    }
}

fn write_process_id(file: &mut File) -> io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    writeln!(file, "{}", std::process::id())
}

fn holder(file: &mut File) -> Holder {
    let mut text = String::new();
    file.take(32).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_link_leads_to_is_not_touched() {
        let dir = tempfile::tempdir().unwrap();
        let [precious, lock] = ["precious", "lock"].map(|name| dir.path().join(name));
        std::fs::write(&precious, "all of it").unwrap();
        std::os::unix::fs::symlink(&precious, &lock).unwrap();
        assert!(WriteLock::attempt(&lock).is_err());
        assert_eq!(std::fs::read_to_string(&precious).unwrap(), "all of it");
    }

    #[test]
    fn the_second_learns_who_is_first_and_gets_it_afterwards() {
        let dir = tempfile::tempdir().unwrap();
        let attempt = || WriteLock::attempt(&dir.path().join("lock")).unwrap();
        let first = attempt();
        assert!(first.is_ok());
        assert_eq!(attempt().unwrap_err(), Some(std::process::id()));
        drop(first);
        assert!(attempt().is_ok());
    }
}
