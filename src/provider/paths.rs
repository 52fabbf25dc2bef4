//! Where a path of a sandbox is on the host.
//!
//! The walk follows links as a command inside the sandbox would see them, one component at a time, and says where it
//! ended: below which folder of the host, at which path without links. Whoever then opens that path does it with
//! [`Folder`], which follows no link, so a command that swaps a folder for a link meanwhile gets an error, not a way out.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use crate::step::sandbox::{Isolation, SandboxError};
use crate::system::disk::{self, Entry, Folder, Kind};

/// Path, inside a walled sandbox, of its private temporary folder.
pub(crate) const TEMP: &str = "/run/aebuild-tmp";

/// Path, inside a walled sandbox, of the home folder.
pub(crate) const HOME: &str = "/run/aebuild-home";

/// The folder in which commands run and under which relative paths are.
pub(crate) const APP: &str = "/app";

/// Top-level folders of the host that a sandbox sees read-only, where the host has them.
const SYSTEM: [&str; 7] = ["usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32"];

/// Number of links followed in one walk before it counts as a loop; the kernel's number.
const MAX_LINKS: usize = 40;

/// What the sandboxes of a run see of their host.
#[derive(Debug)]
pub(crate) struct Host {
    /// The system folders: their top-level name and the real folder behind it.
    pub(crate) system: Vec<(&'static str, PathBuf)>,
    /// The folder that stands for `/etc`.
    pub(crate) etc: PathBuf,
    /// The folders of the host's `/etc` that are seen in it, relative to `/etc`.
    pub(crate) etc_folders: Vec<String>,
    /// When the run began: what it started is newer.
    pub(crate) began: super::reap::Moment,
}

impl Host {
    /// Returns what is seen of this host, with the folder that stands for `/etc`.
    pub(crate) fn new(etc: PathBuf, etc_folders: Vec<String>) -> Self {
        let real =
            |name: &'static str| Some((name, disk::canonicalize(&Path::new("/").join(name)).ok()?));
        Self {
            system: SYSTEM.iter().copied().filter_map(real).collect(),
            etc,
            etc_folders,
            began: super::reap::Moment::now(),
        }
    }
}

/// How the paths of one sandbox map to the host.
#[derive(Debug)]
pub(crate) struct View {
    /// The sandbox's state: its root folder.
    pub(crate) state: PathBuf,
    /// Its private temporary folder.
    pub(crate) temp: PathBuf,
    /// Its home folder.
    pub(crate) home: PathBuf,
    /// What it sees of its host.
    pub(crate) host: Arc<Host>,
    /// What keeps the sandbox apart.
    pub(crate) isolation: Isolation,
}

/// What a walk does with a link at the end of its path.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Last {
    /// Goes where it points.
    Follow,
    /// Stays at the link.
    Keep,
}

/// Where a walk ended.
#[derive(Debug)]
pub(crate) struct Spot {
    /// The host folder below which the path is; `None` for folders of the system that have no content here.
    base: Option<Base>,
    /// What is there.
    pub(crate) entry: Option<Entry>,
    /// The components of the path in the sandbox.
    parts: Vec<OsString>,
}

#[derive(Debug)]
struct Base {
    folder: PathBuf,
    rest: PathBuf,
    writable: bool,
}

impl Spot {
    /// Opens the folder below which the path is, and returns it with the path.
    pub(crate) fn open(&self, path: &str) -> Result<(Folder, &Path), SandboxError> {
        let base = self.base.as_ref().ok_or_else(|| SandboxError::NoSuchPath {
            path: path.to_owned(),
        })?;
        let folder = Folder::open(&base.folder)
            .map_err(|source| io_error(path, "open the folder of", source))?;
        Ok((folder, &base.rest))
    }

    /// Does as [`Spot::open`] where the path may be written.
    pub(crate) fn open_writable(&self, path: &str) -> Result<(Folder, &Path), SandboxError> {
        match &self.base {
            Some(base) if base.writable && !base.rest.as_os_str().is_empty() => self.open(path),
            Some(base) if base.writable => Err(SandboxError::NotAFile {
                path: path.to_owned(),
                what: Kind::Folder.words(),
            }),
            _ => Err(SandboxError::ReadOnly {
                path: path.to_owned(),
                folder: self
                    .parts
                    .first()
                    .map(|name| name.to_string_lossy().into_owned())
                    .unwrap_or_default(),
            }),
        }
    }
}

/// Returns an error of the system about a path.
pub(crate) fn io_error(path: &str, verb: &str, source: io::Error) -> SandboxError {
    SandboxError::Io {
        what: format!("cannot {verb} `{path}`"),
        source,
    }
}

impl View {
    /// Returns the private temporary folder's path as a command sees it.
    pub(crate) fn temp_seen(&self) -> &str {
        match self.isolation {
            Isolation::Bubblewrap => TEMP,
            Isolation::None => self
                .temp
                .to_str()
                .expect("bug: the live folder was checked to be UTF-8"),
        }
    }

    /// Returns the home folder's path as a command sees it.
    pub(crate) fn home_seen(&self) -> &str {
        match self.isolation {
            Isolation::Bubblewrap => HOME,
            Isolation::None => self
                .home
                .to_str()
                .expect("bug: the live folder was checked to be UTF-8"),
        }
    }

