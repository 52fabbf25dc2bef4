//! Traces in the cache, and back.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

use aebuild_cache::{BlobId, BlobRef, Cache, NewRecord, Place, Record};

use super::live::UNKNOWN;
use crate::context::Output;
use crate::digest::Digest;
use crate::json::Value;
use crate::rebuild::{self, Log, MadeBy, Read, Trace};
use crate::resource::Version;
use crate::schedule::{PlannedStep, Snapshots};
use crate::step::{Determinism, StepError, StoredFile};
use crate::system::locked;

/// The kind of a record that holds a trace.
pub const TRACE: u8 = 1;
/// The kind of a record that holds a failure: history, never a result.
pub const FAILURE: u8 = 2;
/// The kind of a record that says what a live thing was made of: for explanations, never a result.
pub const DEFINITION: u8 = 3;
/// The kind of a record that holds what a model answered.
pub const CALL: u8 = 4;

/// Results of earlier runs, as far as this run may use and add to them.
pub struct Store(Arc<Inner>);

struct Inner {
    cache: Option<Cache>,
    /// Whether results are looked for.
    reads: bool,
    places: Mutex<HashMap<(Digest, Digest), Place>>,
    said: Mutex<Vec<String>>,
}

/// What became of a result that was to be kept.
#[derive(Clone, Debug, Default)]
pub struct Stored {
    /// Where it is kept.
    pub place: Option<Place>,
    /// What the user should be told.
    pub notice: Option<String>,
}

/// What is kept of a step: the traces under its fingerprint and its newest one.
#[derive(Clone, Debug, Default)]
pub struct Verdicts {
    /// The traces under the fingerprint, the one that counts first.
    pub candidates: Vec<Arc<Trace>>,
    /// The newest trace of the step of this name.
    pub previous: Option<Arc<Trace>>,
}

/// Returns the blob that a version's tree is kept as.
pub(super) fn blob_of(version: &Version) -> Option<BlobRef> {
    match version {
        Version::State { tree, size } => Some(BlobRef {
            id: BlobId::from_bytes(*tree.as_bytes()),
            size: *size,
        }),
        Version::Created(_)
        | Version::Exported { .. }
        | Version::Recorded { .. }
        | Version::Lineage(_) => None,
    }
}

/// Returns the blob that holds the exported state or the recorded calls of a version.
pub(super) fn file_of_version(version: &Version) -> Option<BlobRef> {
    match version {
        Version::Exported { file, size } | Version::Recorded { file, size } => Some(BlobRef {
            id: BlobId::from_bytes(*file.as_bytes()),
            size: *size,
        }),
        Version::Created(_) | Version::State { .. } | Version::Lineage(_) => None,
    }
}

/// Returns the version of a resource whose state is this tree.
pub(super) fn version_of(tree: &BlobRef) -> Version {
    Version::State {
        tree: Digest::from_bytes(*tree.id.as_bytes()),
        size: tree.size,
    }
}

pub(super) fn stored_file(blob: BlobRef) -> StoredFile {
    StoredFile {
        sha256: *blob.id.as_bytes(),
        size: blob.size,
    }
}

fn blob_of_file(file: &StoredFile) -> BlobRef {
    BlobRef {
        id: BlobId::from_bytes(file.sha256),
        size: file.size,
    }
}

impl Store {
    /// Returns a store over a cache; without `reads`, nothing that is kept is used.
    pub fn new(cache: Option<Cache>, reads: bool) -> Self {
        Store(Arc::new(Inner {
            cache,
            reads,
            places: Mutex::default(),
            said: Mutex::default(),
        }))
    }

    /// Returns a handle of the same store.
    pub fn share(&self) -> Store {
        Store(self.0.clone())
    }

    /// Returns what is kept of a step.
    pub fn verdicts(&self, key: &rebuild::Key) -> Verdicts {
        let Some(cache) = self.0.cache.as_ref().filter(|_| self.0.reads) else {
            return Verdicts::default();
        };
        let candidates: Vec<Arc<Trace>> = cache
            .by_key(key.fingerprint.as_bytes())
            .into_iter()
            .filter(|record| record.kind == TRACE)
            .filter_map(|record| self.usable(cache, record))
            .filter(|trace| trace.fingerprint == key.fingerprint)
            .collect();
        let previous = match candidates.first() {
            Some(trace) => Some(trace.clone()),
            None => self.previous(key),
        };
        Verdicts {
            candidates,
            previous,
        }
    }

    /// Returns the newest trace of the step of this name.
    pub fn previous(&self, key: &rebuild::Key) -> Option<Arc<Trace>> {
        self.newest(key, TRACE)
    }

    /// Returns what the live thing of the step of this name was made of when it was last noted.
    pub fn definition(&self, key: &rebuild::Key) -> Option<Arc<Trace>> {
        self.newest(key, DEFINITION)
    }

