//! The forms in which the states of the envs are exported and loaded.
//!
//! An export is a JSON list with one part, `{"kind": "data", "data": STATE}`. What is absent from a state that is loaded
//! has its default; a key that no state has is refused. Texts are written from where they are and read to where they
//! stay: none is copied on the way.

use std::collections::BTreeMap;
use std::io;

use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Serialize};

use super::{StateFault, base64};
use crate::json::{Map, Value};

/// The state of `mail`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Mail {
    pub(super) user_email: String,
    pub(super) now: String,
    pub(super) next_id: u64,
    pub(super) emails: Vec<Email>,
}

/// An email.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Email {
    pub(super) email_id: String,
    pub(super) folder: String,
    pub(super) sender: String,
    pub(super) recipients: Vec<String>,
    pub(super) subject: String,
    pub(super) content: String,
    pub(super) cc: Vec<String>,
    pub(super) parent_id: Option<String>,
    pub(super) attachments: Vec<Attachment>,
    pub(super) timestamp: String,
    pub(super) is_read: bool,
}

/// A file that comes with an email.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Attachment {
    pub(super) name: String,
    pub(super) content_type: String,
    pub(super) content: String,
}

/// The state of `calendar`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Events {
    pub(super) now: String,
    pub(super) next_id: u64,
    pub(super) events: Vec<Event>,
}

/// An event.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Event {
    pub(super) event_id: String,
    pub(super) title: String,
    pub(super) start: String,
    pub(super) end: String,
    pub(super) attendees: Vec<Attendee>,
    pub(super) location: String,
    pub(super) notes: String,
}

/// Who is invited to an event.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Attendee {
    pub(super) email: String,
    pub(super) answer: Answer,
}

/// What an attendee answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Answer {
    /// Nothing yet.
    #[default]
    None,
    /// Yes.
    Accepted,
    /// No.
    Declined,
    /// Perhaps.
    Tentative,
}

/// The state of `files`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Tree {
    pub(super) now: String,
    pub(super) files: BTreeMap<String, File>,
}

/// A file: one of `text` and `base64`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct File {
    pub(super) modified: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) text: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) base64: Option<String>,
}

/// The state of `kv`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Values {
    pub(super) now: String,
    pub(super) values: Map<String, Value>,
}

/// A part, as it is written.
#[derive(Serialize)]
struct WrittenPart<'a, S> {
    kind: &'static str,
    data: &'a S,
}

/// A part, as it is read.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReadPart<S> {
    kind: String,
    data: Option<S>,
    file: Option<PartFile>,
    #[serde(rename = "text")]
    _text: Option<IgnoredAny>,
    #[serde(rename = "metadata")]
    _metadata: Option<IgnoredAny>,
}

/// A file in a part.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PartFile {
    bytes: Option<String>,
    #[serde(rename = "uri")]
    _uri: Option<IgnoredAny>,
    #[serde(rename = "mimeType")]
    _mime_type: Option<IgnoredAny>,
    #[serde(rename = "name")]
    _name: Option<IgnoredAny>,
}

/// Returns the text of a value.
pub(super) fn write<S: Serialize>(value: &S) -> Vec<u8> {
    let mut bytes = Vec::new();
    serde_json::to_writer(&mut bytes, value).expect("bug: a state has texts for keys");
    bytes
}

fn parts_of<S: Serialize>(state: &S) -> [WrittenPart<'_, S>; 1] {
    [WrittenPart {
        kind: "data",
        data: state,
    }]
}

/// Returns the export of a state after bytes that are there already.
pub(super) fn write_parts<S: Serialize>(state: &S, mut bytes: Vec<u8>) -> Vec<u8> {
    serde_json::to_writer(&mut bytes, &parts_of(state)).expect("bug: a state has texts for keys");
    bytes
}

/// Returns whether the export of a state is this one; nothing is kept of what is written to find out.
pub(super) fn is_written<S: Serialize>(state: &S, parts: &[u8]) -> bool {
    let mut rest = Expected(parts);
    serde_json::to_writer(&mut rest, &parts_of(state)).is_ok() && rest.0.is_empty()
}

/// The bytes that are expected next; another one is an error.
struct Expected<'a>(&'a [u8]);

impl io::Write for Expected<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let rest = self.0.strip_prefix(bytes);
        self.0 = rest.ok_or(io::ErrorKind::InvalidData)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns an object of the protocol for a piece of a state.
pub(super) fn to_value<S: Serialize>(value: &S) -> Value {
    serde_json::to_value(value).expect("bug: a state has texts for keys")
}

/// Reads the state that a file holds.
pub(super) fn read_state<S: DeserializeOwned>(bytes: &[u8]) -> Result<S, StateFault> {
    serde_json::from_slice(bytes).map_err(|fault| {
        let said = fault.to_string();
        // The place is told apart.
        let place = format!(" at line {} column {}", fault.line(), fault.column());
        StateFault {
            why: said.strip_suffix(&place).unwrap_or(&said).to_owned(),
            at: (fault.line() > 0).then(|| (fault.line(), fault.column().max(1))),
        }
    })
}

/// Reads the states of an export.
pub(super) fn read_parts<S: DeserializeOwned>(bytes: &[u8]) -> Result<Vec<S>, String> {
    let parts: Vec<ReadPart<S>> =
        serde_json::from_slice(bytes).map_err(|fault| fault.to_string())?;
    parts.into_iter().map(state_of).collect()
}

/// Reads the state of a part; the outer error is a part that the protocol does not know.
pub(super) fn read_part<S: DeserializeOwned>(part: Value) -> Result<Result<S, String>, String> {
    let data = match part {
        Value::Object(mut part) => match part.get("kind").and_then(Value::as_str) {
            Some("data") => match part.remove("data") {
                Some(data @ Value::Object(_)) => data,
                _ => return Err("a part of kind `data` needs an object as `data`".to_owned()),
            },
            Some("file" | "text") => {
                let read: ReadPart<S> = serde_json::from_value(Value::Object(part))
                    .map_err(|fault| fault.to_string())?;
                return Ok(state_of(read));
            }
            _ => return Err("a part is of kind `data`, `file` or `text`".to_owned()),
        },
        _ => return Err("a part is an object".to_owned()),
    };
    Ok(serde_json::from_value(data).map_err(|fault| fault.to_string()))
}

fn state_of<S: DeserializeOwned>(part: ReadPart<S>) -> Result<S, String> {
    match (part.kind.as_str(), part.data, part.file) {
        ("data", Some(state), _) => Ok(state),
        ("data", None, _) => Err("a part of kind `data` has no `data`".to_owned()),
        ("file", _, Some(file)) => {
            let bytes = file
                .bytes
                .ok_or("a file that is given by its address is not fetched")?;
            let bytes = base64::decode(&bytes).ok_or("the bytes of a file are no base64")?;
            serde_json::from_slice(&bytes).map_err(|fault| format!("a file: {fault}"))
        }
        ("file", _, None) => Err("a part of kind `file` has no `file`".to_owned()),
        (kind, ..) => Err(format!(
            "a part of kind `{kind}` holds no state; only `data` and `file` do"
        )),
    }
}
