//! The gate of one env: every request to it goes through here.

use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json_path::JsonPath;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use super::Caller;
use super::access::Access;
use super::course::Course;
use super::hook::{Hook, ToolCall};
use super::line::in_a_line;
use super::record::{Made, Recorder};
use super::triggers::Effect;
use crate::json::{Map, Value, json};
use crate::step::env::{EnvError, EnvServer, ExtensionCall, VIRTUAL_TIME};
use crate::step::sandbox::Put;
use crate::system::{disk, locked};
use crate::task::deploy::{ClockMode, names_tool};

/// How a gate behaves.
#[derive(Clone, Debug)]
pub struct GateSettings {
    /// The `env_id`.
    pub env_id: String,
    /// How long the env may take to answer.
    pub call_timeout: Duration,
    /// Tools that change nothing, whatever the server says.
    pub read_only_tools: Vec<String>,
    /// Places of answers that differ each time.
    pub volatile: Vec<JsonPath>,
    /// Whether its snapshots are exported states; else they are recorded calls, or there are none.
    pub exports: bool,
    /// Whether the server offers the whole data plane.
    pub can_export: bool,
    /// How its virtual clock goes on.
    pub clock: ClockMode,
}

/// What stands before one env.
pub struct Gate {
    pub(super) settings: GateSettings,
    pub(super) server: Arc<dyn EnvServer>,
    pub(super) recorder: Recorder,
    hooks: Vec<Arc<dyn Hook>>,
    pub(super) access: Mutex<Access>,
    /// What no export holds, in order: calls of extensions, and files that were copied to the server.
    pub(super) configured: Mutex<Vec<Value>>,
    pub(super) tools: Mutex<Option<Arc<Vec<Value>>>>,
    broken: Mutex<Option<EnvError>>,
    /// Whether its state came from a snapshot, so that calls before that are not on record here.
    pub(super) is_restored: AtomicBool,
    in_flight: AtomicUsize,
    idle: Notify,
    /// Its virtual clock and its triggers.
    pub(super) course: Course,
    me: Weak<Gate>,
}

/// What is asked, as the record says it.
struct What<'w> {
    kind: &'static str,
    name: &'w str,
    arguments: Value,
    mutates: bool,
}

/// Counts a request while it is on its way.
pub(super) struct OnItsWay<'g>(&'g Gate);

impl Drop for OnItsWay<'_> {
    fn drop(&mut self) {
        if self.0.in_flight.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.0.idle.notify_waiters();
        }
    }
}

/// Breaks the env when nobody waits any more for what it was asked: what it does about it is known to nobody.
struct GivenUp<'g> {
    gate: &'g Gate,
    what: &'g str,
    is_over: bool,
}

impl Drop for GivenUp<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            let why = format!("{} was given up before it was answered", self.what);
            let gone = self.gate.gone(why);
            locked(&self.gate.broken).get_or_insert(gone);
        }
    }
}

impl Gate {
    /// Returns the gate of an env.
    pub fn new(
        settings: GateSettings,
        server: Arc<dyn EnvServer>,
        recorder: Recorder,
        hooks: Vec<Arc<dyn Hook>>,
    ) -> Arc<Self> {
        Arc::new_cyclic(|me| Gate {
            course: Course::new(settings.clock),
            me: me.clone(),
            settings,
            server,
            recorder,
            hooks,
            access: Mutex::default(),
            configured: Mutex::default(),
            tools: Mutex::default(),
            broken: Mutex::default(),
            is_restored: AtomicBool::new(false),
            in_flight: AtomicUsize::new(0),
            idle: Notify::new(),
        })
    }

    /// Returns the `env_id`.
    pub fn env_id(&self) -> &str {
        &self.settings.env_id
    }

    /// Returns whether the server offers the whole data plane.
    pub fn can_export(&self) -> bool {
        self.settings.can_export
    }

    /// Returns the places of answers that differ each time.
    pub fn volatile(&self) -> &[JsonPath] {
        &self.settings.volatile
    }

    /// Returns why the env is of no use any more; `None` while it is.
    pub fn broken(&self) -> Option<EnvError> {
        locked(&self.broken).clone().or_else(|| self.server.gone())
    }

    fn gone(&self, why: String) -> EnvError {
        EnvError::Gone {
            env: self.settings.env_id.clone(),
            why,
            tail: String::new(),
        }
    }

