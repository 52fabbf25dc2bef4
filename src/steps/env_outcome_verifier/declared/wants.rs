//! What is wanted of the values that an expectation looks at.

use super::{MAX_SHOWN, Reader};
use crate::json::{Node, Value};
use crate::steps::pattern::{Flags, Pattern};
use crate::steps::shown::head;

/// Number of values that a justification shows.
const MAX_VALUES: usize = 3;

/// The tests of an expectation; all must hold.
#[derive(Debug)]
pub(super) struct Wants {
    count: Option<Count>,
    exists: Option<bool>,
    /// Whether the tests of a value must hold for each value, not only for one.
    every: bool,
    each: Vec<Want>,
}

/// How many values there must be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Count {
    min: u64,
    max: Option<u64>,
}

/// A test of one value.
#[derive(Debug)]
enum Want {
    Equals(Value),
    /// Each of these is in the value: in a text, among the items, among the keys.
    Contains(Vec<Value>),
    Matches(String, Pattern),
    AtLeast(f64),
    AtMost(f64),
}

impl Reader<'_> {
    /// Reads the tests of an expectation.
    pub(super) fn wants(&mut self) -> Option<Wants> {
        let mut each = Vec::new();
        each.extend(self.value("equals").map(Want::Equals));
        each.extend(self.value("contains").map(|value| match value {
            Value::Array(items) => Want::Contains(items),
            one => Want::Contains(vec![one]),
        }));
        if let Some(text) = self.text("matches") {
            let flags = Flags {
                dot_all: true,
                ..Flags::default()
            };
            match Pattern::new(text, flags) {
                Ok(pattern) => each.push(Want::Matches(text.to_owned(), pattern)),
                Err(why) => {
                    let headline = format!("`{text}` is no regular expression: {why}");
                    self.fault("matches", "bad-pattern", headline);
                }
            }
        }
        let number = |key: &str| self.node.get(key).and_then(Node::as_f64);
        each.extend(number("at_least").map(Want::AtLeast));
        each.extend(number("at_most").map(Want::AtMost));
        let count = self.node.get("count").map(|count| {
            let number = |key: &str| count.get(key).and_then(Node::as_u64);
            match count.as_u64() {
                Some(exact) => Count {
                    min: exact,
                    max: Some(exact),
                },
                None => Count {
                    min: number("min").unwrap_or(0),
                    max: number("max"),
                },
            }
        });
        if let Some(Count {
            min,
            max: Some(max),
        }) = count
            && min > max
        {
            let headline =
                format!("`count` is at least {min} and at most {max}, which no number is");
            self.fault("count", "out-of-range", headline);
        }
        let exists = self.value("exists").and_then(|value| value.as_bool());
        let of_value = ["equals", "contains", "matches", "at_least", "at_most"];
        let of_value: Vec<&str> = of_value
            .into_iter()
            .filter(|key| self.node.get(key).is_some())
            .collect();
        match of_value.first() {
            Some(key) if exists == Some(false) => {
                let headline = format!("`{key}` tests a value, and `exists = false` wants none");
                self.fault("exists", "conflicting-fields", headline);
            }
            None if self.node.get("every").is_some() => {
                let headline = "`every` is about tests of values, and there are none";
                self.fault("every", "conflicting-fields", headline);
            }
            None if self.node.get("count").or(self.node.get("exists")).is_none() => {
                let headline = "an expectation tests nothing: write one of `exists`, `count`, `equals`, `contains`, \
                                `matches`, `at_least` and `at_most`";
                self.fault("", "missing-field", headline);
            }
            _ => {}
        }
        let every = self.value("every") == Some(Value::Bool(true));
        Some(Wants {
            count,
            exists,
            every,
            each,
        })
    }
}

impl Wants {
    /// Returns whether values are as wanted, and what was found.
    pub(super) fn look(&self, values: &[&Value]) -> (bool, String) {
        match self.fault(values) {
            Some(why) => (false, why),
            None => (true, found(values)),
        }
    }

