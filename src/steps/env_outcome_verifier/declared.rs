//! A declared verifier: a TOML file of what must be so in an env after the run.
//!
//! All faults of the file are told at once, each with its line. What an expectation looks at is a list of values, which
//! `wants` tests.

#[cfg(test)]
mod tests;
mod wants;

use serde_json_path::JsonPath;

use crate::diagnostic::concise::concise;
use crate::diagnostic::{Diagnostic, Source, did_you_mean};
use crate::json::{Map, Node, Value, from_slice, json};
use crate::step::StepError;
use crate::step::env::{LiveEnv, answer_of};
use crate::steps::shown::head;
use crate::task::parse::toml::{check, parse};
use wants::Wants;

/// Number of characters of a justification.
const MAX_SHOWN: usize = 200;

/// What a verifier expects, in the order of its file.
#[derive(Debug)]
pub(super) struct Declared {
    name: String,
    expectations: Vec<Expectation>,
}

#[derive(Debug)]
struct Expectation {
    id: String,
    description: Option<String>,
    weight: Value,
    about: About,
    wants: Wants,
}

/// What an expectation looks at.
#[derive(Debug)]
enum About {
    /// The values at a path of the env's state.
    State(JsonPath),
    /// The values at a path of what a tool answers.
    Call(Call, JsonPath),
    /// The text of the reply.
    Reply,
}

#[derive(Clone, PartialEq, Debug)]
struct Call {
    tool: String,
    arguments: Map<String, Value>,
}

/// Returns the schema of the file.
fn schema() -> Value {
    let text = json!({"type": "string", "minLength": 1});
    let whole = json!({"type": "integer", "minimum": 0});
    json!({
        "type": "object",
        "required": ["expect"],
        "additionalProperties": false,
        "properties": {"expect": {"type": "array", "minItems": 1, "items": {
            "type": "object",
            "additionalProperties": false,
            "properties": {
                "id": text,
                "description": text,
                "weight": {"type": "number"},
                "state": text,
                "call": {
                    "type": "object",
                    "required": ["tool"],
                    "additionalProperties": false,
                    "properties": {"tool": text, "arguments": {"type": "object"}},
                },
                "path": text,
                "reply": {"type": "boolean", "enum": [true]},
                "count": {"anyOf": [whole, {
                    "type": "object",
                    "additionalProperties": false,
                    "properties": {"min": whole, "max": whole},
                }]},
                "equals": {},
                "contains": {},
                "matches": text,
                "exists": {"type": "boolean"},
                "at_least": {"type": "number"},
                "at_most": {"type": "number"},
                "every": {"type": "boolean"},
            },
        }}},
    })
}

/// Reads a file of which these faults are known; the error tells all its faults.
pub(super) fn read(
    source: &Source,
    faults: Vec<Diagnostic>,
    has_reply: bool,
) -> Result<Declared, String> {
    check_file(source, faults, has_reply).map_err(|faults| {
        format!(
            "`{}` cannot be read:\n{}",
            source.name,
            concise(&faults).trim_end()
        )
    })
}

/// Reads a file likewise; the error is all its faults.
pub(super) fn check_file(
    source: &Source,
    mut faults: Vec<Diagnostic>,
    has_reply: bool,
) -> Result<Declared, Vec<Diagnostic>> {
    let (root, more) = parse(source);
    faults.extend(more);
    faults.extend(check(
        &root,
        &schema(),
        source,
        &format!("`{}`", source.name),
    ));
    let mut expectations: Vec<Expectation> = Vec::new();
    let mut ids: Vec<&str> = Vec::new();
    let nodes = root.get("expect").and_then(Node::as_array);
    for (at, node) in nodes.unwrap_or_default().iter().enumerate() {
        if node.as_object().is_none() {
            continue;
        }
        let mut reader = Reader {
            source,
            node,
            faults: &mut faults,
        };
        let id = reader.text("id");
        let id = id.map_or_else(|| format!("expect-{}", at + 1), str::to_owned);
        let expectation = reader.expectation(id, has_reply);
        if let Some((id, text)) = node.get("id").and_then(|id| Some((id, id.as_str()?))) {
            if ids.contains(&text) {
                let headline = format!("two expectations have the id `{text}`");
                let fault = Diagnostic::error("duplicate-id", headline);
                faults.push(fault.primary(source, id.span, "again here"));
            }
            ids.push(text);
        }
        expectations.extend(expectation);
    }
    if faults.is_empty() {
        return Ok(Declared {
            name: source.name.clone(),
            expectations,
        });
    }
    crate::diagnostic::sort(&mut faults);
    Err(faults)
}

