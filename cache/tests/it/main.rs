//! The tests of the cache that go through its public face, one story each.

#![expect(missing_docs, reason = "nobody uses tests as a library")]
#![expect(
    clippy::disallowed_methods,
    reason = "tests damage the files of a cache by hand"
)]

mod damage;
mod faults;
mod gc;
mod home;
mod hostile;
mod model;
mod powercut;
mod processes;
mod records;
mod trees;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use aebuild_cache::hooks::{Faults, Hooks};
use aebuild_cache::{BlobRef, Cache, Durability, NewRecord, Options};

/// A folder for one test, with a cache in it.
pub struct Room {
    pub temp: tempfile::TempDir,
    pub dir: PathBuf,
}

impl Room {
    #[expect(clippy::new_without_default, reason = "a new room makes a folder")]
    pub fn new() -> Room {
        // Thousands of small files are damaged and rewritten; a disk would sync each of them.
        let temp = match tempfile::tempdir_in("/dev/shm") {
            Ok(temp) => temp,
            Err(_) => tempfile::tempdir().unwrap(),
        };
        let dir = temp.path().join("cache");
        Room { temp, dir }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.temp.path().join(name)
    }

    pub fn open(&self) -> Cache {
        Cache::open(&self.dir, fast()).unwrap()
    }

    pub fn open_with(&self, faults: &Arc<Faults>) -> Cache {
        let hooks = Hooks {
            faults: Some(faults.clone()),
            clock: None,
        };
        Cache::open_with(&self.dir, fast(), hooks).unwrap()
    }

    /// The only segment file.
    pub fn segment(&self) -> PathBuf {
        let segments = self.segments();
        assert_eq!(segments.len(), 1, "{segments:?}");
        segments.into_iter().next().unwrap()
    }

    pub fn segments(&self) -> Vec<PathBuf> {
        list(&self.dir.join("records"))
    }

    pub fn blob_path(&self, blob: &BlobRef) -> PathBuf {
        let digits = blob.id.to_string();
        let content = self.dir.join("blobs/content-v2/sha256");
        content
            .join(&digits[..2])
            .join(&digits[2..4])
            .join(&digits[4..])
    }
}

/// Options under which tests of anything but durability run.
pub fn fast() -> Options {
    Options {
        durability: Durability::Fast,
        free_reserve: 0,
        ..Options::default()
    }
}

/// A clock that a test sets.
#[derive(Clone, Default)]
pub struct TestClock(Arc<AtomicU64>);

impl TestClock {
    pub fn at(now_ms: u64) -> TestClock {
        TestClock(Arc::new(AtomicU64::new(now_ms)))
    }

    pub fn now() -> TestClock {
        let now = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .unwrap();
        TestClock::at(now.as_millis() as u64)
    }

    pub fn advance(&self, ms: u64) {
        self.0.fetch_add(ms, Ordering::SeqCst);
    }

    pub fn hooks(&self) -> Hooks {
        let clock = self.0.clone();
        Hooks {
            faults: None,
            clock: Some(Arc::new(move || clock.load(Ordering::SeqCst))),
        }
    }
}

/// A digest that is easy to tell from others.
pub fn digest(n: u64) -> [u8; 32] {
    let mut digest = [0; 32];
    // The halves differ, since the index keeps only the first.
    digest[..8].copy_from_slice(&n.to_be_bytes());
    digest[24..].copy_from_slice(&n.to_le_bytes());
    digest
}

/// A small record: key, action and payload are told apart by numbers.
pub fn record(key: u64, action: u64, payload: &str) -> NewRecord {
    NewRecord {
        key: digest(key),
        action: digest(action),
        lineage: digest(7000 + key),
        output: *BlobRef::of(payload.as_bytes()).id.as_bytes(),
        kind: 1,
        supersedes: false,
        paid: false,
        payload: payload.into(),
        blobs: Vec::new(),
        trees: Vec::new(),
    }
}

pub fn superseding(key: u64, action: u64, payload: &str) -> NewRecord {
    NewRecord {
        supersedes: true,
        ..record(key, action, payload)
    }
}

/// The payloads found under a key.
pub fn payloads(cache: &Cache, key: u64) -> Vec<String> {
    let found = cache.by_key(&digest(key));
    found
        .iter()
        .map(|record| String::from_utf8(record.payload.to_vec()).unwrap())
        .collect()
}

pub fn list(dir: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.sort();
    paths
}
