//! Event files that TensorBoard opens: curves, pictures, sounds and texts of a run.
//!
//! One writer makes one file. A run that is continued makes another in the same folder; TensorBoard reads the
//! files of a folder in the order of their names, which begin with the time, and so the steps continue. What the
//! earlier file holds of steps at and after the first of the new one is dropped by TensorBoard: those steps are
//! trained again.

mod protobuf;
mod record;

use std::fs::{self, File};
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};

use voxmill_untrusted::shown;

use protobuf::Message;

/// Why curves are not written.
#[derive(Debug, thiserror::Error)]
pub enum EventFileError {
    #[error("cannot make a TensorBoard event file in {}", folder.display())]
    Create {
        folder: PathBuf,
        #[source]
        cause: io::Error,
    },
    #[error("cannot write the TensorBoard event file {}", path.display())]
    Write {
        path: PathBuf,
        #[source]
        cause: io::Error,
    },
    #[error("the picture {tag} is no PNG")]
    NoPng { tag: String },
}

/// What distinguishes a start of a run from others in the same folder.
#[derive(Debug, Clone, Copy)]
pub struct RunStart<'a> {
    /// Seconds since 1970.
    pub wall_seconds: f64,
    /// The machine's name; it only appears in the file's name.
    pub host: &'a str,
    pub process_id: u32,
    /// The first step in this file: 0, or the one after the checkpoint that the run continues.
    pub first_step: u64,
}

/// When something happened, on the clock and in the run.
#[derive(Debug, Clone, Copy)]
pub struct Moment {
    /// Seconds since 1970.
    pub wall_seconds: f64,
    pub step: u64,
}

/// A wav file of one channel, in memory.
#[derive(Debug, Clone, Copy)]
pub struct WavFile<'a> {
    pub wav: &'a [u8],
    pub sample_rate_hz: u32,
    pub samples: u64,
}

/// Writes are buffered: call [`flush`](EventWriter::flush) after each group of values, or TensorBoard sees them late.
#[derive(Debug)]
pub struct EventWriter {
    path: PathBuf,
    file: BufWriter<File>,
}

impl EventWriter {
    /// Makes the folder and a new file in it.
    pub fn create(folder: &Path, start: RunStart<'_>) -> Result<Self, EventFileError> {
        let (path, file) = new_file(folder, &start).map_err(|cause| EventFileError::Create {
            folder: folder.to_owned(),
            cause,
        })?;
        let mut writer = EventWriter {
            path,
            file: BufWriter::new(file),
        };
        writer.record(&protobuf::version_event(start.wall_seconds))?;
        writer.record(&protobuf::start_event(Moment {
            wall_seconds: start.wall_seconds,
            step: start.first_step,
        }))?;
        writer.flush()?;
        Ok(writer)
    }

    /// The file that is written.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Curves, one for each tag; `loss/total` and `loss/mel` are shown in a group `loss`.
    pub fn scalars(&mut self, at: Moment, values: &[(&str, f32)]) -> Result<(), EventFileError> {
        let values = values
            .iter()
            .map(|(tag, value)| protobuf::scalar(tag, *value));
        self.record(&protobuf::summary_event(at, values))
    }

    /// A picture; what is no PNG is refused.
    pub fn picture(&mut self, at: Moment, tag: &str, png: &[u8]) -> Result<(), EventFileError> {
        let Some((width, height)) = png_size(png) else {
            let tag = tag.to_owned();
            return Err(EventFileError::NoPng { tag });
        };
        let value = protobuf::picture(&shown::line(tag), png, width, height);
        self.record(&protobuf::summary_event(at, [value]))
    }

    /// A sound to play.
    pub fn sound(
        &mut self,
        at: Moment,
        tag: &str,
        sound: WavFile<'_>,
    ) -> Result<(), EventFileError> {
        let value = protobuf::sound(&shown::line(tag), sound);
        self.record(&protobuf::summary_event(at, [value]))
    }

    /// Markdown.
    pub fn text(&mut self, at: Moment, tag: &str, text: &str) -> Result<(), EventFileError> {
        let value = protobuf::text(&shown::line(tag), &shown::lines(text));
        self.record(&protobuf::summary_event(at, [value]))
    }

    /// The settings of the run, by name, for the page that compares runs.
    pub fn settings(
        &mut self,
        at: Moment,
        settings: &[(&str, &str)],
    ) -> Result<(), EventFileError> {
        let value = protobuf::settings(at.wall_seconds, settings);
        self.record(&protobuf::summary_event(at, [value]))
    }

    /// Hands all of it to the system.
    pub fn flush(&mut self) -> Result<(), EventFileError> {
        self.file.flush().map_err(|cause| self.write_error(cause))
    }

    fn record(&mut self, event: &Message) -> Result<(), EventFileError> {
        record::write(&mut self.file, event.as_bytes()).map_err(|cause| self.write_error(cause))
    }

    fn write_error(&self, cause: io::Error) -> EventFileError {
        EventFileError::Write {
            path: self.path.clone(),
            cause,
        }
    }
}

/// A name that nothing has yet: two starts within a second differ in their last number.
fn new_file(folder: &Path, start: &RunStart<'_>) -> io::Result<(PathBuf, File)> {
    fs::create_dir_all(folder)?;
    let host: String = start
        .host
        .chars()
        .filter(|c| c.is_ascii_alphanumeric() || *c == '-')
        .collect();
    let mut number = 0;
    loop {
        let path = folder.join(format!(
            "events.out.tfevents.{:010}.{number}.{host}.{}",
            start.wall_seconds as u64, start.process_id,
        ));
        match File::create_new(&path) {
            Err(cause) if cause.kind() == io::ErrorKind::AlreadyExists => number += 1,
            made => return made.map(|file| (path, file)),
        }
    }
}

fn png_size(png: &[u8]) -> Option<(u32, u32)> {
    let reader = png::Decoder::new(io::Cursor::new(png)).read_info().ok()?;
    Some(reader.info().size())
}

#[cfg(test)]
mod tests;
