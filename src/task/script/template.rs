//! Values with holes: `{{path}}` stands for what a JSONPath finds.
//!
//! The path is `$.` and what is between the braces: `{{found.emails[0].email_id}}`. A text that is one hole and nothing
//! else becomes what was found, whatever its type; within a longer text a value that is no text is written as JSON. A path
//! that may find several things, such as one with `[*]`, gives a list of them.

use serde_json_path::JsonPath;

use crate::json::{Map, Value};

/// A value with holes.
#[derive(Clone, Debug)]
pub enum Template {
    /// A value without holes.
    Plain(Value),
    /// One hole, which keeps the type of what it finds.
    Hole(Path),
    /// A text with holes.
    Text(Vec<Piece>),
    /// A list.
    List(Vec<Template>),
    /// An object.
    Object(Vec<(String, Template)>),
}

/// A piece of a text.
#[derive(Clone, Debug)]
pub enum Piece {
    /// Stands for itself.
    Plain(String),
    /// Stands for what is found.
    Hole(Path),
}

/// Where something is looked up.
#[derive(Clone, Debug)]
pub struct Path {
    text: String,
    root: String,
    path: JsonPath,
    is_many: bool,
}

impl Template {
    /// Reads a template. Every fault is added to a list, with the JSON pointer of its place: that of the template and what is
    /// below it.
    pub fn read_at(value: &Value, at: &str, faults: &mut Vec<(String, String)>) -> Self {
        match value {
            Value::String(text) => Self::read_text(text, at, faults),
            Value::Array(items) => {
                let items = items.iter().enumerate();
                let read = |(ix, item): (usize, &Value)| {
                    Self::read_at(item, &format!("{at}/{ix}"), faults)
                };
                Template::List(items.map(read).collect())
            }
            Value::Object(members) => {
                let read = |(key, value): (&String, &Value)| {
                    let at = format!("{at}/{}", escaped(key));
                    (key.clone(), Self::read_at(value, &at, faults))
                };
                Template::Object(members.iter().map(read).collect())
            }
            plain => Template::Plain(plain.clone()),
        }
    }

    fn read_text(text: &str, at: &str, faults: &mut Vec<(String, String)>) -> Self {
        let mut pieces = Vec::new();
        let mut rest = text;
        while let Some((before, behind)) = rest.split_once("{{") {
            let Some((inner, after)) = behind.split_once("}}") else {
                let why = format!("`{{{{{behind}` is not closed by `}}}}`");
                faults.push((at.to_owned(), why));
                return Template::Plain(Value::Null);
            };
            match Path::read(inner) {
                Ok(path) if before.is_empty() && after.is_empty() && pieces.is_empty() => {
                    return Template::Hole(path);
                }
                Ok(path) => pieces.extend([Piece::Plain(before.to_owned()), Piece::Hole(path)]),
                Err(why) => faults.push((at.to_owned(), why)),
            }
            rest = after;
        }
        if pieces.is_empty() {
            return Template::Plain(Value::from(text));
        }
        pieces.push(Piece::Plain(rest.to_owned()));
        Template::Text(pieces)
    }

    /// Returns every hole, with the JSON pointer of the text that it is in.
    pub fn holes_below(&self, at: &str) -> Vec<(String, &Path)> {
        match self {
            Template::Plain(_) => Vec::new(),
            Template::Hole(path) => vec![(at.to_owned(), path)],
            Template::Text(pieces) => {
                let holes = pieces.iter().filter_map(|piece| match piece {
                    Piece::Hole(path) => Some((at.to_owned(), path)),
                    Piece::Plain(_) => None,
                });
                holes.collect()
            }
            Template::List(items) => {
                let items = items.iter().enumerate();
                items
                    .flat_map(|(ix, item)| item.holes_below(&format!("{at}/{ix}")))
                    .collect()
            }
            Template::Object(members) => {
                let members = members.iter();
                members
                    .flat_map(|(key, value)| value.holes_below(&format!("{at}/{}", escaped(key))))
                    .collect()
            }
        }
    }

