//! Brings folders, task files and contents of artifacts into the planner, as far as they are needed.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::part::apply_options;
use super::setting::TOOLS;
use super::watched::definition_of;
use super::{RunOptions, SeedRow, Session, SessionError};
use crate::diagnostic::{Diagnostic, Severity};
use crate::digest::Digest;
use crate::engine::{Store, TaskJob};
use crate::plan::{self, ArtifactInput, Database, FolderInput, Setter, SettingInput, TaskInput};
use crate::schedule::{self, Forecast, MadeOf, TaskPlan};
use crate::step::{Deploys, Determinism, Step};
use crate::system::Stamp;
use crate::task::deploy::LOCK_FILES;
use crate::task::folder::{self, ArtifactFile, TaskEntry, TaskFolder};

/// A folder as it is in the planner.
pub(super) struct Loaded {
    pub(super) folder: Arc<TaskFolder>,
    pub(super) faults: Vec<Diagnostic>,
    pub(super) input: FolderInput,
    pub(super) tasks: BTreeMap<String, LoadedTask>,
    /// The tasks whose file could not be read, and why.
    pub(super) unread: BTreeMap<String, Diagnostic>,
    pub(super) watched: Vec<(PathBuf, Stamp)>,
    pub(super) read_us: i64,
    /// The keys that stand in the files of its envs and agents, once somebody asked.
    pub(super) secrets: Option<Vec<Diagnostic>>,
}

/// A task file as it is in the planner.
pub(super) struct LoadedTask {
    pub(super) input: TaskInput,
    pub(super) stamp: (PathBuf, Stamp),
    pub(super) read_us: i64,
    pub(super) faults: Vec<Diagnostic>,
}

/// One task to be run, with one set of seeds and one sample number.
#[derive(Clone, Debug)]
pub(super) struct Unit {
    pub(super) folder: usize,
    pub(super) name: String,
    pub(super) shown: String,
    pub(super) seed: SeedRow,
    pub(super) sample: u32,
}

/// A unit ready to be run or shown.
pub(super) struct Prepared {
    pub(super) unit: Unit,
    pub(super) job: TaskJob,
    pub(super) forecast: Forecast,
    /// The files that went into it, with their stamps when they were read.
    pub(super) sources: Vec<(PathBuf, Stamp)>,
    pub(super) read_us: i64,
    pub(super) setting: Digest,
}

impl Session {
    /// Reads a folder, unless it is there.
    pub(super) fn load_folder(&mut self, at: usize) -> &mut Loaded {
        if !self.folders.contains_key(&at) {
            let read_us = self.system.now_us();
            let (folder, faults, watched) = self.read_folder(at);
            let folder = Arc::new(folder);
            let input = FolderInput::at_rest(&self.db, folder.clone());
            let loaded = Loaded {
                folder,
                faults,
                input,
                tasks: BTreeMap::new(),
                unread: BTreeMap::new(),
                watched,
                read_us,
                secrets: None,
            };
            self.folders.insert(at, loaded);
        }
        self.folders
            .get_mut(&at)
            .expect("bug: the folder was put in just now")
    }

    /// Reads a folder, and notes the stamps of what says what is in it.
    pub(super) fn read_folder(
        &self,
        at: usize,
    ) -> (TaskFolder, Vec<Diagnostic>, Vec<(PathBuf, Stamp)>) {
        let located = &self.located[at];
        let (folder, faults) = folder::read_located(self.system.as_ref(), located);
        let mut watched = Vec::new();
        for path in folder.listings.iter().chain(&folder.config_files) {
            if let Ok(metadata) = self.system.metadata(path) {
                watched.push((path.clone(), metadata.stamp));
            }
        }
        for name in folder::KIND_FOLDERS.into_iter().chain([folder::ALIASES]) {
            // What is not there yet may come, and then a name may mean something else.
            let path = located.root.join(name);
            if self.system.metadata(&path).is_err() {
                watched.push((path, Stamp::default()));
            }
        }
        (folder, faults, watched)
    }

    /// Reads a task file, unless it is there.
    pub(super) fn load_task(
        &mut self,
        at: usize,
        entry: &TaskEntry,
    ) -> Result<TaskInput, Diagnostic> {
        let loaded = self.load_folder(at);
        if let Some(task) = loaded.tasks.get(&entry.name) {
            return Ok(task.input);
        }
        let folder = loaded.input;
        let read_us = self.system.now_us();
        let before = self
            .system
            .metadata(&entry.path)
            .map(|metadata| metadata.stamp);
        let read = folder::read_source(self.system.as_ref(), &entry.path, &entry.shown);
        let unread = &mut self.load_folder(at).unread;
        let (source, faults) = match read {
            Ok(read) => read,
            Err(fault) => {
                unread.insert(entry.name.clone(), fault.clone());
                return Err(fault);
            }
        };
        unread.remove(&entry.name);
        let stamp = before.unwrap_or_default();
        let input = TaskInput::at_rest(&self.db, entry.name.clone(), source, folder);
        let task = LoadedTask {
            input,
            stamp: (entry.path.clone(), stamp),
            read_us,
            faults,
        };
        self.load_folder(at).tasks.insert(entry.name.clone(), task);
        Ok(input)
    }

