//! One process at a time writes into a run's folder, and one into a folder of checkpoints.

use std::io;
use std::path::Path;

use voxmill_data::cache::{Holder, WriteLock};

use crate::commands::note;
use voxmill_settings::error::UserError;

/// A folder that only this process writes into, for as long as it lives. Its end, however it comes, ends
/// the lock.
#[derive(Debug)]
pub(crate) struct FolderLock {
    /// `None` where the file system knows no locks.
    _lock: Option<WriteLock>,
}

impl FolderLock {
    pub(crate) fn of_run(folder: &Path) -> anyhow::Result<FolderLock> {
        Self::take(folder, "run.lock", |who| {
            let what = format!("{who} trains in `{}`", folder.display());
            let hint = "wait for its end or stop it (Ctrl-C saves a checkpoint), then try again; a new run can \
                        have another --run-dir";
            UserError::new(what, hint)
        })
    }

    pub(crate) fn of_checkpoints(folder: &Path) -> anyhow::Result<FolderLock> {
        Self::take(folder, "checkpoints.lock", |who| {
            let what = format!("{who} writes its checkpoints into `{}`", folder.display());
            let hint =
                "give each run a --checkpoint-dir of its own, or wait for the end of the other";
            UserError::new(what, hint)
        })
    }

    /// Not the same file for both: a run may have its checkpoints in its own folder.
    fn take(
        folder: &Path,
        name: &str,
        refused: impl FnOnce(String) -> UserError,
    ) -> anyhow::Result<FolderLock> {
        let lock = match WriteLock::attempt(&folder.join(name)) {
            Ok(Ok(lock)) => Some(lock),
            Ok(Err(holder)) => return Err(refused(who(holder)).into()),
            Err(error) if knows_no_locks(&error) => {
                note!(
                    "the file system of `{}` knows no locks: two runs in it at once would not notice",
                    folder.display()
                );
                None
            }
            Err(error) => {
                let what = format!("cannot lock `{}`", folder.display());
                let hint = "give a folder that can be written";
                return Err(UserError::new(what, hint).because(error).into());
            }
        };
        Ok(FolderLock { _lock: lock })
    }
}

fn who(holder: Holder) -> String {
    match holder {
        Some(process) => format!("another process ({process})"),
        None => "another process".to_owned(),
    }
}

fn knows_no_locks(error: &io::Error) -> bool {
    let none_left = error.raw_os_error() == Some(libc::ENOLCK);
    none_left || error.kind() == io::ErrorKind::Unsupported
}
