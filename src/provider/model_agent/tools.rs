//! The tools of an agent, under the names by which its model calls them.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::parts::{cut, of_result, texts_schema};
use crate::json::{Map, Value, json};
use crate::provider::own_tools;
use crate::step::agent::{AgentError, Peer, Prompt, Skill};
use crate::step::env::{EnvError, LiveEnv};
use crate::step::model::{Content, ToolCall, ToolDecl, Usage};
use crate::step::sandbox::Sandbox;

/// The tool by which a skill is read.
pub(super) const READ_SKILL: &str = "read_skill";
/// How long a command may take where the model does not say it, in seconds.
const COMMAND_SECONDS: u64 = 120;
/// The longest name that every API takes.
const MAX_NAME: usize = 64;

/// What a tool answered.
pub(super) struct Answered {
    pub(super) content: Vec<Content>,
    pub(super) is_error: bool,
    /// What was spent by who was asked.
    pub(super) usage: Usage,
    /// What answered, where it was no env: those tell of their calls themselves.
    pub(super) by: Option<&'static str>,
}

impl Answered {
    fn text(text: impl Into<String>) -> Self {
        Answered {
            content: cut(vec![Content::Text(text.into())]),
            is_error: false,
            usage: Usage::default(),
            by: None,
        }
    }

    /// Returns what an MCP tool answered.
    fn result(result: &Value) -> Self {
        Answered {
            content: of_result(result),
            is_error: result.get("isError") == Some(&Value::Bool(true)),
            usage: Usage::default(),
            by: None,
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
    Own(Arc<dyn Sandbox>),
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
            let decl = declared(&tool, &free(&wanted, &mut taken));
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
        let by = match target {
            Target::Env(..) => None,
            Target::Own(_) => Some("sandbox"),
            Target::Peer(_) => Some("peer"),
            Target::Skills(_) => Some("skills"),
        };
        let answered = self.by(target, call, arguments).await?;
        Ok(Answered { by, ..answered })
    }

    async fn by(
        &self,
        target: &Target,
        call: &ToolCall,
        arguments: &Map<String, Value>,
    ) -> Result<Answered, EnvError> {
        let text = |key: &str| arguments.get(key).and_then(Value::as_str);
        let missing = |key: &str| Answered::error(format!("`{key}` must be a text"));
        Ok(match target {
            Target::Env(env, tool) => return in_env(env, tool, arguments).await,
            Target::Own(sandbox) => in_sandbox(sandbox.as_ref(), &call.name, arguments).await,
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

/// Returns a tool that MCP declares, under a name.
fn declared(tool: &Value, name: &str) -> ToolDecl {
    let description = tool.get("description").and_then(Value::as_str);
    let schema = tool.get("inputSchema").and_then(Value::as_object);
    let mut schema = schema.cloned().unwrap_or_default();
    // Some APIs refuse a tool whose schema leaves out what goes without saying.
    schema.entry("type").or_insert_with(|| json!("object"));
    schema.entry("properties").or_insert_with(|| json!({}));
    ToolDecl {
        name: name.to_owned(),
        description: description.unwrap_or_default().to_owned(),
        schema: Value::Object(schema),
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
        let own = own_tools::declared();
        tools.extend(own.iter().filter_map(|tool| {
            let name = tool.get("name")?.as_str()?;
            Some((declared(tool, name), Target::Own(sandbox.clone())))
        }));
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
        Ok(result) => Ok(Answered::result(&result)),
        Err(error) if error.is_fatal() => Err(error),
        Err(error) => Ok(Answered::error(error.to_string())),
    }
}

/// Calls a tool of the sandbox; what it says is shown as text, not as JSON.
async fn in_sandbox(sandbox: &dyn Sandbox, tool: &str, arguments: &Map<String, Value>) -> Answered {
    let mut arguments = arguments.clone();
    if tool == "bash" {
        let limit = arguments.entry("timeout_seconds");
        limit.or_insert_with(|| json!(COMMAND_SECONDS));
    }
    let result = own_tools::call(sandbox, tool, &arguments).await;
    let mut answered = Answered::result(&result);
    let said = result.get("structuredContent");
    if let Some(text) = said.and_then(shown) {
        answered.content = cut(vec![Content::Text(text)]);
    }
    answered
}

/// Returns what a tool of the sandbox says; `None` where its JSON says it best.
fn shown(said: &Value) -> Option<String> {
    let text = |key: &str| said.get(key).and_then(Value::as_str);
    if let Some(content) = text("content") {
        return Some(content.to_owned());
    }
    let exit = said.get("exit")?;
    let (out, errors) = (text("stdout")?, text("stderr")?);
    let mut shown = String::new();
    // The end counts most, so it stands before what may be cut.
    match exit.as_i64() {
        Some(0) if !out.is_empty() || !errors.is_empty() => {}
        Some(code) => shown.push_str(&format!("exit code {code}\n")),
        None => shown.push_str(&format!("{}\n", exit.as_str().unwrap_or_default())),
    }
    shown.push_str(out);
    if !errors.is_empty() {
        if !out.is_empty() && !out.ends_with('\n') {
            shown.push('\n');
        }
        shown.push_str(&format!("stderr:\n{errors}"));
    }
    Some(shown)
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
