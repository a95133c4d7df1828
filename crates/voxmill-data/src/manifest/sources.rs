//! What the audio files are before they are resampled to one rate and mixed to one channel.

use std::collections::BTreeMap;

use super::{Clip, Manifest};

/// Clips whose files are alike.
#[derive(Clone, Debug, PartialEq)]
pub struct SourceFormat {
    pub sample_rate: u32,
    pub channels: u16,
    /// By the file's name, in lower case.
    pub codec: String,
    pub clips: usize,
    pub seconds: f64,
}

/// The formats of these clips, the most frequent first.
pub fn source_formats<'a>(clips: impl IntoIterator<Item = &'a Clip>) -> Vec<SourceFormat> {
    let mut formats = BTreeMap::<(u32, u16, String), (usize, f64)>::new();
    for clip in clips {
        let (_, extension) = clip.audio_file.rsplit_once('.').unwrap_or_default();
        let header = clip.header;
        let kind = (
            header.sample_rate,
            header.channels,
            extension.to_lowercase(),
        );
        let (count, seconds) = formats.entry(kind).or_default();
        *count += 1;
        *seconds += header.seconds();
    }
    let formats = formats.into_iter().map(|(kind, (clips, seconds))| {
        let (sample_rate, channels, codec) = kind;
        SourceFormat {
            sample_rate,
            channels,
            codec,
            clips,
            seconds,
        }
    });
    let mut formats: Vec<_> = formats.collect();
    formats.sort_by_key(|format| std::cmp::Reverse(format.clips));
    formats
}

impl Manifest {
    /// What its files are, and how much there is of each.
    pub fn source_formats(&self) -> Vec<SourceFormat> {
        source_formats(&self.clips)
    }
}

/// The rate that half of the clips reach or exceed; `None` without clips.
pub fn usual_rate(formats: &[SourceFormat]) -> Option<u32> {
    let all: usize = formats.iter().map(|format| format.clips).sum();
    let mut by_rate: Vec<_> = formats.iter().map(|f| (f.sample_rate, f.clips)).collect();
    by_rate.sort_unstable_by(|a, b| b.cmp(a));
    let mut reached = 0;
    let mut rates = by_rate.into_iter();
    rates.find_map(|(rate, clips)| {
        reached += clips;
        (2 * reached >= all).then_some(rate)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_rate_is_the_one_that_half_of_the_clips_reach() {
        let format = |sample_rate, clips| SourceFormat {
            sample_rate,
            channels: 1,
            codec: "wav".to_owned(),
            clips,
            seconds: 1.0,
        };
        assert_eq!(usual_rate(&[]), None);
        let mixed = [format(8_000, 60), format(44_100, 30), format(16_000, 10)];
        assert_eq!(usual_rate(&mixed), Some(8_000));
        let mixed = [format(8_000, 40), format(44_100, 30), format(16_000, 30)];
        assert_eq!(usual_rate(&mixed), Some(16_000));
    }
}
