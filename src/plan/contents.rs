//! The digests of files, and the memo that spares hashing what did not change.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::digest::{Digest, Stream};
use crate::step::{ArtifactKind, Content, ContentFile};
use crate::system::{Stamp, System};
use crate::task::folder::{Artifact, ArtifactFile, Definition};

/// A file changed this close to when it was hashed may change again under the same stamp, so its digest is not kept.
const RACY_NS: i128 = 20_000_000;

/// Digests by path and stamp. A stamp only decides whether to hash again; it never enters a key.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FileMemo {
    known: HashMap<PathBuf, (Stamp, Digest)>,
    /// The digests of files that may have changed since under the same stamp: no more than what a file was last.
    last: HashMap<PathBuf, Digest>,
}

impl FileMemo {
    /// Returns the memo with these digests.
    pub fn from_known(known: impl IntoIterator<Item = (PathBuf, Stamp, Digest)>) -> Self {
        FileMemo {
            known: known
                .into_iter()
                .map(|(path, stamp, digest)| (path, (stamp, digest)))
                .collect(),
            last: HashMap::new(),
        }
    }

    /// Returns what is known, sorted by path.
    pub fn known(&self) -> Vec<(&Path, Stamp, Digest)> {
        let mut known: Vec<_> = self
            .known
            .iter()
            .map(|(path, (stamp, digest))| (path.as_path(), *stamp, *digest))
            .collect();
        known.sort_by_key(|(path, _, _)| *path);
        known
    }

    /// Returns the digest and size of a file, hashing it only where its stamp is not the known one.
    pub fn digest(&mut self, system: &dyn System, path: &Path) -> io::Result<(Digest, u64)> {
        let before = system.metadata(path)?.stamp;
        if let Some((stamp, digest)) = self.known.get(path)
            && *stamp == before
        {
            return Ok((*digest, before.size));
        }
        if let Some((_, digest)) = self.known.remove(path) {
            self.last.insert(path.to_path_buf(), digest);
        }
        let mut hasher = Stream::new();
        system.stream(path, &mut |bytes| hasher.update(bytes))?;
        let digest = hasher.finish();
        let after = system.metadata(path)?.stamp;
        if after != before {
            return Err(io::Error::new(
                io::ErrorKind::ResourceBusy,
                format!("{} changed while it was read", path.display()),
            ));
        }
        let now_ns = i128::from(system.now_us()) * 1000;
        if is_settled(&before, now_ns) {
            self.last.remove(path);
            self.known.insert(path.to_path_buf(), (before, digest));
        } else {
            self.last.insert(path.to_path_buf(), digest);
        }
        Ok((digest, before.size))
    }

    /// Forgets files that are not there: of whoever worked here before, or by the names that they had from another folder.
    pub fn forget_gone(&mut self, system: &dyn System) {
        self.known.retain(|path, _| system.metadata(path).is_ok());
    }

    /// Returns every file that was hashed.
    pub fn paths(&self) -> Vec<PathBuf> {
        let all = self.known.keys().chain(self.last.keys());
        let mut all: Vec<PathBuf> = all.cloned().collect();
        all.sort();
        all.dedup();
        all
    }

    /// Returns whether a file has another content than when it was last hashed; `None` where it never was.
    pub fn differs(&mut self, system: &dyn System, path: &Path) -> Option<bool> {
        let known = self.known.get(path).map(|(_, digest)| *digest);
        let before = known.or_else(|| self.last.get(path).copied())?;
        let now = self.digest(system, path).ok();
        Some(now.is_none_or(|(digest, _)| digest != before))
    }
}

/// Returns whether a file with this stamp cannot change any more without its stamp showing it.
pub fn is_settled(stamp: &Stamp, now_ns: i128) -> bool {
    now_ns - stamp.mtime_ns.max(stamp.ctime_ns) > RACY_NS
}

