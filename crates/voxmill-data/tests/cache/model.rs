//! Any interleaving of adds, changes, removals, collections, kills and damage, compared with a plain
//! map of what was committed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use proptest::prelude::*;
use voxmill_data::cache::{Cache, CacheWriter, Entry, Freshness};

use super::{Synthetic, add, assert_holds, fast_dir, files, open, settings, writer};

const FRAMES: usize = 2;

#[derive(Clone, Debug)]
enum Op {
    /// Adds the clip, or changes it when it is there.
    Add(u8),
    Remove(u8),
    Commit,
    /// Keeps the clips whose bit is set.
    Gc(u8),
    /// Ends the writer without commit, and opens the next.
    Kill,
    /// The same, with a half-written file left behind.
    KillWhileWriting,
    /// The same, and some file of the cache is changed by somebody else.
    Damage(u16, Damage),
    /// What `prepare` does: whatever is not fresh or cannot be read is built again.
    Repair,
}

#[derive(Clone, Debug)]
enum Damage {
    Flip(u32),
    Truncate(u32),
    Delete,
}

fn op() -> impl Strategy<Value = Op> {
    let damage = prop_oneof![
        any::<u32>().prop_map(Damage::Flip),
        any::<u32>().prop_map(Damage::Truncate),
        Just(Damage::Delete),
    ];
    prop_oneof![
        8 => (0..8u8).prop_map(Op::Add),
        2 => (0..8u8).prop_map(Op::Remove),
        2 => Just(Op::Commit),
        1 => any::<u8>().prop_map(Op::Gc),
        1 => Just(Op::Kill),
        1 => Just(Op::KillWhileWriting),
        1 => (any::<u16>(), damage).prop_map(|(file, damage)| Op::Damage(file, damage)),
        1 => Just(Op::Repair),
    ]
}

/// Clip → version.
type Clips = BTreeMap<String, i64>;

struct World {
    dir: tempfile::TempDir,
    writer: Option<CacheWriter>,
    /// As the caller sees it.
    now: Clips,
    /// As it must be after a kill, unless damaged since.
    committed: Clips,
    offered: BTreeSet<(String, i64)>,
    damaged: bool,
    version: i64,
}

impl World {
    fn new() -> Self {
        let dir = fast_dir();
        World {
            writer: Some(writer(&dir, 3)),
            dir,
            now: Clips::new(),
            committed: Clips::new(),
            offered: BTreeSet::new(),
            damaged: false,
            version: 0,
        }
    }

    fn writer(&mut self) -> &mut CacheWriter {
        self.writer.as_mut().unwrap()
    }

    fn add(&mut self, id: &str, version: i64) {
        add(self.writer(), id, version, FRAMES);
        self.now.insert(id.to_owned(), version);
        self.offered.insert((id.to_owned(), version));
        let stored = self.writer().cache().entry(id).copied();
        if stored.is_some_and(|entry| entry.fingerprint.audio.modified_ns == version) {
            // The shard was full: all that came before is committed with it.
            self.committed = self.now.clone();
        }
    }

    fn commit(&mut self) {
        self.writer().commit().unwrap();
        self.committed = self.now.clone();
    }

    fn apply(&mut self, op: &Op) {
        match op {
            Op::Add(number) => {
                self.version += 1;
                self.add(&number.to_string(), self.version);
            }
            Op::Remove(number) => {
                let id = number.to_string();
                let known = self.writer().remove(&id);
                assert!(self.damaged || known == self.now.contains_key(&id));
                self.now.remove(&id);
            }
            Op::Commit => self.commit(),
            Op::Gc(mask) => {
                let keep = |id: &str| mask >> id.parse::<u8>().unwrap() & 1 == 1;
                let collected = self.writer().gc(keep).unwrap();
                assert!(self.damaged || collected.clips_damaged == 0);
                self.now.retain(|id, _| keep(id));
                self.committed = self.now.clone();
            }
            Op::Kill => self.reopen(),
            Op::KillWhileWriting => {
                self.writer = None;
                fs::write(
                    self.dir.path().join(".writing-x"),
                    b"ARROW1 and then nothing",
                )
                .unwrap();
                self.reopen();
            }
            Op::Damage(file, damage) => {
                self.writer = None;
                self.damage(*file, damage);
                self.reopen();
            }
            Op::Repair => self.repair(),
        }
    }

    fn damage(&mut self, file: u16, damage: &Damage) {
        let mut names = files(&self.dir, "index-");
        names.extend(files(&self.dir, "shard-"));
        if names.is_empty() {
            return;
        }
        let path = self
            .dir
            .path()
            .join(&names[usize::from(file) % names.len()]);
        let mut bytes = fs::read(&path).unwrap();
        if bytes.is_empty() {
            return;
        }
        self.damaged = true;
        let length = bytes.len();
        match damage {
            Damage::Flip(at) => bytes[*at as usize % length] ^= 0x40,
            Damage::Truncate(to) => bytes.truncate(*to as usize % length),
            Damage::Delete => return fs::remove_file(&path).unwrap(),
        }
        fs::write(&path, bytes).unwrap();
    }

    fn reopen(&mut self) {
        self.writer = None;
        self.check(&open(&self.dir));
        let writer = writer(&self.dir, 3);
        self.check(writer.cache());
        // The caller continues with what a damaged cache still knows.
        self.now = versions(writer.cache());
        if self.damaged {
            self.committed = self.now.clone();
        }
        self.writer = Some(writer);
        assert!(files(&self.dir, ".writing-").is_empty());
    }

    /// Everything read is what was once added under that fingerprint; without damage, everything
    /// committed is read.
    fn check(&self, cache: &Cache) {
        for (id, entry) in cache.entries() {
            let version = entry.fingerprint.audio.modified_ns;
            assert!(self.offered.contains(&(id.to_owned(), version)));
            match cache.get(id) {
                Ok(_) => {
                    assert_holds(cache, id, version, FRAMES);
                    let added = Synthetic::new(id, version, FRAMES);
                    assert_eq!(entry.fingerprint, added.fingerprint);
                }
                Err(damage) => assert!(self.damaged, "{damage}"),
            }
        }
        if !self.damaged {
            assert_eq!(versions(cache), self.committed);
            assert_eq!(cache.warnings(), []);
        }
    }

    fn repair(&mut self) {
        self.commit();
        let wanted = self.now.clone();
        self.writer().cache().check_shards();
        for (id, version) in &wanted {
            let print = Synthetic::new(id, *version, FRAMES).fingerprint;
            let cache = self.writer().cache();
            match cache.freshness(id, &print, &settings()) {
                Freshness::Reuse => assert_holds(cache, id, *version, FRAMES),
                Freshness::Rebuild { .. } => {
                    assert!(self.damaged);
                    self.add(id, *version);
                }
            }
        }
        self.commit();
        // Damaged files that no clip needs may lie about; the next opening clears them away.
        self.writer = None;
        self.writer = Some(writer(&self.dir, 3));
        self.commit();
        self.damaged = false;
        self.writer().cache().check_shards();
        self.check(&open(&self.dir));
    }
}

fn versions(cache: &Cache) -> Clips {
    let version =
        |(id, entry): (&str, &Entry)| (id.to_owned(), entry.fingerprint.audio.modified_ns);
    cache.entries().map(version).collect()
}

proptest! {
    #[test]
    fn no_interleaving_yields_wrong_data(ops in prop::collection::vec(op(), 1..40)) {
        let mut world = World::new();
        for op in &ops {
            world.apply(op);
        }
        world.reopen();
        world.repair();
    }
}
