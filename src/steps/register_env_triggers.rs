//! Registers triggers of an env: what happens in it by itself while agents work.
//!
//! ```json
//! {"id": "deadline", "type": "register_env_triggers", "env_id": "mail", "triggers": [
//!   {"id": "late", "when": {"type": "time", "at": "2026-03-04T12:00:00Z", "unless": {"tool": "reply_to_email"}},
//!    "actions": [{"type": "tool", "tool": "receive_email",
//!                 "args": {"sender": "dana@example.com", "subject": "Still there?", "content": "I need an answer."}}]}]}
//! ```
//!
//! # What a trigger waits for
//!
//! `when` has a `type`:
//!
//! - `action`: a call of `tool`. `where` says what must be true of it: keys are arguments, or paths below `args` and `result`
//!   such as `result.emails[0].sender`; values are predicates, with one of `regex`, `equals` and `exists`. With
//!   `repeat` each such call counts.
//! - `state`: `check` finds something in the env. It is a call `{tool, args?, extract?, bind?, predicate}`, or `{"steps": [..]}`
//!   with several. It is made again after each watched call that may have changed something.
//! - `time`: `at` a time or a length such as `"PT2H"` after the clock was set; `after` another trigger has fired, by `offset`;
//!   `every` so often, with `count` and `until`. A length may be drawn: `{"dist": "exp", "mean": "PT4H", "seed": 7}`.
//!   `unless` makes it a deadline: a call that calls it off. It needs a clock, which `sync_env_clock` sets.
//!
//! The calls of `watch_roles` count, or of `when.roles`; failed calls never do.
//!
//! # What it does then
//!
//! `actions`, one after the other, each after its `delay`:
//!
//! - `tool` calls `tool` with `args`, in which `"${args.recipients[0]}"`, `"${result.email_id}"` and `"${name}"` of what a
//!   check bound stand for values; with a `?` before the `}` nothing may be there. Without `as` no rule of tool access
//!   holds for it, so that it may use tools that are hidden from agents.
//! - `permission` enables or disables `tools` of a `role`.
//! - `nl` tells an agent the `instruction`: the executor of the step, or the agent that `executor` names. It works in its
//!   own role, and `executor_hours` say when.
//!
//! With `verify`, a check, an action has failed where the check finds nothing; an agent is told once more before that.
//! With `barrier` the call that set the trigger off is answered only after all is done.
//!
//! A trigger that fired stays `fired`; one that failed waits again, but for a time trigger, which is `failed`.
//!
//! # What it gives
//!
//! An entry in `metadata.env_trigger_registrations`, with where the triggers of `await_fired` stand.
//!
//! # What is in its key
//!
//! Its fields, its id, the state of the env, and what its executors are; not `await_timeout_seconds`.
//!
//! # Effects
//!
//! Changes the env: its triggers and where they stand are a part of its state, and come back with it. Agents that it gives
//! instructions to are at hand in this step and in each later one that prompts an agent of the env.
//!
//! # When it happens
//!
//! Where the env has no clock that runs in real time (none, one of rate 0, or `clock = "event"`), a call is answered when
//! all is done that it set off, but for what waits for a time. So the same steps give the same results.
//!
//! Prompts that work on the env side by side see one world. What hangs on who comes first, such as which of two sets off a
//! trigger that fires once, is as it happens; all else is not: a prompt that is done waits until those beside it are, gives
//! its slot back meanwhile, and then all are told the same of the triggers. What happened at one point of virtual time is
//! told step by step.
//!
//! With a clock in real time triggers fire beside the calls, and what comes of it is a sample.
//!
//! # Differences to agent-env
//!
//! - Triggers fire in order, see above; with `clock = "event"` also `await_fired` has the clock leap.
//! - An id that is not given comes from the step's id and the place in the list.
//! - What a trigger does sets off no other trigger, unless that names the role in `when.roles`.
//! - An executor is an agent of the task. Triggers of websites are refused.
//! - An executor that no agent of a step plays fails the action; steps that prompt nobody have none at hand.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::target::{CONFLICT, given};
use super::{on_env, on_triggers};
use crate::context::{Lookup, Output};
use crate::diagnostic::did_you_mean;
use crate::digest::Digester;
use crate::json::{Map, Value, json};
use crate::resource::{ResourceId, Touch};
use crate::step::sandbox::BoxFuture;
use crate::step::{
    NameRef, Refusal, Step, StepCx, StepError, StepType, ToolRef, read_fields, schema_of,
};
use crate::task::triggers::{Deed, Trigger, read_hours, read_triggers};
use crate::task::{OnError, StepId};

