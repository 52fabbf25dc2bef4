//! Reading segment files, whole or one record at a time.
//!
//! A segment is written by one process and only ever grows. Whatever does not carry the right MAC is
//! passed over: reading goes on only where a later frame proves itself.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use crate::disk::{Disk, Kind};
use crate::format::{self, Body, FRAME_HEADER, FRAME_MAGIC, MacKey, SEGMENT_HEADER};
use crate::format::{SegmentHeader, State};
use crate::record::{Place, Record};

/// How far behind a damaged frame the next one is looked for.
const SEARCH: u64 = 16 << 20;
/// How many possible frames are tried there.
const TRIES: usize = 64;
const WINDOW: usize = 1 << 20;
const OPEN_FILES: usize = 64;

/// A folder of segment files.
pub(crate) struct Segments {
    disk: Disk,
    key: MacKey,
    folder: PathBuf,
    open: Mutex<HashMap<u64, Arc<File>>>,
}

/// What a scan found, beside the records.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Scan {
    /// End of the last good frame.
    pub(crate) end: u64,
    /// Length of the file.
    pub(crate) len: u64,
    /// How many times something was passed over.
    pub(crate) n_damaged: u64,
    /// What the header says.
    pub(crate) header: SegmentHeader,
}

impl Scan {
    /// Tells whether the end is unfinished, as a killed process leaves it.
    pub(crate) fn is_torn(&self) -> bool {
        match self.header {
            SegmentHeader::Ours => self.end < self.len,
            SegmentHeader::Damaged => self.len < SEGMENT_HEADER,
            SegmentHeader::Newer => false,
        }
    }

    /// Tells whether something in the middle is not what was written.
    pub(crate) fn is_damaged(&self) -> bool {
        self.n_damaged > 0 || (self.header == SegmentHeader::Damaged && !self.is_torn())
    }
}

