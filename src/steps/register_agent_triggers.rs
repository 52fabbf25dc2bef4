//! Registers triggers of an agent that plays a user: what it says by itself, before anybody asks it.
//!
//! ```json
//! {"id": "nudges", "type": "register_agent_triggers", "agent_name": "dana", "triggers": [
//!   {"id": "late", "when": {"type": "conversational", "where": {"message": {"regex": "(?i)anything else"}}},
//!    "actions": [{"type": "say", "text": "Yes: please do it by Friday."}]},
//!   {"id": "enough", "when": {"type": "step", "turn": 5, "cmp": "gte"}, "actions": [{"type": "end"}]}]}
//! ```
//!
//! After each reply of the agent that is prompted, the triggers of who plays the user are looked at. Where one fires, what it
//! says is the next message, and the user itself is not asked; `end` ends the conversation. Where none does, the user is
//! asked as always. With `once`, which is the default, a trigger fires once in a conversation.
//!
//! # When it fires
//!
//! `when` has a `type`:
//!
//! - `step`: in `turn`, 1 where it is absent; with `"cmp": "gte"` in each later one too.
//! - `conversational`: `where.message` is a predicate on the agent's reply: `regex`, `equals` or `exists`.
//! - `env_trigger`: trigger `trigger_id` of `env_id` has this `status`, `fired` where it is absent. A step before must have
//!   registered it, and somebody in the conversation must work on that env.
//! - `all` and `any`: all or one of those in `of`.
//!
//! # What it gives
//!
//! An entry in `metadata.agent_trigger_registrations`. A prompt in which they are looked at gives
//! `metadata.env_trigger_snapshots`, with how the triggers of envs stood in each turn.
//!
//! # What is in its key
//!
//! Its fields, its id, and the triggers of envs that steps before registered, if it names some.
//!
//! # Differences to agent-env
//!
//! - aebuild looks at the triggers itself, so that any agent can have them; the one that has them is not told.

use std::collections::BTreeSet;
use std::sync::OnceLock;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::on_triggers;
use crate::context::{Entry, Lookup, Output, Place};
use crate::json::{Map, Value, json};
use crate::resource::{ResourceId, Touch};
use crate::step::sandbox::BoxFuture;
use crate::step::{NameRef, Refusal, Step, StepCx, StepError, StepType, read_fields, schema_of};
use crate::task::triggers::{TalkTrigger, read_talk_triggers};
use crate::task::{OnError, StepId};

/// The step type `register_agent_triggers`.
pub static TYPE: StepType = StepType {
    name: "register_agent_triggers",
    version: 1,
    on_error: OnError::FailTask,
    make_schema: schema_of::<Fields>,
    build,
    page: include_str!("register_agent_triggers.rs"),
    schema: OnceLock::new(),
};

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Fields {
    /// The agent, which plays the user of a conversation.
    #[schemars(length(min = 1))]
    agent_name: String,
    /// The triggers.
    triggers: Vec<Map<String, Value>>,
}

#[derive(Debug)]
struct RegisterTriggers {
    fields: Fields,
    step: String,
    triggers: Vec<TalkTrigger>,
}

fn build(step: &StepId, fields: &Map<String, Value>) -> Result<Box<dyn Step>, Vec<Refusal>> {
    let mut fields: Fields = read_fields(fields)?;
    for (ix, trigger) in fields.triggers.iter_mut().enumerate() {
        if trigger.get("id").is_none_or(Value::is_null) {
            trigger.insert("id".to_owned(), json!(format!("{step}-{}", ix + 1)));
        }
    }
    let read = read_talk_triggers(&json!(fields.triggers));
    let triggers = read.map_err(|faults| {
        let refusals = faults.into_iter().map(on_triggers::refusal);
        refusals.collect::<Vec<_>>()
    })?;
    Ok(Box::new(RegisterTriggers {
        triggers,
        fields,
        step: step.as_str().to_owned(),
    }))
}

impl RegisterTriggers {
    fn register(&self, cx: StepCx<'_>) -> Result<Output, StepError> {
        let name = &self.fields.agent_name;
        let wrong = |what: String| StepError::of("ValueError", what);
        if cx.find(&Lookup::Agent(name.clone())).is_none() {
            return Err(wrong(format!(
                "agent `{name}` is not deployed by a step that `{}` depends on",
                self.step
            )));
        }
        for (env_id, trigger) in self.named() {
            if !on_triggers::is_registered(cx, env_id, trigger) {
                return Err(wrong(format!(
                    "no step before registers trigger `{trigger}` of env `{env_id}`"
                )));
            }
        }
        let before = on_triggers::of_agent(cx, name)?;
        let is_new = |trigger: &&TalkTrigger| before.iter().all(|other| other.id != trigger.id);
        let added: Vec<&str> = self
            .triggers
            .iter()
            .filter(is_new)
            .map(|trigger| trigger.id.as_str())
            .collect();
        let value = json!({
            "step_id": self.step,
            "agent_name": name,
            "added": added,
            "triggers": self.fields.triggers,
        });
        let place = Place::Append(vec!["agent_trigger_registrations".to_owned()]);
        Ok(Output::of(vec![Entry::data(place, value)]))
    }

