//! Blobs by their sha256.
//!
//! `cacache` writes them; reading is done here, so that nothing but a regular file of the right size
//! is opened and no byte is handed out before all of them were checked. A blob that is not what its
//! name says is moved away, so that the next put stores it again.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};

use sha2::{Digest, Sha256};

use crate::disk::fault::Op;
use crate::disk::{self, CHUNK, Disk};
use crate::error::StoreError;
use crate::home::Home;
use crate::record::{BlobId, BlobRef, hex};

/// Files of this size and above are cloned where the file system can.
const WORTH_A_CLONE: u64 = 64 << 10;
/// A blob that others stored less long ago than this may not be durable yet.
const SETTLED_MS: u64 = 60_000;
/// Bytes of this number and above are hashed by another thread while they are written or read.
const WORTH_A_THREAD: usize = 4 << 20;
/// The most bytes of a blob that are read into memory.
const MAX_IN_MEMORY: u64 = 4 << 30;

/// The folder of blobs.
pub(crate) struct Blobs {
    home: Arc<Home>,
    root: PathBuf,
    written: Mutex<Written>,
}

/// What this process stored.
#[derive(Default)]
struct Written {
    /// Every blob that was put, so that gc leaves it alone.
    known: HashSet<BlobId>,
    /// Files whose bytes may not be durable yet.
    unsynced: Vec<PathBuf>,
    folders: HashSet<[u8; 2]>,
    /// Blobs and bytes that were added and are in no estimate yet.
    added: (u64, u64),
}

/// What lies at the path of a blob.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Presence {
    /// A regular file of the right size.
    Present {
        /// When it was stored or last put again.
        modified_ms: u64,
    },
    /// Nothing.
    Absent,
    /// Something else.
    Wrong,
}

impl Blobs {
    pub(crate) fn new(home: Arc<Home>) -> Blobs {
        Blobs {
            root: home.path("blobs"),
            home,
            written: Mutex::default(),
        }
    }

    fn disk(&self) -> &Disk {
        &self.home.disk
    }

    /// Returns the folder in which blobs lie by the first digits of their ids.
    pub(crate) fn content(&self) -> PathBuf {
        self.root.join("content-v2").join("sha256")
    }

    /// Returns the folder in which blobs are written before they have their name.
    pub(crate) fn drafts(&self) -> PathBuf {
        self.root.join("tmp")
    }

    pub(crate) fn path(&self, id: &BlobId) -> PathBuf {
        let digits = hex(id.as_bytes());
        let mut path = PathBuf::with_capacity(self.root.as_os_str().len() + 96);
        path.push(&self.root);
        path.push("content-v2");
        path.push("sha256");
        path.push(&digits[..2]);
        path.push(&digits[2..4]);
        path.push(&digits[4..]);
        path
    }

    pub(crate) fn presence(&self, blob: &BlobRef) -> Presence {
        match self.disk().stat(&self.path(&blob.id)) {
            Ok(metadata) if metadata.is_file() && metadata.len() == blob.size => {
                Presence::Present {
                    modified_ms: disk::modified_ms(&metadata),
                }
            }
            Ok(_) => Presence::Wrong,
            Err(_) => Presence::Absent,
        }
    }

    /// Tells whether this process put the blob.
    pub(crate) fn is_known(&self, id: &BlobId) -> bool {
        self.written
            .lock()
            .expect("no holder panics")
            .known
            .contains(id)
    }

    /// Takes how many blobs and bytes were added since this was last asked.
    pub(crate) fn take_added(&self) -> (u64, u64) {
        std::mem::take(&mut self.written.lock().expect("no holder panics").added)
    }

    /// Takes the files whose bytes may not be durable yet.
    pub(crate) fn take_unsynced(&self) -> Vec<PathBuf> {
        std::mem::take(&mut self.written.lock().expect("no holder panics").unsynced)
    }

