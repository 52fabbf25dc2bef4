//! How two states differ, field by field.

use std::borrow::Cow;

use crate::json::{self, Value, json};
use crate::steps::shown::head;

/// The most differences that are told of one comparison.
const MAX_TOLD: usize = 100;
/// The most characters that are shown of a value.
const MAX_SHOWN: usize = 80;

/// What is compared with what.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Between {
    /// What was loaded, and what came out.
    OriginalAndExport,
    /// What came out, and what came out after that was loaded.
    Exports,
}

impl Between {
    fn as_str(self) -> &'static str {
        match self {
            Between::OriginalAndExport => "original and export1",
            Between::Exports => "export1 and export2",
        }
    }
}

/// The differences between two states.
#[derive(Debug)]
pub(super) struct Differences {
    between: Between,
    /// The differences that are told.
    pub(super) told: Vec<Value>,
    /// The number of differences that are not told.
    pub(super) untold: usize,
    /// Whether one of them means that something is lost.
    pub(super) is_critical: bool,
}

impl Differences {
    fn add(&mut self, pointer: &str, issue: &str, was: Option<&Value>, is: Option<&Value>) {
        let is_critical = self.between == Between::Exports || issue == "lost";
        self.is_critical |= is_critical;
        if self.told.len() == MAX_TOLD {
            self.untold += 1;
            return;
        }
        let shown = |value: Option<&Value>| value.map(|value| head(&text_of(value), MAX_SHOWN));
        self.told.push(json!({
            "pointer": pointer,
            "issue": issue,
            "between": self.between.as_str(),
            "was": shown(was),
            "is": shown(is),
            "critical": is_critical,
        }));
    }

    /// Compares two values at a pointer, which is the same after as before.
    fn compare(&mut self, pointer: &mut String, was: &Value, is: &Value) {
        let length = pointer.len();
        match (was, is) {
            (Value::Object(was), Value::Object(is)) => {
                for (key, was) in was {
                    push(pointer, key);
                    match is.get(key) {
                        Some(is) => self.compare(pointer, was, is),
                        None => self.add(pointer, "lost", Some(was), None),
                    }
                    pointer.truncate(length);
                }
                for (key, is) in is.iter().filter(|(key, _)| !was.contains_key(*key)) {
                    push(pointer, key);
                    self.add(pointer, "added", None, Some(is));
                    pointer.truncate(length);
                }
            }
            (Value::Array(was), Value::Array(is)) => {
                for at in 0..was.len().max(is.len()) {
                    push(pointer, &at.to_string());
                    match (was.get(at), is.get(at)) {
                        (Some(was), Some(is)) => self.compare(pointer, was, is),
                        (was @ Some(_), None) => self.add(pointer, "lost", was, None),
                        (_, is) => self.add(pointer, "added", None, is),
                    }
                    pointer.truncate(length);
                }
            }
            (was, is) if was == is => {}
            (was, is) => self.add(pointer, "changed", Some(was), Some(is)),
        }
    }
}

/// Returns the start of a value as JSON; a long text is not written out whole.
fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => Value::String(head(text, MAX_SHOWN)).to_string(),
        value => value.to_string(),
    }
}

fn push(pointer: &mut String, key: &str) {
    pointer.push('/');
    let escaped = match key.contains(['~', '/']) {
        true => Cow::Owned(key.replace('~', "~0").replace('/', "~1")),
        false => Cow::Borrowed(key),
    };
    pointer.push_str(&escaped);
}

/// Returns what counts of a state: the data itself where it is one part of data, else the parts without their labels.
fn content(parts: &[u8]) -> Result<Value, String> {
    let mut parts: Vec<Value> = json::from_slice(parts)
        .map_err(|error| format!("the state is no list of parts: {error}"))?;
    for part in &mut parts {
        if let Some(part) = part.as_object_mut() {
            part.remove("metadata");
        }
        if let Some(file) = part.get_mut("file").and_then(Value::as_object_mut) {
            file.remove("name");
            file.remove("mimeType");
        }
    }
    if let [part] = &mut parts[..]
        && part.get("kind").and_then(Value::as_str) == Some("data")
        && let Some(data) = part.get_mut("data")
    {
        return Ok(data.take());
    }
    Ok(Value::Array(parts))
}