    /// Returns the value, its holes filled; the error names the hole that finds nothing.
    pub fn fill(&self, scope: &Value) -> Result<Value, String> {
        Ok(match self {
            Template::Plain(value) => value.clone(),
            Template::Hole(path) => path.demand(scope)?,
            Template::Text(pieces) => {
                let mut text = String::new();
                for piece in pieces {
                    match piece {
                        Piece::Plain(plain) => text.push_str(plain),
                        Piece::Hole(path) => text.push_str(&shown(&path.demand(scope)?)),
                    }
                }
                Value::String(text)
            }
            Template::List(items) => {
                let items: Result<Vec<Value>, String> =
                    items.iter().map(|item| item.fill(scope)).collect();
                Value::Array(items?)
            }
            Template::Object(members) => {
                let filled = members
                    .iter()
                    .map(|(key, value)| Ok((key.clone(), value.fill(scope)?)));
                Value::Object(filled.collect::<Result<Map<_, _>, String>>()?)
            }
        })
    }

    /// Returns the value as a text.
    pub fn fill_text(&self, scope: &Value) -> Result<String, String> {
        self.fill(scope).map(|value| shown(&value))
    }

    /// Returns the items of the list that this is; a path that may find several things may find none.
    pub fn fill_list(&self, scope: &Value) -> Result<Vec<Value>, String> {
        let value = match self {
            Template::Hole(path) if path.is_many => {
                path.find(scope).unwrap_or(Value::Array(Vec::new()))
            }
            other => other.fill(scope)?,
        };
        match value {
            Value::Array(items) => Ok(items),
            other => Err(format!(
                "`for_each` needs a list, and this is none: {other}"
            )),
        }
    }

    /// Returns whether this finds something that is neither empty nor false nor 0.
    pub fn holds(&self, scope: &Value) -> bool {
        match self.fill(scope) {
            Err(_) | Ok(Value::Null | Value::Bool(false)) => false,
            Ok(Value::String(text)) => !text.is_empty(),
            Ok(Value::Array(items)) => !items.is_empty(),
            Ok(Value::Number(number)) => number.as_f64() != Some(0.0),
            Ok(_) => true,
        }
    }
}

impl Path {
    fn read(inner: &str) -> Result<Self, String> {
        let text = inner.trim();
        let hole = format!("{{{{{text}}}}}");
        let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let root = &text[..end.unwrap_or(text.len())];
        if !is_name(root) {
            return Err(format!("template `{hole}` does not start with a name"));
        }
        // Groups of a pattern have numbers, which no JSONPath takes behind a point.
        let number = text.strip_prefix("match.").unwrap_or_default();
        let digits = number.bytes().take_while(u8::is_ascii_digit).count();
        let path = match &number[..digits] {
            "" => format!("$.{text}"),
            digits => format!("$.match['{digits}']{}", &number[digits.len()..]),
        };
        let path = JsonPath::parse(&path).map_err(|fault| {
            let why = fault.message().lines().next().unwrap_or_default();
            format!("template `{hole}` is no JSONPath: {why}")
        })?;
        Ok(Path {
            is_many: may_find_several(text),
            root: root.to_owned(),
            text: hole,
            path,
        })
    }

    /// Returns the hole as it is written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the name that the path starts with.
    pub fn root(&self) -> &str {
        &self.root
    }

    /// Returns the name or number right behind the first name, where it is a plain one.
    pub fn second(&self) -> Option<String> {
        let inner = self.text.get(2 + self.root.len()..self.text.len() - 2)?;
        let plain = |text: &str| {
            let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
            let end = text.find(|c: char| !is_plain(c)).unwrap_or(text.len());
            let whole = text[end..].is_empty() || text[end..].starts_with(['.', '[']);
            (end > 0 && whole).then(|| text[..end].to_owned())
        };
        match inner.strip_prefix('.') {
            Some(rest) => plain(rest),
            None => {
                let quoted = inner
                    .strip_prefix("['")
                    .and_then(|rest| rest.split_once("']"));
                let quoted = quoted.or_else(|| {
                    inner
                        .strip_prefix("[\"")
                        .and_then(|rest| rest.split_once("\"]"))
                });
                plain(quoted?.0)
            }
        }
    }

