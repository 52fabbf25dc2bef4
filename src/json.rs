//! JSON that knows where it was written: a strict parser that never stops at the first fault.
//!
//! [`parse`] reads RFC 8259 and nothing else, but goes on after each fault, so that all faults of a file are reported
//! at once. Every value of the tree knows its bytes. [`schema`] checks a tree against a JSON Schema in the same way.
//! This module does not know tasks or steps.

mod canonical;
mod container;
mod layout;
mod number;
mod parser;
mod pattern;
pub mod schema;
mod string;
#[cfg(test)]
mod tests;
mod word;

pub use crate::diagnostic::Span;
use crate::diagnostic::{Diagnostic, Source};
pub use canonical::canonical;
pub use layout::{laid_out, layout};
pub use serde_json::{
    Map, Value, from_slice, json, to_string, to_string_pretty, to_value, to_writer,
};

/// The longest text that is parsed, in bytes.
pub const MAX_BYTES: usize = 8 << 20;
/// The deepest nesting of arrays and objects.
pub const MAX_DEPTH: usize = 64;
/// The most members of one object.
pub const MAX_MEMBERS: usize = 1 << 16;
/// The most values in one file.
pub const MAX_VALUES: usize = 1 << 20;
/// The most faults that are reported for one file; the others are counted.
pub const MAX_FAULTS: usize = 50;

/// A value and the bytes it was read from.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// The bytes of the value, quotes and brackets included.
    pub span: Span,
    /// The value.
    pub kind: NodeKind,
}

/// A JSON value, or the place of one.
#[derive(Debug, Clone, PartialEq)]
pub enum NodeKind {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number.
    Number(Number),
    /// A string, unescaped.
    String(String),
    /// An array.
    Array(Vec<Node>),
    /// An object, its members in the order of the text.
    Object(Vec<Member>),
    /// Stands where a fault was reported; every look-up and every check passes over it.
    Bad,
}

/// A number that means exactly what was written.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Number {
    /// A whole number that is not negative.
    Unsigned(u64),
    /// A negative whole number.
    Negative(i64),
    /// A number written with a point or an exponent, a whole number that only a float can hold, or `-0`.
    Float(f64),
}

/// A member of an object.
#[derive(Debug, Clone, PartialEq)]
pub struct Member {
    /// The key, unescaped.
    pub key: String,
    /// The bytes of the key, quotes included.
    pub key_span: Span,
    /// The value.
    pub value: Node,
}

/// What [`parse`] found.
#[derive(Debug, Clone, PartialEq)]
pub struct Parsed {
    /// The value, unless the file has none.
    pub root: Option<Node>,
    /// All faults, in the order of the text.
    pub faults: Vec<Diagnostic>,
}

/// Parses a text and reports all its faults.
///
/// A tree comes back whenever there is one to speak of: what could be read stands in it, and [`NodeKind::Bad`] stands
/// where nothing could. Only a tree without faults means what its author wrote.
pub fn parse(source: &Source) -> Parsed {
    parser::parse(source)
}

/// Reads the object with which a text begins, and returns it with the rest of the text.
pub fn object_before(text: &str) -> Option<(Map<String, Value>, &str)> {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<Map<String, Value>>();
    let object = values.next()?.ok()?;
    Some((object, &text[values.byte_offset()..]))
}

/// Returns whether a member with this key is a comment: it starts with `//` or is `$comment`.
pub fn is_comment(key: &str) -> bool {
    key.starts_with("//") || key == "$comment"
}

impl Node {
    /// Returns the value of the first member with this key.
    pub fn get(&self, key: &str) -> Option<&Node> {
        self.member(key).map(|member| &member.value)
    }

    /// Returns the first member with this key.
    pub fn member(&self, key: &str) -> Option<&Member> {
        self.as_object()?.iter().find(|member| member.key == key)
    }

    /// Returns the value at a JSON pointer (RFC 6901), such as `/0/id`.
    pub fn pointer(&self, pointer: &str) -> Option<&Node> {
        if pointer.is_empty() {
            return Some(self);
        }
        pointer
            .strip_prefix('/')?
            .split('/')
            .try_fold(self, |node, part| match &node.kind {
                NodeKind::Object(_) => node.get(&part.replace("~1", "/").replace("~0", "~")),
                NodeKind::Array(items) if part == "0" || !part.starts_with(['0', '+']) => {
                    items.get(part.parse::<usize>().ok()?)
                }
                _ => None,
            })
    }

