//! Work on the whole cache, which nobody else may have open: survey, compaction, clearing.
//!
//! Everything here begins with a survey that reads each segment from its beginning; the index is not
//! believed.

pub(crate) mod gc;
pub(crate) mod verify;

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::time::Duration;

use crate::blob::Presence;
use crate::disk::{self, Kind};
use crate::error::UpkeepError;
use crate::format::{self, SEGMENT_HEADER, State};
use crate::home::{Access, Sync};
use crate::record::{BlobId, BlobRef, Place, hex};
use crate::segment::Scan;
use crate::store::Store;
use crate::tree::{self, TreeKind};
use crate::uses;

/// With so many segments gc is due.
const SCATTERED: usize = 64;
/// And so long after the last time.
const GC_EVERY_MS: u64 = 24 * 3600 * 1000;
const MAX_SEGMENT: u64 = 64 << 20;

/// One record as the survey found it.
#[derive(Clone, Debug)]
pub(crate) struct Surveyed {
    pub(crate) place: Place,
    pub(crate) state: State,
    /// The same for a record and for its copy, which a killed compaction leaves behind.
    pub(crate) born: u64,
    pub(crate) stored_at_ms: u64,
    pub(crate) used_at_ms: u64,
    pub(crate) blobs: Vec<BlobRef>,
    pub(crate) trees: Vec<BlobRef>,
}

/// Everything in the segments.
pub(crate) struct Survey {
    pub(crate) records: Vec<Surveyed>,
    pub(crate) segments: Vec<(u64, Scan)>,
    /// What lies in the folder of records and is no segment of ours.
    pub(crate) foreign: Vec<PathBuf>,
}

/// A blob as it lies on disk.
#[derive(Clone, Debug)]
pub(crate) struct Lying {
    pub(crate) blob: BlobRef,
    pub(crate) path: PathBuf,
    pub(crate) modified_ms: u64,
}

/// The blobs on disk, and what lies among them and is none.
pub(crate) type LyingBlobs = (Vec<Lying>, Vec<PathBuf>);

impl Store {
    /// Runs upkeep while nobody else has the cache open.
    pub(crate) fn alone<T>(
        &self,
        wait: Duration,
        work: impl FnOnce() -> Result<T, UpkeepError>,
    ) -> Result<T, UpkeepError> {
        self.home.writable()?;
        let _gate = self.gate.write().expect("no holder panics");
        // What cannot be stored is no reason not to clean up: a full disk is the best reason for it.
        let _ = self.commit();
        self.end_segment();
        let seized = self.home.seize(wait);
        let result = match seized {
            Ok(()) => work(),
            Err(holders) => Err(UpkeepError::Busy {
                path: self.home.dir.clone(),
                holders,
            }),
        };
        self.segments.close();
        *self.catalog() = Default::default();
        // The lock was let go for a moment at most, and nobody who waits for it holds it for long.
        let _ = self.home.share(Duration::from_secs(60));
        result
    }

    pub(crate) fn survey(&self) -> Result<Survey, UpkeepError> {
        let folder = self.segments.folder();
        let io = |error| UpkeepError::io("list", folder, error);
        let uses = uses::read(&self.home);
        let mine = self.uses.all();
        let now_ms = self.now_ms();
        let mut survey = Survey {
            records: Vec::new(),
            segments: Vec::new(),
            foreign: Vec::new(),
        };
        let listed = self.segments.list().map_err(io)?;
        for (segment, _) in &listed {
            let scan = self.segments.scan(*segment, 0, |place, state, body| {
                let used = uses
                    .get(&(place.segment, place.offset))
                    .copied()
                    .unwrap_or(0);
                let used = if mine.contains(&place) { now_ms } else { used };
                survey.records.push(Surveyed {
                    place,
                    state,
                    born: body.born,
                    stored_at_ms: body.stored_at_ms,
                    used_at_ms: body.used_at_ms.max(body.stored_at_ms).max(used),
                    blobs: body.blobs,
                    trees: body.trees,
                });
            });
            let path = self.segments.path(*segment);
            let scan = scan.map_err(|error| UpkeepError::io("read", &path, error))?;
            survey.segments.push((*segment, scan));
        }
        let names: HashSet<PathBuf> = listed
            .iter()
            .map(|(segment, _)| self.segments.path(*segment))
            .collect();
        for listed in self.home.disk.list(folder).map_err(io)? {
            let path = folder.join(&listed.name);
            if !names.contains(&path) {
                survey.foreign.push(path);
            }
        }
        Ok(survey)
    }

