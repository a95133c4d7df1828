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

/// Tones between two silences of half a second, which trimming cuts.
fn between_silences() -> Tones {
    let mut data = Tones::new();
    for number in 0..CLIPS {
        let path = data.home.path().join(format!("wavs/c{number}.wav"));
        let tone = (0..4_000 + 900 * number).map(|at| (at as f32 / 10.0).sin() / 4.0);
        let silence = || std::iter::repeat_n(0.0, 11_025);
        let samples = silence().chain(tone).chain(silence());
        fs::write(path, wav_bytes(&Vec::from_iter(samples), 22_050)).unwrap();
    }
    let dataset = Dataset::open(data.home.path(), None, &Limits::default(), 0.0);
    data.clips = dataset.unwrap().manifest.clips;
    data
}

fn trimming(data: &Tones) -> FeatureStore {
    let audio = AudioSettings {
        trim_db: Some(40.0),
        ..AudioSettings::default()
    };
    let recipe = Recipe {
        audio: Arc::new(audio),
        ..Recipe::default()
    };
    let clips = data.clips.clone();
    FeatureStore::open(clips, recipe, data.cached(), ROOMY, Recorder::off())
}

#[test]
fn trimmed_lengths_decide_once_the_cache_has_them_and_a_resumed_run_keeps_its_own() {
    let data = between_silences();
    let cold = Arc::new(trimming(&data));
    assert_eq!(*cold.lengths(), PlannedLengths::default());
    let by_headers = training(&cold, settings(2));
    let audio = cold.recipe().audio.clone();
    let header = |id: &str| {
        let clip = data.clips.iter().find(|clip| &*clip.id == id);
        audio.frames_for_header(&clip.unwrap().header) as u32
    };
    let clips = by_headers.plan().clips().iter();
    assert!({ clips }.all(|clip| clip.frames == header(&clip.id)));
    two_epochs_of(&by_headers);
    let began_with = serde_json::to_value(cold.lengths()).unwrap();
    let before = by_headers.plan().fingerprint();
    let longest = by_headers
        .plan()
        .clips()
        .iter()
        .map(|clip| clip.frames)
        .max();
    drop((cold, by_headers));

    // A new run plans by what the clips really have.
    let warm = Arc::new(trimming(&data));
    assert!(warm.lengths().trimmed && warm.lengths().by_header.is_empty());
    let trimmed = training(&warm, settings(2));
    for batch in two_epochs_of(&trimmed) {
        for (clip, frames) in batch.clips.iter().zip(&batch.frame_counts) {
            let Some(clip) = clip else { continue };
            let planned = &trimmed.plan().clips()[*clip];
            assert_eq!(*frames, planned.frames, "{}", planned.id);
            assert!(planned.frames + 60 < header(&planned.id), "{}", planned.id);
        }
    }

    // The one that began with headers is resumed with them, whatever the cache has by now.
    let lengths = serde_json::from_value(began_with).unwrap();
    let resumed = Arc::new(trimming(&data).with_lengths(lengths));
    assert_eq!(training(&resumed, settings(2)).plan().fingerprint(), before);
    assert_ne!(trimmed.plan().fingerprint(), before);

    // A limit that leaves a clip out by its header takes it once its length is known.
    let limited = LoaderSettings {
        max_frames: longest.map(|frames| frames - 1),
        ..settings(2)
    };
    assert_eq!(training(&resumed, limited.clone()).too_long(), 1);
    assert_eq!(training(&warm, limited).too_long(), 0);
}

