//! The parts of an open cache, and looking records up.

use std::collections::{HashMap, HashSet};
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, RwLock};
use std::time::SystemTime;

use crate::blob::Blobs;
use crate::catalog::Catalog;
use crate::commit::Queue;
use crate::disk::Disk;
use crate::disk::fault::Faults;
use crate::error::{OpenError, StoreError};
use crate::format::{self, Entry, State};
use crate::home::{Access, Home};
use crate::record::{Conflict, Place, Record, Side};
use crate::segment::Segments;
use crate::uses::Uses;
use crate::{Durability, Options};

/// So often a look-up begins again when other processes supersede what it found.
const TRIES: usize = 4;

/// The most bytes that the list of marks may have.
const MAX_MARKS: u64 = 64 << 20;

/// What tests put in place of the file system and the clock.
#[derive(Clone, Default)]
pub struct Hooks {
    /// Faults of the file system.
    pub faults: Option<Arc<Faults>>,
    /// The clock, in milliseconds since 1970.
    pub clock: Option<Clock>,
}

/// A clock, in milliseconds since 1970.
pub type Clock = Arc<dyn Fn() -> u64 + Send + Sync>;

/// An open cache, without the bookkeeping of its handles.
pub(crate) struct Store {
    pub(crate) home: Arc<Home>,
    pub(crate) segments: Segments,
    pub(crate) blobs: Blobs,
    pub(crate) options: Options,
    pub(crate) uses: Uses,
    catalog: Mutex<Catalog>,
    pub(crate) queue: Mutex<Queue>,
    pub(crate) wake: Condvar,
    pub(crate) committing: Mutex<()>,
    /// Held for reading by everything but upkeep.
    pub(crate) gate: RwLock<()>,
    clock: Clock,
}

impl Store {
    pub(crate) fn open(
        dir: &std::path::Path,
        options: Options,
        hooks: Hooks,
    ) -> Result<Store, OpenError> {
        let disk = hooks.faults.map(Disk::with_faults).unwrap_or_default();
        let home = Arc::new(Home::open(dir, disk)?);
        Ok(Store {
            segments: Segments::new(home.disk.clone(), home.key.clone(), home.path("records")),
            blobs: Blobs::new(home.clone()),
            uses: Uses::default(),
            home,
            options,
            catalog: Mutex::default(),
            queue: Mutex::default(),
            wake: Condvar::new(),
            committing: Mutex::default(),
            gate: RwLock::default(),
            clock: hooks.clock.unwrap_or_else(|| Arc::new(system_clock)),
        })
    }

    pub(crate) fn now_ms(&self) -> u64 {
        (self.clock)()
    }

    pub(crate) fn is_foreign(&self) -> bool {
        matches!(self.home.access, Access::Foreign(_))
    }

