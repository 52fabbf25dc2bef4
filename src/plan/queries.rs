//! The queries of the planner, from a file's text to a plan.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::db::Db;
use super::deployed::{Deployed, deployed, made_of, with_parts};
use super::inputs::{SettingInput, TaskInput};
use super::timed::is_timed;
use super::touched::touches;
use crate::check::{self, Checked, EnvTools};
use crate::context::{Entry, Place};
use crate::diagnostic::{Diagnostic, Source};
use crate::digest::{Digest, Digester, Manifest};
use crate::graph::{self as step_graph, StepGraph, StepIx};
use crate::json::{Map, Value};
use crate::rebuild::{self, Ingredients, Key};
use crate::resource::{ResourceId, ResourceKind, Touch};
use crate::schedule::{Lane, PlannedStep, Retry, StepPart, TaskPlan};
use crate::step::{Deploys, Determinism, Refusal, Step};
use crate::task::config::Config;
use crate::task::deploy::{AgentSpec, EnvSpec};
use crate::task::model;
use crate::task::overrides::Overrides;
use crate::task::parse::{self, Parsed};
use crate::task::{DependsOn, OnError, StepDecl, Task};

/// What a run is set to, as far as plans depend on it.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Setting {
    /// Seeds, overrides and the number of the sample.
    pub overrides: Overrides,
    /// What `aebuild.toml` says.
    pub config: Config,
    /// How sandboxes are walled off.
    pub isolation: &'static str,
    /// The versions of the tools that steps may run.
    pub tools: BTreeMap<String, String>,
    /// The environment variables of this machine that steps may declare, and those that say how models are reached.
    pub variables: BTreeMap<String, Option<String>>,
    /// The tools of the envs that are compiled in.
    pub env_tools: Arc<EnvTools>,
}

impl Setting {
    /// Returns the value of a variable of this machine, if it is among those that decide anything.
    pub(super) fn variable(&self, name: &str) -> Option<String> {
        self.variables.get(name).cloned().flatten()
    }

    /// Returns what decides how a model answers.
    pub(super) fn model(&self, name: &str) -> Value {
        model::decides(name, &self.config.models, &|name| self.variable(name))
    }
}

/// A step built from its fields, or why it cannot be.
#[derive(Debug)]
pub struct BuiltStep {
    /// The step.
    pub step: Option<Arc<dyn Step>>,
    /// Why there is none.
    pub refusals: Vec<Refusal>,
}

/// Reads a task file.
#[salsa::tracked(returns(ref))]
pub fn parsed(db: &dyn Db, input: TaskInput) -> Arc<Parsed> {
    Arc::new(parse::parse(
        input.name(db),
        input.source(db),
        &db.registry(),
    ))
}

/// Returns the task with the overrides of the run applied, checked again where they changed it.
#[salsa::tracked(returns(ref))]
pub fn effective(db: &dyn Db, input: TaskInput, setting: SettingInput) -> Arc<Parsed> {
    let parsed = parsed(db, input);
    let overrides = &setting.setting(db).overrides;
    if overrides.changes_nothing() && !overrides.names_models() {
        return parsed.clone();
    }
    let mut applied = overrides.apply(&parsed.task);
    if overrides.names_models() {
        let asking = model_agents(db, input, setting, &applied);
        overrides.set_models(&mut applied, &|agent| {
            asking.iter().any(|name| name == agent)
        });
    }
    if applied == *parsed.task || !parsed.readable {
        return parsed.clone();
    }
    let text = crate::json::to_string_pretty(&task_to_json(&applied))
        .expect("bug: a JSON value has a text");
    let source = Source {
        name: format!("{} (seeds and overrides applied)", input.source(db).name),
        text: text.into(),
    };
    Arc::new(parse::parse(input.name(db), &source, &db.registry()))
}

