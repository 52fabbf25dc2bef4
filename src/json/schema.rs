//! Checks a tree against a JSON Schema and reports every place where it does not fit.
//!
//! The subset is what schemars 1 produces: types, properties, items, enumerations, ranges, lengths, patterns,
//! `oneOf`/`anyOf`/`allOf` and references into `$defs`. Keywords outside it are passed over. Where a choice has a tag,
//! faults are reported inside the branch that the tag names. Members that are comments are passed over everywhere.

mod choice;
mod scalar;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::{Member, Node, NodeKind, Span, is_comment};
use crate::diagnostic::{self, Diagnostic, Fix, Source, clip, cut, nearest};

/// References are followed at most this often for one value, so that a loop of them ends.
const MAX_REFERENCES: usize = 32;
/// Names that one help lists at most.
const MAX_NAMES: usize = 16;

/// Checks a value against a schema and returns all faults.
///
/// `at` says whose value it is, such as ``step `reply` (prompt_agent)``. Where the tree has [`NodeKind::Bad`] a fault
/// was already reported, so nothing more is said there.
pub fn check(node: &Node, schema: &Value, source: &Source, at: &str) -> Vec<Diagnostic> {
    let mut checker = Checker {
        root: schema,
        source,
        at,
        path: Vec::new(),
        faults: Vec::new(),
        active: Vec::new(),
    };
    checker.visit(node, schema);
    checker.faults
}

/// A walk over a tree and a schema side by side.
struct Checker<'a> {
    root: &'a Value,
    source: &'a Source,
    at: &'a str,
    path: Vec<Part<'a>>,
    faults: Vec<Diagnostic>,
    /// The values and schemas that are being checked, so that a schema that includes itself ends.
    active: Vec<(&'a Node, &'a Map<String, Value>)>,
}

/// One step from a value to one inside it.
enum Part<'a> {
    Key(&'a str),
    Index(usize),
}

/// The properties that a schema, or the branches of it that were taken, declare.
#[derive(Default)]
struct Known<'a> {
    names: Vec<&'a str>,
}

impl Known<'_> {
    /// Returns whether a property is declared. They are few, so a list is looked through.
    fn has(&self, name: &str) -> bool {
        self.names.contains(&name)
    }
}