    fn find(&self, scope: &Value) -> Option<Value> {
        let found = self.path.query(scope).all();
        if self.is_many && !found.is_empty() {
            return Some(found.into_iter().cloned().collect());
        }
        found.first().map(|value| (*value).clone())
    }

    fn demand(&self, scope: &Value) -> Result<Value, String> {
        self.find(scope)
            .ok_or_else(|| format!("template `{}` finds nothing", self.text))
    }
}

/// Returns a key as a part of a JSON pointer.
pub(super) fn escaped(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

/// Returns whether a name can start a path.
pub fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// Returns whether a JSONPath has a wildcard, a filter, a slice, a list or a descent.
fn may_find_several(path: &str) -> bool {
    let (mut quote, mut last) = (None, ' ');
    for c in path.chars() {
        match (quote, c) {
            (Some(open), c) if c == open && last != '\\' => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(c),
            (None, '*' | '?' | ':' | ',') => return true,
            (None, '.') if last == '.' => return true,
            (None, _) => {}
        }
        last = c;
    }
    false
}

/// Returns a value as it stands in a text.
fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::json;

    fn filled(template: Value) -> Result<Value, String> {
        let scope = json!({
            "prompt": "hello",
            "match": {"0": "ab", "1": "b"},
            "found": {"emails": [{"id": "m1", "n": 2}, {"id": "m2", "n": 3}], "odd key": true},
        });
        let mut faults = Vec::new();
        let template = Template::read_at(&template, "", &mut faults);
        match faults.is_empty() {
            true => template.fill(&scope),
            false => {
                let whys: Vec<String> = faults.into_iter().map(|(_, why)| why).collect();
                Err(whys.join("\n"))
            }
        }
    }

    #[test]
    fn a_hole_keeps_its_type_and_a_text_with_holes_is_a_text() {
        for (template, value) in [
            (json!("plain"), json!("plain")),
            (json!("{{found.emails[0].n}}"), json!(2)),
            (json!("{{ found.emails[-1] }}"), json!({"id": "m2", "n": 3})),
            (json!("n = {{found.emails[0].n}}!"), json!("n = 2!")),
            (json!("{{prompt}}{{match.1}}"), json!("hellob")),
            (json!("{{match['0']}}"), json!("ab")),
            (json!("{{found['odd key']}}"), json!(true)),
            (json!("{{found.emails[*].id}}"), json!(["m1", "m2"])),
            (json!("{{found.emails[?@.n > 2].id}}"), json!(["m2"])),
            (
                json!({"a": ["{{prompt}}", 1], "{{b}}": null}),
                json!({"a": ["hello", 1], "{{b}}": null}),
            ),
        ] {
            assert_eq!(filled(template.clone()), Ok(value), "{template}");
        }
    }

    #[test]
    fn what_is_empty_or_false_or_0_does_not_hold() {
        let scope =
            json!({"yes": [1, 0.5, "x", [0], {}, true], "no": [0, 0.0, "", [], null, false]});
        for (name, holds) in [("yes", true), ("no", false)] {
            for at in 0..6 {
                let template = json!(format!("{{{{{name}[{at}]}}}}"));
                let template = Template::read_at(&template, "", &mut Vec::new());
                assert_eq!(template.holds(&scope), holds, "{name} {at}");
            }
        }
    }

    #[test]
    fn a_hole_that_finds_nothing_is_named() {
        for (template, why) in [
            (
                "{{found.mails}}",
                "template `{{found.mails}}` finds nothing",
            ),
            (
                "x {{found.emails[7]}}",
                "template `{{found.emails[7]}}` finds nothing",
            ),
            (
                "{{found.emails[?@.n > 9]}}",
                "template `{{found.emails[?@.n > 9]}}` finds nothing",
            ),
            ("{{prompt", "`{{prompt` is not closed by `}}`"),
            ("{{}}", "template `{{}}` does not start with a name"),
            ("{{0.x}}", "template `{{0.x}}` does not start with a name"),
        ] {
            assert_eq!(filled(json!(template)), Err(why.to_owned()), "{template}");
        }
        let said = filled(json!("{{found.[}}")).unwrap_err();
        assert!(
            said.starts_with("template `{{found.[}}` is no JSONPath: "),
            "{said}"
        );
    }
}
