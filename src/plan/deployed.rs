//! What deploy steps make: from the names in their fields to the env or agent, its files and its digest.

use std::sync::Arc;

use super::db::Db;
use super::inputs::TaskInput;
use super::queries::Setting;
use crate::context::{Output, Place};
use crate::digest::{Digest, Digester, Manifest};
use crate::json::Value;
use crate::schedule::{EnvParts, MadeOf};
use crate::step::{Content, Deploys, Step};
use crate::task::config::Config;
use crate::task::deploy::{AgentSpec, EnvRun, EnvSpec, Unusable};
use crate::task::folder::TaskFolder;

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
        } => AgentSpec::of(agent_id.as_deref(), agent_name, folder)
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
            Deployed::Agent(spec, _) => Some(format!("agents/{}", spec.folder)),
        }
    }
}

/// Returns what the live thing of a step is made of, and the digest of that.
pub(super) fn made_of(
    db: &dyn Db,
    input: TaskInput,
    run: &Setting,
    step: &dyn Step,
) -> (MadeOf, Option<Digest>) {
    let folder = input.folder(db);
    let deployed = match step.deploys() {
        Some(deploys) => deployed(&deploys, folder.folder(db), &run.config).ok(),
        None => None,
    };
    let Some(deployed) = deployed else {
        let variables = env_vars(&step.fields());
        return (MadeOf::Sandbox(variables), None);
    };
    let content = deployed
        .content_name()
        .and_then(|name| folder.contents(db).get(&name))
        .map(|input| input.content(db).clone());
    let of_content = content.as_deref().map(digest_of);
    match deployed {
        Deployed::Env(spec) => {
            let names = match &spec.run {
                EnvRun::Process(process) => &process.pass_variables[..],
                _ => &[],
            };
            let value = |name: &String| {
                let value = run.variables.get(name).cloned().flatten()?;
                Some((name.clone(), value))
            };
            let passed: Vec<(String, String)> = names.iter().filter_map(value).collect();
            let mut digester = Digester::new("env parts");
            digester.digest(&spec.digest(of_content.as_ref(), run.isolation));
            let locks = folder.contents(db).get(&format!("mounts/{}", spec.env_id));
            digester.maybe(locks.map(|locks| digest_of(locks.content(db))).as_ref());
            for (name, value) in &passed {
                digester
                    .text(name)
                    .digest(&Digest::of_bytes(value.as_bytes()));
            }
            let parts = EnvParts {
                spec,
                content,
                passed,
            };
            (MadeOf::Env(Arc::new(parts)), Some(digester.finish()))
        }
        Deployed::Agent(spec, env_ids) => {
            let mut digester = Digester::new("agent parts");
            digester.text(&spec.kind).maybe(of_content.as_ref());
            digester.value(&spec.settings);
            (
                MadeOf::Agent(Arc::new(spec), env_ids),
                Some(digester.finish()),
            )
        }
    }
}

fn digest_of(content: &Content) -> Digest {
    let mut manifest = Manifest::default();
    content.write_to(&mut manifest);
    manifest.finish()
}

/// Returns the output of a live step with the digest of what the live thing is made of in it.
pub(super) fn with_parts(mut output: Output, parts: Option<Digest>) -> Output {
    let Some(parts) = parts else { return output };
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
