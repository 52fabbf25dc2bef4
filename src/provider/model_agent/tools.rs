//! The tools of an agent, under the names by which its model calls them.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use super::parts::{cut, of_result, texts_schema};
use crate::json::{Map, Value, json};
use crate::step::agent::{AgentError, Peer, Prompt, Skill};
use crate::step::env::{EnvError, LiveEnv};
use crate::step::model::{Content, ToolCall, ToolDecl, Usage};
use crate::step::sandbox::{Exec, How, Sandbox};

/// The tool by which a skill is read.
pub(super) const READ_SKILL: &str = "read_skill";
/// The longest name that every API takes.
const MAX_NAME: usize = 64;
/// How long a command may take where the model does not say, and at most.
const COMMAND_SECONDS: (u64, u64) = (120, 600);
/// The largest file that is read, in bytes.
const MAX_FILE: u64 = 4 << 20;

/// What a tool answered.
pub(super) struct Answered {
    pub(super) content: Vec<Content>,
    pub(super) is_error: bool,
    /// What was spent by who was asked.
    pub(super) usage: Usage,
}

impl Answered {
    fn text(text: impl Into<String>) -> Self {
        Answered {
            content: cut(vec![Content::Text(text.into())]),
            is_error: false,
            usage: Usage::default(),
        }
    }

    fn error(text: impl Into<String>) -> Self {
        Answered {
            is_error: true,
            ..Answered::text(text)
        }
    }
}

/// What stands behind a tool.
enum Target {
    Env(Arc<dyn LiveEnv>, String),
    Bash(Arc<dyn Sandbox>),
    ReadFile(Arc<dyn Sandbox>),
    WriteFile(Arc<dyn Sandbox>),
    Peer(Peer),
    Skills(Vec<Skill>),
}

/// The tools of an agent.
pub(super) struct Toolbox {
    tools: Vec<(ToolDecl, Target)>,
}

impl Toolbox {
    /// Gathers the tools of an agent: its envs', then its own. A tool whose name another has too is called
    /// `<env_id>__<tool>`.
    pub(super) async fn of(prompt: &Prompt) -> Result<Self, EnvError> {
        let own = own_tools(prompt);
        let mut of_envs = Vec::new();
        for env in &prompt.envs {
            for tool in env.tools().await? {
                if let Some(name) = tool.get("name").and_then(Value::as_str) {
                    of_envs.push((env.clone(), name.to_owned(), tool.clone()));
                }
            }
        }
        let mut n_named: HashMap<String, usize> = HashMap::new();
        let own_names = own.iter().map(|(tool, _)| tool.name.clone());
        for name in own_names
            .clone()
            .chain(of_envs.iter().map(|(_, name, _)| callable(name)))
        {
            *n_named.entry(name).or_default() += 1;
        }
        let mut taken: HashSet<String> = own_names.collect();
        let mut tools = Vec::with_capacity(of_envs.len() + own.len());
        for (env, name, tool) in of_envs {
            let short = callable(&name);
            let wanted = match n_named.get(&short) {
                Some(1) => short,
                _ => callable(&format!("{}__{name}", env.env_id())),
            };
            let description = tool.get("description").and_then(Value::as_str);
            let schema = tool.get("inputSchema").filter(|schema| schema.is_object());
            let decl = ToolDecl {
                name: free(&wanted, &mut taken),
                description: description.unwrap_or_default().to_owned(),
                schema: schema.cloned().unwrap_or_else(|| json!({"type": "object"})),
            };
            tools.push((decl, Target::Env(env, name)));
        }
        tools.extend(own);
        Ok(Toolbox { tools })
    }

    /// Returns the tools as the model is told of them.
    pub(super) fn declared(&self) -> Vec<ToolDecl> {
        self.tools.iter().map(|(decl, _)| decl.clone()).collect()
    }

