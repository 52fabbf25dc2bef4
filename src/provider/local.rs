//! Sandboxes on this machine: a folder each, behind a wall where bubblewrap works.
//!
//! ```text
//! <live>/<run>/lease            locked while the run lives
//! <live>/<run>/.etc             what its sandboxes see as /etc
//! <live>/<run>/<sandbox>/root   the state of a sandbox, whole: /app of the sandbox is root/app
//!                       /tmp    its TMPDIR, not state
//!                       /home   its HOME, not state
//! ```

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use tokio::sync::watch;

use super::activity::{Activity, lock};
use super::bubblewrap::{self, Network};
use super::files;
pub use super::local_exec::PATH;
use super::paths::{APP, Host, View};
use super::process::Patience;
use super::reap::{self, Lease, Marked, Reaped};
use crate::step::sandbox::{
    BoxFuture, Exec, Exited, Isolation, ListedFile, Probe, Put, Sandbox, SandboxError,
};
use crate::system::disk;

/// Which isolation a run asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wanted {
    /// Bubblewrap where it works, else none.
    #[default]
    Auto,
    /// Bubblewrap, or no sandbox at all.
    Bubblewrap,
    /// None.
    None,
}

/// Why sandboxes could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LocalError {
    /// Bubblewrap was asked for and does not work here.
    #[error("isolation `bubblewrap` was asked for, but {reason}")]
    NoBubblewrap {
        /// Why not.
        reason: &'static str,
    },
    /// A network policy was asked for that isolation `none` cannot keep.
    #[error("sandbox `{id}` asks for a closed network, which isolation `none` cannot keep")]
    OpenNetwork {
        /// The sandbox.
        id: String,
    },
    /// The id cannot be the name of a folder.
    #[error(
        "`{id}` cannot be an id: an id has 1 to 100 letters, digits, `.`, `_` or `-`, and does not begin with `.`"
    )]
    Id {
        /// The id, escaped.
        id: String,
    },
    /// A sandbox of that id exists in the run.
    #[error("sandbox `{id}` exists already")]
    Exists {
        /// The sandbox.
        id: String,
    },
    /// The live folder's path would be read by a shell as more than one word.
    #[error(
        "the path `{path}` holds characters that a shell would read, and without bubblewrap it becomes part of scripts"
    )]
    ShellPath {
        /// The path.
        path: String,
    },
    /// A declared environment variable cannot be one.
    #[error(transparent)]
    Variable(#[from] SandboxError),
    /// The system refused something.
    #[error("{what}: {source}")]
    Io {
        /// What was done, and where.
        what: String,
        /// What the system said.
        source: io::Error,
    },
}

fn failed(verb: &str, path: &Path) -> impl FnOnce(io::Error) -> LocalError {
    let what = format!("cannot {verb} `{}`", path.display());
    move |source| LocalError::Io { what, source }
}

/// What a sandbox is made from.
#[derive(Clone, Debug, Default)]
pub struct SandboxSpec {
    /// Its id, unique in the run and the same in every run: commands see it.
    pub id: String,
    /// Variables that all its commands get.
    pub env_vars: Vec<(String, String)>,
    /// Whether its commands reach the network.
    pub network: Network,
    /// Folders of the host that its commands see at the same path, read-only where there is a wall.
    pub mounts: Vec<PathBuf>,
    /// How long its commands are waited for, where it is not what all of the run get.
    pub patience: Option<Patience>,
}

/// The sandboxes of one run.
pub struct LocalSandboxes {
    run: Arc<RunFolder>,
    host: Arc<Host>,
    wall: Option<&'static Path>,
    why_none: Option<&'static str>,
    patience: Patience,
    sandboxes: Mutex<HashMap<String, Weak<LocalSandbox>>>,
}

/// The folder of a run's live things, leased as long as this is there: nobody takes it for that of a dead run.
#[derive(Debug)]
pub struct RunFolder(Lease);

