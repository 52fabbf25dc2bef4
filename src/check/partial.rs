//! Steps known as far as they can be read: one field at fault does not hide what the other fields say.
//!
//! What does not fit its schema is left out where it may be absent, and else something stands in for it that no other step
//! can name. The step that comes of it is for rules alone: it is never planned and never run.

use std::sync::Arc;

use crate::diagnostic::nearest;
use crate::json::{Map, Value};
use crate::step::{Refusal, Registry, Step};
use crate::task::{StepDecl, StepIx};

/// A step that could not be built as it was written.
#[derive(Clone, Debug, Default)]
pub struct Partial {
    /// The step, where enough of it could be read.
    pub step: Option<Arc<dyn Step>>,
    /// What the step type refuses of the fields that could be read.
    pub refusals: Vec<Refusal>,
}

/// How often values inside values are looked at.
const MAX_DEPTH: usize = 32;

/// Reads a step as far as it goes; `refused` is what its type said of the fields as they were written.
pub fn partial(registry: &Registry, decl: &StepDecl, at: StepIx, refused: &[Refusal]) -> Partial {
    let stand_in = Value::String(format!("<step {}>", at.at() + 1));
    let mut fields = Value::Object(decl.fields.clone());
    let step_type = match registry.find(&decl.kind) {
        Some(step_type) => step_type,
        None => {
            // A slip in the name of a type, and all fields are those of the type that was meant.
            let names = registry.0.iter().map(|known| known.name);
            let meant = nearest(&decl.kind, names).and_then(|name| registry.find(name));
            match meant {
                Some(meant) if fit(&mut fields, meant.schema(), &stand_in, 0) == Fit::Fits => meant,
                _ => return Partial::default(),
            }
        }
    };
    let build = |fields: &Value| {
        let fields = fields.as_object().cloned().unwrap_or_default();
        (step_type.build)(&decl.id, &fields)
    };
    let whole = fit(&mut fields, step_type.schema(), &stand_in, 0);
    if whole == Fit::Not {
        return Partial::default();
    }
    let found = match whole {
        Fit::Fits => Err(refused.to_vec()),
        _ => build(&fields),
    };
    let refusals = match found {
        Ok(step) => {
            return Partial {
                step: Some(step.into()),
                refusals: Vec::new(),
            };
        }
        Err(refusals) => refusals,
    };
    let pointers: Vec<String> = refusals.iter().map(|one| one.field.clone()).collect();
    let as_written = |field: &str| {
        let written = pointer(&decl.fields, field);
        written.is_some() && written == fields.pointer(field)
    };
    let refusals = match whole {
        Fit::Fits => refusals,
        // What stands in for a field is not what the author wrote.
        _ => refusals
            .into_iter()
            .filter(|one| as_written(&one.field))
            .collect(),
    };
    let without = |is_whole: bool| {
        let mut fields = fields.clone();
        for pointer in &pointers {
            let pointer = match is_whole {
                true => pointer.split('/').take(2).collect::<Vec<_>>().join("/"),
                false => pointer.clone(),
            };
            remove(&mut fields, &pointer);
        }
        fit(&mut fields, step_type.schema(), &stand_in, 0);
        build(&fields).ok()
    };
    let step = without(false).or_else(|| without(true)).map(Arc::from);
    Partial { step, refusals }
}

fn pointer<'v>(fields: &'v Map<String, Value>, pointer: &str) -> Option<&'v Value> {
    let rest = pointer.strip_prefix('/')?;
    let (first, inner) = match rest.split_once('/') {
        Some((first, _)) => (first, &rest[first.len()..]),
        None => (rest, ""),
    };
    let first = first.replace("~1", "/").replace("~0", "~");
    fields.get(&first)?.pointer(inner)
}