/// A clip that the cache cannot have (its file is bad) is planned by its header, and stays so.
#[test]
fn clips_that_the_cache_does_not_have_are_named() {
    let data = between_silences();
    let cold = Arc::new(trimming(&data));
    data.break_clip();
    two_epochs_of(&training(&cold, settings(2)));
    drop(cold);
    let warm = trimming(&data);
    assert!(warm.lengths().trimmed);
    let named: Vec<_> = warm.lengths().by_header.iter().collect();
    assert_eq!(named, ["c9"]);
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
        assert_eq!(cold.found_in_cache(), 0);
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
fn a_clip_that_fails_in_mid_epoch_becomes_a_masked_row_and_is_reported() {
    let data = Tones::new();
    let whole = data.plain();
    data.break_clip();
    let mut seen = Vec::new();
    for workers in [1, 3] {
        let store = data.store(None, ROOMY);
        let loader = training(&store, settings(workers));
        let batches = two_epochs(&store, settings(workers));
        assert_eq!(batches.len(), whole.len());
        let bad = store.bad();
        assert_eq!((bad.len(), &*bad[0].clip), (1, "c9"));
        let broken = loader
            .plan()
            .clips()
            .iter()
            .position(|clip| clip.id == "c9");
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
fn a_text_that_cannot_be_read_aloud_is_reported_and_not_planned() {
    let data = Tones::with_texts(|number| match number {
        12 => "...".to_owned(),
        _ => "Hello there.".to_owned(),
    });
    let store = data.store(None, ROOMY);
    let loader = training(&store, settings(1));
    assert_eq!(loader.plan().clips().len(), CLIPS - 6);
    let bad = store.bad();
    assert_eq!((bad.len(), &*bad[0].clip), (1, "c12"));
}

#[test]
fn a_cache_that_cannot_be_written_stops_nothing() {
    let data = Tones::new();
    let plain = data.plain();
    let other = data.other_writer();
    let store = data.store(data.cached(), ROOMY);
    assert!(store.keeps());
    assert!(two_epochs(&store, settings(2)) == plain);
    assert!(!store.keeps());
    let notes = store.notes();
    let [note] = &notes[..] else {
        panic!("{notes:?}");
    };
    assert!(note.contains("is being written"), "{note}");
    assert_eq!(store.files_decoded(), CLIPS as u64 - 5);
    drop(other);
    let impossible = data.home.path().join("metadata.csv/features");
    let mut no_room = CacheHome::unbounded(data.cache_dir());
    no_room.budget_bytes = Some(200_000);
    for home in [CacheHome::unbounded(impossible), no_room] {
        let is_bounded = home.budget_bytes.is_some();
        let store = data.store(Some(home), ROOMY);
        assert!(two_epochs(&store, settings(2)) == plain);
        assert_eq!(store.notes().len(), 1);
        assert!(store.keeps() || !is_bounded);
    }
}

/// Flips a byte in the middle of each file of the cache that begins so; says how many there are.
fn damage(data: &Tones, prefix: &str) -> usize {
    let files = fs::read_dir(data.cache_dir()).unwrap();
    let paths = files.map(|entry| entry.unwrap().path());
    let is_meant = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy();
        name.starts_with(prefix)
    };
    let meant: Vec<PathBuf> = paths.filter(is_meant).collect();
    for path in &meant {
        let mut bytes = fs::read(path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        fs::write(path, bytes).unwrap();
    }
    meant.len()
}

/// Before the store is opened, or after: as a reader that has not looked at the shard yet.
#[test]
fn a_damaged_shard_is_computed_again_whenever_it_shows() {
    for when_read in [false, true] {
        let data = Tones::new();
        let plain = two_epochs(&data.store(data.cached(), ROOMY), settings(2));
        let mut store = None;
        if when_read {
            let whole = store.insert(data.store(data.cached(), ROOMY));
            whole.forget_checks();
        }
        damage(&data, "shard-");
        let store = store.unwrap_or_else(|| data.store(data.cached(), ROOMY));
        assert!(!when_read || store.notes().is_empty());
        assert!(two_epochs(&store, settings(2)) == plain);
        assert_eq!(store.files_decoded(), CLIPS as u64 - 5);
        assert!(store.notes()[0].contains("damaged"), "{:?}", store.notes());
        drop(store);
        let again = data.store(data.cached(), ROOMY);
        assert_eq!(again.found_in_cache(), CLIPS - 5);
        assert!(two_epochs(&again, settings(2)) == plain);
        assert_eq!(again.files_decoded(), 0);
    }
}

#[test]
fn damage_is_repaired_when_a_store_is_opened_even_where_nothing_is_new() {
    let data = Tones::new();
    let store = data.store(data.cached(), ROOMY);
    let all: Vec<usize> = (0..CLIPS).collect();
    store.mel_statistics(&all).unwrap();
    drop(store);
    assert!(damage(&data, "index-") > 0);
    let store = data.store(data.cached(), ROOMY);
    assert!(store.notes()[0].contains("index"), "{:?}", store.notes());
    assert_eq!(store.found_in_cache(), CLIPS, "the shards have all");
    drop(store);
    assert_eq!(data.store(data.cached(), 0).notes(), Vec::<String>::new());

    // A shard of clips that no dataset names any more.
    damage(&data, "shard-");
    let none = FeatureStore::open(vec![], Recipe::default(), data.cached(), 0, Recorder::off());
    assert!(none.notes()[0].contains("damaged"), "{:?}", none.notes());
    let none = FeatureStore::open(vec![], Recipe::default(), data.cached(), 0, Recorder::off());
    assert_eq!(none.notes(), Vec::<String>::new());

    // Another run is writing: the cache is left alone, and read as far as it goes.
    data.store(data.cached(), ROOMY)
        .mel_statistics(&all)
        .unwrap();
    let other = data.other_writer();
    damage(&data, "shard-");
    let store = data.store(data.cached(), ROOMY);
    assert!(
        store
            .notes()
            .iter()
            .any(|note| note.contains("not repaired"))
    );
    drop(other);
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
