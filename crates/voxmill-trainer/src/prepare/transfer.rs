//! How fast batches get from the data device to the model device: the same move as in training, timed.

use std::time::Instant;

use burn::tensor::{Device, Tensor, TensorData};

use super::{LANGUAGES, Prepared};
use crate::device::{self, read, without_panic};
use crate::model::Spans;

/// Rows and channels of the batches that are moved; their length makes their size.
const ROWS: usize = 8;
const CHANNELS: usize = 80;
const TOKENS: usize = 64;

/// Batches of one size, moved one after another.
#[derive(Clone, Debug, PartialEq)]
pub struct Transfer {
    /// Of one batch.
    pub bytes: u64,
    /// Of each move, until the model device has it.
    pub seconds: Vec<f64>,
    /// Of the frames, the same on both sides after every move.
    pub checksum: u64,
}

impl Transfer {
    /// Bytes a second.
    pub fn best(&self) -> f64 {
        self.rate(self.seconds.iter().copied().fold(f64::INFINITY, f64::min))
    }

    /// Bytes a second in the round that lies in the middle.
    pub fn median(&self) -> f64 {
        let mut sorted = self.seconds.clone();
        sorted.sort_by(f64::total_cmp);
        self.rate(sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN))
    }

    fn rate(&self, seconds: f64) -> f64 {
        self.bytes as f64 / seconds
    }
}

/// Moves a batch of about this many bytes `rounds` times, and once before to warm up. The CPU twice is
/// two lanes, which copy. The error says what failed, in the device's words.
pub fn time_transfer(
    data: &Device,
    model: &Device,
    bytes: u64,
    rounds: usize,
) -> Result<Transfer, String> {
    let (data, model) = (data.clone().inner(), model.clone().inner());
    without_panic(|| timed(&data, &model, bytes, rounds)).flatten()
}

fn timed(data: &Device, model: &Device, bytes: u64, rounds: usize) -> Result<Transfer, String> {
    if data == model && !device::is_cpu(data) {
        return Err("one device both prepares and trains: nothing is moved".to_owned());
    }
    let row_bytes = (ROWS * CHANNELS * size_of::<f32>()) as u64;
    let frames = usize::try_from(bytes / row_bytes).unwrap_or(1).max(1);
    let values: Vec<f32> = (0..ROWS * frames * CHANNELS).map(pattern).collect();
    let sent = checksum(&values);
    let prepared = batch(values, frames, data);
    let moved_values = prepared.mel.shape().num_elements()
        + prepared.reference.shape().num_elements()
        + prepared.tokens.shape().num_elements()
        + prepared.languages.shape().num_elements();
    let mut transfer = Transfer {
        bytes: (moved_values * size_of::<f32>()) as u64,
        seconds: Vec::with_capacity(rounds),
        checksum: sent,
    };
    for round in 0..=rounds {
        waited(data)?;
        let begin = Instant::now();
        let moved = match data == model {
            true => prepared.copied(),
            false => prepared.to_device(model),
        };
        waited(model)?;
        let seconds = begin.elapsed().as_secs_f64();
        if checksum(&read(moved.mel)) != sent {
            return Err("what arrived is not what was sent".to_owned());
        }
        if round > 0 {
            transfer.seconds.push(seconds);
        }
    }
    Ok(transfer)
}

fn batch(values: Vec<f32>, frames: usize, device: &Device) -> Prepared {
    let frame_counts = [frames as u32; ROWS];
    let (token_counts, reference_counts) = ([TOKENS as u32; ROWS], [1; ROWS]);
    Prepared {
        lengths: Vec::new(),
        tokens: Tensor::from_data(
            TensorData::new(vec![1i32; ROWS * TOKENS], [ROWS, TOKENS]),
            device,
        ),
        token_spans: Spans::new(&token_counts, TOKENS, device),
        languages: Tensor::from_data(
            TensorData::new(vec![LANGUAGES as i32 - 1; ROWS], [ROWS]),
            device,
        ),
        mel: Tensor::from_data(TensorData::new(values, [ROWS, frames, CHANNELS]), device),
        frame_spans: Spans::new(&frame_counts, frames, device),
        reference: Tensor::zeros([ROWS, 1, CHANNELS], device),
        reference_spans: Spans::new(&reference_counts, 1, device),
    }
}

/// Until a device has done what it was asked for.
fn waited(device: &Device) -> Result<(), String> {
    device.sync().map_err(|error| error.to_string())
}

/// No two neighbours alike, so that a shift shows.
fn pattern(place: usize) -> f32 {
    (place as u32).wrapping_mul(2_654_435_761) as f32 / u32::MAX as f32
}

/// The order counts, too.
fn checksum(values: &[f32]) -> u64 {
    values.iter().fold(0xcbf2_9ce4_8422_2325, |sum, value| {
        (sum ^ u64::from(value.to_bits())).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_in_memory_is_timed_and_checked() {
        let cpu = device::cpu();
        let timed = time_transfer(&cpu, &cpu, 100_000, 3).expect("the CPU copies");
        assert_eq!(timed.seconds.len(), 3);
        assert!((90_000..110_000).contains(&timed.bytes), "{}", timed.bytes);
        assert!(timed.best() >= timed.median() && timed.median() > 0.0);
    }

    #[test]
    fn the_order_of_values_is_part_of_their_checksum() {
        assert_ne!(checksum(&[1.0, 2.0]), checksum(&[2.0, 1.0]));
    }
}
