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
pub const FORMAT_VERSION: u32 = 1;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TraceForm {
    v: u32,
    key: String,
    parts: Vec<(String, String, String)>,
    reads: Vec<(PlaceForm, Option<String>)>,
    entries: Vec<(PlaceForm, String, Value)>,
    effects: Vec<(PlaceForm, String, u64)>,
    run: String,
    step: String,
    at: i64,
    took: u64,
    log: LogForm,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum LogForm {
    Text(String),
    Bytes(Vec<u8>),
    Stored(String, u64),
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
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

fn kind_name(kind: ResourceKind) -> &'static str {
    match kind {
        ResourceKind::Env => "env",
        ResourceKind::Agent => "agent",
        ResourceKind::Sandbox => "sandbox",
    }
}

fn resource_of(kind: &str, name: String) -> Option<ResourceId> {
    let kind = match kind {
        "env" => ResourceKind::Env,
        "agent" => ResourceKind::Agent,
        "sandbox" => ResourceKind::Sandbox,
        _ => return None,
    };
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
        ReadKey::State(id) => PlaceForm::State(kind_name(id.kind).to_owned(), id.name),
        ReadKey::Group(id) => PlaceForm::Group(kind_name(id.kind).to_owned(), id.name),
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
    let effect_form = |effect: &Effect| {
        let place = PlaceForm::State(
            kind_name(effect.resource.kind).to_owned(),
            effect.resource.name.clone(),
        );
        match effect.after {
            Version::Created(definition) => (place, definition.to_string(), u64::MAX),
            Version::State { tree, size } => (place, tree.to_string(), size),
        }
    };
    let log = match (&trace.log.stored, std::str::from_utf8(&trace.log.inline)) {
        (Some(file), _) => LogForm::Stored(Digest::from_bytes(file.sha256).to_string(), file.size),
        (None, Ok(text)) => LogForm::Text(text.to_owned()),
        (None, Err(_)) => LogForm::Bytes(trace.log.inline.clone()),
    };
    let part_form = |part: &Part| {
        (
            part.name.clone(),
            part.digest.to_string(),
            part.shown.clone(),
        )
    };
    let form = TraceForm {
        v: FORMAT_VERSION,
        key: trace.fingerprint.to_string(),
        parts: trace.manifest.parts.iter().map(part_form).collect(),
        reads: trace
            .reads
            .iter()
            .map(|read| {
                (
                    read_form(&read.key),
                    read.digest.map(|digest| digest.to_string()),
                )
            })
            .collect(),
        entries: trace
            .output
            .entries
            .iter()
            .map(|entry| {
                (
                    place_form(&entry.place),
                    entry.digest.to_string(),
                    (*entry.value).clone(),
                )
            })
            .collect(),
        effects: trace.output.effects.iter().map(effect_form).collect(),
        run: trace.made.run.clone(),
        step: trace.made.step.clone(),
        at: trace.made.started_us,
        took: trace.made.took_us,
        log,
    };
    serde_json::to_vec(&form).expect("bug: a trace has string keys only")
}

/// Reads a trace; `None` where the bytes are not one of this format.
pub fn decode(bytes: &[u8]) -> Option<Trace> {
    let form: TraceForm = serde_json::from_slice(bytes).ok()?;
    if form.v != FORMAT_VERSION {
        return None;
    }
    let mut parts = Vec::with_capacity(form.parts.len());
    for (name, digest, shown) in form.parts {
        parts.push(Part {
            name,
            digest: Digest::from_hex(&digest)?,
            shown,
        });
    }
    let mut reads = Vec::with_capacity(form.reads.len());
    for (key, digest) in form.reads {
        let digest = match digest {
            Some(text) => Some(Digest::from_hex(&text)?),
            None => None,
        };
        reads.push(Read {
            key: read_of(key)?,
            digest,
        });
    }
    let mut entries = Vec::with_capacity(form.entries.len());
    for (place, digest, value) in form.entries {
        let digest = Digest::from_hex(&digest)?;
        entries.push(Entry {
            place: place_of(place)?,
            value: Arc::new(value),
            digest,
        });
    }
    let mut effects = Vec::with_capacity(form.effects.len());
    for (place, digest, size) in form.effects {
        let ReadKey::State(resource) = read_of(place)? else {
            return None;
        };
        let digest = Digest::from_hex(&digest)?;
        let after = match size {
            u64::MAX => Version::Created(digest),
            size => Version::State { tree: digest, size },
        };
        effects.push(Effect { resource, after });
    }
    let log = match form.log {
        LogForm::Text(text) => Log {
            inline: text.into_bytes(),
            stored: None,
        },
        LogForm::Bytes(bytes) => Log {
            inline: bytes,
            stored: None,
        },
        LogForm::Stored(digest, size) => {
            let sha256 = *Digest::from_hex(&digest)?.as_bytes();
            Log {
                inline: Vec::new(),
                stored: Some(StoredFile { sha256, size }),
            }
        }
    };
    Some(Trace {
        fingerprint: Digest::from_hex(&form.key)?,
        manifest: Manifest { parts },
        reads,
        output: Arc::new(Output { entries, effects }),
        made: MadeBy {
            run: form.run,
            step: form.step,
            started_us: form.at,
            took_us: form.took,
        },
        log,
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
            effects: vec![Effect {
                resource: resource.clone(),
                after: Version::State { tree, size: 7 },
            }],
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
            },
            log: Log {
                inline: vec![0, 255, b'\n'],
                stored: None,
            },
        };
        assert_eq!(decode(&encode(&trace)), Some(trace));
    }

    #[test]
    fn damaged_bytes_are_no_trace() {
        assert_eq!(decode(b"{}"), None);
        assert_eq!(decode(b""), None);
        assert_eq!(decode(&[0xff; 10]), None);
    }
}