impl RunFolder {
    /// Makes the folder of a run below `live_dir`.
    pub fn make(live_dir: PathBuf, run_id: &str) -> Result<Self, LocalError> {
        check_id(run_id)?;
        disk::create_dir_all(&live_dir).map_err(failed("make the folder", &live_dir))?;
        let live_dir =
            disk::canonicalize(&live_dir).map_err(failed("find the folder", &live_dir))?;
        let lease = Lease::take(&live_dir, run_id)
            .map_err(failed("make the folder of the run", &live_dir.join(run_id)))?;
        Ok(RunFolder(lease))
    }

    /// Returns the path.
    pub fn path(&self) -> &Path {
        self.0.folder()
    }

    /// Removes the folder.
    pub fn remove(&self) -> Result<(), LocalError> {
        reap::remove_run(self.path()).map_err(failed("remove the folder", self.path()))
    }
}

impl LocalSandboxes {
    /// Makes the folder of a run below `live_dir` and finds out which isolation its sandboxes get.
    ///
    /// Sets the process's umask to 022, so that what commands make has the same mode whoever runs them.
    pub fn new(live_dir: PathBuf, run_id: &str, wanted: Wanted) -> Result<Self, LocalError> {
        Self::on(Arc::new(RunFolder::make(live_dir, run_id)?), wanted)
    }

    /// Finds out which isolation the sandboxes of a run get whose folder there is already, see [`LocalSandboxes::new`].
    pub fn on(run: Arc<RunFolder>, wanted: Wanted) -> Result<Self, LocalError> {
        disk::set_umask(0o022);
        let lease = &run.0;
        let etc = lease.folder().join(".etc");
        let etc_folders = match wanted {
            Wanted::None => Vec::new(),
            Wanted::Auto | Wanted::Bubblewrap => {
                bubblewrap::make_etc(&etc).map_err(failed("fill the folder", &etc))?
            }
        };
        let host = Arc::new(Host::new(etc, etc_folders));
        let (wall, why_none) = match wanted {
            Wanted::None => (None, None),
            Wanted::Auto | Wanted::Bubblewrap => match find_wall(lease.folder(), &host)? {
                Ok(wall) => (Some(wall), None),
                Err(reason) if wanted == Wanted::Bubblewrap => {
                    remove_unused(lease);
                    return Err(LocalError::NoBubblewrap { reason });
                }
                Err(reason) => (None, Some(reason)),
            },
        };
        let path = lease.folder().to_string_lossy();
        let is_word = |c: char| c.is_alphanumeric() || "/._-+@%,".contains(c);
        if wall.is_none() && !path.chars().all(is_word)
            || path.contains(char::REPLACEMENT_CHARACTER)
        {
            let path = path.into_owned();
            remove_unused(lease);
            return Err(LocalError::ShellPath { path });
        }
        Ok(Self {
            run,
            host,
            wall,
            why_none,
            patience: Patience::default(),
            sandboxes: Mutex::default(),
        })
    }

    /// Sets how long commands are waited for, for sandboxes made from now on.
    pub fn with_patience(mut self, patience: Patience) -> Self {
        self.patience = patience;
        self
    }

    /// Returns the isolation that sandboxes get.
    pub fn isolation(&self) -> Isolation {
        if self.wall.is_some() {
            Isolation::Bubblewrap
        } else {
            Isolation::None
        }
    }

    /// Returns what a user should be told about the isolation, if anything.
    pub fn notice(&self) -> Option<String> {
        let reason = self
            .why_none
            .map(|reason| format!(" ({reason})"))
            .unwrap_or_default();
        self.wall.is_none().then(|| format!("{NOTICE}{reason}"))
    }

