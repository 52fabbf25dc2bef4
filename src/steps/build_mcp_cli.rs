//! Makes a command-line program of the tools of an env.
//!
//! Agents that work in a shell call tools with it. It is one file of Python without dependencies, has a command for each
//! tool with an option for each of its parameters, and prints what the tool gives.
//!
//! ```json
//! {"id": "cli", "type": "build_mcp_cli", "env_id": "mail", "command_name": "mail"}
//! ```
//!
//! ```text
//! $ mail send_mail --to dana@example.org --subject Hi
//! {
//!   "id": "m-7"
//! }
//! $ mail send_mail --json '{"to": "dana@example.org", "subject": "Hi"}'
//! ```
//!
//! It finds the env by the variable `MCP_URL`, or by a line `MCP_URL=..` in a file `.env` beside it or one folder up. The
//! variable `AGENTENV_ROLE` is the role in which it calls, sent as the header `AgentEnv-Role`. An error of a tool goes to
//! its standard error and gives the exit status 1; the exit status 2 is a command line that cannot be meant.
//!
//! # What it gives
//!
//! `metadata.cli_artifact`: the artifact, with its one file.
//!
//! ```json
//! {"id": "mail__cli", "version": 1, "type": "cli", "command_name": "mail",
//!  "files": {"bin/mail": "aebuild:sha256:..:10240"}}
//! ```
//!
//! # What is in its key
//!
//! Its fields and the state of the env. The same tools give the same bytes.
//!
//! # Effects
//!
//! None: it only asks the env for its tools.
//!
//! # Differences to agent-env
//!
//! - The program has the tools that the role `default` may use, as the env lists them when the step runs.
//! - An env of several servers gets one program with the tools of all of them; `agent-env` wants an env of one server.
//! - `cli_artifact` has the name of the command and the files too.

use std::sync::OnceLock;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::on_env;
use super::target::given;
use crate::context::Output;
use crate::json::{Map, Value, json};
use crate::resource::{ResourceId, Touch};
use crate::step::sandbox::BoxFuture;
use crate::step::{NameRef, Refusal, Step, StepCx, StepError, StepType, read_fields, schema_of};
use crate::task::{OnError, StepId};

/// The step type `build_mcp_cli`.
pub static TYPE: StepType = StepType {
    name: "build_mcp_cli",
    version: 1,
    on_error: OnError::FailTask,
    make_schema: schema_of::<Fields>,
    build,
    page: include_str!("build_mcp_cli.rs"),
    schema: OnceLock::new(),
};

/// The program, with marks where the tools go.
const PROGRAM: &str = include_str!("build_mcp_cli/cli.py");

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Fields {
    /// The env whose tools the program calls.
    #[schemars(length(min = 1))]
    env_id: String,
    /// The name of the program.
    #[schemars(length(min = 1))]
    command_name: String,
    /// The id of the artifact; `<env_id>__cli` where absent.
    cli_artifact_id: Option<String>,
}

#[derive(Debug)]
struct BuildMcpCli {
    fields: Fields,
    artifact_id: String,
}

fn build(_: &StepId, fields: &Map<String, Value>) -> Result<Box<dyn Step>, Vec<Refusal>> {
    let fields: Fields = read_fields(fields)?;
    let command = &fields.command_name;
    let is_odd = |c: char| c == '/' || c == '\\' || c.is_whitespace() || c.is_control();
    if command.starts_with(['.', '-']) || command.contains(is_odd) {
        let refusal = Refusal::new(
            "bad-command-name",
            "/command_name",
            format!("command `{command}` is no plain name"),
        )
        .help("use a name without slashes and spaces that starts with a letter or digit");
        return Err(vec![refusal]);
    }
    let artifact_id = match given(&fields.cli_artifact_id) {
        Some(id) => id.to_owned(),
        None => format!("{}__cli", fields.env_id),
    };
    Ok(Box::new(BuildMcpCli {
        fields,
        artifact_id,
    }))
}

/// Returns the program that calls these tools.
fn program(command: &str, tools: &[Value]) -> String {
    // A JSON string is a Python string too.
    let quoted = |text: String| Value::String(text).to_string();
    let mut list = String::new();
    for tool in tools {
        let known = ["name", "description", "inputSchema"];
        let kept = known.map(|key| {
            (
                key.to_owned(),
                tool.get(key).cloned().unwrap_or(Value::Null),
            )
        });
        let tool = Value::Object(kept.into_iter().collect());
        list += &format!("    json.loads({}),\n", quoted(tool.to_string()));
    }
    let marked = PROGRAM.split_once("@COMMAND@");
    let (head, rest) = marked.expect("bug: the program has a mark for its name");
    let marked = rest.split_once("@TOOLS@");
    let (middle, tail) = marked.expect("bug: the program has a mark for its tools");
    let name = quoted(command.to_owned());
    [head, &name, middle, &list, tail].concat()
}

impl BuildMcpCli {
    async fn make(&self, cx: StepCx<'_>) -> Result<Output, StepError> {
        let Fields {
            env_id,
            command_name,
            ..
        } = &self.fields;
        let env = cx.env(env_id)?;
        let mut tools = env.tools().await?;
        let name = |tool: &Value| tool.get("name").and_then(Value::as_str).map(str::to_owned);
        tools.retain(|tool| name(tool).is_some());
        tools.sort_by_key(name);
        tools.dedup_by_key(|tool| name(tool));
        if tools.is_empty() {
            return Err(StepError::of(
                "ValueError",
                format!(
                    "env `{env_id}` lists no tools to role `default`, so there is nothing to call"
                ),
            ));
        }
        let text = program(command_name, &tools);
        let stored = cx.services.keep(text.as_bytes())?;
        cx.note(&format!("`{command_name}` calls {} tools", tools.len()));
        let mut files = Map::new();
        files.insert(format!("bin/{command_name}"), stored.url().into());
        let artifact = json!({
            "id": self.artifact_id,
            "version": 1,
            "type": "cli",
            "command_name": command_name,
            "files": files,
        });
        Ok(Output::of(vec![on_env::set(&["cli_artifact"], artifact)]))
    }
}

impl Step for BuildMcpCli {
    fn fields(&self) -> Value {
        let mut fields = json!(self.fields);
        fields["cli_artifact_id"] = Value::String(self.artifact_id.clone());
        fields
    }

    fn touches(&self) -> Vec<(ResourceId, Touch)> {
        on_env::touches(&self.fields.env_id, Touch::Observes)
    }

    fn reads(&self) -> Vec<NameRef> {
        on_env::reads(&self.fields.env_id)
    }

    fn provides(&self) -> Vec<NameRef> {
        vec![on_env::provides(&["cli_artifact"])]
    }

    fn run<'a>(&'a self, cx: StepCx<'a>) -> BoxFuture<'a, Result<Output, StepError>> {
        Box::pin(self.make(cx))
    }
}

#[cfg(test)]
mod tests;