    fn newest(&self, key: &rebuild::Key, kind: u8) -> Option<Arc<Trace>> {
        let cache = self.0.cache.as_ref()?;
        let records = cache.by_lineage(key.lineage.as_bytes());
        let newest = records.into_iter().find(|record| record.kind == kind)?;
        rebuild::decode(&newest.payload).map(Arc::new)
    }

    /// Notes what a live thing is made of, where that is another than was noted before.
    pub fn keep_definition(&self, planned: &PlannedStep, run: &str, now_us: i64) {
        let Some(cache) = &self.0.cache else { return };
        let known = planned.previous.as_ref();
        if known.is_some_and(|known| known.fingerprint == planned.key.fingerprint) {
            return;
        }
        let note = Trace {
            fingerprint: planned.key.fingerprint,
            manifest: planned.key.manifest.clone(),
            reads: Vec::new(),
            output: Arc::default(),
            made: MadeBy {
                run: run.to_owned(),
                step: planned.id.to_string(),
                started_us: now_us,
                took_us: 0,
                attempt: 0,
            },
            log: Log::default(),
        };
        let record = NewRecord {
            key: *Digest::of_bytes(b"definition").as_bytes(),
            action: *planned.key.lineage.as_bytes(),
            lineage: *planned.key.lineage.as_bytes(),
            output: *Digest::of_bytes(b"definition").as_bytes(),
            kind: DEFINITION,
            supersedes: true,
            paid: false,
            payload: rebuild::encode(&note),
            blobs: Vec::new(),
            trees: Vec::new(),
        };
        // An explanation without it names the thing and not the part.
        let _ = cache.append(record);
    }

    /// Reads a record; one whose blobs are gone is dropped, which the run says.
    fn usable(&self, cache: &Cache, record: Record) -> Option<Arc<Trace>> {
        let trace = rebuild::decode(&record.payload);
        // A lost snapshot costs a rerun where somebody needs it, and the values of the output none.
        let snapshots: Vec<BlobRef> = trace
            .iter()
            .flat_map(|trace| &trace.output.effects)
            .filter_map(|effect| file_of_version(&effect.after))
            .collect();
        let mut values = record.blobs.iter().filter(|blob| !snapshots.contains(blob));
        let gone = values.any(|blob| !cache.has_blob(blob));
        let trace = match trace {
            Some(trace) if !gone => Arc::new(trace),
            other => {
                let step = other.map_or_else(|| "a step".to_owned(), |trace| trace.made.step);
                locked(&self.0.said).push(format!(
                    "the kept result of {step} is damaged or its files are gone: it is dropped"
                ));
                // A record that cannot be dropped is looked at again next time.
                let _ = cache.drop_record(record.place);
                return None;
            }
        };
        locked(&self.0.places).insert((trace.action(), trace.output.digest()), record.place);
        Some(trace)
    }

    /// Returns what the store has to say, each once.
    pub fn notices(&self) -> Vec<String> {
        let mut said = std::mem::take(&mut *locked(&self.0.said));
        if let Some(cache) = &self.0.cache {
            said.extend(cache.notices().iter().map(ToString::to_string));
        }
        said.dedup();
        said
    }

    /// Returns where a trace is kept that stands in for a run, and notes that it was of use.
    pub fn place_of(&self, trace: &Trace) -> Option<Place> {
        let key = (trace.action(), trace.output.digest());
        let place = locked(&self.0.places).get(&key).copied()?;
        if let Some(cache) = &self.0.cache {
            cache.note_used(place);
        }
        Some(place)
    }

    /// Keeps a result.
    pub fn keep(
        &self,
        planned: &PlannedStep,
        output: Arc<Output>,
        reads: Vec<Read>,
        made: MadeBy,
        log: Log,
        supersedes: bool,
    ) -> Result<Stored, String> {
        let Some(cache) = &self.0.cache else {
            return Ok(Stored::default());
        };
        let unknown = output
            .effects
            .iter()
            .find(|effect| matches!(effect.after, Version::State { size, .. } if size == UNKNOWN));
        if let Some(effect) = unknown {
            return Err(format!(
                "the state in which it left {} cannot be taken",
                effect.resource
            ));
        }
        let trace = Trace {
            fingerprint: planned.key.fingerprint,
            manifest: planned.key.manifest.clone(),
            reads,
            output,
            made,
            log,
        };
        let action = trace.action();
        let digest = trace.output.digest();
        let notice = planned
            .candidates
            .iter()
            .find(|kept| kept.action() == action && kept.output.digest() != digest)
            .filter(|_| planned.determinism == Determinism::Pure)
            .map(|kept| {
                format!(
                    "`{}` gave another output than in run {} from the same inputs; see `aebuild cache nondeterminism`",
                    planned.id, kept.made.run
                )
            });
        let mut blobs = blobs_of(&trace.output, &trace.log);
        let effects = trace.output.effects.iter();
        blobs.extend(effects.filter_map(|effect| file_of_version(&effect.after)));
        let trees = trace
            .output
            .effects
            .iter()
            .filter_map(|effect| blob_of(&effect.after));
        let record = NewRecord {
            key: *planned.key.fingerprint.as_bytes(),
            action: *action.as_bytes(),
            lineage: *planned.key.lineage.as_bytes(),
            output: *digest.as_bytes(),
            kind: TRACE,
            supersedes,
            paid: planned.determinism == Determinism::Sampled,
            payload: rebuild::encode(&trace),
            blobs,
            trees: trees.collect(),
        };
        let place = cache.append(record).map_err(|error| error.to_string())?;
        Ok(Stored {
            place: Some(place),
            notice,
        })
    }

