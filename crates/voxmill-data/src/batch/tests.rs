use super::*;
use voxmill_audio::{AudioSettings, LogMel};

const FORM: BatchForm = BatchForm {
    position: Position { epoch: 2, batch: 5 },
    shape: Shape {
        frames: 4,
        tokens: 3,
        rows: 3,
    },
    mel_channels: 2,
    reference_frames: 2,
    framing: None,
};

fn row<'a>(tokens: &'a [u16], sound: &'a [f32], reference: &'a [f32]) -> BatchRow<'a> {
    BatchRow {
        clip: 7,
        tokens,
        sound,
        language: Language::English,
        speaker: 4,
        reference,
    }
}

fn reference((clip, start_frame, frames): (usize, u32, u32)) -> Reference {
    Reference {
        clip,
        start_frame,
        frames,
    }
}

#[test]
fn rows_are_padded_and_counted_before_padding() {
    let mel = [1.0, 2.0, 3.0, 4.0];
    let batch = collate(FORM, [Some(row(&[20, 21], &mel, &[9.0, 8.0]))]);
    assert_eq!(batch.tokens[..3], [20, 21, PAD]);
    let expected = [1.0, 2.0, 3.0, 4.0, 0.0, 0.0, 0.0, 0.0];
    assert_eq!(batch.sound.rows()[..8], expected);
    assert_eq!(batch.sound.reference()[..4], [9.0, 8.0, 0.0, 0.0]);
    let counts = [
        batch.token_counts,
        batch.frame_counts,
        batch.reference_counts,
    ];
    assert_eq!(counts.map(|of_rows| of_rows[0]), [2, 2, 1]);
    assert_eq!((batch.clips[0], batch.speakers[0]), (Some(7), 4));
    assert_eq!(batch.position, Position { epoch: 2, batch: 5 });
}

#[test]
fn what_is_missing_is_masked() {
    let batch = collate(FORM, [None, Some(row(&[20], &[1.0, 1.0], &[]))]);
    assert_eq!(batch.clips, [None, Some(7), None]);
    assert_eq!(batch.clip_count(), 1);
    assert_eq!(batch.token_counts, [0, 1, 0]);
    assert_eq!(batch.frame_counts, [0, 1, 0]);
    assert!(batch.sound.rows()[..8].iter().all(|&value| value == 0.0));
    assert!(batch.tokens[..3].iter().all(|&token| token == PAD));
    assert_eq!(collate(FORM, []).clip_count(), 0);
}

#[test]
fn what_is_too_long_is_cut_to_the_shape() {
    let mel: Vec<f32> = (0..20).map(|value| value as f32).collect();
    let rows = [Some(row(&[1, 2, 3, 4, 5], &mel, &mel)); 5];
    let batch = collate(FORM, rows);
    assert_eq!(batch.clips.len(), 3);
    assert_eq!(batch.frame_counts, [4, 4, 4]);
    assert_eq!(batch.token_counts, [3, 3, 3]);
    assert_eq!(batch.sound.rows()[8..16], mel[..8]);
    assert_eq!(batch.reference_counts, [2, 2, 2]);
}

#[test]
fn every_batch_of_a_shape_takes_the_same_bytes() {
    let empty = collate(FORM, []);
    let sound = empty.sound.rows().len() + empty.sound.reference().len();
    assert!(empty.bytes() > (sound * 4 + empty.tokens.len() * 2) as u64);
    let full = collate(FORM, [Some(row(&[1], &[1.0, 1.0], &[])); 3]);
    assert_eq!(full.bytes(), empty.bytes());
}

#[test]
fn a_crop_stays_within_what_is_there() {
    let mel: Vec<f32> = (0..10).map(|value| value as f32).collect();
    let crop =
        |mel, start, frames| crop(mel, FORM.layout(), reference((0, start, frames))).to_vec();
    assert_eq!(crop(&mel, 1, 2), [2.0, 3.0, 4.0, 5.0]);
    assert_eq!(crop(&mel, 4, 2), [6.0, 7.0, 8.0, 9.0]);
    assert_eq!(crop(&mel, 3, 9), mel);
    assert!(crop(&[], 3, 9).is_empty());
}