    /// Makes a sandbox, empty but for `/app`.
    pub fn create(&self, spec: SandboxSpec) -> Result<Arc<LocalSandbox>, LocalError> {
        check_id(&spec.id)?;
        let id = &spec.id;
        if spec.network == Network::Closed && self.wall.is_none() {
            return Err(LocalError::OpenNetwork { id: id.clone() });
        }
        spec.env_vars
            .iter()
            .try_for_each(super::local_exec::check_variable)?;
        let folder = self.run.path().join(id);
        match disk::create_private_dir(&folder) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                return Err(LocalError::Exists { id: id.clone() });
            }
            result => result.map_err(failed("make the folder", &folder))?,
        }
        let view = view(&folder, &self.host, self.isolation());
        for folder in [&view.state, &view.temp, &view.home] {
            disk::create_private_dir(folder).map_err(failed("make the folder", folder))?;
        }
        let app = folder.join("root").join(APP.trim_start_matches('/'));
        disk::create_dir(&app).map_err(failed("make the folder", &app))?;
        let mount_points = match self.wall {
            Some(_) => bubblewrap::mount_points(&view),
            // Without it `/tmp` in a command would be the host's, and not what file operations call `/tmp`.
            None => vec!["tmp"],
        };
        let activity = Arc::new(Activity::new(id.clone(), view.state.clone(), mount_points));
        let sandbox = Arc::new(LocalSandbox {
            folder,
            view,
            wall: self.wall,
            patience: spec.patience.unwrap_or(self.patience),
            cancel: watch::Sender::new(false),
            activity,
            spec,
        });
        lock(&self.sandboxes).insert(sandbox.spec.id.clone(), Arc::downgrade(&sandbox));
        Ok(sandbox)
    }

    /// Destroys all sandboxes and removes the folder of the run.
    pub async fn close(&self) -> Result<(), LocalError> {
        let sandboxes: Vec<_> = lock(&self.sandboxes)
            .drain()
            .filter_map(|(_, sandbox)| sandbox.upgrade())
            .collect();
        let mut ended = Ok(());
        for sandbox in sandboxes {
            // One that cannot be ended keeps none of the others up.
            let one = sandbox.destroy().await;
            ended = ended.and(one);
        }
        let folder = self.run.path();
        Marked {
            folder: folder.to_owned(),
            id: None,
            since: 0,
            newer_than: self.host.began,
        }
        .kill();
        let removed = reap::remove_run(folder).map_err(failed("remove the folder", folder));
        ended.and(removed)
    }

    /// Kills every process of the run at once; for a runner that must end now.
    pub fn kill_now(&self) {
        Marked {
            folder: self.run.path().to_owned(),
            id: None,
            since: 0,
            newer_than: self.host.began,
        }
        .kill();
    }

    /// Ends every run below a live folder that no process holds any more, and removes its folder.
    pub fn reap_orphans(live_dir: &Path) -> Result<Vec<Reaped>, LocalError> {
        // The folder may not be there yet; markers hold the path without links, as `new` does.
        let live_dir = disk::canonicalize(live_dir).unwrap_or_else(|_| live_dir.to_owned());
        reap::reap_orphans(&live_dir).map_err(failed("look for orphans in", &live_dir))
    }
}

impl fmt::Debug for LocalSandboxes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalSandboxes")
            .field("folder", &self.run.path())
            .field("isolation", &self.isolation())
            .finish_non_exhaustive()
    }
}

const NOTICE: &str = "sandboxes isolate files by convention only: their commands run as you, on this machine, and can read and write all you can";

fn find_wall(
    run: &Path,
    host: &Arc<Host>,
) -> Result<Result<&'static Path, &'static str>, LocalError> {
    let folder = run.join(".trial");
    let view = view(&folder, host, Isolation::Bubblewrap);
    for folder in [&view.state, &view.temp, &view.home] {
        disk::create_dir_all(folder).map_err(failed("make the folder", folder))?;
    }
    let found = bubblewrap::find(&view);
    disk::remove_dir_all(&folder).map_err(failed("remove the folder", &folder))?;
    Ok(found)
}

fn remove_unused(lease: &Lease) {
    // What is left is taken away as an orphan by the next run.
    let _ = reap::remove_run(lease.folder());
}

fn view(folder: &Path, host: &Arc<Host>, isolation: Isolation) -> View {
    let [state, temp, home] = ["root", "tmp", "home"].map(|name| folder.join(name));
    View {
        state,
        temp,
        home,
        host: host.clone(),
        isolation,
    }
}

