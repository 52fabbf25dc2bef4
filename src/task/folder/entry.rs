//! The entries of a task folder and of the folders in it: which count, and which names they may have.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use super::{ALIASES, KIND_FOLDERS, TaskEntry, TaskFolder, read_source, reason};
use crate::diagnostic::{Diagnostic, Source, sort, visible_line};
use crate::system::{FileKind, FolderEntry, System};
use crate::task::parse::names::{fault_of_name, folded, say};

/// A task folder while it is read.
pub(super) struct Reader<'a> {
    pub system: &'a dyn System,
    pub folder: TaskFolder,
    /// The root with all links resolved.
    pub real_root: PathBuf,
    pub kind_folders: BTreeMap<&'static str, PathBuf>,
    pub has_kind_folder: bool,
    pub aliases_file: Option<PathBuf>,
    readme: Option<PathBuf>,
    pub faults: Vec<Diagnostic>,
}

/// An entry of a kind folder whose name is in order.
pub(super) struct Entry {
    pub name: String,
    pub path: PathBuf,
    /// What stands there, links followed; a folder where that is not known.
    pub kind: FileKind,
    /// Why what a link leads to can't be used.
    pub fault: Option<Diagnostic>,
}

impl<'a> Reader<'a> {
    pub fn new(system: &'a dyn System, root: &Path, shown: &str) -> Self {
        let real_root = system
            .canonical(root)
            .unwrap_or_else(|_| root.to_path_buf());
        let name = real_root
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let name = if name.is_empty() {
            "root".to_owned()
        } else {
            name
        };
        let shown = shown.trim_start_matches("./").trim_end_matches('/');
        let shown = if shown == "." { "" } else { shown }.to_owned();
        let folder = TaskFolder {
            root: root.to_path_buf(),
            name,
            shown,
            ..TaskFolder::default()
        };
        Reader {
            system,
            folder,
            real_root,
            kind_folders: BTreeMap::new(),
            has_kind_folder: false,
            aliases_file: None,
            readme: None,
            faults: Vec::new(),
        }
    }

    /// Adds an error without a place in a file.
    pub fn fault(&mut self, code: &'static str, headline: String, help: &str) {
        self.faults
            .push(Diagnostic::error(code, headline).help(help));
    }

    /// Returns what was read.
    pub fn finish(mut self) -> (TaskFolder, Vec<Diagnostic>) {
        sort(&mut self.faults);
        self.folder.ignored.sort();
        (self.folder, self.faults)
    }

    /// Sorts the entries of the root into what they are for.
    pub fn root_entries(&mut self) {
        let root = self.folder.root.clone();
        let shown = if self.folder.shown.is_empty() {
            ".".to_owned()
        } else {
            self.folder.shown.clone()
        };
        for entry in self.list(&root, &shown) {
            let Some(name) = entry.name.to_str() else {
                continue;
            };
            let (fold, path) = (folded(name), root.join(name));
            let shown = self.folder.shown_path(name);
            let is_folder = entry.kind == FileKind::Folder
                || entry.kind == FileKind::Link
                    && self
                        .system
                        .metadata(&path)
                        .is_ok_and(|found| found.kind == FileKind::Folder);
            if let Some(kind) = KIND_FOLDERS.into_iter().find(|kind| fold == folded(kind)) {
                if name != kind {
                    self.wrong_case(&shown, kind);
                } else if !is_folder {
                    self.fault(
                        "not-a-folder",
                        format!("`{shown}` is a file, but must be a folder"),
                        "rename the file",
                    );
                } else if entry.kind != FileKind::Link || self.is_inside(&path, &shown) {
                    self.kind_folders.insert(kind, path);
                }
                self.has_kind_folder = true;
            } else if fold == folded("bundle.toml") {
                self.fault(
                    "reserved-name",
                    format!("`{shown}` has a name that is kept for later"),
                    "rename or delete it",
                );
            } else if fold == folded(ALIASES) {
                match name == ALIASES {
                    true => self.aliases_file = Some(path),
                    false => self.wrong_case(&shown, ALIASES),
                }
            } else if fold == folded("readme.md") {
                self.readme = self.readme.take().or(Some(path));
            } else {
                self.folder.ignored.push(name.to_owned());
            }
        }
    }