/// The step type `register_env_triggers`.
pub static TYPE: StepType = StepType {
    name: "register_env_triggers",
    version: 1,
    on_error: OnError::FailTask,
    make_schema: schema_of::<Fields>,
    build,
    page: include_str!("register_env_triggers.rs"),
    schema: OnceLock::new(),
};

/// The code of a refusal of a name that is none of those that can stand there.
const UNKNOWN: &str = "unknown-value";

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Fields {
    /// The env.
    #[schemars(length(min = 1))]
    env_id: String,
    /// The triggers.
    triggers: Vec<Map<String, Value>>,
    /// The roles whose calls set triggers off; `["default"]` where absent.
    #[schemars(length(min = 1), inner(length(min = 1)))]
    watch_roles: Option<Vec<String>>,
    /// The agent that follows instructions which name nobody.
    executor_agent_name: Option<String>,
    /// How long an agent may take over an instruction, in seconds.
    #[serde(default = "default_timeout")]
    #[schemars(extend("exclusiveMinimum" = 0))]
    executor_timeout_seconds: f64,
    /// When agents follow instructions, by their names: `{start, end, utc_offset | time_zone, days}`.
    executor_hours: Option<Map<String, Value>>,
    /// The ids of triggers of this step for which it waits until they have fired.
    await_fired: Option<Vec<String>>,
    /// How long it waits for them, in seconds.
    #[serde(default = "default_timeout")]
    #[schemars(extend("exclusiveMinimum" = 0))]
    await_timeout_seconds: f64,
}

fn default_timeout() -> f64 {
    120.0
}

#[derive(Debug)]
struct RegisterTriggers {
    fields: Fields,
    step: String,
    /// The agents that instructions name.
    named: BTreeSet<String>,
    /// The ids of `await_fired`, each once.
    awaited: Vec<String>,
}

fn build(step: &StepId, fields: &Map<String, Value>) -> Result<Box<dyn Step>, Vec<Refusal>> {
    let mut fields: Fields = read_fields(fields)?;
    for (ix, trigger) in fields.triggers.iter_mut().enumerate() {
        if trigger.get("id").is_none_or(Value::is_null) {
            let mut digester = Digester::new("trigger");
            digester.text(step.as_str()).number(ix as u64);
            let id = format!("trg_{}", &digester.finish().to_string()[..12]);
            trigger.insert("id".to_owned(), json!(id));
        }
    }
    let mut refusals = Vec::new();
    let triggers = match read_triggers(&json!(fields.triggers)) {
        Ok(triggers) => triggers,
        Err(faults) => {
            refusals.extend(faults.into_iter().map(on_triggers::refusal));
            Vec::new()
        }
    };
    let is_whole = refusals.is_empty();
    let named: BTreeSet<String> = triggers.iter().flat_map(executors).collect();
    let one = given(&fields.executor_agent_name);
    for (name, hours) in fields.executor_hours.iter().flatten() {
        let at = format!(
            "/executor_hours/{}",
            name.replace('~', "~0").replace('/', "~1")
        );
        if let Err(faults) = read_hours(&at, hours) {
            refusals.extend(faults.into_iter().map(on_triggers::refusal));
        }
        if is_whole && one != Some(name) && !named.contains(name) {
            let headline =
                format!("no trigger gives instructions to `{name}`, so its hours mean nothing");
            refusals.push(
                Refusal::new(UNKNOWN, at, headline)
                    .help(format!("delete `{name}` from `executor_hours`")),
            );
        }
    }
    let hours_of = |name: Option<&str>| {
        let name = name.or(one)?;
        fields.executor_hours.as_ref()?.get(name)
    };
    for (ix, trigger) in triggers
        .iter()
        .enumerate()
        .filter(|(_, trigger)| trigger.barrier.is_some())
    {
        let waits = trigger.actions.iter().any(|action| match &action.deed {
            Deed::Instruct { executor, .. } => hours_of(executor.as_deref()).is_some(),
            _ => false,
        });
        if waits {
            let headline = "the call would wait for the hours of an executor, which may be far off";
            refusals.push(
                Refusal::new(CONFLICT, format!("/triggers/{ix}/barrier"), headline)
                    .help("delete `barrier` or the hours"),
            );
        }
    }
    let mut awaited: Vec<String> = Vec::new();
    for (ix, id) in fields.await_fired.iter().flatten().enumerate() {
        let known = || triggers.iter().map(|trigger| trigger.id.as_str());
        if is_whole && !known().any(|known| known == id) {
            let headline =
                format!("`await_fired` names trigger `{id}`, which this step does not register");
            let near = did_you_mean(id, known());
            let help = near.unwrap_or_else(|| "name an `id` of `triggers`".to_owned());
            refusals.push(Refusal::new(UNKNOWN, format!("/await_fired/{ix}"), headline).help(help));
        }
        if !awaited.contains(id) {
            awaited.push(id.clone());
        }
    }
    if !refusals.is_empty() {
        return Err(refusals);
    }
    Ok(Box::new(RegisterTriggers {
        fields,
        step: step.as_str().to_owned(),
        named,
        awaited,
    }))
}