    /// Walks to a path of the sandbox.
    pub(crate) fn walk(&self, path: &str, last: Last) -> Result<Spot, SandboxError> {
        if path.contains('\0') {
            return Err(SandboxError::Nul {
                what: format!("path `{}`", path.escape_debug()),
            });
        }
        let escapes = || SandboxError::PathEscapes {
            path: path.to_owned(),
        };
        let inside = self.inside(Path::new(path));
        let mut todo = components(&inside);
        let mut done: Vec<OsString> = Vec::new();
        let mut links = 0;
        while let Some(part) = todo.pop_front() {
            if part == ".." {
                // A link may climb above the root of a walled sandbox: it ends at that root, as in any root.
                let clamps = links > 0 && self.isolation == Isolation::Bubblewrap;
                if done.pop().is_none() && !clamps {
                    return Err(escapes());
                }
                continue;
            }
            done.push(part);
            let Some(base) = self.base(&done) else {
                continue;
            };
            if base.rest.as_os_str().is_empty() {
                continue;
            }
            let folder = match Folder::open(&base.folder) {
                Ok(folder) => folder,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(io_error(path, "look up", error)),
            };
            let entry = folder
                .lookup(&base.rest)
                .map_err(|error| io_error(path, "look up", error))?;
            match entry {
                Some(Entry {
                    kind: Kind::Folder, ..
                }) => {}
                Some(Entry {
                    kind: Kind::Link, ..
                }) if !todo.is_empty() || last == Last::Follow => {
                    links += 1;
                    if links > MAX_LINKS {
                        return Ok(Spot {
                            base: None,
                            entry: None,
                            parts: done,
                        });
                    }
                    let target = folder
                        .read_link(&base.rest)
                        .map_err(|error| io_error(path, "follow the link", error))?;
                    done.pop();
                    if target.is_absolute() {
                        done.clear();
                    }
                    let target = self
                        .link_target(&target, base.writable)
                        .ok_or_else(escapes)?;
                    for part in components(&target).into_iter().rev() {
                        todo.push_front(part);
                    }
                }
                _ if todo.is_empty() => {}
                // Nothing below a file or below nothing: what is left of the path is taken as it is written.
                _ if todo.iter().any(|part| part == "..") => {
                    return Err(SandboxError::NoSuchPath {
                        path: path.to_owned(),
                    });
                }
                _ => done.extend(todo.drain(..)),
            }
        }
        self.spot(path, done)
    }

    fn spot(&self, path: &str, parts: Vec<OsString>) -> Result<Spot, SandboxError> {
        let base = self.base(&parts);
        let entry = match &base {
            None => None,
            Some(base) => {
                match Folder::open(&base.folder).and_then(|folder| folder.lookup(&base.rest)) {
                    Ok(entry) => entry,
                    Err(error) if error.kind() == io::ErrorKind::NotFound => None,
                    Err(error) => return Err(io_error(path, "look up", error)),
                }
            }
        };
        Ok(Spot { base, entry, parts })
    }

    /// Returns a path as one below the sandbox's root: host paths of the sandbox's own folders are mapped back.
    fn inside(&self, path: &Path) -> PathBuf {
        if !path.is_absolute() {
            return Path::new(APP).join(path);
        }
        if self.isolation == Isolation::None
            && let Some(inside) = self.own(path)
        {
            return inside;
        }
        path.to_owned()
    }

    fn own(&self, path: &Path) -> Option<PathBuf> {
        let below =
            |folder: &Path, seen: &str| Some(Path::new(seen).join(path.strip_prefix(folder).ok()?));
        below(&self.state, "/")
            .or_else(|| below(&self.temp, TEMP))
            .or_else(|| below(&self.home, HOME))
    }

    /// Returns where a link leads, `None` when that is out of the sandbox.
    fn link_target(&self, target: &Path, in_state: bool) -> Option<PathBuf> {
        if !target.is_absolute() || self.isolation == Isolation::Bubblewrap || !in_state {
            return Some(target.to_owned());
        }
        // Without a wall a command follows an absolute link on the host: only what is the same there may be followed.
        let is_system = || {
            let first = target.components().nth(1)?.as_os_str().to_str()?;
            self.host
                .system
                .iter()
                .any(|(name, _)| *name == first)
                .then(|| target.to_owned())
        };
        self.own(target).or_else(is_system)
    }

    fn base(&self, parts: &[OsString]) -> Option<Base> {
        let rest = |skip: usize| parts.iter().skip(skip).collect::<PathBuf>();
        let read_only = |folder: &Path| {
            Some(Base {
                folder: folder.to_owned(),
                rest: rest(1),
                writable: false,
            })
        };
        let own = |folder: &Path, skip: usize| {
            Some(Base {
                folder: folder.to_owned(),
                rest: rest(skip),
                writable: true,
            })
        };
        let name = |index: usize| parts.get(index).and_then(|name| name.to_str());
        match name(0) {
            Some("etc") => {
                let path: PathBuf = rest(1);
                let seen = self
                    .host
                    .etc_folders
                    .iter()
                    .find(|folder| path.starts_with(folder));
                let folder = if seen.is_some() {
                    Path::new("/etc")
                } else {
                    &self.host.etc
                };
                read_only(folder)
            }
            Some("proc" | "dev") => None,
            Some("run") => match name(1) {
                Some("aebuild-tmp") => own(&self.temp, 2),
                Some("aebuild-home") => own(&self.home, 2),
                _ => None,
            },
            Some(first) => match self.host.system.iter().find(|(name, _)| *name == first) {
                Some((_, folder)) => read_only(folder),
                None => own(&self.state, 0),
            },
            None => own(&self.state, 0),
        }
    }
}

fn components(path: &Path) -> VecDeque<OsString> {
    let keep = |part: Component<'_>| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some(OsString::from("..")),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    };
    path.components()
        .filter_map(keep)
        .filter(|name| !name.as_bytes().is_empty())
        .collect()
}
