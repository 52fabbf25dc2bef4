//! The cache as its users see it.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::Options;
use crate::blob::Presence;
use crate::disk::Disk;
use crate::error::{Notice, OpenError, StoreError, TreeError, UpkeepError};
use crate::record::{BlobRef, Conflict, NewRecord, Place, Record};
use crate::store::{Hooks, Store};
use crate::tree::memo::StatMemo;
use crate::tree::{self, Restored, Symlinks, Tree, TreeEntry, restore, sync, walk};
use crate::upkeep::Stats;
use crate::upkeep::gc::{GcOptions, GcReport};
use crate::upkeep::verify::{RepairReport, VerifyReport};

/// An open cache. Clones share everything; dropping the last one flushes.
#[derive(Clone)]
pub struct Cache {
    handle: Arc<Handle>,
}

struct Handle {
    store: Arc<Store>,
    committer: Mutex<Option<JoinHandle<()>>>,
}

impl Cache {
    /// Opens the cache in a folder, which is made if it is missing.
    pub fn open(dir: &Path, options: Options) -> Result<Cache, OpenError> {
        Cache::open_with(dir, options, Hooks::default())
    }

    /// Opens a cache with a clock and faults of a test.
    #[doc(hidden)]
    pub fn open_with(dir: &Path, options: Options, hooks: Hooks) -> Result<Cache, OpenError> {
        let store = Arc::new(Store::open(dir, options, hooks)?);
        Ok(Cache {
            handle: Arc::new(Handle {
                store,
                committer: Mutex::default(),
            }),
        })
    }

    /// Returns the folder of the cache.
    pub fn dir(&self) -> &Path {
        &self.store().home.dir
    }

    /// Returns what the user should be told, each once.
    pub fn notices(&self) -> Vec<Notice> {
        self.store().home.drain_notices()
    }

    /// Stores bytes under their sha256. They are durable after the next `flush`.
    pub fn put_blob(&self, bytes: &[u8]) -> Result<BlobRef, StoreError> {
        self.inside(|store| {
            store.storing()?;
            store.outcome(store.blobs.put(bytes, store.now_ms()))
        })
    }

    /// Stores the bytes of a file, however large.
    pub fn put_blob_file(&self, file: &Path) -> Result<BlobRef, StoreError> {
        self.inside(|store| {
            store.storing()?;
            store.outcome(store.blobs.put_file(file, store.now_ms()))
        })
    }

    /// Returns the verified bytes of a blob, or nothing.
    pub fn get_blob(&self, blob: &BlobRef) -> Option<Vec<u8>> {
        self.inside(|store| {
            if store.is_foreign() {
                None
            } else {
                store.blobs.get(blob)
            }
        })
    }

    /// Copies a blob to a file with mode 0644, which appears whole and verified; false is a miss.
    pub fn copy_blob(&self, blob: &BlobRef, to: &Path) -> Result<bool, StoreError> {
        self.inside(|store| {
            if store.is_foreign() {
                return Ok(false);
            }
            copy_blob(store, blob, to)
        })
    }

    /// Tells whether a blob is there, by name and size only.
    pub fn has_blob(&self, blob: &BlobRef) -> bool {
        self.inside(|store| {
            !store.is_foreign() && matches!(store.blobs.presence(blob), Presence::Present { .. })
        })
    }

    /// Appends a record. It is found at once by this process, and stored after the next `flush`.
    pub fn append(&self, record: NewRecord) -> Result<Place, StoreError> {
        let place = self.inside(|store| store.append(record))?;
        self.start_committer();
        Ok(place)
    }

    /// Returns when everything that was put and appended is stored.
    pub fn flush(&self) -> Result<(), StoreError> {
        self.inside(|store| {
            if store.home.writable().is_err() {
                return Ok(());
            }
            store.flush()
        })
    }

