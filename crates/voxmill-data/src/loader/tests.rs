mod damage;
mod trimming;
mod waveforms;

use super::*;
use crate::cache::{CacheWriter, WriterOptions};
use crate::dataset::Dataset;
use crate::featurize::Recipe;
use crate::manifest::Limits;
use crate::store::{CacheHome, PlannedLengths};
use std::fs;
use std::path::PathBuf;
use voxmill_audio::{AudioSettings, LogMel, wav_bytes};
use voxmill_pipeline::run::Delivery;

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
            let step = (200.0 + 17.0 * number as f32) / 22_050.0 * std::f32::consts::TAU;
            let samples = (0..4_000 + 900 * number).map(|at| (at as f32 * step).sin() / 4.0);
            let wav = wav_bytes(&Vec::from_iter(samples), 22_050);
            fs::write(home.path().join(format!("wavs/c{number}.wav")), wav).unwrap();
            manifest.push_str(&format!("c{number}|{}\n", text(number)));
        }
        fs::write(home.path().join("metadata.csv"), manifest).unwrap();
        let dataset = Dataset::open(home.path(), None, &Limits::default(), 0.0);
        let mut clips = dataset.unwrap().manifest.clips;
        assert_eq!(clips.len(), CLIPS);
        for clip in clips.iter_mut().take(5) {
            clip.split = Split::Validation;
        }
        Tones { home, clips }
    }

    fn cache_dir(&self) -> PathBuf {
        self.home.path().join("features")
    }

    fn cached(&self) -> Option<CacheHome> {
        Some(CacheHome::unbounded(self.cache_dir()))
    }

    /// Replaces a clip's file by one that cannot be decoded.
    fn break_clip(&self) {
        let path = self.home.path().join("wavs/c9.wav");
        fs::write(path, b"RIFF and no more").unwrap();
    }

    fn store(&self, home: Option<CacheHome>, hold_bytes: u64) -> Arc<FeatureStore> {
        let (clips, recipe) = (self.clips.clone(), Recipe::default());
        let store = FeatureStore::open(clips, recipe, home, hold_bytes, Recorder::off());
        Arc::new(store)
    }

    /// Two epochs without a cache.
    fn plain(&self) -> Vec<Batch> {
        two_epochs(&self.store(None, ROOMY), settings(1))
    }

    /// Another run that is writing the cache.
    fn other_writer(&self) -> CacheWriter {
        let (features, options) = (
            Recipe::default().feature_settings(),
            WriterOptions::default(),
        );
        CacheWriter::open(&self.cache_dir(), features, options).unwrap()
    }
}

fn two_epochs(store: &Arc<FeatureStore>, settings: LoaderSettings) -> Vec<Batch> {
    two_epochs_of(&training(store, settings))
}