fn check_id(id: &str) -> Result<(), LocalError> {
    let is_letter = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    if (1..=100).contains(&id.len())
        && !id.starts_with('.')
        && id != "lease"
        && id.chars().all(is_letter)
    {
        return Ok(());
    }
    Err(LocalError::Id {
        id: id.escape_debug().to_string(),
    })
}

/// One sandbox on this machine.
pub struct LocalSandbox {
    pub(super) spec: SandboxSpec,
    pub(super) folder: PathBuf,
    pub(super) view: View,
    pub(super) wall: Option<&'static Path>,
    pub(super) patience: Patience,
    pub(super) cancel: watch::Sender<bool>,
    pub(super) activity: Arc<Activity>,
}

impl LocalSandbox {
    /// Returns the folder whose tree is the sandbox's state.
    ///
    /// It is the state and nothing else while no command runs: see [`LocalSandbox::settled`].
    pub fn state_dir(&self) -> &Path {
        &self.view.state
    }

    /// Waits until no command runs, those that are being stopped included.
    pub async fn settled(&self) {
        self.activity.settled().await;
    }

    /// Returns whether something that a command left behind still runs.
    pub fn is_busy(&self) -> bool {
        !self.marked(0).find().is_empty()
    }

    /// Returns what a user should be told about the isolation, if anything.
    pub fn notice(&self) -> Option<&str> {
        self.wall.is_none().then_some(NOTICE)
    }

    /// Ends all processes of the sandbox and removes its folder; its running commands end as cancelled.
    ///
    /// A second call does nothing.
    pub async fn destroy(&self) -> Result<(), LocalError> {
        self.activity.close();
        self.cancel.send_replace(true);
        self.settled().await;
        let marked = self.marked(0);
        let end = async {
            let mut asked = Vec::new();
            loop {
                let found = marked.find();
                if found.is_empty() {
                    return;
                }
                for proc in found
                    .iter()
                    .filter(|proc| !asked.contains(&(proc.pid, proc.start)))
                {
                    reap::signal(proc, rustix::process::Signal::TERM);
                }
                asked = found.iter().map(|proc| (proc.pid, proc.start)).collect();
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        // Who does not end when asked is killed.
        let _ = tokio::time::timeout(self.patience.grace, end).await;
        let folder = self.folder.clone();
        let remove = move || {
            marked.kill();
            disk::remove_dir_all(&folder).map_err(failed("remove the folder", &folder))
        };
        tokio::task::spawn_blocking(remove)
            .await
            .expect("bug: removing a sandbox panicked")
    }

    pub(super) fn marked(&self, since: u64) -> Marked {
        Marked {
            folder: self.folder.clone(),
            id: Some(self.spec.id.clone()),
            since,
            newer_than: self.view.host.began,
        }
    }
}

impl fmt::Debug for LocalSandbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalSandbox")
            .field("id", &self.spec.id)
            .field("folder", &self.folder)
            .finish_non_exhaustive()
    }
}

impl Sandbox for LocalSandbox {
    fn id(&self) -> &str {
        &self.spec.id
    }

    fn exec<'a>(&'a self, exec: Exec) -> BoxFuture<'a, Result<Exited, SandboxError>> {
        Box::pin(self.run(exec))
    }

    fn probe(&self, path: &str) -> Result<Probe, SandboxError> {
        files::probe(&self.view, path)
    }

    fn read(&self, path: &str, limit: u64) -> Result<Option<Vec<u8>>, SandboxError> {
        files::read(&self.view, path, limit)
    }

    fn list(&self, path: &str) -> Result<Vec<ListedFile>, SandboxError> {
        files::list(&self.view, path)
    }

    fn put(&self, files: &[Put]) -> Result<(), SandboxError> {
        files::put(&self.view, files)
    }

    fn write(&self, path: &str, bytes: &[u8], mode: u32) -> Result<(), SandboxError> {
        files::write(&self.view, path, bytes, mode)
    }

    fn fetch(&self, path: &str, to: &Path) -> Result<u64, SandboxError> {
        files::fetch(&self.view, path, to)
    }

    fn isolation(&self) -> Isolation {
        self.view.isolation
    }

    fn temp_dir(&self) -> &str {
        self.view.temp_seen()
    }
}