    /// Returns the faults of the folders that were read.
    pub(super) fn folder_faults(&self) -> Vec<Diagnostic> {
        self.folders
            .values()
            .flat_map(|loaded| loaded.faults.clone())
            .collect()
    }

    /// Reads the task files of units, and says of which that is not possible.
    pub(super) fn inputs_of(
        &mut self,
        units: Vec<Unit>,
    ) -> (Vec<(Unit, TaskInput)>, Vec<Diagnostic>) {
        let (mut inputs, mut faults) = (Vec::new(), Vec::new());
        for unit in units {
            let folder = self.load_folder(unit.folder).folder.clone();
            let by_name = |task: &TaskEntry| task.name.as_str().cmp(&unit.name);
            // Sorted by file name, which is nearly always sorted by name.
            let at = folder.tasks.binary_search_by(by_name).ok();
            let at = at.or_else(|| folder.tasks.iter().position(|task| task.name == unit.name));
            let Some(at) = at else { continue };
            match self.load_task(unit.folder, &folder.tasks[at]) {
                Ok(input) => inputs.push((unit, input)),
                Err(fault) => faults.push(fault),
            }
        }
        (inputs, faults)
    }

    /// Returns the steps of units as far as they can be built, with whatever is at fault.
    pub(super) fn steps_of_units(
        &mut self,
        units: Vec<Unit>,
        options: &RunOptions,
    ) -> Vec<(Unit, Vec<Arc<dyn Step>>)> {
        let (inputs, _) = self.inputs_of(units);
        let steps = inputs.into_iter().map(|(unit, input)| {
            let setting = self.new_setting(self.overrides(&unit, options), "none");
            let setting = self.setting_input(setting);
            let steps = self.steps_of(input, setting).into_iter().flatten();
            (unit, steps.collect())
        });
        steps.collect()
    }

    /// Reads, checks and plans units; every error of every unit is collected. What is mild comes with what is ready.
    pub(super) fn prepare(
        &mut self,
        units: Vec<Unit>,
        options: &RunOptions,
        store: &Store,
        isolation: &'static str,
    ) -> Result<(Vec<Prepared>, Vec<Diagnostic>), SessionError> {
        let mut faults = self.faults.clone();
        let (inputs, unread) = self.inputs_of(units);
        faults.extend(unread);
        faults.extend(self.folder_faults());
        self.look_together(&inputs, options, isolation);
        crate::check::level::apply(&self.config.lint, &mut faults);
        let mut prepared = Vec::new();
        let mut warnings: Vec<Diagnostic> = Vec::new();
        let mut tools: Option<BTreeMap<String, String>> = None;
        for (unit, input) in inputs {
            let overrides = self.overrides(&unit, options);
            let mut setting = self.new_setting(overrides.clone(), isolation);
            setting.tools = tools.clone().unwrap_or_default();
            let mut handle = self.setting_input(setting.clone());
            let needs_tools = tools.is_none()
                && self
                    .steps_of(input, handle)
                    .iter()
                    .flatten()
                    .any(|step| self.needs_tools(unit.folder, &**step));
            if needs_tools {
                let found = self.tools(&TOOLS);
                setting.tools = found.clone();
                tools = Some(found);
                handle = self.setting_input(setting);
            }
            let found = plan::checked(&self.db, input, handle).clone();
            let looked = self
                .inspector()
                .inspect(unit.folder, input, handle, &mut Vec::new());
            let (errors, mut mild): (Vec<_>, Vec<_>) = found
                .iter()
                .cloned()
                .chain(looked)
                .partition(Diagnostic::is_error);
            // Who runs a task has no use for how it could be said better.
            mild.retain(|fault| fault.severity != Severity::Hint);
            let loaded = self.load_folder(unit.folder);
            let task_faults = loaded.tasks.get(&unit.name).map(|task| task.faults.clone());
            let bad = !errors.is_empty();
            faults.extend(errors);
            faults.extend(task_faults.unwrap_or_default());
            warnings.extend(mild);
            if bad {
                continue;
            }
            let digest = self.setting_digest(&overrides, isolation);
            match self.prepare_one(unit, input, handle, options, store, digest) {
                Ok(one) => prepared.push(one),
                Err(SessionError::Faults(more)) => faults.extend(more),
                Err(other) => return Err(other),
            }
        }
        let has_errors = faults.iter().any(Diagnostic::is_error);
        faults.extend(warnings);
        crate::diagnostic::sort(&mut faults);
        match has_errors {
            true => Err(SessionError::Faults(faults)),
            false => Ok((prepared, faults)),
        }
    }

