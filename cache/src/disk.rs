//! The only door to the file system.
//!
//! Every open, read, write, sync, rename and removal of this crate passes through [`Disk`], so a
//! test can make the n-th of them fail. Nothing here knows what the bytes mean. No method follows a
//! symbolic link in the last part of a path, and none blocks on a FIFO.

#![expect(
    clippy::disallowed_methods,
    reason = "this module is the door that the ban leads to"
)]

pub mod fault;

use std::fs::{DirBuilder, File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use fault::{Faults, Op};
use rustix::fs::OFlags;

/// The most bytes that one write passes to the kernel.
pub(crate) const CHUNK: usize = 1 << 20;

/// The file system, or the file system with faults.
#[derive(Clone, Default)]
pub(crate) struct Disk {
    faults: Option<Arc<Faults>>,
}

/// What kind of thing a folder entry is, without following links.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// A regular file.
    File,
    /// A folder.
    Folder,
    /// A symbolic link.
    Link,
    /// A FIFO, a socket or a device.
    Special,
}

/// One entry of a folder.
pub(crate) struct Listed {
    /// Name within the folder.
    pub(crate) name: std::ffi::OsString,
    /// Kind as the folder tells it.
    pub(crate) kind: Kind,
}

impl Disk {
    pub(crate) fn with_faults(faults: Arc<Faults>) -> Disk {
        Disk {
            faults: Some(faults),
        }
    }

    /// Gives the injected error of this operation, if a test asked for one.
    pub(crate) fn point(&self, op: Op) -> io::Result<()> {
        match &self.faults {
            Some(faults) => faults.hit(op),
            None => Ok(()),
        }
    }

    pub(crate) fn stat(&self, path: &Path) -> io::Result<Metadata> {
        std::fs::symlink_metadata(path)
    }

    /// Opens a regular file for reading; anything else is an error, at once.
    pub(crate) fn open_read(&self, path: &Path) -> io::Result<(File, Metadata)> {
        self.point(Op::Read)?;
        regular(
            OpenOptions::new()
                .read(true)
                .custom_flags(guard())
                .open(path)?,
        )
    }

    /// Opens an existing regular file for reading and writing.
    pub(crate) fn open_write(&self, path: &Path) -> io::Result<(File, Metadata)> {
        self.point(Op::Create)?;
        regular(
            OpenOptions::new()
                .read(true)
                .write(true)
                .custom_flags(guard())
                .open(path)?,
        )
    }

    /// Opens or creates a regular file for appending.
    pub(crate) fn open_append(&self, path: &Path) -> io::Result<(File, Metadata)> {
        self.point(Op::Create)?;
        let mut options = OpenOptions::new();
        options
            .append(true)
            .create(true)
            .mode(0o600)
            .custom_flags(guard());
        regular(options.open(path)?)
    }

    /// Creates a file that must not exist.
    pub(crate) fn create_new(&self, path: &Path, mode: u32) -> io::Result<File> {
        self.point(Op::Create)?;
        let mut options = OpenOptions::new();
        options
            .read(true)
            .write(true)
            .create_new(true)
            .mode(mode)
            .custom_flags(guard());
        options.open(path)
    }

