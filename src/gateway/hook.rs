//! The points at which an intervention can change what is asked and what is answered.

use crate::json::{Map, Value};

use super::Caller;

/// A tool call on its way to the env.
#[derive(Clone, Debug)]
pub struct ToolCall {
    /// Who calls.
    pub caller: Caller,
    /// The tool.
    pub tool: String,
    /// The arguments.
    pub arguments: Map<String, Value>,
}

/// Something that stands between callers and an env. Hooks are asked in order, on the way back in reverse.
pub trait Hook: Send + Sync {
    /// Sees a call before the env does, and may change it; an answer given here keeps the call from the env.
    fn before(&self, call: &mut ToolCall) -> Option<Value> {
        let _ = call;
        None
    }

    /// Sees the result of a call before the caller does, and may change it.
    fn after(&self, call: &ToolCall, result: &mut Value) {
        let _ = (call, result);
    }
}
