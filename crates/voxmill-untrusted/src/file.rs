//! Opens and reads files that may be anything: endless, silent for ever, or far too large.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;

/// Opens a regular file, or what the shell hands over (`<(command)`, `/dev/stdin`). Any other pipe could
/// keep the program waiting for a writer, and a device may never end.
pub fn open(path: &Path) -> io::Result<File> {
    let kind = fs::metadata(path)?.file_type();
    if kind.is_file() || (kind.is_fifo() && is_handed_over(path)) {
        return File::open(path);
    }
    if kind.is_dir() {
        return Err(io::Error::from(io::ErrorKind::IsADirectory));
    }
    Err(io::Error::other("it is not a regular file"))
}

/// Descriptors that are open already: their other end is there.
fn is_handed_over(path: &Path) -> bool {
    let folders = ["/dev/fd", "/proc/self/fd"];
    path == Path::new("/dev/stdin") || folders.iter().any(|folder| path.starts_with(folder))
}

/// The same of a file of at most `most` bytes; what the shell hands over has no size.
pub fn open_at_most(path: &Path, most: u64) -> io::Result<File> {
    let file = open(path)?;
    let found = file.metadata()?;
    match found.is_file() && found.len() > most {
        true => Err(TooLarge::of(Some(found.len()), most)),
        false => Ok(file),
    }
}

/// The text of a file of at most `most` bytes.
pub fn read_text(path: &Path, most: u64) -> io::Result<String> {
    read_text_from(open_at_most(path, most)?, most)
}

/// The same of what is open already. A file may grow while it is read, and a pipe has no size.
pub fn read_text_from(input: impl Read, most: u64) -> io::Result<String> {
    let mut bytes = Vec::new();
    input.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return Err(TooLarge::of(None, most));
    }
    let invalid = |error: std::string::FromUtf8Error| {
        let at = error.utf8_error().valid_up_to() + 1;
        let why = format!("byte {at} is not UTF-8");
        io::Error::new(io::ErrorKind::InvalidData, why)
    };
    String::from_utf8(bytes).map_err(invalid)
}

#[derive(Debug)]
struct TooLarge {
    /// `None`: nobody knows, but more than `most`.
    bytes: Option<u64>,
    most: u64,
}

impl TooLarge {
    fn of(bytes: Option<u64>, most: u64) -> io::Error {
        io::Error::new(io::ErrorKind::FileTooLarge, TooLarge { bytes, most })
    }
}

impl fmt::Display for TooLarge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.bytes {
            Some(bytes) => write!(f, "it has {bytes} bytes")?,
            None => write!(f, "it has more bytes than that")?,
        }
        write!(f, ", and at most {} are read", self.most)
    }
}

impl std::error::Error for TooLarge {}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(read: io::Result<String>) -> String {
        read.unwrap_err().to_string()
    }

    #[test]
    fn a_file_is_read_up_to_its_limit_and_no_further() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("text");
        fs::write(&path, "0123456789").unwrap();
        assert_eq!(read_text(&path, 10).unwrap(), "0123456789");
        assert_eq!(
            refusal(read_text(&path, 9)),
            "it has 10 bytes, and at most 9 are read"
        );
        assert_eq!(
            refusal(read_text_from(io::repeat(b'a'), 9)),
            "it has more bytes than that, and at most 9 are read"
        );
        fs::write(&path, b"ab\xffc").unwrap();
        assert_eq!(refusal(read_text(&path, 10)), "byte 3 is not UTF-8");
    }

    /// Without the look before it, opening the pipe would wait for ever.
    #[test]
    fn what_may_never_end_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.unwrap().success());
        for path in [pipe.as_path(), Path::new("/dev/zero")] {
            assert_eq!(refusal(read_text(path, 10)), "it is not a regular file");
        }
        let kind = open(folder.path()).unwrap_err().kind();
        assert_eq!(kind, io::ErrorKind::IsADirectory);
    }

    #[test]
    fn what_the_shell_hands_over_is_read() {
        use std::os::fd::AsRawFd as _;
        let (reader, mut writer) = io::pipe().unwrap();
        io::Write::write_all(&mut writer, b"data:\n").unwrap();
        drop(writer);
        let path = format!("/dev/fd/{}", reader.as_raw_fd());
        assert_eq!(read_text(Path::new(&path), 10).unwrap(), "data:\n");
    }
}
