//! Appending records, in groups.
//!
//! The order is: blobs, sync, records, sync, and only then is a record stored. Appended records wait
//! in memory, where this process already finds them, until 64 of them have come or 50 ms have passed
//! or `flush` is called. The first fault turns storing off for the rest of the run.

use std::collections::BTreeSet;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::Durability;
use crate::disk;
use crate::error::{Notice, StoreError};
use crate::format::{self, Entry, MAX_BODY, SEGMENT_HEADER, State};
use crate::record::{NewRecord, Place, Record};
use crate::store::Store;

const GROUP: usize = 64;
const GROUP_WAIT: Duration = Duration::from_millis(50);
/// So many bytes wait in memory at most.
const MAX_WAITING: usize = 32 << 20;
/// A segment of this size is ended.
const MAX_SEGMENT: u64 = 64 << 20;
/// Up to so many blobs are synced one by one, more by one `syncfs`.
const SYNCED_SINGLY: usize = 16;

/// Records on their way to the disk.
#[derive(Default)]
pub(crate) struct Queue {
    writer: Option<Writer>,
    batch: Batch,
    off: Option<String>,
    is_closing: bool,
}

/// The segment that this process appends to.
struct Writer {
    segment: u64,
    file: Arc<File>,
    /// End of the last frame, written or waiting.
    end: u64,
    is_named: bool,
}

#[derive(Default)]
struct Batch {
    begin: u64,
    bytes: Vec<u8>,
    entries: Vec<Entry>,
    since: Option<Instant>,
}

impl Store {
    pub(crate) fn append(&self, record: NewRecord) -> Result<Place, StoreError> {
        self.storing()?;
        if record.paid {
            self.read_back(&record)?;
        }
        let mut stored_at_ms = self.now_ms();
        if record.supersedes {
            let (key, action) = (format::prefix(&record.key), format::prefix(&record.action));
            let same = self.loaded().of_action(&key, &action);
            let last = same.iter().map(|entry| entry.stored_at_ms + 1).max();
            stored_at_ms = stored_at_ms.max(last.unwrap_or(0));
        }
        let born = disk::random_id();
        let body = format::write_body(&record, stored_at_ms, born);
        if body.len() > MAX_BODY {
            let (size, limit) = (body.len() as u64, MAX_BODY as u64);
            return Err(StoreError::TooLarge { size, limit });
        }
        let is_over = {
            let queue = self.queue.lock().expect("no holder panics");
            let waiting = queue.batch.bytes.len();
            waiting > 0 && waiting + body.len() > MAX_WAITING
                || queue
                    .writer
                    .as_ref()
                    .is_some_and(|writer| writer.end > MAX_SEGMENT)
        };
        if is_over {
            self.commit()?;
            self.end_segment();
        }
        let mut queue = self.queue.lock().expect("no holder panics");
        if let Some(reason) = &queue.off {
            return Err(StoreError::Off {
                reason: reason.clone(),
            });
        }
        if queue.writer.is_none() {
            match self.begin_segment() {
                Ok(writer) => queue.writer = Some(writer),
                Err(error) => {
                    self.turn_off(&mut queue, &error);
                    return Err(error);
                }
            }
        }
        let queue = &mut *queue;
        let writer = queue.writer.as_mut().expect("the writer was made above");
        let batch = &mut queue.batch;
        if batch.entries.is_empty() {
            batch.begin = writer.end;
            batch.since = Some(Instant::now());
        }
        let (segment, offset) = (writer.segment, writer.end);
        let key = self.segments.key();
        let len = format::write_frame(key, segment, offset, State::Live, &body, &mut batch.bytes);
        writer.end += u64::from(len);
        let place = Place {
            segment,
            offset,
            len,
        };
        let entry = Entry {
            key: format::prefix(&record.key),
            action: format::prefix(&record.action),
            lineage: format::prefix(&record.lineage),
            output: format::prefix(&record.output),
            stored_at_ms,
            born,
            place,
            kind: record.kind,
            supersedes: record.supersedes,
            is_superseded: false,
        };
        batch.entries.push(entry);
        self.catalog()
            .add(entry, found(record, stored_at_ms, place));
        if batch.entries.len() == 1 || batch.entries.len() == GROUP {
            self.wake.notify_one();
        }
        Ok(place)
    }

