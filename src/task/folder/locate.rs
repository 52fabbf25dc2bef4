//! Finds the task folders and task files that the arguments of a command mean.

use std::path::{Path, PathBuf};

use super::{ALIASES, KIND_FOLDERS, kinds};
use crate::diagnostic::{Diagnostic, visible_line};
use crate::system::{FileKind, System};

/// What an argument means: a task folder, a task of one, or a task file that stands alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Located {
    /// The task folder, or the folder of a lone task file.
    pub root: PathBuf,
    /// The path as people are shown it: of the folder, or of the lone task file.
    pub shown: String,
    /// The only task that is meant, if not all are.
    pub only: Option<String>,
    /// The task file that stands alone.
    pub lone: Option<PathBuf>,
}

/// Finds what the arguments mean; no argument means the current folder.
pub fn locate(system: &dyn System, args: &[PathBuf]) -> (Vec<Located>, Vec<Diagnostic>) {
    let (mut found, mut faults) = (Vec::new(), Vec::new());
    let here = [PathBuf::from(".")];
    let args = if args.is_empty() { &here[..] } else { args };
    for arg in args {
        match one(system, arg) {
            Ok(located) => {
                for located in located {
                    if !found.contains(&located) {
                        found.push(located);
                    }
                }
            }
            Err(fault) => faults.push(fault),
        }
    }
    (found, faults)
}

fn one(system: &dyn System, arg: &Path) -> Result<Vec<Located>, Diagnostic> {
    let arg = tidy(arg);
    let text = arg.to_string_lossy().into_owned();
    let shown = visible_line(&text).into_owned();
    let kind = match system.metadata(&arg) {
        Ok(found) => found.kind,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Err(
                Diagnostic::error("no-such-path", format!("`{shown}` does not exist"))
                    .help(near(system, &arg)),
            );
        }
        Err(error) => {
            let headline = format!("`{shown}` can't be read: {}", super::reason(&error));
            return Err(Diagnostic::error("unreadable", headline));
        }
    };
    match kind {
        FileKind::Folder => folder(system, &arg, &shown),
        FileKind::File | FileKind::Link
            if arg.extension().is_some_and(|ending| ending == "json") =>
        {
            Ok(vec![file(system, arg, text)])
        }
        FileKind::File | FileKind::Link => Err(Diagnostic::error(
            "not-a-task",
            format!("`{shown}` is neither a task folder nor a .json file"),
        )
        .help("name a task folder, or a task file that ends with .json")),
        FileKind::Other => Err(Diagnostic::error(
            "not-a-file",
            format!("`{shown}` is a socket, pipe or device, but must be a file or folder"),
        )),
    }
}

/// Returns the path without `.` parts.
fn tidy(path: &Path) -> PathBuf {
    let tidy: PathBuf = path
        .components()
        .filter(|part| !matches!(part, std::path::Component::CurDir))
        .collect();
    if tidy.as_os_str().is_empty() {
        PathBuf::from(".")
    } else {
        tidy
    }
}

fn file(system: &dyn System, path: PathBuf, shown: String) -> Located {
    let parent = path.parent().map(Path::to_path_buf).unwrap_or_default();
    let name = path
        .file_stem()
        .map(|name| name.to_string_lossy().into_owned());
    let full = match parent.file_name() {
        Some(_) => parent.clone(),
        None => system
            .canonical(Path::new("."))
            .unwrap_or_default()
            .join(&parent),
    };
    let or_here = |path: PathBuf| {
        if path.as_os_str().is_empty() {
            PathBuf::from(".")
        } else {
            path
        }
    };
    if full.file_name().is_some_and(|name| name == "tasks") {
        let root = match parent.file_name() {
            Some(_) => or_here(parent.parent().map(Path::to_path_buf).unwrap_or_default()),
            None => PathBuf::from(".."),
        };
        let shown = if root == Path::new(".") {
            String::new()
        } else {
            root.to_string_lossy().into_owned()
        };
        return Located {
            root,
            shown,
            only: name,
            lone: None,
        };
    }
    Located {
        root: or_here(parent),
        shown,
        only: name,
        lone: Some(path),
    }
}

fn folder(system: &dyn System, path: &Path, shown: &str) -> Result<Vec<Located>, Diagnostic> {
    let is_here = path == Path::new(".");
    let below = if is_here { "" } else { shown };
    let whole = |root: &Path, shown: String| Located {
        root: root.to_path_buf(),
        shown,
        only: None,
        lone: None,
    };
    if is_task_folder(system, path) {
        let tasks = path.join("tasks");
        let inner = task_folders_in(system, &tasks);
        let has_task = || {
            let entries = system.read_folder(&tasks).unwrap_or_default();
            entries
                .iter()
                .any(|entry| entry.name.to_string_lossy().ends_with(".json"))
        };
        if inner.is_empty() || has_task() {
            return Ok(vec![whole(path, below.to_owned())]);
        }
        let below = if below.is_empty() {
            "tasks".to_owned()
        } else {
            format!("{below}/tasks")
        };
        return Ok(inner
            .iter()
            .map(|name| whole(&tasks.join(name), format!("{below}/{name}")))
            .collect());
    }
    let inner = task_folders_in(system, path);
    if inner.is_empty() {
        return Err(Diagnostic::error(
            "not-a-task-folder",
            format!("`{shown}` is no task folder: it has none of {}", kinds()),
        )
        .help("name a folder that has tasks/, or a task file"));
    }
    let join = |name: &String| {
        if is_here {
            PathBuf::from(name)
        } else {
            path.join(name)
        }
    };
    let shown_of = |name: &String| {
        if is_here {
            name.clone()
        } else {
            format!("{shown}/{name}")
        }
    };
    Ok(inner
        .iter()
        .map(|name| whole(&join(name), shown_of(name)))
        .collect())
}

/// Returns whether a folder has one of the folders that make it a task folder, or one that was meant to be.
fn is_task_folder(system: &dyn System, path: &Path) -> bool {
    let is_folder = |path: PathBuf| {
        system
            .metadata(&path)
            .is_ok_and(|found| found.kind == FileKind::Folder)
    };
    if KIND_FOLDERS.iter().any(|kind| is_folder(path.join(kind))) {
        return true;
    }
    system
        .read_folder(path)
        .unwrap_or_default()
        .iter()
        .any(|entry| {
            let name = entry.name.to_string_lossy();
            let is_marker = ["bundle.toml", ALIASES].contains(&&*name);
            is_marker
                || entry.kind == FileKind::Folder && KIND_FOLDERS.contains(&&*name.to_lowercase())
        })
}

/// Returns the names of the task folders directly in a folder.
fn task_folders_in(system: &dyn System, path: &Path) -> Vec<String> {
    let entries = system.read_folder(path).unwrap_or_default();
    let names = entries
        .iter()
        .filter(|entry| entry.kind == FileKind::Folder);
    let names = names
        .filter_map(|entry| entry.name.to_str())
        .filter(|name| !name.starts_with('.'));
    names
        .filter(|name| is_task_folder(system, &path.join(name)))
        .map(str::to_owned)
        .collect()
}

/// Returns the entry beside a missing path that was probably meant.
fn near(system: &dyn System, path: &Path) -> Option<String> {
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let entries = system.read_folder(parent).ok()?;
    let names: Vec<String> = entries
        .iter()
        .filter_map(|entry| entry.name.to_str())
        .map(str::to_owned)
        .collect();
    crate::diagnostic::did_you_mean(
        path.file_name()?.to_str()?,
        names.iter().map(String::as_str),
    )
}
