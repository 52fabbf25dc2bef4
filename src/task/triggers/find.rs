//! What is looked for in calls and answers: paths, and predicates on what is found there.

use fancy_regex::Regex;

use crate::json::Value;

/// A way to values inside a value, such as `emails[0].sender` or `items[*].id`.
#[derive(Clone, Debug, PartialEq)]
pub struct Path {
    text: String,
    steps: Vec<Step>,
}

#[derive(Clone, Debug, PartialEq)]
enum Step {
    Key(String),
    At(usize),
    Each,
}

impl Path {
    /// Reads a path.
    pub fn parse(text: &str) -> Result<Self, String> {
        let why = || format!("`{text}` is no path like `emails[0].sender`");
        let mut steps = Vec::new();
        for (at, part) in text.split('.').enumerate() {
            let (key, mut rest) = match part.find('[') {
                Some(open) => part.split_at(open),
                None => (part, ""),
            };
            // A list itself may be indexed, but only at the start.
            if key.is_empty() && (at > 0 || rest.is_empty()) || key.contains(']') {
                return Err(why());
            }
            if !key.is_empty() {
                steps.push(Step::Key(key.to_owned()));
            }
            while let Some(inner) = rest.strip_prefix('[') {
                let (inner, after) = inner.split_once(']').ok_or_else(why)?;
                steps.push(match inner {
                    "*" => Step::Each,
                    _ if inner.bytes().all(|byte| byte.is_ascii_digit()) => {
                        Step::At(inner.parse().map_err(|_| why())?)
                    }
                    _ => return Err(why()),
                });
                rest = after;
            }
            if !rest.is_empty() {
                return Err(why());
            }
        }
        let text = text.to_owned();
        Ok(Path { text, steps })
    }

    /// Returns the path as it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the first name of the path.
    pub fn root(&self) -> &str {
        match self.steps.first() {
            Some(Step::Key(key)) => key,
            _ => "",
        }
    }

    /// Returns what is at the path: with `[*]` any number of values, else one or none.
    pub fn all<'v>(&self, value: &'v Value) -> Vec<&'v Value> {
        let mut found = vec![value];
        for step in &self.steps {
            found = match step {
                Step::Key(key) => found.iter().filter_map(|value| value.get(key)).collect(),
                Step::At(at) => found.iter().filter_map(|value| value.get(at)).collect(),
                Step::Each => found
                    .iter()
                    .filter_map(|value| value.as_array())
                    .flatten()
                    .collect(),
            };
        }
        found
    }

    /// Returns what is at the path as one value: a list where the path has `[*]`.
    pub fn one(&self, value: &Value) -> Option<Value> {
        let found = self.all(value);
        if self.steps.contains(&Step::Each) {
            return Some(Value::Array(found.into_iter().cloned().collect()));
        }
        found.first().map(|value| (*value).clone())
    }
}

/// A regular expression, as it was written.
#[derive(Clone, Debug)]
pub struct Pattern(Regex);

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.0.as_str() == other.0.as_str()
    }
}

/// What must be true of a value.
#[derive(Clone, Debug, PartialEq)]
pub enum Predicate {
    /// A regular expression is found in the text, or in the JSON text of what is none.
    Regex(Pattern),
    /// It is this value.
    Equals(Value),
    /// Something is there, that is not null, an empty text or an empty list; or nothing is.
    Exists(bool),
}

impl Predicate {
    /// Compiles a regular expression.
    pub fn regex(text: &str) -> Result<Self, String> {
        let regex = Regex::new(text).map_err(|error| error.to_string())?;
        Ok(Predicate::Regex(Pattern(regex)))
    }

    /// Returns whether it is true of one of the values that were found.
    pub fn holds(&self, found: &[&Value]) -> bool {
        match self {
            // A search that takes too long finds nothing.
            Predicate::Regex(Pattern(regex)) => found.iter().any(|value| match value {
                Value::String(text) => regex.is_match(text).unwrap_or(false),
                other => regex.is_match(&other.to_string()).unwrap_or(false),
            }),
            Predicate::Equals(wanted) => found.iter().any(|value| is_equal(value, wanted)),
            Predicate::Exists(exists) => found.iter().any(|value| is_there(value)) == *exists,
        }
    }
}