/// Returns the names of the agents of a task that ask a model.
fn model_agents(db: &dyn Db, input: TaskInput, setting: SettingInput, task: &Task) -> Vec<String> {
    let folder = input.folder(db).folder(db);
    let config = &setting.setting(db).config;
    let built = task.steps.iter().filter_map(|decl| {
        let step_type = db.registry().find(&decl.kind)?;
        (step_type.build)(&decl.id, &decl.fields).ok()
    });
    let names = built.filter_map(|step| match step.deploys()? {
        deploys @ Deploys::Agent { .. } => match deployed(&deploys, folder, config).ok()? {
            Deployed::Agent(spec, _) if spec.kind == "model" => match deploys {
                Deploys::Agent { agent_name, .. } => Some(agent_name),
                Deploys::Env { .. } => None,
            },
            _ => None,
        },
        Deploys::Env { .. } => None,
    });
    names.collect()
}

/// Returns the values of a task: equal after an edit of formatting.
#[salsa::tracked(returns(ref))]
pub fn task(db: &dyn Db, input: TaskInput, setting: SettingInput) -> Arc<Task> {
    effective(db, input, setting).task.clone()
}

/// Returns who waits for whom.
#[salsa::tracked(returns(ref))]
pub fn graph(db: &dyn Db, input: TaskInput, setting: SettingInput) -> Arc<StepGraph> {
    Arc::new(StepGraph::of(task(db, input, setting)))
}

/// Returns one step of a task: equal after an edit of another step.
#[salsa::tracked(returns(ref))]
pub fn step(db: &dyn Db, input: TaskInput, setting: SettingInput, at: u32) -> Arc<StepDecl> {
    task(db, input, setting).steps[at as usize].clone()
}

/// Builds a step from its fields.
#[salsa::tracked(returns(ref), no_eq)]
pub fn built(db: &dyn Db, input: TaskInput, setting: SettingInput, at: u32) -> Arc<BuiltStep> {
    let decl = step(db, input, setting, at);
    let Some(step_type) = db.registry().find(&decl.kind) else {
        return Arc::new(BuiltStep {
            step: None,
            refusals: Vec::new(),
        });
    };
    Arc::new(match (step_type.build)(&decl.id, &decl.fields) {
        Ok(step) => BuiltStep {
            step: Some(step.into()),
            refusals: Vec::new(),
        },
        Err(refusals) => BuiltStep {
            step: None,
            refusals,
        },
    })
}

/// Returns every fault of a task, those of reading it included.
#[salsa::tracked(returns(ref))]
pub fn checked(db: &dyn Db, input: TaskInput, setting: SettingInput) -> Arc<Vec<Diagnostic>> {
    let parsed = effective(db, input, setting);
    let mut faults = parsed.faults.clone();
    let graph = graph(db, input, setting);
    let task = task(db, input, setting);
    let mut steps = Vec::with_capacity(task.steps.len());
    let mut is_partial = vec![false; task.steps.len()];
    let mut touched = std::borrow::Cow::Borrowed(&touches(db, input, setting)[..]);
    for at in graph.steps() {
        let built = built(db, input, setting, at.0);
        if built.step.is_some() {
            steps.push(built.step.clone());
            continue;
        }
        is_partial[at.at()] = true;
        let decl = &task.steps[at.at()];
        let mut known = check::partial::partial(&db.registry(), decl, at, &built.refusals);
        let place = parsed.places.step(at);
        let is_told = parsed.faults.iter().any(|fault| {
            let mut labels = fault.labels.iter();
            fault.is_error()
                && labels
                    .any(|label| place.start <= label.span.start && label.span.end <= place.end)
        });
        if is_told {
            // Fields that do not fit their schema have been told of; that they cannot be read says the same again.
            known
                .refusals
                .retain(|refusal| !(refusal.code == "wrong-type" && refusal.field.is_empty()));
        }
        faults.extend(check::refusals(&parsed.places, at, known.refusals));
        if let Some(step) = &known.step {
            touched.to_mut()[at.at()] = step.touches();
        }
        steps.push(known.step);
    }
    let folder = input.folder(db).folder(db);
    let checked = Checked {
        task,
        places: &parsed.places,
        graph,
        steps: &steps,
        is_partial: &is_partial,
        touches: &touched,
        has_errors: faults.iter().any(Diagnostic::is_error),
        folder: folder.as_ref(),
        config: &setting.setting(db).config,
        config_written: setting.written(db).as_deref(),
        env_tools: &setting.setting(db).env_tools,
    };
    check::level::apply(&checked.config.lint, &mut faults);
    faults.extend(check::check(&checked));
    check::secret::cover(parsed.places.source(), &mut faults);
    crate::diagnostic::sort(&mut faults);
    Arc::new(faults)
}

