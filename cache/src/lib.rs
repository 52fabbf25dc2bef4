//! What aebuild keeps on disk: blobs, records and folders.
//!
//! A [`Cache`] is a folder. It holds **blobs** by their sha256, **records** that name blobs and are
//! found by key, and **trees**, which are folders written down as manifests. It knows nothing of
//! steps, tasks or runs.
//!
//! Three promises. What is not verified is a miss: no damage, no crash and no other process makes a
//! look-up give bytes that were not stored. What was flushed survives a power cut
//! ([`Durability::Durable`]). And no fault of the cache is a fault of the run: each is a typed error
//! or a [`Notice`] that the caller shows once and goes on.
//!
//! The modules, from the ground up: `disk` is the only door to the file system; `format` knows the
//! bytes; `home` the folder, its key and its lock; `blob`, `segment` and `catalog` store and find;
//! `commit` orders the writes; `tree` reads and restores folders; `upkeep` cleans and repairs.

#![forbid(unsafe_code)]

mod blob;
mod cache;
mod catalog;
mod commit;
mod disk;
mod error;
mod format;
mod home;
mod record;
mod segment;
mod store;
mod tree;
mod upkeep;
mod uses;

use std::time::Duration;

pub use cache::Cache;
pub use error::{Holder, Notice, OpenError, StoreError, TreeError, UpkeepError};
pub use record::{BlobId, BlobRef, Conflict, NewRecord, NotABlobId, Place, Record, Side};
pub use tree::memo::StatMemo;
pub use tree::{Restored, Symlinks, Tree, TreeEntry, TreeKind};
pub use upkeep::gc::{GcOptions, GcReport};
pub use upkeep::verify::{Problem, ProblemKind, RepairReport, VerifyReport};
pub use upkeep::{Measured, Stats};

/// Faults and a clock, for tests.
#[doc(hidden)]
pub mod hooks {
    pub use crate::disk::Space;
    pub use crate::disk::fault::{Faults, Op};
    pub use crate::store::{Clock, Hooks};
}

/// How a cache is kept.
#[derive(Clone, Debug)]
pub struct Options {
    /// What a flush promises.
    pub durability: Durability,
    /// Gc drops the least used records until so many bytes are left.
    pub size_limit: Option<u64>,
    /// Gc drops records that were not used for so long.
    pub max_age: Option<Duration>,
    /// Gc leaves blobs alone that are younger than this.
    pub grace: Duration,
    /// Nothing is stored when fewer bytes are free on the disk, or fewer than 1 % of it; 0 turns this
    /// off.
    pub free_reserve: u64,
}

/// What a flush promises.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Durability {
    /// What was flushed survives a power cut.
    #[default]
    Durable,
    /// What was flushed survives the death of the process; after a power cut it may be a miss.
    Fast,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            durability: Durability::Durable,
            size_limit: None,
            max_age: None,
            grace: Duration::from_secs(24 * 3600),
            free_reserve: 256 << 20,
        }
    }
}
