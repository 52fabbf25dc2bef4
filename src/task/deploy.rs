//! What a deploy step makes: which env or agent it is and how it is run, as the task folder and `aebuild.toml` say.
//!
//! Plain data. Nobody here runs anything or looks at this machine.

mod agent;
mod decides;
mod kind;

use std::collections::BTreeMap;

use serde_json_path::JsonPath;

use super::folder::{Definition, TaskFolder};
use super::model::without_user;
use crate::json::{Map, Value, json};
use crate::task::Determinism;

pub use agent::{AgentRun, ContainerRun, PromptBy};
pub use decides::{MAX_TURNS, agent_keys};

/// Files that say which packages a folder holds: what an installer writes beside them.
pub const LOCK_FILES: [&str; 6] = [
    ".package-lock.json",
    "package-lock.json",
    "pyvenv.cfg",
    "uv.lock",
    "poetry.lock",
    "requirements.txt",
];

/// The envs that are compiled in.
pub const BUILTIN_ENVS: [&str; 4] = ["mail", "calendar", "files", "kv"];

/// Returns whether an env that is compiled in takes files that `load_artifact` puts into it.
pub fn takes_files(builtin: &str) -> bool {
    builtin == "files"
}

/// An env and how it is run.
#[derive(Clone, Debug, PartialEq)]
pub struct EnvSpec {
    /// The `env_id` by which steps find it.
    pub env_id: String,
    /// Its id in contexts.
    pub id: String,
    /// The name of its folder below `envs/`, where it has one.
    pub folder: Option<String>,
    /// How it is run.
    pub run: EnvRun,
    /// How its state is brought back; found out from what the server can do where it is not set.
    pub state: Option<StateMode>,
    /// Tools that change nothing, whatever the server says; `*` at the end stands for any ending.
    pub read_only_tools: Vec<String>,
    /// Places of answers that differ each time, as JSON paths: they are not compared.
    pub volatile: Vec<String>,
    /// How long it may take to get ready, in seconds.
    pub ready_timeout_seconds: u64,
    /// How long it may take to answer a call, in seconds.
    pub call_timeout_seconds: u64,
    /// The largest answer that is taken, in MB.
    pub max_answer_mb: u64,
    /// What is taken of the steps that use it, where it is more than their own.
    pub determinism: Option<Determinism>,
    /// How its virtual clock goes on.
    pub clock: ClockMode,
}

/// How the virtual clock of an env goes on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClockMode {
    /// At its rate, while a step works on the env.
    #[default]
    Real,
    /// By leaps to what is due next, when all who work on the env wait.
    Event,
}

/// How an env is run.
#[derive(Clone, Debug, PartialEq)]
pub enum EnvRun {
    /// Inside aebuild.
    Builtin {
        /// Which one.
        name: String,
    },
    /// As a process that serves MCP.
    Process(ProcessRun),
    /// Not by aebuild: it runs already.
    Url {
        /// The address of its MCP endpoint.
        url: String,
    },
    /// As a container.
    Docker {
        /// The image; `None` where the folder's Dockerfile is built.
        image: Option<String>,
        /// The port on which it serves.
        port: u16,
        /// The path of its MCP endpoint.
        path: String,
        /// Its environment variables.
        variables: BTreeMap<String, String>,
    },
}

/// A process that serves MCP.
#[derive(Clone, Debug, PartialEq)]
pub struct ProcessRun {
    /// The program and its arguments; `{port}` stands for the port that it is to serve on.
    pub command: Vec<String>,
    /// How it is talked to.
    pub transport: Transport,
    /// The variable that tells it its port.
    pub port_variable: String,
    /// The path of its MCP endpoint.
    pub path: String,
    /// Its environment variables.
    pub variables: BTreeMap<String, String>,
    /// Variables of this machine that it sees.
    pub pass_variables: Vec<String>,
    /// Folders of this machine that it sees, read-only.
    pub mount: Vec<String>,
    /// The file of its folder that names its Python packages.
    pub requirements: Option<String>,
}

