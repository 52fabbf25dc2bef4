//! One container: started, watched, given files, removed.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use reqwest::Method;
use tokio::sync::watch;
use tokio::task::AbortHandle;

use super::api::{Api, ApiError};
use super::ports::Taken;
use super::serve::{Network, Serve};
use super::tar::Tar;
use super::{Docker, RUN_LABEL, WORKSPACE_LABEL};
use crate::json::{Value, json};
use crate::provider::paths::APP;
use crate::step::env::{LastLines, TAIL_LINES};
use crate::step::sandbox::Put;
use crate::system::{disk, locked};

/// How long the removal of a container by somebody else is waited for before it is tried again.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often the removal of a container is tried.
const TRIES: u32 = 4;

/// A container, which is removed when it is dropped.
pub(in crate::provider) struct Container {
    api: Arc<Api>,
    id: String,
    /// The port of 127.0.0.1 at which it is reached.
    pub(in crate::provider) port: u16,
    /// How it ended; `None` while it runs.
    pub(in crate::provider) ended: watch::Receiver<Option<String>>,
    tail: Arc<Mutex<String>>,
    watcher: Option<AbortHandle>,
    is_removed: AtomicBool,
    /// Keeps its port from others, where it has one of this machine.
    _taken: Option<Taken>,
}

impl Docker {
    /// Starts a container.
    pub(super) async fn start(&self, serve: &Serve<'_>, image: &str) -> Result<Container, String> {
        let (label, name) = serve.role.label();
        let labels = json!({
            RUN_LABEL: self.run,
            label: name,
            WORKSPACE_LABEL: self.workspace,
        });
        let env = |host: &str, port: u16| -> Vec<String> {
            // The last value of a variable counts, and an engine takes whichever it likes.
            let pairs: BTreeMap<_, _> = (serve.variables)(host, port).into_iter().collect();
            let pairs = pairs.iter().map(|(name, value)| format!("{name}={value}"));
            pairs.collect()
        };
        let log = json!({"Type": "json-file", "Config": {"max-size": "16m"}});
        let network = match serve.network {
            // An engine without a bridge publishes no ports. The network is then that of this machine, where what serves
            // is to be seen by nobody else, on a port that is free.
            Network::Own(_) if !self.has_bridge => Network::Machine(None),
            network => network,
        };
        let (body, inner, taken) = match network {
            Network::Own(port) => {
                let inner = format!("{port}/tcp");
                let publish = json!([{"HostIp": "127.0.0.1", "HostPort": ""}]);
                let body = json!({
                    "Image": image,
                    "Env": env("0.0.0.0", port),
                    "Labels": labels,
                    "ExposedPorts": {&inner: {}},
                    "HostConfig": {"PortBindings": {&inner: publish}, "LogConfig": log},
                });
                (body, inner, None)
            }
            Network::Machine(wanted) => {
                let taken = self.ports.take(wanted, serve.limit).await?;
                let body = json!({
                    "Image": image,
                    "Env": env("127.0.0.1", taken.port),
                    "Labels": labels,
                    "HostConfig": {"NetworkMode": "host", "LogConfig": log},
                });
                (body, String::new(), Some(taken))
            }
        };
        let (api, permit) = (self.api.clone(), self.creating.clone().read_owned().await);
        // Whoever waits for it may be dropped, but what the engine was asked to make is made.
        let made = tokio::spawn(async move {
            let _permit = permit;
            Container::make(api, &body, &inner, taken).await
        });
        let made = made.await;
        let made = made.map_err(|error| format!("bug: starting a container failed: {error}"))?;
        made.map_err(|error| error.to_string())
    }
}

impl Container {
    async fn make(
        api: Arc<Api>,
        body: &Value,
        inner: &str,
        taken: Option<Taken>,
    ) -> Result<Self, ApiError> {
        let made = api
            .ask(Method::POST, "/containers/create", Some(body))
            .await?;
        let id = made.get("Id").and_then(Value::as_str).unwrap_or_default();
        let (end, ended) = watch::channel(None);
        let mut container = Container {
            api: api.clone(),
            id: id.to_owned(),
            port: taken.as_ref().map_or(0, |taken| taken.port),
            ended,
            tail: Arc::default(),
            watcher: None,
            is_removed: AtomicBool::new(false),
            _taken: taken,
        };
        let started = api
            .ask(Method::POST, &format!("/containers/{id}/start"), None)
            .await;
        if let Err(error) = started {
            container.stop().await;
            return Err(error);
        }
        if !inner.is_empty() {
            let shown = api
                .ask(Method::GET, &format!("/containers/{id}/json"), None)
                .await?;
            let ports = shown.pointer("/NetworkSettings/Ports");
            let published = ports.and_then(|ports| ports.get(inner)?.get(0)?.get("HostPort"));
            let published = published.and_then(Value::as_str);
            // One that has ended already has none.
            container.port = published.and_then(|port| port.parse().ok()).unwrap_or(0);
        }
        let (id, tail) = (container.id.clone(), container.tail.clone());
        let watcher = tokio::spawn(async move {
            let how = wait(&api, &id).await;
            let said = logs(&api, &id).await;
            *locked(&tail) = said;
            end.send_replace(Some(how));
        });
        container.watcher = Some(watcher.abort_handle());
        Ok(container)
    }

