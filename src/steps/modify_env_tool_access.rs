//! Allows or forbids tools of an env to a role.
//!
//! Every caller of an env has a role, and a tool that is forbidden to it is not listed to it and cannot be called.
//!
//! ```json
//! {"id": "lock", "type": "modify_env_tool_access", "env_id": "mail",
//!  "action": "disable", "role": "default", "tools": ["delete_mail"]}
//! ```
//!
//! `"*"` among the tools means all tools, and the role `"*"` all roles. A rule for one tool goes before a rule for all
//! tools, and a rule for one role before a rule for all roles.
//!
//! # What it gives
//!
//! An entry in `metadata.tool_access_changes`, with the rules of the role after it.
//!
//! # What is in its key
//!
//! Its fields, its id and the state of the env.
//!
//! # Effects
//!
//! Changes the access rules of the env, not its data.
//!
//! # Differences to agent-env
//!
//! - A tool that the env does not have fails the step; in `agent-env` the rule waits for a tool of that name.
//! - A list without tools is refused.

use std::collections::BTreeSet;
use std::sync::OnceLock;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::on_env;
use crate::context::Output;
use crate::diagnostic::did_you_mean;
use crate::json::{Map, Value, json};
use crate::resource::{ResourceId, Touch};
use crate::step::env::LiveEnv;
use crate::step::sandbox::BoxFuture;
use crate::step::{
    NameRef, Refusal, Step, StepCx, StepError, StepType, ToolRef, read_fields, schema_of,
};
use crate::task::{OnError, StepId};

/// The step type `modify_env_tool_access`.
pub static TYPE: StepType = StepType {
    name: "modify_env_tool_access",
    version: 1,
    on_error: OnError::FailTask,
    make_schema: schema_of::<Fields>,
    build,
    page: include_str!("modify_env_tool_access.rs"),
    schema: OnceLock::new(),
};

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Fields {
    /// The env whose tools they are.
    #[schemars(length(min = 1))]
    env_id: String,
    /// What becomes of them.
    action: Action,
    /// The role for which; `*` for all roles.
    #[schemars(length(min = 1))]
    role: String,
    /// The names of the tools; `*` for all tools.
    #[schemars(length(min = 1), inner(length(min = 1)))]
    tools: Vec<String>,
}

/// What becomes of tools.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Action {
    /// The role may use them.
    Enable,
    /// The role may not use them.
    Disable,
}

#[derive(Debug)]
struct ModifyAccess {
    fields: Fields,
    step: String,
}

fn build(step: &StepId, fields: &Map<String, Value>) -> Result<Box<dyn Step>, Vec<Refusal>> {
    let fields: Fields = read_fields(fields)?;
    let step = step.as_str().to_owned();
    Ok(Box::new(ModifyAccess { fields, step }))
}

impl ModifyAccess {
    /// Returns the first tool that the env does not have, with the names of those that it has.
    async fn unknown(
        &self,
        env: &dyn LiveEnv,
    ) -> Result<Option<(&str, BTreeSet<String>)>, StepError> {
        let role = &self.fields.role;
        let mut known = BTreeSet::new();
        for env in [
            env.in_role(role),
            env.in_role(crate::step::env::DEFAULT_ROLE),
        ] {
            let listed = env.tools().await?;
            let names = listed.iter().filter_map(|tool| tool.get("name")?.as_str());
            known.extend(names.map(str::to_owned));
        }
        if self.first_not_among(&known).is_none() {
            return Ok(None);
        }
        // A forbidden tool is not listed, but has a rule; a change of no tool changes nothing and gives the rules.
        let rules = env.set_access(role, &[], true)?;
        for list in ["disabled", "allowed"] {
            let names = rules.get(list).and_then(Value::as_array);
            let names = names.into_iter().flatten().filter_map(Value::as_str);
            known.extend(names.map(str::to_owned));
        }
        known.remove("*");
        let unknown = self.first_not_among(&known);
        Ok(unknown.map(|tool| (tool, known)))
    }

    fn first_not_among(&self, known: &BTreeSet<String>) -> Option<&str> {
        let mut tools = self.fields.tools.iter().map(String::as_str);
        tools.find(|tool| *tool != "*" && !known.contains(*tool))
    }