/// Returns how two states differ, both as lists of parts.
pub(super) fn compare(between: Between, was: &[u8], is: &[u8]) -> Result<Differences, String> {
    let mut differences = Differences {
        between,
        told: Vec::new(),
        untold: 0,
        is_critical: false,
    };
    if was == is {
        return Ok(differences);
    }
    let (was, is) = (content(was)?, content(is)?);
    if was.is_array() == is.is_array() {
        differences.compare(&mut String::new(), &was, &is);
    } else {
        // A dump that comes out as data, or the other way round, has no fields in common.
        differences.add("", "other_form", None, None);
    }
    Ok(differences)
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    fn differences(between: Between, was: Value, is: Value) -> String {
        let bytes = |value: Value| value.to_string().into_bytes();
        let found = compare(between, &bytes(was), &bytes(is)).unwrap();
        let told: String = found.told.iter().map(|one| format!("{one}\n")).collect();
        format!(
            "{told}critical: {}, {} more\n",
            found.is_critical, found.untold
        )
    }

    fn data(data: Value) -> Value {
        json!([{"kind": "data", "data": data}])
    }

    #[test]
    fn each_field_that_differs_is_named() {
        let was =
            data(json!({"a/b": {"x": 1, "~": [1, 2]}, "same": null, "long": "ä".repeat(200)}));
        let is = data(json!({"a/b": {"x": "1", "~": [1]}, "same": null, "long": "", "more": []}));
        expect![[r#"
            {"between":"original and export1","critical":false,"is":"\"1\"","issue":"changed","pointer":"/a~1b/x","was":"1"}
            {"between":"original and export1","critical":true,"is":null,"issue":"lost","pointer":"/a~1b/~0/1","was":"2"}
            {"between":"original and export1","critical":false,"is":"\"\"","issue":"changed","pointer":"/long","was":"\"äääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääää…"}
            {"between":"original and export1","critical":false,"is":"[]","issue":"added","pointer":"/more","was":null}
            critical: true, 0 more
        "#]]
        .assert_eq(&differences(Between::OriginalAndExport, was, is));
    }

    #[test]
    fn what_changes_from_export_to_export_is_critical() {
        let (was, is) = (data(json!({"at": 1})), data(json!({"at": 2})));
        expect![[r#"
            {"between":"export1 and export2","critical":true,"is":"2","issue":"changed","pointer":"/at","was":"1"}
            critical: true, 0 more
        "#]]
        .assert_eq(&differences(Between::Exports, was, is));
    }

    #[test]
    fn labels_of_files_do_not_count() {
        let file = |bytes: &str, name: &str| json!([{"kind": "file", "file": {"bytes": bytes, "name": name}, "metadata": {"name": name}}]);
        let between = Between::OriginalAndExport;
        expect![[r#"
            critical: false, 0 more
            {"between":"original and export1","critical":false,"is":"\"Qg==\"","issue":"changed","pointer":"/0/file/bytes","was":"\"QQ==\""}
            critical: false, 0 more
            {"between":"original and export1","critical":false,"is":null,"issue":"other_form","pointer":"","was":null}
            critical: false, 0 more
        "#]]
        .assert_eq(
            &[
                differences(between, file("QQ==", "a"), file("QQ==", "b")),
                differences(between, file("QQ==", "a"), file("Qg==", "b")),
                differences(between, file("QQ==", "a"), data(json!({}))),
            ]
            .concat(),
        );
    }

    #[test]
    fn of_many_differences_some_are_told() {
        let was = data(json!({"rows": (0..150).collect::<Vec<_>>()}));
        let text = differences(Between::OriginalAndExport, was, data(json!({"rows": []})));
        assert!(text.ends_with("critical: true, 50 more\n"), "{text}");
    }
}
