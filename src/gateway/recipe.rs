//! How an env was brought to where it is: the calls that may have changed it, and what they answered.
//!
//! A recipe is what a state is kept as where the state cannot be exported. To make the calls again gives the state again,
//! if the env answers the same; so each answer is compared.

use serde_json_path::JsonPath;

use crate::digest::Digest;
use crate::json::{Value, json};

/// The version of the form in which recipes are kept.
const VERSION: u64 = 1;

/// The kinds of calls that are made again.
const KINDS: [&str; 6] = ["tool", "data", "load", "extension", "access", "put"];

/// An answer longer than this is compared by its digest.
const INLINE: usize = 4 << 10;

/// One call to be made again.
#[derive(Clone, Debug, PartialEq)]
pub struct Recorded {
    /// What kind of call it is: `tool`, `load`, `reset`, `extension`, `access` or `put`.
    pub kind: String,
    /// The tool or method.
    pub name: String,
    /// The role.
    pub role: String,
    /// The arguments.
    pub arguments: Value,
    /// What the virtual clock showed, where there is one.
    pub time: Option<String>,
    /// What it answered, volatile places left out; long answers as `{"digest": ..}`.
    pub answer: Value,
}

/// The calls that made a state, in order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recipe {
    /// The calls.
    pub calls: Vec<Recorded>,
    /// The virtual clock and the triggers after them; null where there is neither.
    pub course: Value,
}

impl Recipe {
    /// Picks the calls that may have changed something out of a record.
    pub fn of_record(lines: &[u8], volatile: &[JsonPath]) -> Recipe {
        let lines = lines
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty());
        let calls = lines.filter_map(|line| {
            let line: Value = crate::json::from_slice(line).ok()?;
            if line.get("mutates") != Some(&Value::Bool(true)) {
                return None;
            }
            let text = |key: &str| line.get(key).and_then(Value::as_str).unwrap_or_default();
            // What triggers and clocks come to is kept as it is; the calls that triggers made are calls.
            if !KINDS.contains(&text("kind")) {
                return None;
            }
            let answer = match (line.get("result"), line.get("result_file")) {
                (Some(result), _) => answer(&Ok(result.clone()), volatile),
                (None, Some(file)) => json!({"digest": file["digest"]}),
                (None, None) => answer(&Err(text("error").to_owned()), volatile),
            };
            Some(Recorded {
                kind: text("kind").to_owned(),
                name: text("name").to_owned(),
                role: text("role").to_owned(),
                arguments: line.get("arguments").cloned().unwrap_or_default(),
                time: line
                    .get("virtual_time")
                    .and_then(Value::as_str)
                    .map(str::to_owned),
                answer,
            })
        });
        Recipe {
            calls: calls.collect(),
            course: Value::Null,
        }
    }

    /// Returns the bytes that the recipe is kept as: the same for the same calls and answers.
    pub fn to_bytes(&self) -> Vec<u8> {
        let calls = self.calls.iter().map(|call| {
            let mut value = json!({
                "kind": call.kind,
                "name": call.name,
                "role": call.role,
                "arguments": call.arguments,
                "answer": call.answer,
            });
            if let Some(time) = &call.time {
                value["virtual_time"] = json!(time);
            }
            value
        });
        let calls: Vec<Value> = calls.collect();
        let mut all = json!({"version": VERSION, "calls": calls});
        if !self.course.is_null() {
            all["course"] = self.course.clone();
        }
        all.to_string().into_bytes()
    }

    /// Reads a recipe back; `None` where the bytes are none.
    pub fn from_bytes(bytes: &[u8]) -> Option<Recipe> {
        let value: Value = crate::json::from_slice(bytes).ok()?;
        if value.get("version")?.as_u64()? != VERSION {
            return None;
        }
        let read = |call: &Value| {
            let text = |key: &str| Some(call.get(key)?.as_str()?.to_owned());
            Some(Recorded {
                kind: text("kind")?,
                name: text("name")?,
                role: text("role")?,
                arguments: call.get("arguments")?.clone(),
                time: text("virtual_time"),
                answer: call.get("answer")?.clone(),
            })
        };
        let calls = value.get("calls")?.as_array()?.iter().map(read);
        Some(Recipe {
            calls: calls.collect::<Option<_>>()?,
            course: value.get("course").cloned().unwrap_or_default(),
        })
    }
}

