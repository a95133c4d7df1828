use super::*;
use crate::batch::Batch;
use crate::batch_plan::{BatchSettings, Position};
use crate::cache::{CacheWriter, WriterOptions};
use crate::dataset::Dataset;
use crate::featurize::Recipe;
use crate::manifest::{Clip, Limits, Split};
use crate::store::CacheHome;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use voxmill_audio::{AudioSettings, LogMel};
use voxmill_pipeline::plan::Order;
use voxmill_pipeline::resume::ResumePoint;
use voxmill_pipeline::run::{Delivery, Running};
use voxmill_telemetry::recorder::Recorder;

const CLIPS: usize = 24;
const ROOMY: u64 = 1 << 30;

/// A dataset of short tones, each of its own pitch and length.
struct Tones {
    home: tempfile::TempDir,
    clips: Vec<Clip>,
}

impl Tones {
    fn new() -> Tones {
        Tones::with_texts(|number| format!("Number {number} is here."))
    }

    fn with_texts(text: impl Fn(usize) -> String) -> Tones {
        let home = tempfile::tempdir().unwrap();
        fs::create_dir(home.path().join("wavs")).unwrap();
        let mut manifest = String::new();
        for number in 0..CLIPS {
            write_tone(
                &home.path().join(format!("wavs/c{number}.wav")),
                200.0 + 17.0 * number as f32,
                4_000 + 900 * number,
            );
            manifest.push_str(&format!("c{number}|{}\n", text(number)));
        }
        fs::write(home.path().join("metadata.csv"), manifest).unwrap();
        let limits = Limits {
            audio: AudioSettings::default(),
            max_mel_frames: None,
            max_text_length: None,
            min_seconds: 0.0,
        };
        let mut clips = Dataset::open(home.path(), None, &limits, 0.0)
            .unwrap()
            .manifest
            .clips;
        for clip in clips.iter_mut().take(5) {
            clip.split = Split::Validation;
        }
        Tones { home, clips }
    }

    fn cache_dir(&self) -> PathBuf {
        self.home.path().join("features")
    }

    fn cached(&self) -> Option<CacheHome> {
        Some(CacheHome {
            dir: self.cache_dir(),
            budget_bytes: None,
        })
    }

    fn store(&self, home: Option<CacheHome>, hold_bytes: u64) -> Arc<FeatureStore> {
        let (clips, recorder) = (self.clips.clone(), Recorder::off());
        Arc::new(FeatureStore::open(
            clips,
            recipe(),
            home,
            hold_bytes,
            recorder,
        ))
    }

    /// Two epochs on a store.
    fn two_epochs(&self, store: &Arc<FeatureStore>, settings: LoaderSettings) -> Vec<Batch> {
        two_epochs_of(&training(store, settings))
    }

    /// The same two with samples in the batches.
    fn two_epochs_of_waveforms(
        &self,
        store: &Arc<FeatureStore>,
        settings: LoaderSettings,
    ) -> Vec<Batch> {
        two_epochs_of(&of_waveforms(store, settings).unwrap())
    }
}

fn write_tone(path: &Path, hz: f32, samples: usize) {
    let data: Vec<u8> = (0..samples)
        .flat_map(|at| {
            let turn = at as f32 * hz / 22_050.0 * std::f32::consts::TAU;
            ((turn.sin() * 8_000.0) as i16).to_le_bytes()
        })
        .collect();
    let mut wav = Vec::new();
    wav.extend(b"RIFF");
    wav.extend((36 + data.len() as u32).to_le_bytes());
    wav.extend(b"WAVEfmt \x10\0\0\0\x01\0\x01\0");
    wav.extend(22_050u32.to_le_bytes());
    wav.extend(44_100u32.to_le_bytes());
    wav.extend([2, 0, 16, 0]);
    wav.extend(b"data");
    wav.extend((data.len() as u32).to_le_bytes());
    wav.extend(data);
    fs::write(path, wav).unwrap();
}

fn recipe() -> Recipe {
    Recipe::default()
}

fn settings(workers: usize) -> LoaderSettings {
    LoaderSettings {
        workers,
        buffer_size: 3,
        ram_budget: ROOMY,
        ..LoaderSettings::default()
    }
}

fn batch_settings() -> BatchSettings {
    BatchSettings {
        batch_size: 4.try_into().unwrap(),
        bucket_count: 3.try_into().unwrap(),
        reference_frames: 20.try_into().unwrap(),
        seed: 5,
        ..BatchSettings::default()
    }
}

