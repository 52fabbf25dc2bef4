//! The state of a sandbox's folder: taken into the cache, unless it holds what must not be written anywhere.

use std::collections::HashMap;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use aebuild_cache::{BlobRef, Cache, StatMemo, TreeError};

use crate::plan::is_settled;
use crate::record::Redactor;
use crate::system::{FileKind, OsSystem, Stamp, System as _, disk};

/// Looks for values that must not be written anywhere, once in each file.
#[derive(Debug, Default)]
pub(super) struct Secrets {
    redactor: Redactor,
    /// The files in which there was none.
    clean: HashMap<PathBuf, Stamp>,
}

impl Secrets {
    pub(super) fn of(redactor: Redactor) -> Self {
        Secrets {
            redactor,
            clean: HashMap::new(),
        }
    }

    /// Returns the first path below a folder that holds such a value.
    fn found_in(&mut self, folder: &Path) -> io::Result<Option<PathBuf>> {
        if self.redactor.is_empty() {
            return Ok(None);
        }
        let now_ns = i128::from(OsSystem.now_us()) * 1000;
        let mut folders = vec![folder.to_path_buf()];
        while let Some(at) = folders.pop() {
            for name in disk::read_dir(&at)? {
                let path = at.join(&name);
                let metadata = OsSystem.link_metadata(&path)?;
                let is_file = metadata.kind == FileKind::File;
                if self.redactor.is_in(name.as_bytes()) {
                    return Ok(Some(path));
                }
                if metadata.kind == FileKind::Folder {
                    folders.push(path);
                    continue;
                }
                if is_file && self.clean.get(&path) == Some(&metadata.stamp) {
                    continue;
                }
                let bytes = match metadata.kind {
                    FileKind::File => disk::read(&path)?,
                    FileKind::Link => disk::read_link(&path)?.as_os_str().as_bytes().to_vec(),
                    _ => continue,
                };
                if self.redactor.is_in(&bytes) {
                    return Ok(Some(path));
                }
                if is_file && is_settled(&metadata.stamp, now_ns) {
                    self.clean.insert(path, metadata.stamp);
                }
            }
        }
        Ok(None)
    }
}

/// What the state of a folder is taken with.
pub(super) struct Taking {
    pub(super) cache: Option<Cache>,
    pub(super) folder: PathBuf,
    pub(super) memo: StatMemo,
    pub(super) secrets: Secrets,
}

impl Taking {
    /// Takes the state of the folder into the cache, and says why it is not kept there. Where the state is most likely the
    /// one `before`, it is looked at first.
    pub(super) fn take(
        mut self,
        before: Option<BlobRef>,
    ) -> ((Result<BlobRef, TreeError>, Taking), Option<String>) {
        if let Some(before) = before {
            let now = Cache::digest_tree(&self.folder, &mut self.memo);
            if now.as_ref().is_ok_and(|now| now.id == before.id) {
                return ((now, self), None);
            }
        }
        let (tree, notice) = self.keep();
        let tree = tree.unwrap_or_else(|| Cache::digest_tree(&self.folder, &mut self.memo));
        ((tree, self), notice)
    }

    fn keep(&mut self) -> (Option<Result<BlobRef, TreeError>>, Option<String>) {
        let Some(cache) = self.cache.clone() else {
            return (None, None);
        };
        match self.secrets.found_in(&self.folder) {
            Ok(None) => {}
            Ok(Some(path)) => {
                let below = path.strip_prefix(&self.folder).unwrap_or(&path);
                let why = format!(
                    "the state of a sandbox is not kept: `/{}` holds the value of a variable that is passed on",
                    self.secrets.redactor.text(&below.to_string_lossy())
                );
                return (None, Some(why));
            }
            Err(error) => {
                let why = format!("the state of a sandbox is not kept: {error}");
                return (None, Some(why));
            }
        }
        match cache.store_tree(&self.folder, &mut self.memo) {
            Ok(tree) => (Some(Ok(tree.manifest)), None),
            Err(error) => (None, Some(error.to_string())),
        }
    }
}
