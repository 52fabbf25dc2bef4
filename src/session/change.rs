//! A session that stays open: what of that on which it depends is different now.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::Session;
use super::load::{Loaded, LoadedTask};
use super::setting::read_config;
use crate::diagnostic::Diagnostic;
use crate::system::{FileKind, System};
use crate::task::config;
use crate::task::folder::{self, ArtifactFile, Located, TaskFolder};

/// Something on disk that may have changed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Change {
    /// What is at this absolute path, or below it.
    Path(PathBuf),
    /// Anything.
    Rescan,
}

/// What is different after [`Session::apply_changes`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changed {
    /// The files that came, went or have another content, as people are shown them, sorted.
    pub files: Vec<String>,
    /// Whether anything differs.
    pub anything: bool,
    /// The task files among them, as people are shown them.
    pub tasks: BTreeSet<String>,
    /// Whether something else differs than these.
    pub besides: bool,
}

impl Changed {
    fn something(&mut self) {
        self.anything = true;
        self.besides = true;
    }

    fn file(&mut self, shown: impl Into<String>) {
        self.files.push(shown.into());
        self.something();
    }

    fn task(&mut self, shown: &str) {
        self.files.push(shown.to_owned());
        self.tasks.insert(shown.to_owned());
        self.anything = true;
    }
}

/// Returns a path from the root on, with the links of the folders on its way followed, but not the one that it may be.
pub(super) fn absolute(system: &dyn System, path: &Path) -> PathBuf {
    let (parent, name) = match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) => (parent, name),
        _ => return system.canonical(path).unwrap_or_else(|_| path.to_owned()),
    };
    let parent = match parent.as_os_str().is_empty() {
        true => Path::new("."),
        false => parent,
    };
    match system.canonical(parent) {
        Ok(parent) => parent.join(name),
        // Of what is not there the part that is.
        Err(_) if parent.file_name().is_some() => absolute(system, parent).join(name),
        Err(_) => path.to_owned(),
    }
}

/// What [`Session::apply_changes`] has to look at.
#[derive(Default)]
struct Suspects {
    /// Task files by folder and name.
    tasks: BTreeSet<(usize, String)>,
    folders: BTreeSet<usize>,
    /// Other files, as they are known to the session.
    files: BTreeSet<PathBuf>,
    /// The configuration, and where everything is.
    world: bool,
}

impl Session {
    /// Takes in what changed on disk. What is equal after all is no change. Faults of what cannot be read any more are told
    /// by whoever checks, plans or runs next.
    pub fn apply_changes(&mut self, changes: &[Change]) -> Changed {
        self.kept.look_again();
        let suspects = self.suspects(changes);
        let mut changed = Changed::default();
        if suspects.world || !suspects.folders.is_empty() || !suspects.files.is_empty() {
            // What is beside a task may decide what is found of it.
            self.looked.clear();
        }
        if suspects.world {
            self.apply_world(&mut changed);
        }
        let all = 0..self.located.len();
        for at in all.filter(|at| suspects.world || suspects.folders.contains(at)) {
            self.apply_folder(at, &mut changed);
        }
        for (at, name) in &suspects.tasks {
            self.apply_task(*at, name, &mut changed);
        }
        for path in &suspects.files {
            self.apply_file(path, &mut changed);
        }
        if suspects.world {
            // Every file that was ever hashed may be another.
            for path in self.memo.paths() {
                self.apply_file(&path, &mut changed);
            }
        }
        changed.files.sort();
        changed.files.dedup();
        changed
    }

    /// Begins to tell changes from now on: what was gone before is none.
    pub fn forget_gone(&mut self) {
        self.memo.forget_gone(self.system.as_ref());
    }

    fn suspects(&mut self, changes: &[Change]) -> Suspects {
        let system = self.system.clone();
        let roots: Vec<PathBuf> = self
            .located
            .iter()
            .map(|one| {
                let root = system.canonical(&one.root);
                root.unwrap_or_else(|_| one.root.clone())
            })
            .collect();
        let config = self.workspace.join(config::FILE_NAME);
        let mut suspects = Suspects::default();
        for change in changes {
            let Change::Path(path) = change else {
                suspects.world = true;
                continue;
            };
            let path = absolute(system.as_ref(), path);
            let is_config = path.file_name() == config.file_name();
            let holds_root = |root: &PathBuf| root.starts_with(&path);
            if is_config || self.located.is_empty() || roots.iter().any(holds_root) {
                suspects.world = true;
                continue;
            }
            let (mut is_inside, mut is_task) = (false, false);
            for (at, root) in roots.iter().enumerate() {
                let Ok(below) = path.strip_prefix(root) else {
                    continue;
                };
                is_inside = true;
                let known = self.located[at].root.join(below);
                let Some(loaded) = self.folders.get(&at) else {
                    suspects.folders.insert(at);
                    continue;
                };
                let mut tasks = loaded.tasks.iter();
                match tasks.find(|(_, task)| is_same_path(&task.stamp.0, &known)) {
                    Some((name, _)) if system.metadata(&known).is_ok() => {
                        is_task = true;
                        suspects.tasks.insert((at, name.clone()));
                    }
                    _ => {
                        suspects.folders.insert(at);
                        let found = system.metadata(&known);
                        if !found.is_ok_and(|found| found.kind == FileKind::File) {
                            // With another folder come other files of the same names.
                            let paths = self.memo.paths().into_iter();
                            suspects
                                .files
                                .extend(paths.filter(|path| path.starts_with(&known)));
                        }
                        // It may be known by the link that leads to it.
                        let paths = self.memo.paths().into_iter();
                        let named = paths.filter(|other| other.file_name() == path.file_name());
                        let is_it = |other: &PathBuf| absolute(system.as_ref(), other) == path;
                        suspects.files.extend(named.filter(is_it));
                        suspects.files.insert(known);
                    }
                }
            }
            if !is_inside {
                // What is outside is there by a link, or is mounted.
                suspects.world = true;
            }
            if !is_task {
                suspects.files.insert(path);
            }
        }
        suspects
    }

