//! Makes an agent that works in a sandbox of the task.
//!
//! ```json
//! {"id": "coder", "type": "install_agent", "agent_name": "coder", "sandbox_name": "box", "depends_on": ["box"]}
//! ```
//!
//! Which agent it is, is said as for `deploy_agent`. Its files are those of the sandbox, and its commands run there: what
//! it writes, a verifier of the sandbox finds. It is connected to no env.
//!
//! # What it gives
//!
//! One entry in `deployed_agents`, found by `agent_name`.
//!
//! # When it runs
//!
//! Never by itself. An agent is made when a step that must run prompts it.
//!
//! # What is in its key
//!
//! The files of the agent's folder, and all fields but `a2a_port`.
//!
//! # Differences to agent-env
//!
//! - Nothing is copied into the sandbox and no server is started there: a scripted agent and one with a model work in it
//!   from outside, and one that is a program is run in it. An agent that serves A2A is refused, and so is a program that
//!   is given `mount` or `requirements`.
//! - `container_name` is refused, not there yet. `a2a_port` is accepted and changes nothing, and `workspace_dir` is
//!   refused unless it is `/app`, where commands start.

use std::sync::OnceLock;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::deploy_agent::{self, default_name, pinned};
use super::target::{NEEDS_DOCKER, NOT_YET, given};
use crate::json::{Map, Value, json};
use crate::step::{Refusal, Step, StepType, read_fields, schema_of};
use crate::task::{OnError, StepId};

/// The step type `install_agent`.
pub static TYPE: StepType = StepType {
    name: "install_agent",
    version: 1,
    on_error: OnError::FailTask,
    make_schema: schema_of::<Fields>,
    build,
    page: include_str!("install_agent.rs"),
    schema: OnceLock::new(),
};

/// Where commands of a sandbox start.
const APP: &str = "/app";

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Fields {
    /// The sandbox.
    #[schemars(length(min = 1))]
    sandbox_name: String,
    /// The container in it.
    container_name: Option<String>,
    /// The agent; the one named like `agent_name` where absent.
    a2a_agent_id: Option<String>,
    /// The version; an agent of the task folder has none.
    a2a_agent_version: Option<u64>,
    /// The name by which other steps find the agent.
    #[serde(default = "default_name")]
    #[schemars(length(min = 1, max = 128))]
    agent_name: String,
    /// The port on which it would serve.
    a2a_port: Option<u16>,
    /// The folder in which it works.
    workspace_dir: Option<String>,
}

fn build(step: &StepId, fields: &Map<String, Value>) -> Result<Box<dyn Step>, Vec<Refusal>> {
    let fields: Fields = read_fields(fields)?;
    let mut refusals = Vec::new();
    if given(&fields.container_name).is_some() {
        refusals.push(
            Refusal::new(
                NEEDS_DOCKER,
                "/container_name",
                "an agent cannot work in a container in this release",
            )
            .help("delete `container_name`"),
        );
    }
    if given(&fields.workspace_dir).is_some_and(|folder| folder.trim_end_matches('/') != APP) {
        refusals.push(
            Refusal::new(
                NOT_YET,
                "/workspace_dir",
                "the commands of an agent start in /app in this release",
            )
            .help("delete `workspace_dir`"),
        );
    }
    refusals.extend(fields.a2a_agent_version.map(|_| pinned()));
    if !refusals.is_empty() {
        return Err(refusals);
    }
    // It is an agent that is deployed in a sandbox, and nothing else.
    let deployed = json!({
        "agent_name": fields.agent_name,
        "a2a_agent_id": fields.a2a_agent_id,
        "sandbox_name": fields.sandbox_name,
    });
    let deployed = deployed.as_object().cloned().unwrap_or_default();
    (deploy_agent::TYPE.build)(step, &deployed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::steps::testing::refused;
    use expect_test::expect;

    #[test]
    fn what_cannot_be_had_in_a_sandbox_is_refused() {
        expect![[r#"
            container-needs-docker /container_name: an agent cannot work in a container in this release (delete `container_name`)
            not-supported-yet /workspace_dir: the commands of an agent start in /app in this release (delete `workspace_dir`)
            pinned-artifact /a2a_agent_version: an agent of the task folder has no versions (delete `a2a_agent_version`)
        "#]].assert_eq(&refused(
            &TYPE,
            json!({
                "sandbox_name": "box", "container_name": "c", "workspace_dir": "/srv", "a2a_agent_version": 2,
            }),
        ));
        assert!(
            refused(
                &TYPE,
                json!({"sandbox_name": "box", "workspace_dir": "/app/"})
            )
            .is_empty()
        );
    }
}