    /// Returns the blobs that a record needs, and whether all manifests could be read.
    pub(crate) fn needs(
        &self,
        record: &Surveyed,
        manifests: &mut HashMap<BlobRef, Option<Vec<BlobRef>>>,
    ) -> (Vec<BlobRef>, bool) {
        let mut needs = record.blobs.clone();
        needs.extend(&record.trees);
        let mut is_whole = true;
        for manifest in &record.trees {
            let inner = manifests.entry(*manifest).or_insert_with(|| {
                let entries = tree::entries(&self.blobs, manifest)?;
                let blobs = entries.iter().filter_map(|entry| match entry.kind {
                    TreeKind::File { blob, .. } => Some(blob),
                    TreeKind::Folder | TreeKind::Link { .. } => None,
                });
                Some(blobs.collect())
            });
            match inner {
                Some(blobs) => needs.extend(blobs.iter()),
                None => is_whole = false,
            }
        }
        needs.sort_unstable();
        needs.dedup();
        (needs, is_whole)
    }

    /// Lists every blob on disk.
    pub(crate) fn lying_blobs(&self) -> LyingBlobs {
        let disk = &self.home.disk;
        let (mut lying, mut foreign) = (Vec::new(), Vec::new());
        let content = self.blobs.content();
        let folders = |path: &PathBuf, foreign: &mut Vec<PathBuf>| {
            let mut folders = Vec::new();
            for listed in disk.list(path).unwrap_or_default() {
                let inner = path.join(&listed.name);
                if listed.kind == Kind::Folder && listed.name.len() == 2 {
                    folders.push(inner);
                } else {
                    foreign.push(inner);
                }
            }
            folders
        };
        for outer in folders(&content, &mut foreign) {
            for inner in folders(&outer, &mut foreign) {
                for listed in disk.list(&inner).unwrap_or_default() {
                    let path = inner.join(&listed.name);
                    let id = id_of(&path);
                    let metadata = disk.stat(&path);
                    match (id, metadata) {
                        (Some(id), Ok(metadata)) if metadata.is_file() => lying.push(Lying {
                            blob: BlobRef {
                                id,
                                size: metadata.len(),
                            },
                            modified_ms: disk::modified_ms(&metadata),
                            path,
                        }),
                        _ => foreign.push(path),
                    }
                }
            }
        }
        (lying, foreign)
    }

    /// Tells whether every blob is there, by name and size.
    pub(crate) fn are_there(&self, blobs: &[BlobRef]) -> bool {
        blobs
            .iter()
            .all(|blob| matches!(self.blobs.presence(blob), Presence::Present { .. }))
    }

