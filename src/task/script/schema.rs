//! The schema of a script, which the check of `agent.toml` goes by.

use crate::json::{Value, json};

/// The keys of a script.
pub(super) const SCRIPT: [&str; 3] = ["type", "id", "rules"];
/// The keys of a rule.
pub(super) const RULE: [&str; 8] = [
    "prompt",
    "turn",
    "attempts",
    "tests",
    "calls",
    "reply",
    "structured",
    "fail",
];
/// The keys of a call.
pub(super) const CALL: [&str; 9] = [
    "env",
    "tool",
    "arguments",
    "peer",
    "message",
    "save",
    "when",
    "for_each",
    "on_error",
];

/// Returns the JSON Schema of a script.
pub fn schema() -> Value {
    let call = json!({
        "type": "object",
        "properties": {
            "env": {
                "type": "string",
                "minLength": 1,
                "description": "The `env_id`; it may be left out where the agent has exactly one env. `sandbox` stands for the agent's own sandbox, which has the tools `bash`, `read_file` and `write_file`.",
            },
            "tool": {"type": "string", "minLength": 1, "description": "The tool."},
            "peer": {
                "type": "string",
                "minLength": 1,
                "description": "The agent that is asked, in place of a tool.",
            },
            "message": {"type": "string", "description": "What it is asked, with templates."},
            "arguments": {"type": "object", "description": "Its arguments, with templates."},
            "save": {
                "type": "string",
                "minLength": 1,
                "description": "The name under which the answer is kept for templates.",
            },
            "when": {
                "type": "string",
                "minLength": 1,
                "description": "A template; where it finds nothing, or what is empty, false or 0, the call is left out.",
            },
            "for_each": {
                "type": ["string", "array"],
                "description": "A template for a list; the call is made for each item, which is called `item`.",
            },
            "on_error": {
                "type": "string",
                "enum": ["fail", "go-on"],
                "default": "fail",
                "description": "What becomes of a call that does not succeed.",
            },
        },
        "additionalProperties": false,
    });
    let rule = json!({
        "type": "object",
        "properties": {
            "prompt": {
                "type": "string",
                "description": "A regular expression that is looked for in the prompt; any prompt where it is absent.",
            },
            "turn": {
                "type": "integer",
                "minimum": 1,
                "description": "The rule is only for this turn of a conversation, the first being 1.",
            },
            "attempts": {
                "type": "integer",
                "minimum": 1,
                "description": "The rule is only for the first so many attempts of the step that prompts.",
            },
            "tests": {
                "type": "object",
                "additionalProperties": {"type": "string"},
                "description": "Regular expressions by name; a template finds 1 under the name where the prompt has a match, else 0.",
            },
            "calls": {"type": "array", "items": call, "description": "The calls, in order."},
            "reply": {"type": "string", "default": "", "description": "The answer, with templates."},
            "structured": {"description": "The typed value of the answer, with templates."},
            "fail": {
                "type": "string",
                "description": "The message with which the agent fails after its calls, with templates.",
            },
        },
        "additionalProperties": false,
    });
    json!({
        "type": "object",
        "properties": {
            "type": {"type": "string", "minLength": 1, "description": "`scripted`."},
            "id": {"type": "string", "minLength": 1, "description": "The id of the agent."},
            "rules": {
                "type": "array",
                "items": rule,
                "description": "The rules; the first one that is for a prompt counts.",
            },
        },
        "additionalProperties": false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_has_the_keys_that_are_read() {
        let schema = schema();
        let rule = &schema["properties"]["rules"]["items"];
        let call = &rule["properties"]["calls"]["items"];
        for (schema, keys) in [(&schema, &SCRIPT[..]), (rule, &RULE), (call, &CALL)] {
            let mut declared: Vec<&String> =
                schema["properties"].as_object().unwrap().keys().collect();
            let mut keys = keys.to_vec();
            declared.sort();
            keys.sort_unstable();
            assert_eq!(declared, keys);
        }
    }
}
