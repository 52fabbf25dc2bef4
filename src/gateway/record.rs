//! The record of what was asked of an env: one JSON line a call, on disk while the env lives.

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use serde::Serialize;

use super::Caller;
use crate::digest::Stream;
use crate::json::{Value, json};
use crate::system::{System, disk, locked};
use crate::task::moment::Moment;

/// An answer larger than this is kept in the store and named in the record, so that a record stays small.
const INLINE: usize = 256 << 10;

/// Keeps large answers; what the gateway knows of the store.
pub trait Keeper: Send + Sync {
    /// Keeps the bytes of a file, however many, and returns the URL that names them; `None` where there is no store.
    fn keep(&self, file: &Path) -> Option<String>;
}

/// A call that was made.
pub(super) struct Made<'m> {
    pub(super) kind: &'static str,
    pub(super) name: &'m str,
    pub(super) arguments: &'m Value,
    /// The result, or what went wrong.
    pub(super) answer: Result<&'m Value, String>,
    pub(super) mutates: bool,
    pub(super) started_us: i64,
}

/// Writes the record of one env.
pub struct Recorder {
    path: PathBuf,
    keeper: Arc<dyn Keeper>,
    system: Arc<dyn System>,
    file: Mutex<Option<Box<dyn Write + Send>>>,
    /// The number of results that were too large for a line.
    large: AtomicU64,
    written: AtomicU64,
    mutating: AtomicU64,
}

impl Recorder {
    /// Returns a recorder that writes to a file, which is made with the first call.
    pub fn new(path: PathBuf, keeper: Arc<dyn Keeper>, system: Arc<dyn System>) -> Self {
        Recorder {
            path,
            keeper,
            system,
            file: Mutex::default(),
            large: AtomicU64::new(0),
            written: AtomicU64::new(0),
            mutating: AtomicU64::new(0),
        }
    }

    /// Returns the folder of the record, for what is needed beside it.
    pub(super) fn folder(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new("."))
    }

    pub(super) fn now_us(&self) -> i64 {
        self.system.now_us()
    }

    /// Returns how many calls were recorded, and how many of them may have changed the state.
    pub(super) fn counts(&self) -> (u64, u64) {
        let written = self.written.load(Ordering::SeqCst);
        (written, self.mutating.load(Ordering::SeqCst))
    }

    /// Writes a call, and what the virtual clock shows.
    pub(super) fn write(
        &self,
        caller: &Caller,
        made: &Made<'_>,
        time: Option<Moment>,
    ) -> io::Result<()> {
        let mut line = Line(Vec::with_capacity(512));
        line.member("arguments", made.arguments)?;
        line.member("at", &made.started_us)?;
        if let Some(cause) = &caller.cause {
            line.member("caused_by", &cause.trigger)?;
        }
        if let Err(error) = &made.answer {
            line.member("error", error)?;
        }
        line.member("kind", made.kind)?;
        line.member("mutates", &made.mutates)?;
        line.member("name", made.name)?;
        if let Ok(result) = made.answer
            && !line.short_member("result", result, INLINE)
        {
            match self.kept(result)? {
                Some(named) => line.member("result_file", &named)?,
                None => line.member("result", result)?,
            }
        }
        line.member("role", &caller.role)?;
        line.member("step", &caller.step)?;
        let took = self.now_us().saturating_sub(made.started_us).max(0);
        line.member("took_us", &took)?;
        if let Some(time) = time {
            line.member("virtual_time", &time.to_string())?;
        }
        line.0.extend_from_slice(b"}\n");
        let mut file = locked(&self.file);
        if file.is_none() {
            disk::create_dir_all(self.folder())?;
            *file = Some(Box::new(BufWriter::new(disk::create(&self.path)?)));
        }
        if let Some(file) = file.as_mut() {
            file.write_all(&line.0)?;
        }
        self.written.fetch_add(1, Ordering::SeqCst);
        self.mutating
            .fetch_add(u64::from(made.mutates), Ordering::SeqCst);
        Ok(())
    }

    /// Keeps a result in the store and returns what names it; its text is never in memory as a whole.
    fn kept(&self, result: &Value) -> io::Result<Option<Value>> {
        disk::create_dir_all(self.folder())?;
        let n = self.large.fetch_add(1, Ordering::Relaxed);
        let path = self.folder().join(format!("result-{n}"));
        let mut text = Hashed {
            file: BufWriter::new(disk::create(&path)?),
            stream: Stream::new(),
            size: 0,
        };
        crate::json::to_writer(&mut text, result)?;
        text.flush()?;
        let url = self.keeper.keep(&path);
        // What is left goes with the run's own folder.
        let _ = disk::remove_file(&path);
        let digest = text.stream.finish().to_string();
        let named = |url| json!({"size": text.size, "digest": digest, "object_url": url});
        Ok(url.map(named))
    }

    /// Returns all that was written.
    pub(super) fn lines(&self) -> io::Result<Vec<u8>> {
        let mut file = locked(&self.file);
        let Some(file) = file.as_mut() else {
            return Ok(Vec::new());
        };
        file.flush()?;
        disk::read(&self.path)
    }
}

