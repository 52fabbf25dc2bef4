//! Types, values, ranges and lengths of single values, and the words for them.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::super::pattern::Pattern;
use super::{Checker, list};
use crate::diagnostic::{Diagnostic, Fix, Source, clip, meant};
use crate::json::{Node, NodeKind, Number, Span};

/// Returns whether a value has one of the types that a `type` keyword allows.
pub(super) fn has_type(node: &Node, types: &Value) -> bool {
    match types {
        Value::String(name) => has_type_named(node, name),
        Value::Array(names) => names
            .iter()
            .filter_map(Value::as_str)
            .any(|name| has_type_named(node, name)),
        _ => true,
    }
}

fn has_type_named(node: &Node, name: &str) -> bool {
    match (&node.kind, name) {
        (NodeKind::Bad, _) | (NodeKind::Null, "null") | (NodeKind::Bool(_), "boolean") => true,
        (NodeKind::Number(number), "integer") => !matches!(number, Number::Float(_)),
        (NodeKind::Number(_), "number") | (NodeKind::String(_), "string") => true,
        (NodeKind::Array(_), "array") | (NodeKind::Object(_), "object") => true,
        _ => false,
    }
}

/// Returns what a schema asks for, for use in a sentence: "a whole number from 1 to 60".
pub(super) fn wanted(schema: &Map<String, Value>) -> Cow<'static, str> {
    if let Some(values) = values(schema) {
        return Cow::Owned(if values.len() == 1 {
            shown(&values)
        } else {
            format!("one of {}", shown(&values))
        });
    }
    let names: Vec<&str> = match schema.get("type") {
        Some(Value::String(name)) => vec![name],
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
        _ => return Cow::Borrowed("a value"),
    };
    let words: Vec<_> = names.iter().map(|name| words(name, schema)).collect();
    Cow::Owned(match words.as_slice() {
        [] => "a value".to_owned(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} or {last}", first.join(", ")),
    })
}

fn words(name: &str, schema: &Map<String, Value>) -> String {
    let name = match name {
        "null" => "`null`",
        "boolean" => "`true` or `false`",
        "integer" | "number" => {
            let name = if name == "integer" {
                "a whole number"
            } else {
                "a number"
            };
            return match Range::of(schema).words() {
                words if words.is_empty() => name.to_owned(),
                words => format!("{name} {words}"),
            };
        }
        "string" => "a string",
        "array" => "an array",
        "object" => "an object",
        other => other,
    };
    name.to_owned()
}

/// Returns a value to start from, as text that can be typed.
pub(super) fn example(schema: &Map<String, Value>) -> String {
    if let Some(value) = schema
        .get("default")
        .or_else(|| values(schema)?.first().copied())
    {
        return value.to_string();
    }
    let name = match schema.get("type") {
        Some(Value::Array(names)) => names.first().and_then(Value::as_str),
        name => name.and_then(Value::as_str),
    };
    match name {
        Some("string") => "\"..\"".to_owned(),
        Some("array") => "[..]".to_owned(),
        Some("object") => "{..}".to_owned(),
        Some("boolean") => "true".to_owned(),
        Some("integer" | "number") => Range::of(schema)
            .min
            .filter(|min| !min.excluded)
            .map_or("1".to_owned(), Bound::shown),
        _ => "..".to_owned(),
    }
}

/// Returns what a value is, with the number itself where that helps.
pub(super) fn found(node: &Node) -> Cow<'static, str> {
    match &node.kind {
        NodeKind::Number(Number::Float(number)) => Cow::Owned(format!("the number {number:?}")),
        _ => Cow::Borrowed(node.kind_name()),
    }
}

/// Returns how to turn a value into the one that is wanted, where that is plain.
pub(super) fn repair(node: &Node, wanted: &str) -> Option<String> {
    let wants = |what: &str| wanted.contains(what);
    match &node.kind {
        NodeKind::Number(Number::Float(number)) if wants("whole number") => {
            if number.fract() == 0.0 && number.abs() < 9e15 {
                Some(format!("write {}", *number as i64))
            } else {
                Some("round it to a whole number".to_owned())
            }
        }
        NodeKind::String(text) if wants("number") && text.parse::<f64>().is_ok() => {
            Some("delete the quotes".to_owned())
        }
        NodeKind::String(text) if wants("`true`") && matches!(text.as_str(), "true" | "false") => {
            Some("delete the quotes".to_owned())
        }
        NodeKind::Number(_) | NodeKind::Bool(_) if wants("a string") => {
            Some("write it in double quotes".to_owned())
        }
        NodeKind::Null => Some("delete it, or write a value".to_owned()),
        NodeKind::String(_) | NodeKind::Object(_) if wants("an array") => {
            Some("write it in `[` and `]`".to_owned())
        }
        _ => Some(format!("write {wanted}")),
    }
}

