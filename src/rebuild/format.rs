//! The bytes of a trace in the store.
//!
//! Readers ignore a record of another [`FORMAT_VERSION`], which is a miss; nothing is ever migrated in place.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::trace::{Log, MadeBy, Read, ReadKey, Trace};
use crate::context::{Entry, Lookup, Output, Place};
use crate::digest::{Digest, Manifest, Part};
use crate::json::Value;
use crate::resource::{Effect, ResourceId, ResourceKind, Version};
use crate::step::StoredFile;

/// The version of the trace format.
pub const FORMAT_VERSION: u32 = 3;

#[derive(Serialize, Deserialize)]
struct TraceForm {
    version: u32,
    key: [u8; 32],
    parts: Vec<(String, [u8; 8], String)>,
    reads: Vec<(PlaceForm, Option<[u8; 32]>)>,
    /// Place, the digest where it is not that of the value, and the value as JSON.
    entries: Vec<(PlaceForm, Option<[u8; 32]>, String)>,
    effects: Vec<(PlaceForm, VersionForm)>,
    run: String,
    step: String,
    started_us: i64,
    took_us: u64,
    attempt: u32,
    log: Vec<u8>,
    stored_log: Option<([u8; 32], u64)>,
}

#[derive(Serialize, Deserialize)]
enum PlaceForm {
    Env(String),
    Agent(String),
    Sandbox(String),
    Prompt(String),
    Set(Vec<String>),
    Append(Vec<String>),
    Metadata(Vec<String>),
    State(String, String),
    Group(String, String),
    GroupRun,
}

#[derive(Serialize, Deserialize)]
enum VersionForm {
    Created([u8; 32]),
    State([u8; 32], u64),
    Exported([u8; 32], u64),
    Recorded([u8; 32], u64),
    Lineage([u8; 32]),
}

fn version_form(version: &Version) -> VersionForm {
    match *version {
        Version::Created(definition) => VersionForm::Created(*definition.as_bytes()),
        Version::State { tree, size } => VersionForm::State(*tree.as_bytes(), size),
        Version::Exported { file, size } => VersionForm::Exported(*file.as_bytes(), size),
        Version::Recorded { file, size } => VersionForm::Recorded(*file.as_bytes(), size),
        Version::Lineage(history) => VersionForm::Lineage(*history.as_bytes()),
    }
}

fn version_of(form: VersionForm) -> Version {
    match form {
        VersionForm::Created(definition) => Version::Created(Digest::from_bytes(definition)),
        VersionForm::State(tree, size) => Version::State {
            tree: Digest::from_bytes(tree),
            size,
        },
        VersionForm::Exported(file, size) => Version::Exported {
            file: Digest::from_bytes(file),
            size,
        },
        VersionForm::Recorded(file, size) => Version::Recorded {
            file: Digest::from_bytes(file),
            size,
        },
        VersionForm::Lineage(history) => Version::Lineage(Digest::from_bytes(history)),
    }
}

fn resource_of(kind: &str, name: String) -> Option<ResourceId> {
    let kind = ResourceKind::from_word(kind)?;
    Some(ResourceId { kind, name })
}

fn place_form(place: &Place) -> PlaceForm {
    match place.clone() {
        Place::Env(name) => PlaceForm::Env(name),
        Place::Agent(name) => PlaceForm::Agent(name),
        Place::Sandbox(name) => PlaceForm::Sandbox(name),
        Place::Prompt(name) => PlaceForm::Prompt(name),
        Place::Set(path) => PlaceForm::Set(path),
        Place::Append(path) => PlaceForm::Append(path),
    }
}

fn place_of(form: PlaceForm) -> Option<Place> {
    Some(match form {
        PlaceForm::Env(name) => Place::Env(name),
        PlaceForm::Agent(name) => Place::Agent(name),
        PlaceForm::Sandbox(name) => Place::Sandbox(name),
        PlaceForm::Prompt(name) => Place::Prompt(name),
        PlaceForm::Set(path) if !path.is_empty() => Place::Set(path),
        PlaceForm::Append(path) if !path.is_empty() => Place::Append(path),
        _ => return None,
    })
}

fn read_form(key: &ReadKey) -> PlaceForm {
    match key.clone() {
        ReadKey::Lookup(Lookup::Env(name)) => PlaceForm::Env(name),
        ReadKey::Lookup(Lookup::Agent(name)) => PlaceForm::Agent(name),
        ReadKey::Lookup(Lookup::Sandbox(name)) => PlaceForm::Sandbox(name),
        ReadKey::Lookup(Lookup::Prompt(name)) => PlaceForm::Prompt(name),
        ReadKey::Lookup(Lookup::Metadata(path)) => PlaceForm::Metadata(path),
        ReadKey::State(id) => PlaceForm::State(id.kind.as_str().to_owned(), id.name),
        ReadKey::Group(id) => PlaceForm::Group(id.kind.as_str().to_owned(), id.name),
        ReadKey::GroupRun => PlaceForm::GroupRun,
    }
}

fn read_of(form: PlaceForm) -> Option<ReadKey> {
    Some(match form {
        PlaceForm::Env(name) => ReadKey::Lookup(Lookup::Env(name)),
        PlaceForm::Agent(name) => ReadKey::Lookup(Lookup::Agent(name)),
        PlaceForm::Sandbox(name) => ReadKey::Lookup(Lookup::Sandbox(name)),
        PlaceForm::Prompt(name) => ReadKey::Lookup(Lookup::Prompt(name)),
        PlaceForm::Metadata(path) if !path.is_empty() => ReadKey::Lookup(Lookup::Metadata(path)),
        PlaceForm::State(kind, name) => ReadKey::State(resource_of(&kind, name)?),
        PlaceForm::Group(kind, name) => ReadKey::Group(resource_of(&kind, name)?),
        PlaceForm::GroupRun => ReadKey::GroupRun,
        _ => return None,
    })
}

