//! What deploy steps make: from the names in their fields to the env or agent, its files and its digest.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::db::Db;
use super::inputs::TaskInput;
use super::queries::Setting;
use crate::context::{Output, Place};
use crate::digest::{Digester, Manifest};
use crate::json::Value;
use crate::schedule::{AgentParts, EnvParts, MadeOf};
use crate::step::{Content, Deploys, Step};
use crate::task::config::Config;
use crate::task::deploy::{AgentRun, AgentSpec, EnvRun, EnvSpec, ProcessRun, Unusable};
use crate::task::folder::TaskFolder;
use crate::task::model::without_user;

/// Returns what a deploy step makes, or why that cannot be made.
pub fn deployed(
    deploys: &Deploys,
    folder: &TaskFolder,
    config: &Config,
) -> Result<Deployed, Unusable> {
    match deploys {
        Deploys::Env { env_id } => EnvSpec::of(env_id, folder, &config.envs).map(Deployed::Env),
        Deploys::Agent {
            agent_name,
            agent_id,
            env_ids,
            sandbox_name,
        } => AgentSpec::of(agent_id.as_deref(), agent_name, folder, &config.agents)
            .and_then(|spec| spec.placed(sandbox_name.is_some()))
            .map(|spec| Deployed::Agent(spec, env_ids.clone())),
    }
}

/// What a deploy step makes.
#[derive(Debug)]
pub enum Deployed {
    /// An env.
    Env(EnvSpec),
    /// An agent, and the envs that it is connected to.
    Agent(AgentSpec, Vec<String>),
}

impl Deployed {
    /// Returns the name under which the content of its folder is known to the planner.
    pub fn content_name(&self) -> Option<String> {
        match self {
            Deployed::Env(spec) => spec.folder.as_ref().map(|name| format!("envs/{name}")),
            Deployed::Agent(spec, _) => spec.folder.as_ref().map(|name| format!("agents/{name}")),
        }
    }

    /// Returns the process that runs it, if one does.
    pub fn process(&self) -> Option<ProcessRun> {
        match self {
            Deployed::Env(spec) => match &spec.run {
                EnvRun::Process(process) => Some(process.clone()),
                _ => None,
            },
            Deployed::Agent(spec, _) => match spec.run().ok()? {
                AgentRun::Served { run, .. } | AgentRun::Program { run, .. } => Some(run),
                _ => None,
            },
        }
    }

    /// Returns the address or image that it is, where it is not made of what is on this machine's disk.
    pub fn elsewhere(&self) -> Option<String> {
        match self {
            Deployed::Env(spec) => match &spec.run {
                EnvRun::Url { url } => Some(format!("at {}", without_user(url))),
                EnvRun::Docker { image, .. } => image.as_ref().map(|name| format!("image {name}")),
                EnvRun::Builtin { .. } | EnvRun::Process(_) => None,
            },
            Deployed::Agent(spec, _) => match spec.run().ok()? {
                AgentRun::Url { url, .. } => Some(format!("at {}", without_user(&url))),
                _ => None,
            },
        }
    }

    /// Returns what people call it.
    pub fn noun(&self) -> String {
        match self {
            Deployed::Env(spec) => format!("env `{}`", spec.env_id),
            Deployed::Agent(spec, _) => {
                format!("agent `{}`", spec.folder.as_deref().unwrap_or(&spec.id))
            }
        }
    }

    fn decides(&self, isolation: &str) -> Vec<(&'static str, Value)> {
        match self {
            Deployed::Env(spec) => spec.decides(isolation),
            Deployed::Agent(spec, _) => spec.decides(isolation),
        }
    }

    /// Returns whether the files of its folder decide what it does.
    fn uses_files(&self) -> bool {
        match self {
            Deployed::Env(_) => true,
            Deployed::Agent(spec, _) => spec.uses_files(),
        }
    }

    fn pass_variables(&self) -> Vec<String> {
        match self {
            Deployed::Env(_) => self.process().map_or(Vec::new(), |run| run.pass_variables),
            Deployed::Agent(spec, _) => spec.pass_variables(),
        }
    }
}

/// Returns the name under which the version of a tool is known without the packages of the configuration.
pub fn alone(tool: &str) -> String {
    format!("{tool} alone")
}

