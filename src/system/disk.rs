//! Files: the only place that calls the system's file functions.
//!
//! Most of it is a name for one function of the standard library. [`Folder`] is for trees that somebody else may be
//! changing meanwhile: everything is looked up below an open folder, and no link is ever followed.

#![expect(
    clippy::disallowed_methods,
    reason = "this is the door that all others go through"
)]

use std::ffi::{OsStr, OsString};
use std::fs::{self, Metadata};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags};

pub use std::fs::File;

/// Returns the content of a file.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    fs::read(path)
}

/// Returns the content of a file as text.
pub fn read_to_string(path: &Path) -> io::Result<String> {
    fs::read_to_string(path)
}

/// Writes a file, replacing what was in it.
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    fs::write(path, bytes)
}

/// Replaces the content of a file that is there at once: whoever reads it sees the old content or the new one.
///
/// Its permission bits stay; what was linked to the same inode keeps the old content.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mode = fs::metadata(path)?.permissions();
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let beside = path.with_file_name(format!(".{name}.{}.new", std::process::id()));
    let written = fs::write(&beside, bytes)
        .and_then(|()| fs::set_permissions(&beside, mode))
        .and_then(|()| File::open(&beside)?.sync_all())
        .and_then(|()| fs::rename(&beside, path));
    if written.is_err() {
        // What could not be put in place is of no use to anybody.
        let _ = fs::remove_file(&beside);
    }
    written
}

/// Opens a file for reading.
pub fn open(path: &Path) -> io::Result<File> {
    File::open(path)
}

/// Opens a file for writing, empty; made when missing.
pub fn create(path: &Path) -> io::Result<File> {
    File::create(path)
}

/// Opens a file for reading and writing, made when missing and otherwise left as it is.
pub fn open_or_create(path: &Path) -> io::Result<File> {
    File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)
}

/// Makes a folder that must not exist yet.
pub fn create_dir(path: &Path) -> io::Result<()> {
    fs::create_dir(path)
}

/// Makes a folder that only its owner may enter; it must not exist yet.
pub fn create_private_dir(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new().mode(0o700).create(path)
}

/// Makes a folder and those above it.
pub fn create_dir_all(path: &Path) -> io::Result<()> {
    fs::create_dir_all(path)
}

/// Removes a folder, which must be empty.
pub fn remove_dir(path: &Path) -> io::Result<()> {
    fs::remove_dir(path)
}

/// Removes a folder and all in it; what was removed meanwhile by another counts as removed.
///
/// Folders that their owner locked (mode 0) are unlocked first.
pub fn remove_dir_all(path: &Path) -> io::Result<()> {
    for unlocked in [false, true] {
        match fs::remove_dir_all(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied && !unlocked => {
                unlock_folders(path)
            }
            result => return result,
        }
    }
    Ok(())
}

/// Gives the owner all rights on every folder of a tree, as far as possible.
fn unlock_folders(path: &Path) {
    let is_folder = fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_dir());
    if is_folder && set_mode(path, 0o700).is_ok() {
        for name in read_dir(path).unwrap_or_default() {
            unlock_folders(&path.join(name));
        }
    }
}

/// Removes a file.
pub fn remove_file(path: &Path) -> io::Result<()> {
    fs::remove_file(path)
}

/// Copies a file with its permission bits and returns its length.
pub fn copy(from: &Path, to: &Path) -> io::Result<u64> {
    fs::copy(from, to)
}

/// Renames a file or folder.
pub fn rename(from: &Path, to: &Path) -> io::Result<()> {
    fs::rename(from, to)
}

/// Returns what is at a path, following links.
pub fn metadata(path: &Path) -> io::Result<Metadata> {
    fs::metadata(path)
}

/// Returns what is at a path, a link being a link.
pub fn symlink_metadata(path: &Path) -> io::Result<Metadata> {
    fs::symlink_metadata(path)
}

/// Tells whether something is at a path, a broken link included.
pub fn exists(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}

/// Returns where a link points.
pub fn read_link(path: &Path) -> io::Result<PathBuf> {
    fs::read_link(path)
}

/// Makes a link.
pub fn symlink(target: &Path, link: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(target, link)
}

/// Returns the absolute path without links.
pub fn canonicalize(path: &Path) -> io::Result<PathBuf> {
    fs::canonicalize(path)
}

/// Returns the names in a folder, sorted.
pub fn read_dir(path: &Path) -> io::Result<Vec<OsString>> {
    let mut names = fs::read_dir(path)?
        .map(|entry| entry.map(|entry| entry.file_name()))
        .collect::<io::Result<Vec<_>>>()?;
    names.sort();
    Ok(names)
}

/// Sets the permission bits of what is at a path.
pub fn set_mode(path: &Path, mode: u32) -> io::Result<()> {
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
}

/// Sets which permission bits new files of this process and its children lack.
pub fn set_umask(mask: u32) {
    rustix::process::umask(Mode::from_raw_mode(mask));
}

/// What kind of thing an entry of a folder is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File,
    /// A folder.
    Folder,
    /// A symbolic link.
    Link,
    /// A named pipe.
    Pipe,
    /// A socket.
    Socket,
    /// A device, or something the system did not name.
    Device,
}