impl ProcessRun {
    /// Returns whether it needs the Python of this machine, as far as its command tells.
    pub fn uses_python(&self) -> bool {
        let names_it = |word: &String| {
            let name = word.rsplit('/').next().unwrap_or(word);
            word.contains("{python}") || name == "python" || name == "python3"
        };
        self.requirements.is_some() || self.command.iter().any(names_it)
    }
}

/// How a process is talked to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// Over its standard input and output.
    Stdio,
    /// Over streamable HTTP.
    Http,
}

/// How the state of an env is brought back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StateMode {
    /// It is exported and loaded.
    Export,
    /// The calls that made it are made again.
    Replay,
    /// Not at all.
    None,
}

/// An agent and how it is run.
#[derive(Clone, Debug, PartialEq)]
pub struct AgentSpec {
    /// Its id in contexts.
    pub id: String,
    /// The name of its folder below `agents/`; `None` where a table of `aebuild.toml` alone says what it is.
    pub folder: Option<String>,
    /// What it is, such as `scripted`.
    pub kind: String,
    /// What its file and its table say.
    pub settings: Value,
    /// Whether its folder has a Dockerfile.
    pub builds: bool,
}

/// The kinds of agents that can be run.
pub const AGENT_KINDS: &[&str] = &["scripted", "model", "command", "a2a"];

/// Why a definition cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unusable {
    /// The code of the diagnostic.
    pub code: &'static str,
    /// The headline.
    pub headline: String,
    /// What to do about it.
    pub help: Option<String>,
}

impl Unusable {
    fn new(code: &'static str, headline: String, help: impl Into<String>) -> Self {
        Unusable {
            code,
            headline,
            help: Some(help.into()),
        }
    }
}

impl TaskFolder {
    /// Returns the env that a step means by a name, an id or an alias.
    pub fn env(&self, name: &str) -> Option<&Definition> {
        find(&self.envs, &self.aliases.envs, name)
    }

    /// Returns the agent that a step means by a name, an id or an alias.
    pub fn agent(&self, name: &str) -> Option<&Definition> {
        find(&self.agents, &self.aliases.agents, name)
    }
}

fn find<'f>(
    all: &'f BTreeMap<String, Definition>,
    aliases: &BTreeMap<String, String>,
    name: &str,
) -> Option<&'f Definition> {
    let by_id = || all.values().find(|definition| definition.id == name);
    let by_alias = || all.get(aliases.get(name)?);
    all.get(name).or_else(by_id).or_else(by_alias)
}

impl EnvSpec {
    /// Returns the env that `env_id` means: a folder below `envs/`, a table of `aebuild.toml`, or one that is compiled in.
    /// What the table says counts more than what the folder's file says.
    pub fn of(
        env_id: &str,
        folder: &TaskFolder,
        tables: &BTreeMap<String, Value>,
    ) -> Result<EnvSpec, Unusable> {
        let definition = folder.env(env_id);
        let name = definition.map_or(env_id, |definition| &definition.name);
        let table = tables.get(name).or_else(|| tables.get(env_id));
        if definition.is_none() && table.is_none() && !BUILTIN_ENVS.contains(&env_id) {
            let known = folder.envs.keys().chain(folder.aliases.envs.keys());
            let known = known.chain(tables.keys()).map(String::as_str);
            let near = crate::diagnostic::did_you_mean(env_id, known.chain(BUILTIN_ENVS));
            let help = near.unwrap_or_else(|| {
                format!("add a folder envs/{env_id}/, or [envs.{env_id}] to aebuild.toml")
            });
            let headline = format!("there is no env `{env_id}`");
            return Err(Unusable::new("unknown-env", headline, help));
        }
        let settings = settings_of(definition, table);
        let run = run_of(env_id, definition, &settings)?;
        for path in texts(&settings, "volatile") {
            if let Err(error) = JsonPath::parse(&path) {
                return Err(Unusable::new(
                    "bad-json-path",
                    format!(
                        "`volatile` of env `{env_id}` has `{path}`, which is no JSONPath: {error}"
                    ),
                    "write the path of a value in the answers, such as `$.id` or `$..time`",
                ));
            }
        }
        let is_url = matches!(run, EnvRun::Url { .. });
        let number =
            |key: &str, default: u64| settings.get(key).and_then(Value::as_u64).unwrap_or(default);
        Ok(EnvSpec {
            env_id: env_id.to_owned(),
            id: definition.map_or_else(|| env_id.to_owned(), |definition| definition.id.clone()),
            folder: definition.map(|definition| definition.name.clone()),
            run,
            state: match text(&settings, "state") {
                Some("export") => Some(StateMode::Export),
                Some("replay") => Some(StateMode::Replay),
                Some("none") => Some(StateMode::None),
                _ => None,
            },
            read_only_tools: texts(&settings, "read_only_tools"),
            volatile: texts(&settings, "volatile"),
            ready_timeout_seconds: number("ready_timeout_seconds", 60),
            call_timeout_seconds: number("call_timeout_seconds", 600),
            max_answer_mb: number("max_answer_mb", 256),
            determinism: match text(&settings, "determinism") {
                Some("pure") => None,
                Some("sampled") => Some(Determinism::Sampled),
                Some("volatile") => Some(Determinism::Volatile),
                // Nobody here knows what runs at an address, or whether it is the same as yesterday.
                _ => is_url.then_some(Determinism::Volatile),
            },
            clock: match text(&settings, "clock") {
                Some("event") => ClockMode::Event,
                _ => ClockMode::Real,
            },
        })
    }

