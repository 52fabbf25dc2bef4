//! Reads members of objects, and notes what is wrong with them.

use super::super::fill::escaped;
use super::super::{At, Fault, Length};
use crate::diagnostic::did_you_mean;
use crate::json::{Map, Value};
use crate::task::moment::{Moment, parse_length};

pub(super) const MISSING: &str = "missing-field";
pub(super) const UNKNOWN: &str = "unknown-field";
pub(super) const TYPE: &str = "wrong-type";
pub(super) const CONFLICT: &str = "conflicting-fields";
pub(super) const RANGE: &str = "out-of-range";
pub(super) const VALUE: &str = "unknown-value";
pub(super) const FORM: &str = "wrong-pattern";
pub(super) const LENGTH: &str = "wrong-length";
pub(super) const NOT_YET: &str = "not-supported-yet";
/// A length of time or a delay.
pub(super) const LENGTH_HELP: &str = "write a length such as \"PT30M\" or \"P1D\"";

/// Returns what is at a key; null stands for nothing.
pub(super) fn get<'v>(members: &'v Map<String, Value>, key: &str) -> Option<&'v Value> {
    members.get(key).filter(|value| !value.is_null())
}

#[derive(Default)]
pub(super) struct Reader {
    pub(super) faults: Vec<Fault>,
}
impl Reader {
    pub(super) fn done<T>(self, value: T) -> Result<T, Vec<Fault>> {
        match self.faults.is_empty() {
            true => Ok(value),
            false => Err(self.faults),
        }
    }

    pub(super) fn fault(&mut self, code: &'static str, at: &str, headline: String, help: &str) {
        self.faults.push(Fault {
            code,
            field: at.to_owned(),
            headline,
            help: (!help.is_empty()).then(|| help.to_owned()),
        });
    }

    pub(super) fn missing(&mut self, at: &str, key: &str, what: &str) {
        let help = format!("add \"{key}\"");
        self.fault(MISSING, at, format!("{what} has no `{key}`"), &help);
    }