    /// Refuses where nothing is stored in this run, and turns storing off where there is no room.
    pub(crate) fn storing(&self) -> Result<(), StoreError> {
        self.home.writable()?;
        let mut queue = self.queue.lock().expect("no holder panics");
        if let Some(reason) = &queue.off {
            return Err(StoreError::Off {
                reason: reason.clone(),
            });
        }
        if self.options.free_reserve > 0
            && let Ok(space) = self.home.disk.space(&self.home.dir)
        {
            let needed = self.options.free_reserve.max(space.total / 100);
            if space.free < needed {
                let path = self.home.dir.clone();
                let error = StoreError::Full {
                    path,
                    free: space.free,
                    needed,
                };
                self.turn_off(&mut queue, &error);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Notes the outcome of storing a blob: a full or failing disk turns storing off.
    pub(crate) fn outcome<T>(&self, result: Result<T, StoreError>) -> Result<T, StoreError> {
        if let Err(
            error @ StoreError::Io {
                action: "write", ..
            },
        ) = &result
        {
            self.turn_off(&mut self.queue.lock().expect("no holder panics"), error);
        }
        result
    }

    /// Makes everything durable that was appended so far.
    pub(crate) fn flush(&self) -> Result<(), StoreError> {
        self.commit()?;
        match &self.queue.lock().expect("no holder panics").off {
            Some(reason) => Err(StoreError::Off {
                reason: reason.clone(),
            }),
            None => Ok(()),
        }
    }

    /// Writes what waits; returns when it is stored.
    pub(crate) fn commit(&self) -> Result<(), StoreError> {
        let _one_at_a_time = self.committing.lock().expect("no holder panics");
        let (batch, writer) = {
            let mut queue = self.queue.lock().expect("no holder panics");
            let batch = std::mem::take(&mut queue.batch);
            let writer = queue.writer.as_ref();
            (
                batch,
                writer.map(|writer| (writer.segment, writer.file.clone(), writer.is_named)),
            )
        };
        let result = self.write_batch(&batch, writer.as_ref());
        let mut queue = self.queue.lock().expect("no holder panics");
        if let Err(error) = result {
            self.turn_off(&mut queue, &error);
            self.lose(&batch.entries);
            let later = std::mem::take(&mut queue.batch);
            self.lose(&later.entries);
            queue.writer = None;
            if let Some((_, file, _)) = &writer
                && !batch.entries.is_empty()
            {
                let _ = self.home.disk.set_len(file, batch.begin);
            }
            return Err(error);
        }
        if let (Some(writer), false) = (&mut queue.writer, batch.entries.is_empty()) {
            writer.is_named = true;
        }
        drop(queue);
        let mut catalog = self.catalog();
        for entry in &batch.entries {
            catalog.settle(entry.place);
        }
        drop(catalog);
        self.supersede(&batch.entries);
        Ok(())
    }

    /// Commits in the background until the cache is closed.
    pub(crate) fn commit_in_background(&self) {
        loop {
            let mut queue = self.queue.lock().expect("no holder panics");
            while queue.batch.entries.is_empty() && !queue.is_closing {
                queue = self.wake.wait(queue).expect("no holder panics");
            }
            if queue.batch.entries.is_empty() {
                return;
            }
            while queue.batch.entries.len() < GROUP && !queue.is_closing {
                let Some(since) = queue.batch.since else {
                    break;
                };
                let Some(rest) = GROUP_WAIT.checked_sub(since.elapsed()) else {
                    break;
                };
                queue = self
                    .wake
                    .wait_timeout(queue, rest)
                    .expect("no holder panics")
                    .0;
            }
            drop(queue);
            // A fault is told by the next append or flush, and as a notice.
            let _ = self.commit();
        }
    }

    /// Lets the background writer end.
    pub(crate) fn close_queue(&self) {
        self.queue.lock().expect("no holder panics").is_closing = true;
        self.wake.notify_all();
    }

    /// Begins another segment with the next record.
    pub(crate) fn end_segment(&self) {
        let mut queue = self.queue.lock().expect("no holder panics");
        if queue.batch.entries.is_empty() {
            queue.writer = None;
        }
    }

    fn write_batch(
        &self,
        batch: &Batch,
        writer: Option<&(u64, Arc<File>, bool)>,
    ) -> Result<(), StoreError> {
        let disk = &self.home.disk;
        let is_durable = self.options.durability == Durability::Durable;
        let unsynced = self.blobs.take_unsynced();
        if is_durable && !unsynced.is_empty() {
            self.sync_blobs(&unsynced)?;
        }
        let Some((segment, file, is_named)) = writer else {
            return Ok(());
        };
        if batch.entries.is_empty() {
            return Ok(());
        }
        let path = self.segments.path(*segment);
        if file.metadata().is_ok_and(|metadata| metadata.nlink() == 0) {
            // Somebody removed the cache meanwhile; nothing written here would ever be found.
            return Err(StoreError::io(
                "write",
                &path,
                std::io::ErrorKind::NotFound.into(),
            ));
        }
        disk.write_at(file, &batch.bytes, batch.begin)
            .map_err(|error| StoreError::io("write", &path, error))?;
        if is_durable {
            disk.sync(file)
                .map_err(|error| StoreError::io("sync", &path, error))?;
            if !is_named {
                disk.sync_folder(self.segments.folder())
                    .map_err(|error| StoreError::io("sync", self.segments.folder(), error))?;
            }
        }
        Ok(())
    }

    fn sync_blobs(&self, paths: &[PathBuf]) -> Result<(), StoreError> {
        let disk = &self.home.disk;
        if paths.len() > SYNCED_SINGLY {
            let dir = &self.home.dir;
            return disk
                .sync_all(dir)
                .map_err(|error| StoreError::io("sync", dir, error));
        }
        let mut folders: BTreeSet<&Path> = BTreeSet::new();
        for path in paths {
            match disk.open_read(path) {
                Ok((file, _)) => {
                    disk.sync(&file)
                        .map_err(|error| StoreError::io("sync", path, error))?;
                }
                // Set aside meanwhile: a miss later, not a fault now.
                Err(_) if disk.stat(path).is_err() => continue,
                Err(error) => return Err(StoreError::io("open", path, error)),
            }
            folders.extend(path.ancestors().skip(1).take(4));
        }
        for folder in folders {
            disk.sync_folder(folder)
                .map_err(|error| StoreError::io("sync", folder, error))?;
        }
        Ok(())
    }

    fn begin_segment(&self) -> Result<Writer, StoreError> {
        let folder = self.segments.folder();
        let _ = self.home.disk.make_folder(folder, 0o700);
        loop {
            let segment = disk::random_id();
            let path = self.segments.path(segment);
            let file = match self.home.disk.create_new(&path, 0o600) {
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => continue,
                done => done.map_err(|error| StoreError::io("create", &path, error))?,
            };
            let header = format::segment_header(self.segments.key(), segment, self.now_ms());
            self.home
                .disk
                .write_at(&file, &header, 0)
                .map_err(|error| {
                    let _ = self.home.disk.remove_file(&path);
                    StoreError::io("write", &path, error)
                })?;
            let file = Arc::new(file);
            return Ok(Writer {
                segment,
                file,
                end: SEGMENT_HEADER,
                is_named: false,
            });
        }
    }

    /// Marks the elder records of each action that has a new record which supersedes them.
    fn supersede(&self, stored: &[Entry]) {
        let mut winners = stored.iter().filter(|entry| entry.supersedes).peekable();
        if winners.peek().is_none() {
            return;
        }
        let mut catalog = self.loaded();
        catalog.refresh(&self.segments);
        let mut elder: Vec<Place> = Vec::new();
        for winner in winners {
            let same = catalog.of_action(&winner.key, &winner.action);
            let older = same.iter().filter(|entry| {
                entry.kind == winner.kind && entry.stored_at_ms < winner.stored_at_ms
            });
            elder.extend(older.map(|entry| entry.place));
        }
        drop(catalog);
        elder.sort_unstable();
        elder.dedup();
        if !elder.is_empty() {
            self.mark(&elder, State::Superseded);
        }
    }

    /// Reads the blobs of a record that cost money, before the record names them.
    fn read_back(&self, record: &NewRecord) -> Result<(), StoreError> {
        for blob in record.blobs.iter().chain(&record.trees) {
            if !self.blobs.is_right(blob) {
                return Err(StoreError::NotReadBack {
                    blob: blob.id.to_string(),
                });
            }
        }
        Ok(())
    }

    fn lose(&self, entries: &[Entry]) {
        let mut catalog = self.catalog();
        for entry in entries {
            catalog.bury(entry.place, State::Dropped);
        }
    }

    fn turn_off(&self, queue: &mut Queue, error: &StoreError) {
        if queue.off.is_none() {
            let reason = error.to_string();
            queue.off = Some(reason.clone());
            self.home.notice(Notice::StoringOff {
                path: self.home.dir.clone(),
                reason,
            });
        }
    }
}

fn found(record: NewRecord, stored_at_ms: u64, place: Place) -> Record {
    Record {
        key: record.key,
        action: record.action,
        lineage: record.lineage,
        output: record.output,
        kind: record.kind,
        supersedes: record.supersedes,
        paid: record.paid,
        stored_at_ms,
        payload: record.payload.into(),
        blobs: record.blobs,
        trees: record.trees,
        place,
        is_superseded: false,
    }
}