    /// Writes these records into fresh segments, then moves all old segments into the trash.
    pub(crate) fn compact(
        &self,
        keep: &[&Surveyed],
        old: &[(u64, Scan)],
    ) -> Result<(), UpkeepError> {
        let disk = &self.home.disk;
        let folder = self.segments.folder().to_owned();
        let leased = self.uses.all();
        let mut keep = keep.to_vec();
        keep.sort_by_key(|record| (record.stored_at_ms, record.place));
        let mut made: Vec<PathBuf> = Vec::new();
        let mut rest = &keep[..];
        let written = (|| {
            while !rest.is_empty() {
                let segment = disk::random_id();
                let path = self.segments.path(segment);
                let io = |error| UpkeepError::io("write", &path, error);
                let file = disk.create_new(&path, 0o600).map_err(io)?;
                made.push(path.clone());
                let key = self.segments.key();
                let mut bytes = format::segment_header(key, segment, self.now_ms());
                debug_assert_eq!(bytes.len() as u64, SEGMENT_HEADER);
                let mut written = 0;
                while let [record, others @ ..] = rest {
                    rest = others;
                    let Some(mut body) = self.segments.read_body(record.place) else {
                        continue;
                    };
                    body[format::USED_AT].copy_from_slice(&record.used_at_ms.to_le_bytes());
                    let at = written + bytes.len() as u64;
                    let len =
                        format::write_frame(key, segment, at, record.state, &body, &mut bytes);
                    if leased.contains(&record.place) {
                        self.uses.note(Place {
                            segment,
                            offset: at,
                            len,
                        });
                    }
                    if bytes.len() > 4 << 20 {
                        disk.write_at(&file, &bytes, written).map_err(io)?;
                        written += bytes.len() as u64;
                        bytes.clear();
                    }
                    if at > MAX_SEGMENT {
                        break;
                    }
                }
                disk.write_at(&file, &bytes, written).map_err(io)?;
                disk.sync(&file).map_err(io)?;
            }
            disk.sync_folder(&folder)
                .map_err(|error| UpkeepError::io("sync", &folder, error))
        })();
        if let Err(error) = written {
            for path in made {
                let _ = disk.remove_file(&path);
            }
            return Err(error);
        }
        for (segment, scan) in old {
            if scan.header != format::SegmentHeader::Newer {
                self.trash(
                    &self.segments.path(*segment),
                    &format!("seg-{segment:016x}"),
                )?;
            }
        }
        let _ = disk.remove_any(&self.home.path("marks"));
        for listed in disk.list(&self.home.path("uses")).unwrap_or_default() {
            let _ = disk.remove_any(&self.home.path("uses").join(listed.name));
        }
        Ok(())
    }

    /// Makes the index anew from the segments.
    pub(crate) fn rebuild_index(&self) -> Result<(), UpkeepError> {
        let path = self.home.path("index");
        let io = |error| UpkeepError::io("write", &path, error);
        self.home.disk.remove_any(&path).map_err(io)?;
        self.segments.close();
        let mut catalog = self.catalog();
        *catalog = Default::default();
        catalog.load(&self.home, &self.segments);
        catalog.write_index(&self.home, &self.segments).map_err(io)
    }