impl Kind {
    fn of(kind: FileType) -> Self {
        match kind {
            FileType::RegularFile => Kind::File,
            FileType::Directory => Kind::Folder,
            FileType::Symlink => Kind::Link,
            FileType::Fifo => Kind::Pipe,
            FileType::Socket => Kind::Socket,
            _ => Kind::Device,
        }
    }

    /// Returns the kind with its article.
    pub fn words(self) -> &'static str {
        match self {
            Kind::File => "a file",
            Kind::Folder => "a folder",
            Kind::Link => "a symbolic link",
            Kind::Pipe => "a named pipe",
            Kind::Socket => "a socket",
            Kind::Device => "a device",
        }
    }
}

/// What [`Folder::lookup`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its kind.
    pub kind: Kind,
    /// Its length in bytes.
    pub size: u64,
    /// Its permission bits.
    pub mode: u32,
}

/// A folder held open, below which paths are looked up without following a link.
#[derive(Debug)]
pub struct Folder {
    fd: OwnedFd,
}

impl Folder {
    /// Opens a folder of the host.
    pub fn open(path: &Path) -> io::Result<Self> {
        let fd = rustix::fs::open(
            path,
            OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
            Mode::empty(),
        )?;
        Ok(Self { fd })
    }

    fn open_below(&self, path: &Path, flags: OFlags, mode: Mode) -> io::Result<OwnedFd> {
        let path = if path.as_os_str().is_empty() {
            Path::new(".")
        } else {
            path
        };
        let resolve =
            ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        loop {
            match rustix::fs::openat2(
                self.fd.as_fd(),
                path,
                flags | OFlags::CLOEXEC,
                mode,
                resolve,
            ) {
                // EAGAIN: something was renamed during the look-up, so the kernel could not tell; ask again.
                Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => {}
                result => return Ok(result?),
            }
        }
    }

    /// Returns what is at a path below the folder; a link at its end is a link, one in its middle is an error.
    pub fn lookup(&self, path: &Path) -> io::Result<Option<Entry>> {
        let fd = match self.open_below(path, OFlags::PATH | OFlags::NOFOLLOW, Mode::empty()) {
            Ok(fd) => fd,
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
                ) =>
            {
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        let stat = rustix::fs::fstat(&fd)?;
        let size = u64::try_from(stat.st_size).unwrap_or(0);
        Ok(Some(Entry {
            kind: Kind::of(FileType::from_raw_mode(stat.st_mode)),
            size,
            mode: stat.st_mode & 0o7777,
        }))
    }

    /// Returns where the link at a path points.
    pub fn read_link(&self, path: &Path) -> io::Result<PathBuf> {
        let fd = self.open_below(path, OFlags::PATH | OFlags::NOFOLLOW, Mode::empty())?;
        let target = rustix::fs::readlinkat(&fd, "", Vec::new())?;
        Ok(PathBuf::from(OsString::from_vec(target.into_bytes())))
    }

    /// Opens the file at a path for reading; never waits, not even for the writer of a pipe.
    pub fn open_file(&self, path: &Path) -> io::Result<File> {
        Ok(File::from(self.open_below(
            path,
            OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY,
            Mode::empty(),
        )?))
    }

    /// Opens the folder at a path.
    pub fn subfolder(&self, path: &Path) -> io::Result<Folder> {
        let fd = self.open_below(
            path,
            OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW,
            Mode::empty(),
        )?;
        Ok(Folder { fd })
    }

    /// Opens the folder at a path, making it and those above it.
    pub fn make_folders(&self, path: &Path) -> io::Result<Folder> {
        let mut folder = self.subfolder(Path::new(""))?;
        for name in path.components() {
            let name = Path::new(name.as_os_str());
            folder = match folder.subfolder(name) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    match rustix::fs::mkdirat(&folder.fd, name, Mode::from_raw_mode(0o755)) {
                        Ok(()) | Err(rustix::io::Errno::EXIST) => {}
                        Err(error) => return Err(error.into()),
                    }
                    folder.subfolder(name)?
                }
                result => result?,
            };
        }
        Ok(folder)
    }

    /// Makes a file that must not exist yet.
    pub fn create_new(&self, name: &OsStr, mode: u32) -> io::Result<File> {
        let mode = Mode::from_raw_mode(mode);
        let fd = self.open_below(
            Path::new(name),
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW,
            mode,
        )?;
        rustix::fs::fchmod(&fd, mode)?;
        Ok(File::from(fd))
    }

    /// Renames an entry within the folder, replacing a file of that name.
    pub fn rename(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        Ok(rustix::fs::renameat(&self.fd, from, &self.fd, to)?)
    }

    /// Removes a file of the folder.
    pub fn remove_file(&self, name: &OsStr) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.fd, name, AtFlags::empty())?)
    }

    /// Returns the names in the folder, sorted.
    pub fn names(&self) -> io::Result<Vec<OsString>> {
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.fd)? {
            let name = entry?.file_name().to_bytes().to_vec();
            if name != b"." && name != b".." {
                names.push(OsString::from_vec(name));
            }
        }
        names.sort();
        Ok(names)
    }
}

/// Returns the folders in which this process looks for programs.
pub fn search_path() -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).collect()
}
