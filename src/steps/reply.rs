//! The reply that a verifier looks at.

use std::sync::Arc;

use crate::context::Lookup;
use crate::json::{Value, json};
use crate::step::{StepCx, StepError};

/// Returns the reply that a step looks at.
pub(super) fn find(cx: StepCx<'_>, prompt_id: &str) -> Result<Arc<Value>, StepError> {
    cx.find(&Lookup::Prompt(prompt_id.to_owned()))
        .ok_or_else(|| {
            StepError::new(format!(
                "reply `{prompt_id}` is not there; no step that `{}` depends on gave it",
                cx.step
            ))
        })
}

/// Returns the one row of a verification of a reply that is an error; `None` where it is none.
pub(super) fn error_row(reply: &Value) -> Option<Value> {
    let error = reply.get("error_type").and_then(Value::as_str);
    let error = error.filter(|error| !error.is_empty())?;
    let message = match reply.get("error_message").and_then(Value::as_str) {
        Some(message) => format!("{error}: {message}"),
        None => error.to_owned(),
    };
    Some(json!({"id": "prompt_error", "score": 0.0, "result": false, "message": message}))
}

/// Returns the text of a reply.
pub(super) fn text(reply: &Value) -> &str {
    reply.get("response").and_then(Value::as_str).unwrap_or("")
}
