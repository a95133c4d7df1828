//! Frames made on a device compared with those of the CPU's own transform, and what is done to references.

use voxmill_audio::{AudioSettings, Framing, LogMel};

use super::*;
use crate::device::{cpu, test_devices};
use crate::test_data::{CHANNELS, TestClip, batch_of, preparation, speech_like};

#[test]
fn frames_made_of_samples_equal_the_cpus_own_on_every_device() {
    for (n_fft, hop_length, n_mels) in [(1024, 256, 80), (400, 160, 40)] {
        let settings = AudioSettings {
            n_fft,
            hop_length,
            n_mels,
            ..AudioSettings::default()
        };
        let framing = settings.framing();
        let clips = [speech_like(9_000), speech_like(22_050)];
        let frames = clips.iter().map(|c| framing.frames_of_clip(c.len()));
        let most = frames.max().unwrap();
        let width = framing.row_width(most);
        let mut rows = vec![0.0; clips.len() * width];
        for (row, clip) in rows.chunks_exact_mut(width).zip(&clips) {
            let laid_out = framing.lay_out(clip, 0..framing.frames_of_clip(clip.len()));
            row[..laid_out.len()].copy_from_slice(&laid_out);
        }
        for device in test_devices() {
            let frames = FramesOnDevice::new(&settings, &device);
            let made = device::read(frames.of_samples(rows.clone(), clips.len(), most));
            let mut log_mel = LogMel::new(&settings).unwrap();
            let mut real = Vec::new();
            for (made, clip) in made.chunks_exact(most * n_mels).zip(&clips) {
                log_mel.log_mel(clip, &mut real);
                let off = made.iter().zip(&real).map(|(a, b)| (a - b).abs());
                let worst = off.fold(0.0, f32::max);
                assert!(worst < 1e-3, "{device:?}, {n_fft}: {worst}");
            }
        }
    }
}

#[test]
fn a_batch_of_samples_is_prepared_like_one_of_frames_on_every_device() {
    let settings = AudioSettings::default();
    let framing = settings.framing();
    let clip = speech_like(15_000);
    let frames = framing.frames_of_clip(clip.len());
    let mut mel = Vec::new();
    LogMel::new(&settings).unwrap().log_mel(&clip, &mut mel);
    let of_frames = TestClip {
        tokens: vec![5, 6, 7],
        mel,
    };
    let (padded, reference) = (frames + 5, 40);
    let of_frames = batch_of(&[Some(&of_frames), None], 4, padded, reference);
    let mut of_samples = of_frames.clone();
    let row = |frames: usize, room: usize| {
        let mut row = framing.lay_out(&clip, 0..frames);
        row.resize(2 * framing.row_width(room), 0.0);
        row
    };
    of_samples.sound = Sound::Samples {
        framing: Framing { ..framing },
        rows: row(frames, padded),
        reference: row(30, reference),
    };
    for device in test_devices() {
        let mut preparer = preparation(&device, &device).preparer();
        let a = preparer.prepare(of_frames.clone()).prepared;
        let b = preparer.prepare(of_samples.clone()).prepared;
        for (a, b) in [(a.mel, b.mel), (a.reference, b.reference)] {
            let worst = device::read_one((a - b).abs().max());
            assert!(worst < 1e-3, "{device:?}: {worst}");
        }
    }
}

#[test]
fn a_batch_arrives_unchanged_on_every_device() {
    let clip = TestClip::new("moved", 6, 20);
    let batch = batch_of(&[Some(&clip), None], 8, 24, 30);
    let preparer = || preparation(&cpu(), &cpu()).preparer();
    let here = preparer().prepare(batch.clone());
    let copied = preparer().copying().prepare(batch.clone());
    for there in test_devices() {
        let moved = preparation(&cpu(), &there)
            .preparer()
            .prepare(batch.clone());
        assert_eq!(moved.prepared.mel.device(), there);
        for other in [&moved.prepared, &copied.prepared] {
            let same =
                |a: &Tensor<3>, b: &Tensor<3>| device::read(a.clone()) == device::read(b.clone());
            assert!(same(&here.prepared.mel, &other.mel));
            assert!(same(&here.prepared.reference, &other.reference));
            let mask = other.frame_spans.mask();
            assert!(same(&here.prepared.frame_spans.mask(), &mask));
            let ids = |ids: &Tensor<2, Int>| ids.to_data().iter::<i32>().collect::<Vec<_>>();
            assert_eq!(ids(&here.prepared.tokens), ids(&other.tokens));
        }
    }
}

#[test]
fn references_are_changed_and_targets_are_not_on_every_device() {
    let clip = TestClip::new("changed", 6, 60);
    let batch = batch_of(&[Some(&clip), None], 8, 64, 30);
    let prepared = |augment: Augment, device: &Device| {
        let how = Preparation {
            augment,
            ..preparation(device, device)
        };
        let ready = how.preparer().prepare(batch.clone()).prepared;
        (device::read(ready.mel), device::read(ready.reference))
    };
    let (mel, plain) = prepared(Augment::default(), &cpu());
    let valid = 30 * CHANNELS;
    let all = Augment {
        gain_db: 6.0,
        noise_snr_db: Some(20.0),
        time_masks: 2,
        channel_masks: 2,
    };
    let (_, on_cpu) = prepared(all, &cpu());
    for device in test_devices() {
        let (same, changed) = prepared(all, &device);
        assert!(same.iter().zip(&mel).all(|(a, b)| (a - b).abs() < 1e-4));
        assert_ne!(changed[..valid], plain[..valid]);
        assert!(changed.iter().all(|value| value.is_finite()));
        let is_zero = |&value: &f32| value == 0.0;
        assert!(changed[valid..].iter().all(is_zero), "padding");
        let off = changed.iter().zip(&on_cpu).map(|(a, b)| (a - b).abs());
        assert!(off.fold(0.0, f32::max) < 1e-3, "{device:?}");
        // Gain alone moves all values by the same amount.
        let gain = Augment {
            gain_db: 6.0,
            ..Augment::default()
        };
        let (_, louder) = prepared(gain, &device);
        let moved = louder[..valid].iter().zip(&plain).map(|(a, b)| a - b);
        let moved: Vec<f32> = moved.collect();
        assert!(moved.iter().all(|m| (m - moved[0]).abs() < 1e-4) && moved[0] != 0.0);
    }
}
