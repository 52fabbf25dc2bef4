//! What is told of a call: a line in the log of the step that made it.

use super::record::{Made, start_of};
use crate::json::Value;

/// Returns a call in a line, long values cut.
pub(super) fn in_a_line(env: &str, made: &Made) -> String {
    let arguments = short(made.arguments);
    let answer = match &made.answer {
        Ok(result) if made.kind == "tool" => {
            let failed = result.get("isError") == Some(&Value::Bool(true));
            let answer = short_answer(result);
            format!(" -> {}{answer}", if failed { "error " } else { "" })
        }
        Ok(_) => String::new(),
        Err(error) => format!(" -> failed: {error}"),
    };
    let name = match made.kind {
        "access" => format!("tools of role `{}`", made.name),
        _ => made.name.to_owned(),
    };
    format!("{env}: {name} {arguments}{answer}")
}

/// The most bytes of a value that a line holds.
const IN_A_LINE: usize = 160;

pub(super) fn short(value: &Value) -> String {
    start_of(value, IN_A_LINE)
}

/// Returns the start of what a tool's result says.
fn short_answer(result: &Value) -> String {
    let structured = result.get("structuredContent");
    if let Some(structured) = structured.filter(|value| !value.is_null()) {
        return short(structured);
    }
    let first = result.pointer("/content/0");
    match first.and_then(|item| item.get("text")?.as_str()) {
        Some(text) => match text.char_indices().nth(IN_A_LINE) {
            Some((end, _)) => format!("{}..", &text[..end]),
            None => text.to_owned(),
        },
        None => short(first.unwrap_or(&Value::Null)),
    }
}