    /// Returns the catalog as it is, perhaps not yet loaded.
    pub(crate) fn catalog(&self) -> MutexGuard<'_, Catalog> {
        self.catalog.lock().expect("no holder panics")
    }

    /// Returns the catalog with everything in it.
    pub(crate) fn loaded(&self) -> MutexGuard<'_, Catalog> {
        let mut catalog = self.catalog();
        catalog.load(&self.home, &self.segments);
        catalog
    }

    /// Stores what waits and leaves the cache ready for the next process.
    pub(crate) fn close(&self) {
        if self.home.access != Access::Full {
            return;
        }
        // A fault was told as a notice.
        let _ = self.commit();
        self.uses.write(&self.home, self.now_ms());
        let mut catalog = self.catalog();
        if catalog.wants_index() {
            catalog.load(&self.home, &self.segments);
            // It is rebuilt where it is missing.
            let _ = catalog.write_index(&self.home, &self.segments);
        }
    }

    pub(crate) fn by_key(&self, key: &[u8; 32]) -> Vec<Record> {
        let (mut found, mut is_stale) = self.try_by_key(key);
        for _ in 0..TRIES {
            if is_stale {
                // Another process superseded a record by one that is not in the catalog yet.
                self.loaded().refresh(&self.segments);
                (found, is_stale) = self.try_by_key(key);
            }
        }
        found.sort_by(newest_first);
        found
    }

    /// Notes that a record was of use, so that it is among the last that go.
    pub(crate) fn note_used(&self, place: Place) {
        self.uses.note(place);
    }

    /// Returns what counts, and whether a record was found superseded meanwhile.
    fn try_by_key(&self, key: &[u8; 32]) -> (Vec<Record>, bool) {
        let entries = self.loaded().of_key(&format::prefix(key));
        let mut found = Vec::new();
        let mut is_stale = false;
        for group in groups(entries) {
            for (n, entry) in group.iter().enumerate() {
                let read = self.read(entry.place);
                // Those that can never count again, however the one that took their place fares.
                let rest = group[n + 1..]
                    .iter()
                    .filter(|other| other.born != entry.born);
                let elder = rest.filter(|elder| match read {
                    Read::Live(_) => true,
                    _ => elder.stored_at_ms <= entry.stored_at_ms,
                });
                let elder: Vec<Place> = elder.map(|elder| elder.place).collect();
                match read {
                    Read::Live(record) if record.key == *key => {
                        if record.supersedes && !elder.is_empty() && !self.is_pending(entry.place) {
                            // A writer that was killed between record and mark left this to do.
                            self.mark(&elder, State::Superseded);
                        }
                        found.push(record);
                        break;
                    }
                    Read::Damaged if entry.supersedes && !elder.is_empty() => {
                        self.mark(&elder, State::Superseded);
                        break;
                    }
                    Read::Dead(State::Superseded) => is_stale = true,
                    Read::Live(_) | Read::Damaged | Read::Dead(_) => {}
                }
            }
        }
        (found, is_stale)
    }

    pub(crate) fn by_lineage(&self, lineage: &[u8; 32]) -> Vec<Record> {
        let entries = self.loaded().of_lineage(&format::prefix(lineage));
        let mut found = self.read_all(&entries);
        found.retain(|record| record.lineage == *lineage);
        found.sort_by(newest_first);
        found
    }

    pub(crate) fn has_places(&self, places: &[Place]) -> bool {
        if self.is_foreign() {
            return false;
        }
        let Some(marked) = self.marked() else {
            return false;
        };
        let mut last: Option<(u64, u64)> = None;
        let mut lengths: HashMap<u64, u64> = HashMap::new();
        for place in places {
            let len = match last {
                Some((segment, len)) if segment == place.segment => len,
                _ => {
                    let len = match lengths.get(&place.segment) {
                        Some(len) => *len,
                        None => {
                            let Some(len) = self.segments.len(place.segment) else {
                                return false;
                            };
                            lengths.insert(place.segment, len);
                            len
                        }
                    };
                    last = Some((place.segment, len));
                    len
                }
            };
            let end = place.offset.saturating_add(u64::from(place.len));
            if end > len || (!marked.is_empty() && marked.contains(&(place.segment, place.offset)))
            {
                return false;
            }
        }
        self.uses.note_set(places);
        true
    }

    pub(crate) fn drop_record(&self, place: Place) -> Result<(), StoreError> {
        self.home.writable()?;
        if self.is_pending(place) {
            self.commit()?;
        }
        let mut places = vec![place];
        if let Some((_, record)) = self.segments.read(place) {
            let (key, action) = (format::prefix(&record.key), format::prefix(&record.action));
            let same = self.loaded().of_action(&key, &action);
            let own = same.iter().find(|entry| entry.place == place);
            let copies = same
                .iter()
                .filter(|entry| own.is_some_and(|own| entry.born == own.born));
            places.extend(copies.map(|entry| entry.place));
        }
        self.try_mark(&places, State::Dropped)
    }

    pub(crate) fn conflicts(&self) -> Vec<Conflict> {
        let mut actions: HashMap<_, Vec<Entry>> = HashMap::new();
        let all = self.loaded().all();
        for entry in all {
            actions
                .entry((entry.action, entry.kind))
                .or_default()
                .push(entry);
        }
        let mut conflicts = Vec::new();
        for entries in actions.into_values() {
            if entries
                .iter()
                .all(|entry| entry.output == entries[0].output)
            {
                continue;
            }
            let mut records = self.read_all(&entries);
            records.sort_by(|one, other| newest_first(other, one));
            let Some(first) = records.first() else {
                continue;
            };
            if records.iter().all(|record| record.output == first.output) {
                continue;
            }
            conflicts.push(Conflict {
                key: first.key,
                action: first.action,
                lineage: first.lineage,
                kind: first.kind,
                sides: records
                    .iter()
                    .map(|record| Side {
                        output: record.output,
                        place: record.place,
                        stored_at_ms: record.stored_at_ms,
                    })
                    .collect(),
            });
        }
        conflicts.sort_by_key(|conflict| (conflict.sides[0].stored_at_ms, conflict.action));
        conflicts
    }

    /// Marks records as dead; a mark that cannot be made is made by the next look-up.
    pub(crate) fn mark(&self, places: &[Place], state: State) {
        let _ = self.try_mark(places, state);
    }

    /// Returns the records that were marked dead since the last compaction, or nothing if the list
    /// of them is damaged.
    fn marked(&self) -> Option<HashSet<(u64, u64)>> {
        let bytes = match self
            .home
            .disk
            .read_small(&self.home.path("marks"), MAX_MARKS)
        {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Some([].into()),
            Err(_) => return None,
        };
        let mut marked = HashSet::new();
        for piece in bytes.chunks(24) {
            let mut reader = format::Reader(piece);
            let (segment, offset) = (reader.u64()?, reader.u64()?);
            if reader.u64()? != mark_check(segment, offset) {
                return None;
            }
            marked.insert((segment, offset));
        }
        Some(marked)
    }

    fn try_mark(&self, places: &[Place], state: State) -> Result<(), StoreError> {
        self.home.writable()?;
        // What is not on disk yet is marked by whoever finds it there.
        let mut places = places.to_vec();
        places.retain(|place| !self.is_pending(*place));
        places.sort_unstable();
        let listed = self.list_marks(&places);
        for places in places.chunk_by(|one, other| one.segment == other.segment) {
            let segment = places[0].segment;
            for place in places {
                self.catalog().bury(*place, state);
            }
            match self.segments.mark(segment, places, state) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(StoreError::io("mark", &self.segments.path(segment), error));
                }
                _ => {}
            }
        }
        listed.map_err(|error| StoreError::io("write", &self.home.path("marks"), error))
    }

    /// Adds to the list that `has_places` reads.
    fn list_marks(&self, places: &[Place]) -> io::Result<()> {
        let disk = &self.home.disk;
        let path = self.home.path("marks");
        let mut bytes = Vec::with_capacity(places.len() * 24);
        for place in places {
            bytes.extend(place.segment.to_le_bytes());
            bytes.extend(place.offset.to_le_bytes());
            bytes.extend(mark_check(place.segment, place.offset).to_le_bytes());
        }
        let opened = disk.open_append(&path).or_else(|error| {
            if disk.stat(&path).is_ok_and(|metadata| metadata.is_file()) {
                return Err(error);
            }
            self.home.set_damaged_aside(&path);
            disk.open_append(&path)
        });
        let (file, _) = opened?;
        disk.append(&file, &bytes)?;
        match self.options.durability {
            Durability::Durable => disk.sync(&file),
            Durability::Fast => Ok(()),
        }
    }

    fn pending(&self, place: Place) -> Option<Record> {
        self.catalog().pending(place).cloned()
    }

    fn is_pending(&self, place: Place) -> bool {
        self.catalog().pending(place).is_some()
    }

    /// Reads a record; one that does not count is not looked for again.
    fn read(&self, place: Place) -> Read {
        if let Some(record) = self.pending(place) {
            return Read::Live(record);
        }
        match self.segments.read(place) {
            Some((State::Live, record)) => Read::Live(record),
            Some((state, _)) => {
                self.catalog().bury(place, state);
                Read::Dead(state)
            }
            None => {
                let path = self.segments.path(place.segment);
                self.home.notice(crate::Notice::Damaged { path });
                self.catalog().bury(place, State::Dropped);
                Read::Damaged
            }
        }
    }

    /// Reads records that may be superseded, each once however many copies it has.
    fn read_all(&self, entries: &[Entry]) -> Vec<Record> {
        let mut born = HashSet::new();
        let mut records = Vec::new();
        for entry in entries {
            if !born.contains(&entry.born)
                && let Some(record) = self.read_undropped(entry.place)
            {
                born.insert(entry.born);
                records.push(record);
            }
        }
        records
    }

    /// Reads a record that may be superseded.
    fn read_undropped(&self, place: Place) -> Option<Record> {
        if let Some(record) = self.pending(place) {
            return Some(record);
        }
        let (state, record) = self.segments.read(place)?;
        let is_superseded = state == State::Superseded;
        (state != State::Dropped).then_some(Record {
            is_superseded,
            ..record
        })
    }
}

