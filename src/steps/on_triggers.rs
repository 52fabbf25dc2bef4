//! Triggers of envs, for the steps in which they may fire: who follows their instructions, and where they stand after it.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::on_agent::{self, Party, Talk};
use super::on_env;
use crate::context::Entry;
use crate::json::{Value, json};
use crate::step::agent::{PromptSettings, text_part};
use crate::step::env::LiveEnv;
use crate::step::sandbox::BoxFuture;
use crate::step::trigger::Executor;
use crate::step::{StepCx, StepError};
use crate::system::locked;

/// Agents that follow the instructions of triggers, as long as this is there.
pub(super) struct Attending {
    _seats: Vec<Box<dyn Any + Send + Sync>>,
}

/// Has the agents at hand to which the triggers of an env give instructions, and those that are named besides.
pub(super) fn attend(
    cx: StepCx<'_>,
    env: &dyn LiveEnv,
    more: &[String],
) -> Result<Attending, StepError> {
    let mut seats = Vec::new();
    if let Some(timed) = env.timed() {
        let mut agents = timed.executors();
        agents.extend(more.iter().cloned());
        agents.sort();
        agents.dedup();
        for agent in agents {
            let instructed = Instructed {
                step: cx.step.to_string(),
                agent: agent.clone(),
                party: on_agent::party(cx, &agent)?,
                talks: Mutex::default(),
            };
            seats.push(timed.attend(&agent, Arc::new(instructed)));
        }
    }
    Ok(Attending { _seats: seats })
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
            reply.map(drop).map_err(|error| error.to_string())
        })
    }
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
