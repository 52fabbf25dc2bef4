//! What a step may ask of an env, and what stands behind it.
//!
//! An [`EnvServer`] is an env as its provider reaches it: it serves MCP and, where it can, the AgentEnv data plane.
//! Nobody but the gateway talks to it. A [`LiveEnv`] is what a step gets: the same env through the gateway, which knows
//! who asks, records each call and keeps tools from roles that may not use them.
//!
//! Requests and answers are the JSON of the protocols. Nobody here knows where an env runs or how it is reached.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use super::sandbox::{BoxFuture, Put};
use super::trigger::Timed;
use crate::json::{Map, Value, json};

/// The role of who names none.
pub const DEFAULT_ROLE: &str = "default";

/// The key in the `_meta` of a tool call that says what the virtual clock shows, where the env has one.
pub const VIRTUAL_TIME: &str = "aebuild/virtual_time";

/// The number of lines that an error shows of what an env wrote before it ended.
pub const TAIL_LINES: usize = 40;

/// Why an env could not do what it was asked.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum EnvError {
    /// It never answered as ready.
    #[error("env `{env}` did not get ready within {} s: {why}{}", seconds(.limit), shown(.tail))]
    NotReady {
        /// The env.
        env: String,
        /// How long was waited.
        limit: Duration,
        /// What was waited for.
        why: String,
        /// What it wrote last.
        tail: String,
    },
    /// It could not be started.
    #[error("env `{env}` could not be started: {why}{}", shown(.tail))]
    NotStarted {
        /// The env.
        env: String,
        /// Why not.
        why: String,
        /// What it wrote last.
        tail: String,
    },
    /// It is gone.
    #[error("env `{env}` is gone: {why}{}", shown(.tail))]
    Gone {
        /// The env.
        env: String,
        /// How it ended.
        why: String,
        /// What it wrote last.
        tail: String,
    },
    /// It did not answer in time.
    #[error("env `{env}` did not answer {what} within {} s", seconds(.limit))]
    TimedOut {
        /// The env.
        env: String,
        /// What was asked.
        what: String,
        /// How long was waited.
        limit: Duration,
    },
    /// It answered with an error.
    #[error("env `{env}` answered {what} with error {code}: {message}")]
    Refused {
        /// The env.
        env: String,
        /// What was asked.
        what: String,
        /// The JSON-RPC code, or the HTTP status.
        code: i64,
        /// What it said.
        message: String,
        /// The `data` of the error, or null.
        data: Value,
    },
    /// It answered with what the protocol does not allow.
    #[error("env `{env}` answered {what} with what the protocol does not allow: {why}")]
    BadAnswer {
        /// The env.
        env: String,
        /// What was asked.
        what: String,
        /// What is wrong with it.
        why: String,
    },
    /// The answer is larger than is taken.
    #[error("env `{env}` answered {what} with more than {limit} bytes")]
    TooLarge {
        /// The env.
        env: String,
        /// What was asked.
        what: String,
        /// The largest answer that is taken, in bytes.
        limit: u64,
    },
    /// It cannot do that at all.
    #[error("env `{env}` cannot {what}")]
    NotSupported {
        /// The env.
        env: String,
        /// What it cannot do, as a verb phrase.
        what: String,
    },
    /// The role may not use the tool.
    #[error("role `{role}` may not use tool `{tool}` of env `{env}`")]
    Forbidden {
        /// The env.
        env: String,
        /// The tool.
        tool: String,
        /// The role.
        role: String,
    },
}

fn seconds(limit: &Duration) -> f64 {
    limit.as_secs_f64()
}

fn shown(tail: &str) -> String {
    if tail.is_empty() {
        String::new()
    } else {
        format!("; its last lines:\n{tail}")
    }
}

impl EnvError {
    /// Returns whether the env itself is no longer of use, so that nothing that was done with it counts.
    pub fn is_fatal(&self) -> bool {
        matches!(
            self,
            EnvError::NotReady { .. }
                | EnvError::NotStarted { .. }
                | EnvError::Gone { .. }
                | EnvError::TimedOut { .. }
                | EnvError::TooLarge { .. }
        )
    }
}

impl From<EnvError> for super::StepError {
    fn from(error: EnvError) -> Self {
        let kind = match error {
            EnvError::TimedOut { .. } | EnvError::NotReady { .. } => "TimeoutError",
            _ => "EnvError",
        };
        super::StepError::of(kind, error.to_string())
    }
}

/// A call of a method that an env offers outside MCP, as its card advertises it.
#[derive(Clone, Debug, PartialEq)]
pub struct ExtensionCall {
    /// The URI of the extension.
    pub uri: String,
    /// The path that the card gives, relative to the card's own address.
    pub endpoint: String,
    /// The verb, such as `POST`; arguments of a `GET` go into the query.
    pub verb: String,
    /// The arguments.
    pub arguments: Map<String, Value>,
}

