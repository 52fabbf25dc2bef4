//! The gateway's side of A2A: an agent that is asked in either dialect, below one address.
//!
//! Each message becomes a task, which goes on until it is over, whether or not somebody waits for it. Messages of one
//! conversation are taken one after another. Nobody here knows what the agent is.

mod events;
mod tasks;

use std::sync::Arc;

use axum::body::to_bytes;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::response::Response;

use super::http::{MAX_REQUEST, fault, json_response};
use crate::json::{Value, json};
use crate::step::a2a::card::{PATHS, served};
use crate::step::a2a::{Message, Method, Wire};
use crate::step::agent::AgentDoor;
use tasks::{Entry, Tasks};

/// An agent below an address.
pub(super) struct AgentService {
    door: Arc<dyn AgentDoor>,
    tasks: Tasks,
}

/// An error of JSON-RPC.
#[derive(Clone, Debug, PartialEq)]
struct Refusal {
    code: i64,
    message: String,
}

impl Refusal {
    fn new(code: i64, message: impl Into<String>) -> Self {
        Refusal {
            code,
            message: message.into(),
        }
    }
}

const NO_JSON: i64 = -32700;
const NO_REQUEST: i64 = -32600;
const NO_METHOD: i64 = -32601;
const BAD_PARAMS: i64 = -32602;
const NO_TASK: i64 = -32001;
const NOT_CANCELABLE: i64 = -32002;
const NOT_POSSIBLE: i64 = -32004;
const TOO_MUCH: i64 = -32000;

impl AgentService {
    /// Returns the service of an agent.
    pub(super) fn new(door: Arc<dyn AgentDoor>) -> Self {
        AgentService {
            door,
            tasks: Tasks::default(),
        }
    }

    /// Gives up all that the agent still works on.
    pub(super) fn close(&self) {
        self.tasks.close();
    }

    /// Answers a request for a path below the address of the agent, which ends in a slash.
    pub(super) async fn answer(&self, url: &str, path: &str, request: Request) -> Response {
        let is_card = PATHS.iter().any(|card| card[1..] == *path);
        match (request.method().as_str(), path) {
            ("GET", _) if is_card => {
                let mut card = served(self.door.name(), self.door.description(), url);
                if self.door.takes_envs() {
                    card["capabilities"]["extensions"] = json!([mcp_config()]);
                }
                json_response(StatusCode::OK, &card)
            }
            ("POST", "ext/mcp-config") if self.door.takes_envs() => self.connect(request).await,
            ("POST", "" | "a2a") => self.rpc(request).await,
            _ => fault(
                StatusCode::NOT_FOUND,
                "an agent has no such path; its card is at /.well-known/agent-card.json",
            ),
        }
    }

    /// Connects the agent to an env that is said in the way of AgentEnv.
    async fn connect(&self, request: Request) -> Response {
        let Ok(bytes) = to_bytes(request.into_body(), MAX_REQUEST).await else {
            return fault(StatusCode::PAYLOAD_TOO_LARGE, "the body cannot be read");
        };
        let body: Value = crate::json::from_slice(&bytes).unwrap_or_default();
        let text = |key: &str| body.get(key).and_then(Value::as_str);
        let Some(url) = text("url").filter(|url| url.starts_with("http://")) else {
            let why = "the body needs `url`, the http:// address of a server of MCP";
            return fault(StatusCode::BAD_REQUEST, why);
        };
        match self.door.connect(text("name").unwrap_or("env"), url) {
            Ok(()) => json_response(StatusCode::OK, &json!({"ok": true})),
            Err(why) => fault(StatusCode::BAD_REQUEST, &why),
        }
    }

