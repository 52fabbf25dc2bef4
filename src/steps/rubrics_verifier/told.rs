//! What a judge is told beside the work: facts of the run, the conversation, triggers, and files that were put before it.

use std::collections::BTreeMap;

use super::trajectory::cut;
use super::work::Work;
use crate::context::Lookup;
use crate::json::Value;
use crate::step::StepCx;
use crate::steps::on_triggers;

/// How much of a fact a judge sees, in characters.
const FACT: usize = 600;
/// How much of a message of the conversation.
const MESSAGE: usize = 4000;
/// How many firings of triggers.
const FIRINGS: usize = 200;

/// Returns the facts, each a label and a value on one line.
pub(super) fn facts(
    cx: StepCx<'_>,
    wanted: Option<&BTreeMap<String, String>>,
) -> Vec<(String, String)> {
    let fact = |(label, path): (&String, &String)| {
        let path = path.split('.').map(|segment| segment.trim().to_owned());
        let found = cx.find(&Lookup::Metadata(path.collect()));
        let value = match found {
            Some(value) => cut(&value.to_string(), FACT),
            None => "(not available)".to_owned(),
        };
        (label.clone(), value)
    };
    wanted.into_iter().flatten().map(fact).collect()
}

/// Returns what was said, turn by turn.
pub(super) fn conversation(work: &Work) -> String {
    let mut text = String::new();
    for (at, turn) in work.turns.iter().enumerate() {
        let number = at + 1;
        text += &format!("[{number}] user: {}\n", cut(&turn.message, MESSAGE));
        let reply = turn.reply.as_deref().map(|reply| cut(reply, MESSAGE));
        let reply = reply.unwrap_or_else(|| "(not recorded)".to_owned());
        text += &format!("[{number}] agent: {reply}\n");
    }
    text
}

/// Returns the triggers that fired, one a line.
pub(super) fn trigger_log(cx: StepCx<'_>, response: &Value, up_to: Option<u64>) -> String {
    let step = response.get("step_id").and_then(Value::as_str);
    let step = step.unwrap_or_default();
    let mut firings: Vec<Value> = Vec::new();
    let mut missing = String::new();
    let of_user = ["agent_trigger_state", "agent_trigger_firings"]
        .iter()
        .find_map(|key| cx.find(&Lookup::metadata(&[key, step])));
    if let Some(list) = of_user.as_deref().and_then(Value::as_array) {
        firings.extend(list.iter().cloned());
    }
    if let Some((of_envs, lost)) = on_triggers::firings(cx) {
        firings.extend(of_envs);
        for (env, why) in lost {
            missing += &format!("(the events of env `{env}` are missing: {why})\n");
        }
    }
    if let Some(last) = up_to {
        firings.retain(|firing| {
            let turn = firing.get("turn").and_then(Value::as_u64);
            turn.is_none_or(|turn| turn <= last)
        });
    }
    // What happens in an env has a place in virtual time alone.
    let at = |firing: &Value| {
        let at = ["at", "virtual_time"]
            .iter()
            .find_map(|key| firing.get(key)?.as_str());
        at.unwrap_or_default().to_owned()
    };
    firings.sort_by_key(at);
    let from = firings.len().saturating_sub(FIRINGS);
    let lines = firings[from..].iter().map(|firing| format!("{firing}\n"));
    let text: String = lines.chain([missing]).collect();
    if text.is_empty() {
        "(none)".to_owned()
    } else {
        text
    }
}

/// Returns the files that were put into the sandbox of the agent that judges.
pub(super) fn files(cx: StepCx<'_>, agent: Option<&str>) -> Vec<String> {
    let Some(agent) = agent else {
        return Vec::new();
    };
    let mut paths = Vec::new();
    for key in ["loaded_file_artifact_universes", "loaded_urls"] {
        let loaded = cx.find(&Lookup::metadata(&[key]));
        let loaded = loaded.as_deref().and_then(Value::as_array);
        for load in loaded.into_iter().flatten() {
            if load.get("agent_name").and_then(Value::as_str) != Some(agent) {
                continue;
            }
            let folder = load.get("destination_path").and_then(Value::as_str);
            let folder = folder.unwrap_or_default().trim_end_matches('/');
            match load.get("files") {
                Some(Value::Object(files)) => {
                    paths.extend(files.values().filter_map(Value::as_str).map(str::to_owned));
                }
                Some(Value::Array(files)) => {
                    let names = files.iter().filter_map(Value::as_str);
                    paths.extend(names.map(|name| match name.starts_with('/') {
                        true => name.to_owned(),
                        false => format!("{folder}/{name}"),
                    }));
                }
                _ => {}
            }
        }
    }
    paths
}