/// An env as its provider reaches it.
///
/// Dropping a future gives a request up. After a fatal error every request fails with it.
pub trait EnvServer: Send + Sync {
    /// Sends an MCP request and returns the result: `tools/list`, `tools/call`, `resources/read` and so on.
    ///
    /// A list method is asked for all pages at once: its result holds everything and no cursor.
    fn request<'a>(
        &'a self,
        method: &'a str,
        params: Value,
    ) -> BoxFuture<'a, Result<Value, EnvError>>;

    /// Returns what the server said of itself: `{"serverInfo": .., "capabilities": .., "instructions": ..}`.
    fn info(&self) -> Value;

    /// Returns the AgentEnv card; `None` where the server has none.
    fn card(&self) -> Option<Value>;

    /// Sends a JSON-RPC request to the data plane and returns the result.
    fn data_plane<'a>(
        &'a self,
        method: &'a str,
        params: Value,
    ) -> BoxFuture<'a, Result<Value, EnvError>>;

    /// Returns the whole state: the JSON text of the list of parts that `data/get` gives, the same bytes for the same
    /// state.
    fn export(&self) -> BoxFuture<'_, Result<Vec<u8>, EnvError>>;

    /// Returns the whole state, see [`EnvServer::export`], after bytes that are there already.
    fn export_after(&self, mut bytes: Vec<u8>) -> BoxFuture<'_, Result<Vec<u8>, EnvError>> {
        Box::pin(async move {
            let parts = self.export().await?;
            bytes.reserve_exact(parts.len());
            bytes.extend_from_slice(&parts);
            Ok(bytes)
        })
    }

    /// Returns whether the whole state is this one, as [`EnvServer::export`] would give it.
    fn holds<'a>(&'a self, parts: &'a [u8]) -> BoxFuture<'a, Result<bool, EnvError>> {
        Box::pin(async move { Ok(self.export().await? == parts) })
    }

    /// Replaces the whole state by an exported one: `data/reset`, then `data/add`.
    fn import<'a>(&'a self, parts: &'a [u8]) -> BoxFuture<'a, Result<(), EnvError>>;

    /// Calls a method of an extension.
    fn extension(&self, call: ExtensionCall) -> BoxFuture<'_, Result<Value, EnvError>>;

    /// Returns a file that the server offers over HTTP beside MCP, such as `openapi.yaml`; `None` where there is none.
    fn fetch<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<Option<Vec<u8>>, EnvError>>;

    /// Copies files to where the server runs.
    fn put(&self, files: &[Put]) -> Result<(), EnvError>;

    /// Returns whether files that are copied are part of the state that is exported.
    fn exports_files(&self) -> bool {
        false
    }

    /// Returns why the env is gone; `None` while it runs.
    fn gone(&self) -> Option<EnvError>;

    /// Ends the env and waits until nothing of it runs.
    fn stop(&self) -> BoxFuture<'_, ()>;
}

/// An env as a step sees it: through the gateway, under a role, with every call recorded.
pub trait LiveEnv: Send + Sync {
    /// Returns the `env_id`.
    fn env_id(&self) -> &str;

    /// Returns what the server said of itself, see [`EnvServer::info`].
    fn info(&self) -> Value;

    /// Returns the AgentEnv card of the server; `None` where it has none.
    fn card(&self) -> Option<Value>;

    /// Returns the same env for a caller of another role.
    fn in_role(&self, role: &str) -> Arc<dyn LiveEnv>;

    /// Returns the address of the env for programs that the step starts, without a slash at its end. MCP is at `/mcp`
    /// below it, the card at `/.well-known/agent-env.json`, the data plane at `/agentenv`. It works until the step ends.
    fn url(&self) -> BoxFuture<'_, Result<String, EnvError>>;

    /// Returns an address of the env that is the same each time that this holder asks for it in a run, for a program that
    /// outlives the step. It works while a step that asked for it runs.
    fn lasting_url<'a>(&'a self, holder: &'a str) -> BoxFuture<'a, Result<String, EnvError>> {
        let _ = holder;
        self.url()
    }

    /// Returns the tools that the role may use, as `tools/list` gives them.
    fn tools(&self) -> BoxFuture<'_, Result<Vec<Value>, EnvError>>;

