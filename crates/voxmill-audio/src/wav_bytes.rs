//! Sound as the bytes of a wav file: 16 bits, one channel.

/// A wav file of these samples (1.0 is full scale), 16-bit PCM.
///
/// Samples within full scale are written as they are. If any is beyond, all are made quieter by
/// the same factor, so that the loudest just fits: a clipped peak would be heard as a crack. What
/// is not a finite number is written as silence and has no say in the factor.
pub fn wav_bytes(samples: &[f32], sample_rate: u32) -> Vec<u8> {
    const HEADER_BYTES: usize = 44;
    const SAMPLE_BYTES: u16 = 2;
    let finite = samples.iter().filter(|sample| sample.is_finite());
    let peak = finite.fold(0.0_f32, |peak, sample| peak.max(sample.abs()));
    let scale = 32_767.0 / peak.max(1.0);

    // Sizes have 32 bits. 4 GiB of samples (27 h at 22,050 Hz) would not fit in them.
    let data_bytes = u32::try_from(2 * samples.len()).unwrap_or(u32::MAX - 36);
    let mut bytes = Vec::with_capacity(HEADER_BYTES + 2 * samples.len());
    bytes.extend_from_slice(b"RIFF");
    bytes.extend_from_slice(&(36 + data_bytes).to_le_bytes());
    bytes.extend_from_slice(b"WAVEfmt ");
    bytes.extend_from_slice(&16_u32.to_le_bytes());
    bytes.extend_from_slice(&1_u16.to_le_bytes()); // PCM
    bytes.extend_from_slice(&1_u16.to_le_bytes()); // one channel
    bytes.extend_from_slice(&sample_rate.to_le_bytes());
    bytes.extend_from_slice(&(sample_rate * u32::from(SAMPLE_BYTES)).to_le_bytes());
    bytes.extend_from_slice(&SAMPLE_BYTES.to_le_bytes());
    bytes.extend_from_slice(&16_u16.to_le_bytes()); // bits
    bytes.extend_from_slice(b"data");
    bytes.extend_from_slice(&data_bytes.to_le_bytes());
    for sample in samples {
        let sample = if sample.is_finite() { *sample } else { 0.0 };
        bytes.extend_from_slice(&((sample * scale).round() as i16).to_le_bytes());
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Waveform, decode_mono, read_header};

    fn read_back(samples: &[f32], sample_rate: u32) -> Waveform {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("written.wav");
        std::fs::write(&path, wav_bytes(samples, sample_rate)).unwrap();
        let header = read_header(&path).unwrap();
        assert_eq!((header.sample_rate, header.channels), (sample_rate, 1));
        decode_mono(&path).unwrap()
    }

    #[test]
    fn our_reader_reads_back_what_was_written() {
        let samples: Vec<f32> = (0..1001).map(|n| (n as f32 * 0.1).sin()).collect();
        let read = read_back(&samples, 16_000);
        assert_eq!(read.sample_rate, 16_000);
        assert_eq!(read.samples.len(), samples.len());
        // Half a step of rounding, and the step that full scale is short of 32,768.
        for (read, written) in read.samples.iter().zip(&samples) {
            assert!((read - written).abs() < 1.6 / 32_768.0, "{read} {written}");
        }
    }

    #[test]
    fn only_what_is_beyond_full_scale_is_made_quieter() {
        let quiet = read_back(&[0.5, -0.25], 22_050).samples;
        assert!((quiet[0] - 0.5).abs() < 1e-4);
        let loud = read_back(&[4.0, -1.0, 0.0], 22_050).samples;
        assert!((loud[0] - 1.0).abs() < 1e-4);
        assert!((loud[1] + 0.25).abs() < 1e-4);
    }

    #[test]
    fn what_is_no_number_is_silent() {
        let read = read_back(&[f32::NAN, 0.5, f32::INFINITY], 22_050).samples;
        assert_eq!((read[0], read[2]), (0.0, 0.0));
        assert!((read[1] - 0.5).abs() < 1e-4);
    }

    #[test]
    fn no_samples_are_a_file_without_samples() {
        assert_eq!(wav_bytes(&[], 22_050).len(), 44);
    }
}
