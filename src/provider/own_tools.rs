//! The tools by which an agent works in its own sandbox: it runs commands, and reads and writes files.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

use crate::json::{Map, Value, json};
use crate::step::env::{tool_error, tool_result};
use crate::step::sandbox::{Exec, How, Sandbox};

/// The largest file that is read, and the most of what a command says, in bytes.
const MAX_BYTES: u64 = 1 << 20;

/// Returns the tools, as MCP declares them.
pub(super) fn declared() -> Vec<Value> {
    let text = |description: &str| json!({"type": "string", "description": description});
    let tool = |name: &str, description: &str, properties: Value, required: &[&str]| {
        json!({
            "name": name,
            "description": description,
            "inputSchema": {
                "type": "object",
                "properties": properties,
                "required": required,
                "additionalProperties": false,
            },
        })
    };
    vec![
        tool(
            "bash",
            "Runs a script with bash in your sandbox, in /app, and tells what it printed and how it ended. What is JSON is given as a value too.",
            json!({
                "command": text("The script."),
                "timeout_seconds": {
                    "type": "number", "exclusiveMinimum": 0, "description": "How long it may take.",
                },
            }),
            &["command"],
        ),
        tool(
            "read_file",
            "Reads a file of your sandbox. What is no text is given in base64.",
            json!({"path": text("The path; a relative one is below /app.")}),
            &["path"],
        ),
        tool(
            "write_file",
            "Writes a file of your sandbox, in place of what was there.",
            json!({
                "path": text("The path; a relative one is below /app."),
                "content": text("The text of the file."),
                "base64": text("The bytes of the file in base64, in place of `content`."),
            }),
            &["path"],
        ),
    ]
}

/// Calls one of the tools and returns the result as an MCP tool gives it.
pub(super) async fn call(
    sandbox: &dyn Sandbox,
    tool: &str,
    arguments: &Map<String, Value>,
) -> Value {
    let text = |key: &str| arguments.get(key).and_then(Value::as_str);
    match tool {
        "bash" => match text("command") {
            Some(command) => bash(sandbox, command, seconds(arguments)).await,
            None => tool_error("`command` is missing"),
        },
        "read_file" => match text("path") {
            Some(path) => read(sandbox, path),
            None => tool_error("`path` is missing"),
        },
        "write_file" => {
            let bytes = match (text("content"), text("base64")) {
                (Some(content), None) => Ok(content.as_bytes().to_vec()),
                (None, Some(base64)) => BASE64
                    .decode(base64.trim())
                    .map_err(|error| format!("`base64` is none: {error}")),
                _ => Err("one of `content` and `base64` is needed".to_owned()),
            };
            match (text("path"), bytes) {
                (Some(path), Ok(bytes)) => match sandbox.write(path, &bytes, 0o644) {
                    Ok(()) => tool_result(&json!({"path": path, "size": bytes.len()})),
                    Err(error) => tool_error(&error.to_string()),
                },
                (None, _) => tool_error("`path` is missing"),
                (_, Err(why)) => tool_error(&why),
            }
        }
        other => tool_error(&format!(
            "there is no tool `{other}`; those of the sandbox are `bash`, `read_file` and `write_file`"
        )),
    }
}

/// Returns how long a script may take, where that is said.
fn seconds(arguments: &Map<String, Value>) -> Option<Duration> {
    let seconds = arguments.get("timeout_seconds")?.as_f64()?;
    Duration::try_from_secs_f64(seconds).ok()
}

async fn bash(sandbox: &dyn Sandbox, command: &str, limit: Option<Duration>) -> Value {
    let mut exec = Exec::bash(command).keep(MAX_BYTES as usize);
    if let Some(limit) = limit {
        exec = exec.timeout(limit);
    }
    match sandbox.exec(exec).await {
        Ok(exited) => {
            let ended = match exited.how {
                How::Code(code) => json!(code),
                How::Signal(signal) => json!(format!("signal {signal}")),
                How::TimedOut | How::Cancelled => json!("stopped"),
            };
            let stdout = exited.stdout.text();
            let mut said = json!({
                "exit": ended,
                "stdout": stdout,
                "stderr": exited.stderr.text(),
            });
            // A script of an agent that needs no model goes on with values, not with text.
            if let Ok(value) = crate::json::from_slice::<Value>(stdout.trim().as_bytes()) {
                said["json"] = value;
            }
            let mut result = tool_result(&said);
            result["isError"] = (!exited.is_success()).into();
            result
        }
        Err(error) => tool_error(&error.to_string()),
    }
}

fn read(sandbox: &dyn Sandbox, path: &str) -> Value {
    match sandbox.read(path, MAX_BYTES) {
        Ok(Some(bytes)) => tool_result(&match String::from_utf8(bytes) {
            Ok(text) => json!({"path": path, "content": text}),
            Err(error) => json!({"path": path, "base64": BASE64.encode(error.as_bytes())}),
        }),
        Ok(None) => tool_error(&format!("there is no file `{path}`")),
        Err(error) => tool_error(&error.to_string()),
    }
}
