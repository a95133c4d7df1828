//! Where a trace is written: checked when the run begins, so that whatever cannot be written is
//! known before the work is done, and nothing but an older trace is replaced.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::TraceError;
use super::chrome::HEAD;
use crate::log::is_locked;

/// Links that lead to links; the system gives up after as many.
const MOST_LINKS: usize = 40;

/// An open file that a trace goes to.
#[derive(Debug)]
pub(super) struct TraceFile {
    pub(super) file: File,
    /// `None` for a device or a pipe, which is written into as it is.
    rename: Option<Rename>,
}

/// The file is written next to its place, so that there is never half a trace under that name.
#[derive(Debug)]
struct Rename {
    partial: PathBuf,
    to: PathBuf,
}

impl TraceFile {
    /// Opening a named pipe waits for its reader, as it does in every program.
    pub(super) fn open(path: &Path) -> Result<TraceFile, TraceError> {
        let failed = |source| TraceError::Create {
            path: path.to_owned(),
            source,
        };
        match fs::metadata(path) {
            Ok(found) if found.is_dir() => Err(TraceError::IsAFolder {
                path: path.to_owned(),
            }),
            Ok(found) if !found.is_file() => {
                let file = OpenOptions::new().write(true).open(path).map_err(failed)?;
                Ok(TraceFile { file, rename: None })
            }
            // One that may not be written may not be replaced either.
            Ok(_) => {
                OpenOptions::new().write(true).open(path).map_err(failed)?;
                TraceFile::next_to(path.canonicalize().map_err(failed)?)
            }
            Err(_) => TraceFile::next_to(resolve_links(path).map_err(failed)?),
        }
    }

    fn next_to(to: PathBuf) -> Result<TraceFile, TraceError> {
        let partial = partial_of(&to);
        let opened = remove_stale(&partial).and_then(|()| File::create_new(&partial));
        let file = opened.map_err(|source| TraceError::Create {
            path: partial.clone(),
            source,
        })?;
        // Nobody can hold it before us; others now see that it is not stale.
        is_locked(&file);
        let rename = Some(Rename { partial, to });
        Ok(TraceFile { file, rename })
    }

    /// Everything is written: gives the trace its name.
    pub(super) fn done(mut self) -> io::Result<()> {
        match self.file.sync_data() {
            // Pipes and the like cannot be synced, and need not.
            Err(cause) if cause.kind() != io::ErrorKind::InvalidInput => return Err(cause),
            _ => {}
        }
        if let Some(Rename { partial, to }) = &self.rename {
            fs::rename(partial, to)?;
        }
        self.rename = None;
        Ok(())
    }
}

impl Drop for TraceFile {
    fn drop(&mut self) {
        if let Some(Rename { partial, .. }) = &self.rename {
            // Half a trace is of no use, and the disk may be full.
            let _ = fs::remove_file(partial);
        }
    }
}

pub(crate) fn partial_of(path: &Path) -> PathBuf {
    let mut partial = path.as_os_str().to_owned();
    partial.push(".partial");
    PathBuf::from(partial)
}

/// What a killed run left behind is in the way. A file of that name that is not ours is not, and
/// one that is still being written is not stale.
fn remove_stale(partial: &Path) -> io::Result<()> {
    match fs::symlink_metadata(partial) {
        Ok(found) if found.is_file() => {}
        // `create_new` reports what is wrong with anything else.
        _ => return Ok(()),
    }
    let mut head = Vec::new();
    let file = File::open(partial)?;
    (&file).take(HEAD.len() as u64).read_to_end(&mut head)?;
    if HEAD.starts_with(&head) && !is_locked(&file) {
        fs::remove_file(partial)?;
    }
    Ok(())
}

/// The path that a link leads to, even where nothing is there yet.
pub(crate) fn resolve_links(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..MOST_LINKS {
        let Ok(link) = fs::read_link(&path) else {
            return Ok(path);
        };
        path = path.parent().unwrap_or(Path::new("")).join(link);
    }
    Err(io::Error::other("too many links"))
}