    /// Reads the names of the tasks.
    pub fn tasks(&mut self) {
        for entry in self.kind_entries("tasks") {
            if let Some((name, path, shown)) = self.file_of_kind("tasks", entry, ".json") {
                self.folder.tasks.push(TaskEntry { name, path, shown });
            }
        }
    }

    /// Returns an entry of `tasks/` or `evals/` if it is a file with this ending and a good name.
    pub fn file_of_kind(
        &mut self,
        kind: &str,
        entry: Entry,
        ending: &str,
    ) -> Option<(String, PathBuf, String)> {
        let below = format!("{kind}/{}", entry.name);
        let shown = self.folder.shown_path(&below);
        if let Some(fault) = entry.fault {
            self.faults.push(fault);
            return None;
        }
        let stem = match entry.name.strip_suffix(ending) {
            Some(stem) => stem.to_owned(),
            None if entry.name.to_ascii_lowercase().ends_with(ending) => {
                let right = format!("{}{ending}", &entry.name[..entry.name.len() - ending.len()]);
                self.wrong_case(&shown, &right);
                return None;
            }
            None if entry.kind == FileKind::Folder && kind == "tasks" => {
                self.fault(
                    "folder-among-tasks",
                    format!("`{shown}` is a folder, but {kind}/ holds task files"),
                    "move the folder out of tasks/, or write the task as a .json file",
                );
                return None;
            }
            None => {
                self.folder.ignored.push(below);
                return None;
            }
        };
        if entry.kind != FileKind::File {
            let what = if entry.kind == FileKind::Folder {
                "a folder"
            } else {
                "a socket, pipe or device"
            };
            self.fault(
                "not-a-file",
                format!("`{shown}` is {what}, but must be a file"),
                "rename or delete it",
            );
            return None;
        }
        if let Some(fault) = fault_of_name(&stem) {
            let noun = if kind == "tasks" { "task" } else { "eval" };
            self.faults.push(say(fault, noun, &stem));
            return None;
        }
        Some((stem, entry.path, shown))
    }

    /// Returns the entries of a kind folder, without those that are skipped.
    pub fn kind_entries(&mut self, kind: &'static str) -> Vec<Entry> {
        let Some(folder) = self.kind_folders.get(kind).cloned() else {
            return Vec::new();
        };
        let shown = self.folder.shown_path(kind);
        let mut by_fold: HashMap<String, String> = HashMap::new();
        let mut entries = Vec::new();
        for entry in self.list(&folder, &shown) {
            let Some(name) = entry.name.to_str().map(str::to_owned) else {
                self.not_utf_8(&shown, &entry.name.to_string_lossy());
                continue;
            };
            if name.starts_with('.') || name == "__pycache__" {
                continue;
            }
            if let Some(other) = by_fold.insert(folded(&name), name.clone()) {
                self.collide(&format!("{shown}/{other}"), &format!("{shown}/{name}"));
                continue;
            }
            let path = folder.join(&name);
            let (kind, fault) = match entry.kind {
                FileKind::Link => {
                    let shown = format!("{shown}/{name}");
                    match super::content::follow(self.system, &self.real_root, &path, &shown) {
                        Ok((_, kind)) => (kind, None),
                        Err(fault) => (FileKind::Folder, Some(fault)),
                    }
                }
                kind => (kind, None),
            };
            entries.push(Entry {
                name,
                path,
                kind,
                fault,
            });
        }
        entries
    }

    /// Returns the sub-folders of a kind folder whose names are in order.
    pub fn kind_sub_folders(&mut self, kind: &'static str, noun: &str) -> Vec<Entry> {
        let mut folders = Vec::new();
        for entry in self.kind_entries(kind) {
            let below = format!("{kind}/{}", entry.name);
            if entry.kind != FileKind::Folder {
                self.folder.ignored.push(below);
            } else if let Some(fault) = fault_of_name(&entry.name) {
                self.faults.push(say(fault, noun, &entry.name));
            } else if entry.name.contains("__") && matches!(kind, "artifacts" | "skills") {
                let shown = self.folder.shown_path(&below);
                self.fault(
                    "reserved-name",
                    format!("`{shown}` has `__` in its name, which is kept for derived ids"),
                    "rename the folder",
                );
            } else {
                folders.push(entry);
            }
        }
        folders
    }

