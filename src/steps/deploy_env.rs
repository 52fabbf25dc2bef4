//! Makes an env: a world in which agents act, and which verifiers look at.
//!
//! ```json
//! {"id": "email", "type": "deploy_env", "env_id": "email", "depends_on": []}
//! ```
//!
//! Which env `env_id` means and how it is run is said by a folder `envs/<env_id>/` of the task folder, by a table
//! `[envs.<env_id>]` of `aebuild.toml`, or by the name alone where it is that of an env that is compiled in (`mail`,
//! `calendar`, `files`, `kv`):
//!
//! ```toml
//! [envs.email]
//! builtin = "mail"
//!
//! [envs.notes]
//! command = ["mcp-server-memory"]
//! mount = ["node_modules"]
//! ```
//!
//! # In a container
//!
//! A folder with a `Dockerfile`, or an `image`, is run by the Docker engine of this machine, where no `command` or `url`
//! says otherwise. The engine is the one at the Unix socket that `DOCKER_HOST` names, else `/var/run/docker.sock`.
//!
//! - The image of a folder is built of all its files and named by what they are: `aebuild-env:<digest>`. As long as none
//!   changes it is not built again, also where its base has changed since: name the base by its digest, or remove the
//!   image. `.dockerignore` is not read.
//! - An `image` is used as it is on this machine, and pulled where it is not there, without a login. What a name stands
//!   for is not looked at again: write a digest where that matters.
//! - The server gets `HOST`, `MCP_HOST`, `PORT`, `MCP_PORT`, `SERVICE_NAME` and `ENVIRONMENT_NAME` besides the `variables`
//!   of the configuration, and is to serve on that address and port. It is reached on a port of `127.0.0.1`.
//! - It is removed when its task ends, with its volumes. It carries the labels `aebuild.run`, `aebuild.env` and
//!   `aebuild.workspace`. What a killed run has left is removed by the next run of the workspace that uses the engine.
//!
//! # How it is reached
//!
//! Whatever an env is, steps, agents and verifiers reach it through the gateway of aebuild, which records each call.
//!
//! # What it gives
//!
//! One entry in `deployed_envs`, found by `env_id`. Addresses are not in it: they hold for one step of one run, and are
//! given to whoever needs one.
//!
//! # When it runs
//!
//! Never by itself. An env is made when a step that must run needs it, and it is made in the state that this step needs:
//! by loading a snapshot of that state, or by making the recorded calls again. See `state` in the configuration. So a run
//! in which nothing changed makes none.
//!
//! # What is in its key
//!
//! How it is run, the files of its folder, and the fields that change what it is; not its address, its time limits or
//! where it runs.
//!
//! # Differences to agent-env
//!
//! - An env needs no Docker where it is compiled in, or where `command` or `url` says how its server is reached.
//! - Failing to start is the failure of the step that needed it.
//! - Envs of the types `multi_env` and `website` are refused unless `command` or `url` names one MCP server.
//! - `gateway_mode`, `cpu`, `memory_mb`, `disk_size_gb`, `sandbox_type`, `env_state_type` and `env_state_instance_id` are
//!   accepted and change nothing.

use std::sync::OnceLock;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::context::{Entry, Lookup, Output, Place};
use crate::digest::Digest;
use crate::json::{Map, Value, json};
use crate::resource::{ResourceId, Touch};
use crate::step::sandbox::BoxFuture;
use crate::step::{
    Deploys, NameRef, Refusal, Step, StepCx, StepError, StepType, read_fields, schema_of,
};
use crate::task::{OnError, StepId};

/// The step type `deploy_env`.
pub static TYPE: StepType = StepType {
    name: "deploy_env",
    version: 1,
    on_error: OnError::FailTask,
    make_schema: schema_of::<Fields>,
    build,
    page: include_str!("deploy_env.rs"),
    schema: OnceLock::new(),
};

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Fields {
    /// The env, and the name by which other steps find it.
    #[schemars(length(min = 1, max = 4096))]
    env_id: String,
    /// The version; an env of the task folder has none.
    env_version: Option<u64>,
    /// Time after which the env may be taken away, in seconds.
    #[serde(default = "default_ttl")]
    #[schemars(range(min = 1))]
    ttl_seconds: u64,
    /// Size of the disk, in GiB.
    #[serde(default = "default_disk")]
    #[schemars(extend("exclusiveMinimum" = 0))]
    disk_size_gb: f64,
    /// Whether calls run beside each other.
    #[serde(default)]
    gateway_mode: GatewayMode,
    /// Number of processors.
    #[schemars(extend("exclusiveMinimum" = 0))]
    cpu: Option<f64>,
    /// Memory, in MiB.
    #[schemars(range(min = 1))]
    memory_mb: Option<u64>,
    /// Who provides the sandbox of the env.
    sandbox_type: Option<String>,
    /// Where the env keeps its state.
    env_state_type: Option<String>,
    /// The instance of that.
    env_state_instance_id: Option<String>,
    /// Notes for the provider.
    #[serde(default)]
    metadata: Map<String, Value>,
    /// An artifact for the env's own use.
    artifact_id: Option<String>,
    /// The version of `artifact_id`.
    artifact_version: Option<u64>,
}

