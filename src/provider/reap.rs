//! Finds and ends what runs have left behind: processes and folders.
//!
//! A run holds a lock on the file `lease` of its folder for as long as it lives, so a folder whose lock can be taken
//! belongs to nobody. Its processes carry `AEBUILD_SANDBOX` in their environment, and a path of the run's folder.

use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::system::disk::{self, File};

/// The environment variable by which a sandbox's processes are found.
pub const MARKER: &str = "AEBUILD_SANDBOX";

/// Number of rounds in which processes are looked for and killed before those that are left are given up.
const ROUNDS: u32 = 200;

/// A process, as seen at one moment.
#[derive(Clone, Debug)]
pub(crate) struct Proc {
    pub(crate) pid: Pid,
    pub(crate) parent: Pid,
    pub(crate) group: Pid,
    /// Start time in ticks since boot: with the pid, what a process is.
    pub(crate) start: u64,
    pub(crate) is_zombie: bool,
}

/// Returns all processes.
pub(crate) fn processes() -> Vec<Proc> {
    pids().filter_map(process).collect()
}

/// A moment in the life of a system, by which processes are told that were started since.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Moment {
    /// The number of the process that was started last.
    newest: i32,
    /// How many processes were ever started.
    started: i64,
}

impl Moment {
    /// Returns this moment; the default, which is before all others, where the system does not say.
    pub(crate) fn now() -> Self {
        let load = disk::read_to_string(Path::new("/proc/loadavg")).unwrap_or_default();
        let newest = load
            .split_ascii_whitespace()
            .last()
            .and_then(|last| last.parse().ok());
        let stat = disk::read_to_string(Path::new("/proc/stat")).unwrap_or_default();
        let started = stat
            .lines()
            .find_map(|line| line.strip_prefix("processes ")?.trim().parse().ok());
        match (newest, started) {
            (Some(newest), Some(started)) => Moment { newest, started },
            _ => Moment::default(),
        }
    }

    /// Returns the number above which all processes are that were started since.
    ///
    /// Numbers go up, and start anew from below when they are used up. They have not if they went up by as much as
    /// processes were started; otherwise every process may be one.
    fn oldest_since(&self) -> i32 {
        let now = Moment::now();
        let numbers = i64::from(now.newest) - i64::from(self.newest);
        let is_sure = self.started > 0 && numbers >= now.started - self.started;
        if is_sure { self.newest } else { 0 }
    }
}

fn pids() -> impl Iterator<Item = Pid> {
    let names = disk::read_dir(Path::new("/proc")).unwrap_or_default();
    names
        .into_iter()
        .filter_map(|name| Pid::from_raw(name.to_str()?.parse().ok()?))
}

fn process(pid: Pid) -> Option<Proc> {
    let stat = disk::read(&proc_path(pid, "stat")).ok()?;
    let stat = String::from_utf8_lossy(&stat);
    // The name is in parentheses and may hold anything; the fields after it are numbered from 3.
    let fields: Vec<&str> = stat[stat.rfind(')')? + 1..]
        .split_ascii_whitespace()
        .collect();
    let number = |index: usize| fields.get(index)?.parse::<i32>().ok();
    let pid_or_init = |number: i32| Pid::from_raw(number.max(0)).unwrap_or(Pid::INIT);
    Some(Proc {
        pid,
        parent: pid_or_init(number(1)?),
        group: pid_or_init(number(2)?),
        start: fields.get(19)?.parse().ok()?,
        is_zombie: matches!(*fields.first()?, "Z" | "X"),
    })
}

fn proc_path(pid: Pid, file: &str) -> PathBuf {
    PathBuf::from(format!("/proc/{pid}/{file}"))
}

/// Returns the children of a process, their children, and so on.
pub(crate) fn descendants(seen: &[Proc], pid: Pid) -> Vec<Proc> {
    let mut found: Vec<Proc> = Vec::new();
    let mut parents = vec![pid];
    while let Some(parent) = parents.pop() {
        for proc in seen
            .iter()
            .filter(|proc| proc.parent == parent && proc.pid != parent)
        {
            parents.push(proc.pid);
            found.push(proc.clone());
        }
    }
    found
}

/// Sends a signal to a process, unless its number belongs to another by now.
pub(crate) fn signal(proc: &Proc, signal: Signal) {
    let Ok(handle) = pidfd_open(proc.pid, PidfdFlags::empty()) else {
        return;
    };
    if process(proc.pid).is_some_and(|now| now.start == proc.start) {
        // An error means that it ended.
        let _ = pidfd_send_signal(&handle, signal);
    }
}

