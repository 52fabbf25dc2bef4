//! What mends faults, as actions that the editor offers.

use std::path::{Path, PathBuf};

use lsp_server::ErrorCode;
use lsp_types as lsp;

use super::publish::Texts;
use super::root::Root;
use super::server::Server;
use super::uri::path_of;
use crate::diagnostic::{Diagnostic, Edit, Fix, Safety};
use crate::json::{Value, json};
use crate::session::{FileEdit, Replacement};

/// The kind of the action that makes all fixes of a document that are beyond doubt.
pub(super) const FIX_ALL: &str = "source.fixAll.aebuild";

impl Server {
    /// Answers with the fixes of the faults in a range.
    pub(super) fn code_actions(
        &mut self,
        params: lsp::CodeActionParams,
    ) -> Result<Value, (ErrorCode, String)> {
        let path = path_of(&params.text_document.uri);
        let found = path.and_then(|path| Some((self.root_of(&path)?, path)));
        let Some((root, path)) = found else {
            return Ok(Value::Null);
        };
        // What is offered belongs to the text as it is now.
        self.publish_root(root);
        let wants = |kind: &str| {
            let only = params.context.only.as_ref();
            only.is_none_or(|only| {
                only.iter().any(|one| {
                    let rest = kind.strip_prefix(one.as_str());
                    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
                })
            })
        };
        let root = &self.roots[root];
        let Some(published) = root.published.get(&path) else {
            return Ok(Value::Array(Vec::new()));
        };
        let mut actions = Vec::new();
        if wants("quickfix") {
            for fault in &published.faults {
                if self.touches(fault, &path, params.range) {
                    let fixes = fault.fixes.iter();
                    actions.extend(fixes.filter_map(|fix| self.action(root, fault, fix)));
                }
            }
        }
        let asks_for_all = params.context.only.is_some() && wants(FIX_ALL);
        let all = sure(&published.faults);
        if asks_for_all && !all.is_empty() {
            let files = self.files(root, &all);
            if let Some(files) = files.filter(|files| files.iter().all(|file| file.path == path)) {
                actions.push(json!({
                    "title": "make all fixes that are beyond doubt",
                    "kind": FIX_ALL,
                    "edit": self.workspace_edit(&files),
                }));
            }
        }
        Ok(Value::Array(actions))
    }

    fn touches(&self, fault: &Diagnostic, path: &Path, range: lsp::Range) -> bool {
        let Some(place) = fault.place() else {
            return false;
        };
        let is_open = self.documents.contains_key(path);
        let encoding = self.client.encoding;
        let at = Texts::default().range(&place.source, place.span, is_open, encoding);
        at.start <= range.end && range.start <= at.end
    }

    fn action(&self, root: &Root, fault: &Diagnostic, fix: &Fix) -> Option<Value> {
        let edits: Vec<&Edit> = fix.edits.iter().collect();
        let files = self.files(root, &edits)?;
        let place = fault.place()?;
        let path = root.file_of(&place.source.name);
        let is_open = self.documents.contains_key(&path);
        let encoding = self.client.encoding;
        let range = Texts::default().range(&place.source, place.span, is_open, encoding);
        Some(json!({
            "title": fix.title,
            "kind": "quickfix",
            "isPreferred": fix.safety == Safety::Sure,
            "diagnostics": [{
                "range": range,
                "code": fault.code.as_str(),
                "source": "aebuild",
                "message": fault.headline,
            }],
            "edit": self.workspace_edit(&files),
        }))
    }

    /// Returns edits by file; `None` where a document is not the text that they are of.
    fn files(&self, root: &Root, edits: &[&Edit]) -> Option<Vec<FileEdit>> {
        let mut files: Vec<FileEdit> = Vec::new();
        for edit in edits {
            let path: PathBuf = root.file_of(&edit.source.name);
            let document = self.documents.get(&path);
            if document.is_some_and(|document| *document.text != *edit.source.text) {
                return None;
            }
            let replacement = Replacement {
                span: edit.span,
                text: edit.text.clone(),
            };
            match files.iter_mut().find(|file| file.path == path) {
                Some(file) => file.edits.push(replacement),
                None => files.push(FileEdit {
                    path,
                    source: edit.source.clone(),
                    edits: vec![replacement],
                }),
            }
        }
        Some(files)
    }
}

