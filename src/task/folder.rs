//! Reads a task folder: which tasks, evals, artifacts, skills, envs and agents it has.
//!
//! Only what a folder says of itself is read here. The steps of a task are read by [`super::parse`]. A fault that
//! matters only to who uses an entry, such as a link that leads out of the folder, is kept with the entry.

mod artifact;
mod content;
mod definition;
mod entry;
mod eval;
mod leaving;
mod locate;
mod settings;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::diagnostic::{Diagnostic, Source, did_you_mean};
use crate::json::Value;
use crate::system::{FileKind, System};
use crate::task::parse::Written;
use entry::Reader;

pub use crate::task::ArtifactKind;
pub use definition::{definition_file, definition_schema};
pub use eval::{Eval, EvalTask};
pub use leaving::is_leaving;
pub use locate::{Located, locate};

/// The largest JSON, TOML or Markdown file that is read, in bytes.
pub const MAX_FILE_BYTES: u64 = 8 << 20;

/// The files that say what an artifact, env or agent is; they are not part of its content.
pub const SETTINGS_FILES: [&str; 3] = ["artifact.toml", "env.toml", "agent.toml"];

/// The file that gives envs and agents more names.
pub const ALIASES: &str = "aliases.toml";

/// The folders that a task folder may have; it has at least one of them.
pub const KIND_FOLDERS: [&str; 6] = ["tasks", "evals", "artifacts", "skills", "envs", "agents"];

/// What a task folder holds.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct TaskFolder {
    /// Where it is.
    pub root: PathBuf,
    /// The folder's own name.
    pub name: String,
    /// What its paths are shown below, empty for the current folder.
    pub shown: String,
    /// The first line of text of its `README.md`.
    pub description: Option<String>,
    /// Its tasks, sorted by name.
    pub tasks: Vec<TaskEntry>,
    /// Its evals, sorted by name.
    pub evals: Vec<Eval>,
    /// Its artifacts by name, skills not among them.
    pub artifacts: BTreeMap<String, Artifact>,
    /// Its skills by name.
    pub skills: BTreeMap<String, Artifact>,
    /// Its envs by name.
    pub envs: BTreeMap<String, Definition>,
    /// Its agents by name.
    pub agents: BTreeMap<String, Definition>,
    /// Other names of its agents and envs.
    pub aliases: Aliases,
    /// Entries that mean nothing to a task, by path below the root.
    pub ignored: Vec<String>,
    /// Every folder whose listing was read.
    pub listings: Vec<PathBuf>,
    /// Every file that was read to know all this.
    pub config_files: Vec<PathBuf>,
}

/// A task file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskEntry {
    /// The name of the task.
    pub name: String,
    /// Where the file is.
    pub path: PathBuf,
    /// The path as people are shown it.
    pub shown: String,
}

/// An artifact or skill.
#[derive(Clone, Debug, PartialEq)]
pub struct Artifact {
    /// The folder's name, by which steps refer to it.
    pub name: String,
    /// The id in contexts: as declared, else `@local/<task folder>/<name>`.
    pub id: String,
    /// What it holds.
    pub kind: ArtifactKind,
    /// Where it is.
    pub folder: PathBuf,
    /// The path as people are shown it.
    pub shown: String,
    /// Its files, sorted by path.
    pub files: Vec<ArtifactFile>,
    /// What its TOML file or front matter says.
    pub settings: Value,
    /// Faults of its content, which matter to who uses it.
    pub faults: Vec<Diagnostic>,
}

/// An env or agent.
#[derive(Clone, Debug, PartialEq)]
pub struct Definition {
    /// The folder's name, by which steps refer to it.
    pub name: String,
    /// The id in contexts: as declared, else `@local/<task folder>/<name>`.
    pub id: String,
    /// Its type, such as `mcp_server`.
    pub kind: String,
    /// Where it is.
    pub folder: PathBuf,
    /// Its files, sorted by path.
    pub files: Vec<ArtifactFile>,
    /// What its TOML file says.
    pub settings: Value,
    /// The TOML file, where there is one.
    pub written: Option<Arc<Written>>,
    /// The script that stands in a file of its own, where there is one.
    pub script: Option<Arc<Written>>,
    /// Whether a file of the folder says what it is: its TOML file, a Dockerfile or a script.
    pub is_told: bool,
    /// Whether its TOML file or script has errors, so that nothing is said that depends on what they say.
    pub is_doubtful: bool,
    /// Faults of its content, which matter to who uses it.
    pub faults: Vec<Diagnostic>,
}

/// A file of an artifact, env or agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArtifactFile {
    /// The path in the folder: composed Unicode, with `/`.
    pub path: String,
    /// The file itself, links followed.
    pub source: PathBuf,
    /// Whether it may be executed.
    pub executable: bool,
}

/// Other names of agents and envs.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Aliases {
    /// For each alias, the agent that it means.
    pub agents: BTreeMap<String, String>,
    /// For each alias, the env that it means.
    pub envs: BTreeMap<String, String>,
}

impl TaskFolder {
    /// Returns the artifact or skill that a step means by a name or id.
    pub fn artifact(&self, name: &str) -> Option<&Artifact> {
        let all = || self.artifacts.values().chain(self.skills.values());
        self.artifacts
            .get(name)
            .or_else(|| self.skills.get(name))
            .or_else(|| all().find(|artifact| artifact.id == name))
    }

