//! Folders of a task folder that none of its tasks uses, and tables of `aebuild.toml` that no task does.
//!
//! This is told of a folder whose tasks were all looked at and have no error; it is no fault of one task, so it is no rule.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::PathBuf;
use std::sync::Arc;

use super::level;
use crate::diagnostic::{Diagnostic, did_you_mean};
use crate::json::Value;
use crate::step::{Deploys, Step};
use crate::task::Task;
use crate::task::config::{Config, Level};
use crate::task::folder::TaskFolder;
use crate::task::parse::names::has_placeholder;

/// What a task uses of the folder that it is in.
#[derive(Debug)]
pub struct Uses {
    /// What it names, by the kinds and names of the folders that are meant.
    names: BTreeSet<(&'static str, String)>,
    /// What it deploys, by `envs` or `agents` and the names under which a table of `aebuild.toml` may say how.
    deployed: BTreeSet<(&'static str, String)>,
    /// The task, any text of which may name something all the same.
    task: Arc<Task>,
}

impl Uses {
    /// Returns what a task without errors uses.
    pub fn of(folder: &TaskFolder, task: Arc<Task>, steps: &[Option<Arc<dyn Step>>]) -> Self {
        let (mut names, mut deployed) = (BTreeSet::new(), BTreeSet::new());
        let mut add = |kind, name: &String| names.insert((kind, name.clone()));
        for step in steps.iter().flatten() {
            for reference in step.artifacts() {
                if let Some(found) = folder.artifact(&reference.name) {
                    add("artifacts", &found.name);
                    add("skills", &found.name);
                }
            }
            match step.deploys() {
                Some(Deploys::Env { env_id }) => {
                    deployed.insert(("envs", env_id.clone()));
                    let found = folder.env(&env_id);
                    found.map(|found| add("envs", &found.name));
                }
                Some(Deploys::Agent {
                    agent_name,
                    agent_id,
                    ..
                }) => {
                    let wanted = agent_id.unwrap_or(agent_name);
                    deployed.insert(("agents", wanted.clone()));
                    let found = folder.agent(&wanted);
                    found.map(|found| add("agents", &found.name));
                }
                None => {}
            }
        }
        let of_folders = names
            .iter()
            .filter(|(kind, _)| ["envs", "agents"].contains(kind));
        deployed.extend(of_folders.cloned());
        Uses {
            names,
            deployed,
            task,
        }
    }
}

/// What tasks use of the folders that they are in.
#[derive(Default)]
pub struct Used(BTreeMap<PathBuf, OfFolder>);

/// What the tasks of one folder use.
struct OfFolder {
    folder: Arc<TaskFolder>,
    /// The tasks that were looked at.
    tasks: BTreeMap<String, Arc<Uses>>,
}

impl Used {
    /// Adds what a task without errors uses.
    pub fn add(&mut self, folder: &Arc<TaskFolder>, task: &str, uses: Arc<Uses>) {
        let new = || OfFolder {
            folder: folder.clone(),
            tasks: BTreeMap::new(),
        };
        let of_folder = match self.0.get_mut(&folder.root) {
            Some(of_folder) => of_folder,
            None => self.0.entry(folder.root.clone()).or_insert_with(new),
        };
        of_folder.tasks.insert(task.to_owned(), uses);
    }

    /// Returns a hint for each folder that no task uses, where all tasks were looked at.
    pub fn unused(&self, levels: &BTreeMap<String, Level>) -> Vec<Diagnostic> {
        let mut unused = self.0.values().flat_map(OfFolder::unused).collect();
        level::apply(levels, &mut unused);
        unused
    }
}

impl Used {
    /// Returns what `aebuild.toml` says of envs, agents and steps that no task has, where all tasks of all `n_folders` folders
    /// were looked at.
    pub fn unused_settings(&self, config: &Config, n_folders: usize) -> Vec<Diagnostic> {
        let Some(written) = config.written.as_deref() else {
            return Vec::new();
        };
        if self.0.len() != n_folders || !self.0.values().all(OfFolder::is_whole) {
            return Vec::new();
        }
        let tasks = || self.0.values().flat_map(|folder| &folder.tasks);
        let place = |table: &str, name: &str| {
            let name = name.replace('~', "~0").replace('/', "~1");
            written.span(&format!("/{table}/{name}"))
        };
        let mut faults = Vec::new();
        for (kind, noun, tables) in [
            ("envs", "env", &config.envs),
            ("agents", "agent", &config.agents),
        ] {
            let wanted: HashSet<&str> = tables.keys().map(String::as_str).collect();
            let told = told_in(tasks().map(|(_, uses)| uses), &wanted);
            for name in tables.keys() {
                let named = (kind, name.clone());
                let is_used = tasks().any(|(_, uses)| uses.deployed.contains(&named));
                if is_used || told.contains(name.as_str()) {
                    continue;
                }
                let headline = format!("no task deploys {noun} `{name}`");
                faults.push(
                    Diagnostic::hint("unused-setting", headline)
                        .primary(&written.source, place(kind, name), "")
                        .help(format!("name it in a step, or delete [{kind}.{name}]")),
                );
            }
        }
        let steps = || {
            tasks().flat_map(|(task, uses)| {
                let ids = uses.task.steps.iter().map(|step| step.id.as_str());
                ids.map(move |id| (task.as_str(), id))
            })
        };
        for name in config.determinism.steps.keys() {
            let is_it = |(task, id): (&str, &str)| {
                let of_task = name
                    .strip_prefix(task)
                    .and_then(|rest| rest.strip_prefix('/'));
                name == id || of_task == Some(id) || has_placeholder(id)
            };
            if steps().any(is_it) {
                continue;
            }
            let known: Vec<String> = match name.contains('/') {
                true => steps().map(|(task, id)| format!("{task}/{id}")).collect(),
                false => steps().map(|(_, id)| id.to_owned()).collect(),
            };
            let near = did_you_mean(name, known.iter().map(String::as_str));
            let headline =
                format!("`determinism.steps` names `{name}`, which is no step of a task");
            faults.push(
                Diagnostic::warning("unknown-step", headline)
                    .primary(&written.source, place("determinism/steps", name), "")
                    .help(near.unwrap_or_else(|| "delete it".to_owned())),
            );
        }
        level::apply(&config.lint, &mut faults);
        faults
    }
}

impl OfFolder {
    /// Returns whether every task of it was looked at: what another one uses is not known.
    fn is_whole(&self) -> bool {
        let mut tasks = self.folder.tasks.iter();
        tasks.all(|task| self.tasks.contains_key(&task.name))
    }

    fn unused(&self) -> Vec<Diagnostic> {
        let folder = &self.folder;
        if !self.is_whole() {
            return Vec::new();
        }
        let artifacts = folder.artifacts.keys().map(|name| ("artifacts", name));
        let skills = folder.skills.keys().map(|name| ("skills", name));
        let envs = folder.envs.keys().map(|name| ("envs", name));
        let agents = folder.agents.keys().map(|name| ("agents", name));
        let all = artifacts.chain(skills).chain(envs).chain(agents);
        let is_named = |kind: &'static str, name: &String| {
            let named = (kind, name.clone());
            self.tasks.values().any(|uses| uses.names.contains(&named))
        };
        let left: Vec<(&str, &String)> = all.filter(|(kind, name)| !is_named(kind, name)).collect();
        if left.is_empty() {
            return Vec::new();
        }
        let wanted: HashSet<&str> = left.iter().map(|(_, name)| name.as_str()).collect();
        let told = told_in(self.tasks.values(), &wanted);
        let unused = left
            .into_iter()
            .filter(|(_, name)| !told.contains(name.as_str()));
        let each = unused.map(|(kind, name)| {
            let path = folder.shown_path(&format!("{kind}/{name}"));
            Diagnostic::hint("unused-folder", format!("no task uses `{path}`"))
                .help("name it in a step, or delete the folder")
        });
        each.collect()
    }
}

/// Returns the wanted texts that stand somewhere in tasks.
fn told_in<'v>(
    tasks: impl Iterator<Item = &'v Arc<Uses>>,
    wanted: &HashSet<&str>,
) -> HashSet<&'v str> {
    let mut told = HashSet::new();
    if !wanted.is_empty() {
        let steps = tasks.flat_map(|uses| &uses.task.steps);
        for value in steps.flat_map(|step| step.fields.values()) {
            texts(value, wanted, &mut told);
        }
    }
    told
}

/// Adds the texts in a value that are wanted.
fn texts<'v>(value: &'v Value, wanted: &HashSet<&str>, found: &mut HashSet<&'v str>) {
    match value {
        Value::String(text) if wanted.contains(text.as_str()) => {
            found.insert(text);
        }
        Value::Array(items) => items.iter().for_each(|item| texts(item, wanted, found)),
        Value::Object(members) => members.values().for_each(|item| texts(item, wanted, found)),
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
