//! The world as the editor shows it: texts that are open stand in for what is on disk.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use super::uri::tidy;
use crate::digest::Digest;
use crate::system::{FileKind, FolderEntry, Metadata, Stamp, System};

/// The texts that are open, by path.
#[derive(Clone, Default)]
pub(super) struct OpenTexts(Arc<RwLock<HashMap<PathBuf, Text>>>);

#[derive(Clone)]
struct Text {
    text: Arc<str>,
    stamp: Stamp,
}

impl OpenTexts {
    /// Puts a text in the place of a file.
    pub(super) fn set(&self, path: &Path, text: &str) {
        let digest = Digest::of_bytes(text.as_bytes());
        let mut start = [0; 8];
        start.copy_from_slice(&digest.as_bytes()[..8]);
        // No file has such a stamp, and two texts have different ones.
        let stamp = Stamp {
            mtime_ns: i128::from(u64::from_le_bytes(start)) - (1 << 100),
            ctime_ns: -1,
            size: text.len() as u64,
            inode: 0,
            device: 0,
        };
        let text = Text {
            text: text.into(),
            stamp,
        };
        let mut texts = self.0.write().unwrap_or_else(PoisonError::into_inner);
        texts.insert(path.to_owned(), text);
    }

    /// Gives the file its place back.
    pub(super) fn remove(&self, path: &Path) {
        let mut texts = self.0.write().unwrap_or_else(PoisonError::into_inner);
        texts.remove(path);
    }

    fn get(&self, path: &Path) -> Option<Text> {
        let texts = self.0.read().unwrap_or_else(PoisonError::into_inner);
        texts.get(path).cloned()
    }

    fn names_in(&self, folder: &Path) -> Vec<std::ffi::OsString> {
        let texts = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let inside = texts.keys().filter(|path| path.parent() == Some(folder));
        inside
            .filter_map(|path| path.file_name().map(ToOwned::to_owned))
            .collect()
    }
}

/// A world in which relative paths are below a root, and open texts are read where their files are.
pub(super) struct Overlay {
    inner: Arc<dyn System>,
    root: PathBuf,
    texts: OpenTexts,
}

impl Overlay {
    /// Returns the world as it is seen from a root.
    pub(super) fn new(inner: Arc<dyn System>, root: PathBuf, texts: OpenTexts) -> Self {
        Overlay { inner, root, texts }
    }

    fn full(&self, path: &Path) -> PathBuf {
        tidy(&self.root.join(path))
    }

    fn with_stamp(&self, path: &Path, found: io::Result<Metadata>) -> io::Result<Metadata> {
        let Some(text) = self.texts.get(path) else {
            return found;
        };
        match found {
            // A text cannot be open in the place of a folder or link.
            Ok(found) if found.kind != FileKind::File => Ok(found),
            found => Ok(Metadata {
                kind: FileKind::File,
                executable: found.is_ok_and(|found| found.executable),
                stamp: text.stamp,
            }),
        }
    }
}

impl System for Overlay {
    fn read(&self, path: &Path, limit: u64) -> io::Result<Vec<u8>> {
        let path = self.full(path);
        let Some(text) = self.texts.get(&path) else {
            return self.inner.read(&path, limit);
        };
        if text.text.len() as u64 > limit {
            return Err(io::Error::from(io::ErrorKind::FileTooLarge));
        }
        Ok(text.text.as_bytes().to_vec())
    }

    fn metadata(&self, path: &Path) -> io::Result<Metadata> {
        let path = self.full(path);
        self.with_stamp(&path, self.inner.metadata(&path))
    }

    fn link_metadata(&self, path: &Path) -> io::Result<Metadata> {
        let path = self.full(path);
        self.with_stamp(&path, self.inner.link_metadata(&path))
    }

    fn read_folder(&self, path: &Path) -> io::Result<Vec<FolderEntry>> {
        let path = self.full(path);
        let mut entries = self.inner.read_folder(&path)?;
        for name in self.texts.names_in(&path) {
            if let Err(at) = entries.binary_search_by(|entry| entry.name.cmp(&name)) {
                let kind = FileKind::File;
                entries.insert(at, FolderEntry { name, kind });
            }
        }
        Ok(entries)
    }

    fn canonical(&self, path: &Path) -> io::Result<PathBuf> {
        let path = self.full(path);
        match self.inner.canonical(&path) {
            Err(_) if self.texts.get(&path).is_some() => Ok(path),
            found => found,
        }
    }

    fn read_link(&self, path: &Path) -> io::Result<PathBuf> {
        self.inner.read_link(&self.full(path))
    }

    fn stream(&self, path: &Path, each: &mut dyn FnMut(&[u8])) -> io::Result<u64> {
        let path = self.full(path);
        let Some(text) = self.texts.get(&path) else {
            return self.inner.stream(&path, each);
        };
        each(text.text.as_bytes());
        Ok(text.text.len() as u64)
    }

    fn variable(&self, name: &str) -> Option<String> {
        self.inner.variable(name)
    }

    fn now_us(&self) -> i64 {
        self.inner.now_us()
    }

    fn output_of(&self, program: &Path, args: &[&str]) -> io::Result<String> {
        self.inner.output_of(program, args)
    }

    fn current_folder(&self) -> io::Result<PathBuf> {
        Ok(self.root.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::MemorySystem;

    #[test]
    fn an_open_text_stands_in_for_its_file() {
        let disk = MemorySystem::new();
        disk.write("/w/tasks/a.json", "disk");
        let texts = OpenTexts::default();
        let world = Overlay::new(Arc::new(disk), "/w".into(), texts.clone());
        let path = Path::new("./tasks/a.json");
        let on_disk = world.metadata(path).expect("it is there").stamp;
        assert_eq!(world.read(path, 10).expect("a text"), b"disk");

        texts.set(Path::new("/w/tasks/a.json"), "open!");
        texts.set(Path::new("/w/tasks/b.json"), "new");
        assert_eq!(world.read(path, 10).expect("a text"), b"open!");
        let stamp = world.metadata(path).expect("it is there").stamp;
        assert_ne!(stamp, on_disk);
        assert_eq!(stamp.size, 5);
        assert_eq!(
            world.read(path, 4).expect_err("too long").kind(),
            io::ErrorKind::FileTooLarge
        );
        let names = world.read_folder(Path::new("tasks")).expect("a folder");
        let names: Vec<_> = names.into_iter().map(|entry| entry.name).collect();
        assert_eq!(names, ["a.json", "b.json"]);

        texts.remove(Path::new("/w/tasks/a.json"));
        assert_eq!(world.metadata(path).expect("it is there").stamp, on_disk);
    }
}
