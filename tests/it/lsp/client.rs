//! An editor that a test drives: it sends, and waits for answers, never for time.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

use aebuild::json::{Value, json};
use aebuild::lsp::{Connection, Setting};
use aebuild::steps::REGISTRY;
use aebuild::system::OsSystem;
use lsp_server::{Message, Notification, Request, RequestId, Response};

/// An editor and the server that it talks to.
pub struct Client {
    connection: Connection,
    server: Option<JoinHandle<bool>>,
    root: PathBuf,
    next: i32,
    versions: BTreeMap<String, i32>,
    texts: BTreeMap<String, String>,
    /// What was published last, by path below the root.
    pub published: BTreeMap<String, Vec<Value>>,
    /// How often something was published, by path below the root.
    pub n_published: BTreeMap<String, usize>,
    /// Other messages of the server.
    pub others: Vec<Value>,
}

impl Client {
    /// Opens a folder.
    pub fn open(root: &Path) -> Self {
        Self::with(root, &[root], json!({}))
    }

    /// Opens folders with an editor that can something.
    pub fn with(root: &Path, folders: &[&Path], can: Value) -> Self {
        let mut client = Self::raw(root);
        let folders: Vec<Value> = folders
            .iter()
            .map(|folder| json!({"uri": format!("file://{}", folder.display()), "name": "w"}))
            .collect();
        let params = json!({"capabilities": can, "workspaceFolders": folders, "processId": null});
        let answer = client.ask("initialize", params);
        assert_eq!(answer["serverInfo"]["name"], "aebuild", "{answer}");
        client.tell("initialized", json!({}));
        client
    }

    /// Starts a server and says nothing to it.
    pub fn raw(root: &Path) -> Self {
        let root = root.canonicalize().expect("the folder is there");
        let (connection, theirs) = Connection::memory();
        let cache_dir = Some(root.parent().expect("a folder above").join("cache"));
        let setting = Setting {
            system: Arc::new(OsSystem),
            registry: REGISTRY,
            cache_dir,
        };
        let server = std::thread::spawn(move || aebuild::lsp::serve(theirs, setting));
        Client {
            connection,
            server: Some(server),
            root,
            next: 0,
            versions: BTreeMap::new(),
            texts: BTreeMap::new(),
            published: BTreeMap::new(),
            n_published: BTreeMap::new(),
            others: Vec::new(),
        }
    }

    /// Returns the address of a file below the root.
    pub fn uri(&self, path: &str) -> String {
        format!("file://{}/{path}", self.root.display())
    }

    pub fn tell(&self, method: &str, params: Value) {
        let one = Notification::new(method.to_owned(), params);
        self.connection
            .sender
            .send(one.into())
            .expect("the server listens");
    }

    /// Sends a request and returns its id.
    pub fn send(&mut self, method: &str, params: Value) -> RequestId {
        self.next += 1;
        let id = RequestId::from(self.next);
        let request = Request::new(id.clone(), method.to_owned(), params);
        self.connection
            .sender
            .send(request.into())
            .expect("the server listens");
        id
    }

    /// Waits for the answer to a request.
    pub fn answer(&mut self, id: &RequestId) -> Response {
        loop {
            let message = self.connection.receiver.recv().expect("the server answers");
            match message {
                Message::Response(response) if response.id == *id => return response,
                Message::Response(other) => panic!("an answer to nothing: {other:?}"),
                Message::Notification(one) if one.method == "textDocument/publishDiagnostics" => {
                    let uri = one.params["uri"].as_str().expect("a text").to_owned();
                    let path = uri.strip_prefix(&self.uri("")).unwrap_or(&uri).to_owned();
                    let all = one.params["diagnostics"]
                        .as_array()
                        .expect("a list")
                        .clone();
                    *self.n_published.entry(path.clone()).or_default() += 1;
                    self.published.insert(path, all);
                }
                Message::Notification(one) => {
                    self.others
                        .push(json!({"method": one.method, "params": one.params}));
                }
                Message::Request(one) => {
                    self.others
                        .push(json!({"method": one.method, "params": one.params}));
                    let answer = Response::new_ok(one.id, Value::Null);
                    self.connection
                        .sender
                        .send(answer.into())
                        .expect("the server listens");
                }
            }
        }
    }

    /// Waits for two answers, in whatever order they come, and returns the codes of those that are refusals.
    pub fn both(&mut self, one: &RequestId, other: &RequestId) -> [Option<i32>; 2] {
        let mut found = [None, None];
        let mut left = 2;
        while left > 0 {
            let message = self.connection.receiver.recv().expect("the server answers");
            let Message::Response(response) = message else {
                continue;
            };
            for (at, id) in [one, other].into_iter().enumerate() {
                if response.id == *id {
                    found[at] = response
                        .response_result
                        .as_ref()
                        .err()
                        .map(|error| error.code);
                    left -= 1;
                }
            }
        }
        found
    }

    /// Asks and returns the result.
    #[track_caller]
    pub fn ask(&mut self, method: &str, params: Value) -> Value {
        let id = self.send(method, params);
        let answer = self.answer(&id);
        answer
            .response_result
            .unwrap_or_else(|error| panic!("{method}: {error:?}"))
    }

    /// Asks and returns the code and text of the refusal.
    #[track_caller]
    pub fn refused(&mut self, method: &str, params: Value) -> (i32, String) {
        let id = self.send(method, params);
        let error = self.answer(&id).response_result.expect_err("a refusal");
        (error.code, error.message)
    }

    /// Opens a document with the text that it has on disk.
    pub fn did_open(&mut self, path: &str) {
        let text = std::fs::read_to_string(self.root.join(path)).expect("it is there");
        self.did_open_as(path, &text);
    }

