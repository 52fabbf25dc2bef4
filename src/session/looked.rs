//! Checks tasks; what was found of one stands while nothing that was looked at for it changes.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use super::inspect::Program;
use super::load::Unit;
use super::{RunOptions, SeedRow, Session, SessionError};
use crate::check::unused_folder::{Used, Uses};
use crate::diagnostic::Diagnostic;
use crate::plan::{self, SettingInput, TaskInput};

/// What was found of tasks, by folder and name.
pub(super) type AllLooked = HashMap<(usize, String), Looked>;

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
        let is_open = |(unit, _): &&(Unit, TaskInput)| {
            let key = (unit.folder, unit.name.clone());
            !self.looked.contains_key(&key)
        };
        let open: Vec<(Unit, TaskInput)> = inputs.iter().filter(is_open).cloned().collect();
        self.look_together(&open, options, "none", false);
        crate::check::level::apply(&self.config.lint, &mut faults);
        let (mut used, mut programs) = (Used::default(), Vec::new());
        let mut setting: Option<(SeedRow, u32, SettingInput)> = None;
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
            self.look_into(&unit, input, handle);
            let key = (unit.folder, unit.name);
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

    /// Looks at a task, unless what was found of it stands.
    fn look_into(&mut self, unit: &Unit, input: TaskInput, setting: SettingInput) {
        let key = (unit.folder, unit.name.clone());
        let known = self.looked.get(&key);
        if known.is_some_and(|looked| looked.setting == setting) {
            return;
        }
        let mut programs = Vec::new();
        let mut found = plan::checked(&self.db, input, setting).to_vec();
        found.extend(self.inspect(unit.folder, input, setting, &mut programs));
        let mut uses = None;
        if !found.iter().any(Diagnostic::is_error) {
            found.extend(self.lacking(unit.folder, input, setting));
            let steps = self.steps_of(input, setting);
            let task = plan::task(&self.db, input, setting).clone();
            let folder = &self.load_folder(unit.folder).folder;
            uses = Some(Arc::new(Uses::of(folder, task, &steps)));
        }
        let looked = Looked {
            setting,
            found,
            programs,
            uses,
        };
        self.looked.insert(key, looked);
    }
}
