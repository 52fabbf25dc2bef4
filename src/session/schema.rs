//! The JSON Schemas that editors complete and check with: of task files, `aebuild.toml`, `agent.toml` and `env.toml`.
//!
//! They are made from the same structs and keys that the parser checks with, and written in draft 7, which editors know
//! best. A task file's schema chooses the fields of a step by its type, so that only those are offered.

use crate::json::{Map, Value, json};
use crate::step::Registry;
use crate::task::config;
use crate::task::folder::definition_schema;
use crate::task::parse::{COMMON_FIELDS, common_schema};

const DRAFT: &str = "http://json-schema.org/draft-07/schema#";
/// The keys that are comments wherever an object stands.
const COMMENTS: &str = "^(//|\\$comment$)";

/// Returns the schema of a task file.
pub fn task_schema(registry: Registry) -> Value {
    let mut definitions = Map::new();
    let mut choices = Vec::new();
    let mut kinds: Vec<&str> = registry.0.iter().map(|known| known.name).collect();
    kinds.sort_unstable();
    for kind in &kinds {
        let Some(known) = registry.find(kind) else {
            continue;
        };
        let mut fields = known.schema().clone();
        let Some(schema) = fields.as_object_mut() else {
            continue;
        };
        schema.remove("$schema");
        schema.remove("title");
        let properties = schema.entry("properties").or_insert_with(|| json!({}));
        if let Some(properties) = properties.as_object_mut() {
            for name in COMMON_FIELDS {
                properties.entry(name).or_insert(Value::Bool(true));
            }
        }
        allow_comments(&mut fields);
        definitions.insert((*kind).to_owned(), fields);
        choices.push(json!({
            "if": {"properties": {"type": {"const": kind}}, "required": ["type"]},
            "then": {"$ref": format!("#/definitions/{kind}")},
        }));
    }
    let mut step = common_schema().clone();
    if let Some(type_field) = step.pointer_mut("/properties/type") {
        let known = kinds.iter().filter_map(|kind| registry.find(kind));
        let about: Vec<String> = known.map(|known| known.summary()).collect();
        type_field["enum"] = json!(kinds);
        type_field["enumDescriptions"] = json!(about);
    }
    allow_comments(&mut step);
    if let Some(step) = step.as_object_mut() {
        // Which fields there are is for the type to say.
        step.remove("additionalProperties");
        step.remove("patternProperties");
        step.insert("allOf".to_owned(), Value::Array(choices));
    }
    definitions.insert("step".to_owned(), step);
    json!({
        "$schema": DRAFT,
        "title": "A task of aebuild",
        "description": "The steps of a task, in the order in which they are listed.",
        "type": "array",
        "minItems": 1,
        "items": {"$ref": "#/definitions/step"},
        "definitions": definitions,
    })
}

/// Returns the schema of `aebuild.toml`.
pub fn config_schema() -> Value {
    let mut schema = config::keys_schema().clone();
    for key in config::KEYS {
        let mut at = &mut schema;
        let mut found = true;
        for part in key.path.split('.') {
            let pointer = match part {
                "*" => "/additionalProperties".to_owned(),
                name => format!("/properties/{name}"),
            };
            // The walk goes on only below what is there.
            if at.pointer(&pointer).is_none() {
                found = false;
                break;
            }
            at = at
                .pointer_mut(&pointer)
                .expect("bug: it was there just now");
        }
        if found && let Some(at) = at.as_object_mut() {
            at.insert("description".to_owned(), key.doc.into());
        }
    }
    schema["$schema"] = DRAFT.into();
    schema["title"] = "The configuration of aebuild".into();
    schema
}

/// Returns the schema of `agent.toml`.
pub fn agent_schema() -> Value {
    titled(definition_schema("agents"), "An agent of a task folder")
}

/// Returns the schema of `env.toml`.
pub fn env_schema() -> Value {
    titled(definition_schema("envs"), "An env of a task folder")
}

fn titled(mut schema: Value, title: &str) -> Value {
    schema["$schema"] = DRAFT.into();
    schema["title"] = title.into();
    schema
}

/// Lets comments stand in every object that has no other keys than those declared.
fn allow_comments(schema: &mut Value) {
    match schema {
        Value::Object(keywords) => {
            keywords.values_mut().for_each(allow_comments);
            if keywords.get("additionalProperties") == Some(&Value::Bool(false)) {
                keywords.insert("patternProperties".to_owned(), json!({COMMENTS: true}));
            }
        }
        Value::Array(items) => items.iter_mut().for_each(allow_comments),
        _ => {}
    }
}