    /// Returns the records of a key that count, one per action and kind, the newest first.
    ///
    /// Among the records of one action and kind the newest that supersedes counts, else the first stored.
    pub fn by_key(&self, key: &[u8; 32]) -> Vec<Record> {
        self.inside(|store| store.by_key(key))
    }

    /// Notes that a record was of use, so that it is among the last that go, and stays while this cache is open.
    ///
    /// Being found by [`Cache::by_key`] is no use yet: of several records under a key one is taken.
    pub fn note_used(&self, place: Place) {
        self.inside(|store| store.note_used(place));
    }

    /// Returns the records of a lineage, superseded ones too, the newest first.
    pub fn by_lineage(&self, lineage: &[u8; 32]) -> Vec<Record> {
        self.inside(|store| store.by_lineage(lineage))
    }

    /// Tells whether all these records are still where they were and count, without reading any.
    pub fn has_places(&self, places: &[Place]) -> bool {
        self.inside(|store| store.has_places(places))
    }

    /// Makes a record that turned out to be of no use never be found again.
    pub fn drop_record(&self, place: Place) -> Result<(), StoreError> {
        self.inside(|store| store.drop_record(place))
    }

    /// Returns the actions that were stored with different outputs.
    pub fn conflicts(&self) -> Vec<Conflict> {
        self.inside(Store::conflicts)
    }

    /// Finds also what other processes have stored since this cache was opened.
    pub fn refresh(&self) {
        self.inside(|store| store.loaded().refresh(&store.segments));
    }

    /// Stores a folder: its files as blobs, and a manifest that names them.
    pub fn store_tree(&self, dir: &Path, memo: &mut StatMemo) -> Result<Tree, TreeError> {
        self.store_tree_with(dir, memo, Symlinks::Kept)
    }

    /// Stores a folder, and says what happens to links that leave it.
    pub fn store_tree_with(
        &self,
        dir: &Path,
        memo: &mut StatMemo,
        symlinks: Symlinks,
    ) -> Result<Tree, TreeError> {
        self.inside(|store| {
            store.storing()?;
            let now_ms = store.now_ms();
            let blobs = Some((&store.blobs, now_ms));
            let taken = walk::take(&store.home.disk, blobs, dir, memo, symlinks);
            if let Err(TreeError::Store(error)) = taken {
                return Ok(store.outcome(Err(error))?);
            }
            let (tree, manifest) = taken?;
            store.outcome(store.blobs.put(&manifest, now_ms))?;
            Ok(tree)
        })
    }

    /// Returns the digest that `store_tree` would give, without storing anything.
    pub fn digest_tree(dir: &Path, memo: &mut StatMemo) -> Result<BlobRef, TreeError> {
        Cache::digest_tree_with(dir, memo, Symlinks::Kept)
    }

    /// Returns the digest of a folder, and says what happens to links that leave it.
    pub fn digest_tree_with(
        dir: &Path,
        memo: &mut StatMemo,
        symlinks: Symlinks,
    ) -> Result<BlobRef, TreeError> {
        Ok(walk::take(&Disk::default(), None, dir, memo, symlinks)?
            .0
            .manifest)
    }

    /// Tells whether a tree is stored: manifest verified, files by name and size only.
    pub fn has_tree(&self, manifest: &BlobRef) -> bool {
        self.inside(|store| !store.is_foreign() && tree::is_stored(&store.blobs, manifest))
    }

    /// Restores a tree into a folder that is missing or empty; it appears whole and verified.
    pub fn restore_tree(&self, manifest: &BlobRef, dest: &Path) -> Result<Restored, TreeError> {
        self.inside(|store| {
            if store.is_foreign() {
                return Ok(Restored::Miss {
                    blob: *manifest,
                    path: None,
                });
            }
            restore::restore(&store.home.disk, &store.blobs, manifest, dest)
        })
    }

