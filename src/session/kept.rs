//! What a workspace remembers between runs so that a run in which nothing changed reads two files and stats the inputs.
//!
//! For each task whose results are all kept: the files that went into it with their stamps, how it came out, and where its
//! records are. A stamp only decides whether to look again; when one differs the task is read, hashed and verified as if
//! nothing were remembered. Losing this file loses milliseconds.

mod format;

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use aebuild_cache::{BlobRef, Place};

use crate::digest::Digest;
use crate::event::{Outcome, Score};
use crate::plan::{FileMemo, is_settled};
use crate::system::{Stamp, System};
use crate::task::folder::SETTINGS_FILES;

/// A file or folder with a stamp that it had, by position in the table of [`Kept`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct FileIx(u32);

/// What is remembered.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Kept {
    files: Vec<(PathBuf, Stamp)>,
    digests: Vec<(FileIx, Digest)>,
    tools: Vec<Tool>,
    folders: Vec<KeptFolder>,
    /// For each path, its newest entry.
    by_path: HashMap<PathBuf, FileIx>,
    /// For each file, whether it was found unchanged in this process; `None` where nobody asked.
    seen: Vec<Option<bool>>,
    changed: bool,
}

#[derive(Clone, Debug, PartialEq)]
struct Tool {
    name: String,
    program: Option<(PathBuf, Stamp)>,
    version: String,
}

/// A task folder whose listing is remembered.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct KeptFolder {
    root: PathBuf,
    watched: Vec<FileIx>,
    /// The tasks that a run without selection runs, in order.
    tasks: Vec<(String, String)>,
    /// What is remembered of tasks, by name; one entry a setting.
    results: BTreeMap<String, Vec<KeptTask>>,
}

/// A task all of whose results are kept.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct KeptTask {
    /// Its name.
    pub(super) name: String,
    /// The task as shown.
    pub(super) shown: String,
    /// The digest of what the run was set to.
    pub(super) setting: Digest,
    /// The files that went into it.
    pub(super) sources: Vec<FileIx>,
    /// How many steps are kept.
    pub(super) steps: u64,
    /// How many steps only provide a live thing.
    pub(super) deferred: u64,
    /// The time that its steps took when they ran, microseconds.
    pub(super) saved_us: u64,
    /// How it came out.
    pub(super) outcome: Outcome,
    /// Its scores.
    pub(super) scores: Vec<Score>,
    /// The run that last looked at it.
    pub(super) run: String,
    /// Where its records are.
    pub(super) places: Vec<Place>,
    /// The blobs that its records name.
    pub(super) blobs: Vec<BlobRef>,
}

impl Kept {
    /// Reads what is remembered; what is damaged or of another version counts as nothing.
    pub(super) fn read(system: &dyn System, path: &Path) -> Kept {
        let bytes = system.read(path, 1 << 30).unwrap_or_default();
        format::decode(&bytes).unwrap_or_default()
    }

    /// Returns the bytes to write, or `None` where nothing is new.
    pub(super) fn to_write(&self) -> Option<Vec<u8>> {
        self.changed.then(|| format::encode(self))
    }

    /// Returns the digests that are remembered.
    pub(super) fn memo(&self) -> FileMemo {
        FileMemo::from_known(self.digests.iter().map(|(file, digest)| {
            let (path, stamp) = &self.files[file.0 as usize];
            (path.clone(), *stamp, *digest)
        }))
    }

    /// Takes in the digests of a memo.
    pub(super) fn set_memo(&mut self, memo: &FileMemo) {
        let mut digests = Vec::new();
        for (path, stamp, digest) in memo.known() {
            digests.push((self.file(path, stamp), digest));
        }
        self.changed |= digests != self.digests;
        self.digests = digests;
    }

    /// Returns the version of a tool, where the program is still the one that was asked.
    pub(super) fn tool(&self, name: &str, program: Option<&(PathBuf, Stamp)>) -> Option<String> {
        let tool = self.tools.iter().find(|tool| tool.name == name)?;
        (tool.program.as_ref() == program).then(|| tool.version.clone())
    }

    /// Remembers the version of a tool.
    pub(super) fn set_tool(
        &mut self,
        name: &str,
        program: Option<(PathBuf, Stamp)>,
        version: &str,
    ) {
        self.tools.retain(|tool| tool.name != name);
        let (name, version) = (name.to_owned(), version.to_owned());
        self.tools.push(Tool {
            name,
            program,
            version,
        });
        self.changed = true;
    }

    /// Returns the table's entry for a path with this stamp.
    ///
    /// A path that has another stamp now gets another entry: what refers to the old one was made from what the file was
    /// then, and must not take it for what it is now. Entries that nothing refers to are not written.
    fn file(&mut self, path: &Path, stamp: Stamp) -> FileIx {
        if let Some(file) = self.by_path.get(path)
            && self.files[file.0 as usize].1 == stamp
        {
            return *file;
        }
        let file = FileIx(self.files.len() as u32);
        self.files.push((path.to_path_buf(), stamp));
        self.seen.push(Some(true));
        self.by_path.insert(path.to_path_buf(), file);
        self.changed = true;
        file
    }