    pub(crate) fn put(&self, bytes: &[u8], now_ms: u64) -> Result<BlobRef, StoreError> {
        if bytes.len() < WORTH_A_THREAD {
            let blob = BlobRef::of(bytes);
            self.put_known(&blob, now_ms, |writer| writer.write_all(bytes))?;
            return Ok(blob);
        }
        let io = |source| StoreError::io("write", &self.drafts(), source);
        self.make_drafts();
        let (draft, file) = self.draft().map_err(io)?;
        let (blob, written) = std::thread::scope(|scope| {
            let hashing = scope.spawn(|| BlobRef::of(bytes));
            let written = self.disk().write_at(&file, bytes, 0);
            (hashing.join().expect("bug: hashing failed"), written)
        });
        let put = self.put_with(&blob, now_ms, |path| {
            let named = written.and_then(|()| self.disk().rename(&draft, path));
            named.map_err(|error| cacache::Error::IoError(error, path.display().to_string()))
        });
        // It is there still where the blob was there before, or could not be stored.
        let _ = self.disk().remove_file(&draft);
        put.map(|()| blob)
    }

    /// Stores a blob whose id was computed already; `pour` gives its bytes.
    pub(crate) fn put_known(
        &self,
        blob: &BlobRef,
        now_ms: u64,
        mut pour: impl FnMut(&mut dyn Write) -> io::Result<()>,
    ) -> Result<(), StoreError> {
        self.put_with(blob, now_ms, |path| {
            let mut result = self.write(blob, path, &mut pour);
            if let Err(cacache::Error::IntegrityError(_) | cacache::Error::SizeMismatch(..)) =
                &result
            {
                // A short write: cacache hashes a piece again when it writes the rest of it.
                result = self.write(blob, path, &mut pour);
            }
            result
        })
    }

    /// Stores a blob that `write` puts at its path.
    fn put_with(
        &self,
        blob: &BlobRef,
        now_ms: u64,
        write: impl FnOnce(&Path) -> Result<(), cacache::Error>,
    ) -> Result<(), StoreError> {
        let path = self.path(&blob.id);
        match self.presence(blob) {
            Presence::Present { modified_ms } => {
                self.keep(blob, path, modified_ms, now_ms);
                return Ok(());
            }
            Presence::Wrong => self.home.set_damaged_aside(&path),
            Presence::Absent => {}
        }
        self.make_folders(&blob.id);
        match write(&path) {
            Ok(()) => {
                let mut written = self.written.lock().expect("no holder panics");
                written.known.insert(blob.id);
                written.unsynced.push(path);
                written.added.0 += 1;
                written.added.1 += blob.size;
                Ok(())
            }
            Err(cacache::Error::IntegrityError(_) | cacache::Error::SizeMismatch(..)) => {
                Err(StoreError::NotReadBack {
                    blob: blob.id.to_string(),
                })
            }
            Err(cacache::Error::IoError(source, _)) => Err(StoreError::io("write", &path, source)),
            Err(error) => Err(StoreError::io(
                "write",
                &path,
                io::Error::other(error.to_string()),
            )),
        }
    }

    /// Makes the folder of drafts.
    fn make_drafts(&self) {
        for folder in [&self.root, &self.drafts()] {
            // What is in the way of them is set aside where the folders of a blob are made.
            let _ = self.disk().make_folder(folder, 0o700);
        }
    }

    /// Makes a file of a name that no other has.
    fn draft(&self) -> io::Result<(PathBuf, File)> {
        static N: AtomicU64 = AtomicU64::new(0);
        let own = std::process::id();
        loop {
            let n = N.fetch_add(1, Ordering::Relaxed);
            let path = self.drafts().join(format!("whole-{own}-{n}"));
            match self.disk().create_new(&path, 0o600) {
                // Another process of that number left it, or is in another namespace.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                made => return made.map(|file| (path, file)),
            }
        }
    }

