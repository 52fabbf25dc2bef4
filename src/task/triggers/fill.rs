//! Arguments with placeholders, such as `${result.email_id}`.

use super::find::Path;
use crate::json::{Map, Value};

/// Arguments in whose texts `${path}` stands for a value: `args` and `result` of the call that was watched for, or what a
/// check has bound. A `?` at the end allows that nothing is there.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Filling(Map<String, Value>);

/// A piece of a text.
enum Piece<'t> {
    Text(&'t str),
    Place { path: Path, is_optional: bool },
}

impl Filling {
    /// Reads arguments; the error holds the pointer of each text whose placeholder is none, and why.
    pub fn read(arguments: &Map<String, Value>) -> Result<Self, Vec<(String, String)>> {
        let mut faults = Vec::new();
        for (key, value) in arguments {
            look(&format!("/{}", escaped(key)), value, &mut faults);
        }
        match faults.is_empty() {
            true => Ok(Filling(arguments.clone())),
            false => Err(faults),
        }
    }

    /// Returns the arguments with what the placeholders stand for; the error names the placeholder for which nothing is
    /// there.
    pub fn fill(&self, scope: &Value) -> Result<Map<String, Value>, String> {
        fill_members(&self.0, scope)
    }
}

/// Writes a key as a part of a JSON pointer.
pub fn escaped(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

fn look(at: &str, value: &Value, faults: &mut Vec<(String, String)>) {
    match value {
        Value::String(text) => {
            if let Err(why) = pieces(text) {
                faults.push((at.to_owned(), why));
            }
        }
        Value::Array(items) => {
            for (ix, item) in items.iter().enumerate() {
                look(&format!("{at}/{ix}"), item, faults);
            }
        }
        Value::Object(members) => {
            for (key, value) in members {
                look(&format!("{at}/{}", escaped(key)), value, faults);
            }
        }
        _ => {}
    }
}

fn pieces(text: &str) -> Result<Vec<Piece<'_>>, String> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some(start) = rest.find("${") {
        if start > 0 {
            pieces.push(Piece::Text(&rest[..start]));
        }
        let inner = &rest[start + 2..];
        let end = inner
            .find('}')
            .ok_or_else(|| format!("`{}` has no `}}`", &rest[start..]))?;
        let name = inner[..end].trim();
        let (name, is_optional) = match name.strip_suffix('?') {
            Some(name) => (name, true),
            None => (name, false),
        };
        let path = Path::parse(name).map_err(|_| {
            format!("`${{{name}}}` names no value; write a path such as `${{args.recipients[0]}}`")
        })?;
        pieces.push(Piece::Place { path, is_optional });
        rest = &inner[end + 1..];
    }
    if !rest.is_empty() {
        pieces.push(Piece::Text(rest));
    }
    Ok(pieces)
}

fn fill_members(members: &Map<String, Value>, scope: &Value) -> Result<Map<String, Value>, String> {
    let mut filled = Map::new();
    for (key, value) in members {
        if let Some(value) = fill(value, scope)? {
            filled.insert(key.clone(), value);
        }
    }
    Ok(filled)
}

/// Fills a value; `None` where it is nothing but a placeholder for what may be absent, and is.
fn fill(value: &Value, scope: &Value) -> Result<Option<Value>, String> {
    Ok(Some(match value {
        Value::String(text) => return fill_text(text, scope),
        Value::Array(items) => {
            let mut filled = Vec::with_capacity(items.len());
            for item in items {
                filled.extend(fill(item, scope)?);
            }
            Value::Array(filled)
        }
        Value::Object(members) => Value::Object(fill_members(members, scope)?),
        other => other.clone(),
    }))
}

fn fill_text(text: &str, scope: &Value) -> Result<Option<Value>, String> {
    let pieces = pieces(text)?;
    let find = |path: &Path, is_optional: bool| match path.one(scope) {
        Some(value) => Ok(Some(value)),
        None if is_optional => Ok(None),
        None => Err(format!("nothing is at `${{{}}}`", path.as_str())),
    };
    // What is nothing but a placeholder keeps its type.
    if let [Piece::Place { path, is_optional }] = &pieces[..] {
        return find(path, *is_optional);
    }
    let mut filled = String::new();
    for piece in &pieces {
        match piece {
            Piece::Text(text) => filled.push_str(text),
            Piece::Place { path, is_optional } => match find(path, *is_optional)? {
                Some(Value::String(text)) => filled.push_str(&text),
                Some(other) => filled.push_str(&other.to_string()),
                None => {}
            },
        }
    }
    Ok(Some(Value::String(filled)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::json;

    fn fill(arguments: Value) -> String {
        let scope = json!({"args": {"to": ["dana@x", "sam@x"], "n": 3}, "result": {"id": "email-1"}, "who": "Dana"});
        let Value::Object(arguments) = arguments else {
            return "no arguments".to_owned();
        };
        match Filling::read(&arguments) {
            Ok(filling) => match filling.fill(&scope) {
                Ok(filled) => Value::Object(filled).to_string(),
                Err(why) => format!("not filled: {why}"),
            },
            Err(faults) => format!("{faults:?}"),
        }
    }

    #[test]
    fn placeholders_stand_for_values() {
        let check = |arguments, filled: &str| assert_eq!(fill(arguments), filled);
        check(
            json!({"to": "${args.to}", "n": "${args.n}"}),
            r#"{"n":3,"to":["dana@x","sam@x"]}"#,
        );
        check(
            json!({"text": "Re ${result.id}: ${args.n} for ${who}"}),
            r#"{"text":"Re email-1: 3 for Dana"}"#,
        );
        check(
            json!({"cc": "${args.cc?}", "text": "x${args.cc?}y", "list": ["${args.cc?}", 1]}),
            r#"{"list":[1],"text":"xy"}"#,
        );
        check(json!({"a": {"b": "$5 {x}"}}), r#"{"a":{"b":"$5 {x}"}}"#);
        check(
            json!({"a": "${args.cc}"}),
            "not filled: nothing is at `${args.cc}`",
        );
        check(
            json!({"a": "${", "b": {"c/d": ["${..}"]}, "e": "${}"}),
            r#"[("/a", "`${` has no `}`"), ("/b/c~1d/0", "`${..}` names no value; write a path such as `${args.recipients[0]}`"), ("/e", "`${}` names no value; write a path such as `${args.recipients[0]}`")]"#,
        );
    }
}
