//! What a session depends on.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::change::absolute;
use super::{RunOptions, STATE_FOLDER, Session, SessionError};
use crate::step::{Deploys, Step};
use crate::system::{FileKind, System};
use crate::task::config;
use crate::task::deploy::LOCK_FILES;
use crate::task::folder::{self, ArtifactFile, Definition, TaskFolder};

/// All on which the keys and the faults of what is selected depend.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WatchSet {
    /// Files whose content matters, by absolute path.
    pub files: BTreeSet<PathBuf>,
    /// Folders whose listing matters, but not what is below the entries.
    pub folders: BTreeSet<PathBuf>,
    /// Paths that matter once something is there.
    pub missing: BTreeSet<PathBuf>,
    /// What cannot be watched and why, a sentence each.
    pub unwatched: Vec<String>,
    /// Folders in which aebuild itself writes.
    pub own: Vec<PathBuf>,
}

impl WatchSet {
    fn file(&mut self, system: &dyn System, path: &Path) {
        let path = absolute(system, path);
        match system.metadata(&path).map(|found| found.kind) {
            Ok(FileKind::Folder) => self.folders.insert(path),
            Ok(_) => self.files.insert(path),
            Err(_) => self.missing.insert(path),
        };
    }
}

impl Session {
    /// Returns all on which the keys and the faults of what is selected depend. What the folders hold is read for it.
    pub fn watch_set(&mut self, options: &RunOptions) -> Result<WatchSet, SessionError> {
        let system = self.system.clone();
        let mut set = WatchSet::default();
        self.watch_world(&mut set);
        for at in 0..self.located.len() {
            let loaded = self.load_folder(at);
            let watched = loaded.watched.iter().map(|(path, _)| path.clone());
            for path in watched.collect::<Vec<_>>() {
                set.file(system.as_ref(), &path);
            }
            set.folders
                .insert(absolute(system.as_ref(), &self.located[at].root));
        }
        let units = match self.select(options) {
            Ok(units) => Some(units),
            // What is at fault may be mended, and a task that is not there may come: any file may then be meant.
            Err(SessionError::Faults(_) | SessionError::Usage { .. }) => None,
            Err(other) => return Err(other),
        };
        let selected: Option<BTreeSet<&str>> = units
            .as_ref()
            .map(|units| units.iter().map(|unit| unit.shown.as_str()).collect());
        for loaded in self.folders.values() {
            for task in &loaded.folder.tasks {
                if selected
                    .as_ref()
                    .is_none_or(|selected| selected.contains(task.shown.as_str()))
                {
                    set.file(system.as_ref(), &task.path);
                }
            }
        }
        for (unit, steps) in self.steps_of_units(units.unwrap_or_default(), options) {
            let folder = self.load_folder(unit.folder).folder.clone();
            for step in steps {
                self.watch_step(&folder, &*step, &mut set);
            }
        }
        set.unwatched.sort();
        set.unwatched.dedup();
        // What is in the way of nobody's edits is not waited for.
        set.own = self.own_folders();
        Ok(set)
    }

    /// Adds the configuration: the file that holds, and those that would hold instead if they were there.
    fn watch_world(&self, set: &mut WatchSet) {
        let system = self.system.as_ref();
        let first = self.located.first().map(|one| one.root.clone());
        let root = absolute(system, &first.unwrap_or_else(|| PathBuf::from(".")));
        let root = system.canonical(&root).unwrap_or(root);
        for above in root.ancestors() {
            set.file(system, &above.join(config::FILE_NAME));
            let is_top = system.metadata(&above.join(".git")).is_ok();
            if is_top || above == self.workspace {
                break;
            }
        }
        for path in &self.options.paths {
            set.file(system, path);
        }
        for one in &self.located {
            if let Some(file) = &one.lone {
                set.file(system, file);
            }
        }
    }

    fn watch_step(&self, folder: &TaskFolder, step: &dyn Step, set: &mut WatchSet) {
        let system = self.system.as_ref();
        let mut add = |files: &[ArtifactFile], at: &Path| {
            for file in files {
                set.file(system, &file.source);
                let parents = file.source.ancestors().skip(1);
                for parent in parents.take_while(|parent| parent.starts_with(at)) {
                    set.folders.insert(absolute(system, parent));
                }
            }
            set.folders.insert(absolute(system, at));
            for name in folder::SETTINGS_FILES {
                let path = at.join(name);
                if system.metadata(&path).is_ok() {
                    set.file(system, &path);
                }
            }
        };
        for artifact in step.artifacts() {
            if let Some(found) = folder.artifact(&artifact.name) {
                add(&found.files, &found.folder);
            }
        }
        let Some(deploys) = step.deploys() else {
            return;
        };
        if let Some((_, found)) = definition_of(folder, &deploys) {
            add(&found.files, &found.folder);
        }
        let Ok(deployed) = crate::plan::deployed(&deploys, folder, &self.config) else {
            return;
        };
        if let Some(place) = deployed.elsewhere() {
            let noun = deployed.noun();
            let text = format!("{noun} is {place}: what changes there is not seen");
            set.unwatched.push(text);
        }
        if let Some(run) = deployed.process() {
            for mount in &run.mount {
                for name in LOCK_FILES {
                    set.file(system, &self.workspace.join(mount).join(name));
                }
            }
        }
    }

    fn own_folders(&self) -> Vec<PathBuf> {
        let cache = self.cache_dir();
        let all = [Some(self.workspace.join(STATE_FOLDER)), cache];
        let all = all.into_iter().flatten();
        all.map(|path| absolute(self.system.as_ref(), &path))
            .collect()
    }
}

/// Returns the folder's entry that a step deploys, with the kind of folder that it is in.
pub(super) fn definition_of<'f>(
    folder: &'f TaskFolder,
    deploys: &Deploys,
) -> Option<(&'static str, &'f Definition)> {
    match deploys {
        Deploys::Env { env_id } => folder.env(env_id).map(|found| ("envs", found)),
        Deploys::Agent {
            agent_name,
            agent_id,
            ..
        } => folder
            .agent(agent_id.as_ref().unwrap_or(agent_name))
            .map(|found| ("agents", found)),
    }
}
