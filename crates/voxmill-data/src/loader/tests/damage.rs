//! What is left of a run where files or the cache are damaged.

use super::*;

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