fn feed(store: &Arc<FeatureStore>, split: Split, settings: LoaderSettings) -> Loader {
    Loader::new(store, split, batch_settings(), settings).unwrap()
}

fn training(store: &Arc<FeatureStore>, settings: LoaderSettings) -> Loader {
    feed(store, Split::Train, settings)
}

fn of_waveforms(
    store: &Arc<FeatureStore>,
    settings: LoaderSettings,
) -> Result<Loader, LoaderError> {
    Loader::of_waveforms(store, Split::Train, batch_settings(), settings)
}

fn two_epochs_of(feed: &Loader) -> Vec<Batch> {
    let running = feed.start(ResumePoint::default(), Some(2), Recorder::off());
    taken(running.unwrap())
}

fn taken(running: Running<Batch>) -> Vec<Batch> {
    let batches = running.map(|delivery| match delivery.unwrap() {
        Delivery::Item(batch) => {
            let (batch, receipt) = batch.into_parts();
            receipt.done();
            batch
        }
        Delivery::Gap(gap) => panic!("{gap:?}"),
    });
    batches.collect()
}

#[test]
fn batches_are_those_of_the_plan() {
    let data = Tones::new();
    let store = data.store(None, ROOMY);
    let feed = training(&store, settings(2));
    let batches = data.two_epochs(&store, settings(2));
    let mut at = 0;
    for epoch in 0..2 {
        let plan = feed.epoch(epoch);
        for (number, planned) in plan.batches.iter().enumerate() {
            let batch = &batches[at];
            at += 1;
            let here = Position {
                epoch,
                batch: number as u64,
            };
            assert_eq!((batch.position, batch.shape), (here, plan.shape(planned)));
            for (row, planned) in planned.rows.iter().enumerate() {
                assert_eq!(batch.clips[row], Some(planned.clip));
                let clip = &feed.plan().clips()[planned.clip];
                assert_eq!(batch.frame_counts[row], clip.frames);
                assert_eq!(batch.token_counts[row], clip.tokens);
                assert_eq!(batch.reference_counts[row], planned.reference.frames);
            }
            assert_eq!(batch.clip_count(), planned.rows.len());
        }
    }
    assert_eq!(at, batches.len());
    assert_eq!(at as u64, 2 * feed.plan().batches_per_epoch());
}

#[test]
fn cold_or_warm_cache_or_none_and_any_workers_give_the_same_batches() {
    let data = Tones::new();
    let plain = data.two_epochs(&data.store(None, ROOMY), settings(1));
    for workers in [1, 3] {
        let _ = fs::remove_dir_all(data.cache_dir());
        let cold = data.store(data.cached(), ROOMY);
        assert_eq!(cold.found_in_cache(), 0);
        assert!(data.two_epochs(&cold, settings(workers)) == plain, "cold");
        drop(cold);
        let warm = data.store(data.cached(), ROOMY);
        assert_eq!(warm.found_in_cache(), CLIPS - 5, "what the first run made");
        assert!(data.two_epochs(&warm, settings(workers)) == plain, "warm");
        assert_eq!((warm.files_decoded(), warm.notes()), (0, vec![]));
        let nothing_held = data.store(None, 0);
        assert!(data.two_epochs(&nothing_held, settings(workers)) == plain);
    }
    let no_overlap = LoaderSettings {
        overlap: false,
        ..settings(1)
    };
    assert!(data.two_epochs(&data.store(None, ROOMY), no_overlap) == plain);
    let adaptive = LoaderSettings {
        adapt: true,
        start_delay: Duration::from_millis(1),
        held_at_once: 1,
        ..settings(2)
    };
    assert!(data.two_epochs(&data.store(None, ROOMY), adaptive) == plain);
    let unordered = LoaderSettings {
        order: Order::Free,
        ..settings(3)
    };
    let mut unordered = data.two_epochs(&data.store(None, ROOMY), unordered);
    unordered.sort_by_key(|batch| batch.position);
    assert!(unordered == plain);
}

#[test]
fn each_file_is_decoded_once_though_it_is_used_as_itself_and_as_a_reference() {
    let data = Tones::new();
    for home in [None, data.cached()] {
        let store = data.store(home, ROOMY);
        data.two_epochs(&store, settings(3));
        assert_eq!(store.files_decoded(), CLIPS as u64 - 5);
    }
}