/// Returns the agents that the instructions of a trigger name.
fn executors(trigger: &Trigger) -> Vec<String> {
    let named = trigger
        .actions
        .iter()
        .filter_map(|action| match &action.deed {
            Deed::Instruct { executor, .. } => executor.clone(),
            _ => None,
        });
    named.collect()
}

impl RegisterTriggers {
    /// Returns the agents that follow instructions.
    fn agents(&self) -> Vec<String> {
        let one = given(&self.fields.executor_agent_name).map(str::to_owned);
        let all: BTreeSet<String> = self.named.iter().cloned().chain(one).collect();
        all.into_iter().collect()
    }

    /// Returns how an agent is registered as one that follows instructions.
    fn executor(&self, cx: StepCx<'_>, name: &str) -> Result<Value, StepError> {
        let deployed = cx.find(&Lookup::Agent(name.to_owned()));
        let deployed = deployed.ok_or_else(|| {
            StepError::of(
                "ValueError",
                format!(
                    "agent `{name}` is not deployed by a step that `{}` depends on",
                    self.step
                ),
            )
        })?;
        let Some(role) = deployed.get("role").and_then(Value::as_str) else {
            return Err(StepError::of(
                "ValueError",
                format!(
                    "agent `{name}` follows instructions of triggers, so it needs a `role` of its own in its `deploy_agent` step"
                ),
            ));
        };
        let mut executor = json!({
            "agent": name,
            "role": role,
            "timeout_seconds": self.fields.executor_timeout_seconds,
        });
        if let Some(hours) = self
            .fields
            .executor_hours
            .as_ref()
            .and_then(|all| all.get(name))
        {
            executor["hours"] = hours.clone();
        }
        Ok(executor)
    }

    async fn register(&self, cx: StepCx<'_>) -> Result<Output, StepError> {
        let env_id = &self.fields.env_id;
        let env = cx.env(env_id)?;
        let mut registration = json!({"triggers": self.fields.triggers});
        if let Some(roles) = &self.fields.watch_roles {
            registration["watch_roles"] = json!(roles);
        }
        let one = given(&self.fields.executor_agent_name);
        if let Some(name) = one {
            registration["executor"] = self.executor(cx, name)?;
        }
        let mut named = Map::new();
        for name in &self.named {
            named.insert(name.clone(), self.executor(cx, name)?);
        }
        if !named.is_empty() {
            registration["executors"] = Value::Object(named);
        }
        let attending = on_triggers::attend(cx, &*env, &self.agents())?;
        let timed = env
            .timed()
            .ok_or_else(|| StepError::new(format!("env `{env_id}` can have no triggers")))?;
        let added = timed.register(&registration).await.map_err(|error| {
            StepError::of(
                "ValueError",
                format!("trigger registration failed: {error}"),
            )
        })?;
        let mut entry = json!({
            "step_id": self.step,
            "env_id": env_id,
            "added": added,
            "executor_agent_name": one,
            "executor_agent_names": self.named,
        });
        if !self.awaited.is_empty() {
            let seconds = self.fields.await_timeout_seconds.min(1e9);
            let limit = std::time::Duration::from_secs_f64(seconds);
            let fired = tokio::time::timeout(limit, timed.await_fired(&self.awaited)).await;
            let fired = fired.map_err(|_| {
                let message = format!(
                    "{} did not fire within {seconds} s; raise `await_timeout_seconds` if it needs more",
                    self.awaited.iter().map(|id| format!("`{id}`")).collect::<Vec<_>>().join(", ")
                );
                StepError::of("TimeoutError", message)
            })?;
            entry["awaited"] = fired.map_err(StepError::new)?;
        }
        attending.check(cx)?;
        drop(attending);
        Ok(Output::of(vec![on_env::append(
            "env_trigger_registrations",
            entry,
        )]))
    }
}

