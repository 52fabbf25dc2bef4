//! What the schemas say of a place in a step: which fields fit, which values, and what they are for.

use super::cursor::Open;
use crate::json::{Map, Value};
use crate::step::{Registry, StepType};
use crate::task::parse::common_schema;

/// The part of a schema that holds for a place.
pub(super) type Schemas<'s> = Vec<&'s Value>;

/// A field that an object may have.
#[derive(Clone, Copy, Debug)]
pub(super) struct Field<'s> {
    pub name: &'s str,
    pub schema: &'s Value,
    pub is_required: bool,
}

/// Returns the schemas of a step: of its type, where that is known, and of the fields that every step has.
pub(super) fn of_step(types: Registry, kind: Option<&str>) -> Schemas<'static> {
    let own = kind.and_then(|kind| types.find(kind));
    let own = own.map(StepType::schema);
    own.into_iter().chain([common_schema()]).collect()
}

/// Returns the schemas that hold for the innermost of these containers, of which the first is the step.
pub(super) fn inner<'s>(types: Registry, open: &[Open]) -> Schemas<'s> {
    let kind = open.first().and_then(|step| step.text("type"));
    let mut schemas = of_step(types, kind);
    for (outer, inner) in open.iter().zip(open.iter().skip(1)) {
        schemas = match (outer.is_object, &outer.key) {
            (true, Some(key)) => value_of(&schemas, key),
            (true, None) => Vec::new(),
            (false, _) => items_of(&schemas),
        };
        schemas = fitting(&schemas, &|key| inner.text(key).map(str::to_owned));
    }
    schemas
}

/// Returns the schemas of the value of a field.
pub(super) fn value_of<'s>(schemas: &[&'s Value], key: &str) -> Schemas<'s> {
    let mut found = Vec::new();
    for schema in schemas {
        let own = schema.get("properties").and_then(|all| all.get(key));
        found.extend(own.or_else(|| schema.get("additionalProperties")));
    }
    flat(&found)
}

/// Returns the schemas of the items of a list.
pub(super) fn items_of<'s>(schemas: &[&'s Value]) -> Schemas<'s> {
    let items: Vec<&Value> = schemas.iter().filter_map(|one| one.get("items")).collect();
    flat(&items)
}

/// Returns schemas with all their alternatives beside them.
fn flat<'s>(schemas: &[&'s Value]) -> Schemas<'s> {
    let mut all: Schemas<'s> = Vec::new();
    let mut open: Vec<&Value> = schemas.iter().rev().copied().collect();
    while let Some(schema) = open.pop() {
        all.push(schema);
        for key in ["oneOf", "anyOf", "allOf"] {
            let inner = schema.get(key).and_then(Value::as_array);
            open.extend(inner.into_iter().flatten().rev());
        }
    }
    all
}

/// Leaves out the alternatives that the texts of an object rule out, such as those of another `type`.
fn fitting<'s>(schemas: &[&'s Value], text: &dyn Fn(&str) -> Option<String>) -> Schemas<'s> {
    let fits = |schema: &&&'s Value| {
        let Some(fields) = schema.get("properties").and_then(Value::as_object) else {
            return true;
        };
        fields.iter().all(|(name, field)| {
            let wanted = field.get("const").and_then(Value::as_str);
            wanted.is_none_or(|wanted| text(name).is_none_or(|text| text == wanted))
        })
    };
    schemas.iter().filter(fits).copied().collect()
}

/// Returns the schemas of a field by the keys that lead to it from the step, for the text members of the objects.
pub(super) fn field<'s>(
    types: Registry,
    kind: &str,
    node: &crate::json::Node,
    offset: usize,
) -> Option<(Field<'s>, String)> {
    use crate::json::NodeKind;
    let mut schemas = of_step(types, Some(kind));
    let mut node = node;
    loop {
        match &node.kind {
            NodeKind::Object(members) => {
                let member = members.iter().find(|member| {
                    super::touches(member.key_span, offset)
                        || super::touches(member.value.span, offset)
                })?;
                if super::touches(member.key_span, offset) {
                    let found = fields(&schemas);
                    let found = found.into_iter().find(|field| field.name == member.key)?;
                    return Some((found, member.key.clone()));
                }
                schemas = value_of(&schemas, &member.key);
                node = &member.value;
            }
            NodeKind::Array(items) => {
                let item = items
                    .iter()
                    .find(|item| super::touches(item.span, offset))?;
                schemas = items_of(&schemas);
                node = item;
            }
            _ => return None,
        }
        let inner = node;
        schemas = fitting(&schemas, &|key| inner.get(key)?.as_str().map(str::to_owned));
    }
}

