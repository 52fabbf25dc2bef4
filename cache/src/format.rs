//! The bytes on disk: segment headers, frames, record bodies and the index.
//!
//! All numbers are little-endian. A frame's MAC binds its bytes to its segment and its offset, so
//! bytes that were damaged, moved or copied from elsewhere are not a frame. One byte of a frame is
//! outside the MAC: its state, which is changed in place from live to superseded or dropped and can
//! never be changed back by a single damaged bit.
//!
//! Version log: 1, the first.

use std::collections::HashMap;
use std::sync::Arc;

use crate::record::{BlobId, BlobRef, NewRecord, Place, Record};

/// Version of everything on disk.
pub(crate) const VERSION: u32 = 1;

/// Bytes of a segment's header.
pub(crate) const SEGMENT_HEADER: u64 = 48;
/// Bytes of a frame before its body.
pub(crate) const FRAME_HEADER: usize = 28;
/// Where in a frame its state is.
pub(crate) const STATE_AT: u64 = 8;
/// The most bytes that the body of a frame may have.
pub(crate) const MAX_BODY: usize = 64 << 20;
/// First bytes of a frame.
pub(crate) const FRAME_MAGIC: [u8; 4] = [0xae, 0xb1, 0xf5, 0x0d];

const SEGMENT_MAGIC: &[u8; 8] = b"AEBSEG\r\n";
const INDEX_MAGIC: &[u8; 8] = b"AEBIDX\r\n";
const INDEX_HEADER: usize = 40;
const INDEX_SEGMENT: usize = 16;
/// Bytes of one entry of the index.
pub(crate) const INDEX_ENTRY: usize = 100;
/// The most bytes that an index file may have.
pub(crate) const MAX_INDEX: u64 = 2 << 30;

/// The key of all MACs of a cache.
#[derive(Clone)]
pub(crate) struct MacKey(pub(crate) [u8; 32]);

impl MacKey {
    fn mac(&self, parts: &[&[u8]]) -> [u8; 16] {
        let mut hasher = blake3::Hasher::new_keyed(&self.0);
        for part in parts {
            hasher.update(part);
        }
        let mut mac = [0; 16];
        mac.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
        mac
    }
}

/// Whether a record counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    /// It counts.
    Live,
    /// A later record of the same action took its place.
    Superseded,
    /// It was found to be of no use.
    Dropped,
}

impl State {
    pub(crate) fn byte(self) -> u8 {
        match self {
            State::Live => 0,
            State::Superseded => 0x5a,
            State::Dropped => 0xff,
        }
    }

    fn of(byte: u8) -> State {
        match byte {
            0 => State::Live,
            0x5a => State::Superseded,
            _ => State::Dropped,
        }
    }
}

/// What a header says about its segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SegmentHeader {
    /// A segment of this version.
    Ours,
    /// A segment of a newer version.
    Newer,
    /// No segment of this cache.
    Damaged,
}

pub(crate) fn segment_header(key: &MacKey, segment: u64, made_at_ms: u64) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(SEGMENT_HEADER as usize);
    bytes.extend(SEGMENT_MAGIC);
    bytes.extend(VERSION.to_le_bytes());
    bytes.extend([0; 4]);
    bytes.extend(segment.to_le_bytes());
    bytes.extend(made_at_ms.to_le_bytes());
    let mac = key.mac(&[&bytes]);
    bytes.extend(mac);
    bytes
}

pub(crate) fn read_segment_header(key: &MacKey, segment: u64, bytes: &[u8]) -> SegmentHeader {
    if bytes.len() < SEGMENT_HEADER as usize || &bytes[..8] != SEGMENT_MAGIC {
        return SegmentHeader::Damaged;
    }
    let version = u32::from_le_bytes(array(&bytes[8..12]));
    if version > VERSION && version < 1 << 16 {
        return SegmentHeader::Newer;
    }
    let is_ours = version == VERSION
        && bytes[16..24] == segment.to_le_bytes()
        && key.mac(&[&bytes[..32]]) == bytes[32..48];
    if is_ours {
        SegmentHeader::Ours
    } else {
        SegmentHeader::Damaged
    }
}

/// Appends the frame of a record, which will lie at `offset` of `segment`; returns its length.
pub(crate) fn write_frame(
    key: &MacKey,
    segment: u64,
    offset: u64,
    state: State,
    body: &[u8],
    out: &mut Vec<u8>,
) -> u32 {
    out.extend(FRAME_MAGIC);
    out.extend((body.len() as u32).to_le_bytes());
    out.extend([state.byte(), 1, 0, 0]);
    out.extend(frame_mac(key, segment, offset, 1, body));
    out.extend(body);
    (FRAME_HEADER + body.len()) as u32
}