    /// Returns what decides how the env behaves, besides the files of its folder, as named values.
    pub fn decides(&self, isolation: &str) -> Vec<(&'static str, Value)> {
        let mut all = Vec::new();
        // A tool that was taken to change nothing is on no recording: who takes that back must not trust the recordings.
        // An export trusts none, unless it is asked to be something else.
        let exports = matches!(self.run, EnvRun::Builtin { .. })
            && matches!(self.state, None | Some(StateMode::Export));
        if !exports {
            all.push(("read_only_tools", json!(self.read_only_tools)));
        }
        if let Some(state) = self.state {
            // What is kept of one kind cannot stand in for the other.
            let state = match state {
                StateMode::Export => "export",
                StateMode::Replay => "replay",
                StateMode::None => "none",
            };
            all.push(("state", json!(state)));
        }
        if self.clock == ClockMode::Event {
            all.push(("clock", json!("event")));
        }
        match &self.run {
            EnvRun::Builtin { name } => {
                all.push(("builtin", json!([name, env!("CARGO_PKG_VERSION")])));
            }
            EnvRun::Process(run) => {
                let transport = match run.transport {
                    Transport::Stdio => "stdio",
                    Transport::Http => "http",
                };
                all.push(("isolation", json!(isolation)));
                all.push(("command", json!(run.command)));
                all.push(("mount", json!(run.mount)));
                all.push(("transport", json!([transport, run.port_variable, run.path])));
                all.push(("requirements", json!(run.requirements)));
                all.push(("variables", json!(run.variables)));
            }
            EnvRun::Url { url } => all.push(("url", json!(without_user(url)))),
            EnvRun::Docker {
                image,
                port,
                path,
                variables,
            } => {
                all.push(("image", json!([image, port, path])));
                all.push(("variables", json!(variables)));
            }
        }
        all
    }
}

fn text<'s>(settings: &'s Map<String, Value>, key: &str) -> Option<&'s str> {
    settings.get(key).and_then(Value::as_str)
}

fn texts(settings: &Map<String, Value>, key: &str) -> Vec<String> {
    let items = settings.get(key).and_then(Value::as_array);
    let texts = items.into_iter().flatten().filter_map(Value::as_str);
    texts.map(str::to_owned).collect()
}

fn variables(settings: &Map<String, Value>, key: &str) -> BTreeMap<String, String> {
    let members = settings.get(key).and_then(Value::as_object);
    let text = |(name, value): (&String, &Value)| Some((name.clone(), value.as_str()?.to_owned()));
    members.into_iter().flatten().filter_map(text).collect()
}

/// Returns the image of a container, where one is named.
fn image(settings: &Map<String, Value>) -> Option<String> {
    let image = settings.get("image")?;
    let named = || image.get("registry").or_else(|| image.get("image"));
    let image = image.as_str().or_else(|| named()?.as_str());
    image.map(str::to_owned)
}

