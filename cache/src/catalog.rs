//! What is known of all records, without their payloads.
//!
//! The index file gives most of it in one read; what was appended since is scanned from the segments
//! and kept beside it in memory. The catalog only tells where to look: whoever answers a look-up
//! reads the record itself and checks it.

use std::collections::{HashMap, HashSet};
use std::io;

use crate::format::{self, Entry, IndexBytes, MAX_INDEX, Prefix, SegmentHeader, State};
use crate::home::{Access, Home, Sync};
use crate::record::{Place, Record};
use crate::segment::Segments;

/// So many records may be scanned from segments before the index is written anew.
const UNINDEXED: usize = 256;

/// So many segments may be scanned before the index is written anew.
const UNINDEXED_SEGMENTS: usize = 32;

/// All entries, from the index and from memory.
#[derive(Default)]
pub(crate) struct Catalog {
    is_loaded: bool,
    base: Option<IndexBytes>,
    /// How far each segment is known.
    covered: HashMap<u64, u64>,
    /// How long each segment is.
    lengths: HashMap<u64, u64>,
    /// Segments that this process writes.
    mine: HashSet<u64>,
    fresh: Vec<Entry>,
    by_key: HashMap<Prefix, Vec<u32>>,
    by_lineage: HashMap<Prefix, Vec<u32>>,
    by_action: HashMap<Prefix, Vec<u32>>,
    dead: HashMap<Place, State>,
    pending: HashMap<Place, Record>,
    n_damaged: u64,
}