/// Removes the member that a pointer leads to; an item of a list stays, so that the others keep their places.
fn remove(fields: &mut Value, pointer: &str) {
    let Some((parent, name)) = pointer.rsplit_once('/') else {
        return;
    };
    if let Some(Value::Object(members)) = fields.pointer_mut(parent) {
        members.remove(&name.replace("~1", "/").replace("~0", "~"));
    }
}

/// How a value fits its schema.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fit {
    /// As it is.
    Fits,
    /// As it was changed.
    Mended,
    /// Not, whatever is changed in it.
    Not,
}

/// Changes in a value what does not fit a schema.
fn fit(value: &mut Value, schema: &Value, stand_in: &Value, depth: usize) -> Fit {
    let Some(schema) = schema.as_object().filter(|_| depth < MAX_DEPTH) else {
        return Fit::Fits;
    };
    if schema
        .get("type")
        .is_some_and(|types| !has_type(value, types))
        || !is_among(value, schema)
        || !is_in_range(value, schema)
    {
        return Fit::Not;
    }
    let mut fits = match value {
        Value::Object(members) => fit_members(members, schema, stand_in, depth),
        Value::Array(items) => fit_items(items, schema, stand_in, depth),
        _ => Fit::Fits,
    };
    for keyword in ["oneOf", "anyOf"] {
        if let Some(branches) = schema.get(keyword).and_then(Value::as_array) {
            fits = worse(fits, fit_branch(value, branches, stand_in, depth));
        }
    }
    fits
}

fn worse(one: Fit, other: Fit) -> Fit {
    match (one, other) {
        (Fit::Not, _) | (_, Fit::Not) => Fit::Not,
        (Fit::Fits, Fit::Fits) => Fit::Fits,
        _ => Fit::Mended,
    }
}

/// Takes the branch that fits as it is, else the first that fits once it is changed.
fn fit_branch(value: &mut Value, branches: &[Value], stand_in: &Value, depth: usize) -> Fit {
    let mut mended = None;
    for branch in branches {
        let mut changed = value.clone();
        match fit(&mut changed, branch, stand_in, depth + 1) {
            Fit::Fits => return Fit::Fits,
            Fit::Mended => {
                mended.get_or_insert(changed);
            }
            Fit::Not => {}
        }
    }
    match mended {
        Some(changed) => {
            *value = changed;
            Fit::Mended
        }
        None => Fit::Not,
    }
}

fn fit_members(
    members: &mut Map<String, Value>,
    schema: &Map<String, Value>,
    stand_in: &Value,
    depth: usize,
) -> Fit {
    let none = Map::new();
    let known = schema.get("properties").and_then(Value::as_object);
    let known = known.unwrap_or(&none);
    let is_closed = schema.get("additionalProperties") == Some(&Value::Bool(false));
    let mut fits = Fit::Fits;
    if is_closed {
        let unknown = members.keys().filter(|name| !known.contains_key(*name));
        let unknown: Vec<String> = unknown.cloned().collect();
        for name in unknown {
            fits = Fit::Mended;
            let value = members.remove(&name);
            let absent = known.keys().filter(|other| !members.contains_key(*other));
            let meant = nearest(&name, absent.map(String::as_str)).map(str::to_owned);
            if let (Some(meant), Some(value)) = (meant, value) {
                members.insert(meant, value);
            }
        }
    }
    let required = schema.get("required").and_then(Value::as_array);
    let required: Vec<&str> = required
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    for (name, inner) in known {
        let found = match members.get_mut(name) {
            Some(value) => fit(value, inner, stand_in, depth + 1),
            None if required.contains(&name.as_str()) => Fit::Not,
            None => continue,
        };
        match found {
            Fit::Fits => {}
            Fit::Mended => fits = Fit::Mended,
            Fit::Not => {
                fits = Fit::Mended;
                // A tag that says another branch is no slip of this one.
                if inner.get("const").is_some() && members.contains_key(name) {
                    return Fit::Not;
                }
                match required.contains(&name.as_str()) {
                    true => members.insert(name.clone(), filler(inner, stand_in, 0)),
                    false => members.remove(name),
                };
            }
        }
    }
    fits
}

