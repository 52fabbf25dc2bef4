//! A trajectory as a log of actions, a line for each call and message.

use super::super::work::said;
use super::{THINKING, is_thinking};
use crate::json::Value;
use crate::steps::pattern::Pattern;

/// Returns the last lines of a log, and those with a match of a pattern that must always be there.
pub(super) fn text(moments: &[Value], most: u64, always: &[(String, Pattern)]) -> String {
    let mut entries: Vec<Line> = Vec::new();
    for moment in moments {
        log_moment(moment, &mut entries);
    }
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let label = |line: &Line| {
        let found = always
            .iter()
            .find(|(_, pattern)| pattern.is_found_in(&line.text) == Ok(true));
        found.map(|(label, _)| label.clone())
    };
    let labels: Vec<Option<String>> = entries.iter().map(label).collect();
    let shown = labels.iter().flatten().count();
    let rest = entries.len() - shown;
    let mut left_out = rest.saturating_sub(most.saturating_sub(shown));
    let mut text = String::new();
    let mut gap = 0;
    for (at, (line, label)) in entries.iter().zip(&labels).enumerate() {
        if label.is_none() && left_out > 0 {
            left_out -= 1;
            gap += 1;
            continue;
        }
        if gap > 0 {
            text += &format!("({gap} left out)\n");
            gap = 0;
        }
        let label = label.as_ref().map(|label| format!("[{label}] "));
        let label = label.unwrap_or_default();
        text += &format!("{}. {label}{}", at + 1, line.text);
        if let Some(result) = &line.result {
            text += &format!(" -> {result}");
        }
        text.push('\n');
    }
    text
}

/// A line of a log of actions.
struct Line {
    text: String,
    /// The name of the tool where it is a call.
    tool: Option<String>,
    result: Option<String>,
}

/// How much of an argument, an answer or a text a log of actions shows.
pub(super) const SHOWN: usize = 300;

fn log_moment(moment: &Value, entries: &mut Vec<Line>) {
    let mut add = |text: String| {
        entries.push(Line {
            text,
            tool: None,
            result: None,
        });
    };
    let role = moment.get("role").and_then(Value::as_str).unwrap_or("");
    if role == "tool" {
        let name = ["tool", "name"].iter().find_map(|key| moment.get(*key));
        let name = name.and_then(Value::as_str).unwrap_or_default();
        let content = moment.get("content").unwrap_or(&Value::Null);
        let result = one_line(&answer(content));
        let call = entries.iter_mut().find(|line| {
            line.result.is_none() && line.tool.as_deref().is_some_and(|tool| tool == name)
        });
        match call {
            Some(call) => call.result = Some(result),
            None => entries.push(Line {
                text: format!("{name} answers"),
                tool: None,
                result: Some(result),
            }),
        }
        return;
    }
    if let Some(text) = moment.get("content").and_then(said)
        && !text.is_empty()
    {
        add(format!("{role}: {}", one_line(&text)));
    }
    for key in THINKING {
        if let Some(text) = moment.get(*key).and_then(Value::as_str) {
            add(format!("{role} thinks: {}", one_line(text)));
        }
    }
    let kind = moment.get("type").and_then(Value::as_str);
    if let Some(text) = moment.get("text").and_then(Value::as_str)
        && kind.is_some_and(is_thinking)
    {
        add(format!("thinks: {}", one_line(text)));
    }
    if !moment.is_object() {
        add(one_line(&moment.to_string()));
    }
    let list = moment.get("tool_calls").and_then(Value::as_array);
    for call in list.into_iter().flatten() {
        entries.push(Line {
            text: one_line(&call_text(call)),
            tool: Some(call_name(call).to_owned()),
            result: None,
        });
    }
}

/// Returns what a tool answered, as text.
pub(super) fn answer(content: &Value) -> String {
    let inner = content.get("content").unwrap_or(content);
    match said(inner).filter(|text| !text.is_empty()) {
        Some(text) => text,
        None => content.to_string(),
    }
}

fn one_line(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    cut(&words.join(" "), SHOWN)
}

/// Returns the start of a text, and what it lacks.
pub(in crate::steps::rubrics_verifier) fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => {
            let more = text[end..].chars().count();
            format!("{}.. ({more} more characters)", &text[..end])
        }
        None => text.to_owned(),
    }
}

/// Returns the calls of a moment as text.
pub(super) fn calls(moment: &Value) -> Vec<String> {
    let list = moment.get("tool_calls").and_then(Value::as_array);
    list.into_iter().flatten().map(call_text).collect()
}

fn call_name(call: &Value) -> &str {
    let function = call.get("function").unwrap_or(call);
    let name = ["tool", "name"].iter().find_map(|key| function.get(*key));
    name.and_then(Value::as_str).unwrap_or("a tool")
}

fn call_text(call: &Value) -> String {
    let function = call.get("function").unwrap_or(call);
    let arguments = ["arguments", "input"]
        .iter()
        .find_map(|key| function.get(*key));
    let arguments = match arguments {
        Some(Value::String(text)) => text.clone(),
        Some(value) => value.to_string(),
        None => String::new(),
    };
    let env = call.get("env").and_then(Value::as_str);
    let env = env.map(|env| format!("{env}.")).unwrap_or_default();
    format!("{env}{} {arguments}", call_name(call))
        .trim_end()
        .to_owned()
}