    /// Keeps that a step failed, as history.
    pub fn keep_failure(
        &self,
        planned: &PlannedStep,
        run: &str,
        error: &StepError,
        started_us: i64,
        took_us: u64,
    ) {
        let Some(cache) = &self.0.cache else { return };
        let payload = crate::json::json!({
            "v": rebuild::FORMAT_VERSION,
            "run": run,
            "error_type": error.kind,
            "error": error.message,
            "at": started_us,
            "took": took_us,
        });
        let record = NewRecord {
            key: *Digest::of_bytes(b"failure").as_bytes(),
            action: *planned.key.fingerprint.as_bytes(),
            lineage: *planned.key.lineage.as_bytes(),
            output: *Digest::of_bytes(b"failure").as_bytes(),
            kind: FAILURE,
            supersedes: true,
            paid: false,
            payload: payload.to_string().into_bytes(),
            blobs: Vec::new(),
            trees: Vec::new(),
        };
        // History that cannot be kept is no reason to fail a run; the store has said so already.
        let _ = cache.append(record);
    }

    /// Keeps bytes.
    pub fn keep_bytes(&self, bytes: &[u8]) -> Result<StoredFile, String> {
        match &self.0.cache {
            Some(cache) => cache
                .put_blob(bytes)
                .map(stored_file)
                .map_err(|error| error.to_string()),
            None => Err("there is no store: `--no-cache` was given".to_owned()),
        }
    }

    /// Keeps a file.
    pub fn keep_file(&self, file: &Path) -> Result<StoredFile, String> {
        match &self.0.cache {
            Some(cache) => cache
                .put_blob_file(file)
                .map(stored_file)
                .map_err(|error| error.to_string()),
            None => Err("there is no store: `--no-cache` was given".to_owned()),
        }
    }

    /// Writes a kept file to a path; `false` where the store has lost it.
    pub fn fetch(&self, file: &StoredFile, to: &Path) -> Result<bool, String> {
        match &self.0.cache {
            Some(cache) => cache
                .copy_blob(&blob_of_file(file), to)
                .map_err(|error| error.to_string()),
            None => Ok(false),
        }
    }

    /// Returns the bytes of a log; `None` where the store has lost them.
    pub fn log_bytes(&self, log: &Log) -> Option<Vec<u8>> {
        match &log.stored {
            None => Some(log.inline.clone()),
            Some(file) => self.0.cache.as_ref()?.get_blob(&blob_of_file(file)),
        }
    }

    /// Makes sure that all that was kept survives a power cut.
    pub fn flush(&self) -> Result<(), String> {
        match &self.0.cache {
            Some(cache) => cache.flush().map_err(|error| error.to_string()),
            None => Ok(()),
        }
    }
}

impl Snapshots for Store {
    fn can_restore(&self, version: &Version) -> bool {
        let Some(cache) = &self.0.cache else {
            return false;
        };
        match (blob_of(version), file_of_version(version)) {
            (Some(tree), _) => cache.has_tree(&tree),
            (None, Some(file)) => cache.has_blob(&file),
            (None, None) => false,
        }
    }
}

/// Returns the blobs of an output and its log: kept files are referred to by `aebuild:sha256:<hex>:<size>` anywhere in
/// its values.
pub(super) fn blobs_of(output: &Output, log: &Log) -> Vec<BlobRef> {
    let mut found = Vec::new();
    for entry in &output.entries {
        find_stored(&entry.value, &mut found);
    }
    found.extend(log.stored.iter().map(blob_of_file));
    found
}

fn find_stored(value: &Value, found: &mut Vec<BlobRef>) {
    match value {
        Value::String(text) => found.extend(StoredFile::from_url(text).map(|f| blob_of_file(&f))),
        Value::Array(items) => items.iter().for_each(|item| find_stored(item, found)),
        Value::Object(members) => members.values().for_each(|item| find_stored(item, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
