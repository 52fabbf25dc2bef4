//! The record of what was asked of an env: one JSON line a call, on disk while the env lives.

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use super::Caller;
use crate::json::{Map, Value, json};
use crate::system::{System, disk, locked};

/// An answer larger than this is kept in the store and named in the record, so that a record stays small.
const INLINE: usize = 256 << 10;

/// Keeps large answers; what the gateway knows of the store.
pub trait Keeper: Send + Sync {
    /// Keeps bytes and returns the URL that names them; `None` where there is no store.
    fn keep(&self, bytes: &[u8]) -> Option<String>;
}

/// A call that was made.
pub(super) struct Made {
    pub(super) kind: &'static str,
    pub(super) name: String,
    pub(super) arguments: Value,
    /// The result, or what went wrong.
    pub(super) answer: Result<Value, String>,
    pub(super) mutates: bool,
    pub(super) started_us: i64,
}

/// Writes the record of one env.
pub struct Recorder {
    path: PathBuf,
    keeper: Arc<dyn Keeper>,
    system: Arc<dyn System>,
    file: Mutex<Option<Box<dyn Write + Send>>>,
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

    /// Writes a call.
    pub(super) fn write(&self, caller: &Caller, made: &Made) -> io::Result<()> {
        let mut line = Map::new();
        line.insert("at".to_owned(), json!(made.started_us));
        line.insert("step".to_owned(), json!(caller.step));
        line.insert("role".to_owned(), json!(caller.role));
        line.insert("kind".to_owned(), json!(made.kind));
        line.insert("name".to_owned(), json!(made.name));
        line.insert("arguments".to_owned(), made.arguments.clone());
        match &made.answer {
            Ok(result) => {
                let text = result.to_string();
                let kept = (text.len() > INLINE).then(|| self.keeper.keep(text.as_bytes()));
                match kept {
                    Some(url) => {
                        let named = json!({
                            "size": text.len(),
                            "digest": crate::digest::Digest::of_bytes(text.as_bytes()).to_string(),
                            "object_url": url,
                        });
                        line.insert("result_file".to_owned(), named)
                    }
                    None => line.insert("result".to_owned(), result.clone()),
                }
            }
            Err(error) => line.insert("error".to_owned(), json!(error)),
        };
        line.insert("mutates".to_owned(), json!(made.mutates));
        let took = self.now_us().saturating_sub(made.started_us).max(0);
        line.insert("took_us".to_owned(), json!(took));
        let mut bytes = Value::Object(line).to_string().into_bytes();
        bytes.push(b'\n');
        let mut file = locked(&self.file);
        if file.is_none() {
            if let Some(folder) = self.path.parent() {
                disk::create_dir_all(folder)?;
            }
            *file = Some(Box::new(BufWriter::new(disk::create(&self.path)?)));
        }
        if let Some(file) = file.as_mut() {
            file.write_all(&bytes)?;
        }
        self.written.fetch_add(1, Ordering::SeqCst);
        self.mutating
            .fetch_add(u64::from(made.mutates), Ordering::SeqCst);
        Ok(())
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