    /// Returns the members of an object, and refuses those that mean nothing.
    pub(super) fn object<'v>(
        &mut self,
        at: &str,
        value: &'v Value,
        known: &[&str],
    ) -> Option<&'v Map<String, Value>> {
        let Some(members) = value.as_object() else {
            let headline = format!("this is {}, not an object", word(value));
            self.fault(TYPE, at, headline, "write it in `{` and `}`");
            return None;
        };
        for key in members.keys().filter(|key| !known.contains(&key.as_str())) {
            let near = did_you_mean(key, known.iter().copied());
            let help =
                near.unwrap_or_else(|| format!("one of `{}` can stand here", known.join("`, `")));
            let at = format!("{at}/{}", escaped(key));
            self.fault(UNKNOWN, &at, format!("`{key}` means nothing here"), &help);
        }
        Some(members)
    }

    pub(super) fn of_type<'v, T>(
        &mut self,
        at: &str,
        members: &'v Map<String, Value>,
        key: &str,
        wanted: &str,
        read: impl FnOnce(&'v Value) -> Option<T>,
    ) -> Option<T> {
        let value = get(members, key)?;
        let found = read(value);
        if found.is_none() {
            let headline = format!("`{key}` is {}, not {wanted}", word(value));
            self.fault(TYPE, &format!("{at}/{}", escaped(key)), headline, "");
        }
        found
    }

    pub(super) fn members<'v>(
        &mut self,
        at: &str,
        members: &'v Map<String, Value>,
        key: &str,
    ) -> Option<&'v Map<String, Value>> {
        self.of_type(at, members, key, "an object", Value::as_object)
    }

    pub(super) fn flag(
        &mut self,
        at: &str,
        members: &Map<String, Value>,
        key: &str,
    ) -> Option<bool> {
        self.of_type(at, members, key, "true or false", Value::as_bool)
    }

    /// Reads a text that is not empty.
    pub(super) fn text(
        &mut self,
        at: &str,
        members: &Map<String, Value>,
        key: &str,
    ) -> Option<String> {
        let text = self.of_type(at, members, key, "a text", Value::as_str)?;
        if text.trim().is_empty() {
            let at = format!("{at}/{}", escaped(key));
            self.fault(
                LENGTH,
                &at,
                format!("`{key}` is empty"),
                "write at least 1 character",
            );
            return None;
        }
        Some(text.to_owned())
    }

    pub(super) fn needed(
        &mut self,
        at: &str,
        members: &Map<String, Value>,
        key: &str,
        what: &str,
    ) -> Option<String> {
        if get(members, key).is_none() {
            self.missing(at, key, what);
            return None;
        }
        self.text(at, members, key)
    }

    /// Reads a list of texts that are not empty; an empty list is a fault.
    pub(super) fn texts(
        &mut self,
        at: &str,
        members: &Map<String, Value>,
        key: &str,
    ) -> Option<Vec<String>> {
        let items = self.of_type(at, members, key, "a list", Value::as_array)?;
        let at = format!("{at}/{key}");
        if items.is_empty() {
            self.fault(
                LENGTH,
                &at,
                format!("`{key}` is empty"),
                "name at least one",
            );
        }
        let mut texts = Vec::new();
        for (ix, item) in items.iter().enumerate() {
            match item.as_str().filter(|text| !text.is_empty()) {
                Some(text) => texts.push(text.to_owned()),
                None => {
                    let headline = format!("this is {}, not a text", word(item));
                    self.fault(TYPE, &format!("{at}/{ix}"), headline, "");
                }
            }
        }
        Some(texts)
    }

    pub(super) fn one_of(
        &mut self,
        at: &str,
        members: &Map<String, Value>,
        key: &str,
        what: &str,
        values: &[&str],
    ) -> Option<String> {
        let text = self.needed(at, members, key, what)?;
        if !values.contains(&text.as_str()) {
            let help = format!("write one of `{}`", values.join("`, `"));
            let at = format!("{at}/{key}");
            self.fault(VALUE, &at, format!("`{key}` can't be `{text}`"), &help);
            return None;
        }
        Some(text)
    }

    /// Reads the actions of a trigger.
    pub(super) fn actions<T>(
        &mut self,
        at: &str,
        trigger: &Map<String, Value>,
        read: impl Fn(&mut Self, &str, &Value) -> Option<T>,
    ) -> Vec<T> {
        let mut actions = Vec::new();
        let listed = self.of_type(at, trigger, "actions", "a list", Value::as_array);
        for (ix, action) in listed.into_iter().flatten().enumerate() {
            actions.extend(read(self, &format!("{at}/actions/{ix}"), action));
        }
        if get(trigger, "actions").is_none() {
            self.missing(at, "actions", "the trigger");
        } else if listed.is_some_and(Vec::is_empty) {
            let at = format!("{at}/actions");
            let help = "say what the trigger does";
            self.fault(LENGTH, &at, "`actions` is empty".to_owned(), help);
        }
        actions
    }

    /// Reads a length of time that is not nothing.
    pub(super) fn length(&mut self, at: &str, text: &str) -> Option<i64> {
        match parse_length(text) {
            Ok(0) => {
                self.fault(
                    RANGE,
                    at,
                    format!("`{text}` is no time at all"),
                    LENGTH_HELP,
                );
                None
            }
            Ok(us) => Some(us),
            Err(why) => {
                self.fault(FORM, at, why, LENGTH_HELP);
                None
            }
        }
    }

    /// Reads a length, or how it is drawn.
    pub(super) fn drawn(
        &mut self,
        at: &str,
        members: &Map<String, Value>,
        key: &str,
        seed: Option<&Value>,
    ) -> Option<Length> {
        let value = get(members, key)?;
        let here = format!("{at}/{key}");
        if let Some(text) = value.as_str() {
            return self.length(&here, text).map(Length::Fixed);
        }
        let all = self.object(&here, value, &["dist", "mean", "seed"])?;
        self.one_of(&here, all, "dist", "the distribution", &["exp"]);
        let mean = self.needed(&here, all, "mean", "the distribution");
        let mean = mean.and_then(|text| self.length(&format!("{here}/mean"), &text));
        let seed = match get(all, "seed").or(seed) {
            None => {
                self.missing(&here, "seed", "the distribution");
                None
            }
            Some(seed) if seed.as_i64().is_some() => seed.as_i64(),
            Some(seed) => {
                let headline = format!("`seed` is {}, not a whole number", word(seed));
                self.fault(TYPE, &format!("{here}/seed"), headline, "");
                None
            }
        };
        let (mean, seed) = (mean?, seed?);
        Some(Length::Drawn { mean, seed })
    }

    pub(super) fn at(&mut self, at: &str, members: &Map<String, Value>, key: &str) -> Option<At> {
        let text = self.text(at, members, key)?;
        if text.starts_with('P') {
            let length = parse_length(&text);
            return match length {
                Ok(us) => Some(At::FromStart(us)),
                Err(why) => {
                    self.fault(FORM, &format!("{at}/{key}"), why, LENGTH_HELP);
                    None
                }
            };
        }
        match Moment::parse(&text) {
            Ok(moment) => Some(At::Moment(moment)),
            Err(why) => {
                let help =
                    "write a time, or a length such as \"PT2H\" after the start of the clock";
                self.fault(FORM, &format!("{at}/{key}"), why, help);
                None
            }
        }
    }
}

pub(super) fn word(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}