impl Catalog {
    /// Reads the index and what it does not cover, once.
    pub(crate) fn load(&mut self, home: &Home, segments: &Segments) {
        if self.is_loaded || matches!(home.access, Access::Foreign(_)) {
            return;
        }
        self.is_loaded = true;
        let path = home.path("index");
        match home.disk.read_small(&path, MAX_INDEX) {
            Ok(bytes) => {
                self.base = IndexBytes::read(segments.key(), bytes);
                if self.base.is_none() {
                    home.set_damaged_aside(&path);
                }
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(_) => home.set_damaged_aside(&path),
        }
        for (segment, covered) in self.base.iter().flat_map(|base| &base.segments) {
            self.covered.entry(*segment).or_insert(*covered);
        }
        self.refresh(segments);
    }

    /// Scans what other processes have appended since.
    pub(crate) fn refresh(&mut self, segments: &Segments) {
        if !self.is_loaded {
            return;
        }
        let listed = segments.list().unwrap_or_default();
        self.lengths = listed.iter().copied().collect();
        for (segment, len) in listed {
            let from = self.covered.get(&segment).copied().unwrap_or(0);
            if self.mine.contains(&segment) || len <= from {
                continue;
            }
            let mut found = Vec::new();
            let scan = segments.scan(segment, from, |place, state, body| {
                found.push((body.entry(place, state), state));
            });
            for (entry, state) in found {
                self.push(entry);
                if state == State::Dropped {
                    self.dead.insert(entry.place, state);
                }
            }
            if let Ok(scan) = scan
                && scan.header == SegmentHeader::Ours
            {
                self.n_damaged += scan.n_damaged;
                self.covered.insert(segment, scan.end);
            }
        }
    }

    /// Adds a record of this process, which is read from memory until it is on disk.
    pub(crate) fn add(&mut self, entry: Entry, record: Record) {
        self.mine.insert(entry.place.segment);
        let end = entry.place.offset + u64::from(entry.place.len);
        self.covered.insert(entry.place.segment, end);
        self.pending.insert(entry.place, record);
        self.push(entry);
    }

    /// Notes that a record of this process is on disk.
    pub(crate) fn settle(&mut self, place: Place) {
        self.pending.remove(&place);
    }

    /// Notes that a record does not count any more.
    pub(crate) fn bury(&mut self, place: Place, state: State) {
        self.pending.remove(&place);
        self.dead.insert(place, state);
    }

    pub(crate) fn pending(&self, place: Place) -> Option<&Record> {
        self.pending.get(&place)
    }

    /// Tells whether this process wrote the segment.
    pub(crate) fn is_mine(&self, segment: u64) -> bool {
        self.mine.contains(&segment)
    }

    /// Returns the entries of a key that may count.
    pub(crate) fn of_key(&self, key: &Prefix) -> Vec<Entry> {
        let base = self
            .base
            .as_ref()
            .map(|base| base.of_key(key))
            .unwrap_or_default();
        self.live(base, self.by_key.get(key))
    }

    /// Returns the entries of one action of a key that may count.
    pub(crate) fn of_action(&self, key: &Prefix, action: &Prefix) -> Vec<Entry> {
        let base = self.base.as_ref().map(|base| base.of_action(key, action));
        let mut entries = self.live(base.unwrap_or_default(), self.by_action.get(action));
        entries.retain(|entry| entry.key == *key);
        entries
    }

    /// Returns the entries of a lineage, superseded ones too.
    pub(crate) fn of_lineage(&self, lineage: &Prefix) -> Vec<Entry> {
        let base = self.base.as_ref().map(|base| base.of_lineage(lineage));
        let mut entries = self.with_fresh(base.unwrap_or_default(), self.by_lineage.get(lineage));
        entries.retain(|entry| self.dead.get(&entry.place) != Some(&State::Dropped));
        entries
    }

    /// Returns every entry, superseded ones too, but no dropped ones.
    pub(crate) fn all(&self) -> Vec<Entry> {
        let base = self
            .base
            .iter()
            .flat_map(|base| (0..base.len()).map(|n| base.entry(n)));
        base.filter(|entry| self.is_there(&entry.place))
            .chain(
                self.fresh
                    .iter()
                    .copied()
                    .filter(|entry| self.is_there(&entry.place)),
            )
            .filter_map(|mut entry| {
                match self.dead.get(&entry.place) {
                    Some(State::Dropped) => return None,
                    Some(State::Superseded) => entry.is_superseded = true,
                    Some(State::Live) | None => {}
                }
                Some(entry)
            })
            .collect()
    }

    /// Returns how many entries there are, roughly, and how many segments.
    pub(crate) fn count(&self) -> (usize, usize) {
        let n_base = self.base.as_ref().map_or(0, IndexBytes::len);
        (
            n_base + self.fresh.len(),
            self.lengths.len().max(self.mine.len()),
        )
    }

    /// Tells how many damaged pieces were passed over.
    pub(crate) fn n_damaged(&self) -> u64 {
        self.n_damaged
    }

    /// Tells whether so much is not in the index that it should be written anew.
    pub(crate) fn wants_index(&self) -> bool {
        let n_base = self.base.as_ref().map_or(0, IndexBytes::len);
        let n_segments = self.base.as_ref().map_or(0, |base| base.segments.len());
        self.fresh.len() > UNINDEXED.max(n_base / 8)
            || self.lengths.len() > n_segments + UNINDEXED_SEGMENTS
    }

    /// Writes the index file.
    pub(crate) fn write_index(&self, home: &Home, segments: &Segments) -> io::Result<()> {
        let mut entries = self.all();
        entries.retain(|entry| !self.pending.contains_key(&entry.place));
        let mut covered: Vec<(u64, u64)> = self
            .covered
            .iter()
            .filter(|(segment, _)| {
                self.lengths.contains_key(segment) || self.mine.contains(segment)
            })
            .map(|(segment, end)| (*segment, *end))
            .collect();
        covered.sort_unstable();
        let bytes = format::write_index(segments.key(), &covered, &mut entries);
        home.put_in_place("index", &bytes, Sync::Never)
    }

    fn live(&self, base: Vec<Entry>, fresh: Option<&Vec<u32>>) -> Vec<Entry> {
        let mut entries = self.with_fresh(base, fresh);
        entries.retain(|entry| !entry.is_superseded && !self.dead.contains_key(&entry.place));
        entries
    }

    fn with_fresh(&self, mut entries: Vec<Entry>, fresh: Option<&Vec<u32>>) -> Vec<Entry> {
        entries.extend(fresh.into_iter().flatten().map(|n| self.fresh[*n as usize]));
        entries.retain(|entry| self.is_there(&entry.place));
        entries
    }

    fn is_there(&self, place: &Place) -> bool {
        let end = place.offset.saturating_add(u64::from(place.len));
        self.mine.contains(&place.segment)
            || self
                .lengths
                .get(&place.segment)
                .is_some_and(|len| end <= *len)
    }

    fn push(&mut self, entry: Entry) {
        let n = self.fresh.len() as u32;
        self.fresh.push(entry);
        self.by_key.entry(entry.key).or_default().push(n);
        self.by_lineage.entry(entry.lineage).or_default().push(n);
        self.by_action.entry(entry.action).or_default().push(n);
    }
}