/// The same two with samples in the batches.
fn two_epochs_of_waveforms(store: &Arc<FeatureStore>, settings: LoaderSettings) -> Vec<Batch> {
    two_epochs_of(&of_waveforms(store, settings).unwrap())
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

fn training(store: &Arc<FeatureStore>, settings: LoaderSettings) -> Loader {
    Loader::new(store, Split::Train, batch_settings(), settings).unwrap()
}

fn of_waveforms(
    store: &Arc<FeatureStore>,
    settings: LoaderSettings,
) -> Result<Loader, LoaderError> {
    Loader::of_waveforms(store, Split::Train, batch_settings(), settings)
}

fn two_epochs_of(loader: &Loader) -> Vec<Batch> {
    let running = loader.start(ResumePoint::default(), Some(2), Recorder::off());
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
    let loader = training(&store, settings(2));
    let batches = two_epochs(&store, settings(2));
    let mut at = 0;
    for epoch in 0..2 {
        let plan = loader.epoch(epoch);
        for (number, planned) in plan.batches.iter().enumerate() {
            let batch = &batches[at];
            at += 1;
            let shape = plan.shape(planned);
            let number = number as u64;
            let position = (batch.position.epoch, batch.position.batch);
            assert_eq!((position, batch.shape), ((epoch, number), shape));
            for (row, planned) in planned.rows.iter().enumerate() {
                assert_eq!(batch.clips[row], Some(planned.clip));
                let clip = &loader.plan().clips()[planned.clip];
                assert_eq!(batch.frame_counts[row], clip.frames);
                assert_eq!(batch.token_counts[row], clip.tokens);
                assert_eq!(batch.reference_counts[row], planned.reference.frames);
            }
            assert_eq!(batch.clip_count(), planned.rows.len());
        }
    }
    assert_eq!(at, batches.len());
    assert_eq!(at as u64, 2 * loader.plan().batches_per_epoch());
}

#[test]
fn cold_or_warm_cache_or_none_and_any_workers_give_the_same_batches() {
    let data = Tones::new();
    let plain = data.plain();
    for workers in [1, 3] {
        let _ = fs::remove_dir_all(data.cache_dir());
        let cold = data.store(data.cached(), ROOMY);
        assert_eq!((cold.found_in_cache(), cold.why_stale()), (0, None));
        assert!(two_epochs(&cold, settings(workers)) == plain, "cold");
        drop(cold);
        let warm = data.store(data.cached(), ROOMY);
        assert_eq!(
            warm.found_in_cache(),
            CLIPS - 5,
            "what the first run computed"
        );
        assert!(two_epochs(&warm, settings(workers)) == plain, "warm");
        assert_eq!((warm.files_decoded(), warm.notes()), (0, vec![]));
        let nothing_held = data.store(None, 0);
        assert!(two_epochs(&nothing_held, settings(workers)) == plain);
    }
    let mut no_overlap = settings(1);
    no_overlap.overlap = false;
    let mut adaptive = settings(2);
    adaptive.adapt = true;
    adaptive.start_delay = Duration::from_millis(1);
    let mut unordered = settings(3);
    unordered.order = Order::Free;
    for settings in [no_overlap, adaptive, unordered] {
        let case = format!("{settings:?}");
        let is_unordered = settings.order == Order::Free;
        let mut batches = two_epochs(&data.store(None, ROOMY), settings);
        if is_unordered {
            batches.sort_by_key(|batch| batch.position);
        }
        assert!(batches == plain, "{case}");
    }
}

#[test]
fn each_file_is_decoded_once_though_it_is_used_as_itself_and_as_a_reference() {
    let data = Tones::new();
    for home in [None, data.cached()] {
        let store = data.store(home, ROOMY);
        two_epochs(&store, settings(3));
        assert_eq!(store.files_decoded(), CLIPS as u64 - 5);
    }
}

#[test]
fn what_the_cache_has_is_no_longer_held() {
    let data = Tones::new();
    let store = data.store(data.cached(), ROOMY);
    let clips: Vec<usize> = (0..CLIPS).collect();
    store.mel_statistics(&clips).unwrap();
    assert_eq!(store.held_bytes(), 0, "all clips are saved");
    assert_eq!(data.store(data.cached(), 0).found_in_cache(), CLIPS);
}

#[test]
fn resumed_it_gives_exactly_the_rest() {
    let data = Tones::new();
    let store = data.store(data.cached(), ROOMY);
    let loader = training(&store, settings(2));
    let all = two_epochs(&store, settings(2));
    for done in [0, 1, 4, all.len() - 1, all.len()] {
        let position = loader.position(done as u64);
        assert_eq!(loader.batches_before(position), done as u64);
        let from = ResumePoint::at(loader.batches_before(position));
        let rest = taken(loader.start(from, Some(2), Recorder::off()).unwrap());
        assert!(rest == all[done..]);
    }
    // Without an end it continues into later epochs; the pipeline counts batches.
    let from = ResumePoint::at(all.len() as u64);
    let mut endless = loader.start(from, None, Recorder::off()).unwrap();
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
fn validation_gives_the_same_batches_each_time_alongside_a_running_pipeline() {
    let data = Tones::new();
    let store = data.store(data.cached(), ROOMY);
    let mut train = training(&store, settings(2))
        .start(ResumePoint::default(), None, Recorder::off())
        .unwrap();
    let held_out = Loader::new(&store, Split::Validation, batch_settings(), settings(1)).unwrap();
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
        // What was computed for them is there when training comes to them.
        two_epochs(&store, settings(2));
        assert_eq!(store.files_decoded(), CLIPS as u64 - 5);
        found
    };
    let one = of(1, None);
    assert!(one.statistics.deviation > 0.1 && one.statistics.mean < 0.0);
    assert_eq!(of(4, None), one);
    assert_eq!(of(3, data.cached()), one);
}

#[test]
fn a_few_waveforms_stand_for_all_lengths_of_a_split() {
    let data = Tones::new();
    let samples = |count: usize, longest: u32| -> Vec<usize> {
        let store = data.store(None, ROOMY);
        let found = store.waveforms_by_length(Split::Train, count, longest);
        found.unwrap().iter().map(Vec::len).collect()
    };
    let of = |number: usize| 4_000 + 900 * number;
    // Clips 5 to 23 are for training, each longer than the last.
    assert_eq!(samples(4, u32::MAX), [of(5), of(11), of(17), of(23)]);
    // 60 frames are up to 15,359 samples.
    assert_eq!(samples(3, 60), [of(5), of(9), of(12)]);
    assert_eq!(samples(9, 34), [of(5)]);
    assert!(samples(4, 1).is_empty());
    data.break_clip();
    assert_eq!(samples(3, 60), [of(5), of(12)]);
}

#[test]
fn a_plain_loop_resumes_where_it_stopped() {
    let data = Tones::new();
    let store = data.store(None, ROOMY);
    let loader = training(&store, settings(2));
    let all = two_epochs(&store, settings(2));
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
        let rank = Rank::new(rank, 2).unwrap();
        let loader = whole.for_rank(rank, Position::default());
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
        let loader = whole.for_rank(Rank::new(rank, 3).unwrap(), stopped);
        let batches = loader.batches(stopped, Some(1)).unwrap();
        let batches: Vec<Batch> = batches.map(Result::unwrap).collect();
        counts.push(batches.len());
        let clips = batches.iter().flat_map(|batch| &batch.clips);
        met.extend(clips.flatten());
    }
    assert!(counts.iter().all(|&count| count == counts[0]), "{counts:?}");
    met.sort_unstable();
    let every: Vec<usize> = (0..whole.plan().clips().len()).collect();
    assert_eq!(met, every);
}
