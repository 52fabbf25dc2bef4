//! The bytes of what a workspace remembers: little-endian, lengths first, a checksum at the end.

use std::collections::{BTreeMap, HashMap};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use aebuild_cache::{BlobId, BlobRef, Place};

use super::{FileIx, Kept, KeptFolder, KeptTask, Tool};
use crate::digest::Digest;
use crate::event::{Outcome, Score};
use crate::system::Stamp;

/// The version of the format; bytes of another version are not read.
pub(super) const VERSION: u32 = 2;

const MAGIC: &[u8; 8] = b"aebkept\n";

struct Writer(Vec<u8>);

impl Writer {
    fn u32(&mut self, value: u32) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    fn u64(&mut self, value: u64) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.u32(bytes.len() as u32);
        self.0.extend_from_slice(bytes);
    }

    fn path(&mut self, path: &std::path::Path) {
        self.bytes(path.as_os_str().as_bytes());
    }

    fn stamp(&mut self, stamp: &Stamp) {
        self.0.extend_from_slice(&stamp.mtime_ns.to_le_bytes());
        self.0.extend_from_slice(&stamp.ctime_ns.to_le_bytes());
        self.u64(stamp.size);
        self.u64(stamp.inode);
        self.u64(stamp.device);
    }

    fn digest(&mut self, digest: &Digest) {
        self.0.extend_from_slice(digest.as_bytes());
    }

    fn list<T>(&mut self, items: &[T], mut each: impl FnMut(&mut Self, &T)) {
        self.u32(items.len() as u32);
        for item in items {
            each(self, item);
        }
    }
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(n)?;
        self.0 = rest;
        Some(head)
    }

    fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }

    fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }

    fn i128(&mut self) -> Option<i128> {
        Some(i128::from_le_bytes(self.take(16)?.try_into().ok()?))
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        let n = self.u32()? as usize;
        self.take(n)
    }

    fn text(&mut self) -> Option<String> {
        String::from_utf8(self.bytes()?.to_vec()).ok()
    }

    fn path(&mut self) -> Option<PathBuf> {
        Some(PathBuf::from(std::ffi::OsString::from_vec(
            self.bytes()?.to_vec(),
        )))
    }

    fn stamp(&mut self) -> Option<Stamp> {
        Some(Stamp {
            mtime_ns: self.i128()?,
            ctime_ns: self.i128()?,
            size: self.u64()?,
            inode: self.u64()?,
            device: self.u64()?,
        })
    }

    fn digest(&mut self) -> Option<Digest> {
        Some(Digest::from_bytes(self.take(32)?.try_into().ok()?))
    }

    fn list<T>(&mut self, mut each: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let n = self.u32()? as usize;
        // Every item takes at least one byte, so a length beyond that is damage.
        let mut items = Vec::with_capacity(n.min(self.0.len()));
        for _ in 0..n {
            items.push(each(self)?);
        }
        Some(items)
    }

    fn file(&mut self, files: usize) -> Option<FileIx> {
        let at = self.u32()?;
        ((at as usize) < files).then_some(FileIx(at))
    }
}

/// Writes what is remembered; files that nothing refers to any more are left out.
pub(super) fn encode(kept: &Kept) -> Vec<u8> {
    let mut used = vec![false; kept.files.len()];
    for folder in &kept.folders {
        let results = folder
            .results
            .values()
            .flatten()
            .flat_map(|task| &task.sources);
        folder
            .watched
            .iter()
            .chain(results)
            .for_each(|file| used[file.0 as usize] = true);
    }
    kept.digests
        .iter()
        .for_each(|(file, _)| used[file.0 as usize] = true);
    let mut place = vec![0; kept.files.len()];
    let mut files = Vec::new();
    for (at, file) in kept.files.iter().enumerate().filter(|(at, _)| used[*at]) {
        place[at] = files.len() as u32;
        files.push(file);
    }
    let mut out = Writer(Vec::with_capacity(64 * 1024));
    out.0.extend_from_slice(MAGIC);
    out.u32(VERSION);
    out.bytes(env!("CARGO_PKG_VERSION").as_bytes());
    out.list(&files, |out, (path, stamp)| {
        out.path(path);
        out.stamp(stamp);
    });
    out.list(&kept.digests, |out, (file, digest)| {
        out.u32(place[file.0 as usize]);
        out.digest(digest);
    });
    out.list(&kept.tools, |out, tool| {
        out.bytes(tool.name.as_bytes());
        out.list(tool.program.as_slice(), |out, (path, stamp)| {
            out.path(path);
            out.stamp(stamp);
        });
        out.bytes(tool.version.as_bytes());
    });
    out.list(&kept.folders, |out, folder| {
        out.path(&folder.root);
        out.list(&folder.watched, |out, file| out.u32(place[file.0 as usize]));
        out.list(&folder.tasks, |out, (name, shown)| {
            out.bytes(name.as_bytes());
            out.bytes(shown.as_bytes());
        });
        let results: Vec<&KeptTask> = folder.results.values().flatten().collect();
        out.list(&results, |out, task| write_task(out, task, &place));
    });
    let checksum = Digest::of_bytes(&out.0);
    out.digest(&checksum);
    out.0
}