/// One table of the file, while it is read. What does not fit the schema is passed over: its fault is told already.
struct Reader<'a> {
    source: &'a Source,
    node: &'a Node,
    faults: &'a mut Vec<Diagnostic>,
}

impl<'a> Reader<'a> {
    fn text(&self, key: &str) -> Option<&'a str> {
        self.node.get(key)?.as_str()
    }

    fn value(&self, key: &str) -> Option<Value> {
        self.node.get(key).map(Node::to_value)
    }

    fn fault(&mut self, key: &str, code: &'static str, headline: impl Into<String>) {
        let span = match self.node.member(key) {
            Some(member) => member.value.span,
            None => self.node.span,
        };
        let fault = Diagnostic::error(code, headline).primary(self.source, span, "");
        self.faults.push(fault);
    }

    fn path(&mut self, key: &str) -> Option<JsonPath> {
        let text = self.text(key).unwrap_or("$");
        match JsonPath::parse(text) {
            Ok(path) => Some(path),
            Err(error) => {
                let why = error.message().trim().trim_end_matches('.').to_owned();
                let at = error.position();
                let headline = format!("`{text}` is no JSONPath: {why} at character {at}");
                self.fault(key, "bad-json-path", headline);
                None
            }
        }
    }

    fn expectation(&mut self, id: String, has_reply: bool) -> Option<Expectation> {
        let about = self.about(has_reply);
        let wants = self.wants();
        Some(Expectation {
            id,
            description: self.text("description").map(str::to_owned),
            weight: self.value("weight").unwrap_or_else(|| json!(1)),
            about: about?,
            wants: wants?,
        })
    }

    fn about(&mut self, has_reply: bool) -> Option<About> {
        let sources: Vec<&str> = ["state", "call", "reply"]
            .into_iter()
            .filter(|key| self.node.get(key).is_some())
            .collect();
        let is_call = sources.contains(&"call");
        if self.node.get("path").is_some() && !is_call {
            let headline = "`path` goes into the answer of a `call`, and there is none";
            self.fault("path", "conflicting-fields", headline);
        }
        match sources[..] {
            ["state"] => self.path("state").map(About::State),
            ["call"] => {
                let path = self.path("path");
                let call = self.node.get("call")?;
                let arguments = call.get("arguments").map(Node::to_value);
                let call = Call {
                    tool: call.get("tool")?.as_str()?.to_owned(),
                    arguments: arguments
                        .and_then(|value| value.as_object().cloned())
                        .unwrap_or_default(),
                };
                Some(About::Call(call, path?))
            }
            ["reply"] => {
                if !has_reply {
                    let headline =
                        "`reply` needs the `prompt_id` of a reply, and the step has none";
                    self.fault("reply", "missing-field", headline);
                }
                Some(About::Reply)
            }
            [first, second, ..] => {
                let headline =
                    format!("an expectation is about one thing, not `{first}` and `{second}`");
                self.fault(second, "conflicting-fields", headline);
                None
            }
            _ => {
                let headline = "an expectation says not what it is about: write one of `state`, `call` and `reply`";
                self.fault("", "missing-field", headline);
                None
            }
        }
    }
}

impl Declared {
    /// Looks at the env and the reply, and returns a row for each expectation.
    pub(super) async fn rows(
        &self,
        env: &dyn LiveEnv,
        reply: Option<&str>,
    ) -> Result<Vec<Value>, StepError> {
        // Calls may change the env, so the state is what it was before the first of them.
        let is_state = |one: &Expectation| matches!(one.about, About::State(_));
        let state = match self.expectations.iter().any(is_state) {
            true => state(&self.name, env).await?,
            false => Value::Null,
        };
        let calls = self.expectations.iter().filter_map(|one| match &one.about {
            About::Call(call, _) => Some(call),
            About::State(_) | About::Reply => None,
        });
        let calls: Vec<&Call> = calls.collect();
        if !calls.is_empty() {
            // A wrong name is a fault of the verifier, which the agent must not pay for.
            self.check_tools(&calls, &env.tools().await?)?;
        }
        let mut answers: Vec<(&Call, Result<Value, String>)> = Vec::new();
        let mut rows = Vec::with_capacity(self.expectations.len());
        for one in &self.expectations {
            let text;
            let (passed, why) = match &one.about {
                About::State(path) => one.wants.look(&path.query(&state).all()),
                About::Reply => {
                    text = Value::from(reply.unwrap_or(""));
                    one.wants.look(&[&text])
                }
                About::Call(call, path) => {
                    let known = answers.iter().position(|(other, _)| *other == call);
                    let at = match known {
                        Some(at) => at,
                        None => {
                            answers.push((call, ask(env, call).await?));
                            answers.len() - 1
                        }
                    };
                    match &answers[at].1 {
                        Ok(answer) => one.wants.look(&path.query(answer).all()),
                        Err(why) => (false, why.clone()),
                    }
                }
            };
            rows.push(one.row(passed, &why));
        }
        Ok(rows)
    }
}

