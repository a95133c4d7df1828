//! Why a clip's audio could not be used.

use std::io;

/// Bad audio is data: each variant becomes a quarantine entry, never a crash.
#[derive(Debug, thiserror::Error)]
pub enum AudioError {
    #[error("cannot read the file")]
    Io(#[from] io::Error),
    #[error("not a regular file")]
    NotAFile,
    #[error("neither wav, flac, ogg vorbis nor mp3")]
    UnknownFormat,
    #[error("unsupported: {0}")]
    Unsupported(&'static str),
    #[error("bad header: {0}")]
    BadHeader(&'static str),
    /// Counted in samples per channel.
    #[error("truncated: the header promises {expected} samples, the file holds {got}")]
    Truncated { expected: u64, got: u64 },
    #[error("truncated: the stream has no last page")]
    NoLastPage,
    #[error("no samples")]
    Empty,
    #[error("every sample is zero")]
    Silent,
    #[error("too long: {seconds:.1} s, at most {limit_seconds:.0} s")]
    TooLong { seconds: f64, limit_seconds: f32 },
    #[error("samples are not numbers or infinite")]
    NotFinite,
    #[error("samples reach {peak}, far beyond full scale (1.0)")]
    BeyondFullScale { peak: f32 },
    #[error("undecodable")]
    Undecodable(#[source] symphonia::core::errors::Error),
    /// A bug of the decoder, contained so that one clip cannot end a run.
    #[error("the decoder panicked")]
    DecoderPanicked,
    #[error("cannot {step}")]
    Processing {
        step: &'static str,
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl AudioError {
    /// A short, stable name of the reason, for tables.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Io(error) if error.kind() == io::ErrorKind::NotFound => "missing audio",
            Self::Io(_) => "unreadable audio",
            Self::NotAFile => "not a file",
            Self::UnknownFormat => "unknown audio format",
            Self::Unsupported(_) => "unsupported audio format",
            Self::BadHeader(_) => "bad audio header",
            Self::Truncated { .. } | Self::NoLastPage => "truncated audio",
            Self::Empty => "empty audio",
            Self::Silent => "silent audio",
            Self::TooLong { .. } => "audio too long",
            Self::NotFinite => "samples not finite",
            Self::BeyondFullScale { .. } => "beyond full scale",
            Self::Undecodable(_) => "undecodable audio",
            Self::DecoderPanicked => "decoder panicked",
            Self::Processing { .. } => "processing failed",
        }
    }
}