/// Returns whether two values are the same; numbers are compared by value.
fn is_equal(one: &Value, other: &Value) -> bool {
    match (one.as_f64(), other.as_f64()) {
        (Some(a), Some(b)) if !(one.is_i64() && other.is_i64()) => a == b,
        _ => one == other,
    }
}

/// Returns whether a value is something: not null, an empty text or an empty list.
pub fn is_there(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        _ => true,
    }
}

/// A predicate on what is at a path.
#[derive(Clone, Debug, PartialEq)]
pub struct Condition {
    /// Where to look: below `args` or `result` of a call, or below an item.
    pub path: Path,
    /// What must be true there.
    pub predicate: Predicate,
}

impl Condition {
    /// Returns whether it holds of a value.
    pub fn holds(&self, value: &Value) -> bool {
        self.predicate.holds(&self.path.all(value))
    }
}

/// What is taken out of an answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Extract {
    /// Where it is, or the list that it is in.
    pub path: Path,
    /// What must be true of an item; the first of the list that fits counts. Empty where no item is looked for.
    pub fits: Vec<Condition>,
    /// What of the item is taken; all of it where it is absent.
    pub take: Option<Path>,
}

impl Extract {
    /// Returns what is taken; `None` where nothing is there.
    pub fn of(&self, answer: &Value) -> Option<Value> {
        let found = match self.fits.is_empty() {
            true => self.path.one(answer)?,
            false => {
                let lists = self.path.all(answer);
                let items = lists.into_iter().flat_map(|list| match list {
                    Value::Array(items) => &items[..],
                    one => std::slice::from_ref(one),
                });
                let fits = |item: &&Value| self.fits.iter().all(|condition| condition.holds(item));
                items.into_iter().find(fits)?.clone()
            }
        };
        match &self.take {
            Some(take) => take.one(&found),
            None => Some(found),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::json;

    fn path(text: &str) -> Path {
        Path::parse(text).unwrap()
    }

    #[test]
    fn a_path_leads_to_values() {
        let value = json!({"a": {"b": [{"c": 1}, {"c": 2}, {}]}});
        assert_eq!(path("a.b[1].c").one(&value), Some(json!(2)));
        assert_eq!(path("a.b[*].c").one(&value), Some(json!([1, 2])));
        assert_eq!(path("a.x").one(&value), None);
        assert_eq!(path("[0]").one(&json!([7])), Some(json!(7)));
        assert_eq!(path("a.b").root(), "a");
        for text in [
            "",
            ".",
            "a.",
            "a..b",
            "a[",
            "a[x]",
            "a]",
            "a[1]b",
            "a.[0]",
            "a[-1]",
            "a[99999999999999999999999]",
        ] {
            assert!(Path::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_predicate_is_true_of_one_of_the_values() {
        let value = json!({"to": ["a@x", "b@y"], "n": 1, "none": [], "gone": null});
        let check = |text: &str, predicate: &Predicate| predicate.holds(&path(text).all(&value));
        let regex = |text| Predicate::regex(text).unwrap();
        assert!(check("to[*]", &regex("^b@")));
        assert!(check("to", &regex("a@x")));
        assert!(!check("to[*]", &regex("c@")));
        assert!(check("n", &Predicate::Equals(json!(1.0))));
        assert!(!check("n", &Predicate::Equals(json!("1"))));
        for (text, is_there) in [("to", true), ("none", false), ("gone", false), ("x", false)] {
            assert!(check(text, &Predicate::Exists(is_there)), "{text}");
            assert!(!check(text, &Predicate::Exists(!is_there)), "{text}");
        }
        assert!(Predicate::regex("(").is_err());
    }

    #[test]
    fn an_extract_takes_the_first_item_that_fits() {
        let extract = Extract {
            path: path("emails"),
            fits: vec![Condition {
                path: path("sender"),
                predicate: Predicate::regex("dana").unwrap(),
            }],
            take: Some(path("id")),
        };
        let emails = json!({"emails": [{"sender": "sam", "id": 1}, {"sender": "dana", "id": 2}, {"sender": "dana", "id": 3}]});
        assert_eq!(extract.of(&emails), Some(json!(2)));
        assert_eq!(extract.of(&json!({"emails": []})), None);
    }
}