fn fit_items(
    items: &mut Vec<Value>,
    schema: &Map<String, Value>,
    stand_in: &Value,
    depth: usize,
) -> Fit {
    let none = Value::Bool(true);
    let inner = schema.get("items").unwrap_or(&none);
    let mut fits = Fit::Fits;
    for item in items.iter_mut() {
        match fit(item, inner, stand_in, depth + 1) {
            Fit::Fits => {}
            Fit::Mended => fits = Fit::Mended,
            Fit::Not => {
                *item = filler(inner, stand_in, 0);
                fits = Fit::Mended;
            }
        }
    }
    let least = schema.get("minItems").and_then(Value::as_u64).unwrap_or(0);
    if (items.len() as u64) < least.min(8) {
        items.push(filler(inner, stand_in, 0));
        fits = Fit::Mended;
    }
    fits
}

fn has_type(value: &Value, types: &Value) -> bool {
    let is = |name: &str| match (name, value) {
        ("null", Value::Null)
        | ("boolean", Value::Bool(_))
        | ("string", Value::String(_))
        | ("array", Value::Array(_))
        | ("object", Value::Object(_))
        | ("number", Value::Number(_)) => true,
        ("integer", Value::Number(number)) => {
            number.is_i64() || number.is_u64() || number.as_f64().is_some_and(|n| n.fract() == 0.0)
        }
        _ => false,
    };
    match types {
        Value::String(name) => is(name),
        Value::Array(names) => names.iter().filter_map(Value::as_str).any(is),
        _ => true,
    }
}

fn is_among(value: &Value, schema: &Map<String, Value>) -> bool {
    let listed = schema.get("enum").and_then(Value::as_array);
    listed.is_none_or(|values| values.contains(value))
        && schema.get("const").is_none_or(|only| only == value)
}

fn is_in_range(value: &Value, schema: &Map<String, Value>) -> bool {
    let number = |key: &str| schema.get(key).and_then(Value::as_f64);
    match value {
        Value::Number(written) => {
            let n = written.as_f64().unwrap_or(0.0);
            number("minimum").is_none_or(|least| n >= least)
                && number("maximum").is_none_or(|most| n <= most)
                && number("exclusiveMinimum").is_none_or(|least| n > least)
        }
        Value::String(text) => {
            let n = text.chars().count() as f64;
            number("minLength").is_none_or(|least| n >= least)
                && number("maxLength").is_none_or(|most| n <= most)
        }
        _ => true,
    }
}

/// Returns a value that fits a schema and says nothing.
fn filler(schema: &Value, stand_in: &Value, depth: usize) -> Value {
    let Some(map) = schema.as_object().filter(|_| depth < MAX_DEPTH) else {
        return Value::Null;
    };
    if let Some(value) = map.get("default").or_else(|| map.get("const")) {
        return value.clone();
    }
    if let Some(first) = map.get("enum").and_then(|values| values.get(0)) {
        return first.clone();
    }
    for keyword in ["oneOf", "anyOf"] {
        if let Some(first) = map.get(keyword).and_then(|branches| branches.get(0)) {
            return filler(first, stand_in, depth + 1);
        }
    }
    let kind = match map.get("type") {
        Some(Value::String(name)) => name.as_str(),
        Some(Value::Array(names)) => names.iter().find_map(Value::as_str).unwrap_or("null"),
        _ => "null",
    };
    match kind {
        "string" => stand_in.clone(),
        "boolean" => Value::Bool(false),
        "integer" | "number" => map
            .get("minimum")
            .cloned()
            .unwrap_or_else(|| Value::from(1)),
        "array" => Value::Array(Vec::new()),
        "object" => {
            let mut members = Map::new();
            fit_members(&mut members, map, stand_in, depth + 1);
            Value::Object(members)
        }
        _ => Value::Null,
    }
}