/// Returns what the live thing of a step is made of, and of that the parts that decide what it does. An agent in `peers`
/// is one that others may ask.
pub(super) fn made_of(
    db: &dyn Db,
    input: TaskInput,
    run: &Setting,
    step: &dyn Step,
    peers: &BTreeSet<String>,
) -> (MadeOf, Option<Manifest>) {
    let folder = input.folder(db);
    let deploys = step.deploys();
    let deployed = match &deploys {
        Some(deploys) => deployed(deploys, folder.folder(db), &run.config).ok(),
        None => None,
    };
    let (Some(deploys), Some(deployed)) = (deploys, deployed) else {
        let variables = env_vars(&step.fields());
        return (MadeOf::Sandbox(variables), None);
    };
    let content_of = |name: String| {
        let found = folder.contents(db).get(&name);
        found.map(|input| input.content(db).clone())
    };
    let content = deployed.content_name().and_then(content_of);
    let locks = content_of(deploys.locks_name());
    let mut parts = Manifest::default();
    let noun = deployed.noun();
    for (name, value) in deployed.decides(run.isolation) {
        parts.value(format!("`{name}` of {noun}"), &value);
    }
    if deployed.uses_files() {
        add_files(&mut parts, &noun, content.as_deref());
    }
    if let Some(process) = deployed.process() {
        add_files(&mut parts, &noun, locks.as_deref());
        if process.uses_python() {
            let version = run.tools.get(&alone("python3"));
            let version = version.map_or("absent", String::as_str);
            parts.value(format!("python3 of {noun}"), &Value::String(version.into()));
        }
    }
    let value = |name: String| {
        let value = run.variable(&name)?;
        Some((name, value))
    };
    let passed: Vec<(String, String)> = deployed
        .pass_variables()
        .into_iter()
        .filter_map(value)
        .collect();
    for (name, value) in &passed {
        parts.secret(format!("variable `{name}` of {noun}"), Some(value));
    }
    match deployed {
        Deployed::Env(spec) => {
            let made_of = EnvParts {
                spec,
                content,
                passed,
            };
            (MadeOf::Env(Arc::new(made_of)), Some(parts))
        }
        Deployed::Agent(spec, env_ids) => {
            if let Some(model) = spec.model() {
                parts.value(format!("model `{model}` of {noun}"), &run.model(model));
            }
            let fields = step.fields();
            let Deploys::Agent {
                agent_name,
                sandbox_name,
                ..
            } = deploys
            else {
                return (MadeOf::Sandbox(env_vars(&fields)), None);
            };
            if let (true, Some(text)) = (
                peers.contains(&agent_name),
                fields
                    .get("agent_description")
                    .filter(|text| !text.is_null()),
            ) {
                parts.value(format!("description of {noun}"), text);
            }
            let made_of = AgentParts {
                spec,
                env_ids,
                sandbox_name,
                content,
                variables: env_vars(&fields),
                passed,
            };
            (MadeOf::Agent(Arc::new(made_of)), Some(parts))
        }
    }
}

/// Adds the files of a folder, by path and content.
fn add_files(parts: &mut Manifest, noun: &str, content: Option<&Content>) {
    for file in content.into_iter().flat_map(|content| &content.files) {
        let mode = if file.executable { " (executable)" } else { "" };
        parts.digest(format!("{noun} file `{}`{mode}", file.path), file.digest);
    }
}

/// Returns the output of a live step with the digest of what the live thing is made of in it.
pub(super) fn with_parts(mut output: Output, parts: Option<&Manifest>) -> Output {
    let Some(parts) = parts.map(Manifest::finish) else {
        return output;
    };
    for entry in &mut output.entries {
        if matches!(entry.place, Place::Env(_) | Place::Agent(_)) {
            entry.digest = Digester::new("deployed")
                .digest(&entry.digest)
                .digest(&parts)
                .finish();
        }
    }
    output
}

/// Returns the variables that a step gives to the commands of what it deploys.
fn env_vars(fields: &Value) -> Vec<(String, String)> {
    let declared = fields.get("env_vars").and_then(Value::as_object);
    let text = |(name, value): (&String, &Value)| {
        value.as_str().map(|value| (name.clone(), value.to_owned()))
    };
    declared.into_iter().flatten().filter_map(text).collect()
}