    pub fn did_open_as(&mut self, path: &str, text: &str) {
        let uri = self.uri(path);
        let document = json!({"uri": uri, "languageId": "json", "version": 1, "text": text});
        self.versions.insert(path.to_owned(), 1);
        self.texts.insert(path.to_owned(), text.to_owned());
        self.tell("textDocument/didOpen", json!({"textDocument": document}));
    }

    /// Replaces the whole text of a document.
    pub fn did_change(&mut self, path: &str, text: &str) {
        self.texts.insert(path.to_owned(), text.to_owned());
        self.did_edit(path, json!([{"text": text}]));
    }

    /// Sends changes of a document.
    pub fn did_edit(&mut self, path: &str, changes: Value) {
        let version = self.versions.entry(path.to_owned()).or_default();
        *version += 1;
        let document =
            json!({"uri": format!("file://{}/{path}", self.root.display()), "version": *version});
        self.tell(
            "textDocument/didChange",
            json!({"textDocument": document, "contentChanges": changes}),
        );
    }

    pub fn did_close(&mut self, path: &str) {
        let uri = self.uri(path);
        self.tell(
            "textDocument/didClose",
            json!({"textDocument": {"uri": uri}}),
        );
    }

    /// Tells of a file that changed on disk.
    pub fn changed_on_disk(&mut self, path: &str, kind: u8) {
        let uri = self.uri(path);
        self.tell(
            "workspace/didChangeWatchedFiles",
            json!({"changes": [{"uri": uri, "type": kind}]}),
        );
    }

    /// Waits until the faults of the folder of an open document are published, and returns those of a file as
    /// `line:column severity code`, lines and columns counted from 0.
    pub fn faults(&mut self, open: &str, of: &str) -> Vec<String> {
        self.actions(open, None);
        let all = self.published.get(of).cloned().unwrap_or_default();
        all.iter()
            .map(|one| {
                let start = &one["range"]["start"];
                let severity = match one["severity"].as_u64() {
                    Some(1) => "error",
                    Some(2) => "warning",
                    _ => "hint",
                };
                let code = one["code"].as_str().expect("a code");
                format!("{}:{} {severity} {code}", start["line"], start["character"])
            })
            .collect()
    }

    /// Returns the actions that are offered for a document.
    pub fn actions(&mut self, path: &str, only: Option<&str>) -> Vec<Value> {
        let uri = self.uri(path);
        let mut context = json!({"diagnostics": []});
        if let Some(only) = only {
            context["only"] = json!([only]);
        }
        let params = json!({
            "textDocument": {"uri": uri},
            "range": {"start": {"line": 0, "character": 0}, "end": {"line": 99999, "character": 0}},
            "context": context,
        });
        let answer = self.ask("textDocument/codeAction", params);
        answer.as_array().cloned().unwrap_or_default()
    }

    /// Returns the parameters of a request about the place where a text stands in a document, plus some bytes.
    #[track_caller]
    pub fn at(&self, path: &str, needle: &str, plus: usize) -> Value {
        let text = &self.texts[path];
        let found = text.find(needle);
        let offset = found.unwrap_or_else(|| panic!("no {needle} in {text}")) + plus;
        let before = &text[..offset];
        let line = before.matches('\n').count();
        let start = before.rfind('\n').map_or(0, |at| at + 1);
        let character: usize = before[start..].chars().map(char::len_utf16).sum();
        json!({
            "textDocument": {"uri": self.uri(path)},
            "position": {"line": line, "character": character},
        })
    }

    /// Returns a text with the edits of a workspace edit made.
    pub fn edited(&self, path: &str, edit: &Value) -> String {
        let uri = self.uri(path);
        let mut text =
            self.texts.get(path).cloned().unwrap_or_else(|| {
                std::fs::read_to_string(self.root.join(path)).expect("it is there")
            });
        let edits = match &edit["changes"] {
            Value::Null => {
                let all = edit["documentChanges"].as_array().expect("a list");
                let one = all.iter().find(|one| one["textDocument"]["uri"] == *uri);
                one.expect("edits of the file")["edits"].clone()
            }
            changes => changes[&uri].clone(),
        };
        let offset = |text: &str, at: &Value| {
            let line = at["line"].as_u64().expect("a number") as usize;
            let start: usize = text.split_inclusive('\n').take(line).map(str::len).sum();
            let wanted = at["character"].as_u64().expect("a number") as usize;
            let mut units = 0;
            let rest = text[start..].char_indices();
            let mut rest = rest.skip_while(|(_, c)| {
                let is_before = units < wanted;
                units += c.len_utf16();
                is_before
            });
            rest.next().map_or(text.len(), |(at, _)| start + at)
        };
        let edits = edits.as_array().cloned().unwrap_or_default();
        for one in edits.iter().rev() {
            let start = offset(&text, &one["range"]["start"]);
            let end = offset(&text, &one["range"]["end"]);
            text.replace_range(start..end, one["newText"].as_str().expect("a text"));
        }
        text
    }

    /// Ends the server and returns whether it ended as agreed.
    pub fn end(mut self) -> bool {
        assert_eq!(self.ask("shutdown", Value::Null), Value::Null);
        self.tell("exit", Value::Null);
        let server = self.server.take().expect("it was started");
        server.join().expect("it does not panic")
    }

    /// Goes away and returns whether the server ended as agreed.
    pub fn leave(self) -> bool {
        let Client {
            connection, server, ..
        } = self;
        drop(connection);
        server
            .expect("it was started")
            .join()
            .expect("it does not panic")
    }
}