    /// Looks anew for what the paths name and for the configuration.
    fn apply_world(&mut self, changed: &mut Changed) {
        let system = self.system.clone();
        let (located, mut faults) = folder::locate(system.as_ref(), &self.options.paths);
        if located != self.located {
            let mut before = std::mem::take(&mut self.folders);
            for (at, one) in located.iter().enumerate() {
                let was = self.located.iter().position(|other| other == one);
                if let Some(loaded) = was.and_then(|was| before.remove(&was)) {
                    self.folders.insert(at, loaded);
                }
            }
            let others = |one: &&Located, all: &[Located]| !all.contains(one);
            let came = located.iter().filter(|one| others(one, &self.located));
            let went = self.located.iter().filter(|one| others(one, &located));
            changed
                .files
                .extend(came.chain(went).map(|one| one.shown.clone()));
            self.located = located;
            changed.something();
        }
        match read_config(system.as_ref(), &self.options, &self.located) {
            // Where nothing is left of what was named, the workspace stays what it was.
            Ok(_) if self.located.is_empty() => {}
            Ok(found) => {
                if found.digest != self.config_digest {
                    let path = found.workspace.join(config::FILE_NAME);
                    changed.file(self.shown(&path));
                }
                self.workspace = found.workspace;
                self.config = found.config;
                self.config_digest = found.digest;
                faults.extend(found.faults);
            }
            Err(error) => faults.push(Diagnostic::error("unreadable", error.to_string())),
        }
        if faults != self.faults {
            changed.something();
        }
        self.faults = faults;
    }

    /// Reads a folder anew.
    fn apply_folder(&mut self, at: usize, changed: &mut Changed) {
        let Some(before) = self.folders.remove(&at) else {
            // Nobody has looked at it yet.
            changed.something();
            return;
        };
        let (folder, faults, watched) = self.read_folder(at);
        let Loaded {
            folder: old,
            faults: old_faults,
            input,
            mut tasks,
            mut unread,
            ..
        } = before;
        let is_same = *old == folder;
        // What a folder says about itself is for people, and what is no part of it may come and go.
        let described = TaskFolder {
            description: old.description.clone(),
            ignored: old.ignored.clone(),
            // What a file says that was read for it is among the rest.
            config_files: old.config_files.clone(),
            tasks: old.tasks.clone(),
            ..folder.clone()
        };
        if *old != described || old_faults != faults {
            changed.something();
        }
        if !is_same {
            self.name_differences(&old, &folder, changed);
        }
        let folder = match is_same {
            true => old,
            false => {
                let folder = Arc::new(folder);
                input.edit(&mut self.db, folder.clone());
                folder
            }
        };
        let is_there = |name: &String, task: &LoadedTask| {
            let mut entries = folder.tasks.iter();
            entries.any(|entry| entry.name == *name && entry.path == task.stamp.0)
        };
        tasks.retain(|name, task| is_there(name, task));
        unread.retain(|name, why| {
            let mut entries = folder.tasks.iter();
            let Some(entry) = entries.find(|entry| entry.name == *name) else {
                return false;
            };
            match folder::read_source(self.system.as_ref(), &entry.path, &entry.shown) {
                Err(fault) if fault == *why => true,
                // Whoever needs it next reads it.
                _ => {
                    changed.task(&entry.shown);
                    false
                }
            }
        });
        let names: Vec<String> = tasks.keys().cloned().collect();
        let read_us = self.system.now_us();
        let loaded = Loaded {
            folder,
            faults,
            input,
            tasks,
            unread,
            watched,
            read_us,
            secrets: None,
        };
        self.folders.insert(at, loaded);
        for name in names {
            self.apply_task(at, &name, changed);
        }
    }

