//! Files of inputs and results: write, remove, count.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Time after which a file that was written counts as settled, whatever the clock of the file system.
const SETTLE: Duration = Duration::from_millis(40);

/// Writes a file and the folders above it.
pub fn write(path: &Path, content: impl AsRef<[u8]>) {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).expect("the bench can write");
    }
    fs::write(path, content).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}

/// Removes a folder, if it is there.
pub fn remove(path: &Path) {
    if let Err(error) = fs::remove_dir_all(path)
        && error.kind() != std::io::ErrorKind::NotFound
    {
        panic!("{}: {error}", path.display());
    }
}

/// Waits until what was written just now counts as settled.
pub fn settle() {
    std::thread::sleep(SETTLE);
}

/// Returns the files below a folder, sorted.
pub fn below(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut todo = vec![folder.to_path_buf()];
    while let Some(folder) = todo.pop() {
        let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
        for entry in entries {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => todo.push(entry.path()),
                _ => found.push(entry.path()),
            }
        }
    }
    found.sort();
    found
}

/// What a folder takes on disk.
pub struct Taken {
    /// Number of files.
    pub files: u64,
    /// Number of bytes in them.
    pub bytes: u64,
    /// Number of bytes of the blocks that they take.
    pub on_disk: u64,
}

/// Returns what a folder takes on disk.
pub fn taken(folder: &Path) -> Taken {
    use std::os::unix::fs::MetadataExt as _;
    let mut taken = Taken {
        files: 0,
        bytes: 0,
        on_disk: 0,
    };
    for file in below(folder) {
        if let Ok(metadata) = fs::symlink_metadata(&file) {
            taken.files += 1;
            taken.bytes += metadata.len();
            taken.on_disk += metadata.blocks() * 512;
        }
    }
    taken
}

/// Writes a file of bytes that no file system can make smaller and no other number gives.
pub fn write_noise(path: &Path, number: u64, len: u64) {
    use std::io::Write as _;
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).expect("the bench can write");
    }
    let mut hasher = blake3::Hasher::new();
    hasher.update(&number.to_le_bytes());
    let mut noise = hasher.finalize_xof();
    let mut file = fs::File::create(path).expect("the bench can write");
    let mut buffer = vec![0; 1 << 16];
    let mut left = len;
    while left > 0 {
        let n = left.min(buffer.len() as u64) as usize;
        noise.fill(&mut buffer[..n]);
        file.write_all(&buffer[..n]).expect("the bench can write");
        left -= n as u64;
    }
}
