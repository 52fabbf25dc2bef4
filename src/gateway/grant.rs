//! Addresses that are given out: each names what is served there by a token that nobody guesses, and works until its grant
//! is dropped.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use super::Caller;
use super::a2a::AgentService;
use super::gate::Gate;
use super::http::{Gateway, Route};
use super::mcp::McpService;
use crate::step::agent::AgentDoor;
use crate::system::locked;

/// An address that was given out; it works until this is dropped.
pub struct Grant {
    url: String,
    token: String,
    number: u64,
    routes: Routes,
}

impl Grant {
    /// Returns the address, without a slash at its end.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns whether what is served at the address is still its own.
    pub(super) fn is_own(&self) -> bool {
        let routes = locked(&self.routes);
        routes
            .get(&self.token)
            .is_some_and(|(number, _)| *number == self.number)
    }
}

impl Drop for Grant {
    fn drop(&mut self) {
        let mut routes = locked(&self.routes);
        // The address may be another's by now.
        let is_own = |(number, _): &(u64, Served)| *number == self.number;
        let own = match routes.get(&self.token).is_some_and(is_own) {
            true => routes.remove(&self.token),
            false => None,
        };
        // With what was served other addresses may end, which needs the table.
        drop(routes);
        if let Some((_, served)) = own {
            served.close();
        }
    }
}

/// What is served, by the token in its address, each with the number of the grant that it belongs to.
pub(super) type Routes = Arc<Mutex<HashMap<String, (u64, Served)>>>;

/// What is served at an address.
#[derive(Clone)]
pub(super) enum Served {
    /// An env.
    Env(Box<Route>),
    /// An agent.
    Agent(Arc<AgentService>),
}

impl Served {
    pub(super) fn close(&self) {
        match self {
            Served::Env(route) => route.service.close(),
            Served::Agent(service) => service.close(),
        }
    }
}

impl Gateway {
    /// Gives out an address of an env for a caller.
    pub(super) async fn grant(&self, gate: Arc<Gate>, caller: Caller) -> io::Result<Grant> {
        self.give(token()?, env_of(gate, caller)).await
    }

    /// Gives out an address of an env that is the same for a holder each time, for the caller of now.
    pub(super) async fn grant_lasting(
        &self,
        holder: &str,
        gate: Arc<Gate>,
        caller: Caller,
    ) -> io::Result<Grant> {
        let key = [holder, gate.env_id(), &caller.role].map(str::to_owned);
        let fresh = token()?;
        let token = locked(&self.lasting).entry(key).or_insert(fresh).clone();
        self.give(token, env_of(gate, caller)).await
    }

    /// Gives out an address of an agent, at which it is asked over A2A.
    pub async fn open(&self, door: Arc<dyn AgentDoor>) -> io::Result<Grant> {
        let served = Served::Agent(Arc::new(AgentService::new(door)));
        self.give(token()?, served).await
    }

    async fn give(&self, token: String, served: Served) -> io::Result<Grant> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let port = self.listener(0, None).await?.port;
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let before = locked(&self.routes).insert(token.clone(), (number, served));
        if let Some((_, before)) = before {
            before.close();
        }
        Ok(Grant {
            url: format!("http://127.0.0.1:{port}/{token}"),
            token,
            number,
            routes: self.routes.clone(),
        })
    }
}

fn env_of(gate: Arc<Gate>, caller: Caller) -> Served {
    let service = McpService::new(gate.clone(), caller.clone());
    Served::Env(Box::new(Route {
        gate,
        caller,
        service,
    }))
}

/// Returns a part of an address that nobody guesses.
fn token() -> io::Result<String> {
    let mut random = [0; 16];
    getrandom::fill(&mut random).map_err(|error| io::Error::other(error.to_string()))?;
    Ok(format!("{:032x}", u128::from_le_bytes(random)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gateway::{EnvHandle, GateSettings, Keeper, Recorder};
    use crate::provider::builtin;
    use crate::step::env::LiveEnv;
    use crate::system::OsSystem;
    use std::path::Path;
    use std::time::Duration;

    struct Nowhere;

    impl Keeper for Nowhere {
        fn keep(&self, _: &Path) -> Option<String> {
            None
        }
    }

    fn gate(folder: &Path) -> Arc<Gate> {
        let settings = GateSettings {
            env_id: "kv".to_owned(),
            call_timeout: Duration::from_secs(60),
            read_only_tools: Vec::new(),
            volatile: Vec::new(),
            exports: true,
            can_export: true,
            clock: Default::default(),
        };
        let server = builtin::start("kv", "kv").unwrap();
        let recorder = Recorder::new(
            folder.join("calls.jsonl"),
            Arc::new(Nowhere),
            Arc::new(OsSystem),
        );
        Gate::new(settings, server, recorder, Vec::new())
    }

    /// Returns the step in whose name an address is asked.
    fn served_to(gateway: &Gateway, url: &str) -> Option<String> {
        let token = url.rsplit('/').next().unwrap();
        match locked(&gateway.routes).get(token) {
            Some((_, Served::Env(route))) => Some(route.caller.step.clone()),
            _ => None,
        }
    }

    #[tokio::test]
    async fn a_lasting_address_is_the_same_for_a_holder_and_serves_the_step_that_asked_last() {
        let folder = tempfile::tempdir().unwrap();
        let (gateway, gate) = (Gateway::new(), gate(folder.path()));
        let handle = |step: &str| {
            let caller = Caller::new(step, "default");
            EnvHandle::new(gate.clone(), gateway.clone(), caller)
        };
        let (first, second) = (handle("one"), handle("two"));
        let url = first.lasting_url("a").await.unwrap();
        assert_eq!(first.lasting_url("a").await.unwrap(), url);
        assert_eq!(served_to(&gateway, &url).as_deref(), Some("one"));
        assert_eq!(second.lasting_url("a").await.unwrap(), url);
        assert_eq!(served_to(&gateway, &url).as_deref(), Some("two"));
        // Who asks again is served again.
        assert_eq!(first.lasting_url("a").await.unwrap(), url);
        assert_eq!(served_to(&gateway, &url).as_deref(), Some("one"));
        assert_eq!(second.lasting_url("a").await.unwrap(), url);
        assert_eq!(served_to(&gateway, &url).as_deref(), Some("two"));
        // The end of the one does not end what is the other's.
        drop(first);
        assert_eq!(served_to(&gateway, &url).as_deref(), Some("two"));

        let others = [
            second.lasting_url("b").await.unwrap(),
            second.in_role("guest").lasting_url("a").await.unwrap(),
            second.url().await.unwrap(),
        ];
        assert!(!others.contains(&url), "{others:?}");
        drop(second);
        assert_eq!(served_to(&gateway, &url), None);
        assert_eq!(handle("three").lasting_url("a").await.unwrap(), url);
    }
}
