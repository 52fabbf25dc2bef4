//! Evals: named lists of tasks.

use std::collections::HashMap;

use super::entry::Reader;
use super::settings::{Settings, table, text};
use super::suggest;
use crate::diagnostic::{Diagnostic, Source};
use crate::json::{Node, Span, json};

/// A named list of tasks.
#[derive(Clone, Debug, PartialEq)]
pub struct Eval {
    /// The file's name without `.toml`.
    pub name: String,
    /// The id: as declared, else `@local/<task folder>/<name>`.
    pub id: String,
    /// The path as people are shown it.
    pub shown: String,
    /// Its file.
    pub source: Source,
    /// Its tasks, in the order of the file.
    pub tasks: Vec<EvalTask>,
}

/// A task of an eval.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EvalTask {
    /// The name of the task.
    pub name: String,
    /// Where the eval names it.
    pub span: Span,
}

impl Reader<'_> {
    /// Reads `evals/`; the tasks are known already.
    pub fn evals(&mut self) {
        for entry in self.kind_entries("evals") {
            let Some((name, path, shown)) = self.file_of_kind("evals", entry, ".toml") else {
                continue;
            };
            let Some(settings) = self.settings(&path, &shown) else {
                continue;
            };
            let at = format!("eval `{name}`");
            let pinned = json!({
                "type": "object",
                "properties": {"task": text(), "version": {"type": "integer", "minimum": 1}},
                "required": ["task"],
                "additionalProperties": false,
            });
            let tasks =
                json!({"type": "array", "minItems": 1, "items": {"anyOf": [text(), pinned]}});
            let keys = table(&[("tasks", tasks)], &[("type", text()), ("id", text())]);
            self.check_settings(&settings, &keys, &at);
            let id = self.declared_id(&settings, &at);
            let tasks = self.eval_tasks(&settings, &at);
            let id = self.id_of(id.as_deref(), &name);
            self.folder.evals.push(Eval {
                name,
                id,
                shown,
                source: settings.source,
                tasks,
            });
        }
    }

    fn eval_tasks(&mut self, settings: &Settings, at: &str) -> Vec<EvalTask> {
        let mut tasks: Vec<EvalTask> = Vec::new();
        let mut seen: HashMap<String, Span> = HashMap::new();
        let items = settings
            .node
            .get("tasks")
            .and_then(Node::as_array)
            .unwrap_or_default();
        for item in items {
            let named = item.get("task").unwrap_or(item);
            let Some(written) = named.as_str() else {
                continue;
            };
            let span = named.span;
            if let Some(version) = item.get("version") {
                self.faults.push(
                    Diagnostic::error("store-task", format!("{at} pins a version of task `{written}`, but there is no store of tasks"))
                        .primary(&settings.source, version.span, "a version is named here")
                        .help(format!("write \"{written}\" for a task of this folder")),
                );
                continue;
            }
            let prefix = self.id_of(None, "");
            let name = written.strip_prefix(&prefix).unwrap_or(written);
            if !self.folder.tasks.iter().any(|task| task.name == name) {
                let names = self.folder.tasks.iter().map(|task| task.name.as_str());
                let fault = Diagnostic::error(
                    "unknown-task",
                    format!("{at} names task `{written}`, which is not in this folder"),
                )
                .primary(&settings.source, span, "no such task")
                .help(suggest(name, names));
                self.faults.push(fault);
                continue;
            }
            if let Some(first) = seen.insert(name.to_owned(), span) {
                self.faults.push(
                    Diagnostic::error("duplicate-task", format!("{at} names task `{name}` twice"))
                        .label(&settings.source, first, "first here")
                        .primary(&settings.source, span, "and again here")
                        .help("delete one of them"),
                );
                continue;
            }
            tasks.push(EvalTask {
                name: name.to_owned(),
                span,
            });
        }
        tasks
    }
}
