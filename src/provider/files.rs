//! File operations in a sandbox's folders, done from outside.
//!
//! The commands of a sandbox may be changing its files at the same time, and may mean harm: nothing here follows a link
//! that leads out, waits for a pipe, or writes into a file that is already there.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use super::paths::{Last, Spot, View, io_error};
use crate::step::sandbox::{ListedFile, Probe, Put, SandboxError};
use crate::system::disk::{self, Entry, Folder, Kind};

/// Number of files copied at once.
const COPIES: usize = 8;

pub(crate) fn probe(view: &View, path: &str) -> Result<Probe, SandboxError> {
    Ok(match view.walk(path, Last::Follow)?.entry {
        None => Probe::Missing,
        Some(Entry {
            kind: Kind::File,
            size,
            ..
        }) => Probe::File { size },
        Some(Entry {
            kind: Kind::Folder, ..
        }) => Probe::Dir,
        // The walk follows links, so one that is still a link was put there meanwhile.
        Some(Entry {
            kind: Kind::Link | Kind::Pipe | Kind::Socket | Kind::Device,
            ..
        }) => Probe::Other,
    })
}

pub(crate) fn read(view: &View, path: &str, limit: u64) -> Result<Option<Vec<u8>>, SandboxError> {
    let spot = view.walk(path, Last::Follow)?;
    let Some(entry) = spot.entry else {
        return Ok(None);
    };
    let too_large = |size| SandboxError::TooLarge {
        path: path.to_owned(),
        size,
        limit,
    };
    let file = open_regular(&spot, entry, path)?;
    if entry.size > limit {
        return Err(too_large(entry.size));
    }
    let mut bytes = Vec::with_capacity(usize::try_from(entry.size).unwrap_or(0));
    file.take(limit.saturating_add(1))
        .read_to_end(&mut bytes)
        .map_err(|error| io_error(path, "read", error))?;
    let size = bytes.len() as u64;
    if size > limit {
        Err(too_large(size))
    } else {
        Ok(Some(bytes))
    }
}

pub(crate) fn fetch(view: &View, path: &str, to: &Path) -> Result<u64, SandboxError> {
    let spot = view.walk(path, Last::Keep)?;
    let entry = spot.entry.ok_or_else(|| SandboxError::NoSuchPath {
        path: path.to_owned(),
    })?;
    let mut from = open_regular(&spot, entry, path)?;
    let mut copy =
        disk::create(to).map_err(|error| io_error(&to.display().to_string(), "write", error))?;
    io::copy(&mut from, &mut copy).map_err(|source| SandboxError::Io {
        what: format!("cannot copy `{path}` to `{}`", to.display()),
        source,
    })
}

/// Opens a file, having made sure before and after that it is a regular one.
fn open_regular(spot: &Spot, entry: Entry, path: &str) -> Result<disk::File, SandboxError> {
    let not_a_file = |kind: Kind| SandboxError::NotAFile {
        path: path.to_owned(),
        what: kind.words(),
    };
    if entry.kind != Kind::File {
        return Err(not_a_file(entry.kind));
    }
    let (folder, rest) = spot.open(path)?;
    let file = folder
        .open_file(rest)
        .map_err(|error| io_error(path, "open", error))?;
    let metadata = file
        .metadata()
        .map_err(|error| io_error(path, "look at", error))?;
    if metadata.is_file() {
        Ok(file)
    } else {
        Err(not_a_file(Kind::Device))
    }
}

