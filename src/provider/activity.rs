//! Whether commands run in a sandbox, and what exists in its root only while some do.

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::step::sandbox::SandboxError;
use crate::system::disk;

/// How many commands run in a sandbox, and what exists only while some do.
#[derive(Debug)]
pub(super) struct Activity {
    id: String,
    root: PathBuf,
    mount_points: Vec<&'static str>,
    now: Mutex<Now>,
    idle: Notify,
}

#[derive(Debug, Default)]
struct Now {
    running: usize,
    has_mount_points: bool,
    is_closed: bool,
}

impl Activity {
    /// Returns the activity of a sandbox in which nothing runs yet.
    pub(super) fn new(id: String, root: PathBuf, mount_points: Vec<&'static str>) -> Self {
        Self {
            id,
            root,
            mount_points,
            now: Mutex::default(),
            idle: Notify::new(),
        }
    }

    /// Refuses commands from now on.
    pub(super) fn close(&self) {
        lock(&self.now).is_closed = true;
    }

    /// Notes that a command begins; the ticket is dropped when nothing of it runs.
    ///
    /// A command that needs the mount points has them until no command runs.
    pub(super) fn enter(
        self: &Arc<Self>,
        needs_mount_points: bool,
    ) -> Result<Ticket, SandboxError> {
        let mut now = lock(&self.now);
        if now.is_closed {
            return Err(SandboxError::Destroyed {
                id: self.id.clone(),
            });
        }
        now.running += 1;
        let ticket = Ticket {
            activity: self.clone(),
        };
        if needs_mount_points && !now.has_mount_points {
            now.has_mount_points = true;
            let made = self
                .mount_points
                .iter()
                .try_for_each(|name| self.make_mount_point(name));
            // The ticket takes back what was made, and needs the lock for it.
            drop(now);
            made?;
        }
        Ok(ticket)
    }

    fn make_mount_point(&self, name: &str) -> Result<(), SandboxError> {
        let path = self.root.join(name);
        let made = match disk::create_dir(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                match disk::symlink_metadata(&path) {
                    // A link would have the mount land where it points.
                    Ok(metadata) if !metadata.is_dir() => Err(io::Error::other(
                        "it is not a folder, and a wall needs one there",
                    )),
                    result => result.map(drop),
                }
            }
            result if name == "tmp" => result.and_then(|()| disk::set_mode(&path, 0o1777)),
            result => result,
        };
        made.map_err(|source| SandboxError::Io {
            what: format!("cannot make `/{name}` of sandbox `{}`", self.id),
            source,
        })
    }

    /// Tells whether exactly one command runs.
    pub(super) fn is_only_one(&self) -> bool {
        lock(&self.now).running == 1
    }

    /// Waits until no command runs.
    pub(super) async fn settled(&self) {
        loop {
            let idle = self.idle.notified();
            if lock(&self.now).running == 0 {
                return;
            }
            idle.await;
        }
    }
}

/// Stands for one running command.
#[derive(Debug)]
pub(super) struct Ticket {
    activity: Arc<Activity>,
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut now = lock(&self.activity.now);
        now.running -= 1;
        if now.running == 0 {
            let made = if std::mem::take(&mut now.has_mount_points) {
                &self.activity.mount_points[..]
            } else {
                &[]
            };
            for name in made {
                // One with something in it is a folder of the state.
                let _ = disk::remove_dir(&self.activity.root.join(name));
            }
            drop(now);
            self.activity.idle.notify_waiters();
        }
    }
}

/// Locks a mutex.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing panics while it holds one of these locks.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
