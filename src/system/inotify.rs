//! What happens in folders, as the kernel tells it.
//!
//! A watch holds a folder, not a file, since most editors replace a file by another. It is not recursive. Who only reads is
//! not told of, so that reading cannot set off what reads.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::fs::inotify::{
    CreateFlags, ReadFlags, Reader, WatchFlags, add_watch, init, remove_watch,
};
use rustix::io::Errno;

use super::locked;

/// How many bytes of happenings are taken from the kernel at once.
const BUFFER: usize = 64 << 10;

/// Something that happened in a watched folder.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Happening {
    /// Something happened to an entry, or to the folder itself.
    At(PathBuf, Deed),
    /// More happened than the kernel could remember.
    Overflow,
    /// All is told that happened before somebody asked.
    CaughtUp,
    /// Nothing more will be told.
    Ended(String),
}

/// What happened to an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Deed {
    /// It was made; whoever made it may still be writing.
    Made,
    /// It came by a rename, whole.
    Came,
    /// It was removed or renamed away.
    Went,
    /// Its content is being written.
    Written,
    /// Whoever wrote it is done.
    Closed,
    /// Its permissions, times or links changed.
    Marked,
}

/// Why a folder cannot be watched.
#[derive(Debug)]
pub enum WatchError {
    /// The user has as many watches as the system allows.
    TooManyFolders,
    /// The user has as many watchers as the system allows.
    TooManyWatchers,
    /// Something else, such as that the folder is not there.
    Other(io::Error),
}

impl From<Errno> for WatchError {
    fn from(errno: Errno) -> Self {
        match errno {
            Errno::NOSPC => WatchError::TooManyFolders,
            Errno::MFILE | Errno::NFILE => WatchError::TooManyWatchers,
            other => WatchError::Other(other.into()),
        }
    }
}

/// Names a watch of a folder.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct WatchId(i32);

type Paths = Arc<Mutex<HashMap<i32, Vec<PathBuf>>>>;

/// What the thread is asked for, and what wakes it.
#[derive(Debug)]
struct Bell {
    event: OwnedFd,
    is_over: AtomicBool,
    is_asked: AtomicBool,
}

impl Bell {
    fn ring(&self, wish: &AtomicBool) {
        wish.store(true, Ordering::SeqCst);
        // A counter that is full rings already.
        let _ = rustix::io::write(&self.event, &1_u64.to_ne_bytes());
    }

    fn quiet(&self) {
        let mut count = [0; 8];
        let _ = rustix::io::read(&self.event, &mut count);
    }
}

/// Watches folders until it is dropped.
#[derive(Debug)]
pub struct FolderWatch {
    inotify: Arc<OwnedFd>,
    bell: Arc<Bell>,
    /// One folder may be known by several paths.
    paths: Paths,
    thread: Option<JoinHandle<()>>,
}

impl FolderWatch {
    /// Starts to watch nothing; what happens in folders that are added is told on a thread of its own.
    pub fn start(tell: impl FnMut(Happening) + Send + 'static) -> Result<Self, WatchError> {
        let inotify = Arc::new(init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?);
        let bell = Arc::new(Bell {
            event: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            is_over: AtomicBool::new(false),
            is_asked: AtomicBool::new(false),
        });
        let paths = Paths::default();
        let of_thread = (inotify.clone(), bell.clone(), paths.clone());
        let thread = std::thread::Builder::new()
            .name("folders".to_owned())
            .spawn(move || listen(&of_thread.0, &of_thread.1, &of_thread.2, tell))
            .map_err(WatchError::Other)?;
        Ok(FolderWatch {
            inotify,
            bell,
            paths,
            thread: Some(thread),
        })
    }

