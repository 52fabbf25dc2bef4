//! What can go wrong, as small typed errors, and what the user should be told once.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Says why a folder cannot be opened as a cache.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The folder is reached through a symbolic link.
    #[error("cache folder `{}` is a symbolic link", path.display())]
    Symlink {
        /// The folder asked for.
        path: PathBuf,
    },
    /// Something else than a folder is there.
    #[error("cache folder `{}` is not a folder", path.display())]
    NotAFolder {
        /// The path asked for.
        path: PathBuf,
    },
    /// The folder is `/` or the home folder.
    #[error("`{}` cannot be a cache folder: a cache removes what it does not need", path.display())]
    TooWide {
        /// The folder asked for.
        path: PathBuf,
    },
    /// The folder belongs to another user.
    #[error("cache folder `{}` belongs to user {owner} (mode {mode:04o}), not to user {user}", path.display())]
    ForeignOwner {
        /// The folder asked for.
        path: PathBuf,
        /// Its owner.
        owner: u32,
        /// Its mode.
        mode: u32,
        /// The user who asks.
        user: u32,
    },
    /// Everybody may write to the folder.
    #[error("cache folder `{}` of user {owner} can be written by everybody (mode {mode:04o})", path.display())]
    WorldWritable {
        /// The folder asked for.
        path: PathBuf,
        /// Its owner.
        owner: u32,
        /// Its mode.
        mode: u32,
    },
    /// The folder holds other things and no cache.
    #[error("folder `{}` holds other files and no cache", path.display())]
    NotACache {
        /// The folder asked for.
        path: PathBuf,
    },
    /// Somebody cleans the cache and did not finish in time.
    #[error("cache `{}` is being cleaned by {}", path.display(), Holders(holders))]
    Busy {
        /// The folder asked for.
        path: PathBuf,
        /// Who holds it.
        holders: Vec<Holder>,
    },
    /// The file system refused.
    #[error("cannot {action} `{}`: {source}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// Says why something was not stored.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The cache can only be read.
    #[error("cache `{}` is read-only", path.display())]
    ReadOnly {
        /// The cache folder.
        path: PathBuf,
    },
    /// The cache was written by a newer aebuild.
    #[error("cache `{}` has the newer format {version}", path.display())]
    Foreign {
        /// The cache folder.
        path: PathBuf,
        /// Its format.
        version: u32,
    },
    /// The disk is full, or nearly.
    #[error("no room in cache `{}`: {free} bytes are free and {needed} bytes should stay free", path.display())]
    Full {
        /// The cache folder.
        path: PathBuf,
        /// Bytes free.
        free: u64,
        /// Bytes that should stay free.
        needed: u64,
    },
    /// An earlier fault turned storing off for this run.
    #[error("storing is off for this run: {reason}")]
    Off {
        /// The fault.
        reason: String,
    },
    /// A record holds more than a record may.
    #[error("a record of {size} bytes is over the limit of {limit}; put the payload into a blob")]
    TooLarge {
        /// Size of the record.
        size: u64,
        /// Most that a record may have.
        limit: u64,
    },
    /// A file was changed while it was read.
    #[error("file `{}` was changed while it was read", path.display())]
    Changed {
        /// The file.
        path: PathBuf,
    },
    /// What was stored does not read back.
    #[error("blob {blob} does not read back after it was stored")]
    NotReadBack {
        /// The blob.
        blob: String,
    },
    /// The file system refused.
    #[error("cannot {action} `{}`: {source}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// Says why a folder was not stored or not restored.
