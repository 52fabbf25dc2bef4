//! Checks tasks; what was found of one stands while nothing that was looked at for it changes.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use super::inspect::{Inspector, Program, steps_of};
use super::load::{Unit, on_all_cores};
use super::{RunOptions, SeedRow, Session, SessionError};
use crate::check::unused_folder::{Used, Uses};
use crate::diagnostic::Diagnostic;
use crate::plan::{self, Database, SettingInput, TaskInput};

/// What was found of tasks, by folder and name.
pub(super) type AllLooked = HashMap<(usize, String), Looked>;

/// A task that is to be looked at.
struct Wanted {
    /// Its folder.
    at: usize,
    task: String,
    input: TaskInput,
    setting: SettingInput,
}

/// What was found of a task.
#[derive(Clone)]
pub(super) struct Looked {
    setting: SettingInput,
    found: Vec<Diagnostic>,
    /// The Python files that it runs.
    programs: Vec<Program>,
    /// What it uses of its folder; `None` where it has errors.
    uses: Option<Arc<Uses>>,
}

impl Session {
    /// Reads and checks units; returns what is mild.
    pub(super) fn check_units(
        &mut self,
        units: Vec<Unit>,
        options: &RunOptions,
    ) -> Result<Vec<Diagnostic>, SessionError> {
        let mut faults = self.faults.clone();
        let (inputs, unread) = self.inputs_of(units);
        faults.extend(unread);
        faults.extend(self.folder_faults());
        let mut setting: Option<(SeedRow, u32, SettingInput)> = None;
        let mut wanted = Vec::with_capacity(inputs.len());
        for (unit, input) in inputs {
            let known = setting
                .as_ref()
                .filter(|(seed, sample, _)| *seed == unit.seed && *sample == unit.sample);
            let handle = match known {
                Some((_, _, handle)) => *handle,
                None => {
                    let wanted = self.new_setting(self.overrides(&unit, options), "none");
                    let handle = self.setting_input(wanted);
                    setting = Some((unit.seed.clone(), unit.sample, handle));
                    handle
                }
            };
            wanted.push(Wanted {
                at: unit.folder,
                task: unit.name,
                input,
                setting: handle,
            });
        }
        self.look_into(&wanted);
        crate::check::level::apply(&self.config.lint, &mut faults);
        let (mut used, mut programs) = (Used::default(), Vec::new());
        for one in wanted {
            let key = (one.at, one.task);
            let loaded = self.load_folder(key.0);
            let of_text = loaded.tasks.get(&key.1).map(|task| task.faults.clone());
            let folder = loaded.folder.clone();
            faults.extend(of_text.unwrap_or_default());
            if let Some(looked) = self.looked.get(&key) {
                faults.extend(looked.found.iter().cloned());
                programs.extend(looked.programs.iter().cloned());
                if let Some(uses) = &looked.uses {
                    used.add(&folder, &key.1, uses.clone());
                }
            }
        }
        let of_files: Vec<usize> = self.folders.keys().copied().collect();
        for at in of_files {
            faults.extend(self.secrets_of(at));
        }
        if !faults.iter().any(Diagnostic::is_error) {
            // What is at fault may be that a name is missing.
            faults.extend(used.unused(&self.config.lint));
            if self.is_whole_workspace() {
                faults.extend(used.unused_settings(&self.config, self.located.len()));
            }
        }
        // A run hears it from Python itself, and spends no time on it before.
        faults.extend(self.grammar_faults(programs));
        crate::diagnostic::sort(&mut faults);
        match faults.iter().any(Diagnostic::is_error) {
            true => Err(SessionError::Faults(faults)),
            false => Ok(faults),
        }
    }

    /// Returns whether what was named is the workspace: in a part of it nobody knows what the other parts use.
    fn is_whole_workspace(&self) -> bool {
        let workspace = self.system.canonical(&self.workspace).ok();
        let is_it =
            |path: &PathBuf| workspace.is_some() && self.system.canonical(path).ok() == workspace;
        match self.options.paths.is_empty() {
            true => is_it(&PathBuf::from(".")),
            false => self.options.paths.iter().any(is_it),
        }
    }

    /// Looks at tasks on all cores, unless what was found of them stands.
    fn look_into(&mut self, wanted: &[Wanted]) {
        let is_open = |one: &&Wanted| {
            let known = self.looked.get(&(one.at, one.task.clone()));
            known.is_none_or(|looked| looked.setting != one.setting)
        };
        let open: Vec<&Wanted> = wanted.iter().filter(is_open).collect();
        let (system, config, folders) = (self.system.as_ref(), &self.config, &self.folders);
        let workspace = self.workspace.as_path();
        let look = |db: &Database, one: &&Wanted| {
            let inspector = Inspector {
                db,
                system,
                config,
                folders,
                workspace,
            };
            inspector.look(one)
        };
        let found = on_all_cores(&self.db, &open, look);
        let open = open.into_iter().map(|one| (one.at, one.task.clone()));
        self.looked.extend(open.zip(found));
    }
}

impl Inspector<'_> {
    /// Looks at a task.
    fn look(&self, wanted: &Wanted) -> Looked {
        let &Wanted {
            at, input, setting, ..
        } = wanted;
        let mut programs = Vec::new();
        let mut found = plan::checked(self.db, input, setting).to_vec();
        found.extend(self.inspect(at, input, setting, &mut programs));
        let mut uses = None;
        if !found.iter().any(Diagnostic::is_error)
            && let Some(folder) = self.folder(at)
        {
            found.extend(self.lacking(at, input, setting));
            let steps = steps_of(self.db, input, setting);
            let task = plan::task(self.db, input, setting).clone();
            uses = Some(Arc::new(Uses::of(folder, task, &steps)));
        }
        Looked {
            setting,
            found,
            programs,
            uses,
        }
    }
}
