//! Batches of samples, and the memory that batches take.

use super::*;

/// Two epochs with just the memory that a refused loader asks for, and how much that is.
fn with_least_memory(
    new: impl Fn(LoaderSettings) -> Result<Loader, LoaderError>,
) -> (u64, Vec<Batch>) {
    let with = |ram_budget| {
        let mut settings = settings(3);
        settings.ram_budget = ram_budget;
        new(settings)
    };
    let Err(LoaderError::TooLittleMemory { needed, .. }) = with(1_000) else {
        panic!("a batch is larger");
    };
    (needed, two_epochs_of(&with(needed).unwrap()))
}

#[test]
fn memory_that_no_batch_fits_into_is_refused_before_the_start() {
    let data = Tones::new();
    let store = data.store(None, 0);
    let new = |settings| Loader::new(&store, Split::Train, batch_settings(), settings);
    let (_, batches) = with_least_memory(new);
    assert!(batches == two_epochs(&data.store(None, 0), settings(1)));
    assert!(store.bad().is_empty());
}

#[test]
fn waveforms_are_of_the_same_clips_and_give_the_same_frames() {
    let data = Tones::new();
    let frames = two_epochs(&data.store(None, ROOMY), settings(2));
    // What the cache has of log-mel is of no use to them, and does no harm.
    two_epochs(&data.store(data.cached(), ROOMY), settings(2));
    let audio = AudioSettings::default();
    let framing = audio.framing();
    let mut log_mel = LogMel::new(&audio).unwrap();
    let mut same = |samples: &[f32], mel: &[f32], room: u32, counts: &[u32]| {
        let width = framing.row_width(room as usize);
        let rows = samples.chunks_exact(width);
        let mel = mel.chunks_exact(room as usize * audio.n_mels);
        for ((samples, mel), &count) in rows.zip(mel).zip(counts) {
            let mut computed = Vec::new();
            log_mel.log_mel_as_laid_out(samples, &mut computed);
            let pairs = computed.iter().zip(&mel[..count as usize * audio.n_mels]);
            assert!(pairs.into_iter().all(|(a, b)| (a - b).abs() < 1e-5));
        }
    };
    for (home, workers) in [(None, 1), (data.cached(), 3)] {
        let store = data.store(home, ROOMY);
        let samples = two_epochs_of_waveforms(&store, settings(workers));
        assert_eq!(samples.len(), frames.len());
        for (samples, frames) in samples.iter().zip(&frames) {
            assert_eq!(samples.sound.framing(), Some(framing));
            let mut rest = samples.clone();
            rest.sound = frames.sound.clone();
            assert!(rest == *frames, "all but the sound is the same");
            let (ours, theirs) = (&samples.sound, &frames.sound);
            let (shape, counts) = (frames.shape, &frames.frame_counts);
            same(ours.rows(), theirs.rows(), shape.frames, counts);
            let (room, counts) = (frames.reference_frames, &frames.reference_counts);
            same(ours.reference(), theirs.reference(), room, counts);
        }
        // Each clip as itself and as a reference, in each of two epochs; nothing stays.
        let used = 2 * 2 * (CLIPS as u64 - 5);
        assert_eq!((store.files_decoded(), store.held_bytes()), (used, 0));
    }
}

#[test]
fn a_bad_file_becomes_a_masked_row_among_waveforms() {
    let data = Tones::new();
    data.break_clip();
    let frames = data.store(None, ROOMY);
    let expected = two_epochs(&frames, settings(1));
    for workers in [1, 3] {
        let store = data.store(None, ROOMY);
        let batches = two_epochs_of_waveforms(&store, settings(workers));
        assert_eq!(store.bad(), frames.bad());
        assert_eq!((store.bad().len(), &*store.bad()[0].clip), (1, "c9"));
        for (batch, expected) in batches.iter().zip(&expected) {
            assert_eq!(batch.clips, expected.clips);
            assert_eq!(batch.frame_counts, expected.frame_counts);
            assert_eq!(batch.reference_counts, expected.reference_counts);
            let width = batch.sound.rows().len() / batch.clips.len();
            let rows = batch.sound.rows().chunks_exact(width);
            for (row, clip) in rows.zip(&batch.clips) {
                assert_eq!(row.iter().any(|&sample| sample != 0.0), clip.is_some());
            }
        }
    }
}

#[test]
fn waveforms_run_to_their_end_in_just_the_memory_that_they_ask_for() {
    let data = Tones::new();
    // A cache saves them no decoding, so it must not make them ask for less.
    two_epochs(&data.store(data.cached(), ROOMY), settings(2));
    let store = data.store(data.cached(), 0);
    let (needed, batches) = with_least_memory(|settings| of_waveforms(&store, settings));
    let most = batches.iter().map(Batch::bytes).max().unwrap();
    assert!(needed > 2 * most, "rows, and the batch that they go into");
    assert!(batches == two_epochs_of_waveforms(&data.store(None, 0), settings(1)));
    assert!(store.bad().is_empty());
}