/// Hashes the files of an artifact; an unreadable file is an error that names it.
pub fn hash_content(
    system: &dyn System,
    memo: &mut FileMemo,
    artifact: &Artifact,
) -> Result<Arc<Content>, (String, io::Error)> {
    let files = hash_files(system, memo, &artifact.files, &artifact.shown)?;
    Ok(Arc::new(Content {
        name: artifact.name.clone(),
        id: artifact.id.clone(),
        kind: artifact.kind,
        files,
    }))
}

/// Returns the content of an artifact that nobody has read yet.
pub fn unhashed(artifact: &Artifact) -> Content {
    let file = |file: &ArtifactFile| ContentFile {
        path: file.path.clone(),
        source: file.source.clone(),
        executable: file.executable,
        digest: Digest::of_bytes(b""),
        size: 0,
    };
    Content {
        name: artifact.name.clone(),
        id: artifact.id.clone(),
        kind: artifact.kind,
        files: artifact.files.iter().map(file).collect(),
    }
}

/// Hashes the files of an env or agent.
pub fn hash_definition(
    system: &dyn System,
    memo: &mut FileMemo,
    definition: &Definition,
) -> Result<Arc<Content>, (String, io::Error)> {
    let files = hash_files(system, memo, &definition.files, &definition.name)?;
    Ok(Arc::new(Content {
        name: definition.name.clone(),
        id: definition.id.clone(),
        kind: ArtifactKind::FileUniverse,
        files,
    }))
}

/// Hashes files that belong to nothing of the folder.
pub fn hash_files_of(
    system: &dyn System,
    memo: &mut FileMemo,
    name: &str,
    files: &[ArtifactFile],
) -> Result<Arc<Content>, (String, io::Error)> {
    Ok(Arc::new(Content {
        name: name.to_owned(),
        id: name.to_owned(),
        kind: ArtifactKind::FileUniverse,
        files: hash_files(system, memo, files, name)?,
    }))
}

fn hash_files(
    system: &dyn System,
    memo: &mut FileMemo,
    files: &[ArtifactFile],
    shown: &str,
) -> Result<Vec<ContentFile>, (String, io::Error)> {
    let mut hashed = Vec::with_capacity(files.len());
    for file in files {
        let (digest, size) = memo
            .digest(system, &file.source)
            .map_err(|error| (format!("{shown}/{}", file.path), error))?;
        hashed.push(ContentFile {
            path: file.path.clone(),
            source: file.source.clone(),
            executable: file.executable,
            digest,
            size,
        });
    }
    Ok(hashed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::MemorySystem;

    #[test]
    fn a_file_is_hashed_again_only_when_its_stamp_changed() {
        let system = MemorySystem::new();
        system.write("/a", "one");
        system.advance_us(1_000_000);
        let mut memo = FileMemo::default();
        let first = memo.digest(&system, Path::new("/a")).unwrap();
        assert_eq!(memo.known().len(), 1);
        system.write("/a", "two");
        let second = memo.digest(&system, Path::new("/a")).unwrap();
        assert_ne!(first, second);
    }

    #[test]
    fn what_is_long_gone_is_no_difference() {
        let system = MemorySystem::new();
        system.write("/a", "one");
        let stamp = system.metadata(Path::new("/a")).unwrap().stamp;
        let digest = Digest::of_bytes(b"one");
        let known = ["/a", "/gone"].map(|path| (PathBuf::from(path), stamp, digest));
        let mut memo = FileMemo::from_known(known);
        memo.forget_gone(&system);
        assert_eq!(memo.paths(), [PathBuf::from("/a")]);
        assert_eq!(memo.differs(&system, Path::new("/gone")), None);
        system.remove("/a");
        assert_eq!(memo.differs(&system, Path::new("/a")), Some(true));
    }

    #[test]
    fn the_digest_of_a_file_that_changed_just_now_is_not_kept() {
        let system = MemorySystem::new();
        system.write("/a", "one");
        let mut memo = FileMemo::default();
        memo.digest(&system, Path::new("/a")).unwrap();
        assert_eq!(memo.known().len(), 0);
    }
}