/// What a folder is, whatever its path: device and inode.
type FolderId = (u64, u64);

fn folder_id(path: &Path) -> Option<FolderId> {
    let metadata = disk::metadata(path).ok()?;
    Some((metadata.dev(), metadata.ino()))
}

/// Tells whether a process is a wall, or one that is still being built, around a folder whose path begins like this.
fn is_wall_of(pid: Pid, below: &[u8]) -> bool {
    let line = disk::read(&proc_path(pid, "cmdline")).unwrap_or_default();
    let mut words = line.split(|byte| *byte == 0);
    words
        .next()
        .is_some_and(|program| program.ends_with(b"/bwrap"))
        && words.any(|word| word.starts_with(below))
}

/// Which processes are meant: those of one sandbox, or of all sandboxes below a folder.
#[derive(Clone, Debug)]
pub(crate) struct Marked {
    /// The sandbox's or the run's folder.
    pub(crate) folder: PathBuf,
    /// The sandbox's id.
    pub(crate) id: Option<String>,
    /// Only processes that started at this time, in ticks since boot, or later.
    pub(crate) since: u64,
    /// Only processes that were started after this moment.
    pub(crate) newer_than: Moment,
}

impl Marked {
    /// Returns the processes that are meant.
    pub(crate) fn find(&self) -> Vec<Proc> {
        let own = rustix::process::getpid();
        let oldest = self.newer_than.oldest_since();
        let mut candidates = pids()
            .filter(|pid| *pid != own && pid.as_raw_nonzero().get() > oldest)
            .peekable();
        if candidates.peek().is_none() {
            return Vec::new();
        }
        let roots = self.roots();
        candidates
            .filter(|pid| self.is_worn_by(*pid, &roots))
            .filter_map(process)
            .filter(|proc| proc.start >= self.since)
            .collect()
    }

    /// Returns the root folders of the sandboxes that are meant.
    fn roots(&self) -> Vec<FolderId> {
        let sandboxes = match self.id {
            Some(_) => vec![self.folder.clone()],
            None => disk::read_dir(&self.folder)
                .unwrap_or_default()
                .iter()
                .map(|name| self.folder.join(name))
                .collect(),
        };
        sandboxes
            .iter()
            .filter_map(|sandbox| folder_id(&sandbox.join("root")))
            .collect()
    }

    fn is_worn_by(&self, pid: Pid, roots: &[FolderId]) -> bool {
        let Ok(environment) = disk::read(&proc_path(pid, "environ")) else {
            return false;
        };
        let value_of = |name: &str| {
            let mut variables = environment.split(|byte| *byte == 0);
            variables
                .find_map(|variable| variable.strip_prefix(name.as_bytes())?.strip_prefix(b"="))
        };
        let Some(id) = value_of(MARKER) else {
            return false;
        };
        if self
            .id
            .as_ref()
            .is_some_and(|wanted| wanted.as_bytes() != id)
        {
            return false;
        }
        // Ids are the same in every run, so the folder must be known too: from a path, or behind a wall from the root.
        let mut below = self.folder.as_os_str().as_bytes().to_vec();
        below.push(b'/');
        let is_below = |name: &&str| value_of(name).is_some_and(|value| value.starts_with(&below));
        ["HOME", "TMPDIR"].iter().any(is_below)
            || folder_id(&proc_path(pid, "root")).is_some_and(|root| roots.contains(&root))
            || is_wall_of(pid, &below)
    }

    /// Kills the processes that are meant, until there are none; returns their numbers.
    pub(crate) fn kill(&self) -> Vec<u32> {
        let mut killed = Vec::new();
        for _ in 0..ROUNDS {
            let found = self.find();
            if found.is_empty() {
                break;
            }
            for proc in &found {
                signal(proc, Signal::KILL);
                killed.push(proc.pid.as_raw_pid().unsigned_abs());
            }
            // Dying takes the kernel a moment, and nobody tells who is not the parent.
            std::thread::sleep(Duration::from_millis(1));
        }
        killed.sort_unstable();
        killed.dedup();
        killed
    }
}

/// The folder of a run and the lock that says that the run lives.
#[derive(Debug)]
pub(crate) struct Lease {
    folder: PathBuf,
    _lock: File,
}

