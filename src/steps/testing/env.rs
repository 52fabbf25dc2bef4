//! An env whose tools are closures over a JSON state.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use crate::json::{Map, Value, json};
use crate::step::env::{EnvError, ExtensionCall, LiveEnv, tool_error};
use crate::step::sandbox::{BoxFuture, Put};

type Tool = dyn Fn(&Map<String, Value>) -> Value + Send + Sync;
type DataPlane = dyn Fn(&str, &Value) -> Result<Value, (i64, String)> + Send + Sync;

/// What is shared by the env in all roles.
struct Inner {
    env_id: String,
    tools: Vec<(Value, Box<Tool>)>,
    card: Option<Value>,
    files: HashMap<String, Vec<u8>>,
    extensions: HashMap<String, Value>,
    data_plane: Option<Box<DataPlane>>,
    can_export: bool,
    /// How an exported state differs from the one that was loaded.
    distorts: fn(Value) -> Value,
    /// Why a state is refused.
    refuses: fn(&Value) -> Option<&'static str>,
    parts: Mutex<Value>,
    said: Mutex<Vec<String>>,
    trajectory: Mutex<Vec<u8>>,
}

/// An env of a test.
#[derive(Clone)]
pub(in crate::steps) struct FakeEnv {
    inner: Arc<Inner>,
    role: String,
}

impl FakeEnv {
    pub(in crate::steps) fn new(env_id: &str) -> Self {
        FakeEnv {
            inner: Arc::new(Inner {
                env_id: env_id.to_owned(),
                tools: Vec::new(),
                card: None,
                files: HashMap::new(),
                extensions: HashMap::new(),
                data_plane: None,
                can_export: true,
                distorts: |parts| parts,
                refuses: |_| None,
                parts: Mutex::new(json!([])),
                said: Mutex::default(),
                trajectory: Mutex::default(),
            }),
            role: "default".to_owned(),
        }
    }

    fn change(mut self, change: impl FnOnce(&mut Inner)) -> Self {
        change(Arc::get_mut(&mut self.inner).expect("an env is set up before it is shared"));
        self
    }

    /// Adds a tool, as `tools/list` declares it.
    pub(in crate::steps) fn tool(
        self,
        declared: Value,
        answer: impl Fn(&Map<String, Value>) -> Value + Send + Sync + 'static,
    ) -> Self {
        self.change(|inner| inner.tools.push((declared, Box::new(answer))))
    }

    pub(in crate::steps) fn card(self, card: Value) -> Self {
        self.change(|inner| inner.card = Some(card))
    }

    /// Adds a file that is served over HTTP.
    pub(in crate::steps) fn serves(self, path: &str, text: &str) -> Self {
        self.change(|inner| {
            inner.files.insert(path.to_owned(), text.into());
        })
    }

    /// Adds an extension and what its methods answer.
    pub(in crate::steps) fn extension(self, uri: &str, answer: Value) -> Self {
        self.change(|inner| {
            inner.extensions.insert(uri.to_owned(), answer);
        })
    }

    /// Sets what the data plane answers.
    pub(in crate::steps) fn data_plane(
        self,
        answer: impl Fn(&str, &Value) -> Result<Value, (i64, String)> + Send + Sync + 'static,
    ) -> Self {
        self.change(|inner| inner.data_plane = Some(Box::new(answer)))
    }

    /// Takes the data plane away: the state can neither be exported nor loaded.
    pub(in crate::steps) fn opaque(self) -> Self {
        self.change(|inner| inner.can_export = false)
    }

    /// Sets the state: a list of parts.
    pub(in crate::steps) fn state(self, parts: Value) -> Self {
        self.change(|inner| inner.parts = Mutex::new(parts))
    }

    /// Sets how an export differs from what was loaded.
    pub(in crate::steps) fn distorts(self, distorts: fn(Value) -> Value) -> Self {
        self.change(|inner| inner.distorts = distorts)
    }

    /// Sets which states are refused, and why.
    pub(in crate::steps) fn refuses(self, refuses: fn(&Value) -> Option<&'static str>) -> Self {
        self.change(|inner| inner.refuses = refuses)
    }

    /// Sets the recorded calls.
    pub(in crate::steps) fn recorded(self, lines: &str) -> Self {
        self.change(|inner| inner.trajectory = Mutex::new(lines.into()))
    }

    /// Returns what was done with it, a line for each.
    pub(in crate::steps) fn said(&self) -> String {
        self.inner.said.lock().unwrap().join("\n")
    }

    fn say(&self, line: String) {
        self.inner.said.lock().unwrap().push(line);
    }

    fn refused(&self, what: &str, code: i64, message: String) -> EnvError {
        EnvError::Refused {
            env: self.inner.env_id.clone(),
            what: what.to_owned(),
            code,
            message,
            data: Value::Null,
        }
    }
}