/// Returns the fields that an object may have, those that it must have first.
pub(super) fn fields<'s>(schemas: &[&'s Value]) -> Vec<Field<'s>> {
    let mut found: Vec<Field<'s>> = Vec::new();
    for &schema in schemas {
        let required = schema.get("required").and_then(Value::as_array);
        let is_required =
            |name: &str| required.is_some_and(|all| all.iter().any(|one| one == name));
        let all: Option<&Map<String, Value>> = schema.get("properties").and_then(Value::as_object);
        for (name, field) in all.into_iter().flatten() {
            if found.iter().all(|known| known.name != name) {
                found.push(Field {
                    name,
                    schema: field,
                    is_required: is_required(name),
                });
            }
        }
    }
    found.sort_by_key(|field| !field.is_required);
    found
}

/// A value that a place may have, as JSON, and what it means.
pub(super) type Choice = (String, Option<String>);

/// Returns the values that a place may have, where they can be listed.
pub(super) fn choices(schemas: &[&Value]) -> Vec<Choice> {
    let mut found: Vec<Choice> = Vec::new();
    let mut add = |value: &Value, doc: Option<String>| {
        let text = value.to_string();
        if !value.is_null() && found.iter().all(|(known, _)| *known != text) {
            found.push((text, doc));
        }
    };
    for schema in schemas {
        let doc = || {
            let doc = schema.get("description").and_then(Value::as_str);
            doc.map(str::to_owned)
        };
        if let Some(value) = schema.get("const") {
            add(value, doc());
        }
        for value in schema
            .get("enum")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
        {
            add(value, None);
        }
        if kinds(schema).contains(&"boolean") {
            add(&Value::Bool(true), None);
            add(&Value::Bool(false), None);
        }
    }
    found
}

/// Returns the values that the members of alternatives may have: those of the `type` of a criterion, say.
pub(super) fn member_choices(schemas: &[&Value], key: &str) -> Vec<Choice> {
    let mut found: Vec<Choice> = Vec::new();
    for schema in schemas {
        let field = schema.get("properties").and_then(|all| all.get(key));
        let Some(field) = field else { continue };
        let doc = schema.get("description").and_then(Value::as_str);
        for (value, own) in choices(&flat(&[field])) {
            if found.iter().all(|(known, _)| *known != value) {
                found.push((value, own.or_else(|| doc.map(str::to_owned))));
            }
        }
    }
    found
}

/// Returns the names of the JSON types that a schema allows, `null` left out.
pub(super) fn kinds(schema: &Value) -> Vec<&str> {
    let named = match schema.get("type") {
        Some(Value::String(kind)) => vec![kind.as_str()],
        Some(Value::Array(kinds)) => kinds.iter().filter_map(Value::as_str).collect(),
        _ => {
            let inner = ["oneOf", "anyOf"]
                .into_iter()
                .filter_map(|key| schema.get(key)?.as_array());
            let mut found: Vec<&str> = inner.flatten().flat_map(kinds).collect();
            found.dedup();
            found
        }
    };
    named.into_iter().filter(|kind| *kind != "null").collect()
}

/// Returns what a field is, in one line: its types, whether it is needed, and what counts where it is left out.
pub(super) fn summary(field: &Field<'_>) -> String {
    let kinds = kinds(field.schema);
    let mut text = match kinds.is_empty() {
        true => "any value".to_owned(),
        false => kinds.join(" or "),
    };
    if field.is_required {
        text.push_str(", required");
    }
    let default = field.schema.get("default").filter(|value| !value.is_null());
    if let Some(default) = default {
        text.push_str(&format!(", {default} where it is left out"));
    }
    text
}

/// Returns what a field is for.
pub(super) fn doc(schema: &Value) -> Option<&str> {
    schema.get("description").and_then(Value::as_str)
}
