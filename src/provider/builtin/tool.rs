//! Declarations of tools, and arguments that are checked against them.

use crate::diagnostic::nearest;
use crate::json::{Map, Value, json};

/// What a call of a tool does to the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// It only looks.
    Reads,
    /// It adds something, each time again.
    Adds,
    /// It sets something, to the same however often.
    Sets,
    /// It takes something away or writes over it.
    Destroys,
}

/// Declares a tool. The arguments are given as name and schema; the required ones come first.
pub(super) fn tool(
    name: &str,
    description: &str,
    effect: Effect,
    required: &[(&str, Value)],
    optional: &[(&str, Value)],
) -> Value {
    let properties: Map<String, Value> = required
        .iter()
        .chain(optional)
        .map(|(name, schema)| ((*name).to_owned(), schema.clone()))
        .collect();
    let required: Vec<&str> = required.iter().map(|(name, _)| *name).collect();
    json!({
        "name": name,
        "description": description,
        "inputSchema": {
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": false,
        },
        "annotations": {
            "readOnlyHint": effect == Effect::Reads,
            "destructiveHint": effect == Effect::Destroys,
            "idempotentHint": matches!(effect, Effect::Reads | Effect::Sets),
            "openWorldHint": false,
        },
    })
}

/// Marks a declared tool as one that nobody sees until a rule names it.
pub(super) fn hidden(mut tool: Value) -> Value {
    tool["_meta"] = json!({"agentenv.io/hiddenByDefault": true});
    tool
}

/// Returns the schema of a text.
pub(super) fn text(description: &str) -> Value {
    json!({"type": "string", "description": description})
}

/// Returns the schema of a text that is one of these.
pub(super) fn one_of(description: &str, values: &[&str]) -> Value {
    json!({"type": "string", "enum": values, "description": description})
}

/// Returns the schema of a list of texts.
pub(super) fn texts(description: &str) -> Value {
    json!({"type": "array", "items": {"type": "string"}, "description": description})
}

/// Returns the schema of a truth value.
pub(super) fn flag(description: &str) -> Value {
    json!({"type": "boolean", "description": description})
}

/// Returns the schema of a whole number.
pub(super) fn count(description: &str, minimum: i64) -> Value {
    json!({"type": "integer", "minimum": minimum, "description": description})
}

/// Returns the schema of any value.
pub(super) fn any(description: &str) -> Value {
    json!({"description": description})
}

/// Returns whether a declared tool only looks.
pub(super) fn only_reads(tool: &Value) -> bool {
    tool["annotations"]["readOnlyHint"] == true
}

/// The arguments of a call, which fit the schema of the tool.
pub(super) struct Arguments(Map<String, Value>);

impl Arguments {
    /// Checks arguments; the error names the one that does not fit.
    pub(super) fn check(tool: &Value, arguments: Map<String, Value>) -> Result<Self, String> {
        fit_object("", &arguments, &tool["inputSchema"])?;
        Ok(Arguments(arguments))
    }

    /// Returns an argument.
    pub(super) fn value(&self, name: &str) -> Option<&Value> {
        self.0.get(name)
    }

    /// Returns a text.
    pub(super) fn find_text(&self, name: &str) -> Option<&str> {
        self.0.get(name)?.as_str()
    }

    /// Returns a text, which is empty where it is absent.
    pub(super) fn text(&self, name: &str) -> &str {
        self.find_text(name).unwrap_or_default()
    }

    /// Returns a truth value, which is false where it is absent.
    pub(super) fn flag(&self, name: &str) -> bool {
        self.0.get(name) == Some(&Value::Bool(true))
    }

    /// Returns a whole number.
    pub(super) fn number(&self, name: &str) -> Option<i64> {
        self.0.get(name)?.as_i64()
    }

    /// Returns a number of things; what is too large for one is as large as it can be.
    pub(super) fn count(&self, name: &str, default: usize) -> usize {
        let number = self.0.get(name).and_then(Value::as_u64);
        number.map_or(default, |number| {
            usize::try_from(number).unwrap_or(usize::MAX)
        })
    }

    /// Returns a list of texts.
    pub(super) fn find_texts(&self, name: &str) -> Option<Vec<String>> {
        let items = self.0.get(name)?.as_array()?.iter();
        Some(items.filter_map(Value::as_str).map(str::to_owned).collect())
    }