/// Whether calls run beside each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum GatewayMode {
    /// They do.
    #[default]
    Performance,
    /// One after another.
    Consistent,
}

fn default_ttl() -> u64 {
    7200
}

fn default_disk() -> f64 {
    10.0
}

#[derive(Debug)]
struct DeployEnv {
    step: StepId,
    fields: Fields,
}

fn build(step: &StepId, fields: &Map<String, Value>) -> Result<Box<dyn Step>, Vec<Refusal>> {
    let fields: Fields = read_fields(fields)?;
    let mut refusals = Vec::new();
    if fields.env_version.is_some() {
        refusals.push(
            Refusal::new(
                "pinned-artifact",
                "/env_version",
                format!(
                    "env `{}` is of the task folder and has no versions",
                    fields.env_id
                ),
            )
            .help("delete `env_version`"),
        );
    }
    if fields.artifact_id.is_some() {
        refusals.push(
            Refusal::new(
                super::target::NOT_YET,
                "/artifact_id",
                "no env takes an artifact when it is deployed in this release",
            )
            .help("load it with a `load_artifact` step"),
        );
    }
    if refusals.is_empty() {
        let step = step.clone();
        Ok(Box::new(DeployEnv { step, fields }))
    } else {
        Err(refusals)
    }
}

impl Step for DeployEnv {
    fn fields(&self) -> Value {
        json!(self.fields)
    }

    fn touches(&self) -> Vec<(ResourceId, Touch)> {
        vec![(ResourceId::env(&self.fields.env_id), Touch::Creates)]
    }

    fn deploys(&self) -> Option<Deploys> {
        Some(Deploys::Env {
            env_id: self.fields.env_id.clone(),
        })
    }

    fn live_output(&self, handle: &str) -> Option<Output> {
        let mut metadata = self.fields.metadata.clone();
        metadata.insert("deploy_step_id".to_owned(), json!(self.step.as_str()));
        let value = json!({
            "env_id": self.fields.env_id,
            "env_version": null,
            "env_provider_type": "gateway",
            "environment_card_url": null,
            "environment_card": null,
            "environment_card_read_at_utc": null,
            "mcp_url": null,
            "mcp_server_name": self.fields.env_id,
            "metadata": metadata,
            "instance_id": handle,
            "created_at_utc": null,
            "expires_at_utc": null,
            "sandbox_id": handle,
            "sandbox_type": "local",
            "gateway_url": null,
            "gateway_mode": self.fields.gateway_mode,
        });
        // What it is made of is added by who knows that.
        let definition = json!({"env_id": self.fields.env_id, "metadata": self.fields.metadata});
        let place = Place::Env(self.fields.env_id.clone());
        Some(Output::of(vec![Entry::live(
            place,
            value,
            &Digest::of_value(&definition),
        )]))
    }

    fn provides(&self) -> Vec<NameRef> {
        vec![NameRef {
            field: "/env_id".to_owned(),
            lookup: Lookup::Env(self.fields.env_id.clone()),
        }]
    }

    fn run<'a>(&'a self, _: StepCx<'a>) -> BoxFuture<'a, Result<Output, StepError>> {
        unreachable!("bug: a step that only provides a live thing was run")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::steps::testing::{build_step, misfits, refused};
    use expect_test::expect;

    #[test]
    fn an_env_is_known_by_its_id_whatever_its_handle() {
        let step = build_step(&TYPE, "email", json!({"env_id": "email"}));
        let digest = |handle| step.live_output(handle).unwrap().entries[0].digest;
        assert_eq!(digest("one"), digest("two"));
        let other = build_step(
            &TYPE,
            "email",
            json!({"env_id": "email", "ttl_seconds": 5, "gateway_mode": "consistent"}),
        );
        assert_eq!(
            other.live_output("one").unwrap().entries[0].digest,
            digest("one")
        );
        let value = &step.live_output("one").unwrap().entries[0].value;
        assert_eq!(value["metadata"], json!({"deploy_step_id": "email"}));
    }

    #[test]
    fn what_an_env_of_a_folder_cannot_have_is_refused() {
        expect![[r#"
            pinned-artifact /env_version: env `email` is of the task folder and has no versions (delete `env_version`)
            not-supported-yet /artifact_id: no env takes an artifact when it is deployed in this release (load it with a `load_artifact` step)
        "#]]
        .assert_eq(&refused(
            &TYPE,
            json!({"env_id": "email", "env_version": 2, "artifact_id": "x"}),
        ));
        expect![[r#"
            unknown-value: `gateway_mode` of step can't be `fast` (write one of `performance`, `consistent`)
        "#]]
        .assert_eq(&misfits(&TYPE, json!({"env_id": "e", "gateway_mode": "fast"})));
    }
}