    /// Removes everything that was stored.
    pub(crate) fn clear(&self) -> Result<(), UpkeepError> {
        let disk = &self.home.disk;
        let trash = self.home.path("trash");
        let cleared = trash.join(format!("cleared-{:016x}", disk::random_id()));
        let io = |error| UpkeepError::io("clear", &self.home.dir, error);
        disk.make_folder(&cleared, 0o700).map_err(io)?;
        // Records first: what is left after a crash in between is blobs that nobody names.
        for name in ["index", "marks", "records", "uses", "stats", "blobs"] {
            match disk.rename(&self.home.path(name), &cleared.join(name)) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(io(error));
                }
                _ => {}
            }
        }
        for name in ["records", "blobs", "uses"] {
            disk.make_folder(&self.home.path(name), 0o700).map_err(io)?;
        }
        self.blobs.forget();
        for listed in disk.list(&trash).map_err(io)? {
            disk.remove_any(&trash.join(listed.name)).map_err(io)?;
        }
        Ok(())
    }

    /// Returns cheap figures.
    pub(crate) fn stats(&self) -> Stats {
        let (records, segments, damaged) = {
            let catalog = self.loaded();
            let (records, segments) = catalog.count();
            (records as u64, segments as u64, catalog.n_damaged())
        };
        let record_bytes = match self.home.access {
            Access::Foreign(_) => 0,
            _ => self
                .segments
                .list()
                .unwrap_or_default()
                .iter()
                .map(|(_, len)| len)
                .sum(),
        };
        let index = self.home.disk.stat(&self.home.path("index"));
        Stats {
            records,
            segments,
            record_bytes,
            index_bytes: index.map_or(0, |metadata| metadata.len()),
            damaged,
            blobs: self.read_measured(),
        }
    }

    /// Tells cheaply whether gc would find much to do.
    pub(crate) fn is_gc_due(&self) -> bool {
        if self.home.access != Access::Full {
            return false;
        }
        let mut measured = self.read_measured();
        let (count, bytes) = self.blobs.take_added();
        if let (Some(measured), true) = (&mut measured, count > 0) {
            // Of two processes that add at one time one may be forgotten here; the next gc counts anew.
            measured.count += count;
            measured.bytes += bytes;
            self.write_estimate(measured);
        }
        let measured_at_ms = measured.map_or(0, |measured| measured.measured_at_ms);
        let segments = self.segments.list().unwrap_or_default();
        let n_segments = segments.len();
        let records: u64 = segments.iter().map(|(_, len)| len).sum();
        let held = measured.map_or(0, |measured| measured.bytes) + records;
        let is_full = self.options.size_limit.is_some_and(|limit| held > limit);
        is_full
            || n_segments > SCATTERED
            || (n_segments > 0 && self.now_ms().abs_diff(measured_at_ms) > GC_EVERY_MS)
    }

    /// Writes down how many blobs there are, since counting them again is slow.
    pub(crate) fn write_measured(&self, count: u64, bytes: u64) {
        self.write_estimate(&Measured {
            count,
            bytes,
            measured_at_ms: self.now_ms(),
        });
    }

    fn write_estimate(&self, measured: &Measured) {
        let Measured {
            count,
            bytes,
            measured_at_ms,
        } = measured;
        let text = format!("{count} {bytes} {measured_at_ms}\n");
        let _ = self
            .home
            .put_in_place("stats", text.as_bytes(), Sync::Never);
    }

    fn read_measured(&self) -> Option<Measured> {
        let text = self
            .home
            .disk
            .read_small(&self.home.path("stats"), 256)
            .ok()?;
        let text = String::from_utf8(text).ok()?;
        let mut words = text.split_whitespace().map(str::parse);
        let mut next = || words.next()?.ok();
        Some(Measured {
            count: next()?,
            bytes: next()?,
            measured_at_ms: next()?,
        })
    }

    /// Moves something into the trash under a name that says what it was.
    pub(crate) fn trash(&self, path: &std::path::Path, name: &str) -> Result<(), UpkeepError> {
        let target = self
            .home
            .path("trash")
            .join(format!("{name}.{:08x}", disk::random_id() as u32));
        match self.home.disk.rename(path, &target) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(UpkeepError::io("move", path, error))
            }
            _ => Ok(()),
        }
    }
}

/// Cheap figures about a cache.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Stats {
    /// Records, superseded ones too.
    pub records: u64,
    /// Segment files.
    pub segments: u64,
    /// Bytes of all segment files.
    pub record_bytes: u64,
    /// Bytes of the index file.
    pub index_bytes: u64,
    /// Damaged pieces that were passed over since the cache was opened.
    pub damaged: u64,
    /// The blobs, as the last gc counted them.
    pub blobs: Option<Measured>,
}

/// How many blobs there were at some time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Measured {
    /// Number of blobs.
    pub count: u64,
    /// Their bytes.
    pub bytes: u64,
    /// When they were counted, in milliseconds since 1970.
    pub measured_at_ms: u64,
}

/// Returns the id that a blob's path stands for.
fn id_of(path: &std::path::Path) -> Option<BlobId> {
    let mut names = path.iter().rev().map(|name| name.to_str());
    let (rest, second, first) = (names.next()??, names.next()??, names.next()??);
    let id: BlobId = format!("{first}{second}{rest}").parse().ok()?;
    debug_assert_eq!(hex(&id.as_bytes()[..1]), first);
    Some(id)
}
