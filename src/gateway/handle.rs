//! An env as a step holds it.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use super::Caller;
use super::gate::Gate;
use super::grant::Grant;
use super::http::Gateway;
use super::timed::Presence;
use crate::json::{Map, Value};
use crate::step::env::{EnvError, ExtensionCall, LiveEnv};
use crate::step::sandbox::{BoxFuture, Put};
use crate::step::trigger::Timed;
use crate::system::locked;

/// The env of a gate, for one caller.
///
/// Addresses that it gave out stop working when the last handle of the step is dropped.
pub struct EnvHandle {
    pub(super) gate: Arc<Gate>,
    gateway: Arc<Gateway>,
    pub(super) caller: Caller,
    /// By role, and by holder where the address stays the same.
    grants: Arc<Mutex<Vec<Granted>>>,
    /// Has time go on while it is there, for a step that works on the env.
    presence: Option<Arc<Presence>>,
}

type Granted = ((String, Option<String>), Grant);

impl EnvHandle {
    /// Returns a handle.
    pub fn new(gate: Arc<Gate>, gateway: Arc<Gateway>, caller: Caller) -> Self {
        let presence = caller
            .passes_time
            .then(|| Arc::new(Presence::of(&gate, &caller.step)));
        EnvHandle {
            gate,
            gateway,
            caller,
            grants: Arc::default(),
            presence,
        }
    }

    /// Returns the address of the env for this caller, see [`LiveEnv::url`] and [`LiveEnv::lasting_url`].
    async fn address(&self, holder: Option<&str>) -> Result<String, EnvError> {
        let key = (self.caller.role.clone(), holder.map(str::to_owned));
        let known = locked(&self.grants).iter().find_map(|(of, grant)| {
            // Since then the address may have been given to another step.
            (*of == key && grant.is_own()).then(|| grant.url().to_owned())
        });
        if let Some(url) = known {
            return Ok(url);
        }
        let (gate, caller) = (self.gate.clone(), self.caller.clone());
        let granted = match holder {
            None => self.gateway.grant(gate, caller).await,
            Some(holder) => self.gateway.grant_lasting(holder, gate, caller).await,
        };
        let grant = granted.map_err(|error| EnvError::NotStarted {
            env: self.gate.env_id().to_owned(),
            why: format!("the gateway cannot listen on 127.0.0.1: {error}"),
            tail: String::new(),
        })?;
        let url = grant.url().to_owned();
        let before = {
            let mut grants = locked(&self.grants);
            let before = grants.iter().position(|(of, _)| *of == key);
            let before = before.map(|at| grants.swap_remove(at));
            grants.push((key, grant));
            before
        };
        drop(before);
        Ok(url)
    }
}

impl LiveEnv for EnvHandle {
    fn env_id(&self) -> &str {
        self.gate.env_id()
    }

    fn info(&self) -> Value {
        self.gate.server.info()
    }

    fn card(&self) -> Option<Value> {
        self.gate.server.card()
    }

    fn in_role(&self, role: &str) -> Arc<dyn LiveEnv> {
        Arc::new(EnvHandle {
            gate: self.gate.clone(),
            gateway: self.gateway.clone(),
            caller: self.caller.in_role(role),
            grants: self.grants.clone(),
            presence: self.presence.clone(),
        })
    }

    fn url(&self) -> BoxFuture<'_, Result<String, EnvError>> {
        Box::pin(self.address(None))
    }

    fn lasting_url<'a>(&'a self, holder: &'a str) -> BoxFuture<'a, Result<String, EnvError>> {
        Box::pin(self.address(Some(holder)))
    }

    fn tools(&self) -> BoxFuture<'_, Result<Vec<Value>, EnvError>> {
        Box::pin(self.gate.tools(&self.caller.role))
    }

    fn call<'a>(
        &'a self,
        tool: &'a str,
        arguments: Map<String, Value>,
    ) -> BoxFuture<'a, Result<Value, EnvError>> {
        Box::pin(self.gate.call(&self.caller, tool, arguments))
    }

    fn request<'a>(
        &'a self,
        method: &'a str,
        params: Value,
    ) -> BoxFuture<'a, Result<Value, EnvError>> {
        Box::pin(self.gate.request(&self.caller, method, params))
    }

    fn can_export(&self) -> bool {
        self.gate.can_export()
    }

    fn export(&self) -> BoxFuture<'_, Result<Vec<u8>, EnvError>> {
        Box::pin(self.gate.export())
    }

    fn reset(&self) -> BoxFuture<'_, Result<(), EnvError>> {
        Box::pin(self.gate.reset(&self.caller))
    }

    fn load(&self, parts: Vec<u8>) -> BoxFuture<'_, Result<(), EnvError>> {
        Box::pin(self.gate.load(&self.caller, parts))
    }

    fn data_plane<'a>(
        &'a self,
        method: &'a str,
        params: Value,
    ) -> BoxFuture<'a, Result<Value, EnvError>> {
        Box::pin(self.gate.data_plane(&self.caller, method, params))
    }

    fn extension(&self, call: ExtensionCall) -> BoxFuture<'_, Result<Value, EnvError>> {
        Box::pin(self.gate.extension(&self.caller, call))
    }

    fn fetch<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<Option<Vec<u8>>, EnvError>> {
        self.gate.server.fetch(path)
    }

    fn set_access(&self, role: &str, tools: &[String], enabled: bool) -> Result<Value, EnvError> {
        self.gate.set_access(&self.caller, role, tools, enabled)
    }

    fn put(&self, files: &[Put]) -> Result<(), EnvError> {
        self.gate.put(&self.caller, files)
    }

    fn timed(&self) -> Option<&dyn Timed> {
        Some(self)
    }

    fn trajectory(&self) -> Result<Vec<u8>, EnvError> {
        if self.gate.is_restored.load(Ordering::Relaxed) {
            return Err(EnvError::NotSupported {
                env: self.gate.env_id().to_owned(),
                what: "tell all its calls: its state came back from a snapshot, and the calls before that were those of \
                       another run"
                    .to_owned(),
            });
        }
        self.gate.lines()
    }
}
