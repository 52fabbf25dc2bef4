//! Reading a folder: what is in it, and the sha256 of each file.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use sha2::{Digest, Sha256};

use super::memo::{FileStat, StatMemo, now_ns};
use super::{Symlinks, Tree, TreeEntry, TreeKind, on_two_threads, write_manifest};
use crate::blob::{Blobs, Presence};
use crate::disk::{Disk, Kind};
use crate::error::{StoreError, TreeError};
use crate::record::{BlobId, BlobRef};

/// Files up to this size are held in memory, so that they are read once.
const IN_MEMORY: u64 = 8 << 20;
/// So many links are followed when one is resolved.
const MAX_LINKS: usize = 40;

/// Something in a folder.
#[derive(Debug)]
pub(crate) struct Found {
    /// Path below the folder.
    pub(crate) path: PathBuf,
    pub(crate) kind: FoundKind,
}

#[derive(Debug)]
pub(crate) enum FoundKind {
    /// A folder.
    Folder { mode: u32 },
    /// A regular file.
    File { stat: FileStat, mode: u32 },
    /// A symbolic link.
    Link { target: PathBuf },
    /// A FIFO, a socket or a device.
    Special { kind: &'static str },
}

/// What happens to a folder that may not be listed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Closed {
    /// It is an error.
    Refused,
    /// It is opened up.
    Opened,
}

/// Lists everything in a folder, in order of paths.
pub(crate) fn walk(disk: &Disk, root: &Path, closed: Closed) -> Result<Vec<Found>, TreeError> {
    let mut found = Vec::new();
    let mut folders = vec![OsString::new()];
    while let Some(folder) = folders.pop() {
        let at = if folder.is_empty() {
            root.to_owned()
        } else {
            root.join(&folder)
        };
        let listed = disk.list(&at).or_else(|error| {
            if closed == Closed::Refused || error.kind() != io::ErrorKind::PermissionDenied {
                return Err(error);
            }
            disk.chmod(&at, 0o755)?;
            disk.list(&at)
        });
        for listed in listed.map_err(|error| TreeError::io("list", &at, error))? {
            let mut path = folder.clone();
            if !path.is_empty() {
                path.push("/");
            }
            path.push(&listed.name);
            let absolute = at.join(&listed.name);
            let kind = match listed.kind {
                Kind::Link => {
                    let target = disk.read_link(&absolute);
                    let target = target.map_err(|error| TreeError::io("read", &absolute, error))?;
                    FoundKind::Link { target }
                }
                Kind::File | Kind::Folder => {
                    let metadata = disk.stat(&absolute);
                    let metadata =
                        metadata.map_err(|error| TreeError::io("look at", &absolute, error))?;
                    let mode = metadata.mode();
                    if listed.kind == Kind::Folder {
                        folders.push(path.clone());
                        FoundKind::Folder { mode }
                    } else {
                        FoundKind::File {
                            stat: FileStat::of(&metadata),
                            mode,
                        }
                    }
                }
                Kind::Special => FoundKind::Special {
                    kind: special_kind(disk, &absolute),
                },
            };
            found.push(Found {
                path: path.into(),
                kind,
            });
        }
    }
    found.sort_unstable_by(|one, other| bytes(&one.path).cmp(bytes(&other.path)));
    Ok(found)
}

/// Hashes a folder and stores what the blobs lack, or only hashes it.
pub(crate) fn take(
    disk: &Disk,
    blobs: Option<(&Blobs, u64)>,
    root: &Path,
    memo: &mut StatMemo,
    symlinks: Symlinks,
) -> Result<(Tree, Vec<u8>), TreeError> {
    let found = walk(disk, root, Closed::Refused)?;
    for found in &found {
        if let FoundKind::Special { kind } = found.kind {
            return Err(TreeError::Special {
                kind,
                path: root.join(&found.path),
            });
        }
    }
    if symlinks == Symlinks::Confined {
        confine(root, &found)?;
    }
    let ids = hash_files(disk, blobs, root, &found, memo)?;
    let (mut files, mut bytes) = (0, 0);
    let mut entries = Vec::with_capacity(found.len());
    for (n, found) in found.into_iter().enumerate() {
        let kind = match found.kind {
            FoundKind::Folder { .. } => TreeKind::Folder,
            FoundKind::Link { target } => TreeKind::Link { target },
            FoundKind::File { mode, .. } => {
                let blob = ids[&n];
                files += 1;
                bytes += blob.size;
                TreeKind::File {
                    blob,
                    is_executable: mode & 0o100 != 0,
                }
            }
            FoundKind::Special { .. } => continue,
        };
        entries.push(TreeEntry {
            path: found.path,
            kind,
        });
    }
    let manifest = write_manifest(&entries);
    Ok((
        Tree {
            manifest: BlobRef::of(&manifest),
            files,
            bytes,
        },
        manifest,
    ))
}