    /// Calls a tool and returns the result as `tools/call` gives it; a result with `isError` is a result.
    fn call<'a>(
        &'a self,
        tool: &'a str,
        arguments: Map<String, Value>,
    ) -> BoxFuture<'a, Result<Value, EnvError>>;

    /// Sends another MCP request.
    fn request<'a>(
        &'a self,
        method: &'a str,
        params: Value,
    ) -> BoxFuture<'a, Result<Value, EnvError>>;

    /// Returns whether the whole state can be exported and loaded again.
    fn can_export(&self) -> bool;

    /// Returns the whole state: the JSON text of a list of parts.
    fn export(&self) -> BoxFuture<'_, Result<Vec<u8>, EnvError>>;

    /// Empties the env: `data/reset`.
    fn reset(&self) -> BoxFuture<'_, Result<(), EnvError>>;

    /// Loads a state in place of what is there: `data/reset`, then `data/add` of these parts, the JSON text of a list.
    fn load(&self, parts: Vec<u8>) -> BoxFuture<'_, Result<(), EnvError>>;

    /// Sends a JSON-RPC request to the data plane as it is, for who checks the protocol itself.
    fn data_plane<'a>(
        &'a self,
        method: &'a str,
        params: Value,
    ) -> BoxFuture<'a, Result<Value, EnvError>>;

    /// Calls a method of an extension; it counts as a change of the env's settings.
    fn extension(&self, call: ExtensionCall) -> BoxFuture<'_, Result<Value, EnvError>>;

    /// Returns a file that the server offers over HTTP beside MCP; `None` where there is none.
    fn fetch<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<Option<Vec<u8>>, EnvError>>;

    /// Allows or forbids tools to a role, `*` for all tools or all roles, and returns
    /// `{"disabled": [..], "allowed": [..]}` of the role after it.
    fn set_access(&self, role: &str, tools: &[String], enabled: bool) -> Result<Value, EnvError>;

    /// Copies files to where the server runs.
    fn put(&self, files: &[Put]) -> Result<(), EnvError>;

    /// Returns its triggers and its virtual clock; `None` where it can have none.
    fn timed(&self) -> Option<&dyn Timed> {
        None
    }

    /// Returns the calls that were recorded since the env was made, oldest first, as JSON lines.
    fn trajectory(&self) -> Result<Vec<u8>, EnvError>;
}

/// Returns the result of a tool call that holds a value: as structured content and as text.
pub fn tool_result(value: &Value) -> Value {
    let text = value.to_string();
    let mut result = json!({"content": [{"type": "text", "text": text}], "isError": false});
    if value.is_object() {
        result["structuredContent"] = value.clone();
    }
    result
}

/// Returns the result of a tool call that failed.
pub fn tool_error(message: &str) -> Value {
    json!({"content": [{"type": "text", "text": message}], "isError": true})
}

/// Returns what a tool's result says: its structured content, else its text as JSON where it is that, else its text.
pub fn answer_of(result: &Value) -> Value {
    if let Some(structured) = result
        .get("structuredContent")
        .filter(|value| !value.is_null())
    {
        return structured.clone();
    }
    let items = result.get("content").and_then(Value::as_array);
    let texts: Vec<&str> = items
        .into_iter()
        .flatten()
        .filter_map(|item| item.get("text").and_then(Value::as_str))
        .collect();
    let text = texts.join("\n");
    crate::json::from_slice(text.as_bytes()).unwrap_or(Value::String(text))
}

/// The last lines of a text that comes in pieces.
#[derive(Clone, Debug, Default)]
pub struct LastLines {
    lines: VecDeque<String>,
    open: Vec<u8>,
}

impl LastLines {
    /// The longest line that is kept whole, in bytes.
    const LONGEST: usize = 2000;

    /// Adds a piece.
    pub fn push(&mut self, bytes: &[u8]) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let room = Self::LONGEST.saturating_sub(self.open.len());
            let text = piece.strip_suffix(b"\n").unwrap_or(piece);
            self.open.extend_from_slice(&text[..text.len().min(room)]);
            if piece.ends_with(b"\n") {
                let line = String::from_utf8_lossy(&self.open).into_owned();
                self.open.clear();
                self.lines.push_back(line);
                if self.lines.len() > TAIL_LINES {
                    self.lines.pop_front();
                }
            }
        }
    }

    /// Returns the lines, at most [`TAIL_LINES`].
    pub fn text(&self) -> String {
        let open = String::from_utf8_lossy(&self.open);
        let open = (!open.is_empty()).then_some(open.into_owned());
        let skip = usize::from(open.is_some() && self.lines.len() == TAIL_LINES);
        let lines = self.lines.iter().skip(skip).cloned().chain(open);
        lines.collect::<Vec<_>>().join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_are_kept_however_they_come_in() {
        let text: String = (0..100).map(|n| format!("line {n}\n")).collect();
        for piece in [1, 3, 7, 1000] {
            let mut last = LastLines::default();
            text.as_bytes()
                .chunks(piece)
                .for_each(|bytes| last.push(bytes));
            let kept = last.text();
            assert_eq!(kept.lines().count(), TAIL_LINES);
            assert!(
                kept.starts_with("line 60\n") && kept.ends_with("line 99"),
                "{kept}"
            );
            last.push(b"open");
            assert!(last.text().starts_with("line 61\n") && last.text().ends_with("\nopen"));
        }
        let mut last = LastLines::default();
        last.push(&[b'x'; 10_000]);
        assert_eq!(last.text().len(), LastLines::LONGEST);
    }

    #[test]
    fn a_result_says_its_structure_before_its_text() {
        assert_eq!(answer_of(&tool_result(&json!({"a": 1}))), json!({"a": 1}));
        assert_eq!(answer_of(&tool_result(&json!([1, 2]))), json!([1, 2]));
        assert_eq!(
            answer_of(&tool_error("no such mail")),
            json!("no such mail")
        );
        assert_eq!(answer_of(&json!({})), json!(""));
    }
}