/// Writes a trace.
pub fn encode(trace: &Trace) -> Vec<u8> {
    let state = |resource: &ResourceId| {
        PlaceForm::State(resource.kind.as_str().to_owned(), resource.name.clone())
    };
    let effect_form = |effect: &Effect| (state(&effect.resource), version_form(&effect.after));
    let entry_form = |entry: &Entry| {
        let data = Entry::data(entry.place.clone(), (*entry.value).clone());
        let digest = (data.digest != entry.digest).then_some(*entry.digest.as_bytes());
        (place_form(&entry.place), digest, entry.value.to_string())
    };
    let read_form = |read: &Read| (read_form(&read.key), read.digest.map(|d| *d.as_bytes()));
    let part_form = |part: &Part| (part.name.clone(), part.mark(), part.shown.clone());
    let form = TraceForm {
        version: FORMAT_VERSION,
        key: *trace.fingerprint.as_bytes(),
        parts: trace.manifest.parts.iter().map(part_form).collect(),
        reads: trace.reads.iter().map(read_form).collect(),
        entries: trace.output.entries.iter().map(entry_form).collect(),
        effects: trace.output.effects.iter().map(effect_form).collect(),
        run: trace.made.run.clone(),
        step: trace.made.step.clone(),
        started_us: trace.made.started_us,
        took_us: trace.made.took_us,
        attempt: trace.made.attempt,
        log: trace.log.inline.clone(),
        stored_log: trace.log.stored.map(|file| (file.sha256, file.size)),
    };
    postcard::to_allocvec(&form).expect("bug: a trace is plain data")
}

/// Reads a trace; `None` where the bytes are not one of this format.
pub fn decode(bytes: &[u8]) -> Option<Trace> {
    let form: TraceForm = postcard::from_bytes(bytes).ok()?;
    if form.version != FORMAT_VERSION {
        return None;
    }
    let parts = form.parts.into_iter();
    let parts = parts
        .map(|(name, mark, shown)| Part::marked(name, mark, shown))
        .collect();
    let mut reads = Vec::with_capacity(form.reads.len());
    for (key, digest) in form.reads {
        reads.push(Read {
            key: read_of(key)?,
            digest: digest.map(Digest::from_bytes),
        });
    }
    let mut entries = Vec::with_capacity(form.entries.len());
    for (place, digest, text) in form.entries {
        let value: Value = serde_json::from_str(&text).ok()?;
        let mut entry = Entry::data(place_of(place)?, value);
        if let Some(digest) = digest {
            entry.digest = Digest::from_bytes(digest);
        }
        entries.push(entry);
    }
    let mut effects = Vec::with_capacity(form.effects.len());
    for (place, version) in form.effects {
        let ReadKey::State(resource) = read_of(place)? else {
            return None;
        };
        let after = version_of(version);
        effects.push(Effect { resource, after });
    }
    let stored = form
        .stored_log
        .map(|(sha256, size)| StoredFile { sha256, size });
    Some(Trace {
        fingerprint: Digest::from_bytes(form.key),
        manifest: Manifest { parts },
        reads,
        output: Arc::new(Output { entries, effects }),
        made: MadeBy {
            run: form.run,
            step: form.step,
            started_us: form.started_us,
            took_us: form.took_us,
            attempt: form.attempt,
        },
        log: Log {
            inline: form.log,
            stored,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::json;

    #[test]
    fn a_trace_reads_back_as_it_was_written() {
        let mut manifest = Manifest::default();
        manifest.value("field `a`", &json!({"x": [1, null]}));
        let resource = ResourceId::sandbox("box");
        let tree = Digest::of_bytes(b"tree");
        let output = Output {
            entries: vec![
                Entry::data(Place::Set(vec!["k".to_owned(), "a".to_owned()]), json!(1.5)),
                Entry::live(Place::Sandbox("box".to_owned()), json!({"id": 1}), &tree),
            ],
            effects: [
                Version::Created(tree),
                Version::State { tree, size: 7 },
                Version::Exported {
                    file: tree,
                    size: 8,
                },
                Version::Recorded {
                    file: tree,
                    size: 9,
                },
                Version::Lineage(tree),
            ]
            .map(|after| Effect {
                resource: resource.clone(),
                after,
            })
            .to_vec(),
        };
        let trace = Trace {
            fingerprint: manifest.finish(),
            manifest,
            reads: vec![
                Read {
                    key: ReadKey::State(resource),
                    digest: Some(tree),
                },
                Read {
                    key: ReadKey::Lookup(Lookup::verification("v")),
                    digest: None,
                },
            ],
            output: Arc::new(output),
            made: MadeBy {
                run: "r".to_owned(),
                step: "t/s".to_owned(),
                started_us: -1,
                took_us: 2,
                attempt: 3,
            },
            log: Log {
                inline: vec![0, 255, b'\n'],
                stored: None,
            },
        };
        let mut expected = trace.clone();
        for part in &mut expected.manifest.parts {
            *part = Part::marked(part.name.clone(), part.mark(), part.shown.clone());
        }
        assert_eq!(decode(&encode(&trace)), Some(expected));
    }

    #[test]
    fn damaged_bytes_are_no_trace() {
        assert_eq!(decode(b"{}"), None);
        assert_eq!(decode(b""), None);
        assert_eq!(decode(&[0xff; 10]), None);
    }
}