/// Returns the length of the frame that begins with these bytes, if they may be one.
pub(crate) fn frame_len(header: &[u8]) -> Option<usize> {
    if header.len() < FRAME_HEADER || header[..4] != FRAME_MAGIC || header[9..12] != [1, 0, 0] {
        return None;
    }
    let body = u32::from_le_bytes(array(&header[4..8])) as usize;
    (body <= MAX_BODY).then_some(FRAME_HEADER + body)
}

/// Returns state and body of a whole frame, if its MAC is right.
pub(crate) fn read_frame<'a>(
    key: &MacKey,
    segment: u64,
    offset: u64,
    frame: &'a [u8],
) -> Option<(State, &'a [u8])> {
    if frame_len(frame)? != frame.len() {
        return None;
    }
    let body = &frame[FRAME_HEADER..];
    let is_right = frame_mac(key, segment, offset, frame[9], body) == frame[12..28];
    is_right.then(|| (State::of(frame[8]), body))
}

fn frame_mac(key: &MacKey, segment: u64, offset: u64, kind: u8, body: &[u8]) -> [u8; 16] {
    let mut head = [0; 21];
    head[..8].copy_from_slice(&segment.to_le_bytes());
    head[8..16].copy_from_slice(&offset.to_le_bytes());
    head[16..20].copy_from_slice(&(body.len() as u32).to_le_bytes());
    head[20] = kind;
    key.mac(&[&head, body])
}

/// Where in a body it says when the record was used last.
pub(crate) const USED_AT: std::ops::Range<usize> = 8..16;

/// Returns the body of a record; `born` is a number that only it and its copies have.
pub(crate) fn write_body(record: &NewRecord, stored_at_ms: u64, born: u64) -> Vec<u8> {
    let refs = record.blobs.len() + record.trees.len();
    let mut body = Vec::with_capacity(160 + refs * 40 + record.payload.len());
    body.extend(stored_at_ms.to_le_bytes());
    body.extend(stored_at_ms.to_le_bytes());
    body.extend(born.to_le_bytes());
    body.push(u8::from(record.supersedes) | u8::from(record.paid) << 1);
    body.push(record.kind);
    body.extend(record.key);
    body.extend(record.action);
    body.extend(record.lineage);
    body.extend(record.output);
    for blobs in [&record.blobs, &record.trees] {
        body.extend((blobs.len() as u32).to_le_bytes());
        for blob in blobs {
            body.extend(blob.id.as_bytes());
            body.extend(blob.size.to_le_bytes());
        }
    }
    body.extend((record.payload.len() as u32).to_le_bytes());
    body.extend(&record.payload);
    body
}

/// What a body says, with the payload still in place.
#[derive(Clone, Debug)]
pub(crate) struct Body<'a> {
    pub(crate) stored_at_ms: u64,
    pub(crate) used_at_ms: u64,
    pub(crate) born: u64,
    pub(crate) supersedes: bool,
    pub(crate) paid: bool,
    pub(crate) kind: u8,
    pub(crate) key: [u8; 32],
    pub(crate) action: [u8; 32],
    pub(crate) lineage: [u8; 32],
    pub(crate) output: [u8; 32],
    pub(crate) blobs: Vec<BlobRef>,
    pub(crate) trees: Vec<BlobRef>,
    pub(crate) payload: &'a [u8],
}

impl Body<'_> {
    pub(crate) fn record(self, place: Place) -> Record {
        Record {
            key: self.key,
            action: self.action,
            lineage: self.lineage,
            output: self.output,
            kind: self.kind,
            supersedes: self.supersedes,
            paid: self.paid,
            stored_at_ms: self.stored_at_ms,
            payload: Arc::from(self.payload),
            blobs: self.blobs,
            trees: self.trees,
            place,
            is_superseded: false,
        }
    }

    pub(crate) fn entry(&self, place: Place, state: State) -> Entry {
        Entry {
            key: prefix(&self.key),
            action: prefix(&self.action),
            lineage: prefix(&self.lineage),
            output: prefix(&self.output),
            stored_at_ms: self.stored_at_ms,
            born: self.born,
            place,
            kind: self.kind,
            supersedes: self.supersedes,
            is_superseded: state != State::Live,
        }
    }
}