impl Step for RegisterTriggers {
    fn fields(&self) -> Value {
        let mut fields = json!(self.fields);
        // The step's id is part of what it gives.
        fields["id"] = Value::String(self.step.clone());
        if let Value::Object(members) = &mut fields {
            members.remove("await_timeout_seconds");
        }
        fields
    }

    fn touches(&self) -> Vec<(ResourceId, Touch)> {
        let mut touches = on_env::touches(&self.fields.env_id, Touch::Mutates);
        let agents = self.agents();
        touches.extend(
            agents
                .iter()
                .map(|name| (ResourceId::agent(name), Touch::MayMutate)),
        );
        touches
    }

    fn prompts(&self) -> bool {
        !self.agents().is_empty()
    }

    fn executors(&self) -> Option<(String, Vec<String>)> {
        Some((self.fields.env_id.clone(), self.agents()))
    }

    fn reads(&self) -> Vec<NameRef> {
        let mut reads = on_env::reads(&self.fields.env_id);
        if let Some(name) = given(&self.fields.executor_agent_name) {
            reads.push(NameRef {
                field: "/executor_agent_name".to_owned(),
                lookup: Lookup::Agent(name.to_owned()),
            });
        }
        let mut seen = BTreeMap::new();
        for (ix, trigger) in self.fields.triggers.iter().enumerate() {
            let actions = trigger.get("actions").and_then(Value::as_array);
            for (at, action) in actions.into_iter().flatten().enumerate() {
                if let Some(name) = action.get("executor").and_then(Value::as_str) {
                    seen.entry(name)
                        .or_insert(format!("/triggers/{ix}/actions/{at}/executor"));
                }
            }
        }
        reads.extend(seen.into_iter().map(|(name, field)| NameRef {
            field,
            lookup: Lookup::Agent(name.to_owned()),
        }));
        reads
    }

    fn names_tools(&self) -> Vec<ToolRef> {
        let mut named = Vec::new();
        let mut add = |field: String, tool: Option<&Value>| {
            let tool = tool.and_then(Value::as_str).filter(|tool| *tool != "*");
            named.extend(tool.map(|tool| ToolRef {
                field,
                env_id: self.fields.env_id.clone(),
                tool: tool.to_owned(),
            }));
        };
        for (ix, trigger) in self.fields.triggers.iter().enumerate() {
            let when = trigger.get("when").and_then(|when| when.get("tool"));
            add(format!("/triggers/{ix}/when/tool"), when);
            let actions = trigger.get("actions").and_then(Value::as_array);
            for (at, action) in actions.into_iter().flatten().enumerate() {
                let place = format!("/triggers/{ix}/actions/{at}");
                add(format!("{place}/tool"), action.get("tool"));
                let tools = action.get("tools").and_then(Value::as_array);
                for (n, tool) in tools.into_iter().flatten().enumerate() {
                    add(format!("{place}/tools/{n}"), Some(tool));
                }
            }
        }
        named
    }

    fn provides(&self) -> Vec<NameRef> {
        vec![on_env::provides(&["env_trigger_registrations"])]
    }

