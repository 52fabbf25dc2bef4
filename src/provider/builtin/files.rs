//! A tree of files in memory: text and bytes.
//!
//! It is for tasks in which an agent works on documents and needs no shell. Nothing of it is on the disk.
//!
//! # Its state
//!
//! ```json
//! {
//!   "now": "2026-03-02T08:00:00Z",
//!   "files": {
//!     "notes/plan.txt": {"modified": "2026-03-01T10:00:00Z", "text": "1. rooms\n"},
//!     "logo.png": {"base64": "iVBORw0KGgo="}
//!   }
//! }
//! ```
//!
//! A file has `text` or `base64`; without either it is empty. `now` is `2026-01-01T09:00:00Z` where it is left out, and
//! `modified` is `now`; another key is refused. Loading adds files to those that are there, and a path that is there
//! already gets the new content. Files can be copied into this env too.
//!
//! Paths are separated by `/`; a `/` at either end, `.` and empty segments count for nothing, and `..` is refused. Folders
//! are there when a file is in them. A file cannot be where a folder is, nor the other way round. Each call that may
//! change something moves `now` on by a minute.
//!
//! # Example
//!
//! `search_files` for `rooms` gives
//! `{"matches": [{"path": "notes/plan.txt", "line": 1, "text": "1. rooms"}], "total": 1}`. The query is no pattern: it is
//! looked for as it is, case and all.

use super::base64;
use super::clock;
use super::format::{File, Tree};
use super::store::Store;
use super::tool::{Arguments, Effect, count, flag, one_of, text, tool};
use crate::json::{Value, json};

/// The most matches that are listed where the call does not say.
const LIMIT: usize = 100;

/// A tree of files.
pub(super) struct Files {
    state: Tree,
}

impl Default for Files {
    fn default() -> Self {
        let now = clock::START.to_owned();
        let files = Default::default();
        Files {
            state: Tree { now, files },
        }
    }
}

impl Store for Files {
    type State = Tree;

    const NAME: &'static str = "files";
    const INSTRUCTIONS: &'static str =
        "A tree of files in memory. Paths are separated by `/`; `files://state` is all of it.";
    const TAKES_FILES: bool = true;

    fn tools() -> Vec<Value> {
        let path = || ("path", text("The path of the file."));
        let content = || {
            [
                (
                    "content",
                    text("The content, in the encoding that is given."),
                ),
                (
                    "encoding",
                    one_of(
                        "How `content` is written; `text` by default.",
                        &["text", "base64"],
                    ),
                ),
            ]
        };
        let [content, encoding] = content();
        let in_folder = || ("path", text("The folder to look in; all by default."));
        vec![
            tool(
                "list_files",
                "List the files of a folder, sorted by path. Folders end in `/`.",
                Effect::Reads,
                &[],
                &[
                    in_folder(),
                    (
                        "recursive",
                        flag(
                            "Whether to list the files in folders of it too, in place of the folders.",
                        ),
                    ),
                ],
            ),
            tool(
                "read_file",
                "Read a file: its `content`, as base64 where it is no text, which `encoding` says.",
                Effect::Reads,
                &[path()],
                &[],
            ),
            tool(
                "file_info",
                "Tell the size of a file in bytes, when it was written, and whether it is text.",
                Effect::Reads,
                &[path()],
                &[],
            ),
            tool(
                "search_files",
                "Find the lines of text files that contain a text.",
                Effect::Reads,
                &[("query", text("The text to look for, as it is."))],
                &[
                    in_folder(),
                    (
                        "limit",
                        count("The most matches to return; 100 by default.", 1),
                    ),
                ],
            ),
            tool(
                "write_file",
                "Write a file; one that is there is replaced.",
                Effect::Destroys,
                &[path(), content.clone()],
                std::slice::from_ref(&encoding),
            ),
            tool(
                "append_file",
                "Write at the end of a file, which is made if need be.",
                Effect::Adds,
                &[path(), content],
                &[encoding],
            ),
            tool(
                "move_file",
                "Move a file to another path.",
                Effect::Destroys,
                &[
                    ("from", text("The path of the file.")),
                    ("to", text("Its path from then on.")),
                ],
                &[(
                    "overwrite",
                    flag("Whether a file that is there is replaced."),
                )],
            ),
            tool(
                "delete_file",
                "Delete a file.",
                Effect::Destroys,
                &[path()],
                &[],
            ),
        ]
    }

