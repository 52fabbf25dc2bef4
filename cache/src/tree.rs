//! Folders as trees: a manifest that names every file by its content.
//!
//! A manifest lists folders, files and links by their relative paths, in order of bytes. Of a mode it
//! keeps whether the owner may execute; it knows no owner and no time. Its sha256 is the digest of
//! the tree, and it is stored as a blob like any other.

pub(crate) mod memo;
pub(crate) mod restore;
pub(crate) mod sync;
pub(crate) mod walk;

use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use crate::blob::{Blobs, Presence};
use crate::format::{Reader, VERSION};
use crate::record::BlobRef;

const MAGIC: &[u8; 8] = b"AEBTREE\n";

/// A folder that was stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tree {
    /// The blob that lists its contents.
    pub manifest: BlobRef,
    /// How many files it has.
    pub files: u64,
    /// How many bytes its files have.
    pub bytes: u64,
}

/// One line of a manifest.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TreeEntry {
    /// Path below the folder.
    pub path: PathBuf,
    /// What is there.
    pub kind: TreeKind,
}

/// What a line of a manifest stands for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TreeKind {
    /// A folder.
    Folder,
    /// A regular file.
    File {
        /// Its bytes.
        blob: BlobRef,
        /// Its owner may execute it.
        is_executable: bool,
    },
    /// A symbolic link, never followed.
    Link {
        /// The text of the link.
        target: PathBuf,
    },
}

/// What happens to links that leave the folder.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Symlinks {
    /// Every link is kept as it is.
    #[default]
    Kept,
    /// A link that leaves the folder is refused.
    Confined,
}

/// How restoring a tree ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Restored {
    /// The folder equals the tree.
    Done,
    /// A blob is missing or damaged, and the folder was not touched.
    Miss {
        /// The blob.
        blob: BlobRef,
        /// The file that needs it, or nothing for the manifest itself.
        path: Option<PathBuf>,
    },
}

impl TreeEntry {
    /// Returns the mode that the entry is restored with.
    pub fn mode(&self) -> u32 {
        match self.kind {
            TreeKind::File {
                is_executable: false,
                ..
            } => 0o644,
            TreeKind::File { .. } | TreeKind::Folder => 0o755,
            TreeKind::Link { .. } => 0o777,
        }
    }
}

/// Returns the canonical bytes of a manifest.
pub(crate) fn write_manifest(entries: &[TreeEntry]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(16 + entries.len() * 80);
    bytes.extend(MAGIC);
    bytes.extend(VERSION.to_le_bytes());
    bytes.extend((entries.len() as u32).to_le_bytes());
    let text = |bytes: &mut Vec<u8>, text: &OsStr| {
        bytes.extend((text.len() as u32).to_le_bytes());
        bytes.extend(text.as_bytes());
    };
    for entry in entries {
        match &entry.kind {
            TreeKind::Folder => {
                bytes.push(0);
                text(&mut bytes, entry.path.as_os_str());
            }
            TreeKind::File {
                blob,
                is_executable,
            } => {
                bytes.push(1 + u8::from(*is_executable));
                text(&mut bytes, entry.path.as_os_str());
                bytes.extend(blob.id.as_bytes());
                bytes.extend(blob.size.to_le_bytes());
            }
            TreeKind::Link { target } => {
                bytes.push(3);
                text(&mut bytes, entry.path.as_os_str());
                text(&mut bytes, target.as_os_str());
            }
        }
    }
    bytes
}

/// Reads a manifest; nothing, unless every path is one that restoring can create in its folder.
pub(crate) fn read_manifest(bytes: &[u8]) -> Option<Vec<TreeEntry>> {
    let mut reader = Reader(bytes);
    if reader.take(8)? != MAGIC || reader.u32()? != VERSION {
        return None;
    }
    let count = reader.u32()? as usize;
    let mut entries: Vec<TreeEntry> = Vec::with_capacity(count.min(bytes.len() / 6));
    let mut folders: HashSet<&[u8]> = HashSet::new();
    let mut last: &[u8] = b"";
    for _ in 0..count {
        let kind = reader.u8()?;
        let len = reader.u32()? as usize;
        let path = reader.take(len)?;
        let is_plain = path
            .split(|byte| *byte == b'/')
            .all(|name| !name.is_empty() && name != b"." && name != b".." && !name.contains(&0));
        if !is_plain || path <= last {
            return None;
        }
        last = path;
        if let Some(end) = path.iter().rposition(|byte| *byte == b'/')
            && !folders.contains(&path[..end])
        {
            return None;
        }
        let kind = match kind {
            0 => {
                folders.insert(path);
                TreeKind::Folder
            }
            1 | 2 => TreeKind::File {
                blob: reader.blob()?,
                is_executable: kind == 2,
            },
            3 => {
                let len = reader.u32()? as usize;
                let target = reader.take(len)?;
                if target.is_empty() || target.contains(&0) {
                    return None;
                }
                TreeKind::Link {
                    target: OsStr::from_bytes(target).into(),
                }
            }
            _ => return None,
        };
        entries.push(TreeEntry {
            path: OsStr::from_bytes(path).into(),
            kind,
        });
    }
    reader.0.is_empty().then_some(entries)
}

/// Returns the entries of a stored tree.
pub(crate) fn entries(blobs: &Blobs, manifest: &BlobRef) -> Option<Vec<TreeEntry>> {
    read_manifest(&blobs.get(manifest)?)
}

/// Tells whether the manifest and every blob it names are there, by name and size.
pub(crate) fn is_stored(blobs: &Blobs, manifest: &BlobRef) -> bool {
    let Some(entries) = entries(blobs, manifest) else {
        return false;
    };
    entries.iter().all(|entry| match &entry.kind {
        TreeKind::File { blob, .. } => matches!(blobs.presence(blob), Presence::Present { .. }),
        TreeKind::Folder | TreeKind::Link { .. } => true,
    })
}

/// Does work on every item, on two threads where that pays; the first error ends it.
pub(crate) fn on_two_threads<T: Sync, E: Send>(
    items: &[T],
    bytes: u64,
    work: impl Fn(&T) -> Result<(), E> + Sync,
) -> Result<(), E> {
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicUsize, Ordering};
    let pays = items.len() >= 2 && (items.len() >= 64 || bytes >= 4 << 20);
    if !pays || std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        return items.iter().try_for_each(work);
    }
    let next = AtomicUsize::new(0);
    let failed = Mutex::new(None);
    let drain = || {
        // Neighbours share a folder, so each thread takes a few at a time.
        let step = if items.len() >= 64 { 16 } else { 1 };
        loop {
            let begin = next.fetch_add(step, Ordering::Relaxed);
            if begin >= items.len() {
                return;
            }
            for item in &items[begin..items.len().min(begin + step)] {
                if let Err(error) = work(item) {
                    failed
                        .lock()
                        .expect("no holder panics")
                        .get_or_insert(error);
                    next.store(items.len(), Ordering::Relaxed);
                    return;
                }
            }
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(drain);
        drain();
    });
    failed
        .into_inner()
        .expect("no holder panics")
        .map_or(Ok(()), Err)
}