/// Returns the edit that turns a value into the one that is wanted, where that is beyond doubt.
pub(super) fn repaired(node: &Node, wanted: &str, source: &Source) -> Option<Fix> {
    let wants = |what: &str| wanted.contains(what);
    let is_json = source.slice(node.span).starts_with('"');
    match &node.kind {
        NodeKind::Number(Number::Float(number)) if wants("whole number") => {
            (number.fract() == 0.0 && number.abs() < 9e15).then(|| {
                let whole = (*number as i64).to_string();
                Fix::sure(format!("write {whole}")).edit(source, node.span, whole)
            })
        }
        NodeKind::String(text) if is_json => {
            let fits = match serde_json::from_str::<Value>(text).ok()? {
                Value::Bool(_) => wants("`true`"),
                Value::Number(number) if number.is_f64() => wants("a number"),
                Value::Number(_) => wants("number"),
                _ => false,
            };
            let fix = || Fix::sure("delete the quotes").edit(source, node.span, text.trim());
            (fits && !wants("a string")).then(fix)
        }
        NodeKind::Number(_) | NodeKind::Bool(_) if wants("a string") => {
            let fix = Fix::sure("write it in double quotes");
            let fix = fix.edit(source, Span::at(node.span.start as usize), "\"");
            Some(fix.edit(source, Span::at(node.span.end as usize), "\""))
        }
        _ => None,
    }
}

/// Returns the values that `const` or `enum` allow.
pub(super) fn values(schema: &Map<String, Value>) -> Option<Vec<&Value>> {
    match (schema.get("const"), schema.get("enum")) {
        (Some(value), _) => Some(vec![value]),
        (None, Some(Value::Array(values))) => Some(values.iter().collect()),
        _ => None,
    }
}

/// Returns values as a list for a sentence.
pub(super) fn shown(values: &[&Value]) -> String {
    list(values.iter().map(|value| match value {
        Value::String(text) => Cow::Owned(format!("`{}`", clip(text))),
        other => Cow::Owned(format!("`{other}`")),
    }))
}

impl<'a> Checker<'a> {
    /// Checks `const` and `enum`.
    pub(super) fn values(&mut self, node: &'a Node, schema: &'a Map<String, Value>) {
        if let Some(allowed) = values(schema) {
            self.one_of(node, &allowed);
        }
    }

    /// Checks that a value is one of these.
    pub(super) fn one_of(&mut self, node: &Node, allowed: &[&Value]) {
        let value = node.to_value();
        if allowed.contains(&&value) {
            return;
        }
        let Some(text) = node.as_str() else {
            let wanted = if allowed.len() == 1 {
                shown(allowed)
            } else {
                format!("one of {}", shown(allowed))
            };
            if allowed
                .iter()
                .all(|allowed| std::mem::discriminant(*allowed) != std::mem::discriminant(&value))
            {
                return self.wrong_type(node, &wanted);
            }
            let headline = format!(
                "{} is `{}`, not {wanted}",
                self.subject(),
                clip(self.source.slice(node.span))
            );
            self.faults.push(
                Diagnostic::error("unknown-value", headline)
                    .primary(self.source, node.span, "")
                    .help(format!("write {wanted}")),
            );
            return;
        };
        let names = allowed.iter().filter_map(|allowed| allowed.as_str());
        let near = meant(text, names);
        let help = match allowed.len() {
            1 => format!("write {}", shown(allowed)),
            _ => format!("write one of {}", shown(allowed)),
        };
        let headline = format!("{} can't be `{}`", self.subject(), clip(text));
        let label = if allowed.len() == 1 {
            format!("{} is needed here", shown(allowed))
        } else {
            "not a known value".to_owned()
        };
        self.faults.push(
            Diagnostic::error("unknown-value", headline)
                .primary(self.source, node.span, label)
                .help(help)
                .meant(near),
        );
    }

    /// Checks the range of a number.
    pub(super) fn number(&mut self, node: &Node, number: Number, schema: &Map<String, Value>) {
        let range = Range::of(schema);
        if range.contains(number) {
            return;
        }
        let words = range.words();
        let fault = Diagnostic::error(
            "out-of-range",
            format!(
                "{} is {}, but must be {words}",
                self.subject(),
                clip(self.source.slice(node.span))
            ),
        )
        .primary(self.source, node.span, "out of range")
        .help(format!("write a number {words}"));
        self.faults.push(fault);
    }

    /// Checks the length and the pattern of a text.
    pub(super) fn text(&mut self, node: &Node, text: &str, schema: &Map<String, Value>) {
        let (min, max) = (schema.get("minLength"), schema.get("maxLength"));
        if (min.is_some() || max.is_some())
            && !self.length(
                node,
                text.chars().count(),
                ("character", "characters"),
                min,
                max,
            )
        {
            return;
        }
        if let Some(written) = schema.get("pattern").and_then(Value::as_str) {
            let fits = Pattern::new(written).and_then(|pattern| pattern.is_found_in(text));
            if fits == Some(false) {
                let fault = Diagnostic::error(
                    "wrong-pattern",
                    format!("{} can't be `{}`", self.subject(), clip(text)),
                )
                .primary(
                    self.source,
                    node.span,
                    "does not have the form that is needed",
                )
                .help(format!("write a text that matches the pattern {written}"));
                self.faults.push(fault);
            }
        }
    }