/// Turns what a step refuses of what is outside its task file into diagnostics at the fields at fault.
pub fn refused(
    db: &dyn Db,
    input: TaskInput,
    setting: SettingInput,
    at: u32,
    refusals: Vec<Refusal>,
) -> Vec<Diagnostic> {
    let parsed = effective(db, input, setting);
    check::refusals(&parsed.places, StepIx(at), refusals)
}

/// Returns the key of a step.
#[salsa::tracked(returns(ref))]
pub fn fingerprint(db: &dyn Db, input: TaskInput, setting: SettingInput, at: u32) -> Arc<Key> {
    let decl = step(db, input, setting, at);
    let run = setting.setting(db);
    let built = built(db, input, setting, at);
    let step_type = db.registry().find(&decl.kind);
    let (Some(step), Some(step_type)) = (&built.step, step_type) else {
        let name = lineage_name(db, input);
        return Arc::new(Key::of(Default::default(), &name, decl.id.as_str()));
    };
    let folder = input.folder(db);
    let artifacts = step.artifacts();
    let mut contents = Vec::with_capacity(artifacts.len());
    for artifact in artifacts {
        if let Some(found) = folder.folder(db).artifact(&artifact.name)
            && let Some(content) = folder.contents(db).get(&found.name)
        {
            contents.push(content.content(db).clone());
        }
    }
    let tools = step.tools().iter().map(|&tool| {
        (
            tool.to_owned(),
            run.tools
                .get(tool)
                .cloned()
                .unwrap_or_else(|| "absent".to_owned()),
        )
    });
    let touched = &touches(db, input, setting)[at as usize];
    // How commands are walled off and what they see of this machine matters to who runs some.
    let runs_commands = !step.tools().is_empty()
        || touched.iter().any(|(resource, touch)| match resource.kind {
            ResourceKind::Sandbox => true,
            // Who works in the sandbox of an agent without prompting anybody runs commands there.
            ResourceKind::Agent => !step.prompts() && *touch != Touch::Creates,
            ResourceKind::Env => false,
        })
        || step.prompts()
            && touched_agents(db, input, setting, touched)
                .iter()
                .any(AgentSpec::has_sandbox);
    // Commands in a sandbox see every variable that the configuration passes on.
    let passed = run
        .config
        .sandbox
        .pass_variables
        .iter()
        .filter(|_| runs_commands)
        .cloned();
    let mut names: Vec<String> = step.variables().into_iter().chain(passed).collect();
    names.sort();
    names.dedup();
    let variables = names.into_iter().map(|name| {
        let value = run.variable(&name);
        (name, value)
    });
    let models = step.models().into_iter().map(|name| {
        let decides = run.model(&name);
        (name, decides)
    });
    let ingredients = Ingredients {
        models: models.collect(),
        contents,
        tools: tools.collect(),
        variables: variables.collect(),
        isolation: runs_commands.then_some(run.isolation),
        sample: run.overrides.sample,
    };
    let determinism = determinism(run, input, setting, db, decl, step.as_ref(), touched);
    Arc::new(rebuild::fingerprint(
        &lineage_name(db, input),
        decl.id.as_str(),
        step_type,
        step.as_ref(),
        determinism,
        &ingredients,
    ))
}