    /// Returns what it wrote last, as far as that was read.
    pub(in crate::provider) fn tail(&self) -> String {
        locked(&self.tail).clone()
    }

    /// Waits until it ends, and says how.
    pub(in crate::provider) async fn how_it_ended(&self) -> String {
        let mut ended = self.ended.clone();
        let how = ended.wait_for(Option::is_some).await;
        // An error means that who would say so is gone with the container.
        let how = how.ok().and_then(|how| how.clone());
        how.unwrap_or_else(|| "it was stopped".to_owned())
    }

    /// Reads what it wrote last.
    pub(in crate::provider) async fn look(&self) {
        let said = logs(&self.api, &self.id).await;
        if !said.is_empty() {
            *locked(&self.tail) = said;
        }
    }

    /// Copies files into it.
    pub(in crate::provider) async fn put(&self, files: &[Put]) -> Result<(), String> {
        let mut tar = Tar::default();
        for file in files {
            let bytes = disk::read(&file.from)
                .map_err(|error| format!("`{}` cannot be read: {error}", file.to))?;
            let to = match file.to.strip_prefix('/') {
                Some(below) => below.to_owned(),
                None => format!("{}/{}", APP.trim_start_matches('/'), file.to),
            };
            tar.add(&to, file.mode, &bytes);
        }
        let path = format!("/containers/{}/archive?path=/", self.id);
        let put = self.api.put(&path, tar.finish()).await;
        put.map_err(|error| error.to_string())
    }

    /// Kills and removes it.
    pub(in crate::provider) async fn stop(&self) {
        if let Some(watcher) = &self.watcher {
            watcher.abort();
        }
        // What is left is removed when the run ends.
        if remove(&self.api, &self.id).await.is_ok() {
            self.is_removed.store(true, Ordering::SeqCst);
        }
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        if let Some(watcher) = &self.watcher {
            watcher.abort();
        }
        if !self.is_removed.load(Ordering::SeqCst)
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            let (api, id) = (self.api.clone(), self.id.clone());
            runtime.spawn(async move {
                // What is left is removed when the run ends.
                let _ = remove(&api, &id).await;
            });
        }
    }
}

/// Kills and removes a container with its volumes, and returns when it is gone, whoever removed it.
pub(super) async fn remove(api: &Api, id: &str) -> Result<(), ApiError> {
    let path = format!("/containers/{id}?force=1&v=1");
    let wait = format!("/containers/{id}/wait?condition=removed");
    let mut tries = 0;
    loop {
        tries += 1;
        match api.ask(Method::DELETE, &path, None).await {
            Ok(_) | Err(ApiError::Refused { status: 404, .. }) => return Ok(()),
            // Somebody else is at it.
            Err(ApiError::Refused { status: 409, .. }) if tries < TRIES => {
                let gone = api.ask(Method::POST, &wait, None);
                match tokio::time::timeout(PATIENCE, gone).await {
                    Ok(Ok(_) | Err(ApiError::Refused { status: 404, .. })) => return Ok(()),
                    // Whether the other one gave up is seen in what is answered now.
                    Ok(Err(ApiError::Refused { .. })) | Err(_) => {}
                    Ok(Err(error)) => return Err(error),
                }
            }
            Err(error) => return Err(error),
        }
    }
}

/// Waits until a container has ended, and says how.
async fn wait(api: &Api, id: &str) -> String {
    let path = format!("/containers/{id}/wait");
    match api.ask(Method::POST, &path, None).await {
        Ok(said) => match said.get("StatusCode").and_then(Value::as_i64) {
            Some(code) => format!("it ended with exit code {code}"),
            None => "it ended".to_owned(),
        },
        Err(error) => error.to_string(),
    }
}

/// Returns the last lines that a container wrote.
async fn logs(api: &Api, id: &str) -> String {
    let path = format!("/containers/{id}/logs?stdout=1&stderr=1&tail={TAIL_LINES}");
    // Who asks wants to explain another error, beside which this one is of no interest.
    let bytes = api.get(&path).await.unwrap_or_default();
    let mut last = LastLines::default();
    let mut rest = &bytes[..];
    // Pieces of the two outputs, each after a head of eight bytes that ends with its length.
    while let Some((head, behind)) = rest.split_at_checked(8) {
        let length = u32::from_be_bytes([head[4], head[5], head[6], head[7]]) as usize;
        let (piece, after) = behind.split_at(length.min(behind.len()));
        last.push(piece);
        rest = after;
    }
    last.text()
}
