//! The cache folder itself: who may use it, its format, its key and its lock.
//!
//! Knows nothing of blobs and records beyond the names of their folders.

use std::collections::HashSet;
use std::fs::{File, TryLockError};
use std::io;
use std::mem::Discriminant;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::disk::{self, Disk};
use crate::error::{Holder, Notice, OpenError, StoreError, is_full};
use crate::format::{MacKey, VERSION};
use crate::record::hex;

const TAG: &str = "Signature: 8a477f597d28d172789f06886806bc55\n# A cache of aebuild.\n";
const PARTS: [&str; 4] = ["trash", "records", "blobs", "uses"];
/// How long opening waits for somebody who cleans the cache.
const OPEN_WAIT: Duration = Duration::from_secs(5);

/// What may be done with the cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Access {
    /// Everything.
    Full,
    /// Reading only.
    ReadOnly,
    /// Nothing: a newer aebuild wrote it.
    Foreign(u32),
}

/// Whether a file must survive a power cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Sync {
    /// It must.
    Now,
    /// It is rebuilt where it is lost.
    Never,
}

/// An opened cache folder.
pub(crate) struct Home {
    pub(crate) dir: PathBuf,
    pub(crate) disk: Disk,
    pub(crate) access: Access,
    pub(crate) key: MacKey,
    lock: Option<File>,
    notices: Mutex<(HashSet<Discriminant<Notice>>, Vec<Notice>)>,
}

impl Home {
    pub(crate) fn open(dir: &Path, disk: Disk) -> Result<Home, OpenError> {
        // Without this a trailing slash would hide that the folder is a link.
        let dir: PathBuf = dir.components().collect();
        check(&dir, &disk)?;
        let io = |action, path: &Path| {
            let path = path.to_owned();
            move |source| OpenError::Io {
                action,
                path,
                source,
            }
        };
        let mut home = Home {
            access: Access::Full,
            key: MacKey([0; 32]),
            lock: None,
            notices: Mutex::default(),
            dir,
            disk,
        };
        if let Some(version) = home
            .newer_format()
            .map_err(io("read", &home.path("format")))?
        {
            home.access = Access::Foreign(version);
            home.notice(Notice::Foreign {
                path: home.dir.clone(),
                version,
            });
            return Ok(home);
        }
        let lock = home.path("lock");
        home.lock = match home.disk.open_append(&lock) {
            Ok((file, _)) => Some(file),
            Err(error) if is_refusal(&error) => {
                home.access = Access::ReadOnly;
                home.disk.open_read(&lock).ok().map(|(file, _)| file)
            }
            Err(error) if is_full(&error) => {
                home.access = Access::ReadOnly;
                None
            }
            Err(_) => {
                home.set_aside(&lock);
                Some(home.disk.open_append(&lock).map_err(io("open", &lock))?.0)
            }
        };
        if let Err(holders) = home.share(OPEN_WAIT) {
            return Err(OpenError::Busy {
                path: home.dir,
                holders,
            });
        }
        if home.access == Access::Full
            && let Err(error) = home.furnish()
        {
            if !is_refusal(&error) && !is_full(&error) {
                return Err(io("prepare", &home.dir)(error));
            }
            home.access = Access::ReadOnly;
        }
        if home.access == Access::ReadOnly {
            home.notice(Notice::ReadOnly {
                path: home.dir.clone(),
            });
            if let Ok(Some(key)) = home.read_key() {
                home.key = key;
            }
        }
        if let Ok(space) = home.disk.space(&home.dir)
            && let Some(kind) = network_kind(space.magic)
        {
            home.notice(Notice::NetworkFileSystem {
                path: home.dir.clone(),
                kind,
            });
        }
        Ok(home)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// Remembers a notice, unless one of its kind was given before.
    pub(crate) fn notice(&self, notice: Notice) {
        let mut notices = self.notices.lock().expect("no holder panics");
        if notices.0.insert(std::mem::discriminant(&notice)) {
            notices.1.push(notice);
        }
    }

    pub(crate) fn drain_notices(&self) -> Vec<Notice> {
        std::mem::take(&mut self.notices.lock().expect("no holder panics").1)
    }

    /// Refuses where nothing may be written.
    pub(crate) fn writable(&self) -> Result<(), StoreError> {
        let path = || self.dir.clone();
        match self.access {
            Access::Full => Ok(()),
            Access::ReadOnly => Err(StoreError::ReadOnly { path: path() }),
            Access::Foreign(version) => Err(StoreError::Foreign {
                path: path(),
                version,
            }),
        }
    }

    /// Moves something that should not be there into the trash; on a read-only cache nothing.
    pub(crate) fn set_aside(&self, path: &Path) {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let name = name.get(..40).unwrap_or(&name);
        let target = self
            .path("trash")
            .join(format!("bad-{:016x}-{name}", disk::random_id()));
        if self.disk.rename(path, &target).is_err() {
            let _ = self.disk.make_folder(&self.path("trash"), 0o700);
            let _ = self.disk.rename(path, &target);
        }
    }

    /// Sets something damaged aside and says so once.
    pub(crate) fn set_damaged_aside(&self, path: &Path) {
        self.notice(Notice::Damaged {
            path: path.to_owned(),
        });
        if self.access == Access::Full {
            self.set_aside(path);
        }
    }

    /// Takes the lock for a run, shared with other runs.
    pub(crate) fn share(&self, wait: Duration) -> Result<(), Vec<Holder>> {
        self.take(wait, File::try_lock_shared)
    }

    /// Takes the lock for upkeep, which nobody else may hold.
    pub(crate) fn seize(&self, wait: Duration) -> Result<(), Vec<Holder>> {
        self.take(wait, File::try_lock)
    }

    fn take(
        &self,
        wait: Duration,
        attempt: impl Fn(&File) -> Result<(), TryLockError>,
    ) -> Result<(), Vec<Holder>> {
        let Some(lock) = &self.lock else {
            return Ok(());
        };
        let begin = Instant::now();
        loop {
            match attempt(lock) {
                Ok(()) => return Ok(()),
                // A file system without locks: they are advisory at best there.
                Err(TryLockError::Error(_)) => return Ok(()),
                Err(TryLockError::WouldBlock) if begin.elapsed() >= wait => {
                    return Err(self.holders(lock));
                }
                Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(5)),
            }
        }
    }

