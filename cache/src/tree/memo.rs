//! Remembers the sha256 of files by their times, so that what did not change is not read again.
//!
//! The rule is git's: a file whose last change is not clearly older than the moment it was hashed may
//! have changed within the same tick of the clock, so it is hashed again.

use std::collections::HashMap;
use std::fs::Metadata;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::format::{Reader, VERSION};
use crate::record::BlobId;

const MAGIC: &[u8; 8] = b"AEBMEMO\n";
const TICK_NS: i64 = 20_000_000;
/// Some file systems count whole seconds, or pairs of them.
const COARSE_NS: i64 = 2_100_000_000;

/// What is remembered about files.
#[derive(Clone, Default, Debug)]
pub struct StatMemo {
    stamps: HashMap<PathBuf, Stamp>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Stamp {
    stat: FileStat,
    hashed_at_ns: i64,
    id: BlobId,
}

/// What tells that a file changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FileStat {
    pub(crate) size: u64,
    pub(crate) mtime_ns: i64,
    pub(crate) ctime_ns: i64,
    pub(crate) ino: u64,
}

impl FileStat {
    pub(crate) fn of(metadata: &Metadata) -> FileStat {
        let ns = |s: i64, ns: i64| s.saturating_mul(1_000_000_000).saturating_add(ns);
        FileStat {
            size: metadata.len(),
            mtime_ns: ns(metadata.mtime(), metadata.mtime_nsec()),
            ctime_ns: ns(metadata.ctime(), metadata.ctime_nsec()),
            ino: metadata.ino(),
        }
    }
}

impl StatMemo {
    /// Returns an empty memo.
    pub fn new() -> StatMemo {
        StatMemo::default()
    }

    /// Returns how many files are remembered.
    pub fn len(&self) -> usize {
        self.stamps.len()
    }

    /// Tells whether nothing is remembered.
    pub fn is_empty(&self) -> bool {
        self.stamps.is_empty()
    }

    /// Forgets files for which `keep` says no.
    pub fn retain(&mut self, mut keep: impl FnMut(&Path) -> bool) {
        self.stamps.retain(|path, _| keep(path));
    }

    /// Returns the memo as bytes, to be kept until the next run.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(16 + self.stamps.len() * 128);
        bytes.extend(MAGIC);
        bytes.extend(VERSION.to_le_bytes());
        let mut stamps: Vec<_> = self.stamps.iter().collect();
        stamps.sort_by_key(|(path, _)| path.as_os_str().as_bytes());
        for (path, stamp) in stamps {
            let path = path.as_os_str().as_bytes();
            bytes.extend((path.len() as u32).to_le_bytes());
            bytes.extend(path);
            bytes.extend(stamp.stat.size.to_le_bytes());
            bytes.extend(stamp.stat.mtime_ns.to_le_bytes());
            bytes.extend(stamp.stat.ctime_ns.to_le_bytes());
            bytes.extend(stamp.stat.ino.to_le_bytes());
            bytes.extend(stamp.hashed_at_ns.to_le_bytes());
            bytes.extend(stamp.id.as_bytes());
        }
        let check = blake3::hash(&bytes);
        bytes.extend(check.as_bytes());
        bytes
    }

    /// Returns the memo that was encoded, or nothing if a bit of it changed.
    pub fn decode(bytes: &[u8]) -> Option<StatMemo> {
        let (body, check) = bytes.split_at_checked(bytes.len().checked_sub(32)?)?;
        let mut reader = Reader(body);
        if blake3::hash(body).as_bytes()[..] != *check
            || reader.take(8)? != MAGIC
            || reader.u32()? != VERSION
        {
            return None;
        }
        let mut memo = StatMemo::new();
        while !reader.0.is_empty() {
            let len = reader.u32()? as usize;
            let path = std::ffi::OsStr::from_bytes(reader.take(len)?).into();
            let stat = FileStat {
                size: reader.u64()?,
                mtime_ns: reader.u64()? as i64,
                ctime_ns: reader.u64()? as i64,
                ino: reader.u64()?,
            };
            let hashed_at_ns = reader.u64()? as i64;
            let id = BlobId::from_bytes(reader.array()?);
            memo.stamps.insert(
                path,
                Stamp {
                    stat,
                    hashed_at_ns,
                    id,
                },
            );
        }
        Some(memo)
    }

    /// Returns the sha256 of a file that certainly did not change.
    pub(crate) fn find(&self, path: &Path, stat: &FileStat) -> Option<BlobId> {
        let stamp = self.stamps.get(path)?;
        let is_coarse = stat.mtime_ns % 1_000_000_000 == 0;
        let tick = if is_coarse { COARSE_NS } else { TICK_NS };
        let changed_at = stat.mtime_ns.max(stat.ctime_ns);
        let is_sure = stamp.stat == *stat && changed_at.saturating_add(tick) < stamp.hashed_at_ns;
        is_sure.then_some(stamp.id)
    }

    /// Remembers a file that was hashed at this time.
    pub(crate) fn note(&mut self, path: PathBuf, stat: FileStat, hashed_at_ns: i64, id: BlobId) {
        self.stamps.insert(
            path,
            Stamp {
                stat,
                hashed_at_ns,
                id,
            },
        );
    }
}

/// Returns the time in nanoseconds, as file systems count it.
pub(crate) fn now_ns() -> i64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.map_or(0, |now| now.as_nanos() as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: FileStat = FileStat {
        size: 5,
        mtime_ns: 1_500_000_001,
        ctime_ns: 0,
        ino: 9,
    };

    fn find(hashed_at_ns: i64, noted: FileStat, seen: FileStat) -> Option<BlobId> {
        let mut memo = StatMemo::new();
        memo.note("file".into(), noted, hashed_at_ns, BlobId::of(b"bytes"));
        memo.find(Path::new("file"), &seen)
    }

    #[test]
    fn a_file_that_was_old_when_it_was_hashed_is_not_hashed_again() {
        assert_eq!(find(1_600_000_000, STAT, STAT), Some(BlobId::of(b"bytes")));
    }

    #[test]
    fn a_file_hashed_within_the_tick_of_its_change_is_hashed_again() {
        assert_eq!(find(1_510_000_000, STAT, STAT), None);
        assert_eq!(
            find(1_400_000_000, STAT, STAT),
            None,
            "its time lies in the future"
        );
        let changed = FileStat {
            ctime_ns: 1_590_000_000,
            ..STAT
        };
        assert_eq!(find(1_600_000_000, changed, changed), None);
        let coarse = FileStat {
            mtime_ns: 1_000_000_000,
            ..STAT
        };
        assert_eq!(find(2_500_000_000, coarse, coarse), None);
        assert!(find(3_200_000_000, coarse, coarse).is_some());
    }

    #[test]
    fn any_difference_makes_a_file_be_hashed_again() {
        for seen in [
            FileStat { size: 6, ..STAT },
            FileStat {
                mtime_ns: 1,
                ..STAT
            },
            FileStat {
                ctime_ns: 1,
                ..STAT
            },
            FileStat { ino: 1, ..STAT },
        ] {
            assert_eq!(find(9_000_000_000, STAT, seen), None, "{seen:?}");
        }
    }
}