    async fn modify(&self, cx: StepCx<'_>) -> Result<Output, StepError> {
        let Fields {
            env_id,
            action,
            role,
            tools,
        } = &self.fields;
        let env = cx.env(env_id)?;
        if let Some((tool, known)) = self.unknown(&*env).await? {
            let names = || known.iter().map(String::as_str);
            let help = did_you_mean(tool, names()).unwrap_or_else(|| {
                let list: Vec<String> = names().take(12).map(|name| format!("`{name}`")).collect();
                match list.len() {
                    0 => "it has no tools".to_owned(),
                    n if n < known.len() => format!("its tools are {} and more", list.join(", ")),
                    _ => format!("its tools are {}", list.join(", ")),
                }
            });
            return Err(StepError::of(
                "ValueError",
                format!("env `{env_id}` has no tool `{tool}`; {help}"),
            ));
        }
        let after = env.set_access(role, tools, *action == Action::Enable)?;
        let change = json!({
            "step_id": self.step,
            "env_id": env_id,
            "action": action,
            "role": role,
            "tools_requested": tools,
            "role_state_after": after,
        });
        Ok(Output::of(vec![on_env::append(
            "tool_access_changes",
            change,
        )]))
    }
}

impl Step for ModifyAccess {
    fn fields(&self) -> Value {
        let mut fields = json!(self.fields);
        // The step's id is part of what it gives.
        fields["id"] = Value::String(self.step.clone());
        fields
    }

    fn touches(&self) -> Vec<(ResourceId, Touch)> {
        on_env::touches(&self.fields.env_id, Touch::Mutates)
    }

    fn reads(&self) -> Vec<NameRef> {
        on_env::reads(&self.fields.env_id)
    }

    fn names_tools(&self) -> Vec<ToolRef> {
        let tools = self.fields.tools.iter().enumerate();
        let named = tools.filter(|(_, tool)| *tool != "*");
        let each = named.map(|(at, tool)| ToolRef {
            field: format!("/tools/{at}"),
            env_id: self.fields.env_id.clone(),
            tool: tool.clone(),
        });
        each.collect()
    }

    fn provides(&self) -> Vec<NameRef> {
        vec![on_env::provides(&["tool_access_changes"])]
    }

    fn run<'a>(&'a self, cx: StepCx<'a>) -> BoxFuture<'a, Result<Output, StepError>> {
        Box::pin(self.modify(cx))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::steps::testing::{FakeEnv, FakeServices, build_step, misfits, run, show};
    use expect_test::expect;

    fn modify(action: &str, tools: Value) -> String {
        let env = FakeEnv::new("mail")
            .tool(json!({"name": "send_mail"}), |_| json!(null))
            .tool(json!({"name": "delete_mail"}), |_| json!(null));
        let world = FakeServices::new().env(env.clone());
        let fields = json!({"env_id": "mail", "action": action, "role": "temp", "tools": tools});
        match run(&*build_step(&TYPE, "lock", fields), "lock", &world) {
            Ok(output) => format!("{}{}\n", show(&output), env.said()),
            Err(error) => format!("{error}\n"),
        }
    }

    #[test]
    fn a_role_loses_and_gets_tools() {
        expect![[r#"
            metadata.tool_access_changes += {"action":"disable","env_id":"mail","role":"temp","role_state_after":{"allowed":[],"disabled":["send_mail"]},"step_id":"lock","tools_requested":["send_mail"]}
            disable send_mail for temp
        "#]]
        .assert_eq(&modify("disable", json!(["send_mail"])));
        expect![[r#"
            metadata.tool_access_changes += {"action":"enable","env_id":"mail","role":"temp","role_state_after":{"allowed":["*","delete_mail"],"disabled":[]},"step_id":"lock","tools_requested":["*","delete_mail"]}
            enable *, delete_mail for temp
        "#]]
        .assert_eq(&modify("enable", json!(["*", "delete_mail"])));
    }

    #[test]
    fn a_tool_that_is_not_there_fails_the_step() {
        expect![[r#"
            ValueError: env `mail` has no tool `send_mails`; did you mean `send_mail`?
        "#]]
        .assert_eq(&modify("disable", json!(["send_mails"])));
        expect![[r#"
            ValueError: env `mail` has no tool `book_flight`; its tools are `delete_mail`, `send_mail`
        "#]]
        .assert_eq(&modify("disable", json!(["*", "book_flight"])));
    }

    #[test]
    fn fields_that_mean_nothing_are_refused() {
        let fields = json!({"env_id": "mail", "action": "forbid", "role": "", "tools": "*"});
        expect![[r#"
            unknown-value: `action` of step can't be `forbid` (write one of `enable`, `disable`)
            wrong-length: `role` of step is empty, but needs at least 1 character (write at least 1 character)
            wrong-type: `tools` of step is a string, not an array (write it in `[` and `]`)
        "#]]
        .assert_eq(&misfits(&TYPE, fields));
        let fields = json!({"env_id": "mail", "action": "enable", "role": "*", "tools": []});
        expect![[r#"
            wrong-length: `tools` of step is empty, but needs at least 1 item (write at least 1 item)
        "#]]
        .assert_eq(&misfits(&TYPE, fields));
    }
}