/// Returns the blob of each file by its number in the list.
pub(crate) fn hash_files(
    disk: &Disk,
    blobs: Option<(&Blobs, u64)>,
    root: &Path,
    found: &[Found],
    memo: &mut StatMemo,
) -> Result<HashMap<usize, BlobRef>, TreeError> {
    let mut ids = HashMap::new();
    let mut rest = Vec::new();
    let mut n_bytes = 0;
    for (n, found) in found.iter().enumerate() {
        let FoundKind::File { stat, .. } = &found.kind else {
            continue;
        };
        let path = root.join(&found.path);
        if let Some(id) = memo.find(&path, stat) {
            let blob = BlobRef {
                id,
                size: stat.size,
            };
            let is_stored = blobs
                .is_none_or(|(blobs, _)| matches!(blobs.presence(&blob), Presence::Present { .. }));
            if is_stored {
                ids.insert(n, blob);
                continue;
            }
        }
        n_bytes += stat.size;
        rest.push((n, path));
    }
    let done = Mutex::new(Vec::with_capacity(rest.len()));
    on_two_threads(&rest, n_bytes, |(n, path)| {
        let hashed_at_ns = now_ns();
        let (blob, stat) = hash_file(disk, blobs, path)?;
        done.lock()
            .expect("no holder panics")
            .push((*n, blob, stat, hashed_at_ns));
        Ok::<(), TreeError>(())
    })?;
    let mut paths: HashMap<usize, PathBuf> = rest.into_iter().collect();
    for (n, blob, stat, hashed_at_ns) in done.into_inner().expect("no holder panics") {
        let path = paths.remove(&n).expect("each file is hashed once");
        memo.note(path, stat, hashed_at_ns, blob.id);
        ids.insert(n, blob);
    }
    Ok(ids)
}

/// Hashes a file, and stores it if the blobs lack it.
fn hash_file(
    disk: &Disk,
    blobs: Option<(&Blobs, u64)>,
    path: &Path,
) -> Result<(BlobRef, FileStat), TreeError> {
    let io = |error| TreeError::io("read", path, error);
    let (file, metadata) = disk.open_read(path).map_err(io)?;
    let before = FileStat::of(&metadata);
    let mut hasher = Sha256::new();
    let mut kept = Vec::new();
    let is_kept = blobs.is_some() && before.size <= IN_MEMORY;
    let mut piece = vec![0; before.size.clamp(1, 256 << 10) as usize];
    let mut size = 0;
    loop {
        // At the expected end one more byte is asked for, to see that the file ends there.
        let n = disk.read_at(&file, &mut piece, size).map_err(io)?;
        if n == 0 {
            break;
        }
        hasher.update(&piece[..n]);
        if is_kept && size + n as u64 <= IN_MEMORY {
            kept.extend_from_slice(&piece[..n]);
        }
        size += n as u64;
    }
    let after = FileStat::of(&file.metadata().map_err(io)?);
    let changed = || TreeError::Changed {
        path: path.to_owned(),
    };
    if size != before.size || after != before {
        return Err(changed());
    }
    let blob = BlobRef {
        id: BlobId::from_bytes(hasher.finalize().into()),
        size,
    };
    if let Some((blobs, now_ms)) = blobs {
        blobs
            .put_known(&blob, now_ms, |writer| {
                if is_kept {
                    return writer.write_all(&kept);
                }
                copy(disk, &file, writer)
            })
            .map_err(|error| match error {
                StoreError::NotReadBack { .. } => changed(),
                error => error.into(),
            })?;
    }
    Ok((blob, before))
}

fn copy(disk: &Disk, file: &std::fs::File, writer: &mut dyn Write) -> io::Result<()> {
    let mut piece = vec![0; 256 << 10];
    let mut at = 0;
    loop {
        let n = disk.read_at(file, &mut piece, at)?;
        if n == 0 {
            return Ok(());
        }
        writer.write_all(&piece[..n])?;
        at += n as u64;
    }
}

/// Refuses links that lead out of the folder, also by way of other links.
fn confine(root: &Path, found: &[Found]) -> Result<(), TreeError> {
    let links: HashMap<&[u8], &Path> = found
        .iter()
        .filter_map(|found| match &found.kind {
            FoundKind::Link { target } => Some((bytes(&found.path), target.as_path())),
            _ => None,
        })
        .collect();
    for found in found {
        if let FoundKind::Link { target } = &found.kind
            && !stays_inside(&found.path, &links)
        {
            return Err(TreeError::Escapes {
                path: root.join(&found.path),
                target: target.clone(),
            });
        }
    }
    Ok(())
}

fn stays_inside(link: &Path, links: &HashMap<&[u8], &Path>) -> bool {
    let mut at: Vec<u8> = Vec::new();
    let split = |path: &Path| -> Vec<Vec<u8>> {
        bytes(path)
            .split(|byte| *byte == b'/')
            .rev()
            .map(<[u8]>::to_vec)
            .collect()
    };
    let mut ahead = split(link);
    let mut n_links = 0;
    while let Some(name) = ahead.pop() {
        match &name[..] {
            b"" | b"." => continue,
            b".." if at.is_empty() => return false,
            b".." => {
                let end = at.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
                at.truncate(end);
                continue;
            }
            _ => {}
        }
        let parent = at.len();
        if !at.is_empty() {
            at.push(b'/');
        }
        at.extend(&name);
        if let Some(target) = links.get(&at[..]) {
            n_links += 1;
            if n_links > MAX_LINKS || target.is_absolute() {
                return false;
            }
            at.truncate(parent);
            ahead.extend(split(target));
        }
    }
    true
}

fn special_kind(disk: &Disk, path: &Path) -> &'static str {
    match disk.stat(path).map(|metadata| metadata.file_type()) {
        Ok(kind) if kind.is_fifo() => "FIFO",
        Ok(kind) if kind.is_socket() => "socket",
        _ => "device",
    }
}

fn bytes(path: &Path) -> &[u8] {
    <OsStr as OsStrExt>::as_bytes(path.as_os_str())
}