    async fn rpc(&self, request: Request) -> Response {
        let refused = |id: &Value, refusal: Refusal| {
            let error = json!({"code": refusal.code, "message": refusal.message});
            answer(&json!({"jsonrpc": "2.0", "id": id, "error": error}))
        };
        let Ok(bytes) = to_bytes(request.into_body(), MAX_REQUEST).await else {
            return fault(StatusCode::PAYLOAD_TOO_LARGE, "the body cannot be read");
        };
        let Ok(body) = crate::json::from_slice::<Value>(&bytes) else {
            return refused(&Value::Null, Refusal::new(NO_JSON, "the body is no JSON"));
        };
        let id = match body.get("id") {
            Some(id @ (Value::String(_) | Value::Number(_))) => id.clone(),
            _ => Value::Null,
        };
        let method = body.get("method").and_then(Value::as_str);
        let Some(method) = method.filter(|_| body.get("jsonrpc") == Some(&json!("2.0"))) else {
            let refusal = Refusal::new(NO_REQUEST, "the body is no JSON-RPC request");
            return refused(&id, refusal);
        };
        let Some((wire, method)) = Wire::of_name(method) else {
            let refusal = Refusal::new(NO_METHOD, format!("there is no method `{method}`"));
            return refused(&id, refusal);
        };
        let params = body.get("params").unwrap_or(&Value::Null);
        let done = match method {
            Method::Send => self.send(wire, params).await,
            Method::Get => self.entry(params).map(|entry| entry.task().write(wire)),
            Method::Cancel => self.cancel(wire, params),
            Method::Stream | Method::Subscribe => {
                let entry = match method {
                    Method::Stream => self.start(params),
                    _ => self.entry(params),
                };
                match entry {
                    Ok(entry) => return events::stream(wire, id, &entry),
                    Err(refusal) => Err(refusal),
                }
            }
        };
        match done {
            Ok(result) => answer(&json!({"jsonrpc": "2.0", "id": id, "result": result})),
            Err(refusal) => refused(&id, refusal),
        }
    }

    async fn send(&self, wire: Wire, params: &Value) -> Result<Value, Refusal> {
        let configuration = params.get("configuration").unwrap_or(&Value::Null);
        let waits = match wire {
            Wire::V03 => configuration.get("blocking") != Some(&json!(false)),
            Wire::V1 => configuration.get("returnImmediately") != Some(&json!(true)),
        };
        let entry = self.start(params)?;
        if waits {
            entry.over().await;
        }
        let task = entry.task().write(wire);
        Ok(match wire {
            Wire::V03 => task,
            Wire::V1 => json!({"task": task}),
        })
    }

    fn start(&self, params: &Value) -> Result<Arc<Entry>, Refusal> {
        let message = params.get("message").and_then(Message::read);
        let message = message.filter(|message| !message.parts.is_empty());
        let Some(message) = message else {
            let why = "`params.message` has no part that is a text, a value or a file";
            return Err(Refusal::new(BAD_PARAMS, why));
        };
        if let Some(id) = &message.task_id {
            let task = self.tasks.find(id).ok_or_else(|| no_task(id))?;
            let state = task.task().state.name(Wire::V03);
            let why = format!("task `{id}` is {state}, and takes no message; leave `taskId` out");
            return Err(Refusal::new(NOT_POSSIBLE, why));
        }
        let started = self.tasks.start(self.door.clone(), message);
        started.map_err(|why| Refusal::new(TOO_MUCH, why))
    }

    fn entry(&self, params: &Value) -> Result<Arc<Entry>, Refusal> {
        let id = params.get("id").and_then(Value::as_str);
        let id = id.ok_or_else(|| Refusal::new(BAD_PARAMS, "`params.id` is no text"))?;
        self.tasks.find(id).ok_or_else(|| no_task(id))
    }

    fn cancel(&self, wire: Wire, params: &Value) -> Result<Value, Refusal> {
        let entry = self.entry(params)?;
        if entry.cancel() {
            return Ok(entry.task().write(wire));
        }
        let state = entry.task().state.name(Wire::V03);
        let why = format!("the task is {state}, and cannot be canceled any more");
        Err(Refusal::new(NOT_CANCELABLE, why))
    }
}

/// Returns what the card of an agent says that can be connected to envs.
fn mcp_config() -> Value {
    let request = json!({"required": ["url"], "optional": ["name"]});
    json!({
        "uri": "urn:agentenv:mcp-config/v1",
        "description": "connect the agent to a server of MCP",
        "required": false,
        "params": {
            "endpoint": "/ext/mcp-config",
            "methods": {"add": {"method": "POST", "request": request}},
        },
    })
}

fn no_task(id: &str) -> Refusal {
    Refusal::new(NO_TASK, format!("there is no task `{id}`"))
}

fn answer(body: &Value) -> Response {
    json_response(StatusCode::OK, body)
}

#[cfg(test)]
mod tests;
