//! Folders of a task folder that none of its tasks uses.
//!
//! This is told of a folder whose tasks were all looked at and have no error; it is no fault of one task, so it is no rule.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use super::level;
use crate::diagnostic::Diagnostic;
use crate::json::Value;
use crate::step::{Deploys, Step};
use crate::task::config::Level;
use crate::task::folder::TaskFolder;

/// What tasks use of the folders that they are in.
#[derive(Default)]
pub struct Used(BTreeMap<PathBuf, OfFolder>);

/// What the tasks of one folder use.
struct OfFolder {
    folder: Arc<TaskFolder>,
    /// The tasks that were looked at.
    tasks: BTreeSet<String>,
    /// What they use, by the kinds and names of its folders.
    names: BTreeSet<(&'static str, String)>,
    /// Every text by which something may be named.
    texts: BTreeSet<String>,
}

impl Used {
    /// Adds what a task without errors uses.
    pub fn add(&mut self, folder: &Arc<TaskFolder>, task: &str, steps: &[Option<Arc<dyn Step>>]) {
        let new = || OfFolder {
            folder: folder.clone(),
            tasks: BTreeSet::new(),
            names: BTreeSet::new(),
            texts: BTreeSet::new(),
        };
        let of_folder = self.0.entry(folder.root.clone()).or_insert_with(new);
        of_folder.tasks.insert(task.to_owned());
        for step in steps.iter().flatten() {
            of_folder.add(step.as_ref());
        }
    }

    /// Returns a hint for each folder that no task uses, where all tasks were looked at.
    pub fn unused(&self, levels: &BTreeMap<String, Level>) -> Vec<Diagnostic> {
        let mut unused = self.0.values().flat_map(OfFolder::unused).collect();
        level::apply(levels, &mut unused);
        unused
    }
}

impl OfFolder {
    fn add(&mut self, step: &dyn Step) {
        let folder = self.folder.clone();
        let mut add = |kind, name: &String| self.names.insert((kind, name.clone()));
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
        texts(&step.fields(), &mut self.texts);
    }

    fn unused(&self) -> Vec<Diagnostic> {
        let folder = &self.folder;
        // What a task that was not looked at uses is not known.
        if !folder
            .tasks
            .iter()
            .all(|task| self.tasks.contains(&task.name))
        {
            return Vec::new();
        }
        let artifacts = folder.artifacts.keys().map(|name| ("artifacts", name));
        let skills = folder.skills.keys().map(|name| ("skills", name));
        let envs = folder.envs.keys().map(|name| ("envs", name));
        let agents = folder.agents.keys().map(|name| ("agents", name));
        let all = artifacts.chain(skills).chain(envs).chain(agents);
        let is_used = |kind: &'static str, name: &String| {
            self.names.contains(&(kind, name.clone())) || self.texts.contains(name)
        };
        let unused = all.filter(|(kind, name)| !is_used(kind, name));
        let each = unused.map(|(kind, name)| {
            let path = folder.shown_path(&format!("{kind}/{name}"));
            Diagnostic::hint("unused-folder", format!("no task uses `{path}`"))
                .help("name it in a step, or delete the folder")
        });
        each.collect()
    }
}

fn texts(value: &Value, all: &mut BTreeSet<String>) {
    match value {
        Value::String(text) => {
            all.insert(text.clone());
        }
        Value::Array(items) => items.iter().for_each(|item| texts(item, all)),
        Value::Object(members) => members.values().for_each(|item| texts(item, all)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
