//! Says that a person plays the user.
//!
//! ```json
//! {"id": "me", "type": "deploy_human_agent", "depends_on": []}
//! ```
//!
//! A `prompt_agent` step of several turns whose `user_agent_name` is the person's shows each reply of the agent, and waits:
//! `aebuild answer <question> ".."`, from any terminal, is what is said next. An empty answer ends the conversation.
//!
//! # What it gives
//!
//! An entry in `metadata.human_agents`.
//!
//! # What is in its key
//!
//! Its fields. A conversation in which a person took part is never kept.
//!
//! # Differences to agent-env
//!
//! - The person answers with a command; `a2a_url` is written down and not asked.

use std::sync::OnceLock;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::target::PERSON;
use crate::context::{Entry, Lookup, Output, Place};
use crate::json::{Map, Value, json};
use crate::resource::{ResourceId, Touch};
use crate::step::sandbox::BoxFuture;
use crate::step::{NameRef, Refusal, Step, StepCx, StepError, StepType, read_fields, schema_of};
use crate::task::{OnError, StepId};

/// The step type `deploy_human_agent`.
pub static TYPE: StepType = StepType {
    name: "deploy_human_agent",
    version: 1,
    on_error: OnError::FailTask,
    make_schema: schema_of::<Fields>,
    build,
    page: include_str!("deploy_human_agent.rs"),
    schema: OnceLock::new(),
};

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Fields {
    /// The name by which prompts find the person.
    #[serde(default = "human")]
    #[schemars(length(min = 1))]
    agent_name: String,
    /// The address of the person.
    a2a_url: Option<String>,
}

fn human() -> String {
    PERSON.to_owned()
}

#[derive(Debug)]
struct DeployHumanAgent {
    fields: Fields,
    step: String,
}

fn build(step: &StepId, fields: &Map<String, Value>) -> Result<Box<dyn Step>, Vec<Refusal>> {
    let fields: Fields = read_fields(fields)?;
    let step = step.as_str().to_owned();
    Ok(Box::new(DeployHumanAgent { fields, step }))
}

impl Step for DeployHumanAgent {
    fn fields(&self) -> Value {
        let mut fields = json!(self.fields);
        // The step's id is part of what it gives.
        fields["id"] = self.step.as_str().into();
        fields
    }

    fn touches(&self) -> Vec<(ResourceId, Touch)> {
        Vec::new()
    }

    fn provides(&self) -> Vec<NameRef> {
        vec![NameRef {
            field: "/agent_name".to_owned(),
            lookup: Lookup::Agent(self.fields.agent_name.clone()),
        }]
    }

    fn run<'a>(&'a self, _: StepCx<'a>) -> BoxFuture<'a, Result<Output, StepError>> {
        let value = json!({
            "step_id": self.step,
            "agent_name": self.fields.agent_name,
            "a2a_url": self.fields.a2a_url,
        });
        let place = Place::Append(vec!["human_agents".to_owned()]);
        let output = Output::of(vec![Entry::data(place, value)]);
        Box::pin(async { Ok(output) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::steps::testing::{FakeServices, build_step, run, show};
    use expect_test::expect;

    #[test]
    fn a_person_has_a_name() {
        let step = build_step(&TYPE, "me", json!({}));
        expect![[r#"
            metadata.human_agents += {"a2a_url":null,"agent_name":"human_agent","step_id":"me"}
        "#]]
        .assert_eq(&show(&run(&*step, "me", &FakeServices::new()).unwrap()));
    }
}