impl Declared {
    fn check_tools(&self, calls: &[&Call], tools: &[Value]) -> Result<(), StepError> {
        let names = tools.iter().filter_map(|tool| tool.get("name")?.as_str());
        let names: Vec<&str> = names.collect();
        for call in calls {
            let Some(tool) = tools.iter().find(|tool| tool["name"] == call.tool.as_str()) else {
                let near = did_you_mean(&call.tool, names.iter().copied());
                let near = near.map(|near| format!("; {near}")).unwrap_or_default();
                return Err(StepError::of(
                    "ValueError",
                    format!(
                        "verifier `{}` calls tool `{}`, which the env does not have{near}",
                        self.name, call.tool
                    ),
                ));
            };
            let required = tool
                .pointer("/inputSchema/required")
                .and_then(Value::as_array);
            let missing = required.into_iter().flatten().filter_map(Value::as_str);
            let missing: Vec<&str> = missing
                .filter(|name| !call.arguments.contains_key(*name))
                .collect();
            if let [first, ..] = missing[..] {
                return Err(StepError::of(
                    "ValueError",
                    format!(
                        "verifier `{}` calls tool `{}` without `{first}`, which it requires",
                        self.name, call.tool
                    ),
                ));
            }
        }
        Ok(())
    }
}

impl Expectation {
    fn row(&self, passed: bool, why: &str) -> Value {
        let mut row = Map::new();
        row.insert("id".to_owned(), self.id.as_str().into());
        if let Some(description) = &self.description {
            row.insert("description".to_owned(), description.as_str().into());
        }
        row.insert("result".to_owned(), passed.into());
        row.insert("score".to_owned(), if passed { 1.0 } else { 0.0 }.into());
        row.insert("weight".to_owned(), self.weight.clone());
        row.insert("justification".to_owned(), head(why, MAX_SHOWN).into());
        Value::Object(row)
    }
}

/// Returns the state of an env: the object of its one part of data, else the list of its parts.
async fn state(verifier: &str, env: &dyn LiveEnv) -> Result<Value, StepError> {
    if !env.can_export() {
        return Err(StepError::of(
            "ValueError",
            format!(
                "verifier `{verifier}` looks at the state of env `{}`, which cannot export it; look at what a tool \
                 answers with `call`",
                env.env_id()
            ),
        ));
    }
    let parts: Value = from_slice(&env.export().await?).map_err(|error| {
        StepError::new(format!(
            "the state of env `{}` is no JSON: {error}",
            env.env_id()
        ))
    })?;
    let items = parts.as_array().map_or(&[][..], Vec::as_slice);
    let mut data = items.iter().filter_map(|part| part.get("data"));
    Ok(match (data.next(), data.next()) {
        (Some(only), None) => only.clone(),
        _ => parts,
    })
}

/// Calls a tool; the inner error is what the row says.
async fn ask(env: &dyn LiveEnv, call: &Call) -> Result<Result<Value, String>, StepError> {
    let result = match env.call(&call.tool, call.arguments.clone()).await {
        Ok(result) => result,
        Err(error) if error.is_fatal() => return Err(error.into()),
        Err(error) => return Ok(Err(error.to_string())),
    };
    let answer = answer_of(&result);
    if result.get("isError") != Some(&Value::Bool(true)) {
        return Ok(Ok(answer));
    }
    let said = match answer {
        Value::String(text) => text,
        other => other.to_string(),
    };
    Ok(Err(format!("tool `{}` failed: {said}", call.tool)))
}
