//! The TOML files of a task folder, each checked against the keys that it may have.

use std::path::Path;

use super::entry::Reader;
use crate::diagnostic::{Diagnostic, Source};
use crate::json::{Map, Node, Value, json};
use crate::task::parse::toml;

/// A TOML file that was read.
pub(super) struct Settings {
    pub source: Source,
    pub node: Node,
    /// Whether the text is TOML, so that what is missing in the tree is missing in the file.
    pub is_whole: bool,
}

impl Settings {
    /// Returns the text of a key.
    pub fn text(&self, key: &str) -> Option<&str> {
        self.node.get(key)?.as_str()
    }

    /// Returns the settings as a value.
    pub fn value(&self) -> Value {
        self.node.to_value()
    }
}

impl Reader<'_> {
    /// Reads a TOML file if it is there.
    pub fn settings(&mut self, path: &Path, shown: &str) -> Option<Settings> {
        self.system.link_metadata(path).ok()?;
        let source = self.source(path, shown)?;
        let (node, faults) = toml::parse(&source);
        let is_whole = !toml::is_disorder(&faults);
        self.faults.extend(faults);
        Some(Settings {
            source,
            node,
            is_whole,
        })
    }

    /// Checks settings against the keys that they may have.
    pub fn check_settings(&mut self, settings: &Settings, keys: &Value, at: &str) {
        if !settings.is_whole {
            return;
        }
        self.faults
            .extend(toml::check(&settings.node, keys, &settings.source, at));
    }

    /// Returns the declared id, which must be a local one.
    pub fn declared_id(&mut self, settings: &Settings, at: &str) -> Option<String> {
        let written = settings.node.get("id")?;
        let id = written.as_str()?;
        let segments = id.strip_prefix("@local/").map(|rest| rest.split('/'));
        let is_good = segments.is_some_and(|mut segments| {
            segments.all(|segment| crate::task::parse::names::fault_of_name(segment).is_none())
        });
        if !is_good {
            let headline = format!("id `{id}` of {at} is not a local id");
            self.faults.push(
                Diagnostic::error("id-not-local", headline)
                    .primary(&settings.source, written.span, "not a local id")
                    .help("write \"@local/\" and a path of names, or delete the key"),
            );
        }
        Some(id.to_owned())
    }
}

/// Makes the schema of a table from its required and optional keys.
pub(super) fn table(required: &[(&str, Value)], optional: &[(&str, Value)]) -> Value {
    let properties: Map<String, Value> = required
        .iter()
        .chain(optional)
        .map(|(key, schema)| ((*key).to_owned(), schema.clone()))
        .collect();
    let required: Vec<&str> = required.iter().map(|(key, _)| *key).collect();
    json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    })
}

/// Returns the schema of a text.
pub(super) fn text() -> Value {
    json!({"type": "string", "minLength": 1})
}

/// Returns the schema of a list of texts.
pub(super) fn texts() -> Value {
    json!({"type": "array", "items": {"type": "string", "minLength": 1}})
}