    /// Finds who holds the lock, as far as the kernel tells.
    fn holders(&self, lock: &File) -> Vec<Holder> {
        let Ok(metadata) = lock.metadata() else {
            return Vec::new();
        };
        let inode = format!(":{}", metadata.ino());
        // Numbers of inodes are only unique on one device, and some file systems show another device there.
        let device = metadata.dev();
        let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
        let whole = format!("{major:02x}:{minor:02x}{inode}");
        let table = self.disk.read_proc("/proc/locks");
        let is_whole = table.split_whitespace().any(|word| word == whole);
        let mut pids: Vec<u32> = Vec::new();
        for line in table.lines() {
            let words: Vec<&str> = line
                .split_whitespace()
                .filter(|word| *word != "->")
                .collect();
            if let [_, "FLOCK", _, _, pid, file, ..] = words[..]
                && (file == whole || (!is_whole && file.ends_with(&inode)))
                && let Ok(pid) = pid.parse()
                && !pids.contains(&pid)
            {
                pids.push(pid);
            }
        }
        let own = std::process::id();
        if pids.len() > 1 {
            pids.retain(|pid| *pid != own);
        }
        pids.into_iter()
            .map(|pid| Holder {
                pid,
                command: self
                    .disk
                    .read_proc(&format!("/proc/{pid}/comm"))
                    .trim()
                    .to_owned(),
            })
            .collect()
    }

    /// Reads a small file of the cache folder; nothing, if it is missing or is not what belongs there.
    ///
    /// Any other fault is an error, since a file that cannot be read just now must not be replaced.
    fn read_own(&self, name: &str, limit: u64) -> io::Result<Option<Vec<u8>>> {
        use io::ErrorKind::{InvalidData, InvalidInput, IsADirectory, NotFound};
        match self.disk.read_small(&self.path(name), limit) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) => match (error.kind(), error.raw_os_error()) {
                (NotFound | InvalidData | InvalidInput | IsADirectory, _) => Ok(None),
                // A link, and a FIFO or a socket.
                (_, Some(40 | 6)) => Ok(None),
                _ => Err(error),
            },
        }
    }

    /// Returns the version of a format that is newer than ours.
    fn newer_format(&self) -> io::Result<Option<u32>> {
        let Some(text) = self.read_own("format", 64)? else {
            return Ok(None);
        };
        let Ok(text) = String::from_utf8(text) else {
            return Ok(None);
        };
        let version = text
            .split(' ')
            .nth(1)
            .and_then(|version| version.parse().ok());
        // A damaged bit must not make the cache foreign for ever.
        Ok(version.filter(|version| *version > VERSION && text == format_line(*version)))
    }

    /// Creates what is missing.
    fn furnish(&mut self) -> io::Result<()> {
        for part in PARTS {
            let path = self.path(part);
            if self.disk.make_folder(&path, 0o700).is_err() {
                if self
                    .disk
                    .stat(&path)
                    .is_ok_and(|metadata| !metadata.is_dir())
                {
                    if part == "trash" {
                        self.disk.remove_file(&path)?;
                    } else {
                        self.set_damaged_aside(&path);
                    }
                }
                self.disk.make_folder(&path, 0o700)?;
            }
        }
        self.key = match self.read_key()? {
            Some(key) => key,
            None => self.make_key()?,
        };
        let format = format_line(VERSION);
        if self
            .read_own("format", 64)?
            .is_some_and(|current| current == format.as_bytes())
        {
            return Ok(());
        }
        self.put_in_place("CACHEDIR.TAG", TAG.as_bytes(), Sync::Never)?;
        self.put_in_place("format", format.as_bytes(), Sync::Now)
    }

    fn read_key(&self) -> io::Result<Option<MacKey>> {
        let bytes = self.read_own("mac.key", 32)?;
        Ok(bytes.and_then(|bytes| Some(MacKey(bytes.try_into().ok()?))))
    }

    /// Makes the key; where two do so at once, both use the one that was linked first.
    fn make_key(&self) -> io::Result<MacKey> {
        let path = self.path("mac.key");
        if self.disk.stat(&path).is_ok() {
            self.set_damaged_aside(&path);
        }
        let draft = self.draft(&disk::random::<32>(), Sync::Now)?;
        let linked = self.disk.hard_link(&draft, &path);
        self.disk.remove_file(&draft)?;
        match linked {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => self.disk.sync_folder(&self.dir)?,
        }
        self.read_key()?
            .ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// Writes a small file of the cache folder by rename.
    pub(crate) fn put_in_place(&self, name: &str, bytes: &[u8], sync: Sync) -> io::Result<()> {
        let path = self.path(name);
        let draft = self.draft(bytes, sync)?;
        if self
            .disk
            .stat(&path)
            .is_ok_and(|metadata| metadata.is_dir())
        {
            self.set_damaged_aside(&path);
        }
        self.disk.rename(&draft, &path).inspect_err(|_| {
            let _ = self.disk.remove_file(&draft);
        })
    }

    /// Writes a file with a name of its own.
    fn draft(&self, bytes: &[u8], sync: Sync) -> io::Result<PathBuf> {
        let draft = self.path(&format!("tmp-{}", hex(&disk::random::<8>())));
        let file = self.disk.create_new(&draft, 0o600)?;
        let written = self
            .disk
            .write_at(&file, bytes, 0)
            .and_then(|()| match sync {
                Sync::Now => self.disk.sync(&file),
                Sync::Never => Ok(()),
            });
        written.inspect_err(|_| {
            let _ = self.disk.remove_file(&draft);
        })?;
        Ok(draft)
    }
}

