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
            Self::Io(error) if error.kind() == io::ErrorKind::NotFound => "missing",
            Self::Io(_) => "unreadable",
            Self::NotAFile => "not_a_file",
            Self::UnknownFormat => "unknown_format",
            Self::Unsupported(_) => "unsupported",
            Self::BadHeader(_) => "bad_header",
            Self::Truncated { .. } | Self::NoLastPage => "truncated",
            Self::Empty => "empty",
            Self::TooLong { .. } => "too_long",
            Self::NotFinite => "not_finite",
            Self::BeyondFullScale { .. } => "beyond_full_scale",
            Self::Undecodable(_) => "undecodable",
            Self::DecoderPanicked => "decoder_panicked",
            Self::Processing { .. } => "processing_failed",
        }
    }
}