    /// Checks many tasks on all cores, and plans those that need nothing from outside their file; what asks for the
    /// answers afterwards finds them there.
    pub(super) fn look_together(
        &mut self,
        inputs: &[(Unit, TaskInput)],
        options: &RunOptions,
        isolation: &'static str,
    ) {
        let Some((first, _)) = inputs.first().filter(|_| is_worth_threads(inputs.len())) else {
            return;
        };
        let setting = self.new_setting(self.overrides(first, options), isolation);
        let setting = self.setting_input(setting);
        on_all_cores(&self.db, inputs, |db, (_, input)| {
            let faults = plan::checked(db, *input, setting);
            if faults.iter().any(Diagnostic::is_error) {
                return;
            }
            let n = plan::task(db, *input, setting).steps.len() as u32;
            let mut steps = (0..n).map(|at| plan::built(db, *input, setting, at));
            let stands_alone = steps.all(|built| {
                built.step.as_ref().is_some_and(|step| {
                    step.artifacts().is_empty()
                        && step.tools().is_empty()
                        && step.deploys().is_none()
                })
            });
            if stands_alone {
                plan::plan(db, *input, setting);
            }
        });
    }

    /// Returns whether the key of a step, or of what it deploys, holds the version of a program of this machine.
    fn needs_tools(&self, at: usize, step: &dyn Step) -> bool {
        if !step.tools().is_empty() {
            return true;
        }
        let (Some(deploys), Some(loaded)) = (step.deploys(), self.folders.get(&at)) else {
            return false;
        };
        let deployed = plan::deployed(&deploys, &loaded.folder, &self.config);
        let process = deployed.ok().and_then(|deployed| deployed.process());
        process.is_some_and(|run| run.uses_python())
    }

    fn prepare_one(
        &mut self,
        unit: Unit,
        input: TaskInput,
        setting: SettingInput,
        options: &RunOptions,
        store: &Store,
        digest: Digest,
    ) -> Result<Prepared, SessionError> {
        let steps: Vec<Arc<dyn Step>> = self
            .steps_of(input, setting)
            .into_iter()
            .flatten()
            .collect();
        let mut sources = Vec::new();
        let mut read_us = i64::MAX;
        let mut stamps: HashMap<PathBuf, Stamp> = HashMap::new();
        let mut contents = Vec::with_capacity(steps.len());
        let mut folders: Vec<PathBuf> = Vec::new();
        for step in &steps {
            let mut used = Vec::new();
            for artifact in step.artifacts() {
                let folder = self.load_folder(unit.folder).folder.clone();
                let Some(found) = folder.artifact(&artifact.name) else {
                    continue;
                };
                read_us = read_us.min(self.system.now_us());
                self.watch(&found.files, &found.folder, &mut stamps, &mut folders);
                let content = plan::hash_content(self.system.as_ref(), &mut self.memo, found)
                    .map_err(unreadable)?;
                self.set_content(unit.folder, &found.name, content.clone());
                used.push(content);
            }
            if let Some(deploys) = step.deploys() {
                self.hash_locks(unit.folder, &deploys, &mut stamps)?;
                let folder = self.load_folder(unit.folder).folder.clone();
                let found = definition_of(&folder, &deploys);
                if let Some((kind, found)) = found {
                    read_us = read_us.min(self.system.now_us());
                    self.watch(&found.files, &found.folder, &mut stamps, &mut folders);
                    let content =
                        plan::hash_definition(self.system.as_ref(), &mut self.memo, found)
                            .map_err(unreadable)?;
                    self.set_content(unit.folder, &format!("{kind}/{}", found.name), content);
                }
            }
            contents.push(used);
        }
        folders.sort();
        folders.dedup();
        for folder in folders {
            if let Ok(metadata) = self.system.metadata(&folder) {
                sources.push((folder, metadata.stamp));
            }
        }
        sources.extend(stamps.iter().map(|(path, stamp)| (path.clone(), *stamp)));
        if let Some(task) = self.load_folder(unit.folder).tasks.get(&unit.name) {
            sources.push(task.stamp.clone());
            read_us = read_us.min(task.read_us);
        }
        sources.sort();
        let planned = plan::plan(&self.db, input, setting).clone();
        let mut task_plan: TaskPlan = (*planned).clone();
        let attempts = task_plan.attempts();
        for (step, most) in task_plan.steps.iter_mut().zip(attempts) {
            if step.live.is_none() {
                let kept = store.verdicts(&step.key);
                step.candidates = kept.candidates;
                if step.prompts || step.determinism != Determinism::Pure {
                    // What came of a later attempt says nothing of a step that has no other.
                    step.candidates.retain(|trace| trace.made.attempt <= most);
                }
                step.previous = kept.previous;
            } else if matches!(step.made_of, MadeOf::Env(_) | MadeOf::Agent(_)) {
                step.previous = store.definition(&step.key);
            }
        }
        apply_options(&mut task_plan, &unit, options)?;
        let forecast = schedule::forecast(&task_plan, store);
        let job = TaskJob {
            shown: unit.shown.clone(),
            plan: Arc::new(task_plan),
            steps,
            contents,
            lost: forecast.lost.clone(),
            stamps: Arc::new(stamps),
            sample: unit.sample,
        };
        Ok(Prepared {
            unit,
            job,
            forecast,
            sources,
            read_us,
            setting: digest,
        })
    }