/// Returns the text of the format file; every version, also a later one, keeps to this form.
fn format_line(version: u32) -> String {
    let line = format!("aebuild-cache {version}");
    let check = blake3::hash(line.as_bytes());
    format!("{line} {}\n", hex(&check.as_bytes()[..4]))
}

/// Makes the folder if it is missing, and refuses one that is not safe to use.
fn check(dir: &Path, disk: &Disk) -> Result<(), OpenError> {
    let path = || dir.to_owned();
    let io = |action| {
        move |source| OpenError::Io {
            action,
            path: dir.to_owned(),
            source,
        }
    };
    let metadata = match disk.stat(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            disk.make_folders(dir, 0o700).map_err(io("create"))?;
            disk.stat(dir).map_err(io("look at"))?
        }
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
            return Err(OpenError::NotAFolder { path: path() });
        }
        done => done.map_err(io("look at"))?,
    };
    if metadata.is_symlink() {
        return Err(OpenError::Symlink { path: path() });
    }
    if !metadata.is_dir() {
        return Err(OpenError::NotAFolder { path: path() });
    }
    let real = disk.canonical(dir).map_err(io("look at"))?;
    let user_home = std::env::var_os("HOME").and_then(|home| disk.canonical(home.as_ref()).ok());
    if real.parent().is_none() || user_home.is_some_and(|home| home == real) {
        return Err(OpenError::TooWide { path: path() });
    }
    let (owner, mode) = (metadata.uid(), metadata.mode() & 0o7777);
    let user = rustix::process::geteuid().as_raw();
    if owner != user {
        return Err(OpenError::ForeignOwner {
            path: path(),
            owner,
            mode,
            user,
        });
    }
    if mode & 0o002 != 0 {
        return Err(OpenError::WorldWritable {
            path: path(),
            owner,
            mode,
        });
    }
    if disk.stat(&dir.join("format")).is_err() {
        let listed = disk.list(dir).map_err(io("list"))?;
        let is_ours = |name: &std::ffi::OsString| {
            name.to_str().is_some_and(|name| {
                PARTS.contains(&name)
                    || ["lock", "mac.key", "index", "marks", "CACHEDIR.TAG"].contains(&name)
                    || name.starts_with("tmp-")
            })
        };
        if !listed.is_empty() && !listed.iter().any(|listed| is_ours(&listed.name)) {
            return Err(OpenError::NotACache { path: path() });
        }
    }
    if mode & 0o077 != 0 {
        let _ = disk.chmod(dir, 0o700);
    }
    Ok(())
}

fn is_refusal(error: &io::Error) -> bool {
    use io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem};
    matches!(error.kind(), PermissionDenied | ReadOnlyFilesystem)
}

fn network_kind(magic: u64) -> Option<&'static str> {
    Some(match magic {
        0x6969 => "NFS",
        0x517b | 0xff53_4d42 | 0xfe53_4d42 => "SMB",
        0x6573_5546 => "FUSE",
        0x0102_1997 => "9p",
        0x00c3_6400 => "Ceph",
        0x0bd0_0bd0 => "Lustre",
        0x5346_414f => "AFS",
        _ => return None,
    })
}