    fn write(
        &self,
        blob: &BlobRef,
        path: &Path,
        pour: &mut dyn FnMut(&mut dyn Write) -> io::Result<()>,
    ) -> Result<(), cacache::Error> {
        let wrap = |error| cacache::Error::IoError(error, path.display().to_string());
        self.disk().point(Op::Create).map_err(wrap)?;
        let integrity = ssri::Integrity::from_hex(hex(blob.id.as_bytes()), ssri::Algorithm::Sha256)
            .expect("bug: the hexadecimal digits of a sha256 are its integrity");
        let writer = cacache::WriteOpts::new()
            .algorithm(ssri::Algorithm::Sha256)
            .integrity(integrity)
            .size(blob.size as usize)
            .open_hash_sync(&self.root)?;
        let mut writer = Pieces {
            disk: self.disk(),
            inner: writer,
        };
        pour(&mut writer).map_err(wrap)?;
        self.disk().point(Op::Rename).map_err(wrap)?;
        writer.inner.commit().map(|_| ())
    }

    /// Stores the bytes of a file, which is read in pieces.
    pub(crate) fn put_file(&self, file: &Path, now_ms: u64) -> Result<BlobRef, StoreError> {
        let io = |source| StoreError::io("read", file, source);
        let (open, before) = self.disk().open_read(file).map_err(io)?;
        let mut hasher = Sha256::new();
        let mut size = 0;
        self.pour(&open, &mut |piece| {
            size += piece.len() as u64;
            hasher.update(piece);
            Ok(())
        })
        .map_err(io)?;
        let blob = BlobRef {
            id: BlobId::from_bytes(hasher.finalize().into()),
            size,
        };
        if size != before.len() {
            return Err(StoreError::Changed {
                path: file.to_owned(),
            });
        }
        self.put_known(&blob, now_ms, |writer| {
            self.pour(&open, &mut |piece| writer.write_all(piece))
        })
        .map_err(|error| match error {
            StoreError::NotReadBack { .. } => StoreError::Changed {
                path: file.to_owned(),
            },
            error => error,
        })?;
        Ok(blob)
    }

