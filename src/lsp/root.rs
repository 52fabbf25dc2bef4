//! A folder that is open in the editor, with its session and what was published of it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::Setting;
use super::overlay::{OpenTexts, Overlay};
use super::publish::Faults;
use crate::diagnostic::nearest;
use crate::json::{self, Node};
use crate::session::{Change, Registry, Session, SessionError, SessionOptions};

/// The name of the configuration.
pub(super) const CONFIG: &str = "aebuild.toml";

/// The folders that a task folder may have.
const KINDS: [&str; 6] = ["tasks", "evals", "artifacts", "skills", "envs", "agents"];

/// A task folder, a folder of task folders, or a task file that stands alone.
pub(super) struct Root {
    /// The folder below which paths are shown.
    pub path: PathBuf,
    /// The task file that stands alone.
    pub lone: Option<PathBuf>,
    /// What answers; none where there is no task folder.
    pub session: Option<Session>,
    /// Whether the editor opened it, rather than a document in it.
    pub is_workspace: bool,
    /// What was published, by file.
    pub published: BTreeMap<PathBuf, Faults>,
    changes: BTreeSet<Change>,
    is_stale: bool,
    texts: OpenTexts,
}

impl Root {
    /// Opens a folder or a lone task file.
    pub(super) fn open(
        path: PathBuf,
        lone: Option<PathBuf>,
        setting: &Setting,
        texts: &OpenTexts,
    ) -> Root {
        let mut root = Root {
            path,
            lone,
            session: None,
            is_workspace: false,
            published: BTreeMap::new(),
            changes: BTreeSet::new(),
            is_stale: true,
            texts: texts.clone(),
        };
        root.session = root.open_session(setting);
        root
    }

    fn open_session(&self, setting: &Setting) -> Option<Session> {
        let system = Overlay::new(
            setting.system.clone(),
            self.path.clone(),
            self.texts.clone(),
        );
        let paths = self.lone.iter().map(|file| {
            let below = file.strip_prefix(&self.path);
            below.unwrap_or(file).to_owned()
        });
        let options = SessionOptions {
            paths: paths.collect(),
            cache_dir: setting.cache_dir.clone(),
            no_cache: false,
        };
        Session::open(Arc::new(system), setting.registry, options).ok()
    }

    /// Notes that something may be different.
    pub(super) fn note(&mut self, change: Change) {
        self.changes.insert(change);
    }

    /// Notes that a text was typed: its faults are looked for whatever the session says of it.
    pub(super) fn note_typed(&mut self, path: &Path) {
        self.is_stale |= self.has(path);
    }

    /// Takes in what was noted.
    pub(super) fn apply(&mut self, setting: &Setting) {
        if self.changes.is_empty() {
            return;
        }
        let changes: Vec<Change> = std::mem::take(&mut self.changes).into_iter().collect();
        match &mut self.session {
            Some(session) => self.is_stale |= session.apply_changes(&changes).anything,
            None => {
                self.session = self.open_session(setting);
                self.is_stale |= self.session.is_some();
            }
        }
    }

    /// Returns the faults of everything, if they may be others than before.
    pub(super) fn faults(&mut self) -> Option<Vec<crate::diagnostic::Diagnostic>> {
        if !std::mem::take(&mut self.is_stale) {
            return None;
        }
        match self.session.as_mut()?.check_all() {
            Ok(faults) | Err(SessionError::Faults(faults)) => Some(faults),
            Err(_) => None,
        }
    }

    /// Returns how a file of it is shown.
    pub(super) fn shown(&self, path: &Path) -> Option<String> {
        let below = path.strip_prefix(&self.path).ok()?;
        Some(below.to_str()?.to_owned())
    }

    /// Returns whether a file is one of its tasks.
    pub(super) fn is_task(&mut self, path: &Path) -> bool {
        let shown = self.shown(path);
        match (&mut self.session, shown) {
            (Some(session), Some(shown)) => session.is_task(&shown),
            _ => false,
        }
    }

    /// Returns whether a file is in one of its task folders, or is its configuration.
    pub(super) fn has(&self, path: &Path) -> bool {
        if let Some(lone) = &self.lone {
            return lone == path;
        }
        let Some(session) = &self.session else {
            return false;
        };
        let is_config = path.file_name().is_some_and(|name| name == CONFIG)
            && path.parent() == Some(session.workspace());
        is_config
            || session
                .task_folders()
                .iter()
                .any(|folder| path.starts_with(folder))
    }
}

/// Returns the task folder that a file is in by the names of the folders above it.
pub(super) fn folder_above(path: &Path) -> Option<PathBuf> {
    let mut above = path.ancestors().skip(1);
    let kind = above.find(|folder| {
        let name = folder.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| KINDS.contains(&name))
    })?;
    kind.parent().map(Path::to_path_buf)
}

/// Returns whether a text is a list of steps: one has a type that there is, or nearly, or waits for another as steps do.
///
/// A list of objects with ids and types may be anything, so that is not enough.
pub(super) fn is_task(text: &str, registry: Registry) -> bool {
    let source = crate::diagnostic::Source::new("", text);
    let root = json::parse(&source).root;
    let items = root.as_ref().and_then(Node::as_array).unwrap_or_default();
    let known = || registry.0.iter().map(|one| one.name);
    items.iter().any(|item| {
        let Some(kind) = item.get("type").and_then(Node::as_str) else {
            return false;
        };
        let has_id = item.get("id").and_then(Node::as_str).is_some();
        let waits = item.get("depends_on").and_then(Node::as_array).is_some();
        registry.find(kind).is_some() || has_id && (waits || nearest(kind, known()).is_some())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::steps::REGISTRY;

    #[test]
    fn a_list_of_steps_is_known_by_what_only_steps_have() {
        for text in [
            r#"[{"type": "deploy_sandbox"}]"#,
            r#"[{"id": "a", "type": "deploy_sandbx"}]"#,
            r#"[{"id": "a", "type": "nothing", "depends_on": []}]"#,
            r#"[1, {"id": "a", "type": "prompt_agent", "#,
        ] {
            assert!(is_task(text, REGISTRY), "{text}");
        }
        for text in [
            "",
            "{}",
            r#"{"type": "deploy_sandbox"}"#,
            r#"[{"id": "a", "type": "commonjs"}]"#,
            r#"[{"type": "deploy_sandbx"}]"#,
            r#"[{"id": 1, "type": "circle", "depends_on": []}]"#,
            r#"[{"id": "a", "depends_on": []}]"#,
        ] {
            assert!(!is_task(text, REGISTRY), "{text}");
        }
    }
}