    fn fault(&self, values: &[&Value]) -> Option<String> {
        if self.exists == Some(false) && !values.is_empty() {
            return Some(format!("{}, and wanted nothing", found(values)));
        }
        if let Some(count) = self.count
            && !count.has(values.len())
        {
            let (n, wanted) = (values.len(), count.text());
            return Some(match values {
                [] => format!("found nothing, and wanted {wanted}"),
                _ => format!("found {n}, and wanted {wanted}: {}", listed(values)),
            });
        }
        if values.is_empty() && (self.exists == Some(true) || !self.each.is_empty()) {
            return Some("found nothing".to_owned());
        }
        let fault_of = |value: &&Value| self.each.iter().find_map(|want| want.fault(value));
        if self.every {
            return values.iter().find_map(fault_of);
        }
        let mut first = None;
        for value in values {
            match fault_of(value) {
                None => return None,
                why => first = first.or(why),
            }
        }
        first.map(|why| match values.len() {
            1 => why,
            n => format!("none of {n} values: {why}"),
        })
    }
}

impl Count {
    fn has(self, n: usize) -> bool {
        let n = n as u64;
        self.min <= n && self.max.is_none_or(|max| n <= max)
    }

    fn text(self) -> String {
        match self.max {
            Some(max) if max == self.min => max.to_string(),
            Some(max) if self.min == 0 => format!("at most {max}"),
            Some(max) => format!("{} to {max}", self.min),
            None => format!("at least {}", self.min),
        }
    }
}

impl Want {
    /// Returns why a value is not as wanted.
    fn fault(&self, value: &Value) -> Option<String> {
        let shown = || shown(value);
        match self {
            Want::Equals(wanted) => {
                (!are_same(value, wanted)).then(|| format!("{} is not {wanted}", shown()))
            }
            Want::Contains(wanted) => wanted
                .iter()
                .find(|wanted| !contains(value, wanted))
                .map(|wanted| format!("{} does not contain {wanted}", shown())),
            Want::Matches(text, pattern) => {
                let found = match value {
                    Value::String(text) => pattern.is_found_in(text),
                    other => pattern.is_found_in(&other.to_string()),
                };
                match found {
                    Ok(true) => None,
                    Ok(false) => Some(format!("{} does not match `{text}`", shown())),
                    Err(why) => Some(why),
                }
            }
            Want::AtLeast(least) => match value.as_f64() {
                Some(number) if number >= *least => None,
                Some(_) => Some(format!("{} is less than {least}", shown())),
                None => Some(format!("{} is no number", shown())),
            },
            Want::AtMost(most) => match value.as_f64() {
                Some(number) if number <= *most => None,
                Some(_) => Some(format!("{} is more than {most}", shown())),
                None => Some(format!("{} is no number", shown())),
            },
        }
    }
}

fn contains(value: &Value, wanted: &Value) -> bool {
    match (value, wanted) {
        (Value::String(text), Value::String(wanted)) => text.contains(wanted.as_str()),
        (Value::Array(items), wanted) => items.iter().any(|item| are_same(item, wanted)),
        (Value::Object(members), Value::String(key)) => members.contains_key(key),
        _ => false,
    }
}

/// Returns whether two values are the same, `1` and `1.0` being one number.
fn are_same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(x), Value::Number(y)) => {
            x == y || (x.is_f64() || y.is_f64()) && x.as_f64() == y.as_f64()
        }
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| are_same(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            let has = |(key, a): (&String, &Value)| b.get(key).is_some_and(|b| are_same(a, b));
            a.len() == b.len() && a.iter().all(has)
        }
        _ => a == b,
    }
}

fn shown(value: &Value) -> String {
    head(&value.to_string(), MAX_SHOWN)
}

/// Returns the first of some values.
fn listed(values: &[&Value]) -> String {
    let first: Vec<String> = values
        .iter()
        .take(MAX_VALUES)
        .map(|value| shown(value))
        .collect();
    let more = if values.len() > MAX_VALUES {
        ", …"
    } else {
        ""
    };
    format!("{}{more}", first.join(", "))
}

fn found(values: &[&Value]) -> String {
    match values.len() {
        0 => "found nothing".to_owned(),
        1 => format!("found {}", listed(values)),
        n => format!("found {n} values: {}", listed(values)),
    }
}