pub(crate) fn read_body(body: &[u8]) -> Option<Body<'_>> {
    let mut reader = Reader(body);
    let stored_at_ms = reader.u64()?;
    let used_at_ms = reader.u64()?;
    let born = reader.u64()?;
    let flags = reader.u8()?;
    if flags > 3 {
        return None;
    }
    let kind = reader.u8()?;
    let (key, action) = (reader.array()?, reader.array()?);
    let (lineage, output) = (reader.array()?, reader.array()?);
    let (blobs, trees) = (reader.blobs()?, reader.blobs()?);
    let len = reader.u32()? as usize;
    let payload = reader.take(len)?;
    if !reader.0.is_empty() {
        return None;
    }
    Some(Body {
        stored_at_ms,
        used_at_ms,
        born,
        supersedes: flags & 1 != 0,
        paid: flags & 2 != 0,
        kind,
        key,
        action,
        lineage,
        output,
        blobs,
        trees,
        payload,
    })
}

/// The first half of a digest.
pub(crate) type Prefix = [u8; 16];

pub(crate) fn prefix(digest: &[u8; 32]) -> Prefix {
    array(&digest[..16])
}

/// What the index says about one record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Entry {
    pub(crate) key: Prefix,
    pub(crate) action: Prefix,
    pub(crate) lineage: Prefix,
    pub(crate) output: Prefix,
    pub(crate) stored_at_ms: u64,
    /// The same for a record and for its copies, which a killed compaction leaves behind.
    pub(crate) born: u64,
    pub(crate) place: Place,
    pub(crate) kind: u8,
    pub(crate) supersedes: bool,
    pub(crate) is_superseded: bool,
}

/// Returns the bytes of an index of these entries, which cover the segments up to these lengths.
pub(crate) fn write_index(key: &MacKey, segments: &[(u64, u64)], entries: &mut [Entry]) -> Vec<u8> {
    entries.sort_unstable_by_key(|entry| (entry.key, entry.action, entry.place));
    let len = INDEX_HEADER + segments.len() * INDEX_SEGMENT + entries.len() * (INDEX_ENTRY + 4);
    let mut bytes = Vec::with_capacity(len);
    bytes.extend(INDEX_MAGIC);
    bytes.extend(VERSION.to_le_bytes());
    bytes.extend((segments.len() as u32).to_le_bytes());
    bytes.extend((entries.len() as u32).to_le_bytes());
    bytes.extend([0; 20]);
    for (segment, covered) in segments {
        bytes.extend(segment.to_le_bytes());
        bytes.extend(covered.to_le_bytes());
    }
    let numbers: HashMap<u64, u32> = segments
        .iter()
        .enumerate()
        .map(|(n, (segment, _))| (*segment, n as u32))
        .collect();
    for entry in entries.iter() {
        let segment = numbers.get(&entry.place.segment);
        let segment = *segment.expect("bug: an entry lies in a segment that is not listed");
        bytes.extend(entry.key);
        bytes.extend(entry.action);
        bytes.extend(entry.lineage);
        bytes.extend(entry.output);
        bytes.extend(entry.stored_at_ms.to_le_bytes());
        bytes.extend(entry.place.offset.to_le_bytes());
        bytes.extend(segment.to_le_bytes());
        bytes.extend(entry.place.len.to_le_bytes());
        bytes.extend([
            entry.kind,
            u8::from(entry.supersedes) | u8::from(entry.is_superseded) << 1,
            0,
            0,
        ]);
        bytes.extend(entry.born.to_le_bytes());
    }
    let mut by_lineage: Vec<u32> = (0..entries.len() as u32).collect();
    by_lineage.sort_by_key(|n| entries[*n as usize].lineage);
    for n in by_lineage {
        bytes.extend(n.to_le_bytes());
    }
    let mac = key.mac(&[&bytes[..24], &bytes[INDEX_HEADER..]]);
    bytes[24..40].copy_from_slice(&mac);
    bytes
}

/// An index as it was read, searched in place.
pub(crate) struct IndexBytes {
    bytes: Vec<u8>,
    pub(crate) segments: Vec<(u64, u64)>,
    n_entries: usize,
}

