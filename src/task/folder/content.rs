//! The files of an artifact, env or agent folder, links read through where they stay in the task folder.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use super::entry::Entry;
use super::leaving::{is_leaving, original_of};
use super::{ArtifactFile, reason};
use crate::diagnostic::{Diagnostic, visible_line};
use crate::system::{FileKind, FolderEntry, System};
use crate::task::parse::names::{composed, folded};

/// The most files of one folder.
const MAX_FILES: usize = 100_000;
/// The most faults that are listed for one folder.
const MAX_FAULTS: usize = 20;
/// What the system says for links that go round in a circle.
const ELOOP: i32 = 40;

/// What stands in a folder.
#[derive(Default)]
pub(super) struct Content {
    /// The files, sorted by path.
    pub files: Vec<ArtifactFile>,
    /// Faults, which matter to who uses the folder.
    pub faults: Vec<Diagnostic>,
    /// Whether there is nothing but leavings.
    pub is_empty: bool,
    /// The folders that were listed.
    pub listings: Vec<PathBuf>,
}

/// Lists the files of an entry, or keeps why that can't be done.
pub(super) fn of_entry(
    system: &dyn System,
    real_root: &Path,
    entry: &Entry,
    shown: &str,
    skip: &str,
) -> Content {
    match &entry.fault {
        Some(fault) => Content {
            faults: vec![fault.clone()],
            ..Content::default()
        },
        None => list(system, real_root, &entry.path, shown, skip),
    }
}

/// A folder that is still to be listed.
struct Todo {
    path: PathBuf,
    below: String,
    /// The folders, links resolved, in which the links stand that led here.
    through: Vec<PathBuf>,
}

/// Lists the files of a folder, without the file of settings that `skip` names.
fn list(system: &dyn System, real_root: &Path, folder: &Path, shown: &str, skip: &str) -> Content {
    let mut content = Content {
        is_empty: true,
        ..Content::default()
    };
    let first = Todo {
        path: folder.to_path_buf(),
        below: String::new(),
        through: Vec::new(),
    };
    let mut todo = vec![first];
    let mut visited = 0usize;
    while let Some(at) = todo.pop() {
        let shown_here = format!(
            "{shown}{}{}",
            if at.below.is_empty() { "" } else { "/" },
            at.below
        );
        content.listings.push(at.path.clone());
        let entries = match system.read_folder(&at.path) {
            Ok(entries) => entries,
            Err(error) => {
                let headline = format!("`{shown_here}` can't be read: {}", reason(&error));
                content
                    .faults
                    .push(Diagnostic::error("unreadable", headline));
                content.is_empty = false;
                continue;
            }
        };
        let names = entries.iter().filter_map(|entry| entry.name.to_str());
        let names: HashSet<String> = names.map(str::to_owned).collect();
        let is_backup = |entry: &FolderEntry, name: &str| {
            let original = original_of(name).filter(|_| entry.kind != FileKind::Folder);
            original.is_some_and(|original| names.contains(original))
        };
        for entry in entries {
            let Some(name) = entry.name.to_str() else {
                let lossy = entry.name.to_string_lossy().into_owned();
                let headline = format!(
                    "`{shown_here}/{}` has a name that is not UTF-8",
                    visible_line(&lossy)
                );
                content.fault(Diagnostic::error("name-not-utf-8", headline).help("rename it"));
                content.is_empty = false;
                continue;
            };
            if is_leaving(name) || is_backup(&entry, name) {
                continue;
            }
            content.is_empty = false;
            visited += 1;
            if visited > MAX_FILES {
                content.faults.push(
                    Diagnostic::error(
                        "too-many-files",
                        format!("`{shown}` has more than {MAX_FILES} entries"),
                    )
                    .help("pack them into an archive"),
                );
                content.finish(shown);
                return content;
            }
            if at.below.is_empty() && name == skip {
                continue;
            }
            let below = if at.below.is_empty() {
                name.to_owned()
            } else {
                format!("{}/{name}", at.below)
            };
            if name.chars().any(char::is_control) {
                let headline = format!(
                    "`{shown}/{}` has a control character in its name",
                    visible_line(&below)
                );
                content.fault(Diagnostic::error("bad-file-name", headline).help("rename it"));
                continue;
            }
            let path = at.path.join(name);
            let shown_entry = format!("{shown}/{below}");
            match entry.kind {
                FileKind::Folder => todo.push(Todo {
                    path,
                    below,
                    through: at.through.clone(),
                }),
                FileKind::File => content.file(system, path, below, &shown_entry),
                FileKind::Other => content.fault(special(&shown_entry)),
                FileKind::Link => match follow(system, real_root, &path, &shown_entry) {
                    Err(fault) => content.fault(fault),
                    Ok((target, FileKind::File)) => {
                        content.file(system, target, below, &shown_entry)
                    }
                    Ok((target, FileKind::Folder)) => {
                        let here = system
                            .canonical(&at.path)
                            .unwrap_or_else(|_| at.path.clone());
                        let mut through = at.through.clone();
                        through.push(here);
                        if through.iter().any(|folder| folder.starts_with(&target)) {
                            content.fault(link_loop(&shown_entry));
                        } else {
                            todo.push(Todo {
                                path: target,
                                below,
                                through,
                            });
                        }
                    }
                    Ok(_) => content.fault(special(&shown_entry)),
                },
            }
        }
    }
    content.finish(shown);
    content
}

