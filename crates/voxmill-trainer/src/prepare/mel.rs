//! Log-mel frames as matrix products, for a device that has those and no Fourier transform.
//!
//! Rows of samples are cut at every hop; a window is then some neighbouring hops side by side. One
//! product with the cosines and sines of all bins is the spectrum, one with the filters the mel.

use burn::tensor::{Device, Tensor, TensorData};
use voxmill_audio::{AudioSettings, Framing, MelTables};

#[derive(Debug)]
pub(crate) struct FramesOnDevice {
    framing: Framing,
    bins: usize,
    /// (whole hops under a window) × (cosines, then sines)
    waves: Tensor<2>,
    /// bins × mels
    filters: Tensor<2>,
    floor: f32,
    device: Device,
}

impl FramesOnDevice {
    pub(crate) fn new(settings: &AudioSettings, device: &Device) -> Self {
        let tables = MelTables::new(settings);
        let framing = settings.framing();
        let samples = framing.overlap() * framing.hop;
        let bins = tables.bins;
        // Rows beyond the window are zero: the last hop may reach over its end.
        let mut waves = vec![0.0; samples * 2 * bins];
        for (sample, row) in waves
            .chunks_exact_mut(2 * bins)
            .take(tables.n_fft)
            .enumerate()
        {
            row[..bins].copy_from_slice(&tables.cosines[sample * bins..][..bins]);
            row[bins..].copy_from_slice(&tables.sines[sample * bins..][..bins]);
        }
        let filters = TensorData::new(tables.filters, [bins, tables.n_mels]);
        Self {
            framing,
            bins,
            waves: Tensor::from_data(TensorData::new(waves, [samples, 2 * bins]), device),
            filters: Tensor::from_data(filters, device),
            floor: tables.floor,
            device: device.clone(),
        }
    }

    /// rows × `frames` × mels, not normalised; frames beyond a row's count are not masked.
    pub(crate) fn of_samples(&self, samples: Vec<f32>, rows: usize, frames: usize) -> Tensor<3> {
        let Framing { hop, .. } = self.framing;
        let overlap = self.framing.overlap();
        let hops = frames + overlap - 1;
        let samples = TensorData::new(samples, [rows, hops, hop]);
        let samples = Tensor::<3>::from_data(samples, &self.device);
        let windows = (0..overlap).map(|at| samples.clone().narrow(1, at, frames));
        let windows = Tensor::cat(windows.collect(), 2).reshape([rows * frames, overlap * hop]);
        let spectrum = windows.matmul(self.waves.clone()).square();
        let power =
            spectrum.clone().narrow(1, 0, self.bins) + spectrum.narrow(1, self.bins, self.bins);
        let mel = power.sqrt().matmul(self.filters.clone());
        let [_, mels] = mel.dims();
        mel.clamp_min(self.floor)
            .log()
            .reshape([rows, frames, mels])
    }
}