/// A JSON object that is being written, without its end; members go in by the order of their names.
struct Line(Vec<u8>);

impl Line {
    fn name(&mut self, name: &str) {
        self.0.push(if self.0.is_empty() { b'{' } else { b',' });
        self.0.push(b'"');
        self.0.extend_from_slice(name.as_bytes());
        self.0.extend_from_slice(b"\":");
    }

    fn member(&mut self, name: &str, value: &(impl Serialize + ?Sized)) -> io::Result<()> {
        self.name(name);
        Ok(crate::json::to_writer(&mut self.0, value)?)
    }

    /// Writes a member of at most so many bytes; a longer one is left out, and the answer is false.
    fn short_member(&mut self, name: &str, value: &Value, most: usize) -> bool {
        let before = self.0.len();
        self.name(name);
        let mut short = Short {
            bytes: &mut self.0,
            room: most,
        };
        let is_short = crate::json::to_writer(&mut short, value).is_ok();
        if !is_short {
            self.0.truncate(before);
        }
        is_short
    }
}

/// Takes so many bytes and no more.
struct Short<'b> {
    bytes: &'b mut Vec<u8>,
    room: usize,
}

impl Write for Short<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(room) = self.room.checked_sub(bytes.len()) else {
            self.bytes.extend_from_slice(&bytes[..self.room]);
            return Err(io::ErrorKind::FileTooLarge.into());
        };
        self.room = room;
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns the start of a value's text, of at most about so many bytes.
pub(super) fn start_of(value: &Value, most: usize) -> String {
    let mut bytes = Vec::new();
    let mut short = Short {
        bytes: &mut bytes,
        room: most,
    };
    let is_whole = crate::json::to_writer(&mut short, value).is_ok();
    let text = String::from_utf8_lossy(&bytes);
    match is_whole {
        true => text.into_owned(),
        false => format!("{}..", text.trim_end_matches('\u{fffd}')),
    }
}

/// A file whose digest is taken on the way.
struct Hashed<F> {
    file: F,
    stream: Stream,
    size: u64,
}

impl<F: Write> Write for Hashed<F> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write_all(bytes)?;
        self.stream.update(bytes);
        self.size += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::MemorySystem;

    struct Kept(Mutex<Vec<u8>>);

    impl Keeper for Kept {
        fn keep(&self, file: &Path) -> Option<String> {
            *locked(&self.0) = disk::read(file).unwrap();
            Some("store:it".to_owned())
        }
    }

    struct NoStore;

    impl Keeper for NoStore {
        fn keep(&self, _: &Path) -> Option<String> {
            None
        }
    }

    fn line_of(keeper: Arc<dyn Keeper>, answer: Result<&Value, String>) -> String {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("calls/calls.jsonl");
        let recorder = Recorder::new(path.clone(), keeper, Arc::new(MemorySystem::new()));
        let caller = Caller::new("reply", "agent");
        let made = Made {
            kind: "tool",
            name: "say \"it\"",
            arguments: &json!({"b": 1, "a": [null]}),
            answer,
            mutates: true,
            started_us: recorder.now_us(),
        };
        recorder.write(&caller, &made, None).unwrap();
        let left = disk::read_dir(recorder.folder()).unwrap();
        assert_eq!(left, ["calls.jsonl"], "nothing is left beside the record");
        String::from_utf8(recorder.lines().unwrap()).unwrap()
    }

    #[test]
    fn a_line_is_the_text_of_one_object() {
        let store = || Arc::new(Kept(Mutex::default()));
        for answer in [Ok(&json!({"z": "\n", "a": 1.5})), Err("no".to_owned())] {
            let line = line_of(store(), answer);
            let value: Value = crate::json::from_slice(line.trim_end().as_bytes()).unwrap();
            assert_eq!(format!("{value}\n"), line);
        }
    }

    #[test]
    fn a_large_result_is_kept_and_named() {
        let store = Arc::new(Kept(Mutex::default()));
        let large = json!({"content": "x".repeat(INLINE)});
        let line = line_of(store.clone(), Ok(&large));
        assert!(line.len() < 500);
        let line: Value = crate::json::from_slice(line.as_bytes()).unwrap();
        let text = large.to_string();
        assert_eq!(*locked(&store.0), text.as_bytes());
        let digest = crate::digest::Digest::of_bytes(text.as_bytes()).to_string();
        let named = json!({"size": text.len(), "digest": digest, "object_url": "store:it"});
        assert_eq!(line["result_file"], named);
        assert_eq!(line.get("result"), None);
        let line = line_of(Arc::new(NoStore), Ok(&large));
        let line: Value = crate::json::from_slice(line.as_bytes()).unwrap();
        assert_eq!(line["result"], large);
    }
}