    /// Watches a folder.
    pub fn add(&self, folder: &Path) -> Result<WatchId, WatchError> {
        let flags = WatchFlags::ATTRIB
            | WatchFlags::CREATE
            | WatchFlags::DELETE
            | WatchFlags::MODIFY
            | WatchFlags::CLOSE_WRITE
            | WatchFlags::MOVED_FROM
            | WatchFlags::MOVED_TO
            | WatchFlags::DELETE_SELF
            | WatchFlags::MOVE_SELF
            | WatchFlags::EXCL_UNLINK
            | WatchFlags::ONLYDIR;
        // Held until the path is noted: the thread looks it up for the first thing that happens.
        let mut paths = locked(&self.paths);
        let id = add_watch(&*self.inotify, folder, flags)?;
        let known = paths.entry(id).or_default();
        if !known.iter().any(|path| path == folder) {
            known.push(folder.to_owned());
        }
        Ok(WatchId(id))
    }

    /// Asks for [`Happening::CaughtUp`], which comes after all that happened up to now.
    ///
    /// The kernel notes what happens in one order before whoever does it goes on, so no clock is needed to tell what came
    /// before.
    pub fn catch_up(&self) {
        self.bell.ring(&self.bell.is_asked);
    }

    /// Watches a folder by this path no more.
    pub fn remove(&self, id: WatchId, folder: &Path) {
        let mut paths = locked(&self.paths);
        let Some(known) = paths.get_mut(&id.0) else {
            return;
        };
        known.retain(|path| path != folder);
        if known.is_empty() {
            paths.remove(&id.0);
            // A folder that is gone took its watch along.
            let _ = remove_watch(&*self.inotify, id.0);
        }
    }
}

impl Drop for FolderWatch {
    fn drop(&mut self) {
        self.bell.ring(&self.bell.is_over);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn listen(
    inotify: &OwnedFd,
    bell: &Bell,
    paths: &Paths,
    mut tell: impl FnMut(Happening) + Send + 'static,
) {
    let mut buffer = vec![MaybeUninit::uninit(); BUFFER];
    let mut reader = Reader::new(inotify.as_fd(), &mut buffer);
    loop {
        let mut waits = [
            PollFd::new(inotify, PollFlags::IN),
            PollFd::new(&bell.event, PollFlags::IN),
        ];
        match poll(&mut waits, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return tell(Happening::Ended(error.to_string())),
        }
        let is_rung = !waits[1].revents().is_empty();
        if is_rung {
            bell.quiet();
        }
        if bell.is_over.load(Ordering::SeqCst) {
            return;
        }
        // Whoever asks later rings again.
        let is_asked = is_rung && bell.is_asked.swap(false, Ordering::SeqCst);
        loop {
            let event = match reader.next() {
                Ok(event) => event,
                Err(Errno::INTR) => continue,
                Err(Errno::AGAIN) => break,
                Err(error) => return tell(Happening::Ended(error.to_string())),
            };
            let happened = event.events();
            if happened.contains(ReadFlags::QUEUE_OVERFLOW) {
                tell(Happening::Overflow);
                continue;
            }
            let name = event
                .file_name()
                .map(|name| OsStr::from_bytes(name.to_bytes()));
            let folders = match happened.contains(ReadFlags::IGNORED) {
                true => locked(paths).remove(&event.wd()),
                false => locked(paths).get(&event.wd()).cloned(),
            };
            for folder in folders.unwrap_or_default() {
                let path = name.map_or_else(|| folder.clone(), |name| folder.join(name));
                for deed in deeds(happened) {
                    tell(Happening::At(path.clone(), deed));
                }
            }
        }
        if is_asked {
            tell(Happening::CaughtUp);
        }
    }
}

fn deeds(happened: ReadFlags) -> impl Iterator<Item = Deed> {
    let table = [
        (
            ReadFlags::MOVED_FROM
                | ReadFlags::DELETE
                | ReadFlags::DELETE_SELF
                | ReadFlags::MOVE_SELF
                | ReadFlags::UNMOUNT,
            Deed::Went,
        ),
        (ReadFlags::CREATE, Deed::Made),
        (ReadFlags::MOVED_TO, Deed::Came),
        (ReadFlags::MODIFY, Deed::Written),
        (ReadFlags::CLOSE_WRITE, Deed::Closed),
        (ReadFlags::ATTRIB, Deed::Marked),
    ];
    table
        .into_iter()
        .filter(move |(flags, _)| happened.intersects(*flags))
        .map(|(_, deed)| deed)
}