    fn run<'a>(&'a self, cx: StepCx<'a>) -> BoxFuture<'a, Result<Output, StepError>> {
        Box::pin(self.register(cx))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::steps::testing::{FakeEnv, FakeServices, build_step, misfits, refused, run};
    use expect_test::expect;

    fn nl(executor: Value) -> Value {
        json!({"type": "nl", "instruction": "Answer.", "executor": executor})
    }

    fn sent(action: Value) -> Value {
        json!({"when": {"type": "action", "tool": "send_email"}, "actions": [action]})
    }

    #[test]
    fn every_fault_of_a_trigger_is_told_at_its_place() {
        let hours = json!({"start": "09:00", "end": "17:00"});
        let mut held = sent(nl(json!("sam")));
        held["barrier"] = json!({"at": "provoking_call"});
        expect![[r#"
            unknown-field /triggers/0/action: `action` means nothing here (did you mean `actions`?)
            wrong-pattern /triggers/0/when/at: `noon` is no time like `2026-03-02T09:00:00Z`, with seconds and an offset or `Z` (write a time, or a length such as "PT2H" after the start of the clock)
            missing-field /triggers/0: the trigger has no `actions` (add "actions")
            missing-field /triggers/1/actions/0: the action has no `tool` (add "tool")
            wrong-pattern /executor_hours/sam: `9` to `17:00` are no hours: write two different times as `HH:MM` (-)
        "#]].assert_eq(&refused(
            &TYPE,
            json!({
                "env_id": "mail",
                "triggers": [{"when": {"type": "time", "at": "noon"}, "action": []}, sent(json!({"type": "tool"}))],
                "executor_hours": {"sam": {"start": "9", "end": "17:00"}},
            }),
        ));
        expect![[r#"
            unknown-value /executor_hours/dana: no trigger gives instructions to `dana`, so its hours mean nothing (delete `dana` from `executor_hours`)
            conflicting-fields /triggers/0/barrier: the call would wait for the hours of an executor, which may be far off (delete `barrier` or the hours)
            unknown-value /await_fired/0: `await_fired` names trigger `late`, which this step does not register (name an `id` of `triggers`)
        "#]].assert_eq(&refused(
            &TYPE,
            json!({
                "env_id": "mail",
                "triggers": [held],
                "executor_hours": {"sam": hours, "dana": hours},
                "await_fired": ["late"],
            }),
        ));
        expect![[r#"
            out-of-range: `await_timeout_seconds` of step is 0, but must be above 0 (write a number above 0)
            wrong-length: `env_id` of step is empty, but needs at least 1 character (write at least 1 character)
            wrong-type: `triggers` of step is an object, not an array (write it in `[` and `]`)
            wrong-length: `watch_roles` of step is empty, but needs at least 1 item (write at least 1 item)
        "#]].assert_eq(&misfits(
            &TYPE,
            json!({"env_id": "", "triggers": {}, "watch_roles": [], "await_timeout_seconds": 0}),
        ));
    }

    #[test]
    fn an_id_that_is_not_given_is_that_of_the_place() {
        let fields = |n: usize| {
            let triggers = vec![sent(nl(json!("sam"))); n];
            json!({"env_id": "mail", "triggers": triggers, "executor_agent_name": "dana"})
        };
        let step = build_step(&TYPE, "rules", fields(2));
        let ids: Vec<Value> = step.fields()["triggers"]
            .as_array()
            .unwrap()
            .iter()
            .map(|trigger| trigger["id"].clone())
            .collect();
        assert_ne!(ids[0], ids[1]);
        let again = build_step(&TYPE, "rules", fields(1));
        assert_eq!(again.fields()["triggers"][0]["id"], ids[0]);
        let agents = vec!["dana".to_owned(), "sam".to_owned()];
        assert_eq!(step.executors(), Some(("mail".to_owned(), agents)));
        assert!(step.prompts());
        let reads: Vec<String> = step
            .reads()
            .iter()
            .map(|read| format!("{} {:?}", read.field, read.lookup))
            .collect();
        expect![[r#"
            /env_id Env("mail")
            /executor_agent_name Agent("dana")
            /triggers/0/actions/0/executor Agent("sam")"#]]
        .assert_eq(&reads.join("\n"));
    }

    #[test]
    fn who_follows_instructions_has_a_role_of_its_own() {
        let world = FakeServices::new().env(FakeEnv::new("mail"));
        let step = build_step(
            &TYPE,
            "rules",
            json!({"env_id": "mail", "triggers": [sent(nl(json!("sam")))]}),
        );
        let error = run(&*step, "rules", &world).unwrap_err();
        expect!["ValueError: agent `sam` is not deployed by a step that `rules` depends on"]
            .assert_eq(&error.to_string());
        let step = build_step(&TYPE, "rules", json!({"env_id": "mail", "triggers": []}));
        let error = run(&*step, "rules", &world).unwrap_err();
        expect!["RuntimeError: env `mail` can have no triggers"].assert_eq(&error.to_string());
    }
}