    /// Notes the stamps of files and the folders that they are in.
    fn watch(
        &self,
        files: &[ArtifactFile],
        folder: &Path,
        stamps: &mut HashMap<PathBuf, Stamp>,
        folders: &mut Vec<PathBuf>,
    ) {
        for file in files {
            if let Ok(metadata) = self.system.metadata(&file.source) {
                stamps.insert(file.source.clone(), metadata.stamp);
            }
            let parents = file.source.ancestors().skip(1);
            for parent in parents.take_while(|parent| parent.starts_with(folder)) {
                folders.push(parent.to_path_buf());
            }
        }
        folders.push(folder.to_path_buf());
        // What says what the files are is no file of the content.
        for name in folder::SETTINGS_FILES {
            let file = folder.join(name);
            if let Ok(metadata) = self.system.metadata(&file) {
                stamps.insert(file, metadata.stamp);
            }
        }
    }

    /// Hashes the lock files of the folders that the program of an env or agent sees: they say which packages are in them.
    fn hash_locks(
        &mut self,
        at: usize,
        deploys: &Deploys,
        stamps: &mut HashMap<PathBuf, Stamp>,
    ) -> Result<(), SessionError> {
        let folder = self.load_folder(at).folder.clone();
        let deployed = plan::deployed(deploys, &folder, &self.config);
        let Some(run) = deployed.ok().and_then(|deployed| deployed.process()) else {
            return Ok(());
        };
        let mut files = Vec::new();
        for mount in &run.mount {
            for name in LOCK_FILES {
                let source = self.workspace.join(mount).join(name);
                let found = self.system.metadata(&source);
                let stamp = found.as_ref().map(|metadata| metadata.stamp);
                // One that is not there may come.
                stamps.insert(source.clone(), stamp.unwrap_or_default());
                if found.is_ok() {
                    let path = format!("{mount}/{name}");
                    let executable = false;
                    files.push(ArtifactFile {
                        path,
                        source,
                        executable,
                    });
                }
            }
        }
        let name = deploys.locks_name();
        let content = plan::hash_files_of(self.system.as_ref(), &mut self.memo, &name, &files)
            .map_err(unreadable)?;
        self.set_content(at, &name, content);
        Ok(())
    }

    fn set_content(&mut self, at: usize, name: &str, content: Arc<crate::step::Content>) {
        let input = self.load_folder(at).input;
        let known = input.contents(&self.db).get(name).copied();
        match known {
            Some(artifact) => {
                if *artifact.content(&self.db) != content {
                    artifact.set_content(&mut self.db).to(content);
                }
            }
            None => {
                let artifact = ArtifactInput::new(&self.db, content);
                let mut contents = input.contents(&self.db).clone();
                contents.insert(name.to_owned(), artifact);
                input.set_contents(&mut self.db).to(contents);
            }
        }
    }
}

/// So few tasks are looked at by one thread.
const FEW: usize = 8;

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn is_worth_threads(n: usize) -> bool {
    n > FEW && cores() > 1
}

/// Asks the planner about each of many, on all cores where that is worth it; returns the answers in order.
pub(super) fn on_all_cores<T: Sync, A: Send>(
    db: &Database,
    all: &[T],
    ask: impl Fn(&Database, &T) -> A + Sync,
) -> Vec<A> {
    if !is_worth_threads(all.len()) {
        return all.iter().map(|one| ask(db, one)).collect();
    }
    let ask = &ask;
    std::thread::scope(|scope| {
        let shares = all.chunks(all.len().div_ceil(cores()));
        let started: Vec<_> = shares
            .map(|share| {
                let db = db.clone();
                scope.spawn(move || -> Vec<A> { share.iter().map(|one| ask(&db, one)).collect() })
            })
            .collect();
        let ended = started.into_iter().flat_map(|thread| match thread.join() {
            Ok(answers) => answers,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        ended.collect()
    })
}

fn unreadable((path, error): (String, std::io::Error)) -> SessionError {
    let text = format!("`{path}` cannot be read: {error}");
    SessionError::Faults(vec![Diagnostic::error("unreadable", text)])
}
