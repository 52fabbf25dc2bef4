//! A world in which some files have another content than on disk.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{FolderEntry, Metadata, System};

/// A system with the content of some of its files replaced; what edits would come to is seen before they are made.
#[derive(Clone)]
pub struct Overlay {
    under: Arc<dyn System>,
    contents: BTreeMap<PathBuf, Vec<u8>>,
}

impl Overlay {
    /// Returns a view of a system in which nothing is replaced yet.
    pub fn new(under: Arc<dyn System>) -> Self {
        Self {
            under,
            contents: BTreeMap::new(),
        }
    }

    /// Replaces the content of a file that is there.
    pub fn replace(&mut self, path: &Path, bytes: Vec<u8>) -> io::Result<()> {
        let path = self.under.canonical(path)?;
        self.contents.insert(path, bytes);
        Ok(())
    }

    /// Returns the files whose content is replaced, without links in their paths.
    pub fn contents(&self) -> &BTreeMap<PathBuf, Vec<u8>> {
        &self.contents
    }

    fn content(&self, path: &Path) -> Option<&Vec<u8>> {
        if self.contents.is_empty() {
            return None;
        }
        self.contents.get(&self.under.canonical(path).ok()?)
    }

    fn sized(&self, path: &Path, mut metadata: Metadata) -> Metadata {
        if let Some(bytes) = self.content(path) {
            metadata.stamp.size = bytes.len() as u64;
        }
        metadata
    }
}

impl System for Overlay {
    fn read(&self, path: &Path, limit: u64) -> io::Result<Vec<u8>> {
        match self.content(path) {
            Some(bytes) if bytes.len() as u64 <= limit => Ok(bytes.clone()),
            Some(bytes) => Err(io::Error::new(
                io::ErrorKind::FileTooLarge,
                format!("{} bytes, of at most {limit}", bytes.len()),
            )),
            None => self.under.read(path, limit),
        }
    }

    fn metadata(&self, path: &Path) -> io::Result<Metadata> {
        let metadata = self.under.metadata(path)?;
        Ok(self.sized(path, metadata))
    }

    fn link_metadata(&self, path: &Path) -> io::Result<Metadata> {
        self.under.link_metadata(path)
    }

    fn read_folder(&self, path: &Path) -> io::Result<Vec<FolderEntry>> {
        self.under.read_folder(path)
    }

    fn canonical(&self, path: &Path) -> io::Result<PathBuf> {
        self.under.canonical(path)
    }

    fn read_link(&self, path: &Path) -> io::Result<PathBuf> {
        self.under.read_link(path)
    }

    fn stream(&self, path: &Path, each: &mut dyn FnMut(&[u8])) -> io::Result<u64> {
        match self.content(path) {
            Some(bytes) => {
                each(bytes);
                Ok(bytes.len() as u64)
            }
            None => self.under.stream(path, each),
        }
    }

    fn variable(&self, name: &str) -> Option<String> {
        self.under.variable(name)
    }

    fn now_us(&self) -> i64 {
        self.under.now_us()
    }

    fn output_of(&self, program: &Path, args: &[&str]) -> io::Result<String> {
        self.under.output_of(program, args)
    }

    fn current_folder(&self) -> io::Result<PathBuf> {
        self.under.current_folder()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::OsSystem;

    #[test]
    fn a_replaced_file_is_seen_by_every_path_to_it_and_the_disk_stays_as_it_was() {
        let folder = tempfile::tempdir().expect("a folder");
        let (file, link) = (folder.path().join("a"), folder.path().join("b"));
        crate::system::disk::write(&file, b"old").expect("it is written");
        crate::system::disk::symlink(&file, &link).expect("it is linked");
        let mut overlay = Overlay::new(Arc::new(OsSystem));
        overlay
            .replace(&link, b"newer".to_vec())
            .expect("it is there");
        assert_eq!(overlay.read(&file, 9).expect("it is there"), b"newer");
        assert_eq!(overlay.metadata(&link).expect("it is there").stamp.size, 5);
        assert!(overlay.read(&file, 4).is_err());
        assert!(
            overlay
                .replace(&folder.path().join("c"), Vec::new())
                .is_err()
        );
        assert_eq!(OsSystem.read(&file, 9).expect("it is there"), b"old");
    }
}