    fn call(&mut self, tool: &str, arguments: &Arguments) -> Result<Value, String> {
        match tool {
            "list_files" => self.list(arguments),
            "search_files" => self.search(arguments),
            "read_file" => {
                let (path, file) = self.file(arguments.text("path"))?;
                Ok(match &file.base64 {
                    Some(base64) => {
                        json!({"path": path, "content": base64, "encoding": "base64"})
                    }
                    None => json!({"path": path, "content": text_of(file)}),
                })
            }
            "file_info" => {
                let (path, file) = self.file(arguments.text("path"))?;
                Ok(info(&path, file))
            }
            "write_file" => {
                let path = self.place(arguments.text("path"))?;
                let file = self.made(given(arguments)?);
                let answer = info(&path, &file);
                self.state.files.insert(path, file);
                Ok(answer)
            }
            "append_file" => {
                let path = self.place(arguments.text("path"))?;
                let mut bytes = self
                    .state
                    .files
                    .get(&path)
                    .map(bytes_of)
                    .unwrap_or_default();
                bytes.extend(given(arguments)?);
                let file = self.made(bytes);
                let answer = info(&path, &file);
                self.state.files.insert(path, file);
                Ok(answer)
            }
            "move_file" => {
                let (from, file) = self.file(arguments.text("from"))?;
                let file = file.clone();
                let to = normal(arguments.text("to"))?;
                if to == from {
                    return Ok(info(&to, &file));
                }
                if self.state.files.contains_key(&to) && !arguments.flag("overwrite") {
                    return Err(format!("there is a file `{to}`"));
                }
                // The file itself is not in the way of its new place.
                self.state.files.remove(&from);
                match self.place(&to) {
                    Ok(to) => {
                        let answer = info(&to, &file);
                        self.state.files.insert(to, file);
                        Ok(answer)
                    }
                    Err(why) => {
                        self.state.files.insert(from, file);
                        Err(why)
                    }
                }
            }
            "delete_file" => {
                let (path, _) = self.file(arguments.text("path"))?;
                self.state.files.remove(&path);
                Ok(json!({"path": path}))
            }
            _ => Err(format!("there is no tool `{tool}`")),
        }
    }

    fn now(&mut self) -> &mut String {
        &mut self.state.now
    }

    fn state(&self) -> &Tree {
        &self.state
    }

    fn join(state: &mut Tree, more: Tree) {
        if !more.now.is_empty() {
            state.now = more.now;
        }
        state.files.extend(more.files);
    }

    fn add(&mut self, more: Tree) -> Result<(), String> {
        let mut next = Files {
            state: Tree {
                now: self.state.now.clone(),
                ..Tree::default()
            },
        };
        if !more.now.is_empty() {
            next.state.now = clock::in_utc(&more.now).map_err(|fault| format!("`now`: {fault}"))?;
        }
        for (path, mut file) in more.files {
            let place = next.place(&path)?;
            // A place is free of what was there before, but for the very same file.
            let place = self.place(&place)?;
            if next.state.files.contains_key(&place) {
                return Err(format!("there are two files `{place}`"));
            }
            if file.text.is_some() && file.base64.is_some() {
                return Err(format!("file `{path}` has both `text` and `base64`"));
            }
            if let Some(base64) = &file.base64
                && base64::decode(base64).is_none()
            {
                return Err(format!("`base64` of file `{path}` is no base64"));
            }
            if file.base64.is_none() && file.text.is_none() {
                file.text = Some(String::new());
            }
            file.modified = match file.modified.as_str() {
                "" => next.state.now.clone(),
                time => clock::in_utc(time)
                    .map_err(|fault| format!("`modified` of file `{path}`: {fault}"))?,
            };
            next.state.files.insert(place, file);
        }
        Self::join(&mut self.state, next.state);
        Ok(())
    }

    fn put(&mut self, to: &str, bytes: &[u8]) -> Result<(), String> {
        let path = self.place(to)?;
        let file = self.made(bytes.to_vec());
        self.state.files.insert(path, file);
        Ok(())
    }
}

impl Files {
    fn file(&self, path: &str) -> Result<(String, &File), String> {
        let path = normal(path)?;
        match self.state.files.get(&path) {
            Some(file) => Ok((path, file)),
            None if self.is_folder(&path) => Err(format!("`{path}` is a folder")),
            None => Err(format!("there is no file `{path}`")),
        }
    }

    fn is_folder(&self, path: &str) -> bool {
        let below = format!("{path}/");
        let mut from = self.state.files.range(below.clone()..);
        from.next()
            .is_some_and(|(path, _)| path.starts_with(&below))
    }

    /// Returns the path of a file that may be written there.
    fn place(&self, path: &str) -> Result<String, String> {
        let path = normal(path)?;
        if self.is_folder(&path) {
            return Err(format!("`{path}` is a folder"));
        }
        let above = path.match_indices('/').map(|(at, _)| &path[..at]);
        let files = &self.state.files;
        match above.into_iter().find(|folder| files.contains_key(*folder)) {
            Some(file) => Err(format!("`{file}` is a file, so nothing can be in it")),
            None => Ok(path),
        }
    }