    /// Makes a folder equal to a tree and touches only what differs. Nothing may run in it meanwhile.
    pub fn sync_tree(
        &self,
        manifest: &BlobRef,
        dest: &Path,
        memo: &mut StatMemo,
    ) -> Result<Restored, TreeError> {
        self.inside(|store| {
            if store.is_foreign() {
                return Ok(Restored::Miss {
                    blob: *manifest,
                    path: None,
                });
            }
            sync::sync(&store.home.disk, &store.blobs, manifest, dest, memo)
        })
    }

    /// Returns what a stored tree holds.
    pub fn tree_entries(&self, manifest: &BlobRef) -> Option<Vec<TreeEntry>> {
        self.inside(|store| {
            if store.is_foreign() {
                None
            } else {
                tree::entries(&store.blobs, manifest)
            }
        })
    }

    /// Returns figures that are cheap to get.
    pub fn stats(&self) -> Stats {
        self.inside(Store::stats)
    }

    /// Drops what is old, of no use or over the size limit.
    pub fn gc(&self, options: GcOptions) -> Result<GcReport, UpkeepError> {
        let store = self.store();
        store.alone(options.wait, || store.gc(options))
    }

    /// Tells cheaply whether it is time for a gc.
    pub fn is_gc_due(&self) -> bool {
        self.inside(Store::is_gc_due)
    }

    /// Looks at every record, and at every byte of every blob if `read_data` says so.
    pub fn verify(&self, read_data: bool) -> Result<VerifyReport, UpkeepError> {
        self.inside(|store| {
            // What cannot be written is not there to be verified.
            let _ = store.commit();
            store.verify(read_data)
        })
    }

    /// Sets aside everything that is damaged, so that it is made anew.
    pub fn repair(&self) -> Result<RepairReport, UpkeepError> {
        let store = self.store();
        store.alone(Duration::from_secs(10), || store.repair())
    }

    /// Removes everything that was stored.
    pub fn clear(&self) -> Result<(), UpkeepError> {
        let store = self.store();
        store.alone(Duration::from_secs(10), || store.clear())
    }

    fn store(&self) -> &Store {
        &self.handle.store
    }

    fn inside<T>(&self, work: impl FnOnce(&Store) -> T) -> T {
        let store = self.store();
        let _gate = store.gate.read().expect("no holder panics");
        work(store)
    }

    fn start_committer(&self) {
        let mut committer = self.handle.committer.lock().expect("no holder panics");
        if committer.is_none() {
            let store = self.handle.store.clone();
            let builder = std::thread::Builder::new().name("cache-commit".to_owned());
            // Where no thread can be had, `flush` and the last drop commit.
            *committer = builder.spawn(move || store.commit_in_background()).ok();
        }
    }
}

impl std::fmt::Debug for Cache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cache")
            .field("dir", &self.dir())
            .finish_non_exhaustive()
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.store.close_queue();
        let committer = self.committer.get_mut().expect("no holder panics");
        if let Some(committer) = committer.take() {
            let _ = committer.join();
        }
        self.store.close();
    }
}

fn copy_blob(store: &Store, blob: &BlobRef, to: &Path) -> Result<bool, StoreError> {
    let disk = &store.home.disk;
    let mut name = std::ffi::OsString::from(".");
    name.push(to.file_name().unwrap_or_default());
    name.push(format!(".aebuild-{:016x}", crate::disk::random_id()));
    let draft = to.with_file_name(name);
    let io = |error| StoreError::Io {
        action: "create",
        path: to.to_owned(),
        source: error,
    };
    let file = disk.create_new(&draft, 0o644).map_err(io)?;
    let copied = store.blobs.copy_into(blob, &file).and_then(|is_hit| {
        if is_hit {
            disk.chmod_file(&file, 0o644)?;
            disk.rename(&draft, to)?;
        }
        Ok(is_hit)
    });
    if !matches!(copied, Ok(true)) {
        let _ = disk.remove_file(&draft);
    }
    copied.map_err(io)
}