/// Returns the plan of a task, without what is kept of earlier runs and what the command line adds.
#[salsa::tracked(returns(ref), no_eq)]
pub fn plan(db: &dyn Db, input: TaskInput, setting: SettingInput) -> Arc<TaskPlan> {
    let task = task(db, input, setting);
    let graph = graph(db, input, setting);
    let run = setting.setting(db);
    let name = input.name(db);
    let lineage = lineage_name(db, input);
    let mut steps = Vec::with_capacity(task.steps.len());
    let all_touched = touches(db, input, setting);
    let mut touches = Vec::with_capacity(task.steps.len());
    let all_built = (0..task.steps.len()).map(|at| built(db, input, setting, at as u32));
    let peerings = all_built.filter_map(|built| Some(built.step.as_ref()?.peerings()));
    let peers: BTreeSet<String> = peerings.flatten().flat_map(|(_, peers)| peers).collect();
    for (at, decl) in task.steps.iter().enumerate() {
        let built = built(db, input, setting, at as u32);
        let Some(step) = &built.step else { continue };
        let Some(step_type) = db.registry().find(&decl.kind) else {
            continue;
        };
        let key = fingerprint(db, input, setting, at as u32);
        let touched = all_touched[at].clone();
        touches.push(touched.clone());
        let (made_of, parts) = made_of(db, input, run, step.as_ref(), &peers);
        let backoff = &run.config.retry;
        let retry = decl.retry.as_ref().and_then(|retry| {
            let from = task.steps.iter().position(|other| other.id == retry.from)?;
            Some(Retry {
                from: StepIx(from as u32),
                max_retries: retry.max_retries,
                backoff_ms: (backoff.backoff_seconds * 1000.0) as u64,
                backoff_factor: backoff.backoff_factor,
                max_backoff_ms: (backoff.max_backoff_seconds * 1000.0) as u64,
            })
        });
        steps.push(PlannedStep {
            id: decl.id.clone(),
            kind: step_type.name,
            key: with_definition(key, parts.as_ref()),
            determinism: determinism(run, input, setting, db, decl, step.as_ref(), &touched),
            touches: touched,
            prompts: step.prompts(),
            lane: match step.waits() {
                true => Lane::Waits,
                false => Lane::Works,
            },
            live: step
                .live_output(&handle(&lineage, decl, &run.overrides))
                .map(|output| Arc::new(with_parts(output, parts.as_ref()))),
            made_of,
            on_error: decl.on_error.unwrap_or(step_type.on_error),
            retry,
            candidates: Vec::new(),
            previous: None,
            forced: None,
            part: StepPart::Free,
        });
    }
    name_what_is_retired(graph, &mut steps);
    Arc::new(TaskPlan {
        name: name.clone(),
        graph: (**graph).clone(),
        groups: step_graph::groups(graph, &touches),
        steps,
        initial: Vec::new(),
    })
}

/// Adds to steps that retire live things what only the whole task tells: the ids of their sandboxes.
fn name_what_is_retired(graph: &StepGraph, steps: &mut [PlannedStep]) {
    for at in graph.steps() {
        if at.at() >= steps.len() {
            return;
        }
        let mut entries = Vec::new();
        for (resource, touch) in &steps[at.at()].touches {
            let place = match resource.kind {
                ResourceKind::Env => Place::Env(resource.name.clone()),
                ResourceKind::Agent => Place::Agent(resource.name.clone()),
                ResourceKind::Sandbox => Place::Sandbox(resource.name.clone()),
            };
            let made = (0..at.0)
                .rev()
                .map(StepIx)
                .filter(|other| graph.is_ancestor(*other, at));
            let found = made
                .filter_map(|other| steps[other.at()].live.clone())
                .find_map(|output| {
                    output
                        .entries
                        .iter()
                        .find(|entry| entry.place == place)
                        .cloned()
                });
            if let (Touch::Retires, Some(entry)) = (touch, found)
                && let Some(id) = entry.value.get("sandbox_id").filter(|id| !id.is_null())
            {
                let list = Place::Append(vec!["torn_down_sandbox_ids".to_owned()]);
                entries.push(Entry::live(list, id.clone(), &entry.digest));
            }
        }
        if let (false, Some(live)) = (entries.is_empty(), &mut steps[at.at()].live) {
            let mut output = (**live).clone();
            output.entries.extend(entries);
            *live = Arc::new(output);
        }
    }
}

/// Returns the key of a step with what its live thing is made of in it, so that an explanation can name the part.
fn with_definition(key: &Key, parts: Option<&Manifest>) -> Key {
    let mut key = key.clone();
    if let Some(parts) = parts {
        key.manifest.parts.extend(parts.parts.iter().cloned());
        key.fingerprint = key.manifest.finish();
    }
    key
}

