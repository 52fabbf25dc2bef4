//! The real world.

#![expect(
    clippy::disallowed_methods,
    reason = "this is the door that all others go through"
)]

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use super::{FileKind, FolderEntry, Metadata, Stamp, System};

/// The file system, clock and environment of this process.
#[derive(Clone, Copy, Default, Debug)]
pub struct OsSystem;

const O_NONBLOCK: i32 = 0o4000;

fn open(path: &Path) -> io::Result<(File, u64)> {
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(O_NONBLOCK)
        .open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "not a regular file",
        ));
    }
    Ok((file, metadata.len()))
}

fn kind_of(file_type: fs::FileType) -> FileKind {
    if file_type.is_file() {
        FileKind::File
    } else if file_type.is_dir() {
        FileKind::Folder
    } else if file_type.is_symlink() {
        FileKind::Link
    } else {
        FileKind::Other
    }
}

fn metadata_of(metadata: &fs::Metadata) -> Metadata {
    let ns = |seconds: i64, rest: i64| i128::from(seconds) * 1_000_000_000 + i128::from(rest);
    Metadata {
        kind: kind_of(metadata.file_type()),
        executable: metadata.mode() & 0o100 != 0,
        stamp: Stamp {
            mtime_ns: ns(metadata.mtime(), metadata.mtime_nsec()),
            ctime_ns: ns(metadata.ctime(), metadata.ctime_nsec()),
            size: metadata.len(),
            inode: metadata.ino(),
            device: metadata.dev(),
        },
    }
}

impl System for OsSystem {
    fn read(&self, path: &Path, limit: u64) -> io::Result<Vec<u8>> {
        let (file, size) = open(path)?;
        if size > limit {
            return Err(io::Error::new(
                io::ErrorKind::FileTooLarge,
                format!("{size} bytes, of at most {limit}"),
            ));
        }
        let mut bytes = Vec::with_capacity(size as usize + 1);
        file.take(limit + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > limit {
            return Err(io::Error::new(
                io::ErrorKind::FileTooLarge,
                format!("more than {limit} bytes"),
            ));
        }
        Ok(bytes)
    }

    fn metadata(&self, path: &Path) -> io::Result<Metadata> {
        Ok(metadata_of(&fs::metadata(path)?))
    }

    fn link_metadata(&self, path: &Path) -> io::Result<Metadata> {
        Ok(metadata_of(&fs::symlink_metadata(path)?))
    }

    fn read_folder(&self, path: &Path) -> io::Result<Vec<FolderEntry>> {
        let mut entries = Vec::new();
        for entry in fs::read_dir(path)? {
            let entry = entry?;
            let kind = kind_of(entry.file_type()?);
            entries.push(FolderEntry {
                name: entry.file_name(),
                kind,
            });
        }
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(entries)
    }

    fn canonical(&self, path: &Path) -> io::Result<PathBuf> {
        fs::canonicalize(path)
    }

    fn read_link(&self, path: &Path) -> io::Result<PathBuf> {
        fs::read_link(path)
    }

    fn stream(&self, path: &Path, each: &mut dyn FnMut(&[u8])) -> io::Result<u64> {
        let (mut file, size) = open(path)?;
        let mut buffer = vec![0; (size as usize + 1).clamp(512, 256 * 1024)];
        let mut total = 0;
        loop {
            let n = match file.read(&mut buffer) {
                Ok(0) => return Ok(total),
                Ok(n) => n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            each(&buffer[..n]);
            total += n as u64;
        }
    }

    fn variable(&self, name: &str) -> Option<String> {
        std::env::var(name).ok()
    }

    fn now_us(&self) -> i64 {
        match SystemTime::now().duration_since(UNIX_EPOCH) {
            Ok(since) => since.as_micros() as i64,
            Err(before) => -(before.duration().as_micros() as i64),
        }
    }

    fn output_of(&self, program: &Path, args: &[&str]) -> io::Result<String> {
        let output = std::process::Command::new(program)
            .args(args)
            .env_clear()
            .output()?;
        let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
        text.push_str(&String::from_utf8_lossy(&output.stderr));
        Ok(text)
    }

    fn current_folder(&self) -> io::Result<PathBuf> {
        std::env::current_dir()
    }
}
