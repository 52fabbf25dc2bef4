//! What is graded: the turns of a prompt, each with what was asked, what was done and what was answered.

use crate::json::Value;
use crate::step::{StepCx, StepError};
use crate::steps::{on_agent, reply};

/// The work of an agent.
#[derive(Clone, Debug, Default)]
pub(super) struct Work {
    /// Its turns, oldest first; there is at least one.
    pub(super) turns: Vec<Turn>,
    /// The text of the last reply.
    pub(super) answer: String,
}

/// A turn of a conversation.
#[derive(Clone, Debug, Default)]
pub(super) struct Turn {
    /// What the agent was asked.
    pub(super) message: String,
    /// What it did; `None` where nobody recorded it, or nobody needs it.
    pub(super) trajectory: Option<Vec<Value>>,
    /// What it answered, where that is known.
    pub(super) reply: Option<String>,
}

/// What of the work is needed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Needs {
    /// The last turn that counts.
    pub(super) up_to: Option<u64>,
    /// Whether there must be a trajectory.
    pub(super) trajectory: bool,
    /// Whether the reply of each turn is of use.
    pub(super) replies: bool,
}

/// Finds the work that led to a reply.
pub(super) fn work(
    cx: StepCx<'_>,
    prompt_id: &str,
    response: &Value,
    needs: Needs,
) -> Result<Work, StepError> {
    let mut turns = messages(response);
    let urls = urls(response);
    let all = turns.len();
    let last = needs
        .up_to
        .map_or(all, |turn| usize::try_from(turn).unwrap_or(usize::MAX));
    if last > all {
        let were = if all == 1 { "turn" } else { "turns" };
        return Err(StepError::of(
            "ValueError",
            format!(
                "`grade_up_to_turn` is {last}, but the conversation of `{prompt_id}` has {all} {were}"
            ),
        ));
    }
    let is_cut = last < all;
    turns.truncate(last);
    if needs.trajectory || needs.replies || is_cut {
        for (turn, url) in turns.iter_mut().zip(&urls) {
            let Some(url) = url else { continue };
            let trajectory = trajectory(cx, prompt_id, url)?;
            turn.reply = last_said(&trajectory);
            turn.trajectory = Some(trajectory);
        }
    }
    let ends_known = turns.last().is_some_and(|turn| turn.trajectory.is_some());
    if is_cut && !ends_known {
        return Err(StepError::new(format!(
            "turn {last} of `{prompt_id}` has no trajectory, so nobody knows how the work stood then"
        )));
    }
    if needs.trajectory && turns.iter().all(|turn| turn.trajectory.is_none()) {
        return Err(StepError::new(format!(
            "reply `{prompt_id}` has no trajectory; with \"use_trajectory\": false the judge sees the answer only"
        )));
    }
    let answer = match turns.last_mut() {
        Some(turn) if is_cut => turn.reply.clone().unwrap_or_default(),
        Some(turn) => {
            let answer = reply::text(response).to_owned();
            turn.reply = Some(answer.clone());
            answer
        }
        None => String::new(),
    };
    Ok(Work { turns, answer })
}

/// Returns the turns by what was asked.
fn messages(response: &Value) -> Vec<Turn> {
    let prompt = response.get("prompt_text").and_then(Value::as_str);
    let prompt = prompt.unwrap_or_default();
    let turn = |message: String| Turn {
        message,
        ..Turn::default()
    };
    let parts = response.get("source_agent_per_turn_prompt_parts");
    let parts = parts
        .and_then(Value::as_array)
        .filter(|all| !all.is_empty());
    let Some(parts) = parts else {
        return vec![turn(prompt.to_owned())];
    };
    // What is null is the prompt itself.
    let message = |parts: &Value| match parts {
        Value::Array(parts) => text_of_parts(parts),
        _ => prompt.to_owned(),
    };
    parts.iter().map(|parts| turn(message(parts))).collect()
}

/// Returns the text of a message; a part that is no text is said to be there.
fn text_of_parts(parts: &[Value]) -> String {
    let text = |part: &Value| match (part.get("text"), part.get("data")) {
        (Some(Value::String(text)), _) => text.clone(),
        (_, Some(data)) => data.to_string(),
        _ => {
            let name = part.get("file").and_then(|file| file.get("name"));
            let name = name.and_then(Value::as_str).unwrap_or("without a name");
            format!("(a file: {name})")
        }
    };
    parts.iter().map(text).collect::<Vec<_>>().join("\n")
}

/// Returns where the trajectory of each turn is.
fn urls(response: &Value) -> Vec<Option<String>> {
    let url = |value: &Value| value.as_str().map(str::to_owned);
    let per_turn = [
        "target_agent_per_turn_trajectory_object_urls",
        "target_agent_per_turn_trajectory_s3_uris",
    ];
    let listed = per_turn.iter().find_map(|key| {
        let list = response.get(*key)?.as_array()?;
        (!list.is_empty()).then_some(list)
    });
    if let Some(list) = listed {
        return list.iter().map(url).collect();
    }
    let whole = ["agent_trajectory_object_url", "agent_trajectory_s3_uri"];
    let whole = whole.iter().find_map(|key| url(response.get(*key)?));
    vec![whole]
}

fn trajectory(cx: StepCx<'_>, prompt_id: &str, url: &str) -> Result<Vec<Value>, StepError> {
    let lost = |why: String| {
        StepError::new(format!(
            "the trajectory of `{prompt_id}` cannot be read: {why}"
        ))
    };
    let bytes = on_agent::stored(cx, url).map_err(lost)?;
    Ok(on_agent::moments(&bytes))
}

/// Returns the text that the agent said last.
fn last_said(trajectory: &[Value]) -> Option<String> {
    let said = trajectory.iter().rev().filter_map(|moment| {
        let role = moment.get("role")?.as_str()?;
        let is_agent = matches!(role, "assistant" | "agent");
        is_agent.then(|| said(moment.get("content")?))?
    });
    said.into_iter().find(|text| !text.is_empty())
}

/// Returns the text of a moment's content: a text, or a list of pieces of which some are.
pub(super) fn said(content: &Value) -> Option<String> {
    match content {
        Value::String(text) => Some(text.clone()),
        Value::Array(pieces) => {
            let texts = pieces
                .iter()
                .filter_map(|piece| piece.get("text")?.as_str());
            Some(texts.collect::<Vec<_>>().join("\n"))
        }
        _ => None,
    }
}