#[test]
fn what_the_cache_has_is_no_longer_held() {
    let data = Tones::new();
    let store = data.store(data.cached(), ROOMY);
    let clips: Vec<usize> = (0..CLIPS).collect();
    store.mel_statistics(&clips).unwrap();
    assert_eq!(
        store.held_bytes(),
        0,
        "all clips were made, so all is saved"
    );
    assert_eq!(data.store(data.cached(), 0).found_in_cache(), CLIPS);
}

#[test]
fn resumed_it_gives_exactly_the_rest() {
    let data = Tones::new();
    let store = data.store(data.cached(), ROOMY);
    let feed = training(&store, settings(2));
    let all = data.two_epochs(&store, settings(2));
    for done in [0, 1, 4, all.len() - 1, all.len()] {
        let position = feed.position(done as u64);
        assert_eq!(feed.batches_before(position), done as u64);
        let from = ResumePoint::at(feed.batches_before(position));
        let rest = taken(feed.start(from, Some(2), Recorder::off()).unwrap());
        assert!(rest == all[done..]);
    }
    // Without an end it continues into later epochs; the pipeline counts batches.
    let from = ResumePoint::at(all.len() as u64);
    let mut endless = feed.start(from, None, Recorder::off()).unwrap();
    for more in 1..=all.len() {
        let Some(Ok(Delivery::Item(batch))) = endless.next() else {
            panic!("it has no end");
        };
        assert!(batch.position.epoch >= 2);
        batch.done();
        assert_eq!(endless.resume_point().next, (all.len() + more) as u64);
    }
}

#[test]
fn a_clip_that_fails_in_mid_epoch_becomes_a_masked_row_and_is_told() {
    let data = Tones::new();
    let whole = data.two_epochs(&data.store(None, ROOMY), settings(1));
    fs::write(data.home.path().join("wavs/c9.wav"), b"RIFF and no more").unwrap();
    let mut seen = Vec::new();
    for workers in [1, 3] {
        let store = data.store(None, ROOMY);
        let feed = training(&store, settings(workers));
        let batches = data.two_epochs(&store, settings(workers));
        assert_eq!(batches.len(), whole.len());
        let bad = store.bad();
        assert_eq!((bad.len(), &*bad[0].clip), (1, "c9"));
        let broken = feed.plan().clips().iter().position(|clip| clip.id == "c9");
        let mut masked = 0;
        for (batch, whole) in batches.iter().zip(&whole) {
            for row in 0..batch.clips.len() {
                if whole.clips[row] == broken {
                    assert_eq!((batch.clips[row], batch.frame_counts[row]), (None, 0));
                    masked += 1;
                } else {
                    assert_eq!(batch.clips[row], whole.clips[row]);
                    assert_eq!(batch.reference_counts[row] > 0, batch.clips[row].is_some());
                }
            }
        }
        assert_eq!(masked, 2, "once an epoch");
        seen.push(batches);
    }
    assert!(seen[0] == seen[1]);
}

#[test]
fn a_text_that_says_nothing_is_told_and_not_planned() {
    let data = Tones::with_texts(|number| match number {
        12 => "...".to_owned(),
        _ => "Hello there.".to_owned(),
    });
    let store = data.store(None, ROOMY);
    let feed = training(&store, settings(1));
    assert_eq!(feed.plan().clips().len(), CLIPS - 6);
    let bad = store.bad();
    assert_eq!((bad.len(), &*bad[0].clip), (1, "c12"));
}

#[test]
fn a_cache_that_cannot_be_written_stops_nothing() {
    let data = Tones::new();
    let plain = data.two_epochs(&data.store(None, ROOMY), settings(1));
    // Another run is writing.
    let settings_of = recipe().feature_settings();
    let other =
        CacheWriter::open(&data.cache_dir(), settings_of, WriterOptions::default()).unwrap();
    let store = data.store(data.cached(), ROOMY);
    assert!(store.keeps());
    assert!(data.two_epochs(&store, settings(2)) == plain);
    assert!(!store.keeps());
    let notes = store.notes();
    assert!(
        notes.len() == 1 && notes[0].contains("is being written"),
        "{notes:?}"
    );
    assert_eq!(store.files_decoded(), CLIPS as u64 - 5);
    drop(other);
    // A folder that cannot be.
    let home = CacheHome {
        dir: data.home.path().join("metadata.csv/features"),
        budget_bytes: None,
    };
    let store = data.store(Some(home), ROOMY);
    assert!(data.two_epochs(&store, settings(2)) == plain);
    assert_eq!(store.notes().len(), 1);
    // No room.
    let home = CacheHome {
        dir: data.cache_dir(),
        budget_bytes: Some(200_000),
    };
    let store = data.store(Some(home), ROOMY);
    assert!(data.two_epochs(&store, settings(2)) == plain);
    assert_eq!(store.notes().len(), 1);
    assert!(store.keeps());
}

