//! Containers of the Docker engine of this machine: images are built or pulled, containers run and are removed again.
//!
//! An engine outlives the runs that use it, so each container is labelled with its run and with the live folder that the
//! run has its lease in. What a run that is dead has left is removed by the next run that uses the engine.

mod api;
mod container;
mod image;
mod ports;
mod serve;
mod tar;

use std::path::Path;
use std::sync::Arc;

use reqwest::Method;
use tokio::sync::{Mutex, RwLock};

use self::api::{Api, ApiError};
pub(super) use self::container::Container;
use self::ports::Ports;
pub(super) use self::serve::{Network, NotServing, Serve};
use super::http::escaped;
use super::reap;
use crate::digest::Digest;
use crate::json::{Value, json};
use crate::system::disk;

/// The label that says which run a container is of.
pub const RUN_LABEL: &str = "aebuild.run";
/// The label that says which env a container is.
pub const ENV_LABEL: &str = "aebuild.env";
/// The label that says which agent a container is.
pub const AGENT_LABEL: &str = "aebuild.agent";
/// The label that says in which live folder the run has its lease.
pub const WORKSPACE_LABEL: &str = "aebuild.workspace";

/// What a container is.
#[derive(Clone, Copy, Debug)]
pub(super) enum Role<'a> {
    /// An env.
    Env(&'a str),
    /// An agent.
    Agent(&'a str),
}

impl<'a> Role<'a> {
    /// Returns the label that says so, and its value.
    fn label(self) -> (&'static str, &'a str) {
        match self {
            Role::Env(name) => (ENV_LABEL, name),
            Role::Agent(name) => (AGENT_LABEL, name),
        }
    }

    /// Returns the repository of the images that are built of such.
    fn repository(self) -> &'static str {
        match self {
            Role::Env(_) => "aebuild-env",
            Role::Agent(_) => "aebuild-agent",
        }
    }
}

/// The engine, as one run uses it.
pub struct Docker {
    api: Arc<Api>,
    run: String,
    workspace: String,
    /// Whether containers can have a network of their own.
    has_bridge: bool,
    /// The ports of this machine that its containers have.
    ports: Ports,
    /// Held while an image is built or pulled: what one makes another may need.
    making: Mutex<()>,
    /// Read while a container is made, so that who removes them all can wait for those that come.
    creating: Arc<RwLock<()>>,
}

impl Docker {
    /// Connects to the engine that `host` names, in the form of `DOCKER_HOST`, and removes what dead runs have left.
    ///
    /// The run must hold its lease below `live` already.
    pub async fn connect(host: Option<&str>, live: &Path, run: &str) -> Result<Self, String> {
        let api = Api::connect(host)
            .await
            .map_err(|error| error.to_string())?;
        let bridge = api.ask(Method::GET, "/networks/bridge", None).await;
        let has_bridge = !matches!(bridge, Err(ApiError::Refused { status: 404, .. }));
        let live = disk::canonicalize(live).unwrap_or_else(|_| live.to_owned());
        let docker = Docker {
            api: Arc::new(api),
            run: run.to_owned(),
            workspace: Digest::of_bytes(live.as_os_str().as_encoded_bytes()).to_string(),
            has_bridge,
            ports: Ports::default(),
            making: Mutex::default(),
            creating: Arc::default(),
        };
        let left = docker.containers(&docker.workspace, WORKSPACE_LABEL).await;
        for container in left.map_err(|error| error.to_string())? {
            let of = container.pointer(&format!("/Labels/{RUN_LABEL}"));
            let of = of.and_then(Value::as_str).unwrap_or_default();
            if of != run && !reap::is_held(&live, of) {
                // Another run may be at it as well.
                let _ = docker.remove(&container).await;
            }
        }
        Ok(docker)
    }

    /// Removes every container of the run.
    pub async fn close(&self) -> Result<(), String> {
        let _none_comes = self.creating.write().await;
        let all = self.containers(&self.run, RUN_LABEL).await;
        let mut left = Vec::new();
        for container in all.map_err(|error| error.to_string())? {
            if let Err(error) = self.remove(&container).await {
                left.push(error.to_string());
            }
        }
        match left.first() {
            None => Ok(()),
            Some(why) => Err(format!("{} containers are left: {why}", left.len())),
        }
    }

    /// Lists the containers whose label has a value.
    async fn containers(&self, value: &str, label: &str) -> Result<Vec<Value>, ApiError> {
        let filters = json!({"label": [format!("{label}={value}")]}).to_string();
        let path = format!("/containers/json?all=1&filters={}", escaped(&filters));
        let listed = self.api.ask(Method::GET, &path, None).await?;
        Ok(listed.as_array().cloned().unwrap_or_default())
    }

    async fn remove(&self, container: &Value) -> Result<(), ApiError> {
        let id = container.get("Id").and_then(Value::as_str);
        container::remove(&self.api, id.unwrap_or_default()).await
    }
}