impl IndexBytes {
    /// Returns the index, if every bit of it is as it was written.
    pub(crate) fn read(key: &MacKey, bytes: Vec<u8>) -> Option<IndexBytes> {
        if bytes.len() < INDEX_HEADER || &bytes[..8] != INDEX_MAGIC {
            return None;
        }
        let version = u32::from_le_bytes(array(&bytes[8..12]));
        let n_segments = u32::from_le_bytes(array(&bytes[12..16])) as usize;
        let n_entries = u32::from_le_bytes(array(&bytes[16..20])) as usize;
        let len = INDEX_HEADER + n_segments * INDEX_SEGMENT + n_entries * (INDEX_ENTRY + 4);
        if version != VERSION
            || bytes.len() != len
            || key.mac(&[&bytes[..24], &bytes[INDEX_HEADER..]]) != bytes[24..40]
        {
            return None;
        }
        let mut reader = Reader(&bytes[INDEX_HEADER..]);
        let mut segments = Vec::with_capacity(n_segments);
        for _ in 0..n_segments {
            segments.push((reader.u64()?, reader.u64()?));
        }
        Some(IndexBytes {
            bytes,
            segments,
            n_entries,
        })
    }

    pub(crate) fn len(&self) -> usize {
        self.n_entries
    }

    pub(crate) fn entry(&self, n: usize) -> Entry {
        let at = self.entries_at() + n * INDEX_ENTRY;
        let bytes = &self.bytes[at..at + INDEX_ENTRY];
        let segment = u32::from_le_bytes(array(&bytes[80..84])) as usize;
        Entry {
            key: array(&bytes[..16]),
            action: array(&bytes[16..32]),
            lineage: array(&bytes[32..48]),
            output: array(&bytes[48..64]),
            stored_at_ms: u64::from_le_bytes(array(&bytes[64..72])),
            place: Place {
                segment: self
                    .segments
                    .get(segment)
                    .map_or(0, |(segment, _)| *segment),
                offset: u64::from_le_bytes(array(&bytes[72..80])),
                len: u32::from_le_bytes(array(&bytes[84..88])),
            },
            born: u64::from_le_bytes(array(&bytes[92..100])),
            kind: bytes[88],
            supersedes: bytes[89] & 1 != 0,
            is_superseded: bytes[89] & 2 != 0,
        }
    }

    pub(crate) fn of_key(&self, key: &Prefix) -> Vec<Entry> {
        let at = self.entries_at();
        let key_of = |n: usize| &self.bytes[at + n * INDEX_ENTRY..][..16];
        let first = lower_bound(self.n_entries, |n| key_of(n) < &key[..]);
        (first..self.n_entries)
            .take_while(|n| key_of(*n) == key)
            .map(|n| self.entry(n))
            .collect()
    }

    pub(crate) fn of_action(&self, key: &Prefix, action: &Prefix) -> Vec<Entry> {
        let at = self.entries_at();
        let wanted = [*key, *action].concat();
        let both_of = |n: usize| &self.bytes[at + n * INDEX_ENTRY..][..32];
        let first = lower_bound(self.n_entries, |n| both_of(n) < &wanted[..]);
        (first..self.n_entries)
            .take_while(|n| both_of(*n) == wanted)
            .map(|n| self.entry(n))
            .collect()
    }

    pub(crate) fn of_lineage(&self, lineage: &Prefix) -> Vec<Entry> {
        let order = self.entries_at() + self.n_entries * INDEX_ENTRY;
        let nth = |n: usize| {
            let n = u32::from_le_bytes(array(&self.bytes[order + n * 4..][..4])) as usize;
            n.min(self.n_entries.saturating_sub(1))
        };
        let first = lower_bound(self.n_entries, |n| self.entry(nth(n)).lineage < *lineage);
        (first..self.n_entries)
            .map(|n| self.entry(nth(n)))
            .take_while(|entry| entry.lineage == *lineage)
            .collect()
    }

    fn entries_at(&self) -> usize {
        INDEX_HEADER + self.segments.len() * INDEX_SEGMENT
    }
}

/// Reads numbers and slices off the front of bytes.
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        Some(array(self.take(N)?))
    }

    pub(crate) fn u8(&mut self) -> Option<u8> {
        Some(self.take(1)?[0])
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.array()?))
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.array()?))
    }

    pub(crate) fn blob(&mut self) -> Option<BlobRef> {
        Some(BlobRef {
            id: BlobId::from_bytes(self.array()?),
            size: self.u64()?,
        })
    }

    fn blobs(&mut self) -> Option<Vec<BlobRef>> {
        let count = self.u32()? as usize;
        if count > self.0.len() / 40 {
            return None;
        }
        (0..count).map(|_| self.blob()).collect()
    }
}

fn lower_bound(len: usize, is_before: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (0, len);
    while low < high {
        let middle = low + (high - low) / 2;
        if is_before(middle) {
            low = middle + 1
        } else {
            high = middle
        }
    }
    low
}

fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
    bytes
        .try_into()
        .expect("bug: the slice was cut to another length")
}

#[cfg(test)]
mod tests;
