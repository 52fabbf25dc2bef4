//! The one door to the world: files that are read, the clock, environment variables.
//!
//! Everything that decides something goes through [`System`], so that a test can put a folder, a time and an environment
//! in its place. What only writes (run records, sandboxes) goes through [`disk`].

pub mod disk;
pub mod inotify;
pub mod terminal;
mod memory;
mod os;
mod overlay;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

pub use memory::MemorySystem;
pub use os::OsSystem;
pub use overlay::Overlay;

/// What kind of thing stands at a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FileKind {
    /// A regular file.
    File,
    /// A folder.
    Folder,
    /// A symbolic link.
    Link,
    /// A socket, pipe or device.
    Other,
}

/// When a file last changed and which file it is: decides only whether to hash again, never what is true.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash, Default)]
pub struct Stamp {
    /// Modification time, nanoseconds since 1970.
    pub mtime_ns: i128,
    /// Time of the last change of the inode, nanoseconds since 1970.
    pub ctime_ns: i128,
    /// Size in bytes.
    pub size: u64,
    /// The inode.
    pub inode: u64,
    /// The device.
    pub device: u64,
}

/// What `stat` tells of a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Metadata {
    /// What stands there.
    pub kind: FileKind,
    /// Whether its owner may execute it.
    pub executable: bool,
    /// Its stamp.
    pub stamp: Stamp,
}

/// An entry of a folder.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FolderEntry {
    /// The name, which may not be UTF-8 on disk; such a name is an error of `read_folder`'s caller to report.
    pub name: std::ffi::OsString,
    /// What stands there, links not followed.
    pub kind: FileKind,
}

/// The world as far as decisions depend on it.
pub trait System: Send + Sync {
    /// Reads a regular file of at most `limit` bytes; opens without blocking, so that a pipe cannot hang it.
    fn read(&self, path: &Path, limit: u64) -> io::Result<Vec<u8>>;
    /// Returns the metadata of what a path leads to, links followed.
    fn metadata(&self, path: &Path) -> io::Result<Metadata>;
    /// Returns the metadata of the path itself.
    fn link_metadata(&self, path: &Path) -> io::Result<Metadata>;
    /// Returns the entries of a folder sorted by name.
    fn read_folder(&self, path: &Path) -> io::Result<Vec<FolderEntry>>;
    /// Returns the path with all links resolved.
    fn canonical(&self, path: &Path) -> io::Result<PathBuf>;
    /// Returns the target text of a link.
    fn read_link(&self, path: &Path) -> io::Result<PathBuf>;
    /// Calls `each` with the pieces of a file, and returns its size.
    fn stream(&self, path: &Path, each: &mut dyn FnMut(&[u8])) -> io::Result<u64>;
    /// Returns the value of an environment variable; `None` where it is unset or not UTF-8.
    fn variable(&self, name: &str) -> Option<String>;
    /// Returns the current time, microseconds since 1970.
    fn now_us(&self) -> i64;
    /// Runs a program with a clean environment and returns what it printed.
    fn output_of(&self, program: &Path, args: &[&str]) -> io::Result<String>;
    /// Returns the current folder.
    fn current_folder(&self) -> io::Result<PathBuf>;
}

/// Returns a time as ISO 8601 with microseconds, in UTC.
pub fn timestamp(us: i64) -> String {
    match jiff::Timestamp::from_microsecond(us) {
        Ok(time) => time.strftime("%Y-%m-%dT%H:%M:%S%.6f+00:00").to_string(),
        Err(_) => format!("{us} us"),
    }
}

/// Returns the time of a date as HTTP writes it, such as `Sun, 06 Nov 1994 08:49:37 GMT`, microseconds since 1970.
pub fn http_date(text: &str) -> Option<i64> {
    let time = jiff::fmt::rfc2822::parse(text).ok()?;
    Some(time.timestamp().as_microsecond())
}

/// Locks a mutex whose content is right whoever panicked while holding it.
pub fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::http_date;

    #[test]
    fn a_date_of_http_is_a_time() {
        let date = "Sun, 06 Nov 1994 08:49:37 GMT";
        assert_eq!(http_date(date), Some(784_111_777_000_000));
        assert_eq!(http_date("tomorrow"), None);
    }
}