    /// Returns the triggers of envs that some of these wait for.
    fn named(&self) -> BTreeSet<(&str, &str)> {
        let mut named = BTreeSet::new();
        for trigger in &self.triggers {
            trigger.when.add_env_triggers(&mut named);
        }
        named
    }
}

impl Step for RegisterTriggers {
    fn fields(&self) -> Value {
        let mut fields = json!(self.fields);
        // The step's id is part of what it gives.
        fields["id"] = self.step.as_str().into();
        fields
    }

    fn touches(&self) -> Vec<(ResourceId, Touch)> {
        Vec::new()
    }

    fn reads(&self) -> Vec<NameRef> {
        let agent = NameRef {
            field: "/agent_name".to_owned(),
            lookup: Lookup::Agent(self.fields.agent_name.clone()),
        };
        let named = self.named().into_iter();
        let envs: BTreeSet<&str> = named.map(|(env_id, _)| env_id).collect();
        let envs = envs.into_iter().map(|env_id| NameRef {
            field: "/triggers".to_owned(),
            lookup: Lookup::Env(env_id.to_owned()),
        });
        std::iter::once(agent).chain(envs).collect()
    }

    fn run<'a>(&'a self, cx: StepCx<'a>) -> BoxFuture<'a, Result<Output, StepError>> {
        let registered = self.register(cx);
        Box::pin(async { registered })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::steps::testing::{FakeServices, build_step, refused, run, show};
    use expect_test::expect;

    #[test]
    fn every_fault_of_a_trigger_is_found() {
        let triggers = json!([
            {"when": {"type": "steps"}, "actions": [{"type": "shout", "text": "!"}]},
            {"id": "a", "once": 1, "when": {"type": "step", "turn": 0, "cmp": "lt"}, "actions": []},
            {"id": "a", "when": {"type": "all", "of": [
                {"type": "conversational", "where": {"message": {"regex": "("}}}, {"type": "env_trigger", "env_id": "kv"}]},
             "actions": [{"type": "say"}, {"type": "end", "text": "x"}]},
            {"when": {"type": "any", "of": []}, "then": 1},
        ]);
        expect![[r#"
            unknown-value /triggers/0/when/type: `type` can't be `steps` (write one of `step`, `env_trigger`, `conversational`, `all`, `any`)
            unknown-value /triggers/0/actions/0/type: `type` can't be `shout` (write one of `say`, `end`)
            wrong-type /triggers/1/once: `once` is a number, not true or false (-)
            out-of-range /triggers/1/when/turn: there is no turn 0 (the first is 1)
            unknown-value /triggers/1/when/cmp: `cmp` can't be `lt` (write one of `eq`, `gte`)
            wrong-length /triggers/1/actions: `actions` is empty (say what the trigger does)
            bad-pattern /triggers/2/when/of/0/where/message/regex: `(` is no regular expression: Parsing error at position 1: Opening parenthesis without closing parenthesis (-)
            missing-field /triggers/2/when/of/1: `when` has no `trigger_id` (add "trigger_id")
            missing-field /triggers/2/actions/0: the action has no `text` (add "text")
            unknown-field /triggers/2/actions/1/text: `text` means nothing here (one of `type` can stand here)
            unknown-field /triggers/3/then: `then` means nothing here (did you mean `when`?)
            wrong-length /triggers/3/when/of: `of` is empty (list what is looked at)
            missing-field /triggers/3: the trigger has no `actions` (add "actions")
        "#]].assert_eq(&refused(
            &TYPE,
            json!({"agent_name": "dana", "triggers": triggers}),
        ));
    }

    #[test]
    fn triggers_are_kept_for_prompts_of_the_agent() {
        let fields = json!({"agent_name": "dana", "triggers": [
            {"when": {"type": "step"}, "actions": [{"type": "say", "text": "Hello?"}]}]});
        let step = build_step(&TYPE, "nudges", fields);
        let world = FakeServices::new();
        let nobody = run(&*step, "nudges", &world).unwrap_err();
        expect!["agent `dana` is not deployed by a step that `nudges` depends on"]
            .assert_eq(&nobody.message);
        let world = world.deployed("dana");
        expect![[r#"
            metadata.agent_trigger_registrations += {"added":["nudges-1"],"agent_name":"dana","step_id":"nudges","triggers":[{"actions":[{"text":"Hello?","type":"say"}],"id":"nudges-1","when":{"type":"step"}}]}
        "#]].assert_eq(&show(&run(&*step, "nudges", &world).unwrap()));
    }
}