    /// Names the files that one of two states of a folder has and the other has not.
    fn name_differences(&self, old: &TaskFolder, new: &TaskFolder, changed: &mut Changed) {
        let tasks = |folder: &'_ TaskFolder| -> BTreeSet<String> {
            let tasks = folder.tasks.iter();
            tasks.map(|task| task.shown.clone()).collect()
        };
        for shown in tasks(old).symmetric_difference(&tasks(new)) {
            changed.task(shown);
        }
        fn all(folder: &TaskFolder) -> BTreeSet<(&Path, bool)> {
            let all = files(folder);
            all.map(|file| (file.source.as_path(), file.executable))
                .collect()
        }
        for (path, _) in all(old).symmetric_difference(&all(new)) {
            changed.file(self.shown(path));
        }
    }

    /// Reads a task file anew.
    fn apply_task(&mut self, at: usize, name: &str, changed: &mut Changed) {
        let system = self.system.clone();
        self.looked.remove(&(at, name.to_owned()));
        let Some(loaded) = self.folders.get_mut(&at) else {
            return;
        };
        let Some(entry) = loaded.folder.tasks.iter().find(|entry| entry.name == name) else {
            return;
        };
        let read_us = system.now_us();
        let stamp = system.metadata(&entry.path).map(|found| found.stamp);
        match folder::read_source(system.as_ref(), &entry.path, &entry.shown) {
            Ok((source, faults)) => {
                let Some(task) = loaded.tasks.get_mut(name) else {
                    return;
                };
                task.stamp.1 = stamp.unwrap_or_default();
                task.read_us = read_us;
                task.faults = faults;
                if *task.input.source(&self.db) != source {
                    changed.task(&entry.shown);
                    task.input.edit(&mut self.db, source);
                }
            }
            // Whoever needs it next reads it, and says why that is not possible.
            Err(fault) => {
                loaded.tasks.remove(name);
                loaded.unread.insert(name.to_owned(), fault);
                changed.task(&entry.shown);
            }
        }
    }

    /// Looks whether a file that steps use has another content.
    fn apply_file(&mut self, path: &Path, changed: &mut Changed) {
        let system = self.system.clone();
        match self.memo.differs(system.as_ref(), path) {
            Some(true) => {
                changed.file(self.shown(path));
            }
            Some(false) => {}
            // Nobody hashed it yet, but somebody may have looked into it.
            None => {
                let is_used = |file: &ArtifactFile| is_same_path(&file.source, path);
                let mut folders = self.folders.values();
                if folders.any(|loaded| files(&loaded.folder).any(is_used)) {
                    changed.file(self.shown(path));
                }
            }
        }
    }

    /// Returns a path as people are shown it.
    pub fn shown(&self, path: &Path) -> String {
        for located in &self.located {
            let root = self.system.canonical(&located.root);
            let roots = [Some(located.root.clone()), root.ok()];
            for root in roots.into_iter().flatten() {
                if let Ok(below) = path.strip_prefix(&root)
                    && located.lone.is_none()
                {
                    let below = below.to_string_lossy();
                    return match located.shown.is_empty() {
                        true => below.into_owned(),
                        false => format!("{}/{below}", located.shown),
                    };
                }
            }
        }
        let here = self.system.current_folder().unwrap_or_default();
        let path = path.strip_prefix(&here).unwrap_or(path);
        path.to_string_lossy().into_owned()
    }

    /// Returns the file whose text a fault shows under this name.
    pub fn file_of(&self, shown: &str) -> Option<PathBuf> {
        let tasks = self
            .folders
            .values()
            .flat_map(|loaded| &loaded.folder.tasks);
        if let Some(task) = tasks.into_iter().find(|task| task.shown == shown) {
            return Some(absolute(self.system.as_ref(), &task.path));
        }
        let found = |path: PathBuf| {
            let there = self.system.metadata(&path);
            let is_file = there.is_ok_and(|found| found.kind == FileKind::File);
            is_file.then(|| absolute(self.system.as_ref(), &path))
        };
        let of_folders = self.located.iter().filter(|one| one.lone.is_none());
        let mut of_folders = of_folders.filter_map(|one| {
            let below = match one.shown.as_str() {
                "" => shown,
                folder => shown.strip_prefix(folder)?.strip_prefix('/')?,
            };
            found(one.root.join(below))
        });
        of_folders.next().or_else(|| {
            let config = self.workspace.join(config::FILE_NAME);
            let is_config = Path::new(shown).file_name() == config.file_name();
            found(match is_config {
                true => config,
                false => PathBuf::from(shown),
            })
        })
    }
}

/// Returns whether two paths are written alike but for `.` parts.
fn is_same_path(one: &Path, other: &Path) -> bool {
    let parts = |path| {
        let parts = Path::components(path);
        parts.filter(|part| *part != std::path::Component::CurDir)
    };
    parts(one).eq(parts(other))
}

/// Returns every file of the artifacts and definitions of a folder.
fn files(folder: &TaskFolder) -> impl Iterator<Item = &ArtifactFile> {
    let artifacts = folder.artifacts.values().chain(folder.skills.values());
    let definitions = folder.envs.values().chain(folder.agents.values());
    let of_definitions = definitions.flat_map(|one| &one.files);
    artifacts.flat_map(|one| &one.files).chain(of_definitions)
}

#[cfg(test)]
mod tests;
