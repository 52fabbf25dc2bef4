//! Making a folder that exists equal to a tree, touching only what differs.
//!
//! Every file that must be made is made and verified beside the folder first, so that a missing blob
//! leaves the folder as it was. Nothing may run in the folder meanwhile.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};

use super::memo::StatMemo;
use super::restore::{Stage, Stop, make_files, make_folder, restore};
use super::walk::{Closed, FoundKind, hash_files, walk};
use super::{Restored, TreeEntry, TreeKind, entries};
use crate::blob::Blobs;
use crate::disk::Disk;
use crate::error::TreeError;
use crate::record::BlobRef;

pub(crate) fn sync(
    disk: &Disk,
    blobs: &Blobs,
    manifest: &BlobRef,
    dest: &Path,
    memo: &mut StatMemo,
) -> Result<Restored, TreeError> {
    match disk.stat(dest) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return restore(disk, blobs, manifest, dest);
        }
        Err(error) => return Err(TreeError::io("look at", dest, error)),
        Ok(metadata) if !metadata.is_dir() => {
            return Err(TreeError::Occupied {
                path: dest.to_owned(),
            });
        }
        Ok(_) => {}
    }
    let Some(entries) = entries(blobs, manifest) else {
        return Ok(Restored::Miss {
            blob: *manifest,
            path: None,
        });
    };
    let plan = compare(disk, dest, &entries, memo)?;
    let stage = Stage::beside(disk, dest)?;
    let staged = |n: usize| stage.path.join(n.to_string());
    match make_files(disk, blobs, &plan.files, |n, _| staged(n)) {
        Ok(()) => {}
        Err(Stop::Miss { blob, path }) => {
            return Ok(Restored::Miss {
                blob,
                path: Some(path),
            });
        }
        Err(Stop::Error(error)) => return Err(error),
    }
    for path in &plan.closed {
        let path = dest.join(path);
        let io = |error| TreeError::io("change the mode of", &path, error);
        disk.chmod(&path, 0o755).map_err(io)?;
    }
    for path in &plan.removals {
        let path = dest.join(path);
        disk.remove_any(&path)
            .map_err(|error| TreeError::io("remove", &path, error))?;
    }
    for entry in &plan.others {
        let path = dest.join(&entry.path);
        match &entry.kind {
            TreeKind::Link { target } => disk
                .make_link(target, &path)
                .map_err(|error| TreeError::io("create", &path, error))?,
            TreeKind::Folder | TreeKind::File { .. } => make_folder(disk, &path)?,
        }
    }
    for (n, entry) in plan.files.iter().enumerate() {
        let path = dest.join(&entry.path);
        let io = |error| TreeError::io("write", &path, error);
        disk.rename(&staged(n), &path).map_err(io)?;
    }
    for entry in &plan.modes {
        let path = dest.join(&entry.path);
        let io = |error| TreeError::io("change the mode of", &path, error);
        disk.chmod(&path, entry.mode()).map_err(io)?;
    }
    Ok(Restored::Done)
}

/// What must be done, in this order.
#[derive(Default)]
struct Plan<'a> {
    /// Folders in which the owner may not do everything.
    closed: Vec<PathBuf>,
    removals: Vec<PathBuf>,
    /// Folders and links to be made.
    others: Vec<&'a TreeEntry>,
    files: Vec<&'a TreeEntry>,
    modes: Vec<&'a TreeEntry>,
}

fn compare<'a>(
    disk: &Disk,
    dest: &Path,
    entries: &'a [TreeEntry],
    memo: &mut StatMemo,
) -> Result<Plan<'a>, TreeError> {
    let found = walk(disk, dest, Closed::Opened)?;
    let wanted: HashMap<&Path, &TreeEntry> = entries
        .iter()
        .map(|entry| (entry.path.as_path(), entry))
        .collect();
    let mut plan = Plan::default();
    let mut same: HashMap<&Path, u32> = HashMap::new();
    let mut candidates = Vec::new();
    let mut removed: Option<PathBuf> = None;
    for found in found {
        if removed
            .as_ref()
            .is_some_and(|removed| found.path.starts_with(removed))
        {
            continue;
        }
        let entry = wanted.get(found.path.as_path()).copied();
        match (entry.map(|entry| &entry.kind), &found.kind) {
            (Some(TreeKind::Folder), FoundKind::Folder { mode }) => {
                if mode & 0o700 != 0o700 {
                    plan.closed.push(found.path.clone());
                }
                same.insert(&entry.expect("matched above").path, 0);
            }
            (Some(TreeKind::Link { target }), FoundKind::Link { target: current })
                if target.as_os_str() == current.as_os_str() =>
            {
                same.insert(&entry.expect("matched above").path, 0);
            }
            (Some(TreeKind::File { blob, .. }), FoundKind::File { stat, .. }) => {
                // A file of another size is replaced by the rename.
                if blob.size == stat.size {
                    candidates.push(found);
                }
            }
            _ => {
                if matches!(found.kind, FoundKind::Folder { .. }) {
                    removed = Some(found.path.clone());
                }
                plan.removals.push(found.path);
            }
        }
    }
    let ids = hash_files(disk, None, dest, &candidates, memo)?;
    for (n, found) in candidates.iter().enumerate() {
        let entry = wanted[found.path.as_path()];
        if let (TreeKind::File { blob, .. }, FoundKind::File { mode, .. }) =
            (&entry.kind, &found.kind)
            && ids[&n] == *blob
        {
            same.insert(&entry.path, mode & 0o7777);
        }
    }
    for entry in entries {
        match (same.get(entry.path.as_path()), &entry.kind) {
            (Some(mode), TreeKind::File { .. }) if *mode != entry.mode() => plan.modes.push(entry),
            (Some(_), _) => {}
            (None, TreeKind::File { .. }) => plan.files.push(entry),
            (None, _) => plan.others.push(entry),
        }
    }
    Ok(plan)
}