    /// Returns the path of an entry as people are shown it.
    pub fn shown_path(&self, below: &str) -> String {
        if self.shown.is_empty() {
            below.to_owned()
        } else {
            format!("{}/{below}", self.shown)
        }
    }
}

/// Reads the task folder at `root`, whose paths are shown below `shown`.
pub fn read(system: &dyn System, root: &Path, shown: &str) -> (TaskFolder, Vec<Diagnostic>) {
    let mut reader = Reader::new(system, root, shown);
    reader.root_entries();
    if !reader.has_kind_folder && reader.faults.is_empty() {
        let folder = if shown.is_empty() { "." } else { shown };
        reader.fault(
            "not-a-task-folder",
            format!("`{folder}` is no task folder: it has none of {}", kinds()),
            "name a folder that has tasks/, or a task file",
        );
    }
    read_entries(reader)
}

/// Reads a task file that stands alone, with the artifacts and skills beside it.
pub fn read_lone(system: &dyn System, file: &Path, shown: &str) -> (TaskFolder, Vec<Diagnostic>) {
    let root = match file.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let below = shown.rsplit_once('/').map_or("", |(below, _)| below);
    let mut reader = Reader::new(system, root, below);
    reader.kind_folders.clear();
    for kind in ["artifacts", "skills"] {
        if matches!(system.metadata(&root.join(kind)), Ok(found) if found.kind == FileKind::Folder)
        {
            reader.kind_folders.insert(kind, root.join(kind));
        }
    }
    let name = file
        .file_stem()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default();
    let task = TaskEntry {
        name,
        path: file.to_path_buf(),
        shown: shown.to_owned(),
    };
    reader.folder.tasks.push(task);
    read_entries(reader)
}

/// Reads the folder of one agent, which may stand anywhere.
pub fn read_agent(
    system: &dyn System,
    path: &Path,
    shown: &str,
) -> (Option<Definition>, Vec<Diagnostic>) {
    let mut reader = Reader::new(system, path, shown);
    let name = reader.folder.name.clone();
    let entry = entry::Entry {
        name: name.clone(),
        path: path.to_path_buf(),
        kind: FileKind::Folder,
        fault: None,
    };
    reader.definition("agents", entry, shown);
    let (mut folder, faults) = reader.finish();
    (folder.agents.remove(&name), faults)
}

/// Reads the folder or lone task that an argument was found to mean.
pub fn read_located(system: &dyn System, located: &Located) -> (TaskFolder, Vec<Diagnostic>) {
    match &located.lone {
        Some(file) => read_lone(system, file, &located.shown),
        None => read(system, &located.root, &located.shown),
    }
}

fn read_entries(mut reader: Reader<'_>) -> (TaskFolder, Vec<Diagnostic>) {
    reader.tasks();
    reader.artifacts();
    reader.skills();
    reader.definitions("envs");
    reader.definitions("agents");
    reader.aliases();
    reader.evals();
    reader.readme();
    reader.finish()
}

fn kinds() -> String {
    KIND_FOLDERS.map(|kind| format!("{kind}/")).join(", ")
}

/// Reads a file that an author wrote, or says why it can't be read.
///
/// Faults of its encoding come with the text, which is usable all the same.
pub fn read_source(
    system: &dyn System,
    path: &Path,
    shown: &str,
) -> Result<(Source, Vec<Diagnostic>), Diagnostic> {
    match system.read(path, MAX_FILE_BYTES) {
        Ok(bytes) => Ok(Source::from_bytes(shown, &bytes)),
        Err(error) => Err(unreadable(system, path, shown, &error)),
    }
}

/// Says why something can't be read.
fn unreadable(system: &dyn System, path: &Path, shown: &str, error: &io::Error) -> Diagnostic {
    let kind = system.metadata(path).map(|found| found.kind);
    match (error.kind(), kind) {
        (io::ErrorKind::FileTooLarge, _) => Diagnostic::error(
            "file-too-large",
            format!("`{shown}` is larger than {} MiB", MAX_FILE_BYTES >> 20),
        )
        .help("move long texts and tables into files of their own and refer to them by path"),
        (io::ErrorKind::NotFound, _) => {
            Diagnostic::error("no-such-path", format!("`{shown}` does not exist"))
        }
        (_, Ok(FileKind::Folder)) => Diagnostic::error(
            "not-a-file",
            format!("`{shown}` is a folder, but must be a file"),
        ),
        (_, Ok(FileKind::Other)) => Diagnostic::error(
            "not-a-file",
            format!("`{shown}` is a socket, pipe or device, but must be a file"),
        ),
        _ => Diagnostic::error(
            "unreadable",
            format!("`{shown}` can't be read: {}", reason(error)),
        )
        .help("look at its permissions"),
    }
}

/// Returns the reason of the system without its number.
fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    let mut chars = text.chars();
    chars.next().map_or(String::new(), |first| {
        first.to_lowercase().chain(chars).collect()
    })
}

/// Adds "did you mean" or the list of what there is.
fn suggest<'a>(name: &str, among: impl Iterator<Item = &'a str> + Clone) -> Option<String> {
    did_you_mean(name, among.clone()).or_else(|| {
        let all: Vec<String> = among.map(|name| format!("`{name}`")).collect();
        (1..=8)
            .contains(&all.len())
            .then(|| format!("there is {}", all.join(", ")))
    })
}

#[cfg(test)]
mod tests;