    /// Returns the file with this content.
    fn made(&self, bytes: Vec<u8>) -> File {
        let modified = self.state.now.clone();
        let (text, base64) = match String::from_utf8(bytes) {
            Ok(text) => (Some(text), None),
            Err(fault) => (None, Some(base64::encode(fault.as_bytes()))),
        };
        File {
            modified,
            text,
            base64,
        }
    }

    fn folder_of(arguments: &Arguments) -> Result<String, String> {
        let path = arguments.text("path");
        // The root alone has a path that no file can have.
        match path.split('/').all(|part| matches!(part, "" | ".")) {
            true => Ok(String::new()),
            false => Ok(format!("{}/", normal(path)?)),
        }
    }

    fn list(&self, arguments: &Arguments) -> Result<Value, String> {
        let folder = Self::folder_of(arguments)?;
        let mut found: Vec<Value> = Vec::new();
        let below = self.state.files.range(folder.clone()..);
        let mut last = "";
        for (path, file) in below.take_while(|(path, _)| path.starts_with(&folder)) {
            let inner = path[folder.len()..].find('/');
            match inner.filter(|_| !arguments.flag("recursive")) {
                Some(end) => {
                    let inner = &path[..=folder.len() + end];
                    if inner != last {
                        found.push(json!({"path": inner}));
                        last = inner;
                    }
                }
                None => found.push(info(path, file)),
            }
        }
        if found.is_empty() && !folder.is_empty() {
            return Err(format!(
                "there is no folder `{}`",
                folder.trim_end_matches('/')
            ));
        }
        Ok(json!({"files": found}))
    }

    fn search(&self, arguments: &Arguments) -> Result<Value, String> {
        let folder = Self::folder_of(arguments)?;
        let query = arguments.text("query");
        if query.is_empty() {
            return Err("argument `query` is empty".to_owned());
        }
        let limit = arguments.count("limit", LIMIT);
        let (mut matches, mut total) = (Vec::new(), 0);
        let below = self.state.files.range(folder.clone()..);
        for (path, file) in below.take_while(|(path, _)| path.starts_with(&folder)) {
            for (ix, line) in text_of(file).lines().enumerate() {
                if line.contains(query) {
                    total += 1;
                    if matches.len() < limit {
                        matches.push(json!({"path": path, "line": ix + 1, "text": line}));
                    }
                }
            }
        }
        Ok(json!({"matches": matches, "total": total}))
    }
}

/// Returns a path without what counts for nothing.
fn normal(path: &str) -> Result<String, String> {
    let parts = path.split('/').filter(|part| !matches!(*part, "" | "."));
    let parts: Vec<&str> = parts.collect();
    if parts.contains(&"..") || path.contains('\0') {
        return Err(format!("path `{path}` leads out of the tree"));
    }
    if parts.is_empty() {
        return Err(format!("path `{path}` names no file"));
    }
    Ok(parts.join("/"))
}

fn text_of(file: &File) -> &str {
    file.text.as_deref().unwrap_or_default()
}

fn bytes_of(file: &File) -> Vec<u8> {
    match &file.base64 {
        Some(base64) => base64::decode(base64).unwrap_or_default(),
        None => text_of(file).into(),
    }
}

fn given(arguments: &Arguments) -> Result<Vec<u8>, String> {
    let content = arguments.text("content");
    match arguments.text("encoding") {
        "base64" => {
            base64::decode(content).ok_or_else(|| "argument `content` is no base64".to_owned())
        }
        _ => Ok(content.into()),
    }
}

fn info(path: &str, file: &File) -> Value {
    let size = match &file.base64 {
        Some(base64) => base64.len() / 4 * 3 - base64.bytes().filter(|b| *b == b'=').count(),
        None => text_of(file).len(),
    };
    json!({"path": path, "size": size, "modified": file.modified, "is_text": file.base64.is_none()})
}

#[cfg(test)]
mod tests {
    use super::super::tests::Live;
    use super::*;

    fn tree() -> Live {
        Live::of(
            "files",
            json!({"files": {
                "/notes/./plan.txt": {"text": "1. rooms\n2. food\n"},
                "notes/old/a.txt": {"modified": "2025-01-01", "text": "rooms"},
                "logo.png": {"base64": "/w=="},
            }}),
        )
    }

    fn paths(found: &Value) -> Vec<&str> {
        let files = found["files"].as_array().unwrap().iter();
        files.map(|file| file["path"].as_str().unwrap()).collect()
    }

