//! Archives as the engine takes them: regular files, in the order given, without what differs between machines.

/// The time of every file, in seconds since 1970: the year 2000. Some tools refuse what is older than 1980.
const TIME: u64 = 946_684_800;
const BLOCK: usize = 512;
const LONGEST_NAME: usize = 100;

/// An archive that grows.
#[derive(Default)]
pub(super) struct Tar(Vec<u8>);

impl Tar {
    /// Adds a file; the path is relative, with `/`.
    pub(super) fn add(&mut self, path: &str, mode: u32, bytes: &[u8]) {
        if path.len() > LONGEST_NAME {
            // The way of GNU tar: the name is the content of an entry before the file's own.
            let name = [path.as_bytes(), b"\0"].concat();
            self.entry(b"././@LongLink", b'L', 0o644, &name);
        }
        self.entry(path.as_bytes(), b'0', mode, bytes);
    }

    /// Returns the bytes of the archive.
    pub(super) fn finish(mut self) -> Vec<u8> {
        self.0.extend_from_slice(&[0; 2 * BLOCK]);
        self.0
    }

    fn entry(&mut self, name: &[u8], kind: u8, mode: u32, bytes: &[u8]) {
        let mut header = [0; BLOCK];
        let mut set = |at: usize, field: &[u8]| {
            header[at..at + field.len()].copy_from_slice(field);
        };
        set(0, &name[..name.len().min(LONGEST_NAME)]);
        set(100, format!("{mode:07o}").as_bytes());
        // Owner and group: root.
        set(108, b"0000000");
        set(116, b"0000000");
        set(124, size(bytes.len() as u64).as_slice());
        set(136, format!("{TIME:011o}").as_bytes());
        set(148, b"        ");
        set(156, &[kind]);
        set(257, b"ustar  \0");
        let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
        header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        self.0.extend_from_slice(&header);
        self.0.extend_from_slice(bytes);
        let rest = bytes.len().next_multiple_of(BLOCK) - bytes.len();
        self.0.extend_from_slice(&[0; BLOCK][..rest]);
    }
}

/// Returns a size as it stands in a header: octal, or above 8 GB in binary, as GNU tar writes it.
fn size(size: u64) -> Vec<u8> {
    if size < 1 << 33 {
        return format!("{size:011o}\0").into_bytes();
    }
    let mut field = vec![0x80, 0, 0, 0];
    field.extend_from_slice(&size.to_be_bytes());
    field
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn tar_reads_what_is_written() {
        let long = format!("{}/file", "folder/".repeat(40).trim_end_matches('/'));
        let mut tar = Tar::default();
        tar.add("Dockerfile", 0o644, b"FROM x\n");
        tar.add(&long, 0o644, &[b'y'; 513]);
        tar.add("bin/run", 0o755, b"");
        let bytes = tar.finish();
        let mut child = Command::new("tar")
            .args(["--utc", "--full-time", "-tvf", "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(&bytes).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success());
        let listed = String::from_utf8(output.stdout).unwrap();
        let listed: Vec<String> = listed
            .lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect();
        let row = |mode: &str, size: u32, path: &str| {
            format!("{mode} 0/0 {size} 2000-01-01 00:00:00 {path}")
        };
        let expected = [
            row("-rw-r--r--", 7, "Dockerfile"),
            row("-rw-r--r--", 513, &long),
            row("-rwxr-xr-x", 0, "bin/run"),
        ];
        assert_eq!(listed, expected);
    }
}
