//! Ends sandboxes before the run does.
//!
//! What a sandbox is needed for is known from the graph, so every sandbox ends with the run by itself. This step is for
//! a task that wants one gone earlier, such as before a slow verifier that no longer needs it.
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
//! In every run, when the steps that it depends on are done; a sandbox that the run never made has nothing to end. Its
//! failure never fails a task.
//!
//! # Differences to agent-env
//!
//! - `agent_names` and `env_ids` are refused where they name something, not there yet.
//! - A step after this one that needs the sandbox gets it anew, in the state that it had.

use std::sync::OnceLock;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::target::{MISSING, NOT_YET};
use crate::context::Output;
use crate::json::{Map, Value, json};
use crate::resource::{ResourceId, Touch};
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
    sandbox_names: Vec<String>,
}

fn build(_: &StepId, fields: &Map<String, Value>) -> Result<Box<dyn Step>, Vec<Refusal>> {
    let fields: Fields = read_fields(fields)?;
    let mut refusals = Vec::new();
    let lists = [
        ("agent_names", &fields.agent_names, "deploy_agent"),
        ("env_ids", &fields.env_ids, "deploy_env"),
    ];
    for (name, list, step_type) in lists {
        for (at, text) in list.iter().flatten().enumerate() {
            refusals.push(
                Refusal::new(
                    NOT_YET,
                    format!("/{name}/{at}"),
                    format!("`{text}` cannot be ended: there is no `{step_type}` in this release"),
                )
                .help(format!("delete it from `{name}`")),
            );
        }
    }
    let mut sandbox_names = fields.sandbox_names.unwrap_or_default();
    sandbox_names.sort();
    sandbox_names.dedup();
    if sandbox_names.is_empty() && refusals.is_empty() {
        refusals.push(
            Refusal::new(MISSING, "", "the step does not say which sandbox it ends")
                .help("add \"sandbox_names\": [\"..\"]"),
        );
    }
    if refusals.is_empty() {
        Ok(Box::new(TeardownSandboxes { sandbox_names }))
    } else {
        Err(refusals)
    }
}

impl Step for TeardownSandboxes {
    fn fields(&self) -> Value {
        json!({"sandbox_names": self.sandbox_names})
    }

    fn touches(&self) -> Vec<(ResourceId, Touch)> {
        let retires = |name: &String| (ResourceId::sandbox(name), Touch::Retires);
        self.sandbox_names.iter().map(retires).collect()
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
    fn a_teardown_that_names_no_sandbox_is_refused() {
        expect![[r#"
            missing-field : the step does not say which sandbox it ends (add "sandbox_names": [".."])
        "#]]
        .assert_eq(&refused(&TYPE, json!({"sandbox_names": [], "env_ids": null})));
        expect![[r#"
            not-supported-yet /env_ids/0: `email` cannot be ended: there is no `deploy_env` in this release (delete it from `env_ids`)
        "#]]
        .assert_eq(&refused(&TYPE, json!({"env_ids": ["email"]})));
    }
}