    /// Checks a number of items or characters, and returns whether it fits.
    pub(super) fn length(
        &mut self,
        node: &Node,
        length: usize,
        (one, many): (&str, &str),
        min: Option<&Value>,
        max: Option<&Value>,
    ) -> bool {
        let (min, max) = (min.and_then(Value::as_u64), max.and_then(Value::as_u64));
        let length = length as u64;
        if min.is_none_or(|min| min <= length) && max.is_none_or(|max| length <= max) {
            return true;
        }
        let noun = |count: u64| if count == 1 { one } else { many };
        let wanted = match (min, max) {
            (Some(min), Some(max)) if min == max => format!("{min} {}", noun(min)),
            (Some(min), Some(max)) => format!("{min} to {max} {many}"),
            (Some(min), None) => format!("at least {min} {}", noun(min)),
            (None, max) => format!("at most {} {}", max.unwrap_or(0), noun(max.unwrap_or(0))),
        };
        let found = if length == 0 {
            "is empty".to_owned()
        } else {
            format!("has {length} {}", noun(length))
        };
        let fault = Diagnostic::error(
            "wrong-length",
            format!("{} {found}, but needs {wanted}", self.subject()),
        )
        .primary(self.source, node.span, format!("{wanted} needed here"))
        .help(format!("write {wanted}"));
        self.faults.push(fault);
        false
    }
}

/// The numbers that a schema allows.
struct Range {
    min: Option<Bound>,
    max: Option<Bound>,
}

/// One end of a range.
#[derive(Clone, Copy)]
struct Bound {
    value: f64,
    /// The same as a whole number, where it is one, because a float can't tell 2^53 from its neighbour.
    whole: Option<i128>,
    excluded: bool,
}

impl Range {
    fn of(schema: &Map<String, Value>) -> Self {
        let bound = |keyword: &str, excluded: bool| {
            let number = schema.get(keyword)?;
            let whole = number
                .as_i64()
                .map(i128::from)
                .or(number.as_u64().map(i128::from));
            let value = number.as_f64()?;
            let whole =
                whole.or((value.fract() == 0.0 && value.abs() < 1e30).then_some(value as i128));
            Some(Bound {
                value,
                whole,
                excluded,
            })
        };
        let whole = |value: i128| Bound {
            value: value as f64,
            whole: Some(value),
            excluded: false,
        };
        let (low, high) = match schema.get("format").and_then(Value::as_str) {
            Some("uint8") => (Some(0), Some(u8::MAX.into())),
            Some("uint16") => (Some(0), Some(u16::MAX.into())),
            Some("uint32") => (Some(0), Some(u32::MAX.into())),
            Some("uint64" | "uint") => (Some(0), None),
            Some("int8") => (Some(i8::MIN.into()), Some(i8::MAX.into())),
            Some("int16") => (Some(i16::MIN.into()), Some(i16::MAX.into())),
            Some("int32") => (Some(i32::MIN.into()), Some(i32::MAX.into())),
            Some("int64" | "int") => (None, Some(i64::MAX.into())),
            _ => (None, None),
        };
        Self {
            min: bound("minimum", false)
                .or(bound("exclusiveMinimum", true))
                .or(low.map(whole)),
            max: bound("maximum", false)
                .or(bound("exclusiveMaximum", true))
                .or(high.map(whole)),
        }
    }

    fn contains(&self, number: Number) -> bool {
        let order = |bound: &Bound| match (number, bound.whole) {
            (Number::Unsigned(number), Some(whole)) => Some(i128::from(number).cmp(&whole)),
            (Number::Negative(number), Some(whole)) => Some(i128::from(number).cmp(&whole)),
            _ => number.as_f64().partial_cmp(&bound.value),
        };
        let above = self.min.is_none_or(|min| {
            order(&min).is_some_and(|order| order.is_gt() || order.is_eq() && !min.excluded)
        });
        let below = self.max.is_none_or(|max| {
            order(&max).is_some_and(|order| order.is_lt() || order.is_eq() && !max.excluded)
        });
        above && below
    }

    /// Returns the range for use after "a number": "from 1 to 60".
    fn words(&self) -> String {
        match (self.min, self.max) {
            (None, None) => String::new(),
            (Some(min), Some(max)) if !min.excluded && !max.excluded => {
                format!("from {} to {}", min.shown(), max.shown())
            }
            (Some(min), Some(max)) => format!("{} and {}", min.above(), max.below()),
            (Some(min), None) => min.above(),
            (None, Some(max)) => max.below(),
        }
    }
}

impl Bound {
    fn shown(self) -> String {
        self.whole
            .map_or_else(|| format!("{:?}", self.value), |whole| whole.to_string())
    }

    fn above(self) -> String {
        format!(
            "{} {}",
            if self.excluded { "above" } else { "at least" },
            self.shown()
        )
    }

    fn below(self) -> String {
        format!(
            "{} {}",
            if self.excluded { "below" } else { "at most" },
            self.shown()
        )
    }
}