    #[test]
    fn a_folder_is_listed_alone_or_with_all_below() {
        let live = tree();
        for (arguments, found) in [
            (json!({}), vec!["logo.png", "notes/"]),
            (
                json!({"path": "./notes/"}),
                vec!["notes/old/", "notes/plan.txt"],
            ),
            (
                json!({"path": "/", "recursive": true}),
                vec!["logo.png", "notes/old/a.txt", "notes/plan.txt"],
            ),
        ] {
            assert_eq!(
                paths(&live.ok("list_files", arguments.clone())),
                found,
                "{arguments}"
            );
        }
        assert_eq!(
            live.fails("list_files", json!({"path": "x"})),
            "there is no folder `x`"
        );
    }

    #[test]
    fn text_and_bytes_are_written_and_read() {
        let live = tree();
        let logo = live.ok("read_file", json!({"path": "logo.png"}));
        let read = json!({"path": "logo.png", "content": "/w==", "encoding": "base64"});
        assert_eq!(logo, read);
        let more = json!({"path": "logo.png", "content": "/w==", "encoding": "base64"});
        let info = live.ok("append_file", more);
        assert_eq!(
            info,
            json!({"path": "logo.png", "size": 2, "modified": "2026-01-01T09:00:00Z", "is_text": false})
        );
        live.ok("append_file", json!({"path": "new.txt", "content": "a"}));
        live.ok("append_file", json!({"path": "/new.txt", "content": "é"}));
        assert_eq!(
            live.ok("read_file", json!({"path": "new.txt"}))["content"],
            "aé"
        );
        let info = live.ok("file_info", json!({"path": "new.txt"}));
        assert_eq!(
            (&info["size"], &info["modified"]),
            (&json!(3), &json!("2026-01-01T09:02:00Z"))
        );
        let wrong = json!({"path": "x", "content": "?", "encoding": "base64"});
        assert_eq!(
            live.fails("write_file", wrong),
            "argument `content` is no base64"
        );
    }

    #[test]
    fn paths_stay_in_the_tree_and_files_and_folders_apart() {
        let live = tree();
        let before = live.export();
        for (path, why) in [
            ("../x", "path `../x` leads out of the tree"),
            ("a/../x", "path `a/../x` leads out of the tree"),
            ("/", "path `/` names no file"),
            ("notes", "`notes` is a folder"),
            (
                "logo.png/x",
                "`logo.png` is a file, so nothing can be in it",
            ),
        ] {
            assert_eq!(
                live.fails("write_file", json!({"path": path, "content": ""})),
                why
            );
            live.add(json!({"files": {path: {}}})).unwrap_err();
            live.fails("move_file", json!({"from": "notes/plan.txt", "to": path}));
        }
        live.add(json!({"files": {"q": {}, "/q": {}}})).unwrap_err();
        live.add(json!({"files": {"q": {}, "q/r": {}}}))
            .unwrap_err();
        live.add(json!({"files": {"q": {"text": "", "base64": ""}}}))
            .unwrap_err();
        live.add(json!({"files": {"q": {"base64": "x"}}}))
            .unwrap_err();
        assert_eq!(live.export(), before);
    }

    #[test]
    fn a_file_is_moved_and_replaces_another_only_if_told() {
        let live = tree();
        let moved = json!({"from": "logo.png", "to": "notes/plan.txt"});
        assert_eq!(
            live.fails("move_file", moved),
            "there is a file `notes/plan.txt`"
        );
        live.ok(
            "move_file",
            json!({"from": "logo.png", "to": "notes/plan.txt", "overwrite": true}),
        );
        live.ok(
            "move_file",
            json!({"from": "notes/plan.txt", "to": "notes/plan.txt/logo.png"}),
        );
        assert_eq!(
            live.fails("read_file", json!({"path": "notes/plan.txt"})),
            "`notes/plan.txt` is a folder"
        );
        live.ok("delete_file", json!({"path": "notes/plan.txt/logo.png"}));
        assert_eq!(
            live.fails("delete_file", json!({"path": "logo.png"})),
            "there is no file `logo.png`"
        );
    }

    #[test]
    fn a_search_finds_lines_as_they_are() {
        let live = tree();
        let all = live.ok("search_files", json!({"query": "rooms", "limit": 1}));
        assert_eq!(
            all,
            json!({"matches": [{"path": "notes/old/a.txt", "line": 1, "text": "rooms"}], "total": 2})
        );
        let none = live.ok("search_files", json!({"query": "r.oms", "path": "notes"}));
        assert_eq!(none["total"], 0);
    }
}
