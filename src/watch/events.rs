//! What the watcher tells: a small closed set of events, whatever the system calls them.

use std::path::PathBuf;

use crate::system::inotify::{Deed, Happening};

/// Something that the watcher saw.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// Something happened at a path.
    At(PathBuf, Now),
    /// Anything may have happened.
    Rescan,
    /// All is told that happened before the watcher was asked.
    CaughtUp,
    /// The watcher sees nothing any more.
    Blind(String),
}

/// How a path stands after what happened to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Now {
    /// It was not there, and somebody may still be writing it.
    Made,
    /// Somebody may still be writing it.
    Open,
    /// It is whole.
    Whole,
    /// It is gone, perhaps to be replaced.
    Gone,
}

impl From<Happening> for Event {
    fn from(happening: Happening) -> Self {
        match happening {
            Happening::Overflow => Event::Rescan,
            Happening::CaughtUp => Event::CaughtUp,
            Happening::Ended(why) => Event::Blind(why),
            Happening::At(path, deed) => Event::At(
                path,
                match deed {
                    Deed::Made => Now::Made,
                    Deed::Written => Now::Open,
                    Deed::Came | Deed::Closed | Deed::Marked => Now::Whole,
                    Deed::Went => Now::Gone,
                },
            ),
        }
    }
}