    /// Returns the text of a string.
    pub fn as_str(&self) -> Option<&str> {
        if let NodeKind::String(text) = &self.kind {
            Some(text)
        } else {
            None
        }
    }

    /// Returns the items of an array.
    pub fn as_array(&self) -> Option<&[Node]> {
        if let NodeKind::Array(items) = &self.kind {
            Some(items)
        } else {
            None
        }
    }

    /// Returns the members of an object.
    pub fn as_object(&self) -> Option<&[Member]> {
        if let NodeKind::Object(members) = &self.kind {
            Some(members)
        } else {
            None
        }
    }

    /// Returns the value of `true` and `false`.
    pub fn as_bool(&self) -> Option<bool> {
        if let NodeKind::Bool(value) = self.kind {
            Some(value)
        } else {
            None
        }
    }

    /// Returns a number.
    pub fn as_number(&self) -> Option<Number> {
        if let NodeKind::Number(number) = self.kind {
            Some(number)
        } else {
            None
        }
    }

    /// Returns a whole number that is not negative.
    pub fn as_u64(&self) -> Option<u64> {
        if let NodeKind::Number(Number::Unsigned(number)) = self.kind {
            Some(number)
        } else {
            None
        }
    }

    /// Returns a whole number.
    pub fn as_i64(&self) -> Option<i64> {
        match self.as_number()? {
            Number::Unsigned(number) => i64::try_from(number).ok(),
            Number::Negative(number) => Some(number),
            Number::Float(_) => None,
        }
    }

    /// Returns any number as a float, rounded if it must be.
    pub fn as_f64(&self) -> Option<f64> {
        self.as_number().map(Number::as_f64)
    }

    /// Returns whether this is `null`.
    pub fn is_null(&self) -> bool {
        matches!(self.kind, NodeKind::Null)
    }

    /// Returns whether this stands for a fault.
    pub fn is_bad(&self) -> bool {
        matches!(self.kind, NodeKind::Bad)
    }

    /// Returns what this is, for use in a sentence: "a string", "an object".
    pub fn kind_name(&self) -> &'static str {
        match self.kind {
            NodeKind::Null => "`null`",
            NodeKind::Bool(true) => "`true`",
            NodeKind::Bool(false) => "`false`",
            NodeKind::Number(_) => "a number",
            NodeKind::String(_) => "a string",
            NodeKind::Array(_) => "an array",
            NodeKind::Object(_) => "an object",
            NodeKind::Bad => "something that could not be read",
        }
    }

    /// Returns the value without its places; comments are kept, `Bad` becomes `null`, the first of equal keys counts.
    pub fn to_value(&self) -> Value {
        self.value(&|_| true)
    }

    /// Returns the value without its places and without the members that are comments.
    pub fn to_value_without_comments(&self) -> Value {
        self.value(&|key| !is_comment(key))
    }

    fn value(&self, keep: &dyn Fn(&str) -> bool) -> Value {
        match &self.kind {
            NodeKind::Null | NodeKind::Bad => Value::Null,
            NodeKind::Bool(value) => Value::Bool(*value),
            NodeKind::Number(number) => number.to_value(),
            NodeKind::String(text) => Value::String(text.clone()),
            NodeKind::Array(items) => {
                Value::Array(items.iter().map(|item| item.value(keep)).collect())
            }
            NodeKind::Object(members) => {
                let mut map = Map::new();
                for member in members.iter().filter(|member| keep(&member.key)) {
                    if !map.contains_key(&member.key) {
                        map.insert(member.key.clone(), member.value.value(keep));
                    }
                }
                Value::Object(map)
            }
        }
    }
}

impl Number {
    /// Returns the number as a float, rounded if it must be.
    pub fn as_f64(self) -> f64 {
        match self {
            Self::Unsigned(number) => number as f64,
            Self::Negative(number) => number as f64,
            Self::Float(number) => number,
        }
    }

    /// Returns the number as a JSON value.
    pub fn to_value(self) -> Value {
        match self {
            Self::Unsigned(number) => Value::from(number),
            Self::Negative(number) => Value::from(number),
            Self::Float(number) => Value::from(number),
        }
    }
}