    /// Forgets which files were found unchanged.
    pub(super) fn look_again(&mut self) {
        self.seen.fill(None);
    }

    fn is_same(&mut self, system: &dyn System, file: FileIx) -> bool {
        let at = file.0 as usize;
        if let Some(same) = self.seen[at] {
            return same;
        }
        let (path, stamp) = &self.files[at];
        // What is not there has the stamp of nothing.
        let now = system.metadata(path).map(|metadata| metadata.stamp);
        let same = now.unwrap_or_default() == *stamp;
        self.seen[at] = Some(same);
        same
    }

    /// Returns the tasks of a folder, name and shown, where its listing has not changed.
    pub(super) fn tasks_of(
        &mut self,
        system: &dyn System,
        root: &Path,
    ) -> Option<Vec<(String, String)>> {
        let at = self.folders.iter().position(|folder| folder.root == root)?;
        let watched = self.folders[at].watched.clone();
        let same = watched.into_iter().all(|file| self.is_same(system, file));
        same.then(|| self.folders[at].tasks.clone())
    }

    /// Returns what is remembered of a task, where every file that went into it is as it was.
    pub(super) fn task(
        &mut self,
        system: &dyn System,
        root: &Path,
        name: &str,
        setting: &Digest,
    ) -> Option<KeptTask> {
        let folder = self.folders.iter().find(|folder| folder.root == root)?;
        let of_name = folder.results.get(name)?;
        let task = of_name
            .iter()
            .find(|task| task.setting == *setting)?
            .clone();
        let names = folder.watched.iter().copied();
        let names = names.filter(|file| decides_names(root, &self.files[file.0 as usize].0));
        let sources: Vec<FileIx> = names.chain(task.sources.iter().copied()).collect();
        sources
            .into_iter()
            .all(|file| self.is_same(system, file))
            .then_some(task)
    }

    /// Remembers the listing of a folder; `false` where it may have changed since, unnoticed.
    pub(super) fn set_folder(
        &mut self,
        root: &Path,
        watched: &[(PathBuf, Stamp)],
        read_us: i64,
        tasks: Vec<(String, String)>,
    ) -> bool {
        let settled = watched
            .iter()
            .all(|(_, stamp)| is_settled(stamp, i128::from(read_us) * 1000));
        if !settled {
            let before = self.folders.len();
            self.folders.retain(|folder| folder.root != root);
            self.changed |= self.folders.len() != before;
            return false;
        }
        let watched: Vec<FileIx> = watched
            .iter()
            .map(|(path, stamp)| self.file(path, *stamp))
            .collect();
        match self.folders.iter_mut().find(|folder| folder.root == root) {
            Some(folder) => {
                self.changed |= folder.watched != watched || folder.tasks != tasks;
                folder.watched = watched;
                folder.tasks = tasks;
            }
            None => {
                let root = root.to_path_buf();
                let results = BTreeMap::new();
                self.folders.push(KeptFolder {
                    root,
                    watched,
                    tasks,
                    results,
                });
                self.changed = true;
            }
        }
        true
    }

    /// Remembers a task, unless one of its files may have changed unnoticed since it was read.
    pub(super) fn set_task(
        &mut self,
        root: &Path,
        mut task: KeptTask,
        sources: &[(PathBuf, Stamp)],
        read_us: i64,
    ) {
        self.forget_task(root, &task.name, &task.setting);
        if !sources
            .iter()
            .all(|(_, stamp)| is_settled(stamp, i128::from(read_us) * 1000))
        {
            return;
        }
        task.sources = sources
            .iter()
            .map(|(path, stamp)| self.file(path, *stamp))
            .collect();
        if let Some(folder) = self.folders.iter_mut().find(|folder| folder.root == root) {
            folder
                .results
                .entry(task.name.clone())
                .or_default()
                .push(task);
            self.changed = true;
        }
    }

    /// Forgets a task.
    pub(super) fn forget_task(&mut self, root: &Path, name: &str, setting: &Digest) {
        if let Some(folder) = self.folders.iter_mut().find(|folder| folder.root == root) {
            let Some(of_name) = folder.results.get_mut(name) else {
                return;
            };
            let before = of_name.len();
            of_name.retain(|task| task.setting != *setting);
            self.changed |= of_name.len() != before;
        }
    }
}

/// Returns whether a path of a task folder has a part in what the names in its tasks mean: the folders that hold what can be
/// named, and what says under which id each is known.
fn decides_names(root: &Path, path: &Path) -> bool {
    let Ok(below) = path.strip_prefix(root) else {
        return true;
    };
    let first = below.components().next().map(|first| first.as_os_str());
    let holds_tasks = first.is_some_and(|first| first == "tasks" || first == "evals");
    let is_setting = path.file_name().and_then(|name| name.to_str());
    let is_setting = is_setting.is_some_and(|name| SETTINGS_FILES.contains(&name));
    // Of the folder itself only what has a meaning counts, and each such path is watched.
    !holds_tasks && (is_setting || (1..=2).contains(&below.components().count()))
}