#[test]
fn a_damaged_shard_is_made_again() {
    let data = Tones::new();
    let plain = data.two_epochs(&data.store(data.cached(), ROOMY), settings(2));
    for entry in fs::read_dir(data.cache_dir()).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if name.starts_with("shard") {
            let mut bytes = fs::read(&path).unwrap();
            let middle = bytes.len() / 2;
            bytes[middle] ^= 1;
            fs::write(&path, bytes).unwrap();
        }
    }
    let store = data.store(data.cached(), ROOMY);
    assert!(data.two_epochs(&store, settings(2)) == plain);
    assert_eq!(store.files_decoded(), CLIPS as u64 - 5);
    assert!(store.notes()[0].contains("damaged"), "{:?}", store.notes());
    drop(store);
    let again = data.store(data.cached(), ROOMY);
    assert!(data.two_epochs(&again, settings(2)) == plain);
    assert_eq!(again.files_decoded(), 0);
}

#[test]
fn validation_gives_the_same_batches_each_time_beside_a_running_pipeline() {
    let data = Tones::new();
    let store = data.store(data.cached(), ROOMY);
    let mut train = training(&store, settings(2))
        .start(ResumePoint::default(), None, Recorder::off())
        .unwrap();
    let held_out = feed(&store, Split::Validation, settings(1));
    let first = taken(held_out.one_pass(Recorder::off()).unwrap());
    assert_eq!(first.iter().map(Batch::clip_count).sum::<usize>(), 5);
    assert!(matches!(train.next(), Some(Ok(Delivery::Item(_)))));
    assert!(taken(held_out.one_pass(Recorder::off()).unwrap()) == first);
    assert!(matches!(train.next(), Some(Ok(Delivery::Item(_)))));
}

#[test]
fn statistics_are_the_same_to_the_last_bit_on_any_number_of_threads() {
    let data = Tones::new();
    let of = |threads: usize, home| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
        let store = data.store(home, ROOMY);
        let sample = store.sample_clips(Split::Train, 8, 1);
        assert_eq!(sample.len(), 8);
        let found = pool.unwrap().install(|| store.mel_statistics(&sample));
        let found = found.unwrap().unwrap();
        assert_eq!(found.clips, 8);
        // What was made for them is there when training comes to them.
        data.two_epochs(&store, settings(2));
        assert_eq!(store.files_decoded(), CLIPS as u64 - 5);
        found
    };
    let one = of(1, None);
    assert!(one.statistics.deviation > 0.1 && one.statistics.mean < 0.0);
    assert_eq!(of(4, None), one);
    assert_eq!(of(3, data.cached()), one);
}

#[test]
fn memory_that_no_batch_fits_into_is_refused_before_the_start() {
    let data = Tones::new();
    let store = data.store(None, 0);
    let with = |ram_budget| {
        let settings = LoaderSettings {
            ram_budget,
            ..settings(3)
        };
        Loader::new(&store, Split::Train, batch_settings(), settings)
    };
    let Err(LoaderError::TooLittleMemory { needed, .. }) = with(1_000) else {
        panic!("a batch is larger");
    };
    // And with just so much it runs to its end.
    let batches = two_epochs_of(&with(needed).unwrap());
    assert!(batches == data.two_epochs(&data.store(None, 0), settings(1)));
    assert!(store.bad().is_empty());
}