/// Returns the edits of the fixes that are beyond doubt, those left out that overlap an earlier one.
fn sure(faults: &[Diagnostic]) -> Vec<&Edit> {
    let mut taken: Vec<&Edit> = Vec::new();
    for fault in faults {
        let Some(fix) = fault.fixes.iter().find(|fix| fix.safety == Safety::Sure) else {
            continue;
        };
        let overlaps = |one: &Edit| {
            taken.iter().any(|other| {
                let is_same = one.source.name == other.source.name;
                let (one, other) = (one.span, other.span);
                is_same && one.start <= other.end && other.start <= one.end
            })
        };
        if !fix.edits.iter().any(overlaps) {
            taken.extend(&fix.edits);
        }
    }
    taken
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use lsp_server::Connection;
    use serde::Deserialize;

    use super::*;
    use crate::diagnostic::Source;
    use crate::lsp::Setting;
    use crate::lsp::overlay::OpenTexts;
    use crate::lsp::publish::Faults;
    use crate::lsp::text::Document;
    use crate::system::MemorySystem;

    /// Returns a server with one document that has these faults.
    fn server(text: &str, faults: Vec<Diagnostic>) -> Server {
        let system = MemorySystem::new();
        system.write("/w/tasks/a.json", text);
        let setting = Setting {
            system: Arc::new(system),
            registry: crate::steps::REGISTRY,
            cache_dir: None,
        };
        let mut root = Root::open("/w".into(), None, &setting, &OpenTexts::default());
        root.faults();
        let version = Some(1);
        let published = Faults { faults, version };
        root.published.insert("/w/tasks/a.json".into(), published);
        let mut server = Server::new(Connection::memory().0, setting);
        let document = Document::new(text.to_owned(), 1);
        server.documents.insert("/w/tasks/a.json".into(), document);
        server.roots.push(root);
        server
    }

    fn actions(server: &mut Server, line: u32, only: Option<&str>) -> Vec<Value> {
        let at = json!({"line": line, "character": 2});
        let mut params = json!({
            "textDocument": {"uri": "file:///w/tasks/a.json"},
            "range": {"start": at, "end": at},
            "context": {"diagnostics": []},
        });
        if let Some(only) = only {
            params["context"]["only"] = json!([only]);
        }
        let params = lsp::CodeActionParams::deserialize(&params).expect("parameters");
        let answer = server.code_actions(params).expect("an answer");
        answer.as_array().cloned().unwrap_or_default()
    }

    #[test]
    fn the_fixes_of_the_faults_in_a_range_are_offered() {
        let text = "[\n  one,\n  two,\n]";
        let source = Source::new("tasks/a.json", text);
        let fault = |span: std::ops::Range<usize>| {
            Diagnostic::error("x", "it is wrong").primary(&source, span, "")
        };
        let faults = vec![
            fault(4..7)
                .fix(Fix::sure("write `1`").edit(&source, 4..7, "1"))
                .fix(Fix::offered("write `0`").edit(&source, 4..7, "0")),
            fault(11..14).fix(Fix::sure("delete it").edit(&source, 11..15, "")),
            // One that overlaps waits for the next time.
            fault(14..15).fix(Fix::sure("delete the comma").edit(&source, 14..15, "")),
            fault(0..1),
        ];
        let mut server = server(text, faults);
        let found = actions(&mut server, 1, None);
        let said: Vec<_> = found
            .iter()
            .map(|one| (one["title"].as_str(), one["isPreferred"].as_bool()))
            .collect();
        assert_eq!(
            said,
            [
                (Some("write `1`"), Some(true)),
                (Some("write `0`"), Some(false)),
            ]
        );
        assert_eq!(
            found[0]["edit"]["changes"]["file:///w/tasks/a.json"],
            json!([{
                "range": {"start": {"line": 1, "character": 2}, "end": {"line": 1, "character": 5}},
                "newText": "1",
            }])
        );
        assert_eq!(actions(&mut server, 0, Some("refactor")), [Value::Null; 0]);

        let all = actions(&mut server, 0, Some("source.fixAll"));
        let edits = &all[0]["edit"]["changes"]["file:///w/tasks/a.json"];
        let starts: Vec<_> = edits
            .as_array()
            .expect("a list")
            .iter()
            .map(|edit| edit["range"]["start"]["line"].as_u64())
            .collect();
        assert_eq!(starts, [Some(1), Some(2)]);
    }

    #[test]
    fn a_fix_of_another_text_is_not_offered() {
        let old = Source::new("tasks/a.json", "[ ]");
        let fix = Fix::sure("delete it").edit(&old, 1..2, "");
        let fault = Diagnostic::error("x", "it is wrong").primary(&old, 0..3, "");
        let mut server = server("[  ]", vec![fault.fix(fix)]);
        assert_eq!(actions(&mut server, 0, None), [Value::Null; 0]);
    }
}
