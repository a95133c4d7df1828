//! The built-in demo corpus: synthetic speech that lets the program train with no dataset at hand.
//!
//! It is part of the program as one pack and is unpacked into an ordinary LJSpeech-style folder, so
//! that everything after it treats it like any other dataset. `data/demo/README.md` says where the
//! sentences and the audio come from; `cargo tools demo` makes it anew.

mod pack;

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

pub use pack::{Pack, PackError, write_pack};

/// Changes whenever the content of the corpus does.
pub const VERSION: u32 = 1;
/// Rows of `metadata_train.csv`: all voices, both languages.
pub const TRAIN_CLIPS: usize = 890;
/// Rows of `metadata_eval.csv`: main voice, sentences of no training clip, words all trained on.
pub const EVAL_CLIPS: usize = 24;
/// The voice with the most clips.
pub const MAIN_SPEAKER: &str = "rms";
/// What the pack may cost the program.
pub const MAX_PACK_BYTES: usize = 14_000_000;

/// The manifest of the clips to train on, in the corpus's folder.
pub const TRAIN_MANIFEST: &str = "metadata_train.csv";
/// The manifest of the clips that are held out.
pub const EVAL_MANIFEST: &str = "metadata_eval.csv";
/// Ten sentences with words that were never trained on; in neither manifest.
pub const UNSEEN_MANIFEST: &str = "unseen.csv";

/// Marks a folder as ours, and says whose content it holds.
const MARKER: &str = ".voxmill-demo";

static PACK: &[u8] = include_bytes!("../../data/demo/demo.pack");

/// An unpacked corpus: an LJSpeech-style folder that is complete and unharmed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DemoCorpus {
    pub dir: PathBuf,
    /// Files that had to be written; 0 when the folder was already as it should be.
    pub files_written: usize,
}

/// Why the corpus cannot be unpacked.
#[derive(Debug, thiserror::Error)]
pub enum DemoError {
    #[error("the demo corpus inside this program is damaged")]
    Pack(#[from] PackError),
    #[error(
        "{} is in use by something else: it is not empty and not a demo corpus; name another folder",
        .0.display()
    )]
    NotOurs(PathBuf),
    #[error("the demo corpus cannot be read back at {}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("the demo corpus cannot be written to {}", path.display())]
    Write { path: PathBuf, source: io::Error },
}

/// Makes `dir` the demo corpus. A folder that already is one is compared with the pack and reused
/// without a single write, so a read-only place will do; missing or damaged files are written
/// again. A new folder appears at once, complete. Several processes may do this at the same time.
pub fn unpack(dir: &Path) -> Result<DemoCorpus, DemoError> {
    unpack_from(PACK, dir)
}

fn unpack_from(bytes: &[u8], dir: &Path) -> Result<DemoCorpus, DemoError> {
    let pack = Pack::read(bytes)?;
    let marker = marker(&pack);
    let done = |files_written| DemoCorpus {
        dir: dir.to_owned(),
        files_written,
    };
    if is_complete(&pack, &marker, dir)? {
        return Ok(done(0));
    }
    let new = is_absent_or_empty(dir)?;
    if !new && !dir.join(MARKER).is_file() {
        return Err(DemoError::NotOurs(dir.to_owned()));
    }
    pack.check()?;
    let _lock = lock_next_to(dir)?;
    // Another process may have finished the work while this one waited for the lock.
    if is_complete(&pack, &marker, dir)? {
        return Ok(done(0));
    }
    if is_absent_or_empty(dir)? {
        let unfinished = sibling(dir, "unfinished");
        match fs::remove_dir_all(&unfinished) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => {
                return Err(write_error(&unfinished, e));
            }
            _ => {}
        }
        let written = write_missing(&pack, &marker, &unfinished)?;
        fs::rename(&unfinished, dir).map_err(|e| write_error(dir, e))?;
        Ok(done(written))
    } else {
        // In place, file by file: a cache that lives in the folder stays.
        Ok(done(write_missing(&pack, &marker, dir)?))
    }
}