fn write_task(out: &mut Writer, task: &KeptTask, place: &[u32]) {
    out.bytes(task.name.as_bytes());
    out.bytes(task.shown.as_bytes());
    out.digest(&task.setting);
    out.list(&task.sources, |out, file| out.u32(place[file.0 as usize]));
    out.u64(task.steps);
    out.u64(task.deferred);
    out.u64(task.saved_us);
    out.bytes(task.outcome.as_str().as_bytes());
    out.list(&task.scores, |out, score| {
        out.bytes(score.name.as_bytes());
        out.u64(score.score.to_bits());
        out.list(&score.failed, |out, line| out.bytes(line.as_bytes()));
    });
    out.bytes(task.run.as_bytes());
    out.list(&task.places, |out, place| {
        out.u64(place.segment);
        out.u64(place.offset);
        out.u32(place.len);
    });
    out.list(&task.blobs, |out, blob| {
        out.0.extend_from_slice(blob.id.as_bytes());
        out.u64(blob.size);
    });
}

/// Reads what is remembered; `None` where the bytes are damaged or of another version.
pub(super) fn decode(bytes: &[u8]) -> Option<Kept> {
    let (body, checksum) = bytes.split_at_checked(bytes.len().checked_sub(32)?)?;
    if Digest::of_bytes(body).as_bytes() != checksum {
        return None;
    }
    let mut input = Reader(body);
    if input.take(8)? != MAGIC || input.u32()? != VERSION {
        return None;
    }
    if input.bytes()? != env!("CARGO_PKG_VERSION").as_bytes() {
        return None;
    }
    let files = input.list(|input| Some((input.path()?, input.stamp()?)))?;
    let n = files.len();
    let digests = input.list(|input| Some((input.file(n)?, input.digest()?)))?;
    let tools = input.list(|input| {
        Some(Tool {
            name: input.text()?,
            program: input
                .list(|input| Some((input.path()?, input.stamp()?)))?
                .pop(),
            version: input.text()?,
        })
    })?;
    let folders = input.list(|input| {
        let root = input.path()?;
        let watched = input.list(|input| input.file(n))?;
        let tasks = input.list(|input| Some((input.text()?, input.text()?)))?;
        let mut results: BTreeMap<String, Vec<KeptTask>> = BTreeMap::new();
        for task in input.list(|input| read_task(input, n))? {
            results.entry(task.name.clone()).or_default().push(task);
        }
        Some(KeptFolder {
            root,
            watched,
            tasks,
            results,
        })
    })?;
    let by_path: HashMap<PathBuf, FileIx> = files
        .iter()
        .enumerate()
        .map(|(at, (path, _))| (path.clone(), FileIx(at as u32)))
        .collect();
    let seen = vec![None; n];
    Some(Kept {
        files,
        digests,
        tools,
        folders,
        by_path,
        seen,
        changed: false,
    })
}

fn read_task(input: &mut Reader<'_>, files: usize) -> Option<KeptTask> {
    Some(KeptTask {
        name: input.text()?,
        shown: input.text()?,
        setting: input.digest()?,
        sources: input.list(|input| input.file(files))?,
        steps: input.u64()?,
        deferred: input.u64()?,
        saved_us: input.u64()?,
        outcome: Outcome::from_words(&input.text()?)?,
        scores: input.list(|input| {
            Some(Score {
                name: input.text()?,
                score: f64::from_bits(input.u64()?),
                failed: input.list(Reader::text)?,
            })
        })?,
        run: input.text()?,
        places: input.list(|input| {
            Some(Place {
                segment: input.u64()?,
                offset: input.u64()?,
                len: input.u32()?,
            })
        })?,
        blobs: input.list(|input| {
            let id = BlobId::from_bytes(input.take(32)?.try_into().ok()?);
            Some(BlobRef {
                id,
                size: input.u64()?,
            })
        })?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn example() -> Kept {
        let mut kept = Kept::default();
        let stamp = Stamp {
            mtime_ns: 1,
            ctime_ns: 2,
            size: 3,
            inode: 4,
            device: 5,
        };
        let file = (PathBuf::from("/t/tasks/a.json"), stamp);
        let watched = [(PathBuf::from("/t/tasks"), stamp)];
        let tasks = vec![("a".to_owned(), "tasks/a.json".to_owned())];
        assert!(kept.set_folder(Path::new("/t"), &watched, 1_000_000, tasks));
        let task = KeptTask {
            name: "a".to_owned(),
            shown: "tasks/a.json".to_owned(),
            setting: Digest::of_bytes(b"s"),
            sources: Vec::new(),
            steps: 1,
            deferred: 2,
            saved_us: 3,
            outcome: Outcome::Passed,
            scores: vec![Score {
                name: "v".to_owned(),
                score: 0.5,
                failed: vec!["row: why".to_owned()],
            }],
            run: "r".to_owned(),
            places: vec![Place {
                segment: 1,
                offset: 2,
                len: 3,
            }],
            blobs: vec![BlobRef {
                id: BlobId::of(b"x"),
                size: 1,
            }],
        };
        kept.set_task(Path::new("/t"), task, &[file], 1_000_000);
        kept.set_tool("python3", None, "absent");
        kept
    }

    #[test]
    fn what_was_written_reads_back() {
        let kept = example();
        let read = decode(&encode(&kept)).unwrap();
        assert_eq!(encode(&read), encode(&kept));
        assert_eq!(read.folders, kept.folders);
        assert_eq!(read.tools, kept.tools);
    }

    #[test]
    fn damage_anywhere_is_nothing_remembered() {
        let bytes = encode(&example());
        for n in 0..bytes.len() {
            assert_eq!(decode(&bytes[..n]), None);
            let mut damaged = bytes.clone();
            damaged[n] ^= 1;
            assert_eq!(decode(&damaged), None);
        }
    }
}
