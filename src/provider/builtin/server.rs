//! Serves a store: MCP for its tools and its resource, and the data plane of AgentEnv.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::store::Store;
use super::tool::{Arguments, only_reads};
use super::{clock, format};
use crate::diagnostic::nearest;
use crate::json::{Map, Value, json};
use crate::step::env::{EnvError, EnvServer, ExtensionCall, VIRTUAL_TIME, tool_error, tool_result};
use crate::step::sandbox::{BoxFuture, Put};
use crate::system::disk;

const NO_SUCH_METHOD: i64 = -32601;
const BAD_PARAMS: i64 = -32602;
const FAILED: i64 = -32000;
const NOT_FOUND: i64 = 404;

/// An env that is compiled in.
pub(super) struct Server<S> {
    env_id: String,
    tools: Vec<Value>,
    store: Mutex<S>,
}

impl<S: Store> Server<S> {
    /// Starts an env with an empty state.
    pub(super) fn start(env_id: &str) -> Arc<dyn EnvServer> {
        Arc::new(Server::<S> {
            env_id: env_id.to_owned(),
            tools: S::tools(),
            store: Mutex::default(),
        })
    }

    fn store(&self) -> MutexGuard<'_, S> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn refused(&self, what: &str, code: i64, message: impl Into<String>) -> EnvError {
        self.refused_with(what, code, message, Value::Null)
    }

    fn refused_with(
        &self,
        what: &str,
        code: i64,
        message: impl Into<String>,
        data: Value,
    ) -> EnvError {
        EnvError::Refused {
            env: self.env_id.clone(),
            what: what.to_owned(),
            code,
            message: message.into(),
            data,
        }
    }

    fn not_added(&self, why: impl Into<String>) -> EnvError {
        self.refused_with("data/add", FAILED, why, json!({"code": "add_failed"}))
    }

    fn not_supported(&self, what: &str) -> EnvError {
        EnvError::NotSupported {
            env: self.env_id.clone(),
            what: what.to_owned(),
        }
    }

    fn uri() -> String {
        format!("{}://state", S::NAME)
    }

    fn answer(&self, method: &str, mut params: Value) -> Result<Value, EnvError> {
        match method {
            "ping" => Ok(json!({})),
            "tools/list" => Ok(json!({"tools": self.tools})),
            "prompts/list" => Ok(json!({"prompts": []})),
            "resources/list" => Ok(json!({"resources": [{
                "uri": Self::uri(),
                "name": "state",
                "description": format!("The whole state of `{}`.", S::NAME),
                "mimeType": "application/json",
            }]})),
            "resources/templates/list" => Ok(json!({"resourceTemplates": []})),
            "resources/read" => {
                let uri = params["uri"].as_str().unwrap_or_default();
                if uri != Self::uri() {
                    let message = format!("there is no resource `{uri}`");
                    return Err(self.refused(method, BAD_PARAMS, message));
                }
                let bytes = format::write(self.store().state());
                let text = String::from_utf8_lossy(&bytes);
                Ok(json!({"contents": [
                    {"uri": uri, "mimeType": "application/json", "text": text},
                ]}))
            }
            "tools/call" => {
                let time = params["_meta"][VIRTUAL_TIME].take();
                self.call(
                    params["name"].take(),
                    params["arguments"].take(),
                    time.as_str(),
                )
            }
            _ => {
                let message = format!("there is no method `{method}`");
                Err(self.refused(method, NO_SUCH_METHOD, message))
            }
        }
    }

    /// Calls a tool; where a virtual clock shows a time, the env's own follows it, but never back.
    fn call(&self, name: Value, arguments: Value, time: Option<&str>) -> Result<Value, EnvError> {
        let what = "tools/call";
        let name = name.as_str().unwrap_or_default();
        let Some(tool) = self.tools.iter().find(|tool| tool["name"] == name) else {
            let names = self.tools.iter().filter_map(|tool| tool["name"].as_str());
            let meant = nearest(name, names);
            let meant = meant.map_or(String::new(), |meant| format!("; did you mean `{meant}`?"));
            let message = format!("there is no tool `{name}`{meant}");
            return Err(self.refused(what, BAD_PARAMS, message));
        };
        let arguments = match arguments {
            Value::Null => Map::new(),
            Value::Object(arguments) => arguments,
            _ => {
                let message = "`arguments` must be an object";
                return Err(self.refused(what, BAD_PARAMS, message));
            }
        };
        let arguments = match Arguments::check(tool, arguments) {
            Ok(arguments) => arguments,
            Err(fault) => return Ok(tool_error(&fault)),
        };
        let mut store = self.store();
        if only_reads(tool) {
            return Ok(match store.call(name, &arguments) {
                Ok(answer) => tool_result(&answer),
                Err(why) => tool_error(&why),
            });
        }
        let before = store.now().clone();
        if let Some(time) = time {
            clock::follow(store.now(), time);
        }
        Ok(match store.call(name, &arguments) {
            Ok(answer) => {
                if time.is_none() {
                    clock::advance(store.now());
                }
                tool_result(&answer)
            }
            Err(why) => {
                *store.now() = before;
                tool_error(&why)
            }
        })
    }

    fn data(&self, method: &str, params: Value) -> Result<Value, EnvError> {
        let is_empty = params.is_null() || params.as_object().is_some_and(Map::is_empty);
        match method {
            "data/reset" | "data/get" if !is_empty => {
                Err(self.refused(method, BAD_PARAMS, "this method takes no parameters"))
            }
            "data/reset" => {
                *self.store() = S::default();
                Ok(json!({}))
            }
            "data/get" => {
                let state = format::to_value(self.store().state());
                Ok(json!({"parts": [{"kind": "data", "data": state}]}))
            }
            "data/add" => self.add(params),
            _ => {
                let message = format!("there is no method `{method}`");
                Err(self.refused(method, NO_SUCH_METHOD, message))
            }
        }
    }

    fn add(&self, mut params: Value) -> Result<Value, EnvError> {
        let bad = |why: String| self.refused("data/add", BAD_PARAMS, why);
        let parts = match params.get_mut("parts").map(Value::take) {
            Some(Value::Array(parts)) if !parts.is_empty() => parts,
            _ => return Err(bad("`parts` must be a list of at least one part".to_owned())),
        };
        // A part that is none is said before one whose state is none: nothing is added in either case.
        let parts = parts.into_iter().map(format::read_part::<S::State>);
        let parts: Vec<_> = parts.collect::<Result<_, _>>().map_err(bad)?;
        let mut all = S::State::default();
        for state in parts {
            S::join(&mut all, state.map_err(|why| self.not_added(why))?);
        }
        let mut store = self.store();
        store.add(all).map_err(|why| self.not_added(why))?;
        Ok(json!({}))
    }

    fn replace(&self, parts: &[u8]) -> Result<(), EnvError> {
        let not_added = |why: String| self.not_added(why);
        let mut fresh = S::default();
        let mut all = S::State::default();
        for state in format::read_parts(parts).map_err(not_added)? {
            S::join(&mut all, state);
        }
        fresh.add(all).map_err(not_added)?;
        *self.store() = fresh;
        Ok(())
    }
}

