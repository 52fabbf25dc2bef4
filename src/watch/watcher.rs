//! Watches a set of paths, and tells of what happens there and nowhere else.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::events::Event;
use super::poll::Poller;
use super::scope::Scope;
use crate::session::WatchSet;
use crate::system::inotify::{FolderWatch, WatchError, WatchId};
use crate::system::{FileKind, System, locked};

/// How often is looked where the system cannot tell what happens.
pub const POLL_EVERY: Duration = Duration::from_secs(1);

/// How to watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Means {
    /// How often to look, where the system is not to tell.
    pub poll: Option<Duration>,
    /// The most folders that may be watched before it looks instead; the system has a limit of its own.
    pub most_folders: usize,
}

impl Default for Means {
    fn default() -> Self {
        Means {
            poll: None,
            most_folders: usize::MAX,
        }
    }
}

type Tell = Arc<dyn Fn(Event) + Send + Sync>;
/// Which file of which device a folder is.
type Identity = (u64, u64);

enum How {
    Told {
        watch: FolderWatch,
        folders: BTreeMap<PathBuf, (WatchId, Identity)>,
    },
    Looks(Poller),
}

/// Watches a set of paths.
pub struct Watcher {
    system: Arc<dyn System>,
    means: Means,
    tell: Tell,
    scope: Arc<Mutex<Scope>>,
    how: Option<How>,
}

/// What came of a new set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Updated {
    /// Folders and paths that were not watched before: nobody told what happened there meanwhile.
    pub fresh: Vec<PathBuf>,
    /// What the user should know.
    pub notices: Vec<String>,
}

impl Watcher {
    /// Returns a watcher of nothing.
    pub fn new(
        system: Arc<dyn System>,
        means: Means,
        tell: impl Fn(Event) + Send + Sync + 'static,
    ) -> Self {
        Watcher {
            system,
            means,
            tell: Arc::new(tell),
            scope: Arc::default(),
            how: None,
        }
    }

    /// Returns how often it looks, where the system does not tell.
    pub fn polls(&self) -> Option<Duration> {
        let is_looking = matches!(self.how, Some(How::Looks(_)));
        is_looking.then(|| self.means.poll.unwrap_or(POLL_EVERY))
    }

    /// Returns how many folders are watched.
    pub fn folders(&self) -> usize {
        match &self.how {
            Some(How::Told { folders, .. }) => folders.len(),
            _ => 0,
        }
    }

    /// Asks for [`Event::CaughtUp`], which comes after all that happened up to now; returns whether somebody will tell it.
    pub fn catch_up(&self) -> bool {
        match &self.how {
            Some(How::Told { watch, .. }) => watch.catch_up(),
            Some(How::Looks(poller)) => poller.catch_up(),
            None => return false,
        }
        true
    }

    /// Returns how many files are watched.
    pub fn files(&self) -> usize {
        locked(&self.scope).set().files.len()
    }

    /// Watches this set from now on, above the tops only what must be; without a set the one before, as the links lead now.
    pub fn update(&mut self, set: Option<WatchSet>, tops: &[PathBuf]) -> Updated {
        let set = set.unwrap_or_else(|| locked(&self.scope).set().clone());
        let scope = Scope::new(set, self.system.as_ref());
        let folders = scope.folders(tops, self.system.as_ref());
        *locked(&self.scope) = scope;
        let mut updated = Updated::default();
        if self.how.is_none() {
            self.how = match self.means.poll {
                Some(_) => None,
                None => self.start_told(&mut updated),
            };
        }
        if let Some(How::Told { .. }) = self.how
            && let Err(error) = self.watch_folders(folders, &mut updated)
        {
            updated.notices.push(self.limit_text(&error));
            self.how = None;
        }
        if self.how.is_none() {
            self.how = self.start_looking(&mut updated).map(How::Looks);
        }
        if let Some(How::Looks(poller)) = &self.how {
            let paths: Vec<PathBuf> = locked(&self.scope).paths().cloned().collect();
            updated.fresh = poller.set(paths.into_iter());
        }
        updated
    }

    fn start_told(&self, updated: &mut Updated) -> Option<How> {
        let (tell, scope) = (self.tell.clone(), self.scope.clone());
        let started = FolderWatch::start(move |happening| match Event::from(happening) {
            Event::At(path, now) => {
                let concern = locked(&scope).concern(&path);
                if let Some(path) = concern {
                    tell(Event::At(path, now));
                }
            }
            other => tell(other),
        });
        match started {
            Ok(watch) => Some(How::Told {
                watch,
                folders: BTreeMap::new(),
            }),
            Err(error) => {
                updated.notices.push(self.limit_text(&error));
                None
            }
        }
    }

    fn start_looking(&self, updated: &mut Updated) -> Option<Poller> {
        let tell = self.tell.clone();
        let every = self.means.poll.unwrap_or(POLL_EVERY);
        let started = Poller::start(self.system.clone(), every, move |event| tell(event));
        if let Err(error) = &started {
            updated
                .notices
                .push(format!("nothing can be watched: {error}"));
        }
        started.ok()
    }

    fn watch_folders(
        &mut self,
        wanted: std::collections::BTreeSet<PathBuf>,
        updated: &mut Updated,
    ) -> Result<(), WatchError> {
        let Some(How::Told { watch, folders }) = &mut self.how else {
            return Ok(());
        };
        if wanted.len() > self.means.most_folders {
            return Err(WatchError::TooManyFolders);
        }
        let identity = |path: &Path| {
            let found = self.system.metadata(path).ok()?;
            let is_folder = found.kind == FileKind::Folder;
            is_folder.then_some((found.stamp.device, found.stamp.inode))
        };
        // A folder that was made anew, or that a link leads to now, is another under the same name.
        folders.retain(|path, (id, was)| {
            let stays = wanted.contains(path) && identity(path) == Some(*was);
            if !stays {
                watch.remove(*id, path);
            }
            stays
        });
        for path in wanted {
            if folders.contains_key(&path) {
                continue;
            }
            let Some(identity) = identity(&path) else {
                continue;
            };
            match watch.add(&path) {
                Ok(id) => {
                    folders.insert(path.clone(), (id, identity));
                    updated.fresh.push(path);
                }
                Err(WatchError::Other(error)) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(WatchError::Other(error)) => {
                    let text = format!("`{}` cannot be watched: {error}", path.display());
                    updated.notices.push(text);
                }
                Err(limit) => return Err(limit),
            }
        }
        Ok(())
    }

    fn limit_text(&self, error: &WatchError) -> String {
        let limit = |name: &str| {
            let path = Path::new("/proc/sys/fs/inotify").join(name);
            let text = self.system.read(&path, 64).ok();
            let text = text.and_then(|bytes| String::from_utf8(bytes).ok());
            text.map_or(String::new(), |text| format!(" ({})", text.trim()))
        };
        let every = crate::report::seconds(POLL_EVERY.as_micros() as u64);
        let (what, name) = match error {
            WatchError::TooManyFolders => ("folders", "max_user_watches"),
            WatchError::TooManyWatchers => ("watchers", "max_user_instances"),
            WatchError::Other(error) => {
                return format!(
                    "the system does not tell what happens to files ({error}); looking at them every {every} instead"
                );
            }
        };
        format!(
            "the system allows no more {what} to be watched{}; looking at the files every {every} instead; to raise the \
             limit: sudo sysctl fs.inotify.{name}=1048576",
            limit(name)
        )
    }
}