fn port(settings: &Map<String, Value>) -> Option<u16> {
    u16::try_from(settings.get("port")?.as_u64()?).ok()
}

fn has_file(definition: Option<&Definition>, path: &str) -> bool {
    definition.is_some_and(|found| found.files.iter().any(|file| file.path == path))
}

/// The keys that say how an env or an agent is run.
const WAYS: [&str; 4] = ["builtin", "command", "url", "image"];

/// Returns what the file of a folder and a table say. How it is run is one decision: what the table says of it stands
/// alone.
fn settings_of(definition: Option<&Definition>, table: Option<&Value>) -> Map<String, Value> {
    let members = |source: Option<&Value>| source.and_then(Value::as_object).cloned();
    let mut settings = members(definition.map(|found| &found.settings)).unwrap_or_default();
    let table = members(table).unwrap_or_default();
    if WAYS.iter().any(|way| table.contains_key(*way)) {
        settings.retain(|key, _| !WAYS.contains(&key.as_str()));
    }
    settings.extend(table);
    settings
}

fn run_of(
    env_id: &str,
    definition: Option<&Definition>,
    settings: &Map<String, Value>,
) -> Result<EnvRun, Unusable> {
    let ways: Vec<&str> = WAYS
        .into_iter()
        .filter(|way| settings.contains_key(*way))
        .collect();
    if let [one, other, ..] = ways[..] {
        return Err(Unusable::new(
            "conflicting-fields",
            format!("env `{env_id}` has both `{one}` and `{other}`, but is run in one way"),
            format!("delete `{one}` or `{other}` from [envs.{env_id}]"),
        ));
    }
    let kind = definition.map_or("mcp_server", |definition| definition.kind.as_str());
    if kind != "mcp_server" && ways.is_empty() {
        return Err(Unusable::new(
            "not-supported-yet",
            format!("env `{env_id}` is of type `{kind}`, which cannot be run in this release"),
            format!(
                "say how its one MCP server is run, with `command` or `url` in [envs.{env_id}]"
            ),
        ));
    }
    let variables = variables(settings, "variables");
    let path = text(settings, "path").unwrap_or("/mcp").to_owned();
    let builds = has_file(definition, "Dockerfile");
    match ways.first().copied() {
        Some("builtin") => {
            let name = text(settings, "builtin").unwrap_or_default();
            // The schema of the key says which names there are.
            Ok(EnvRun::Builtin {
                name: name.to_owned(),
            })
        }
        Some("command") => {
            let command = texts(settings, "command");
            if command.first().is_none_or(|program| program.is_empty()) {
                return Err(Unusable::new(
                    "unknown-way-to-run",
                    format!("`command` of env `{env_id}` names no program"),
                    "write the program that serves MCP, and its arguments",
                ));
            }
            let serves_http = match text(settings, "transport") {
                Some(transport) => transport == "http",
                // Who says where it serves means HTTP.
                None => {
                    settings.contains_key("port_variable")
                        || settings.contains_key("path")
                        || command.iter().any(|word| word.contains("{port}"))
                        || builds
                }
            };
            Ok(EnvRun::Process(ProcessRun {
                command,
                transport: if serves_http {
                    Transport::Http
                } else {
                    Transport::Stdio
                },
                port_variable: text(settings, "port_variable").unwrap_or("PORT").to_owned(),
                path,
                variables,
                pass_variables: texts(settings, "pass_variables"),
                mount: texts(settings, "mount"),
                requirements: text(settings, "requirements").map(str::to_owned),
            }))
        }
        Some("url") => Ok(EnvRun::Url {
            url: text(settings, "url").unwrap_or_default().to_owned(),
        }),
        _ => {
            let image = image(settings);
            if image.is_none() && !builds {
                if definition.is_none() && BUILTIN_ENVS.contains(&env_id) {
                    return Ok(EnvRun::Builtin {
                        name: env_id.to_owned(),
                    });
                }
                return Err(Unusable::new(
                    "unknown-way-to-run",
                    format!("nothing says how env `{env_id}` is run"),
                    format!(
                        "add `builtin`, `command`, `url` or `image` to [envs.{env_id}] of aebuild.toml"
                    ),
                ));
            }
            Ok(EnvRun::Docker {
                image,
                port: port(settings).unwrap_or(18765),
                path,
                variables,
            })
        }
    }
}