    /// Gives all bytes of a file, piece by piece.
    pub(crate) fn pour(
        &self,
        file: &File,
        take: &mut dyn FnMut(&[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut piece = vec![0; 256 << 10];
        let mut at = 0;
        loop {
            match self.disk().read_at(file, &mut piece, at)? {
                0 => return Ok(()),
                n => {
                    take(&piece[..n])?;
                    at += n as u64;
                }
            }
        }
    }

    /// Returns the bytes of a blob, if they are what its name says.
    pub(crate) fn get(&self, blob: &BlobRef) -> Option<Vec<u8>> {
        if blob.size > MAX_IN_MEMORY {
            return None;
        }
        let file = self.open(blob)?;
        let mut bytes = vec![0; blob.size as usize];
        if let Ok(id) = self.read_hashed(&file, &mut bytes)
            && id == blob.id
        {
            return Some(bytes);
        }
        self.home.set_damaged_aside(&self.path(&blob.id));
        None
    }

    /// Fills `bytes` from a file and returns their id; many are hashed while the next ones are read.
    fn read_hashed(&self, file: &File, bytes: &mut [u8]) -> io::Result<BlobId> {
        if bytes.len() < WORTH_A_THREAD {
            self.disk().read_exact_at(file, bytes, 0)?;
            return Ok(BlobId::of(bytes));
        }
        std::thread::scope(|scope| {
            let (give, take) = mpsc::channel::<&[u8]>();
            let hashing = scope.spawn(move || {
                let mut hasher = Sha256::new();
                take.iter().for_each(|piece| hasher.update(piece));
                BlobId::from_bytes(hasher.finalize().into())
            });
            let mut at = 0;
            for piece in bytes.chunks_mut(CHUNK) {
                self.disk().read_exact_at(file, piece, at)?;
                at += piece.len() as u64;
                give.send(piece).expect("bug: hashing ended early");
            }
            drop(give);
            Ok(hashing.join().expect("bug: hashing failed"))
        })
    }

    /// Opens the file of a blob, if it is a regular file of the right size.
    fn open(&self, blob: &BlobRef) -> Option<File> {
        let path = self.path(&blob.id);
        match self.disk().open_read(&path) {
            Ok((file, metadata)) if metadata.len() == blob.size => Some(file),
            Ok(_) => {
                self.home.set_damaged_aside(&path);
                None
            }
            Err(error) => {
                // A FIFO, a folder, a link: not a blob of ours.
                let is_foreign = error.kind() == io::ErrorKind::InvalidInput
                    || matches!(error.raw_os_error(), Some(40 | 6 | 21));
                if is_foreign {
                    self.home.set_damaged_aside(&path);
                }
                None
            }
        }
    }

    /// Copies a blob into an empty file; false is a miss, and then the file holds nothing of use.
    pub(crate) fn copy_into(&self, blob: &BlobRef, to: &File) -> io::Result<bool> {
        let Some(from) = self.open(blob) else {
            return Ok(false);
        };
        let mut hasher = Sha256::new();
        let is_clone = blob.size >= WORTH_A_CLONE && self.disk().clone_file(to, &from).is_ok();
        if is_clone {
            self.pour(to, &mut |piece| {
                hasher.update(piece);
                Ok(())
            })?;
        } else {
            let mut piece = vec![0; blob.size.clamp(1, 256 << 10) as usize];
            let mut at = 0;
            while at < blob.size {
                let n = match self.disk().read_at(&from, &mut piece, at) {
                    Ok(0) | Err(_) => break,
                    Ok(n) => n,
                };
                hasher.update(&piece[..n]);
                self.disk().write_at(to, &piece[..n], at)?;
                at += n as u64;
            }
        }
        if hasher.finalize()[..] == blob.id.as_bytes()[..] {
            return Ok(true);
        }
        self.home.set_damaged_aside(&self.path(&blob.id));
        Ok(false)
    }

    /// Tells whether every bit of a blob is right, without keeping its bytes.
    pub(crate) fn is_right(&self, blob: &BlobRef) -> bool {
        let Ok((file, metadata)) = self.disk().open_read(&self.path(&blob.id)) else {
            return false;
        };
        let mut hasher = Sha256::new();
        let read = self.pour(&file, &mut |piece| {
            hasher.update(piece);
            Ok(())
        });
        metadata.len() == blob.size
            && read.is_ok()
            && hasher.finalize()[..] == blob.id.as_bytes()[..]
    }

    /// Forgets what this process put, after the blobs were cleared.
    pub(crate) fn forget(&self) {
        *self.written.lock().expect("no holder panics") = Written::default();
    }

    /// Notes that a blob which is there already was put again.
    fn keep(&self, blob: &BlobRef, path: PathBuf, modified_ms: u64, now_ms: u64) {
        let mut written = self.written.lock().expect("no holder panics");
        if !written.known.insert(blob.id) {
            return;
        }
        if now_ms.saturating_sub(modified_ms) < SETTLED_MS {
            written.unsynced.push(path);
        } else {
            // So that a gc which looks between this put and the record leaves it alone.
            let _ = self.disk().touch(&path);
        }
    }

    /// Makes the folders of a blob, which cacache would make readable by others.
    fn make_folders(&self, id: &BlobId) {
        let [first, second, ..] = *id.as_bytes();
        let content = self.content();
        let outer = content.join(hex(&[first]));
        let inner = outer.join(hex(&[second]));
        if self
            .written
            .lock()
            .expect("no holder panics")
            .folders
            .contains(&[first, second])
            && self.disk().stat(&inner).is_ok()
        {
            return;
        }
        let (top, drafts) = (self.root.join("content-v2"), self.drafts());
        for folder in [&self.root, &drafts, &top, &content, &outer, &inner] {
            if self.disk().make_folder(folder, 0o700).is_err()
                && self
                    .disk()
                    .stat(folder)
                    .is_ok_and(|metadata| !metadata.is_dir())
            {
                self.home.set_damaged_aside(folder);
                let _ = self.disk().make_folder(folder, 0o700);
            }
        }
        self.written
            .lock()
            .expect("no holder panics")
            .folders
            .insert([first, second]);
    }
}

/// Passes bytes on in pieces that one write takes whole.
struct Pieces<'a> {
    disk: &'a Disk,
    inner: cacache::SyncWriter,
}

impl Write for Pieces<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.disk.point(Op::Write)?;
        let len = bytes.len().min(CHUNK);
        self.inner.write(&bytes[..len])
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}