#[derive(Debug, thiserror::Error)]
pub enum TreeError {
    /// A FIFO, a socket or a device lies in the folder.
    #[error("`{}` is a {kind}, which cannot be stored", path.display())]
    Special {
        /// What it is.
        kind: &'static str,
        /// Where it is.
        path: PathBuf,
    },
    /// A symbolic link leaves the folder.
    #[error("link `{}` leaves the folder: it points to `{}`", path.display(), target.display())]
    Escapes {
        /// The link.
        path: PathBuf,
        /// Where it points.
        target: PathBuf,
    },
    /// A file was changed while it was read.
    #[error("file `{}` was changed while it was read", path.display())]
    Changed {
        /// The file.
        path: PathBuf,
    },
    /// The place to restore to is in use.
    #[error("`{}` exists and is not an empty folder", path.display())]
    Occupied {
        /// The place.
        path: PathBuf,
    },
    /// The store refused.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The file system refused.
    #[error("cannot {action} `{}`: {source}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// Says why the cache was not cleaned, repaired or cleared.
#[derive(Debug, thiserror::Error)]
pub enum UpkeepError {
    /// Somebody else has the cache open.
    #[error("cache `{}` is in use by {}", path.display(), Holders(holders))]
    Busy {
        /// The cache folder.
        path: PathBuf,
        /// Who holds it.
        holders: Vec<Holder>,
    },
    /// The store refused.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The file system refused.
    #[error("cannot {action} `{}`: {source}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// A process that has the cache open.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Holder {
    /// Its process id.
    pub pid: u32,
    /// Its command, as far as it can be told.
    pub command: String,
}

/// Something that the user should be told once.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Notice {
    /// A newer aebuild wrote this cache, so nothing of it is used.
    Foreign {
        /// The cache folder.
        path: PathBuf,
        /// Its format.
        version: u32,
    },
    /// Results are read from the cache, and none are stored.
    ReadOnly {
        /// The cache folder.
        path: PathBuf,
    },
    /// Storing was turned off for this run.
    StoringOff {
        /// The cache folder.
        path: PathBuf,
        /// The fault.
        reason: String,
    },
    /// The cache lies on a file system where durability and locks are not certain.
    NetworkFileSystem {
        /// The cache folder.
        path: PathBuf,
        /// Kind of file system.
        kind: &'static str,
    },
    /// Damaged contents were found and set aside; they are made anew.
    Damaged {
        /// What was found damaged first.
        path: PathBuf,
    },
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Notice::Foreign { path, version } => write!(
                f,
                "cache `{}` has the newer format {version}; it is left alone and nothing is cached",
                path.display()
            ),
            Notice::ReadOnly { path } => write!(
                f,
                "cache `{}` is read-only; results are read from it and none are stored",
                path.display()
            ),
            Notice::StoringOff { path, reason } => write!(
                f,
                "nothing more is stored in cache `{}` in this run: {reason}",
                path.display()
            ),
            Notice::NetworkFileSystem { path, kind } => write!(
                f,
                "cache `{}` is on {kind}; what is stored there may not survive a power cut",
                path.display()
            ),
            Notice::Damaged { path } => write!(
                f,
                "damage in the cache was set aside and is made anew, first at `{}`",
                path.display()
            ),
        }
    }
}

impl StoreError {
    pub(crate) fn io(action: &'static str, path: &Path, source: io::Error) -> StoreError {
        StoreError::Io {
            action,
            path: path.to_owned(),
            source,
        }
    }

    /// Tells whether the disk had no room.
    pub fn is_full(&self) -> bool {
        match self {
            StoreError::Full { .. } => true,
            StoreError::Io { source, .. } => is_full(source),
            _ => false,
        }
    }
}

impl TreeError {
    pub(crate) fn io(action: &'static str, path: &Path, source: io::Error) -> TreeError {
        TreeError::Io {
            action,
            path: path.to_owned(),
            source,
        }
    }
}

impl UpkeepError {
    pub(crate) fn io(action: &'static str, path: &Path, source: io::Error) -> UpkeepError {
        UpkeepError::Io {
            action,
            path: path.to_owned(),
            source,
        }
    }
}

/// Tells whether an error means that the disk or a quota is full, also when it was wrapped.
pub(crate) fn is_full(error: &io::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge)
        || matches!(error.raw_os_error(), Some(28 | 122 | 27))
        || error.to_string().contains("cannot allocate file")
}

struct Holders<'a>(&'a [Holder]);

impl fmt::Display for Holders<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("another process");
        }
        for (n, holder) in self.0.iter().enumerate() {
            let comma = if n > 0 { ", " } else { "" };
            write!(f, "{comma}`{}` (pid {})", holder.command, holder.pid)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_holds_the_cache_is_named() {
        let holder = |pid| Holder {
            pid,
            command: "aebuild".to_owned(),
        };
        let busy = |holders| {
            UpkeepError::Busy {
                path: "/cache".into(),
                holders,
            }
            .to_string()
        };
        assert_eq!(busy(vec![]), "cache `/cache` is in use by another process");
        assert_eq!(
            busy(vec![holder(1), holder(2)]),
            "cache `/cache` is in use by `aebuild` (pid 1), `aebuild` (pid 2)"
        );
    }

    #[test]
    fn a_full_disk_is_known_in_all_its_forms() {
        assert!(is_full(&io::Error::from_raw_os_error(28)));
        assert!(is_full(&io::Error::from_raw_os_error(122)));
        assert!(is_full(&io::ErrorKind::StorageFull.into()));
        assert!(is_full(&io::Error::other("cannot allocate file")));
        assert!(!is_full(&io::Error::from_raw_os_error(5)));
    }
}