/// The one path of a file that may not be there yet, however it was spelt.
pub(crate) fn canonical_path(path: &Path) -> PathBuf {
    if let Ok(whole) = path.canonicalize() {
        return whole;
    }
    let path = resolve_links(path).unwrap_or_else(|_| path.to_owned());
    let folder = match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    match (folder.canonicalize(), path.file_name()) {
        (Ok(folder), Some(name)) => folder.join(name),
        _ => path,
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn trace_path() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace.json");
        (folder, path)
    }

    fn written(path: &Path) {
        let mut target = TraceFile::open(path).unwrap();
        target.file.write_all(b"trace").unwrap();
        target.done().unwrap();
    }

    #[test]
    fn an_older_trace_is_replaced_only_when_the_new_one_is_whole() {
        let (_folder, path) = trace_path();
        fs::write(&path, "older").unwrap();
        drop(TraceFile::open(&path).unwrap());
        assert_eq!(fs::read_to_string(&path).unwrap(), "older");
        assert!(!partial_of(&path).exists());
        written(&path);
        assert_eq!(fs::read_to_string(&path).unwrap(), "trace");
        assert!(!partial_of(&path).exists());
    }

    #[test]
    fn a_folder_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let refused = TraceFile::open(folder.path()).unwrap_err();
        assert!(matches!(refused, TraceError::IsAFolder { .. }), "{refused}");
    }

    #[test]
    fn only_a_stale_file_of_ours_is_removed() {
        let (_folder, path) = trace_path();
        for stale in [&b""[..], &HEAD[..10], HEAD] {
            fs::write(partial_of(&path), stale).unwrap();
            written(&path);
        }
        fs::write(partial_of(&path), "somebody's own").unwrap();
        assert!(TraceFile::open(&path).is_err());
        let kept = fs::read_to_string(partial_of(&path)).unwrap();
        assert_eq!(kept, "somebody's own");
    }

    #[test]
    #[cfg(unix)]
    fn two_runs_cannot_write_the_same_trace() {
        let (_folder, path) = trace_path();
        let first = TraceFile::open(&path).unwrap();
        assert!(TraceFile::open(&path).is_err());
        first.done().unwrap();
        assert!(path.exists());
    }

    #[test]
    #[cfg(unix)]
    fn a_link_stays_and_what_it_leads_to_is_replaced() {
        use std::os::unix::fs::symlink;
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir(at("far")).unwrap();
        symlink("far/trace.json", at("near.json")).unwrap();
        symlink("near.json", at("nearest.json")).unwrap();
        // First nothing is there, then an older trace.
        for _ in 0..2 {
            written(&at("nearest.json"));
            assert!(at("near.json").is_symlink() && at("nearest.json").is_symlink());
            assert_eq!(fs::read(at("far/trace.json")).unwrap(), b"trace");
            fs::write(at("far/trace.json"), "older").unwrap();
        }
        symlink("round.json", at("round.json")).unwrap();
        assert!(TraceFile::open(&at("round.json")).is_err());
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn devices_and_pipes_are_written_into_and_not_replaced() {
        use std::os::unix::fs::FileTypeExt;
        written(Path::new("/dev/null"));
        let kind = fs::metadata("/dev/null").unwrap().file_type();
        assert!(kind.is_char_device());

        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&path).status();
        assert!(made.unwrap().success());
        let from = path.clone();
        let reader = std::thread::spawn(move || fs::read_to_string(from).unwrap());
        written(&path);
        assert_eq!(reader.join().unwrap(), "trace");
        assert!(fs::metadata(&path).unwrap().file_type().is_fifo());
        assert!(!partial_of(&path).exists());
    }

    #[test]
    #[cfg(unix)]
    fn a_file_has_one_path_whatever_it_is_called() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir(at("a")).unwrap();
        std::os::unix::fs::symlink("a", at("b")).unwrap();
        assert_eq!(
            canonical_path(&at("a/new")),
            canonical_path(&at("b/../a/./new"))
        );
        assert_ne!(canonical_path(&at("a/new")), canonical_path(&at("new")));
        fs::write(at("a/new"), "").unwrap();
        assert_eq!(canonical_path(&at("a/new")), canonical_path(&at("b/new")));
    }
}