impl<S: Store> EnvServer for Server<S> {
    fn request<'a>(
        &'a self,
        method: &'a str,
        params: Value,
    ) -> BoxFuture<'a, Result<Value, EnvError>> {
        Box::pin(async move { self.answer(method, params) })
    }

    fn info(&self) -> Value {
        json!({
            "serverInfo": {"name": S::NAME, "version": "1"},
            "capabilities": {"tools": {}, "resources": {}, "prompts": {}},
            "instructions": S::INSTRUCTIONS,
        })
    }

    fn card(&self) -> Option<Value> {
        let tools = self.tools.iter().map(|tool| {
            json!({
                "name": tool["name"],
                "description": tool["description"],
                "inputSchema": tool["inputSchema"],
            })
        });
        Some(json!({
            "name": self.env_id,
            "protocolVersion": "1.0",
            "url": "/agentenv",
            "preferredTransport": "JSONRPC",
            "additionalInterfaces": [{"url": "/mcp", "transport": "mcp"}],
            "capabilities": {
                "extensions": [{
                    "uri": "urn:agentenv:intake/v1",
                    "description": "Takes its state as a part of kind `data`, or as JSON in the bytes of a file.",
                    "params": {"formats": ["application/json"]},
                    "required": false,
                }],
                "tools": tools.collect::<Vec<_>>(),
                "operations": ["data/reset", "data/add", "data/get"],
            },
        }))
    }

    fn data_plane<'a>(
        &'a self,
        method: &'a str,
        params: Value,
    ) -> BoxFuture<'a, Result<Value, EnvError>> {
        Box::pin(async move { self.data(method, params) })
    }

    fn export(&self) -> BoxFuture<'_, Result<Vec<u8>, EnvError>> {
        self.export_after(Vec::new())
    }

    fn export_after(&self, bytes: Vec<u8>) -> BoxFuture<'_, Result<Vec<u8>, EnvError>> {
        Box::pin(async move { Ok(format::write_parts(self.store().state(), bytes)) })
    }

    fn holds<'a>(&'a self, parts: &'a [u8]) -> BoxFuture<'a, Result<bool, EnvError>> {
        Box::pin(async move { Ok(format::is_written(self.store().state(), parts)) })
    }

    fn import<'a>(&'a self, parts: &'a [u8]) -> BoxFuture<'a, Result<(), EnvError>> {
        Box::pin(async move { self.replace(parts) })
    }

    fn extension(&self, call: ExtensionCall) -> BoxFuture<'_, Result<Value, EnvError>> {
        let message = format!("there is no extension `{}`", call.uri);
        let refused = self.refused(&call.uri, NOT_FOUND, message);
        Box::pin(std::future::ready(Err(refused)))
    }

    fn fetch<'a>(&'a self, _path: &'a str) -> BoxFuture<'a, Result<Option<Vec<u8>>, EnvError>> {
        Box::pin(std::future::ready(Ok(None)))
    }

    fn put(&self, files: &[Put]) -> Result<(), EnvError> {
        if !S::TAKES_FILES {
            return Err(self.not_supported("take files"));
        }
        for file in files {
            let fault =
                |why: String| self.not_supported(&format!("take the file `{}`: {why}", file.to));
            let bytes = disk::read(&file.from).map_err(|error| fault(error.to_string()))?;
            self.store().put(&file.to, &bytes).map_err(fault)?;
        }
        Ok(())
    }

    fn exports_files(&self) -> bool {
        true
    }

    fn gone(&self) -> Option<EnvError> {
        None
    }

    fn stop(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}