/// Clips of many frames and of few, each with a reference in another place of another clip.
#[test]
fn samples_give_the_frames_that_the_other_kind_of_batch_holds() {
    let settings = AudioSettings {
        n_fft: 400,
        hop_length: 160,
        n_mels: 8,
        ..AudioSettings::default()
    };
    let framing = settings.framing();
    let of_frames = BatchForm {
        shape: Shape {
            frames: 24,
            tokens: 3,
            rows: 5,
        },
        mel_channels: 8,
        reference_frames: 10,
        ..FORM
    };
    let of_samples = BatchForm {
        framing: Some(framing),
        ..of_frames
    };
    let clips = [3_679, 5_200, 900, 3_840].map(|samples| -> Vec<f32> {
        let sample = |at| (at as f32 * at as f32 * 1e-9 * samples as f32).sin() * 0.3;
        (0..samples).map(sample).collect()
    });
    let mut log_mel = LogMel::new(&settings).unwrap();
    let mels = clips.each_ref().map(|clip| {
        let mut mel = Vec::new();
        log_mel.log_mel(clip, &mut mel);
        mel
    });
    // In the middle, at the start, at the end, and all of a clip that is too short.
    let references = [(1, 11, 10), (0, 0, 10), (3, 15, 10), (2, 4, 10)].map(reference);
    let layout = of_frames.layout();
    let rows = mels.iter().zip(references).map(|(mel, reference)| {
        let cropped = crop(&mels[reference.clip], layout, reference);
        Some(row(&[1], mel, cropped))
    });
    let frames_batch = collate(of_frames, rows);
    let laid_out = clips.each_ref().map(|clip| {
        let frames = framing.frames_of_clip(clip.len());
        framing.lay_out(clip, 0..frames)
    });
    let cropped = references.map(|reference| {
        let clip = &clips[reference.clip];
        let named = named_frames(reference, framing.frames_of_clip(clip.len()));
        framing.lay_out(clip, named)
    });
    let rows = laid_out.iter().zip(&cropped);
    let samples_batch = collate(
        of_samples,
        rows.map(|(sound, reference)| Some(row(&[1], sound, reference))),
    );

    for batch in [&samples_batch, &frames_batch] {
        assert_eq!(batch.frame_counts, [23, 24, 6, 24, 0]);
        assert_eq!(batch.reference_counts, [10, 10, 10, 6, 0]);
    }
    let mut same = |samples: &[f32], frames: &[f32], room: usize, counts: &[u32]| {
        let width = (room + 3 - 1) * 160;
        assert_eq!(samples.len(), 5 * width);
        for (at, &count) in counts.iter().enumerate() {
            let mut computed = Vec::new();
            log_mel.log_mel_as_laid_out(&samples[at * width..][..width], &mut computed);
            let expected = &frames[at * room * 8..][..count as usize * 8];
            for (computed, expected) in computed.iter().zip(expected) {
                assert!((computed - expected).abs() < 1e-5, "{computed} {expected}");
            }
        }
        assert!(samples[4 * width..].iter().all(|&sample| sample == 0.0));
    };
    let (samples, frames) = (&samples_batch.sound, &frames_batch.sound);
    let counts = &frames_batch.frame_counts;
    same(samples.rows(), frames.rows(), 24, counts);
    let counts = &frames_batch.reference_counts;
    same(samples.reference(), frames.reference(), 10, counts);

    let values = samples.rows().len() + samples.reference().len();
    let other_bytes = frames_batch.bytes() - 5 * (24 + 10) * 8 * 4;
    assert_eq!(samples_batch.form(), of_samples);
    assert_eq!(samples_batch.bytes(), values as u64 * 4 + other_bytes);
}
