//! Restoring a tree into a folder that is not there yet.
//!
//! Everything is made in a private folder beside the destination, every byte is verified while it is
//! copied, and one rename puts the whole in place. The cache's own files are never handed out.

use std::io;
use std::path::{Path, PathBuf};

use super::{Restored, TreeEntry, TreeKind, entries, on_two_threads};
use crate::blob::Blobs;
use crate::disk::{self, Disk};
use crate::error::TreeError;
use crate::record::BlobRef;

/// Why making files stopped.
pub(crate) enum Stop {
    /// A blob is missing or damaged.
    Miss { blob: BlobRef, path: PathBuf },
    /// The file system refused.
    Error(TreeError),
}

impl From<TreeError> for Stop {
    fn from(error: TreeError) -> Stop {
        Stop::Error(error)
    }
}

pub(crate) fn restore(
    disk: &Disk,
    blobs: &Blobs,
    manifest: &BlobRef,
    dest: &Path,
) -> Result<Restored, TreeError> {
    let Some(entries) = entries(blobs, manifest) else {
        return Ok(Restored::Miss {
            blob: *manifest,
            path: None,
        });
    };
    match disk.stat(dest) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(TreeError::io("look at", dest, error)),
        Ok(metadata) => {
            let is_empty = metadata.is_dir() && disk.list(dest).is_ok_and(|list| list.is_empty());
            if !is_empty {
                return Err(TreeError::Occupied {
                    path: dest.to_owned(),
                });
            }
        }
    }
    let stage = Stage::beside(disk, dest)?;
    for entry in &entries {
        let path = stage.path.join(&entry.path);
        match &entry.kind {
            TreeKind::Folder => make_folder(disk, &path)?,
            TreeKind::Link { target } => disk
                .make_link(target, &path)
                .map_err(|error| TreeError::io("create", &path, error))?,
            TreeKind::File { .. } => {}
        }
    }
    let files: Vec<&TreeEntry> = entries
        .iter()
        .filter(|entry| matches!(entry.kind, TreeKind::File { .. }))
        .collect();
    let made = make_files(disk, blobs, &files, |_, entry| stage.path.join(&entry.path));
    match made {
        Ok(()) => {}
        Err(Stop::Miss { blob, path }) => {
            return Ok(Restored::Miss {
                blob,
                path: Some(path),
            });
        }
        Err(Stop::Error(error)) => return Err(error),
    }
    disk.chmod(&stage.path, 0o755)
        .map_err(|error| TreeError::io("prepare", &stage.path, error))?;
    stage.become_folder(dest)?;
    Ok(Restored::Done)
}

/// Makes the files of these entries at the paths that `place` gives.
pub(crate) fn make_files(
    disk: &Disk,
    blobs: &Blobs,
    files: &[&TreeEntry],
    place: impl Fn(usize, &TreeEntry) -> PathBuf + Sync,
) -> Result<(), Stop> {
    let n_bytes = files.iter().map(|entry| blob_of(entry).size).sum();
    let numbered: Vec<(usize, &TreeEntry)> = files.iter().copied().enumerate().collect();
    on_two_threads(&numbered, n_bytes, |(n, entry)| {
        let (path, blob) = (place(*n, entry), blob_of(entry));
        let io = |error| TreeError::io("write", &path, error);
        let file = disk.create_new(&path, entry.mode()).map_err(io)?;
        if !blobs.copy_into(&blob, &file).map_err(io)? {
            return Err(Stop::Miss {
                blob,
                path: entry.path.clone(),
            });
        }
        disk.chmod_file(&file, entry.mode()).map_err(io)?;
        Ok(())
    })
}

pub(crate) fn make_folder(disk: &Disk, path: &Path) -> Result<(), TreeError> {
    let io = |error| TreeError::io("create", path, error);
    disk.make_folder(path, 0o755).map_err(io)?;
    disk.chmod(path, 0o755).map_err(io)
}

fn blob_of(entry: &TreeEntry) -> BlobRef {
    match entry.kind {
        TreeKind::File { blob, .. } => blob,
        _ => panic!(
            "bug: only files have blobs, and `{}` is none",
            entry.path.display()
        ),
    }
}

/// A private folder beside a destination, removed unless it becomes the destination.
pub(crate) struct Stage<'a> {
    disk: &'a Disk,
    pub(crate) path: PathBuf,
}

impl Stage<'_> {
    pub(crate) fn beside<'a>(disk: &'a Disk, dest: &Path) -> Result<Stage<'a>, TreeError> {
        let name = dest.file_name().unwrap_or_default().to_string_lossy();
        let name = name.get(..100).unwrap_or(&name);
        let name = format!(".{name}.aebuild-{:016x}", disk::random_id());
        let parent = match dest.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let path = parent.join(name);
        disk.make_folders(parent, 0o755)
            .map_err(|error| TreeError::io("create", parent, error))?;
        disk.make_folder(&path, 0o700)
            .map_err(|error| TreeError::io("create", &path, error))?;
        Ok(Stage { disk, path })
    }

    fn become_folder(self, dest: &Path) -> Result<(), TreeError> {
        self.disk
            .rename(&self.path, dest)
            .map_err(|error| TreeError::io("create", dest, error))
    }
}

impl Drop for Stage<'_> {
    fn drop(&mut self) {
        let _ = self.disk.remove_any(&self.path);
    }
}