    /// Returns how many calls were recorded, and how many of them may have changed the state.
    pub fn counts(&self) -> (u64, u64) {
        self.recorder.counts()
    }

    /// Returns whether a state that is loaded takes the place of all that there is: nothing was copied to the server, or
    /// set there, besides.
    pub fn can_go_back(&self) -> bool {
        locked(&self.configured).is_empty()
    }

    /// Waits until no request is on its way.
    pub async fn idle(&self) {
        loop {
            let idle = self.idle.notified();
            if self.in_flight.load(Ordering::SeqCst) == 0 {
                return;
            }
            idle.await;
        }
    }

    /// Ends the env.
    pub async fn stop(&self) {
        self.server.stop().await;
    }

    pub(super) fn on_its_way(&self) -> OnItsWay<'_> {
        self.in_flight.fetch_add(1, Ordering::SeqCst);
        OnItsWay(self)
    }

    /// Returns the gate as it is shared; `None` while it is being dropped.
    pub(super) fn myself(&self) -> Option<Arc<Gate>> {
        self.me.upgrade()
    }

    /// Does what triggers ask for beside what is asked; it counts as a request that is on its way.
    pub(super) fn beside(self: Arc<Self>, caller: Caller, effects: Vec<Effect>) -> JoinHandle<()> {
        self.in_flight.fetch_add(1, Ordering::SeqCst);
        tokio::spawn(async move {
            let _counted = OnItsWay(&self);
            let _within = self.course.within(&caller);
            self.perform(&caller, effects).await;
        })
    }

    pub(super) fn forbidden(&self, caller: &Caller, tool: &str) -> EnvError {
        EnvError::Forbidden {
            env: self.settings.env_id.clone(),
            tool: tool.to_owned(),
            role: caller.role.clone(),
        }
    }

    /// Waits for the env as long as it may take; one that takes longer is taken to hang, and so is one that the caller
    /// does not wait for.
    pub(super) async fn ask<'g, T>(
        &'g self,
        what: &'g str,
        asked: impl Future<Output = Result<T, EnvError>>,
    ) -> Result<T, EnvError> {
        self.ask_for(None, what, asked).await
    }

    /// Waits likewise, and no longer than the step of the caller does.
    async fn ask_for<'g, T>(
        &'g self,
        caller: Option<&'g Caller>,
        what: &'g str,
        asked: impl Future<Output = Result<T, EnvError>>,
    ) -> Result<T, EnvError> {
        let limit = self.settings.call_timeout;
        let _counted = self.on_its_way();
        if let Some(broken) = self.broken() {
            return Err(broken);
        }
        let mut given_up = GivenUp {
            gate: self,
            what,
            is_over: false,
        };
        let left = async {
            match caller {
                Some(caller) => caller.given_up().await,
                None => std::future::pending().await,
            }
        };
        let answer = tokio::select! {
            biased;
            answer = tokio::time::timeout(limit, asked) => answer,
            () = left => Ok(Err(self.gone(format!(
                "{what} was given up: the step that asked it has ended"
            )))),
        };
        given_up.is_over = true;
        let answer = match answer {
            Ok(answer) => answer,
            Err(_) => Err(EnvError::TimedOut {
                env: self.settings.env_id.clone(),
                what: what.to_owned(),
                limit,
            }),
        };
        if let Err(error) = &answer
            && error.is_fatal()
        {
            locked(&self.broken).get_or_insert_with(|| error.clone());
        }
        answer
    }

    pub(super) fn record(&self, caller: &Caller, made: &Made<'_>) -> Result<(), EnvError> {
        // What is loaded is told by the step that loads it.
        if !matches!(made.kind, "load" | "put" | "triggers" | "clock") || made.name == "wait_until"
        {
            caller.tell(&in_a_line(&self.settings.env_id, made));
        }
        let time = self.course.now();
        self.recorder.write(caller, made, time).map_err(|error| {
            let gone = self.gone(format!("its calls cannot be recorded: {error}"));
            // A call that is not on record is a change that nobody knows of.
            locked(&self.broken).get_or_insert_with(|| gone.clone());
            gone
        })
    }

    /// Asks and records; `shown` is what of the answer is on record.
    async fn recorded<T>(
        &self,
        caller: &Caller,
        what: What<'_>,
        asked: impl Future<Output = Result<T, EnvError>>,
        shown: impl FnOnce(&T) -> Cow<'_, Value>,
    ) -> Result<T, EnvError> {
        let started_us = self.recorder.now_us();
        let what_is_asked = format!("`{}`", what.name);
        let answer = self.ask_for(Some(caller), &what_is_asked, asked).await;
        let shown = answer.as_ref().map(shown);
        let made = Made {
            kind: what.kind,
            name: what.name,
            arguments: &what.arguments,
            answer: match &shown {
                Ok(value) => Ok(value),
                Err(error) => Err(error.to_string()),
            },
            mutates: what.mutates,
            started_us,
        };
        self.record(caller, &made)?;
        answer
    }

    /// Returns every tool of the env.
    pub(super) async fn all_tools(&self) -> Result<Arc<Vec<Value>>, EnvError> {
        if let Some(tools) = locked(&self.tools).clone() {
            return Ok(tools);
        }
        let asked = self.server.request("tools/list", json!({}));
        let mut answer = self.ask("`tools/list`", asked).await?;
        let Some(Value::Array(tools)) = answer.get_mut("tools").map(Value::take) else {
            return Err(EnvError::BadAnswer {
                env: self.settings.env_id.clone(),
                what: "`tools/list`".to_owned(),
                why: "it has no list `tools`".to_owned(),
            });
        };
        let tools = Arc::new(tools);
        *locked(&self.tools) = Some(tools.clone());
        Ok(tools)
    }

    /// Returns the tools that a role may use.
    pub(super) async fn tools(&self, role: &str) -> Result<Vec<Value>, EnvError> {
        let tools = self.all_tools().await?;
        let access = locked(&self.access).clone();
        let clock_tools = self.clock_tools(&tools);
        let all = tools.iter().chain(&clock_tools);
        let allowed = all.filter(|tool| access.allows(role, tool));
        Ok(allowed.cloned().collect())
    }

    /// Returns whether a tool may change the state: it is neither declared nor configured to be read-only.
    fn may_change(&self, name: &str, tool: Option<&Value>) -> bool {
        let mut patterns = self.settings.read_only_tools.iter();
        if patterns.any(|pattern| names_tool(pattern, name)) {
            return false;
        }
        let hint = tool.and_then(|tool| tool.get("annotations")?.get("readOnlyHint"));
        hint != Some(&Value::Bool(true))
    }

    /// Calls a tool.
    pub(super) async fn call(
        &self,
        caller: &Caller,
        tool: &str,
        arguments: Map<String, Value>,
    ) -> Result<Value, EnvError> {
        let tools = self.all_tools().await?;
        if let Some(answer) = self.ask_clock(caller, &tools, tool, &arguments).await {
            return answer;
        }
        let mut call = ToolCall {
            caller: caller.clone(),
            tool: tool.to_owned(),
            arguments,
        };
        let mut passed = 0;
        let mut instead = None;
        for hook in &self.hooks {
            passed += 1;
            instead = hook.before(&mut call);
            if instead.is_some() {
                break;
            }
        }
        let declared = tools
            .iter()
            .find(|other| other["name"] == call.tool.as_str());
        let is_allowed = caller.is_free()
            || declared.is_none_or(|tool| locked(&self.access).allows(&caller.role, tool));
        let mutates = is_allowed && instead.is_none() && self.may_change(&call.tool, declared);
        let started_us = self.recorder.now_us();
        let mut answer = match instead {
            Some(answer) => Ok(answer),
            None if !is_allowed => Err(self.forbidden(caller, &call.tool)),
            None => {
                let mut params = json!({
                    "name": call.tool,
                    "_meta": {"agentenv.io/role": caller.role},
                });
                params["arguments"] = Value::Object(call.arguments.clone());
                if let Some(now) = self.course.now() {
                    params["_meta"][VIRTUAL_TIME] = json!(now.to_string());
                }
                let asked = self.server.request("tools/call", params);
                let what = format!("`{}`", call.tool);
                self.ask_for(Some(caller), &what, asked).await
            }
        };
        if let Ok(result) = &mut answer {
            for hook in self.hooks[..passed].iter().rev() {
                hook.after(&call, result);
            }
        }
        let arguments = Value::Object(call.arguments);
        let made = Made {
            kind: "tool",
            name: &call.tool,
            arguments: &arguments,
            answer: answer.as_ref().map_err(EnvError::to_string),
            mutates,
            started_us,
        };
        self.record(caller, &made)?;
        if let Ok(result) = &answer
            && caller.passes_time
            && self.course.listens()
        {
            self.heard(caller, &call.tool, &arguments, result, mutates)
                .await;
        }
        answer
    }

    /// Sends another MCP request; none of them changes the state.
    pub(super) async fn request(
        &self,
        caller: &Caller,
        method: &str,
        params: Value,
    ) -> Result<Value, EnvError> {
        let asked = self.server.request(method, params.clone());
        self.recorded(
            caller,
            What {
                kind: "request",
                name: method,
                arguments: params,
                mutates: false,
            },
            asked,
            |answer| Cow::Borrowed(answer),
        )
        .await
    }

    /// Sends a JSON-RPC request to the data plane.
    pub(super) async fn data_plane(
        &self,
        caller: &Caller,
        method: &str,
        params: Value,
    ) -> Result<Value, EnvError> {
        let mutates = method != "data/get";
        let asked = self.server.data_plane(method, params.clone());
        self.recorded(
            caller,
            What {
                kind: "data",
                name: method,
                arguments: params,
                mutates,
            },
            asked,
            |answer| match mutates {
                true => Cow::Borrowed(answer),
                false => Cow::Owned(Value::Null),
            },
        )
        .await
    }

    /// Empties the env.
    pub(super) async fn reset(&self, caller: &Caller) -> Result<(), EnvError> {
        self.data_plane(caller, "data/reset", json!({}))
            .await
            .map(drop)
    }

    /// Loads a state in place of what is there.
    pub(super) async fn load(&self, caller: &Caller, parts: Vec<u8>) -> Result<(), EnvError> {
        // An exported state brings its loads with it; only what is replayed must be on record.
        let shown = if self.settings.exports {
            json!({"size": parts.len()})
        } else {
            Value::String(String::from_utf8_lossy(&parts).into_owned())
        };
        let asked = self.server.import(&parts);
        self.recorded(
            caller,
            What {
                kind: "load",
                name: "data/add",
                arguments: shown,
                mutates: true,
            },
            asked,
            |()| Cow::Owned(Value::Null),
        )
        .await
    }

    /// Returns the whole state: the JSON text of a list of parts.
    pub(super) async fn export(&self) -> Result<Vec<u8>, EnvError> {
        self.ask("`data/get`", self.server.export()).await
    }

    /// Calls a method of an extension.
    pub(super) async fn extension(
        &self,
        caller: &Caller,
        call: ExtensionCall,
    ) -> Result<Value, EnvError> {
        let shown = extension_value(&call);
        let name = call.uri.clone();
        let asked = self.server.extension(call);
        let answer = self
            .recorded(
                caller,
                What {
                    kind: "extension",
                    name: &name,
                    arguments: shown.clone(),
                    mutates: true,
                },
                asked,
                |answer| Cow::Borrowed(answer),
            )
            .await?;
        locked(&self.configured).push(shown);
        Ok(answer)
    }

    /// Copies files to where the server runs.
    pub(super) fn put(&self, caller: &Caller, files: &[Put]) -> Result<(), EnvError> {
        let started_us = self.recorder.now_us();
        self.server.put(files).inspect_err(|error| {
            // Some of them may be there.
            let gone = self.gone(format!("files could not be copied to it: {error}"));
            locked(&self.broken).get_or_insert(gone);
        })?;
        let mut put = Vec::with_capacity(files.len());
        for file in files {
            let bytes = disk::read(&file.from).map_err(|error| EnvError::BadAnswer {
                env: self.settings.env_id.clone(),
                what: "a copy of files".to_owned(),
                why: format!("`{}` cannot be read: {error}", file.to),
            })?;
            put.push(json!({"to": file.to, "mode": file.mode, "bytes": BASE64.encode(&bytes)}));
        }
        let put = Value::Array(put);
        let made = Made {
            kind: "put",
            name: "put",
            arguments: &put,
            answer: Ok(&Value::Null),
            mutates: true,
            started_us,
        };
        self.record(caller, &made)?;
        if !self.server.exports_files() {
            locked(&self.configured).push(json!({"put": put}));
        }
        Ok(())
    }

    /// Returns what was recorded, as JSON lines.
    pub fn lines(&self) -> Result<Vec<u8>, EnvError> {
        self.recorder
            .lines()
            .map_err(|error| self.gone(format!("the record of its calls cannot be read: {error}")))
    }
}

pub(super) fn extension_value(call: &ExtensionCall) -> Value {
    json!({
        "uri": call.uri,
        "endpoint": call.endpoint,
        "verb": call.verb,
        "arguments": call.arguments,
    })
}