fn marker(pack: &Pack<'_>) -> String {
    let hash = pack
        .recorded_hash()
        .iter()
        .map(|byte| format!("{byte:02x}"));
    let hash = String::from_iter(hash);
    format!("voxmill demo corpus {VERSION} {hash}\n")
}

/// Compares every file with the pack, byte by byte: 13 MB of reading, some hundredths of a second
/// when the pages are warm, and no damage goes unseen.
fn is_complete(pack: &Pack<'_>, marker: &str, dir: &Path) -> Result<bool, DemoError> {
    let mut scratch = Vec::new();
    if !holds(&dir.join(MARKER), marker.as_bytes(), &mut scratch)? {
        return Ok(false);
    }
    let mut complete = true;
    pack.visit(|name, bytes| {
        complete = complete && holds(&dir.join(name), bytes, &mut scratch)?;
        Ok::<(), DemoError>(())
    })?;
    Ok(complete)
}

/// Whether the file at `path` has exactly this content.
fn holds(path: &Path, content: &[u8], scratch: &mut Vec<u8>) -> Result<bool, DemoError> {
    use io::ErrorKind::{NotADirectory, NotFound};
    let length = content.len() as u64;
    // Asked before opening: a FIFO in the file's place would hang the open.
    match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_file() && metadata.len() == length => {}
        Ok(_) => return Ok(false),
        Err(e) if matches!(e.kind(), NotFound | NotADirectory) => return Ok(false),
        Err(e) => return Err(read_error(path, e)),
    }
    scratch.clear();
    let file = File::open(path).map(|file| file.take(length + 1));
    let read = file.and_then(|mut file| file.read_to_end(scratch));
    read.map_err(|e| read_error(path, e))?;
    Ok(scratch == content)
}

fn is_absent_or_empty(dir: &Path) -> Result<bool, DemoError> {
    match fs::read_dir(dir) {
        Ok(mut entries) => Ok(entries.next().is_none()),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(true),
        Err(e) if e.kind() == io::ErrorKind::NotADirectory => {
            Err(DemoError::NotOurs(dir.to_owned()))
        }
        Err(source) => Err(read_error(dir, source)),
    }
}

/// Writes every file that is not already as it should be, each under a temporary name first; the
/// marker comes last, so that a marker of this version never stands on a half-written folder.
fn write_missing(pack: &Pack<'_>, marker: &str, dir: &Path) -> Result<usize, DemoError> {
    let mut scratch = Vec::new();
    let mut written = 0;
    let mut write = |name: &str, content: &[u8]| {
        let path = dir.join(name);
        if !holds(&path, content, &mut scratch)? {
            write_file(&path, content).map_err(|e| write_error(&path, e))?;
            written += 1;
        }
        Ok::<(), DemoError>(())
    };
    pack.visit(&mut write)?;
    write(MARKER, marker.as_bytes())?;
    Ok(written)
}

/// The temporary name can be a fixed one because the lock is held; a killed run's is overwritten.
fn write_file(path: &Path, content: &[u8]) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let unfinished = path.with_extension("part");
    fs::write(&unfinished, content)?;
    fs::rename(&unfinished, path)
}

fn lock_next_to(dir: &Path) -> Result<File, DemoError> {
    let path = sibling(dir, "lock");
    let lock = || {
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        let file = File::create(&path)?;
        file.lock()?;
        Ok(file)
    };
    lock().map_err(|e| write_error(dir, e))
}

/// `…/demo` → `…/.demo.<what>`: on the same file system, so that a rename is atomic.
fn sibling(dir: &Path, what: &str) -> PathBuf {
    let name = dir.file_name().unwrap_or("demo".as_ref()).to_string_lossy();
    dir.with_file_name(format!(".{name}.{what}"))
}

fn read_error(path: &Path, source: io::Error) -> DemoError {
    let path = path.to_owned();
    DemoError::Read { path, source }
}

fn write_error(path: &Path, source: io::Error) -> DemoError {
    let path = path.to_owned();
    DemoError::Write { path, source }
}

#[cfg(test)]
mod tests;