    /// Makes a call. What goes wrong is an answer; an error is an env that is of no more use.
    pub(super) async fn answer(&self, call: &ToolCall) -> Result<Answered, EnvError> {
        let Some((_, target)) = self.tools.iter().find(|(decl, _)| decl.name == call.name) else {
            let names = self.tools.iter().map(|(decl, _)| decl.name.as_str());
            let near = crate::diagnostic::did_you_mean(&call.name, names);
            let near = near.map(|near| format!("; {near}")).unwrap_or_default();
            return Ok(Answered::error(format!(
                "there is no tool `{}`{near}",
                call.name
            )));
        };
        let arguments = match &call.arguments {
            Ok(arguments) => arguments,
            Err(text) => {
                return Ok(Answered::error(format!(
                    "the arguments of `{}` are no JSON object, so nothing was called: {}",
                    call.name,
                    text.chars().take(200).collect::<String>()
                )));
            }
        };
        let text = |key: &str| arguments.get(key).and_then(Value::as_str);
        let missing = |key: &str| Answered::error(format!("`{key}` must be a text"));
        Ok(match target {
            Target::Env(env, tool) => return in_env(env, tool, arguments).await,
            Target::Bash(sandbox) => match text("command") {
                Some(command) => bash(sandbox, command, arguments).await,
                None => missing("command"),
            },
            Target::ReadFile(sandbox) => match text("path") {
                Some(path) => read_file(sandbox, path),
                None => missing("path"),
            },
            Target::WriteFile(sandbox) => match (text("path"), text("content")) {
                (Some(path), Some(content)) => {
                    match sandbox.write(path, content.as_bytes(), 0o644) {
                        Ok(()) => {
                            Answered::text(format!("`{path}` is written: {} bytes", content.len()))
                        }
                        Err(error) => Answered::error(error.to_string()),
                    }
                }
                (None, _) => missing("path"),
                _ => missing("content"),
            },
            Target::Peer(peer) => match text("message") {
                Some(message) => return ask(peer, message).await,
                None => missing("message"),
            },
            Target::Skills(skills) => {
                let wanted = text("name").unwrap_or_default();
                match skills.iter().find(|skill| skill.name == wanted) {
                    Some(skill) => Answered::text(skill.body.clone()),
                    None => Answered::error(format!("there is no skill `{wanted}`")),
                }
            }
        })
    }
}

/// Returns the tools that are no env's.
fn own_tools(prompt: &Prompt) -> Vec<(ToolDecl, Target)> {
    let mut tools = Vec::new();
    let tool = |name: &str, description: &str, schema: Value| ToolDecl {
        name: name.to_owned(),
        description: description.to_owned(),
        schema,
    };
    if let Some(sandbox) = &prompt.sandbox {
        let mut schema = texts_schema(&[("command", "What bash runs.")]);
        schema["properties"]["timeout_seconds"] = json!({
            "type": "integer", "minimum": 1, "maximum": COMMAND_SECONDS.1,
            "description": format!("How long it may take; {} where it is not given.", COMMAND_SECONDS.0),
        });
        let about = "Run a command in your own sandbox with bash, and see what it prints and its exit code.";
        tools.push((tool("bash", about, schema), Target::Bash(sandbox.clone())));
        let path = ("path", "The path of the file.");
        tools.push((
            tool(
                "read_file",
                "Read a text file of your own sandbox.",
                texts_schema(&[path]),
            ),
            Target::ReadFile(sandbox.clone()),
        ));
        let schema = texts_schema(&[path, ("content", "The whole new text of the file.")]);
        tools.push((
            tool(
                "write_file",
                "Write a text file of your own sandbox, in place of what was there.",
                schema,
            ),
            Target::WriteFile(sandbox.clone()),
        ));
    }
    let mut taken: HashSet<String> = tools.iter().map(|(decl, _)| decl.name.clone()).collect();
    for peer in &prompt.peers {
        let name = free(&callable(&format!("ask_{}", peer.name)), &mut taken);
        let about = match &peer.description {
            Some(description) => format!("Ask the agent `{}`: {description}", peer.name),
            None => format!("Ask the agent `{}`.", peer.name),
        };
        let schema = texts_schema(&[("message", "What you say; earlier messages are known.")]);
        tools.push((tool(&name, &about, schema), Target::Peer(peer.clone())));
    }
    let skills = &prompt.settings.skills;
    if !skills.is_empty() {
        let mut schema = texts_schema(&[("name", "The name of the skill.")]);
        let names: Vec<&str> = skills.iter().map(|skill| skill.name.as_str()).collect();
        schema["properties"]["name"]["enum"] = json!(names);
        let about = "Read one of your skills.";
        tools.push((
            tool(&free(READ_SKILL, &mut taken), about, schema),
            Target::Skills(skills.clone()),
        ));
    }
    tools
}