pub(crate) fn list(view: &View, path: &str) -> Result<Vec<ListedFile>, SandboxError> {
    let spot = view.walk(path, Last::Follow)?;
    match spot.entry {
        None => {
            return Err(SandboxError::NoSuchPath {
                path: path.to_owned(),
            });
        }
        Some(Entry {
            kind: Kind::Folder, ..
        }) => {}
        Some(entry) => {
            return Err(SandboxError::NotAFolder {
                path: path.to_owned(),
                what: entry.kind.words(),
            });
        }
    }
    let (folder, rest) = spot.open(path)?;
    let failed = |error| io_error(path, "list", error);
    let top = folder.subfolder(rest).map_err(failed)?;
    let mut files = Vec::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(below) = folders.pop() {
        let here = match top.subfolder(&below) {
            Ok(here) => here,
            // Removed, or swapped for a link, since it was seen.
            Err(error) if is_gone(&error) => continue,
            Err(error) => return Err(failed(error)),
        };
        for name in here.names().map_err(failed)? {
            let entry = here.lookup(Path::new(&name)).map_err(failed)?;
            let found = below.join(&name);
            match entry {
                Some(Entry {
                    kind: Kind::Folder, ..
                }) => folders.push(found),
                Some(Entry {
                    kind: Kind::File,
                    size,
                    mode,
                }) => {
                    let path = found
                        .into_os_string()
                        .into_string()
                        .map_err(|name| not_utf8(path, &name))?;
                    files.push(ListedFile { path, size, mode });
                }
                _ => {}
            }
        }
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}

fn not_utf8(path: &str, name: &OsString) -> SandboxError {
    SandboxError::NotUtf8 {
        path: path.to_owned(),
        name: format!("{name:?}"),
    }
}

fn is_gone(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    ) || error.raw_os_error() == Some(LOOP)
}

/// ELOOP: there is a link where there must be none.
const LOOP: i32 = rustix::io::Errno::LOOP.raw_os_error();

pub(crate) fn write(view: &View, path: &str, bytes: &[u8], mode: u32) -> Result<(), SandboxError> {
    replace(view, path, mode, |file| file.write_all(bytes))
}

pub(crate) fn put(view: &View, files: &[Put]) -> Result<(), SandboxError> {
    if files.len() <= 2 {
        return files.iter().try_for_each(|file| put_one(view, file));
    }
    let next = AtomicUsize::new(0);
    let copy = || -> Result<(), SandboxError> {
        while let Some(file) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
            put_one(view, file)?;
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let copies: Vec<_> = (0..files.len().min(COPIES))
            .map(|_| scope.spawn(copy))
            .collect();
        copies
            .into_iter()
            .try_for_each(|copy| copy.join().expect("bug: a copying thread panicked"))
    })
}

fn put_one(view: &View, file: &Put) -> Result<(), SandboxError> {
    let from = file.from.display().to_string();
    let mut source = disk::open(&file.from).map_err(|error| io_error(&from, "open", error))?;
    replace(view, &file.to, file.mode, |copy| {
        io::copy(&mut source, copy).map(drop)
    })
}

/// Writes a file beside its place and renames it there: whoever reads sees the old file or the new one, and a link or a
/// hard link at the place is replaced, not written through.
fn replace(
    view: &View,
    path: &str,
    mode: u32,
    fill: impl FnOnce(&mut disk::File) -> io::Result<()>,
) -> Result<(), SandboxError> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let failed = |error| io_error(path, "write", error);
    let spot = view.walk(path, Last::Follow)?;
    let (base, rest) = spot.open_writable(path)?;
    if let Some(Entry {
        kind: Kind::Folder, ..
    }) = spot.entry
    {
        return Err(SandboxError::NotAFile {
            path: path.to_owned(),
            what: Kind::Folder.words(),
        });
    }
    let name = rest.file_name().expect("bug: a writable spot has a name");
    let folder: Folder = base
        .make_folders(rest.parent().unwrap_or(Path::new("")))
        .map_err(failed)?;
    let temp = OsString::from(format!(
        ".aebuild-{}-{}",
        std::process::id(),
        NEXT.fetch_add(1, Ordering::Relaxed)
    ));
    let mut file = folder.create_new(&temp, mode & 0o777).map_err(failed)?;
    let written = fill(&mut file).and_then(|()| folder.rename(&temp, name));
    if written.is_err() {
        // The file is of no use; that it could not be removed says nothing more than why it could not be written.
        let _ = folder.remove_file(&temp);
    }
    written.map_err(failed)
}