fn now<'a, T: Send + 'a>(value: T) -> BoxFuture<'a, T> {
    Box::pin(std::future::ready(value))
}

impl LiveEnv for FakeEnv {
    fn env_id(&self) -> &str {
        &self.inner.env_id
    }

    fn info(&self) -> Value {
        json!({"serverInfo": {"name": self.inner.env_id, "version": "1"}, "capabilities": {"tools": {}}})
    }

    fn card(&self) -> Option<Value> {
        self.inner.card.clone()
    }

    fn in_role(&self, role: &str) -> Arc<dyn LiveEnv> {
        Arc::new(FakeEnv {
            inner: self.inner.clone(),
            role: role.to_owned(),
        })
    }

    fn url(&self) -> BoxFuture<'_, Result<String, EnvError>> {
        now(Ok(format!("http://127.0.0.1:1/{}", self.inner.env_id)))
    }

    fn tools(&self) -> BoxFuture<'_, Result<Vec<Value>, EnvError>> {
        now(Ok(self
            .inner
            .tools
            .iter()
            .map(|(tool, _)| tool.clone())
            .collect()))
    }

    fn call<'a>(
        &'a self,
        tool: &'a str,
        arguments: Map<String, Value>,
    ) -> BoxFuture<'a, Result<Value, EnvError>> {
        self.say(format!(
            "{} calls {tool} {}",
            self.role,
            Value::Object(arguments.clone())
        ));
        let found = self
            .inner
            .tools
            .iter()
            .find(|(other, _)| other["name"] == tool);
        now(Ok(match found {
            Some((_, answer)) => answer(&arguments),
            None => tool_error(&format!("unknown tool: {tool}")),
        }))
    }

    fn request<'a>(
        &'a self,
        method: &'a str,
        params: Value,
    ) -> BoxFuture<'a, Result<Value, EnvError>> {
        self.say(format!("{method} {params}"));
        now(Err(self.refused(
            method,
            -32601,
            "unknown method".to_owned(),
        )))
    }

    fn can_export(&self) -> bool {
        self.inner.can_export
    }

    fn export(&self) -> BoxFuture<'_, Result<Vec<u8>, EnvError>> {
        let parts = self.inner.parts.lock().unwrap().clone();
        now(Ok((self.inner.distorts)(parts).to_string().into_bytes()))
    }

    fn reset(&self) -> BoxFuture<'_, Result<(), EnvError>> {
        self.say("reset".to_owned());
        *self.inner.parts.lock().unwrap() = json!([]);
        now(Ok(()))
    }

    fn load(&self, parts: Vec<u8>) -> BoxFuture<'_, Result<(), EnvError>> {
        let parts: Value = crate::json::from_slice(&parts).unwrap();
        self.say(format!("load {parts}"));
        if let Some(why) = (self.inner.refuses)(&parts) {
            return now(Err(self.refused("data/add", -32000, why.to_owned())));
        }
        *self.inner.parts.lock().unwrap() = parts;
        now(Ok(()))
    }

    fn data_plane<'a>(
        &'a self,
        method: &'a str,
        params: Value,
    ) -> BoxFuture<'a, Result<Value, EnvError>> {
        self.say(format!("{method} {params}"));
        now(match &self.inner.data_plane {
            Some(answer) => {
                answer(method, &params).map_err(|(code, text)| self.refused(method, code, text))
            }
            None => Err(self.refused(method, -32601, "unknown method".to_owned())),
        })
    }

    fn extension(&self, call: ExtensionCall) -> BoxFuture<'_, Result<Value, EnvError>> {
        let ExtensionCall {
            uri,
            endpoint,
            verb,
            arguments,
        } = call;
        self.say(format!("{verb} {endpoint} {}", Value::Object(arguments)));
        now(match self.inner.extensions.get(&uri) {
            Some(answer) => Ok(answer.clone()),
            None => Err(self.refused(&uri, 404, "not found".to_owned())),
        })
    }

    fn fetch<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<Option<Vec<u8>>, EnvError>> {
        now(Ok(self.inner.files.get(path).cloned()))
    }

    fn set_access(&self, role: &str, tools: &[String], enabled: bool) -> Result<Value, EnvError> {
        let verb = if enabled { "enable" } else { "disable" };
        self.say(format!("{verb} {} for {role}", tools.join(", ")));
        let [disabled, allowed] = if enabled {
            [json!([]), json!(tools)]
        } else {
            [json!(tools), json!([])]
        };
        Ok(json!({"disabled": disabled, "allowed": allowed}))
    }

    fn put(&self, files: &[Put]) -> Result<(), EnvError> {
        for put in files {
            self.say(format!("put {} {:o}", put.to, put.mode));
        }
        Ok(())
    }

    fn trajectory(&self) -> Result<Vec<u8>, EnvError> {
        Ok(self.inner.trajectory.lock().unwrap().clone())
    }
}