impl Content {
    fn fault(&mut self, fault: Diagnostic) {
        if self.faults.len() < MAX_FAULTS {
            self.faults.push(fault);
        }
    }

    fn file(&mut self, system: &dyn System, source: PathBuf, below: String, shown: &str) {
        match system.metadata(&source) {
            Ok(found) => {
                let path = composed(&below);
                self.files.push(ArtifactFile {
                    path,
                    source,
                    executable: found.executable,
                });
            }
            Err(error) => {
                let headline = format!("`{shown}` can't be read: {}", reason(&error));
                self.fault(Diagnostic::error("unreadable", headline));
            }
        }
    }

    /// Sorts the files and reports those whose paths are equal or nearly so.
    fn finish(&mut self, shown: &str) {
        self.files.sort_by(|a, b| a.path.cmp(&b.path));
        let mut collisions = Vec::new();
        let mut by_fold: HashMap<String, &str> = HashMap::with_capacity(self.files.len());
        for file in &self.files {
            let Some(other) = by_fold.insert(folded(&file.path), &file.path) else {
                continue;
            };
            let (one, two) = (visible_line(other), visible_line(&file.path));
            if other == file.path {
                let headline = format!(
                    "two files of `{shown}` have the path `{two}`, written in two Unicode forms"
                );
                collisions
                    .push(Diagnostic::error("names-collide", headline).help("rename one of them"));
            } else {
                let headline =
                    format!("files `{one}` and `{two}` of `{shown}` differ in case only");
                collisions.push(
                    Diagnostic::warning("files-differ-in-case", headline)
                        .help("rename one of them, or they are one file on some systems"),
                );
            }
        }
        collisions.truncate(MAX_FAULTS);
        self.faults.extend(collisions);
    }
}

/// Returns what a link leads to, which must be in the task folder.
pub(super) fn follow(
    system: &dyn System,
    real_root: &Path,
    link: &Path,
    shown: &str,
) -> Result<(PathBuf, FileKind), Diagnostic> {
    let target = || {
        let target = system.read_link(link).unwrap_or_default();
        visible_line(&target.to_string_lossy()).into_owned()
    };
    let shown = visible_line(shown);
    let real = system
        .canonical(link)
        .map_err(|error| match error.raw_os_error() {
            Some(ELOOP) => link_loop(&shown),
            _ => Diagnostic::error(
                "broken-link",
                format!("`{shown}` links to `{}`, which does not exist", target()),
            )
            .help("delete the link, or make what it leads to"),
        })?;
    if !real.starts_with(real_root) {
        return Err(Diagnostic::error(
            "link-outside",
            format!("`{shown}` links to `{}`, outside the task folder", target()),
        )
        .help("copy what it leads to into the task folder"));
    }
    match system.metadata(&real) {
        Ok(found) => Ok((real, found.kind)),
        Err(error) => Err(Diagnostic::error(
            "unreadable",
            format!("`{shown}` can't be read: {}", reason(&error)),
        )),
    }
}

fn link_loop(shown: &str) -> Diagnostic {
    Diagnostic::error(
        "link-loop",
        format!(
            "`{}` is a link that leads back to itself",
            visible_line(shown)
        ),
    )
    .help("delete the link")
}

fn special(shown: &str) -> Diagnostic {
    Diagnostic::error(
        "not-a-file",
        format!(
            "`{}` is a socket, pipe or device, but must be a file",
            visible_line(shown)
        ),
    )
    .help("delete it")
}