impl Lease {
    /// Makes the folder of a run, which nobody may have leased before, and takes its lock.
    pub(crate) fn take(live: &Path, run_id: &str) -> io::Result<Self> {
        disk::create_dir_all(live)?;
        let _door = Door::close(live)?;
        let folder = live.join(run_id);
        match disk::create_private_dir(&folder) {
            // Calls of envs may have been recorded in it already.
            Err(error)
                if error.kind() == io::ErrorKind::AlreadyExists
                    && !disk::exists(&folder.join("lease")) =>
            {
                disk::set_mode(&folder, 0o700)?;
            }
            made => made?,
        }
        let mut lock = disk::create(&folder.join("lease"))?;
        lock.lock()?;
        let own = rustix::process::getpid();
        let start = process(own).map_or(0, |own| own.start);
        writeln!(lock, "pid {own}\nstarted {start}")?;
        Ok(Self {
            folder,
            _lock: lock,
        })
    }

    /// Returns the folder of the run.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }
}

/// The lock under which runs appear in a live folder and are judged to be orphans.
struct Door {
    _lock: File,
}

impl Door {
    fn close(live: &Path) -> io::Result<Self> {
        let lock = disk::open_or_create(&live.join(".lock"))?;
        lock.lock()?;
        Ok(Self { _lock: lock })
    }
}

/// Returns whether a process holds a run, or cleans up after it.
pub(crate) fn is_held(live: &Path, run_id: &str) -> bool {
    let Ok(_door) = Door::close(live) else {
        return true;
    };
    let lease = disk::open(&live.join(run_id).join("lease"));
    lease.is_ok_and(|lock| lock.try_lock().is_err())
}

/// A run that nobody held any more.
#[derive(Debug)]
pub struct Reaped {
    /// The run's id.
    pub run_id: String,
    /// The sandboxes it had left.
    pub sandboxes: Vec<String>,
    /// The process that held the run, as far as its lease says.
    pub holder: Option<u32>,
    /// The processes that were killed.
    pub killed: Vec<u32>,
    /// Why its folder could not be removed, where it could not.
    pub left: Option<io::Error>,
}

/// Ends every run below a live folder that nobody holds, and removes its folder.
///
/// A run that lives is never touched, and several processes may reap at once: the lock of a run is held while it is being
/// reaped.
pub fn reap_orphans(live: &Path) -> io::Result<Vec<Reaped>> {
    if !disk::exists(live) {
        return Ok(Vec::new());
    }
    let mut orphans = Vec::new();
    {
        let _door = Door::close(live)?;
        for name in disk::read_dir(live)? {
            let folder = live.join(&name);
            let Ok(run_id) = name.into_string() else {
                continue;
            };
            let is_run = !run_id.starts_with('.')
                && disk::symlink_metadata(&folder).is_ok_and(|metadata| metadata.is_dir());
            if !is_run {
                continue;
            }
            // A folder without the file was left half made or half removed; making it is how it is claimed.
            let lease = disk::open_or_create(&folder.join("lease")).ok();
            if let Some(lock) = lease.filter(|lock| lock.try_lock().is_ok()) {
                orphans.push((run_id, folder, lock));
            }
        }
    }
    Ok(orphans
        .into_iter()
        .map(|(run_id, folder, _lock)| reap(run_id, &folder))
        .collect())
}

fn reap(run_id: String, folder: &Path) -> Reaped {
    let lease = disk::read_to_string(&folder.join("lease")).unwrap_or_default();
    let holder = lease
        .lines()
        .find_map(|line| line.strip_prefix("pid ")?.parse().ok());
    let killed = Marked {
        folder: folder.to_owned(),
        id: None,
        since: 0,
        newer_than: Moment::default(),
    }
    .kill();
    let names = disk::read_dir(folder).unwrap_or_default();
    let sandboxes = names
        .into_iter()
        .filter_map(|name| name.into_string().ok())
        .filter(|name| name != "lease" && !name.starts_with('.'));
    let sandboxes = sandboxes.collect();
    Reaped {
        run_id,
        sandboxes,
        holder,
        killed,
        left: remove_run(folder).err(),
    }
}

/// Removes the folder of a run, the lease last: until then the lock says that somebody is at it.
pub(crate) fn remove_run(folder: &Path) -> io::Result<()> {
    let names = match disk::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        names => names?,
    };
    for name in names.into_iter().filter(|name| name != "lease") {
        disk::remove_dir_all(&folder.join(name))?;
    }
    disk::remove_dir_all(folder)
}
