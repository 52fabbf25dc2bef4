//! Watching by looking now and then, where the system cannot tell what happens.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use super::events::{Event, Now};
use crate::system::{Stamp, System, locked};

/// The stamps of a path: of itself, and of what it leads to.
type Stamps = (Option<Stamp>, Option<Stamp>);

struct Looked {
    paths: HashMap<PathBuf, Stamps>,
    /// Whether somebody waits until all is looked at.
    is_asked: bool,
    is_over: bool,
}

type Shared = Arc<(Mutex<Looked>, Condvar)>;

/// Looks at paths at an interval until it is dropped.
pub(super) struct Poller {
    shared: Shared,
    system: Arc<dyn System>,
    thread: Option<JoinHandle<()>>,
}

impl Poller {
    /// Starts to look at nothing.
    pub(super) fn start(
        system: Arc<dyn System>,
        every: Duration,
        tell: impl Fn(Event) + Send + 'static,
    ) -> std::io::Result<Self> {
        let looked = Looked {
            paths: HashMap::new(),
            is_asked: false,
            is_over: false,
        };
        let shared: Shared = Arc::new((Mutex::new(looked), Condvar::new()));
        let of_thread = (shared.clone(), system.clone());
        let thread = std::thread::Builder::new()
            .name("poll".to_owned())
            .spawn(move || look(&of_thread.0, of_thread.1.as_ref(), every, &tell))?;
        Ok(Poller {
            shared,
            system,
            thread: Some(thread),
        })
    }

    /// Looks at these paths from now on; returns those that were not looked at before.
    pub(super) fn set(&self, paths: impl Iterator<Item = PathBuf>) -> Vec<PathBuf> {
        let mut before = std::mem::take(&mut locked(&self.shared.0).paths);
        let mut fresh = Vec::new();
        let mut after = HashMap::new();
        for path in paths {
            if after.contains_key(&path) {
                continue;
            }
            let stamps = before.remove(&path).unwrap_or_else(|| {
                fresh.push(path.clone());
                stamps(self.system.as_ref(), &path)
            });
            after.insert(path, stamps);
        }
        locked(&self.shared.0).paths = after;
        fresh
    }

    /// Looks at all now, and tells [`Event::CaughtUp`] then.
    pub(super) fn catch_up(&self) {
        locked(&self.shared.0).is_asked = true;
        self.shared.1.notify_all();
    }
}

impl Drop for Poller {
    fn drop(&mut self) {
        locked(&self.shared.0).is_over = true;
        self.shared.1.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn look(shared: &Shared, system: &dyn System, every: Duration, tell: &impl Fn(Event)) {
    loop {
        let looked = locked(&shared.0);
        if looked.is_over {
            return;
        }
        let is_left_alone = |looked: &mut Looked| !looked.is_asked && !looked.is_over;
        let waited = shared.1.wait_timeout_while(looked, every, is_left_alone);
        let mut looked =
            waited.map_or_else(|poisoned| poisoned.into_inner().0, |(looked, _)| looked);
        if looked.is_over {
            return;
        }
        let is_asked = std::mem::take(&mut looked.is_asked);
        let known: Vec<(PathBuf, Stamps)> = looked
            .paths
            .iter()
            .map(|(path, stamps)| (path.clone(), *stamps))
            .collect();
        // Looking takes a while, in which the paths may be set anew.
        drop(looked);
        for (path, before) in known {
            let after = stamps(system, &path);
            if after == before {
                continue;
            }
            if let Some(known) = locked(&shared.0).paths.get_mut(&path) {
                *known = after;
            }
            let now = match after {
                (None, _) | (_, None) => Now::Gone,
                _ => Now::Whole,
            };
            tell(Event::At(path, now));
        }
        if is_asked {
            tell(Event::CaughtUp);
        }
    }
}

fn stamps(system: &dyn System, path: &std::path::Path) -> Stamps {
    let stamp =
        |found: std::io::Result<crate::system::Metadata>| found.ok().map(|found| found.stamp);
    (
        stamp(system.link_metadata(path)),
        stamp(system.metadata(path)),
    )
}
