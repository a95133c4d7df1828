/// The audio half of a clip's features.
#[derive(Clone, Debug, PartialEq)]
pub struct AudioFeatures {
    /// Log-mel frames, frame after frame: `frames * mel_channels` values.
    pub mel: Vec<f32>,
    pub mel_channels: u16,
    pub levels: Levels,
}

impl AudioFeatures {
    pub fn frames(&self) -> usize {
        self.mel.len() / usize::from(self.mel_channels)
    }
}

/// How loud a clip is, measured on the decoded samples before any loudness change.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Levels {
    /// Largest absolute sample; 1.0 is full scale.
    pub peak: f32,
    /// Root mean square in dB below full scale; -inf for digital silence.
    pub rms_dbfs: f32,
    /// Share of samples that sit at full scale in runs of three or more: the mark of clipping.
    pub clipped_share: f32,
}
