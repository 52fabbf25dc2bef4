//! Folders of a task folder that none of its tasks uses.
//!
//! This is told of a folder whose tasks were all looked at and have no error; it is no fault of one task, so it is no rule.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::PathBuf;
use std::sync::Arc;

use super::level;
use crate::diagnostic::Diagnostic;
use crate::json::Value;
use crate::step::{Deploys, Step};
use crate::task::Task;
use crate::task::config::Level;
use crate::task::folder::TaskFolder;

/// What a task uses of the folder that it is in.
#[derive(Debug)]
pub struct Uses {
    /// What it names, by the kinds and names of the folders that are meant.
    names: BTreeSet<(&'static str, String)>,
    /// The task, any text of which may name something all the same.
    task: Arc<Task>,
}

impl Uses {
    /// Returns what a task without errors uses.
    pub fn of(folder: &TaskFolder, task: Arc<Task>, steps: &[Option<Arc<dyn Step>>]) -> Self {
        let mut names = BTreeSet::new();
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
                    let found = folder.env(&env_id);
                    found.map(|found| add("envs", &found.name));
                }
                Some(Deploys::Agent {
                    agent_name,
                    agent_id,
                    ..
                }) => {
                    let found = folder.agent(agent_id.as_ref().unwrap_or(&agent_name));
                    found.map(|found| add("agents", &found.name));
                }
                None => {}
            }
        }
        Uses { names, task }
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

impl OfFolder {
    fn unused(&self) -> Vec<Diagnostic> {
        let folder = &self.folder;
        // What a task that was not looked at uses is not known.
        if !folder
            .tasks
            .iter()
            .all(|task| self.tasks.contains_key(&task.name))
        {
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
        let mut told: HashSet<&str> = HashSet::new();
        let steps = self.tasks.values().flat_map(|uses| &uses.task.steps);
        for value in steps.flat_map(|step| step.fields.values()) {
            texts(value, &wanted, &mut told);
        }
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