    /// Returns the entries of a folder, and reports one that can't be read.
    fn list(&mut self, path: &Path, shown: &str) -> Vec<FolderEntry> {
        self.folder.listings.push(path.to_path_buf());
        match self.system.read_folder(path) {
            Ok(entries) => entries,
            Err(error) => {
                let headline = match error.kind() {
                    std::io::ErrorKind::NotFound => format!("`{shown}` does not exist"),
                    _ => format!("`{shown}` can't be read: {}", reason(&error)),
                };
                let code = match error.kind() {
                    std::io::ErrorKind::NotFound => "no-such-path",
                    _ => "unreadable",
                };
                self.faults.push(Diagnostic::error(code, headline));
                Vec::new()
            }
        }
    }

    /// Returns whether what a link leads to is in the task folder, and reports where it is not.
    fn is_inside(&mut self, path: &Path, shown: &str) -> bool {
        match super::content::follow(self.system, &self.real_root, path, shown) {
            Ok(_) => true,
            Err(fault) => {
                self.faults.push(fault);
                false
            }
        }
    }

    /// Reads a file of the folder; a fault of it is reported.
    pub fn source(&mut self, path: &Path, shown: &str) -> Option<Source> {
        self.folder.config_files.push(path.to_path_buf());
        match read_source(self.system, path, shown) {
            Ok((source, faults)) => {
                self.faults.extend(faults);
                Some(source)
            }
            Err(fault) => {
                self.faults.push(fault);
                None
            }
        }
    }

    fn wrong_case(&mut self, shown: &str, right: &str) {
        self.fault(
            "wrong-case",
            format!("`{shown}` must be written `{right}`"),
            &format!("rename it to {right}; names are case-sensitive"),
        );
    }

    fn not_utf_8(&mut self, shown: &str, lossy: &str) {
        self.fault(
            "name-not-utf-8",
            format!(
                "`{shown}/{}` has a name that is not UTF-8",
                visible_line(lossy)
            ),
            "rename it",
        );
    }

    pub fn collide(&mut self, one: &str, other: &str) {
        self.fault(
            "names-collide",
            format!(
                "`{}` and `{}` have one name, save for case or Unicode form",
                visible_line(one),
                visible_line(other)
            ),
            "rename one of them",
        );
    }

    /// Reads the description.
    pub fn readme(&mut self) {
        let Some(path) = self.readme.take() else {
            return;
        };
        self.folder.config_files.push(path.clone());
        if let Ok(bytes) = self.system.read(&path, super::MAX_FILE_BYTES) {
            self.folder.description = description(&String::from_utf8_lossy(&bytes));
        }
    }

    /// Returns the id of an entity: as declared, else made of its name.
    pub fn id_of(&self, declared: Option<&str>, name: &str) -> String {
        let made = || format!("@local/{}/{name}", self.folder.name);
        declared.map_or_else(made, str::to_owned)
    }
}

/// Returns the first line of text, else the first heading.
fn description(text: &str) -> Option<String> {
    let mut lines = text
        .trim_start_matches('\u{feff}')
        .lines()
        .map(str::trim)
        .peekable();
    if lines.peek() == Some(&"---") {
        lines.next();
        lines.by_ref().find(|line| *line == "---");
    }
    let mut heading = None;
    for line in lines {
        if line.is_empty()
            || line.starts_with("[![")
            || line.starts_with("![")
            || line.starts_with('<')
        {
            continue;
        }
        match line.strip_prefix('#') {
            Some(rest) => {
                heading = heading.or(Some(rest.trim_start_matches('#').trim().to_owned()))
            }
            None => return Some(line.to_owned()),
        }
    }
    heading
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_description_is_the_first_line_of_text() {
        let text = "---\na: b\n---\n# Title\n\n[![b](x)](y)\n![i](x)\n<p>\nSay hello.\nMore.\n";
        assert_eq!(description(text).as_deref(), Some("Say hello."));
        assert_eq!(description("## Title\n").as_deref(), Some("Title"));
        assert_eq!(description("\n"), None);
    }
}