#[test]
fn waveforms_are_of_the_same_clips_and_give_the_same_frames() {
    let data = Tones::new();
    let frames = data.two_epochs(&data.store(None, ROOMY), settings(2));
    // What the cache has of log-mel is of no use to them, and does no harm.
    data.two_epochs(&data.store(data.cached(), ROOMY), settings(2));
    let audio = AudioSettings::default();
    let framing = audio.framing();
    let mut log_mel = LogMel::new(&audio).unwrap();
    let mut same = |samples: &[f32], mel: &[f32], room: u32, counts: &[u32]| {
        let width = framing.row_width(room as usize);
        let rows = samples.chunks_exact(width);
        let mel = mel.chunks_exact(room as usize * audio.n_mels);
        for ((samples, mel), &count) in rows.zip(mel).zip(counts) {
            let mut made = Vec::new();
            log_mel.log_mel_as_laid_out(samples, &mut made);
            let pairs = made.iter().zip(&mel[..count as usize * audio.n_mels]);
            assert!(pairs.into_iter().all(|(a, b)| (a - b).abs() < 1e-5));
        }
    };
    for (home, workers) in [(None, 1), (data.cached(), 3)] {
        let store = data.store(home, ROOMY);
        let samples = data.two_epochs_of_waveforms(&store, settings(workers));
        assert_eq!(samples.len(), frames.len());
        for (samples, frames) in samples.iter().zip(&frames) {
            assert_eq!(samples.sound.framing(), Some(framing));
            let rest = Batch {
                sound: frames.sound.clone(),
                ..samples.clone()
            };
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
    fs::write(data.home.path().join("wavs/c9.wav"), b"RIFF and no more").unwrap();
    let frames = data.store(None, ROOMY);
    let expected = data.two_epochs(&frames, settings(1));
    for workers in [1, 3] {
        let store = data.store(None, ROOMY);
        let batches = data.two_epochs_of_waveforms(&store, settings(workers));
        assert_eq!(store.bad(), frames.bad());
        assert_eq!((store.bad().len(), &*store.bad()[0].clip), (1, "c9"));
        for (batch, expected) in batches.iter().zip(&expected) {
            assert_eq!(batch.clips, expected.clips);
            assert_eq!(batch.frame_counts, expected.frame_counts);
            assert_eq!(batch.reference_counts, expected.reference_counts);
            let rows = batch
                .sound
                .rows()
                .chunks_exact(batch.form().layout().row_width(batch.shape.frames as usize));
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
    data.two_epochs(&data.store(data.cached(), ROOMY), settings(2));
    let store = data.store(data.cached(), 0);
    let with = |ram_budget| {
        let settings = LoaderSettings {
            ram_budget,
            ..settings(3)
        };
        of_waveforms(&store, settings)
    };
    let Err(LoaderError::TooLittleMemory { needed, .. }) = with(1_000) else {
        panic!("a batch is larger");
    };
    let batches = two_epochs_of(&with(needed).unwrap());
    let most = batches.iter().map(Batch::bytes).max().unwrap();
    assert!(needed > 2 * most, "rows, and the batch that they go into");
    assert!(batches == data.two_epochs_of_waveforms(&data.store(None, 0), settings(1)));
    assert!(store.bad().is_empty());
}

#[test]
fn a_plain_loop_resumes_where_it_stopped() {
    let data = Tones::new();
    let store = data.store(None, ROOMY);
    let loader = training(&store, settings(2));
    let all = data.two_epochs(&store, settings(2));
    let mut batches = loader.batches(Position::default(), Some(2)).unwrap();
    let mut first: Vec<Batch> = batches.by_ref().take(4).map(Result::unwrap).collect();
    // The fourth is in the caller's hands: it is not done.
    assert_eq!(loader.batches_before(batches.position()), 3);
    batches.finish_batch();
    let from = batches.position();
    drop(batches);
    let rest = loader.batches(from, Some(2)).unwrap();
    first.extend(rest.map(Result::unwrap));
    assert!(first == all);
}

/// Two ranks that stop together can be resumed by three: every clip is still met once an epoch.
#[test]
fn ranks_share_an_epoch_and_may_change_their_number() {
    let data = Tones::new();
    let store = data.store(None, ROOMY);
    let whole = training(&store, settings(1));
    let mut met: Vec<usize> = Vec::new();
    let mut stopped = Position::default();
    for rank in 0..2 {
        let shard = Shard::new(rank, 2).unwrap();
        let loader = whole.for_rank(shard, Position::default());
        let mut batches = loader.batches(Position::default(), Some(1)).unwrap();
        for batch in batches.by_ref().take(2) {
            met.extend(batch.unwrap().clips.iter().flatten());
        }
        batches.finish_batch();
        stopped = batches.position();
        assert_eq!(stopped, Position { epoch: 0, batch: 4 });
    }
    let mut counts = Vec::new();
    for rank in 0..3 {
        let loader = whole.for_rank(Shard::new(rank, 3).unwrap(), stopped);
        let batches = loader.batches(stopped, Some(1)).unwrap();
        let batches: Vec<Batch> = batches.map(Result::unwrap).collect();
        counts.push(batches.len());
        met.extend(
            batches
                .iter()
                .flat_map(|batch| batch.clips.iter().flatten()),
        );
    }
    assert!(counts.iter().all(|&count| count == counts[0]), "{counts:?}");
    met.sort_unstable();
    let every: Vec<usize> = (0..whole.plan().clips().len()).collect();
    assert_eq!(met, every);
}