/// What reading a record gave.
#[expect(clippy::large_enum_variant, reason = "it is taken apart at once")]
enum Read {
    /// It counts.
    Live(Record),
    /// It was superseded or dropped.
    Dead(State),
    /// Its bytes are not what was written.
    Damaged,
}

/// Groups the entries of one key by action and kind, each group with the entry that counts first.
fn groups(mut entries: Vec<Entry>) -> Vec<Vec<Entry>> {
    entries.sort_by_key(|entry| {
        let age = (entry.stored_at_ms, entry.place.segment, entry.place.offset);
        // The newest that supersedes, else the first stored.
        let (rank, age) = match entry.supersedes {
            true => (0, (u64::MAX - age.0, u64::MAX - age.1, u64::MAX - age.2)),
            false => (1, age),
        };
        (entry.action, entry.kind, rank, age)
    });
    let mut groups: Vec<Vec<Entry>> = Vec::new();
    for entry in entries {
        match groups.last_mut() {
            Some(group) if (group[0].action, group[0].kind) == (entry.action, entry.kind) => {
                group.push(entry);
            }
            _ => groups.push(vec![entry]),
        }
    }
    groups
}

fn newest_first(one: &Record, other: &Record) -> std::cmp::Ordering {
    let age = |record: &Record| {
        (
            record.stored_at_ms,
            record.place.segment,
            record.place.offset,
        )
    };
    age(other).cmp(&age(one))
}

fn mark_check(segment: u64, offset: u64) -> u64 {
    let mut bytes = *b"aebuild-mark\0\0\0\0................";
    bytes[16..24].copy_from_slice(&segment.to_le_bytes());
    bytes[24..].copy_from_slice(&offset.to_le_bytes());
    let digest = blake3::hash(&bytes);
    u64::from_le_bytes(digest.as_bytes()[..8].try_into().expect("8 of 32 bytes"))
}

fn system_clock() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.map_or(0, |now| now.as_millis() as u64)
}