/// Returns what of an answer is compared.
pub(super) fn answer(answer: &Result<Value, String>, volatile: &[JsonPath]) -> Value {
    let value = match answer {
        Ok(result) => json!({"result": without_volatile(result, volatile)}),
        // What an error says may hold a time or a number; that it was one is what counts.
        Err(_) => json!({"error": true}),
    };
    let text = value.to_string();
    if text.len() > INLINE {
        return json!({"digest": Digest::of_bytes(value["result"].to_string().as_bytes()).to_string()});
    }
    value
}

/// Blanks the volatile places of a tool's result, in its structured content and in content that is JSON as text.
fn without_volatile(result: &Value, volatile: &[JsonPath]) -> Value {
    if volatile.is_empty() {
        return result.clone();
    }
    let mut result = result.clone();
    blank(&mut result, volatile);
    if let Some(structured) = result.get_mut("structuredContent") {
        blank(structured, volatile);
    }
    let items = result.get_mut("content").and_then(Value::as_array_mut);
    for item in items.into_iter().flatten() {
        let Some(text) = item.get("text").and_then(Value::as_str) else {
            continue;
        };
        if let Ok(mut value) = crate::json::from_slice::<Value>(text.as_bytes()) {
            blank(&mut value, volatile);
            item["text"] = Value::String(value.to_string());
        }
    }
    result
}

fn blank(value: &mut Value, volatile: &[JsonPath]) {
    for path in volatile {
        let found = path.query_located(value);
        let pointers: Vec<String> = found
            .iter()
            .map(|node| node.location().to_json_pointer())
            .collect();
        for pointer in pointers {
            if let Some(place) = value.pointer_mut(&pointer) {
                *place = Value::Null;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(texts: &[&str]) -> Vec<JsonPath> {
        texts
            .iter()
            .map(|text| JsonPath::parse(text).unwrap())
            .collect()
    }

    #[test]
    fn a_recipe_holds_the_calls_that_may_have_changed_something() {
        let lines = concat!(
            r#"{"at":1,"step":"s","role":"r","kind":"tool","name":"get","arguments":{},"result":{},"mutates":false,"took_us":1}"#,
            "\n",
            r#"{"at":2,"step":"s","role":"r","kind":"tool","name":"set","arguments":{"a":1},"result":{"content":[]},"mutates":true,"took_us":1}"#,
            "\n",
            r#"{"at":3,"step":"s","role":"r","kind":"tool","name":"set","arguments":{"a":2},"error":"at 12:00","mutates":true,"took_us":1}"#,
            "\n",
        );
        let recipe = Recipe::of_record(lines.as_bytes(), &[]);
        let names: Vec<String> = recipe
            .calls
            .iter()
            .map(|call| call.answer.to_string())
            .collect();
        assert_eq!(names, [r#"{"result":{"content":[]}}"#, r#"{"error":true}"#]);
        let bytes = recipe.to_bytes();
        assert_eq!(Recipe::from_bytes(&bytes), Some(recipe.clone()));
        let later = lines
            .replace("\"at\":2", "\"at\":9")
            .replace("\"took_us\":1", "\"took_us\":7");
        assert_eq!(Recipe::of_record(later.as_bytes(), &[]).to_bytes(), bytes);
        assert_eq!(Recipe::from_bytes(b"{}"), None);
    }

    #[test]
    fn volatile_places_of_an_answer_are_left_out_of_the_comparison() {
        let result = |id: &str, now: u32| {
            Ok(json!({
                "structuredContent": {"id": id, "text": "x"},
                "content": [{"type": "text", "text": format!("{{\"items\":[{{\"now\":{now}}}]}}")}],
            }))
        };
        let volatile = paths(&["$.id", "$..now"]);
        let one = answer(&result("a", 1), &volatile);
        assert_eq!(one, answer(&result("b", 2), &volatile));
        assert_ne!(answer(&result("a", 1), &[]), answer(&result("b", 1), &[]));
    }

    #[test]
    fn a_long_answer_is_compared_by_its_digest() {
        let long = |letter: &str| Ok(json!({"content": letter.repeat(10_000)}));
        assert_eq!(answer(&long("a"), &[]), answer(&long("a"), &[]));
        assert_ne!(answer(&long("a"), &[]), answer(&long("b"), &[]));
        assert!(answer(&long("a"), &[]).to_string().len() < 200);
    }
}