/// Returns a name as every API takes it.
fn callable(name: &str) -> String {
    let is_fine = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let each = name.chars().map(|c| if is_fine(c) { c } else { '_' });
    let name: String = each.take(MAX_NAME).collect();
    if name.is_empty() {
        "_".to_owned()
    } else {
        name
    }
}

/// Returns a name that no tool has yet, and takes it.
fn free(wanted: &str, taken: &mut HashSet<String>) -> String {
    let mut name = wanted.to_owned();
    let mut n = 1;
    while !taken.insert(name.clone()) {
        n += 1;
        let end = format!("_{n}");
        name = wanted.chars().take(MAX_NAME - end.len()).collect();
        name.push_str(&end);
    }
    name
}

async fn in_env(
    env: &Arc<dyn LiveEnv>,
    tool: &str,
    arguments: &Map<String, Value>,
) -> Result<Answered, EnvError> {
    match env.call(tool, arguments.clone()).await {
        Ok(result) => Ok(Answered {
            content: of_result(&result),
            is_error: result.get("isError") == Some(&Value::Bool(true)),
            usage: Usage::default(),
        }),
        Err(error) if error.is_fatal() => Err(error),
        Err(error) => Ok(Answered::error(error.to_string())),
    }
}

async fn bash(
    sandbox: &Arc<dyn Sandbox>,
    command: &str,
    arguments: &Map<String, Value>,
) -> Answered {
    let seconds = arguments.get("timeout_seconds").and_then(Value::as_u64);
    let seconds = seconds
        .unwrap_or(COMMAND_SECONDS.0)
        .clamp(1, COMMAND_SECONDS.1);
    let exec = Exec::bash(command)
        .timeout(Duration::from_secs(seconds))
        .keep(1 << 20);
    let exited = match sandbox.exec(exec).await {
        Ok(exited) => exited,
        Err(error) => return Answered::error(error.to_string()),
    };
    let mut text = exited.stdout.text().into_owned();
    let errors = exited.stderr.text();
    if !errors.is_empty() {
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        text.push_str(&format!("stderr:\n{errors}"));
    }
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    // The end counts most, so it stands before a long output is cut.
    let ended = match exited.how {
        How::Code(code) => format!("exit code {code}"),
        How::Signal(signal) => format!("killed by signal {signal}"),
        How::TimedOut => format!("stopped after {seconds} s"),
        How::Cancelled => "stopped, since the sandbox is gone".to_owned(),
    };
    match exited.is_success() {
        true if text.is_empty() => Answered::text(ended),
        true => Answered::text(text),
        false => Answered::error(format!("{ended}\n{text}")),
    }
}

fn read_file(sandbox: &Arc<dyn Sandbox>, path: &str) -> Answered {
    match sandbox.read(path, MAX_FILE) {
        Ok(Some(bytes)) => match String::from_utf8(bytes) {
            Ok(text) => Answered::text(text),
            Err(error) => {
                let n = error.as_bytes().len();
                Answered::error(format!("`{path}` is no text; it has {n} bytes"))
            }
        },
        Ok(None) => Answered::error(format!("there is nothing at `{path}`")),
        Err(error) => Answered::error(error.to_string()),
    }
}

async fn ask(peer: &Peer, message: &str) -> Result<Answered, EnvError> {
    match peer.line.ask(message).await {
        Ok(reply) => Ok(Answered {
            usage: reply.usage,
            ..Answered::text(reply.text)
        }),
        Err(AgentError::Env(error)) if error.is_fatal() => Err(error),
        Err(error) => Ok(Answered::error(error.to_string())),
    }
}
