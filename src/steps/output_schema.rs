//! JSON Schemas that authors write: what is no schema is refused before anybody is asked to answer in it.

use crate::json::{Map, Value};
use crate::step::Refusal;

const TYPES: [&str; 7] = [
    "array", "boolean", "integer", "null", "number", "object", "string",
];

/// The deepest schema that is looked into.
const MAX_DEPTH: usize = 64;

/// Returns every place at which a value is no JSON Schema.
pub(super) fn refusals(field: &str, schema: &Option<Value>) -> Vec<Refusal> {
    let mut refusals = Vec::new();
    if let Some(schema) = schema.as_ref().filter(|schema| !schema.is_null()) {
        visit(schema, field, 0, &mut refusals);
    }
    refusals
}

fn refuse(at: String, what: String, help: &str, refusals: &mut Vec<Refusal>) {
    refusals.push(Refusal::new("not-a-schema", at, what).help(help));
}

fn visit(schema: &Value, at: &str, depth: usize, refusals: &mut Vec<Refusal>) {
    if depth > MAX_DEPTH || schema.is_boolean() {
        return;
    }
    let Some(members) = schema.as_object() else {
        let what = format!("a JSON Schema is an object, not {}", kind(schema));
        return refuse(
            at.to_owned(),
            what,
            "write a schema such as {\"type\": \"string\"}",
            refusals,
        );
    };
    types(members, at, refusals);
    for keyword in ["properties", "$defs", "definitions", "patternProperties"] {
        match members.get(keyword) {
            Some(Value::Object(inner)) => {
                for (name, schema) in inner {
                    let name = name.replace('~', "~0").replace('/', "~1");
                    visit(
                        schema,
                        &format!("{at}/{keyword}/{name}"),
                        depth + 1,
                        refusals,
                    );
                }
            }
            Some(other) => wrong(at, keyword, "an object of schemas", other, refusals),
            None => {}
        }
    }
    for keyword in ["items", "additionalProperties", "not", "contains"] {
        if let Some(inner) = members.get(keyword) {
            // Older drafts have a list of schemas in `items`.
            if !inner.is_array() {
                visit(inner, &format!("{at}/{keyword}"), depth + 1, refusals);
            }
        }
    }
    for keyword in ["anyOf", "oneOf", "allOf", "prefixItems"] {
        match members.get(keyword) {
            Some(Value::Array(all)) => {
                for (n, schema) in all.iter().enumerate() {
                    visit(schema, &format!("{at}/{keyword}/{n}"), depth + 1, refusals);
                }
            }
            Some(other) => wrong(at, keyword, "a list of schemas", other, refusals),
            None => {}
        }
    }
    match members.get("required") {
        Some(Value::Array(names)) if names.iter().all(Value::is_string) => {}
        Some(other) => wrong(at, "required", "a list of names", other, refusals),
        None => {}
    }
    if let Some(other) = members.get("enum").filter(|values| !values.is_array()) {
        wrong(at, "enum", "a list of values", other, refusals);
    }
    for keyword in [
        "minimum",
        "maximum",
        "minLength",
        "maxLength",
        "minItems",
        "maxItems",
    ] {
        if let Some(other) = members.get(keyword).filter(|value| !value.is_number()) {
            wrong(at, keyword, "a number", other, refusals);
        }
    }
}

fn types(members: &Map<String, Value>, at: &str, refusals: &mut Vec<Refusal>) {
    let mut check = |name: &str, at: String| {
        if !TYPES.contains(&name) {
            let near = crate::diagnostic::did_you_mean(name, TYPES);
            let help = near.unwrap_or_else(|| format!("the types are {}", TYPES.join(", ")));
            refuse(
                at,
                format!("`{name}` is no type of JSON Schema"),
                &help,
                refusals,
            );
        }
    };
    match members.get("type") {
        None => {}
        Some(Value::String(name)) => check(name, format!("{at}/type")),
        Some(Value::Array(names)) if names.iter().all(Value::is_string) => {
            for (n, name) in names.iter().enumerate() {
                check(name.as_str().unwrap_or_default(), format!("{at}/type/{n}"));
            }
        }
        Some(other) => wrong(at, "type", "the name of a type", other, refusals),
    }
}

fn wrong(at: &str, keyword: &str, wanted: &str, found: &Value, refusals: &mut Vec<Refusal>) {
    let found = match found {
        Value::Array(_) => "a list with something else in it",
        other => kind(other),
    };
    refuse(
        format!("{at}/{keyword}"),
        format!("`{keyword}` of a JSON Schema is {wanted}, not {found}"),
        &format!("write {wanted}"),
        refusals,
    );
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;
    use crate::json::json;

    fn check(schema: Value, expected: Expect) {
        let refusals = refusals("/output_format", &Some(schema));
        let each = refusals.iter().map(|one| {
            let help = one.help.as_deref().unwrap_or_default();
            format!("{}: {} ({help})\n", one.field, one.headline)
        });
        expected.assert_eq(&each.collect::<String>());
    }

    #[test]
    fn every_place_that_is_no_schema_is_told() {
        check(
            json!({
                "type": "objct",
                "properties": {"a": {"type": ["string", "nil"]}, "b": 3, "c/d": {"items": {"enum": 1}}},
                "required": "a",
                "anyOf": [{"minimum": "2"}],
            }),
            expect![[r#"
                /output_format/type: `objct` is no type of JSON Schema (did you mean `object`?)
                /output_format/properties/a/type/1: `nil` is no type of JSON Schema (the types are array, boolean, integer, null, number, object, string)
                /output_format/properties/b: a JSON Schema is an object, not a number (write a schema such as {"type": "string"})
                /output_format/properties/c~1d/items/enum: `enum` of a JSON Schema is a list of values, not a number (write a list of values)
                /output_format/anyOf/0/minimum: `minimum` of a JSON Schema is a number, not a string (write a number)
                /output_format/required: `required` of a JSON Schema is a list of names, not a string (write a list of names)
            "#]],
        );
        check(
            json!("string"),
            expect![[r#"
            /output_format: a JSON Schema is an object, not a string (write a schema such as {"type": "string"})
        "#]],
        );
    }

    #[test]
    fn schemas_as_they_are_written_are_fine() {
        for schema in [
            json!({}),
            json!(true),
            json!({"type": "object", "properties": {"a": true}, "additionalProperties": false}),
            json!({"type": ["string", "null"], "enum": ["a", null], "x-note": 1}),
            json!({"$ref": "#/$defs/a", "$defs": {"a": {"items": [{"type": "string"}]}}}),
        ] {
            assert_eq!(refusals("/f", &Some(schema.clone())), [], "{schema}");
        }
        assert_eq!(refusals("/f", &None), []);
    }
}
