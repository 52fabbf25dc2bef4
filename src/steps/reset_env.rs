//! Empties an env.
//!
//! ```json
//! {"id": "clean", "type": "reset_env", "env_id": "mail"}
//! ```
//!
//! An env that has no data plane cannot be emptied: the step says so in its log and passes.
//!
//! # What it gives
//!
//! Nothing.
//!
//! # What is in its key
//!
//! Its fields and the state of the env. A failure does not fail the task unless the step says
//! `"fail_task_on_error": true`.
//!
//! # Effects
//!
//! Changes the env: `data/reset`. Access rules, triggers and the clock stay as they are.
//!
//! # Differences to agent-env
//!
//! - Any env with a data plane is emptied; no env type that comes with `agent-env` can do it.
//! - An env that nobody deploys is refused before anything runs; `agent-env` passes over it.

use std::sync::OnceLock;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::on_env;
use crate::context::Output;
use crate::json::{Map, Value, json};
use crate::resource::{ResourceId, Touch};
use crate::step::sandbox::BoxFuture;
use crate::step::{NameRef, Refusal, Step, StepCx, StepError, StepType, read_fields, schema_of};
use crate::task::{OnError, StepId};

/// The step type `reset_env`.
pub static TYPE: StepType = StepType {
    name: "reset_env",
    version: 1,
    on_error: OnError::Continue,
    make_schema: schema_of::<Fields>,
    build,
    page: include_str!("reset_env.rs"),
    schema: OnceLock::new(),
};

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Fields {
    /// The env that is emptied.
    #[schemars(length(min = 1))]
    env_id: String,
}

#[derive(Debug)]
struct ResetEnv {
    fields: Fields,
}

fn build(_: &StepId, fields: &Map<String, Value>) -> Result<Box<dyn Step>, Vec<Refusal>> {
    let fields: Fields = read_fields(fields)?;
    Ok(Box::new(ResetEnv { fields }))
}

impl ResetEnv {
    async fn reset(&self, cx: StepCx<'_>) -> Result<Output, StepError> {
        let env_id = &self.fields.env_id;
        let env = cx.env(env_id)?;
        if env.can_export() {
            env.reset().await?;
            cx.note(&format!("env `{env_id}` is empty"));
        } else {
            cx.note(&format!(
                "env `{env_id}` has no data plane, so it is not reset"
            ));
        }
        Ok(Output::default())
    }
}

impl Step for ResetEnv {
    fn fields(&self) -> Value {
        json!(self.fields)
    }

    fn touches(&self) -> Vec<(ResourceId, Touch)> {
        on_env::touches(&self.fields.env_id, Touch::Mutates)
    }

    fn reads(&self) -> Vec<NameRef> {
        on_env::reads(&self.fields.env_id)
    }

    fn run<'a>(&'a self, cx: StepCx<'a>) -> BoxFuture<'a, Result<Output, StepError>> {
        Box::pin(self.reset(cx))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::steps::testing::{FakeEnv, FakeServices, build_step, misfits, run};
    use expect_test::expect;

    fn reset(env: FakeEnv) -> String {
        let world = FakeServices::new().env(env.clone());
        let step = build_step(&TYPE, "clean", json!({"env_id": "mail"}));
        let gave = run(&*step, "clean", &world).unwrap();
        assert_eq!(gave, Output::default());
        format!("{}{}\n", world.log_text(), env.said())
    }

    #[test]
    fn an_env_is_emptied() {
        expect![[r#"
            Note: env `mail` is empty
            reset
        "#]]
        .assert_eq(&reset(FakeEnv::new("mail")));
    }

    #[test]
    fn an_env_without_a_data_plane_is_passed_over() {
        expect![[r#"
            Note: env `mail` has no data plane, so it is not reset

        "#]]
        .assert_eq(&reset(FakeEnv::new("mail").opaque()));
    }

    #[test]
    fn an_env_has_a_name() {
        assert_eq!(TYPE.on_error, OnError::Continue);
        expect![[r#"
            wrong-length: `env_id` of step is empty, but needs at least 1 character (write at least 1 character)
        "#]]
        .assert_eq(&misfits(&TYPE, json!({"env_id": ""})));
        let step = build_step(&TYPE, "clean", json!({"env_id": "mail"}));
        let error = run(&*step, "clean", &FakeServices::new()).unwrap_err();
        expect!["RuntimeError: env `mail` is not deployed by a step that `clean` depends on"]
            .assert_eq(&error.to_string());
    }
}
