//! Which tasks of which folders a command is about.

use std::collections::BTreeSet;
use std::path::PathBuf;

use super::load::Unit;
use super::{RunOptions, SeedRow, Session, SessionError};
use crate::diagnostic::{Diagnostic, nearest};
use crate::task::folder::TaskFolder;

impl Session {
    /// Returns the selected task files as people are shown them; `None` where there is a fault in the selection.
    pub fn selected(&mut self, options: &RunOptions) -> Option<BTreeSet<String>> {
        let units = self.select(options).ok()?;
        Some(units.into_iter().map(|unit| unit.shown).collect())
    }

    /// Returns the tasks that the options select, folder by folder; without reading a folder whose listing is remembered.
    pub(super) fn select(&mut self, options: &RunOptions) -> Result<Vec<Unit>, SessionError> {
        let mut chosen: Vec<(usize, String, String)> = Vec::new();
        let mut missing: Vec<&String> = options.tasks.iter().collect();
        let mut missing_evals: Vec<&String> = options.evals.iter().collect();
        let mut known: Vec<String> = Vec::new();
        let system = self.system.clone();
        for at in 0..self.located.len() {
            let located = self.located[at].clone();
            let plain = options.tasks.is_empty() && options.evals.is_empty();
            if plain && located.only.is_none() {
                let tasks = match self.kept.tasks_of(system.as_ref(), &located.root) {
                    Some(tasks) if located.lone.is_none() => tasks,
                    _ => default_tasks(&self.load_folder(at).folder),
                };
                chosen.extend(tasks.into_iter().map(|(name, shown)| (at, name, shown)));
                continue;
            }
            let folder = self.load_folder(at).folder.clone();
            let shown_of = |name: &str| {
                let entry = folder.tasks.iter().find(|task| task.name == name);
                entry.map(|entry| entry.shown.clone())
            };
            if let Some(only) = &located.only
                && let Some(shown) = shown_of(only)
            {
                chosen.push((at, only.clone(), shown));
                continue;
            }
            for task in &folder.tasks {
                known.push(task.name.clone());
                let matches = |wanted: &&String| {
                    **wanted == task.name || **wanted == format!("{}/{}", folder.name, task.name)
                };
                if options.tasks.iter().any(|wanted| matches(&wanted)) {
                    missing.retain(|wanted| !matches(wanted));
                    chosen.push((at, task.name.clone(), task.shown.clone()));
                }
            }
            for eval in &folder.evals {
                if options.evals.contains(&eval.name) {
                    missing_evals.retain(|wanted| **wanted != eval.name);
                    for task in &eval.tasks {
                        if let Some(shown) = shown_of(&task.name) {
                            chosen.push((at, task.name.clone(), shown));
                        }
                    }
                }
            }
        }
        if let Some(name) = missing.first() {
            let near = nearest(name, known.iter().map(String::as_str));
            return Err(SessionError::Usage {
                message: format!("there is no task `{name}`"),
                help: near.map(|near| format!("did you mean `{near}`?")),
            });
        }
        if let Some(name) = missing_evals.first() {
            return Err(SessionError::Usage {
                message: format!("there is no eval `{name}`"),
                help: None,
            });
        }
        let roots: Vec<PathBuf> = self
            .located
            .iter()
            .map(|one| {
                self.system
                    .canonical(&one.root)
                    .unwrap_or_else(|_| one.root.clone())
            })
            .collect();
        let mut seen = std::collections::HashSet::new();
        chosen.retain(|(at, name, _)| seen.insert((&roots[*at], name.clone())));
        if chosen.is_empty() {
            let mut faults = self.faults.clone();
            faults.extend(self.folder_faults());
            if faults.iter().any(Diagnostic::is_error) {
                return Err(SessionError::Faults(faults));
            }
            return Err(SessionError::Usage {
                message: "there are no tasks to run".to_owned(),
                help: Some("put a task into tasks/<name>.json".to_owned()),
            });
        }
        Ok(units(chosen, options))
    }
}

/// Returns the tasks that a folder runs without selection: those of its evals if it has any, else all.
pub(super) fn default_tasks(folder: &TaskFolder) -> Vec<(String, String)> {
    let mut tasks: Vec<(String, String)> = Vec::new();
    let named: Vec<&str> = folder
        .evals
        .iter()
        .flat_map(|eval| eval.tasks.iter().map(|task| task.name.as_str()))
        .collect();
    for task in &folder.tasks {
        if folder.evals.is_empty() || named.contains(&task.name.as_str()) {
            tasks.push((task.name.clone(), task.shown.clone()));
        }
    }
    tasks
}

fn units(chosen: Vec<(usize, String, String)>, options: &RunOptions) -> Vec<Unit> {
    let samples = options.samples.max(1);
    let plain = [SeedRow::default()];
    let seeds = if options.seeds.is_empty() {
        &plain[..]
    } else {
        &options.seeds[..]
    };
    let mut units = Vec::new();
    for (folder, name, shown) in chosen {
        for seed in seeds {
            for sample in 0..samples {
                let mut label = shown.clone();
                if !seed.name.is_empty() {
                    label = format!("{label} [{}]", seed.name);
                }
                if samples > 1 {
                    label = format!("{label} [sample {sample}]");
                }
                units.push(Unit {
                    folder,
                    name: name.clone(),
                    shown: label,
                    seed: seed.clone(),
                    sample,
                });
            }
        }
    }
    units
}