impl Segments {
    pub(crate) fn new(disk: Disk, key: MacKey, folder: PathBuf) -> Segments {
        Segments {
            disk,
            key,
            folder,
            open: Mutex::default(),
        }
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(crate) fn key(&self) -> &MacKey {
        &self.key
    }

    pub(crate) fn path(&self, segment: u64) -> PathBuf {
        self.folder.join(format!("{segment:016x}.seg"))
    }

    /// Returns the length of a segment, if it is a regular file.
    pub(crate) fn len(&self, segment: u64) -> Option<u64> {
        let metadata = self.disk.stat(&self.path(segment)).ok()?;
        metadata.is_file().then_some(metadata.len())
    }

    /// Returns id and length of every segment, in order of ids.
    pub(crate) fn list(&self) -> io::Result<Vec<(u64, u64)>> {
        let mut segments = Vec::new();
        for listed in self.disk.list(&self.folder)? {
            let id = listed.name.to_str().and_then(segment_id);
            if let (Some(id), Kind::File) = (id, listed.kind)
                && let Some(len) = self.len(id)
            {
                segments.push((id, len));
            }
        }
        segments.sort_unstable();
        Ok(segments)
    }

    /// Forgets open files, after segments were removed.
    pub(crate) fn close(&self) {
        self.open.lock().expect("no holder panics").clear();
    }

    /// Reads one record, dead or alive; nothing, if its bytes are not what was written.
    pub(crate) fn read(&self, place: Place) -> Option<(State, Record)> {
        let frame = self.read_frame(place)?;
        let (state, body) = format::read_frame(&self.key, place.segment, place.offset, &frame)?;
        Some((state, format::read_body(body)?.record(place)))
    }

    /// Reads the body of one record.
    pub(crate) fn read_body(&self, place: Place) -> Option<Vec<u8>> {
        let mut frame = self.read_frame(place)?;
        format::read_frame(&self.key, place.segment, place.offset, &frame)?;
        frame.drain(..FRAME_HEADER);
        Some(frame)
    }

    fn read_frame(&self, place: Place) -> Option<Vec<u8>> {
        let len = place.len as usize;
        if !(FRAME_HEADER..=FRAME_HEADER + format::MAX_BODY).contains(&len) {
            return None;
        }
        let file = self.file(place.segment).ok()?;
        let mut frame = vec![0; len];
        self.disk
            .read_exact_at(&file, &mut frame, place.offset)
            .ok()?;
        Some(frame)
    }

    /// Changes the state of records of one segment in place, except those that were dropped.
    pub(crate) fn mark(&self, segment: u64, places: &[Place], state: State) -> io::Result<()> {
        let (file, metadata) = self.disk.open_write(&self.path(segment))?;
        let mut head = [0; FRAME_HEADER];
        for place in places {
            let end = place.offset.saturating_add(u64::from(place.len));
            if place.offset < SEGMENT_HEADER || end > metadata.len() {
                continue;
            }
            self.disk.read_exact_at(&file, &mut head, place.offset)?;
            let is_frame = format::frame_len(&head) == Some(place.len as usize);
            if is_frame && head[8] != State::Dropped.byte() {
                let at = place.offset + format::STATE_AT;
                self.disk.write_at(&file, &[state.byte()], at)?;
            }
        }
        self.disk.sync(&file)
    }

    /// Visits every good record of a segment from an offset on (0 is the beginning).
    pub(crate) fn scan(
        &self,
        segment: u64,
        from: u64,
        mut visit: impl FnMut(Place, State, Body<'_>),
    ) -> io::Result<Scan> {
        let (file, metadata) = self.disk.open_read(&self.path(segment))?;
        let len = metadata.len();
        let mut window = Window {
            disk: &self.disk,
            file: &file,
            at: 0,
            bytes: Vec::new(),
            len,
        };
        let header = window.get(0, SEGMENT_HEADER as usize)?.unwrap_or_default();
        let header = format::read_segment_header(&self.key, segment, header);
        let mut scan = Scan {
            end: from.max(SEGMENT_HEADER).min(len),
            len,
            n_damaged: 0,
            header,
        };
        if header != SegmentHeader::Ours {
            scan.end = 0;
            return Ok(scan);
        }
        let mut at = from.max(SEGMENT_HEADER);
        while at < len {
            let Some(frame) = window.frame(at)? else {
                match self.next_frame(&mut window, segment, at + 1)? {
                    Some(next) => at = next,
                    None => break,
                }
                scan.n_damaged += 1;
                continue;
            };
            let frame_len = frame.len() as u64;
            let read = format::read_frame(&self.key, segment, at, frame)
                .and_then(|(state, body)| Some((state, format::read_body(body)?)));
            match read {
                Some((state, body)) => {
                    visit(
                        Place {
                            segment,
                            offset: at,
                            len: frame_len as u32,
                        },
                        state,
                        body,
                    );
                    at += frame_len;
                    scan.end = at;
                }
                None => match self.next_frame(&mut window, segment, at + 1)? {
                    Some(next) => {
                        at = next;
                        scan.n_damaged += 1;
                    }
                    None => break,
                },
            }
        }
        Ok(scan)
    }

    /// Finds the next place where a frame proves itself by its MAC.
    fn next_frame(
        &self,
        window: &mut Window<'_>,
        segment: u64,
        from: u64,
    ) -> io::Result<Option<u64>> {
        let (mut at, end) = (from, window.len.min(from + SEARCH));
        let mut n_tries = 0;
        while at + (FRAME_HEADER as u64) <= end {
            let piece = (end - at).min(WINDOW as u64) as usize;
            let Some(bytes) = window.get(at, piece)? else {
                return Ok(None);
            };
            let Some(n) = bytes.windows(4).position(|four| four == FRAME_MAGIC) else {
                at += (piece - 3) as u64;
                continue;
            };
            at += n as u64;
            if let Some(frame) = window.frame(at)? {
                if format::read_frame(&self.key, segment, at, frame).is_some() {
                    return Ok(Some(at));
                }
                n_tries += 1;
                if n_tries == TRIES {
                    return Ok(None);
                }
            }
            at += 1;
        }
        Ok(None)
    }

    fn file(&self, segment: u64) -> io::Result<Arc<File>> {
        if let Some(file) = self.open.lock().expect("no holder panics").get(&segment) {
            return Ok(file.clone());
        }
        let file = Arc::new(self.disk.open_read(&self.path(segment))?.0);
        let mut open = self.open.lock().expect("no holder panics");
        if open.len() >= OPEN_FILES {
            open.clear();
        }
        open.insert(segment, file.clone());
        Ok(file)
    }
}

/// Returns the id in a segment's file name.
pub(crate) fn segment_id(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(".seg")?;
    let is_plain = digits.len() == 16
        && digits
            .bytes()
            .all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'));
    is_plain.then(|| u64::from_str_radix(digits, 16).ok())?
}

/// A part of a file in memory, moved on as needed.
struct Window<'a> {
    disk: &'a Disk,
    file: &'a File,
    at: u64,
    bytes: Vec<u8>,
    len: u64,
}

impl Window<'_> {
    /// Returns bytes of the file, or nothing where the file ends before.
    fn get(&mut self, at: u64, len: usize) -> io::Result<Option<&[u8]>> {
        if at + len as u64 > self.len {
            return Ok(None);
        }
        let is_inside = at >= self.at && at + len as u64 <= self.at + self.bytes.len() as u64;
        if !is_inside {
            let wanted = (len.max(WINDOW) as u64).min(self.len - at) as usize;
            self.bytes.resize(wanted, 0);
            self.at = at;
            let mut filled = 0;
            while filled < wanted {
                let into = &mut self.bytes[filled..];
                match self.disk.read_at(self.file, into, at + filled as u64)? {
                    0 => break,
                    n => filled += n,
                }
            }
            self.bytes.truncate(filled);
        }
        let start = (at - self.at) as usize;
        Ok(self.bytes.get(start..start + len))
    }

    fn frame(&mut self, at: u64) -> io::Result<Option<&[u8]>> {
        let Some(header) = self.get(at, FRAME_HEADER)? else {
            return Ok(None);
        };
        match format::frame_len(header) {
            Some(len) => self.get(at, len),
            None => Ok(None),
        }
    }
}
