//! A world in memory, for tests.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use super::{FileKind, FolderEntry, Metadata, Stamp, System};

#[derive(Clone)]
struct Stored {
    bytes: Vec<u8>,
    revision: u64,
}

#[derive(Default)]
struct State {
    files: BTreeMap<PathBuf, Stored>,
    variables: BTreeMap<String, String>,
    revision: u64,
    now_us: i64,
}

/// Files, variables and a clock that a test sets.
#[derive(Default)]
pub struct MemorySystem(Mutex<State>);

impl MemorySystem {
    /// Returns an empty world.
    pub fn new() -> Self {
        MemorySystem::default()
    }

    /// Writes a file, which gives it a new stamp.
    pub fn write(&self, path: impl AsRef<Path>, bytes: impl AsRef<[u8]>) {
        let mut state = self.state();
        state.revision += 1;
        let revision = state.revision;
        let stored = Stored {
            bytes: bytes.as_ref().to_vec(),
            revision,
        };
        state.files.insert(path.as_ref().to_path_buf(), stored);
    }

    /// Removes a file.
    pub fn remove(&self, path: impl AsRef<Path>) {
        self.state().files.remove(path.as_ref());
    }

    /// Sets an environment variable, or unsets it.
    pub fn set_variable(&self, name: &str, value: Option<&str>) {
        let mut state = self.state();
        match value {
            Some(value) => state.variables.insert(name.to_owned(), value.to_owned()),
            None => state.variables.remove(name),
        };
    }

    /// Moves the clock on.
    pub fn advance_us(&self, us: i64) {
        self.state().now_us += us;
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.0
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

fn missing(path: &Path) -> io::Error {
    io::Error::new(
        io::ErrorKind::NotFound,
        format!("{} does not exist", path.display()),
    )
}

impl System for MemorySystem {
    fn read(&self, path: &Path, limit: u64) -> io::Result<Vec<u8>> {
        let state = self.state();
        let stored = state.files.get(path).ok_or_else(|| missing(path))?;
        if stored.bytes.len() as u64 > limit {
            return Err(io::Error::new(
                io::ErrorKind::FileTooLarge,
                format!("{} bytes, of at most {limit}", stored.bytes.len()),
            ));
        }
        Ok(stored.bytes.clone())
    }

    fn metadata(&self, path: &Path) -> io::Result<Metadata> {
        let state = self.state();
        if let Some(stored) = state.files.get(path) {
            let stamp = Stamp {
                mtime_ns: i128::from(stored.revision),
                ctime_ns: i128::from(stored.revision),
                size: stored.bytes.len() as u64,
                inode: 1,
                device: 1,
            };
            return Ok(Metadata {
                kind: FileKind::File,
                executable: false,
                stamp,
            });
        }
        if state
            .files
            .keys()
            .any(|file| file != path && file.starts_with(path))
        {
            return Ok(Metadata {
                kind: FileKind::Folder,
                executable: true,
                stamp: Stamp::default(),
            });
        }
        Err(missing(path))
    }

    fn link_metadata(&self, path: &Path) -> io::Result<Metadata> {
        self.metadata(path)
    }

    fn read_folder(&self, path: &Path) -> io::Result<Vec<FolderEntry>> {
        let state = self.state();
        let mut entries: BTreeMap<OsString, FileKind> = BTreeMap::new();
        for file in state.files.keys() {
            let Ok(rest) = file.strip_prefix(path) else {
                continue;
            };
            let mut components = rest.components();
            let Some(first) = components.next() else {
                continue;
            };
            let kind = if components.next().is_some() {
                FileKind::Folder
            } else {
                FileKind::File
            };
            entries.insert(first.as_os_str().to_owned(), kind);
        }
        if entries.is_empty() {
            return Err(missing(path));
        }
        Ok(entries
            .into_iter()
            .map(|(name, kind)| FolderEntry { name, kind })
            .collect())
    }

    fn canonical(&self, path: &Path) -> io::Result<PathBuf> {
        self.metadata(path).map(|_| path.to_path_buf())
    }

    fn read_link(&self, path: &Path) -> io::Result<PathBuf> {
        Err(missing(path))
    }

    fn stream(&self, path: &Path, each: &mut dyn FnMut(&[u8])) -> io::Result<u64> {
        let bytes = self.read(path, u64::MAX)?;
        each(&bytes);
        Ok(bytes.len() as u64)
    }

    fn variable(&self, name: &str) -> Option<String> {
        self.state().variables.get(name).cloned()
    }

    fn now_us(&self) -> i64 {
        self.state().now_us
    }

    fn output_of(&self, program: &Path, _args: &[&str]) -> io::Result<String> {
        Err(missing(program))
    }

    fn current_folder(&self) -> io::Result<PathBuf> {
        Ok(PathBuf::from("/"))
    }
}