impl<'a> Checker<'a> {
    /// Checks one value, and returns the properties that the schema knows for it.
    fn visit(&mut self, node: &'a Node, schema: &'a Value) -> Known<'a> {
        let Some(schema) = self.resolve(schema) else {
            return Known::default();
        };
        let is_same =
            |&(n, s): &(&Node, &Map<_, _>)| std::ptr::eq(n, node) && std::ptr::eq(s, schema);
        if node.is_bad() || self.active.iter().any(is_same) {
            return Known::default();
        }
        self.active.push((node, schema));
        let known = self.keywords(node, schema);
        self.active.pop();
        known
    }

    fn keywords(&mut self, node: &'a Node, schema: &'a Map<String, Value>) -> Known<'a> {
        let mut known = Known::default();
        if schema
            .get("type")
            .is_some_and(|types| !scalar::has_type(node, types))
        {
            self.wrong_type(node, &scalar::wanted(schema));
            return known;
        }
        self.values(node, schema);
        match &node.kind {
            NodeKind::Number(number) => self.number(node, *number, schema),
            NodeKind::String(text) => self.text(node, text, schema),
            NodeKind::Array(items) => self.items(node, items, schema),
            NodeKind::Object(members) => known = self.members(node, members, schema),
            _ => {}
        }
        for keyword in ["oneOf", "anyOf"] {
            if let Some(branches) = schema.get(keyword).and_then(Value::as_array) {
                let chosen = self.choice(node, branches);
                known.names.extend(chosen.names);
            }
        }
        for part in schema
            .get("allOf")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
        {
            let more = self.visit(node, part);
            known.names.extend(more.names);
        }
        if let (NodeKind::Object(members), Some(Value::Bool(false))) =
            (&node.kind, schema.get("unevaluatedProperties"))
        {
            self.unknown_fields(members, &known);
        }
        known
    }

    /// Follows references into `$defs` and returns the keywords, or `None` where everything is allowed.
    fn resolve(&self, schema: &'a Value) -> Option<&'a Map<String, Value>> {
        let mut schema = schema;
        for _ in 0..MAX_REFERENCES {
            let map = schema.as_object()?;
            match map.get("$ref").and_then(Value::as_str) {
                Some(reference) => schema = self.root.pointer(reference.strip_prefix('#')?)?,
                None => return Some(map),
            }
        }
        None
    }

    fn items(&mut self, node: &'a Node, items: &'a [Node], schema: &'a Map<String, Value>) {
        self.length(
            node,
            items.len(),
            ("item", "items"),
            schema.get("minItems"),
            schema.get("maxItems"),
        );
        let first = schema
            .get("prefixItems")
            .and_then(Value::as_array)
            .map_or(&[][..], Vec::as_slice);
        for (ix, item) in items.iter().enumerate() {
            if let Some(schema) = first.get(ix).or_else(|| schema.get("items")) {
                self.path.push(Part::Index(ix));
                self.visit(item, schema);
                self.path.pop();
            }
        }
    }

    fn members(
        &mut self,
        node: &'a Node,
        members: &'a [Member],
        schema: &'a Map<String, Value>,
    ) -> Known<'a> {
        let properties = schema.get("properties").and_then(Value::as_object);
        let names = properties
            .into_iter()
            .flat_map(Map::keys)
            .map(String::as_str)
            .collect();
        let known = Known { names };
        let additional = schema.get("additionalProperties");
        for member in members.iter().filter(|member| !is_comment(&member.key)) {
            let schema = properties
                .and_then(|properties| properties.get(&member.key))
                .or(additional.filter(|schema| schema.is_object()));
            if let Some(schema) = schema {
                self.path.push(Part::Key(&member.key));
                self.visit(&member.value, schema);
                self.path.pop();
            }
        }
        let required: Vec<_> = schema
            .get("required")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        let closed = additional == Some(&Value::Bool(false))
            || schema.get("unevaluatedProperties") == Some(&Value::Bool(false));
        let misspelt = |name: &str| {
            closed
                && members
                    .iter()
                    .any(|member| meant(&member.key, &known, members) == Some(name))
        };
        for name in required {
            if !members.iter().any(|member| member.key == name) && !misspelt(name) {
                self.missing_field(
                    node,
                    name,
                    properties.and_then(|properties| properties.get(name)),
                );
            }
        }
        if additional == Some(&Value::Bool(false)) {
            self.unknown_fields(members, &known);
        }
        known
    }

    fn unknown_fields(&mut self, members: &'a [Member], known: &Known<'_>) {
        for member in members
            .iter()
            .filter(|member| !is_comment(&member.key) && !known.has(&member.key))
        {
            let fault = Diagnostic::error(
                "unknown-field",
                format!("{} has no field `{}`", self.subject(), clip(&member.key)),
            )
            .primary(self.source, member.key_span, "not a field");
            let is_there = |name: &str| members.iter().any(|member| member.key == name);
            let free = known.names.iter().copied().filter(|name| !is_there(name));
            if let Some(mut near) = diagnostic::meant(&member.key, free.clone()) {
                // Two that mean the same cannot both be it.
                let is_rival = |other: &Member| {
                    !known.has(&other.key)
                        && other.key != member.key
                        && nearest(&other.key, free.clone()) == Some(&near.name)
                };
                let is_only = members.len() <= 100 && !members.iter().any(is_rival);
                near.is_sure &= is_only;
                self.faults.push(fault.meant(near));
                continue;
            }
            let delete = || {
                let whole = Span {
                    start: member.key_span.start,
                    end: member.value.span.end,
                };
                let is_json = self.source.slice(member.key_span).starts_with('"');
                is_json.then(|| {
                    let cut = cut(&self.source.text, whole);
                    Fix::offered("delete it").edit(self.source, cut, "")
                })
            };
            let there = nearest(&member.key, known.names.iter().copied());
            // Of two values for one field only the author knows which is right; of one value twice nothing is lost.
            let is_lost = there.is_some_and(|name| {
                let same = members.iter().filter(|other| other.key == name);
                !same
                    .map(|other| other.value.to_value())
                    .any(|value| value == member.value.to_value())
            });
            let help = match there {
                Some(name) => {
                    format!("did you mean `{name}`, which is there already? delete one of them")
                }
                None if known.names.is_empty() => "delete it; no fields are known here".to_owned(),
                None => {
                    format!(
                        "the fields are {}",
                        list(
                            known
                                .names
                                .iter()
                                .map(|name| Cow::Owned(format!("`{name}`")))
                        )
                    )
                }
            };
            let fix = if is_lost { None } else { delete() };
            self.faults.push(fault.help(help).fix(fix));
        }
    }

    fn missing_field(&mut self, node: &Node, name: &str, schema: Option<&'a Value>) {
        let schema = schema.and_then(|schema| self.resolve(schema));
        let example = schema.map_or("..".to_owned(), scalar::example);
        let start = node.span.start as usize;
        let fault = Diagnostic::error(
            "missing-field",
            format!("{} lacks the field `{name}`", self.subject()),
        )
        .primary(
            self.source,
            Span::new(start, start + 1),
            format!("`{name}` is missing here"),
        )
        .help(format!("add \"{name}\": {example}"));
        self.faults.push(fault);
    }

    fn wrong_type(&mut self, node: &Node, wanted: &str) {
        let fault = Diagnostic::error(
            "wrong-type",
            format!(
                "{} is {}, not {wanted}",
                self.subject(),
                scalar::found(node)
            ),
        )
        .primary(self.source, node.span, format!("{wanted} is needed here"))
        .help(scalar::repair(node, wanted))
        .fix(scalar::repaired(node, wanted, self.source));
        self.faults.push(fault);
    }

    /// Returns the value for use as the subject of a sentence: "`max_retries` of step `reply`".
    fn subject(&self) -> String {
        match self.path_text() {
            path if path.is_empty() => self.at.to_owned(),
            path => format!("`{path}` of {}", self.at),
        }
    }

    fn path_text(&self) -> String {
        let mut text = String::new();
        for part in &self.path {
            match part {
                Part::Key(key) if text.is_empty() => text.push_str(&clip(key)),
                Part::Key(key) => {
                    text.push('.');
                    text.push_str(&clip(key));
                }
                Part::Index(ix) => text.push_str(&format!("[{ix}]")),
            }
        }
        text
    }
}

/// Returns the known name that an unknown key probably stands for, if no other member has it.
fn meant<'k>(key: &str, known: &Known<'k>, members: &[Member]) -> Option<&'k str> {
    if known.has(key) || is_comment(key) {
        return None;
    }
    nearest(
        key,
        known
            .names
            .iter()
            .copied()
            .filter(|name| !members.iter().any(|member| member.key == *name)),
    )
}

/// Returns names as a list for a sentence, cut where it gets long.
fn list<'t>(names: impl Iterator<Item = Cow<'t, str>>) -> String {
    let names: Vec<_> = names.collect();
    let shown = names
        .iter()
        .take(MAX_NAMES)
        .map(|name| name.as_ref())
        .collect::<Vec<_>>()
        .join(", ");
    match names.len().saturating_sub(MAX_NAMES) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}