    /// Returns a list of texts, which is empty where it is absent.
    pub(super) fn texts(&self, name: &str) -> Vec<String> {
        self.find_texts(name).unwrap_or_default()
    }
}

fn fit_object(at: &str, members: &Map<String, Value>, schema: &Value) -> Result<(), String> {
    let empty = Map::new();
    let properties = schema["properties"].as_object().unwrap_or(&empty);
    let path = |name: &str| {
        if at.is_empty() {
            name.to_owned()
        } else {
            format!("{at}.{name}")
        }
    };
    for (name, value) in members {
        match properties.get(name) {
            Some(schema) => fit(&path(name), value, schema)?,
            None => {
                let meant = nearest(name, properties.keys().map(String::as_str));
                let meant =
                    meant.map_or(String::new(), |meant| format!("; did you mean `{meant}`?"));
                return Err(format!("argument `{}` is not known{meant}", path(name)));
            }
        }
    }
    let required = schema["required"].as_array().into_iter().flatten();
    let mut required = required.filter_map(Value::as_str);
    match required.find(|name| !members.contains_key(*name)) {
        Some(name) => Err(format!("argument `{}` is missing", path(name))),
        None => Ok(()),
    }
}

fn fit(at: &str, value: &Value, schema: &Value) -> Result<(), String> {
    let is_fit = match schema["type"].as_str() {
        Some("string") => value.is_string(),
        Some("boolean") => value.is_boolean(),
        Some("integer") => value.is_i64() || value.is_u64(),
        Some("number") => value.is_number(),
        Some("array") => value.is_array(),
        Some("object") => value.is_object(),
        _ => true,
    };
    if !is_fit {
        let wanted = schema["type"].as_str().unwrap_or_default();
        return Err(format!("argument `{at}` must be of type {wanted}"));
    }
    if let Some(values) = schema["enum"].as_array()
        && !values.contains(value)
    {
        let values: Vec<String> = values.iter().map(Value::to_string).collect();
        return Err(format!(
            "argument `{at}` must be one of {}",
            values.join(", ")
        ));
    }
    if let (Some(number), Some(minimum)) = (value.as_i64(), schema["minimum"].as_i64())
        && number < minimum
    {
        return Err(format!("argument `{at}` must be at least {minimum}"));
    }
    if let (Some(items), Some(schema)) = (value.as_array(), schema.get("items")) {
        for (ix, item) in items.iter().enumerate() {
            fit(&format!("{at}[{ix}]"), item, schema)?;
        }
    }
    match (value.as_object(), schema.get("properties")) {
        (Some(members), Some(_)) => fit_object(at, members, schema),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_that_do_not_fit_are_named() {
        let attachment = json!({
            "type": "object", "properties": {"name": text("Its name.")}, "required": ["name"],
        });
        let declared = tool(
            "send",
            "Send.",
            Effect::Adds,
            &[("to", texts("To whom."))],
            &[
                ("limit", count("At most.", 1)),
                ("urgent", flag("Whether.")),
                ("how", one_of("How.", &["fast", "slow"])),
                ("files", json!({"type": "array", "items": attachment})),
                ("more", any("More.")),
            ],
        );
        let check = |arguments: Value| {
            let arguments = arguments.as_object().unwrap().clone();
            Arguments::check(&declared, arguments)
                .err()
                .unwrap_or_default()
        };
        for (arguments, fault) in [
            (json!({"to": ["a"], "more": null, "limit": 1}), ""),
            (json!({}), "argument `to` is missing"),
            (json!({"to": "a"}), "argument `to` must be of type array"),
            (
                json!({"to": [1]}),
                "argument `to[0]` must be of type string",
            ),
            (
                json!({"to": [], "limit": 0}),
                "argument `limit` must be at least 1",
            ),
            (
                json!({"to": [], "limit": 1.5}),
                "argument `limit` must be of type integer",
            ),
            (
                json!({"to": [], "urgnt": true}),
                "argument `urgnt` is not known; did you mean `urgent`?",
            ),
            (
                json!({"to": [], "how": "so"}),
                r#"argument `how` must be one of "fast", "slow""#,
            ),
            (
                json!({"to": [], "files": [{}]}),
                "argument `files[0].name` is missing",
            ),
        ] {
            assert_eq!(check(arguments.clone()), fault, "{arguments}");
        }
    }
}