impl AgentSpec {
    /// Returns the agent that a step means: by the id that it gives, else by the name under which it deploys it. What a
    /// table `[agents.<name>]` says counts more than what the folder's file says.
    pub fn of(
        agent_id: Option<&str>,
        agent_name: &str,
        folder: &TaskFolder,
        tables: &BTreeMap<String, Value>,
    ) -> Result<AgentSpec, Unusable> {
        let wanted = agent_id.unwrap_or(agent_name);
        let definition = folder.agent(wanted);
        let name = definition.map_or(wanted, |definition| &definition.name);
        let table = tables.get(name).or_else(|| tables.get(wanted));
        if definition.is_none() && table.is_none() {
            let known = folder.agents.keys().chain(folder.aliases.agents.keys());
            let known = known.chain(tables.keys()).map(String::as_str);
            let near = crate::diagnostic::did_you_mean(wanted, known);
            let help = near.unwrap_or_else(|| match agent_id {
                Some(id) => format!(
                    "add a folder agents/{id}/ with an agent.toml, or [agents.{id}] to aebuild.toml"
                ),
                None => format!(
                    "add a folder agents/{agent_name}/ with an agent.toml, or [agents.{agent_name}] to aebuild.toml, or name \
                     another with `a2a_agent_id`"
                ),
            });
            let headline = format!("there is no agent `{wanted}`");
            return Err(Unusable::new("unknown-agent", headline, help));
        }
        let settings = settings_of(definition, table);
        let kind = kind::of_agent(wanted, definition, table, &settings)?;
        let spec = AgentSpec {
            id: definition.map_or_else(|| wanted.to_owned(), |definition| definition.id.clone()),
            folder: definition.map(|definition| definition.name.clone()),
            kind,
            settings: Value::Object(settings),
            builds: has_file(definition, "Dockerfile"),
        };
        spec.run().map_err(|why| kind::at(why, &spec, table))?;
        Ok(spec)
    }

    /// Returns whether prompts may change the files of its sandbox.
    pub fn uses_sandbox(&self) -> bool {
        let calls = |rule: &Value| rule.get("calls").and_then(Value::as_array).cloned();
        let is_own = |call: &Value| call.get("env").and_then(Value::as_str) == Some(OWN_SANDBOX);
        match self.kind.as_str() {
            "scripted" => {
                let rules = self.settings.get("rules").and_then(Value::as_array);
                let mut rules = rules.into_iter().flatten();
                rules.any(|rule| calls(rule).is_some_and(|calls| calls.iter().any(is_own)))
            }
            _ => true,
        }
    }

    /// Returns whether the same prompt gives the same reply.
    pub fn determinism(&self) -> Determinism {
        match self.settings.get("determinism").and_then(Value::as_str) {
            Some("pure") => Determinism::Pure,
            Some("sampled") => Determinism::Sampled,
            Some("volatile") => Determinism::Volatile,
            _ if self.kind == "scripted" => Determinism::Pure,
            _ => Determinism::Sampled,
        }
    }

    /// Returns the variables of this machine that it sees.
    pub fn pass_variables(&self) -> Vec<String> {
        match (self.run(), &self.settings) {
            (Ok(AgentRun::Inside | AgentRun::Url { .. }) | Err(_), _) => Vec::new(),
            (Ok(_), Value::Object(settings)) => texts(settings, "pass_variables"),
            (Ok(_), _) => Vec::new(),
        }
    }
}

/// What a script calls the agent's own sandbox, as if it were an env.
pub const OWN_SANDBOX: &str = "sandbox";

/// Returns whether a tool is one that a pattern names: itself, or with `*` at the end any that begins so.
pub fn names_tool(pattern: &str, tool: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(start) => tool.starts_with(start),
        None => pattern == tool,
    }
}
