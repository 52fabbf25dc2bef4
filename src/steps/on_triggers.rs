//! Triggers of envs, for the steps in which they may fire: who follows their instructions, and where they stand after it.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::on_agent::{self, Party, Talk};
use super::on_env;
use crate::context::{Entry, Lookup};
use crate::json::{Map, Value, json};
use crate::step::agent::{AgentError, PromptSettings, text_part};
use crate::step::env::LiveEnv;
use crate::step::sandbox::BoxFuture;
use crate::step::trigger::Executor;
use crate::step::{Refusal, StepCx, StepError};
use crate::system::locked;
use crate::task::triggers::{Fault, TalkTrigger, read_talk_triggers};

/// Agents that follow the instructions of triggers, as long as this is there.
pub(super) struct Attending {
    _seats: Vec<Box<dyn Any + Send + Sync>>,
    outage: Arc<Mutex<Option<AgentError>>>,
}

impl Attending {
    /// Fails where one of the agents could not be asked: what came of its instruction says nothing then.
    pub(super) fn check(&self, cx: StepCx<'_>) -> Result<(), StepError> {
        match locked(&self.outage).take() {
            Some(error) => Err(on_agent::failed(cx, error)),
            None => Ok(()),
        }
    }
}

/// Has the agents at hand to which the triggers of an env give instructions, and those that are named besides.
pub(super) fn attend(
    cx: StepCx<'_>,
    env: &dyn LiveEnv,
    more: &[String],
) -> Result<Attending, StepError> {
    let mut seats = Vec::new();
    let outage = Arc::default();
    if let Some(timed) = env.timed() {
        let mut agents = timed.executors();
        agents.extend(more.iter().cloned());
        agents.sort();
        agents.dedup();
        for agent in agents {
            let instructed = Instructed {
                step: cx.step.to_string(),
                agent: agent.clone(),
                party: on_agent::instructed(cx, &agent, timed.is_in_order())?,
                talks: Mutex::default(),
                outage: Arc::clone(&outage),
            };
            seats.push(timed.attend(&agent, Arc::new(instructed)));
        }
    }
    Ok(Attending {
        _seats: seats,
        outage,
    })
}

/// Has the agents at hand to which the triggers of these envs give instructions: for a step that prompts who works on them.
pub(super) fn attend_all(
    cx: StepCx<'_>,
    envs: &[Arc<dyn LiveEnv>],
) -> Result<Vec<Attending>, StepError> {
    envs.iter().map(|env| attend(cx, &**env, &[])).collect()
}

/// Waits until what triggers of these envs began is done, and returns the entries that say where they stand.
pub(super) async fn settle_all(cx: StepCx<'_>, envs: &[Arc<dyn LiveEnv>]) -> Vec<Entry> {
    let mut entries = Vec::new();
    for env in envs {
        let state = settle(cx, &**env).await;
        let path = ["env_trigger_state", env.env_id()];
        entries.extend(state.map(|state| on_env::set(&path, state)));
    }
    entries
}

/// An agent that follows instructions: each trigger has a conversation of its own with it.
struct Instructed {
    step: String,
    agent: String,
    party: Party,
    talks: Mutex<BTreeMap<String, Talk>>,
    outage: Arc<Mutex<Option<AgentError>>>,
}

impl Executor for Instructed {
    fn instruct<'a>(
        &'a self,
        trigger: &'a str,
        text: &'a str,
        limit: Duration,
    ) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async move {
            let talk = locked(&self.talks).get(trigger).cloned();
            let new = || Talk::new(&format!("{}/{}/trigger-{trigger}", self.step, self.agent));
            let mut talk = talk.unwrap_or_else(new);
            let settings = PromptSettings::default();
            let parts = vec![text_part(text)];
            let reply = self.party.ask(&mut talk, parts, &settings, limit).await;
            locked(&self.talks).insert(trigger.to_owned(), talk);
            reply.map(drop).map_err(|error| {
                let text = error.to_string();
                // One that takes too long has a limit of its own, which says something.
                if error.is_outage() && !matches!(error, AgentError::TimedOut { .. }) {
                    locked(&self.outage).get_or_insert(error);
                }
                text
            })
        })
    }
}

/// Returns a fault of a trigger as its step says it.
pub(super) fn refusal(fault: Fault) -> Refusal {
    Refusal {
        code: fault.code,
        field: fault.field,
        headline: fault.headline,
        help: fault.help,
    }
}

/// Returns whether a step before registered a trigger of an env.
pub(super) fn is_registered(cx: StepCx<'_>, env_id: &str, trigger: &str) -> bool {
    let all = cx.find(&Lookup::metadata(&["env_trigger_registrations"]));
    let all = all.as_ref().and_then(|all| all.as_array());
    let mut of_env = all
        .into_iter()
        .flatten()
        .filter(|entry| entry["env_id"] == env_id);
    of_env.any(|entry| {
        let added = entry["added"].as_array();
        added.is_some_and(|added| added.iter().any(|id| id == trigger))
    })
}