    /// Reads the whole of a regular file that holds at most `limit` bytes.
    pub(crate) fn read_small(&self, path: &Path, limit: u64) -> io::Result<Vec<u8>> {
        let (file, metadata) = self.open_read(path)?;
        if metadata.len() > limit {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "larger than expected",
            ));
        }
        let mut bytes = vec![0; metadata.len() as usize];
        file.read_exact_at(&mut bytes, 0)?;
        Ok(bytes)
    }

    /// Returns the text of a file of the kernel, or nothing.
    pub(crate) fn read_proc(&self, path: &str) -> String {
        std::fs::read_to_string(path).unwrap_or_default()
    }

    pub(crate) fn read_exact_at(&self, file: &File, into: &mut [u8], at: u64) -> io::Result<()> {
        file.read_exact_at(into, at)
    }

    /// Reads at most `into.len()` bytes; 0 is the end.
    pub(crate) fn read_at(&self, file: &File, into: &mut [u8], at: u64) -> io::Result<usize> {
        loop {
            match file.read_at(into, at) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                done => return done,
            }
        }
    }

    /// Writes all bytes at `at`, however short each write is.
    pub(crate) fn write_at(&self, file: &File, mut bytes: &[u8], mut at: u64) -> io::Result<()> {
        while !bytes.is_empty() {
            self.point(Op::Write)?;
            let mut len = bytes.len().min(CHUNK);
            if self
                .faults
                .as_ref()
                .is_some_and(|faults| faults.are_writes_short())
            {
                len = len.div_ceil(2);
            }
            match file.write_at(&bytes[..len], at) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => {
                    bytes = &bytes[n..];
                    at += n as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Appends one short piece in one write, so that writers do not mix.
    pub(crate) fn append(&self, mut file: &File, bytes: &[u8]) -> io::Result<()> {
        self.point(Op::Write)?;
        io::Write::write_all(&mut file, bytes)
    }

    pub(crate) fn sync(&self, file: &File) -> io::Result<()> {
        self.point(Op::Sync)?;
        file.sync_data()
    }

    /// Makes the names in a folder durable.
    pub(crate) fn sync_folder(&self, path: &Path) -> io::Result<()> {
        self.point(Op::Sync)?;
        File::open(path)?.sync_all()
    }

    /// Makes everything on the file system of `path` durable.
    pub(crate) fn sync_all(&self, path: &Path) -> io::Result<()> {
        self.point(Op::Sync)?;
        Ok(rustix::fs::syncfs(File::open(path)?)?)
    }

    pub(crate) fn set_len(&self, file: &File, len: u64) -> io::Result<()> {
        self.point(Op::Write)?;
        file.set_len(len)
    }

    pub(crate) fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.point(Op::Rename)?;
        std::fs::rename(from, to)
    }

    pub(crate) fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.point(Op::Rename)?;
        std::fs::hard_link(from, to)
    }

    pub(crate) fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.point(Op::Remove)?;
        std::fs::remove_file(path)
    }

    /// Removes whatever is at `path`; links are removed, not followed.
    pub(crate) fn remove_any(&self, path: &Path) -> io::Result<()> {
        self.point(Op::Remove)?;
        match std::fs::symlink_metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
            Ok(metadata) if metadata.is_dir() => std::fs::remove_dir_all(path).or_else(|_| {
                unlock_folders(path);
                std::fs::remove_dir_all(path)
            }),
            Ok(_) => std::fs::remove_file(path),
        }
    }

    /// Creates a folder; one that exists already is fine.
    pub(crate) fn make_folder(&self, path: &Path, mode: u32) -> io::Result<()> {
        self.point(Op::Create)?;
        match DirBuilder::new().mode(mode).create(path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                if std::fs::symlink_metadata(path)?.is_dir() {
                    Ok(())
                } else {
                    Err(error)
                }
            }
            done => done,
        }
    }

    /// Creates a folder and its parents.
    pub(crate) fn make_folders(&self, path: &Path, mode: u32) -> io::Result<()> {
        self.point(Op::Create)?;
        DirBuilder::new().mode(mode).recursive(true).create(path)
    }

    pub(crate) fn list(&self, path: &Path) -> io::Result<Vec<Listed>> {
        self.point(Op::Read)?;
        let mut listed = Vec::new();
        for entry in std::fs::read_dir(path)? {
            let entry = entry?;
            let kind = entry.file_type()?;
            let kind = if kind.is_file() {
                Kind::File
            } else if kind.is_dir() {
                Kind::Folder
            } else if kind.is_symlink() {
                Kind::Link
            } else {
                Kind::Special
            };
            listed.push(Listed {
                name: entry.file_name(),
                kind,
            });
        }
        Ok(listed)
    }

    pub(crate) fn read_link(&self, path: &Path) -> io::Result<PathBuf> {
        std::fs::read_link(path)
    }

    pub(crate) fn make_link(&self, target: &Path, path: &Path) -> io::Result<()> {
        self.point(Op::Create)?;
        std::os::unix::fs::symlink(target, path)
    }

    pub(crate) fn canonical(&self, path: &Path) -> io::Result<PathBuf> {
        std::fs::canonicalize(path)
    }

    pub(crate) fn chmod(&self, path: &Path, mode: u32) -> io::Result<()> {
        std::fs::set_permissions(path, PermissionsExt::from_mode(mode))
    }

    pub(crate) fn chmod_file(&self, file: &File, mode: u32) -> io::Result<()> {
        file.set_permissions(PermissionsExt::from_mode(mode))
    }

    /// Sets the modification time to now.
    pub(crate) fn touch(&self, path: &Path) -> io::Result<()> {
        let (file, _) = self.open_read(path)?;
        file.set_modified(SystemTime::now())
    }

    /// Shares the blocks of `from` with the empty file `to`, where the file system can.
    pub(crate) fn clone_file(&self, to: &File, from: &File) -> io::Result<()> {
        self.point(Op::Write)?;
        Ok(rustix::fs::ioctl_ficlone(to, from)?)
    }

    /// Returns free bytes for this user, all bytes, and the magic number of the file system.
    pub(crate) fn space(&self, path: &Path) -> io::Result<Space> {
        if let Some(space) = self.faults.as_ref().and_then(|faults| faults.space()) {
            return Ok(space);
        }
        let space = rustix::fs::statfs(path)?;
        let block = space.f_bsize as u64;
        Ok(Space {
            free: space.f_bavail * block,
            total: space.f_blocks * block,
            magic: space.f_type as u64,
        })
    }
}

/// What the file system says about itself.
#[derive(Clone, Copy, Debug)]
pub struct Space {
    /// Bytes that this user may still write.
    pub free: u64,
    /// Bytes in all.
    pub total: u64,
    /// Magic number of the kind of file system.
    pub magic: u64,
}

/// Returns the modification time in milliseconds since 1970.
pub(crate) fn modified_ms(metadata: &Metadata) -> u64 {
    (metadata.mtime().max(0) as u64) * 1000 + metadata.mtime_nsec() as u64 / 1_000_000
}

/// Returns 8 random bytes as a number, for names.
pub(crate) fn random_id() -> u64 {
    u64::from_le_bytes(random())
}

/// Returns random bytes from the kernel.
pub(crate) fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    let mut filled = 0;
    while filled < N {
        let flags = rustix::rand::GetRandomFlags::empty();
        match rustix::rand::getrandom(&mut bytes[filled..], flags) {
            Ok(n) => filled += n,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => panic!("bug: the kernel gives no random bytes: {error}"),
        }
    }
    bytes
}

fn guard() -> i32 {
    (OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC).bits() as i32
}

fn regular(file: File) -> io::Result<(File, Metadata)> {
    let metadata = file.metadata()?;
    if metadata.is_file() {
        Ok((file, metadata))
    } else {
        Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "not a regular file",
        ))
    }
}

/// Gives the owner its rights back on a folder and all folders in it, so that it can be removed.
fn unlock_folders(path: &Path) {
    let _ = std::fs::set_permissions(path, PermissionsExt::from_mode(0o700));
    for entry in std::fs::read_dir(path).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            unlock_folders(&entry.path());
        }
    }
}
