//! Ends sandboxes, envs and agents before the run does.
//!
//! What a live thing is needed for is known from the graph, so each ends with the run by itself. This step is for a task
//! that wants one gone earlier, such as before a slow verifier that no longer needs it.
//!
//! ```json
//! {"id": "down", "type": "teardown_sandboxes", "sandbox_names": ["box"]}
//! ```
//!
//! # What it gives
//!
//! Nothing that other steps can look up. A name that nothing deployed is passed over.
//!
//! # When it runs
//!
//! In every run, when the steps that it depends on are done; what the run never made has nothing to end. Its failure never
//! fails a task.
//!
//! # Differences to agent-env
//!
//! - A step after this one that needs what was ended gets it anew, in the state that it had.

use std::sync::OnceLock;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::target::MISSING;
use crate::context::Output;
use crate::json::{Map, Value, json};
use crate::resource::{ResourceId, ResourceKind, Touch};
use crate::step::sandbox::BoxFuture;
use crate::step::{
    Determinism, Refusal, Step, StepCx, StepError, StepType, read_fields, schema_of,
};
use crate::task::{OnError, StepId};

/// The step type `teardown_sandboxes`.
pub static TYPE: StepType = StepType {
    name: "teardown_sandboxes",
    version: 1,
    on_error: OnError::Continue,
    make_schema: schema_of::<Fields>,
    build,
    page: include_str!("teardown_sandboxes.rs"),
    schema: OnceLock::new(),
};

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Fields {
    /// The agents to end.
    #[serde(default)]
    agent_names: Option<Vec<String>>,
    /// The envs to end.
    #[serde(default)]
    env_ids: Option<Vec<String>>,
    /// The sandboxes to end.
    #[serde(default)]
    sandbox_names: Option<Vec<String>>,
}

#[derive(Debug)]
struct TeardownSandboxes {
    retires: Vec<ResourceId>,
}

fn build(_: &StepId, fields: &Map<String, Value>) -> Result<Box<dyn Step>, Vec<Refusal>> {
    let fields: Fields = read_fields(fields)?;
    let lists = [
        (ResourceKind::Agent, fields.agent_names),
        (ResourceKind::Env, fields.env_ids),
        (ResourceKind::Sandbox, fields.sandbox_names),
    ];
    let named = lists.iter().flat_map(|(kind, names)| {
        let names = names.iter().flatten();
        names.map(|name| ResourceId::new(*kind, name))
    });
    let mut retires: Vec<ResourceId> = named.collect();
    retires.sort();
    retires.dedup();
    if retires.is_empty() {
        return Err(vec![
            Refusal::new(MISSING, "", "the step does not say what it ends")
                .help("add \"sandbox_names\": [\"..\"], `env_ids` or `agent_names`"),
        ]);
    }
    Ok(Box::new(TeardownSandboxes { retires }))
}

impl Step for TeardownSandboxes {
    fn fields(&self) -> Value {
        let names = |kind: ResourceKind| -> Vec<&str> {
            let of_kind = self.retires.iter().filter(|resource| resource.kind == kind);
            of_kind.map(|resource| resource.name.as_str()).collect()
        };
        json!({
            "agent_names": names(ResourceKind::Agent),
            "env_ids": names(ResourceKind::Env),
            "sandbox_names": names(ResourceKind::Sandbox),
        })
    }

    fn touches(&self) -> Vec<(ResourceId, Touch)> {
        let retires = |resource: &ResourceId| (resource.clone(), Touch::Retires);
        self.retires.iter().map(retires).collect()
    }

    fn determinism(&self) -> Determinism {
        Determinism::Volatile
    }

    fn live_output(&self, _: &str) -> Option<Output> {
        // The ids of what is ended are handles, which only the engine knows.
        Some(Output::default())
    }

    fn run<'a>(&'a self, _: StepCx<'a>) -> BoxFuture<'a, Result<Output, StepError>> {
        unreachable!("bug: a step that only ends live things was run")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::steps::testing::{build_step, refused};
    use expect_test::expect;

    #[test]
    fn each_sandbox_is_retired_once() {
        let step = build_step(&TYPE, "down", json!({"sandbox_names": ["b", "a", "b"]}));
        let retires = |name| (ResourceId::sandbox(name), Touch::Retires);
        assert_eq!(step.touches(), [retires("a"), retires("b")]);
        assert_eq!(step.live_output("x"), Some(Output::default()));
    }

    #[test]
    fn a_teardown_that_names_nothing_is_refused() {
        expect![[r#"
            missing-field : the step does not say what it ends (add "sandbox_names": [".."], `env_ids` or `agent_names`)
        "#]]
        .assert_eq(&refused(&TYPE, json!({"sandbox_names": [], "env_ids": null})));
    }

    #[test]
    fn envs_and_agents_are_retired_like_sandboxes() {
        let fields = json!({"env_ids": ["email"], "agent_names": ["a"]});
        let step = build_step(&TYPE, "down", fields);
        let retired = [ResourceId::env("email"), ResourceId::agent("a")];
        assert_eq!(step.touches(), retired.map(|id| (id, Touch::Retires)));
    }
}