/// Returns the triggers that steps before registered for an agent that plays a user.
pub(super) fn of_agent(cx: StepCx<'_>, name: &str) -> Result<Vec<TalkTrigger>, StepError> {
    let all = cx.find(&Lookup::metadata(&["agent_trigger_registrations"]));
    let all = all.as_ref().and_then(|all| all.as_array());
    let mut triggers = Vec::new();
    for entry in all
        .into_iter()
        .flatten()
        .filter(|entry| entry["agent_name"] == name)
    {
        let read = read_talk_triggers(&entry["triggers"]);
        // They were read before they were registered.
        triggers.extend(read.map_err(|_| StepError::new("triggers of an agent are damaged"))?);
    }
    Ok(triggers)
}

/// Returns how the triggers of envs stand: `{env_id: {trigger_id: status}}`.
pub(super) fn statuses(envs: &[Arc<dyn LiveEnv>]) -> Value {
    let mut all = Map::new();
    for env in envs {
        let statuses = env
            .timed()
            .map(|timed| timed.statuses())
            .unwrap_or_default();
        if !statuses.is_empty() {
            all.insert(env.env_id().to_owned(), Value::Object(statuses));
        }
    }
    Value::Object(all)
}

/// Returns the firings of triggers of envs of which steps before told, in virtual time, and for each env of which they are
/// lost why; `None` where no step told.
pub(super) fn firings(cx: StepCx<'_>) -> Option<(Vec<Value>, BTreeMap<String, String>)> {
    let told = cx.find(&Lookup::metadata(&["env_trigger_state"]))?;
    let (mut firings, mut lost) = (Vec::new(), BTreeMap::new());
    for (env, state) in told.as_object()? {
        match events(cx, state) {
            Ok(events) => firings.extend(events.iter().filter_map(|event| firing(env, event))),
            Err(why) => {
                lost.insert(env.clone(), why);
            }
        }
    }
    firings.sort_by(|a, b| a["virtual_time"].as_str().cmp(&b["virtual_time"].as_str()));
    Some((firings, lost))
}

/// Returns what happened to the triggers of an env, as its state tells.
fn events(cx: StepCx<'_>, state: &Value) -> Result<Vec<Value>, String> {
    if let Some(error) = state.get("error").filter(|error| !error.is_null()) {
        let text = error.as_str().map(str::to_owned);
        return Err(text.unwrap_or_else(|| error.to_string()));
    }
    if let Some(url) = state.get("object_url").and_then(Value::as_str) {
        return on_agent::stored(cx, url).map(|bytes| on_agent::moments(&bytes));
    }
    let triggers = state.get("triggers").and_then(Value::as_object);
    let has_none = |trigger: &Value| trigger.get("fire_count") == Some(&json!(0));
    match triggers.is_some_and(|triggers| triggers.values().all(has_none)) {
        true => Ok(Vec::new()),
        false => Err("the events of its triggers were not kept".to_owned()),
    }
}

/// Returns an event as a firing, where it is the end of one.
fn firing(env: &str, event: &Value) -> Option<Value> {
    let is_ok = match event.get("kind")?.as_str()? {
        "fired" => true,
        "failed" => false,
        _ => return None,
    };
    Some(json!({
        "trigger_id": event["trigger_id"],
        "source": format!("env:{env}"),
        "turn": null,
        "at": null,
        "virtual_time": event["virtual_time"],
        "ok": is_ok,
        "provoked_by": event["step"],
    }))
}

/// Waits until what triggers began is done, and returns the value of `metadata.env_trigger_state.<env_id>`; `None` where
/// the env has no triggers. What happened is kept as a file.
async fn settle(cx: StepCx<'_>, env: &dyn LiveEnv) -> Option<Value> {
    let mut state = env.timed()?.settle().await;
    if state["statuses"].as_object()?.is_empty() {
        return None;
    }
    let events = state["events"].take();
    let lines = on_agent::lines(events.as_array().map_or(&[], Vec::as_slice));
    // Without a store there is no place for it, and where the triggers stand counts all the same.
    let url = cx.services.keep(&lines).ok();
    let url = url.as_ref().map(super::object_url::of);
    let members = state.as_object_mut()?;
    members.remove("events");
    members.insert("captured_at_utc".to_owned(), Value::Null);
    members.insert("capture_step_id".to_owned(), json!(cx.step.as_str()));
    members.insert("object_url".to_owned(), json!(url));
    Some(state)
}