/// Returns the name of a task over all its versions and places: that of its folder and its own.
fn lineage_name(db: &dyn Db, input: TaskInput) -> String {
    format!("{}/{}", input.folder(db).folder(db).name, input.name(db))
}

/// Returns the name by which a live thing of a step goes on this machine: the same in every run.
fn handle(task: &str, decl: &StepDecl, overrides: &Overrides) -> String {
    let mut digester = Digester::new("handle");
    digester
        .text(task)
        .text(decl.id.as_str())
        .number(overrides.sample.into());
    for (key, value) in &overrides.seed {
        digester.text(key).text(value);
    }
    let digest: Digest = digester.finish();
    format!("local-{}", &digest.to_string()[..8])
}

fn determinism(
    run: &Setting,
    input: TaskInput,
    setting: SettingInput,
    db: &dyn Db,
    decl: &StepDecl,
    step: &dyn Step,
    touched: &[(ResourceId, Touch)],
) -> Determinism {
    let (name, id) = (input.name(db), decl.id.as_str());
    if let Some(declared) = run.config.determinism.of(name, id, &decl.kind) {
        return declared;
    }
    let folder = input.folder(db).folder(db);
    let of_envs = touched
        .iter()
        .filter(|(resource, _)| resource.kind == ResourceKind::Env)
        .filter_map(|(resource, _)| {
            let spec = EnvSpec::of(&resource.name, folder, &run.config.envs);
            spec.ok()?.determinism
        });
    let own = of_envs.fold(step.determinism(), Ord::max);
    let own = match is_timed(db, input, setting, decl, touched) {
        true => own.max(Determinism::Sampled),
        false => own,
    };
    if !step.prompts() {
        return own;
    }
    let agents = touched_agents(db, input, setting, touched);
    let of_agents = agents.iter().map(AgentSpec::determinism);
    of_agents.fold(own, Ord::max)
}

/// Returns the agents that a step touches, as the steps of its task deploy them.
fn touched_agents(
    db: &dyn Db,
    input: TaskInput,
    setting: SettingInput,
    touched: &[(ResourceId, Touch)],
) -> Vec<AgentSpec> {
    let is_agent = |(resource, _): &(ResourceId, Touch)| resource.kind == ResourceKind::Agent;
    if !touched.iter().any(is_agent) {
        return Vec::new();
    }
    let folder = input.folder(db).folder(db);
    let config = &setting.setting(db).config;
    let n = task(db, input, setting).steps.len() as u32;
    let made = (0..n).filter_map(|at| {
        let deploys = built(db, input, setting, at).step.as_ref()?.deploys()?;
        let Deploys::Agent { agent_name, .. } = &deploys else {
            return None;
        };
        let agent = ResourceId::agent(agent_name);
        let is_touched = touched.iter().any(|(resource, _)| *resource == agent);
        match is_touched.then(|| deployed(&deploys, folder, config))? {
            Ok(Deployed::Agent(spec, _)) => Some(spec),
            _ => None,
        }
    });
    made.collect()
}

fn task_to_json(task: &Task) -> Value {
    let steps = task.steps.iter().map(|step| {
        let mut object = Map::new();
        object.insert("id".to_owned(), step.id.as_str().into());
        object.insert("type".to_owned(), step.kind.clone().into());
        if let DependsOn::Steps(ids) = &step.depends_on {
            let ids = ids.iter().map(|id| Value::from(id.as_str())).collect();
            object.insert("depends_on".to_owned(), Value::Array(ids));
        }
        if let Some(on_error) = step.on_error {
            object.insert(
                "fail_task_on_error".to_owned(),
                (on_error == OnError::FailTask).into(),
            );
        }
        if let Some(retry) = &step.retry {
            let retry = crate::json::json!({
                "retry_from_step_id": retry.from.as_str(),
                "max_retries": retry.max_retries,
            });
            object.insert("retry_config".to_owned(), retry);
        }
        object.extend(step.fields.clone());
        Value::Object(object)
    });
    Value::Array(steps.collect())
}
