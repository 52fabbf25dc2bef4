//! The state of the server, and what messages without an answer do to it.

use std::collections::{HashMap, VecDeque};
use std::path::{Path, PathBuf};

use lsp_server::{Connection, ErrorCode, Message, Notification, Request, RequestId, Response};
use lsp_types as lsp;
use lsp_types::notification::Notification as _;
use lsp_types::request::Request as _;
use serde::Deserialize;

use super::Setting;
use super::overlay::OpenTexts;
use super::publish::Form;
use super::root::{Root, folder_above, is_task};
use super::text::{Document, Encoding};
use super::uri::path_of;
use crate::json::{Value, json};
use crate::session::Change;

/// Folders in which nothing of an author's stands.
const NOT_WATCHED: [&str; 3] = [".aebuild", ".git", "node_modules"];

/// The server.
pub(super) struct Server {
    pub(super) setting: Setting,
    pub(super) documents: HashMap<PathBuf, Document>,
    pub(super) roots: Vec<Root>,
    pub(super) client: Client,
    connection: Connection,
    queue: VecDeque<Message>,
    texts: OpenTexts,
    phase: Phase,
}

/// What the editor can.
#[derive(Clone, Copy, Default)]
pub(super) struct Client {
    /// How it counts characters.
    pub encoding: Encoding,
    /// Whether it shows places that explain a fault.
    pub has_related: bool,
    /// Whether it fills in snippets.
    pub has_snippets: bool,
    /// Whether edits may say of which version of a document they are.
    pub has_versioned_edits: bool,
    watches: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    New,
    Works,
    ShutDown,
}

impl Server {
    /// Returns a server that waits for its first message.
    pub(super) fn new(connection: Connection, setting: Setting) -> Self {
        Server {
            setting,
            documents: HashMap::new(),
            roots: Vec::new(),
            client: Client::default(),
            connection,
            queue: VecDeque::new(),
            texts: OpenTexts::default(),
            phase: Phase::New,
        }
    }

    /// Serves until the editor ends it or goes away; returns whether it ended as agreed.
    pub(super) fn run(mut self) -> bool {
        while let Some(message) = self.next() {
            match message {
                Message::Request(request) => self.request(request),
                Message::Notification(one) if one.method == lsp::notification::Exit::METHOD => {
                    return self.phase == Phase::ShutDown;
                }
                Message::Notification(one) => self.notification(one),
                // What was asked of the editor needs no answer.
                Message::Response(_) => {}
            }
        }
        false
    }

    /// Returns the next message; while none waits, faults are looked for.
    fn next(&mut self) -> Option<Message> {
        loop {
            self.drain();
            if self.queue.is_empty() {
                self.publish();
                self.drain();
            }
            if self.queue.is_empty() {
                let message = self.connection.receiver.recv().ok()?;
                self.take(message);
                self.drain();
            }
            // A message that takes back the only other one leaves none.
            if let Some(message) = self.queue.pop_front() {
                return Some(message);
            }
        }
    }

    fn drain(&mut self) {
        while let Ok(message) = self.connection.receiver.try_recv() {
            self.take(message);
        }
    }

    /// Puts a message into the queue, or takes a request back that waits there.
    fn take(&mut self, message: Message) {
        let cancelled = match &message {
            Message::Notification(one) if one.method == lsp::notification::Cancel::METHOD => {
                let params = lsp::CancelParams::deserialize(&one.params).ok();
                params.map(|params| match params.id {
                    lsp::NumberOrString::Number(id) => RequestId::from(id),
                    lsp::NumberOrString::String(id) => RequestId::from(id),
                })
            }
            _ => {
                self.queue.push_back(message);
                return;
            }
        };
        let Some(id) = cancelled else { return };
        let waits = |one: &Message| matches!(one, Message::Request(request) if request.id == id);
        if let Some(at) = self.queue.iter().position(waits) {
            self.queue.remove(at);
            self.refuse(id, ErrorCode::RequestCanceled, "the request was taken back");
        }
    }

    pub(super) fn send(&self, message: impl Into<Message>) {
        // Who has gone needs no answer; the loop ends with the next message that does not come.
        let _ = self.connection.sender.send(message.into());
    }

    pub(super) fn refuse(&self, id: RequestId, code: ErrorCode, text: impl Into<String>) {
        self.send(Response::new_err(id, code as i32, text.into()));
    }

    pub(super) fn tell<N: lsp::notification::Notification>(&self, params: N::Params) {
        self.send(Notification::new(N::METHOD.to_owned(), params));
    }

    fn request(&mut self, request: Request) {
        let Request { id, method, params } = request;
        match (self.phase, method.as_str()) {
            (Phase::New, lsp::request::Initialize::METHOD) => self.initialize(id, &params),
            (Phase::New, _) => {
                self.refuse(
                    id,
                    ErrorCode::ServerNotInitialized,
                    "`initialize` comes first",
                );
            }
            (Phase::ShutDown, _) => {
                self.refuse(
                    id,
                    ErrorCode::InvalidRequest,
                    "only `exit` comes after `shutdown`",
                );
            }
            (Phase::Works, lsp::request::Shutdown::METHOD) => {
                self.phase = Phase::ShutDown;
                self.send(Response::new_ok(id, Value::Null));
            }
            (Phase::Works, lsp::request::Initialize::METHOD) => {
                self.refuse(id, ErrorCode::InvalidRequest, "`initialize` comes once");
            }
            (Phase::Works, _) => {
                for root in &mut self.roots {
                    root.apply(&self.setting);
                }
                match self.answer(&method, params) {
                    Ok(answer) => self.send(Response::new_ok(id, answer)),
                    Err((code, text)) => self.refuse(id, code, text),
                }
            }
        }
    }

    fn initialize(&mut self, id: RequestId, params: &Value) {
        let params = match lsp::InitializeParams::deserialize(params) {
            Ok(params) => params,
            Err(error) => {
                return self.refuse(id, ErrorCode::InvalidParams, error.to_string());
            }
        };
        self.client = Client::of(&params.capabilities);
        let mut folders: Vec<PathBuf> = params
            .workspace_folders
            .iter()
            .flatten()
            .filter_map(|folder| path_of(&folder.uri))
            .collect();
        #[expect(deprecated, reason = "some editors name the root in no other way")]
        if folders.is_empty() {
            folders.extend(params.root_uri.as_ref().and_then(path_of));
        }
        for folder in folders {
            self.open_workspace(folder);
        }
        self.phase = Phase::Works;
        let answer = json!({
            "capabilities": super::answer::capabilities(self.client),
            "serverInfo": {"name": "aebuild", "version": env!("CARGO_PKG_VERSION")},
        });
        self.send(Response::new_ok(id, answer));
    }

    fn open_workspace(&mut self, folder: PathBuf) {
        if self
            .roots
            .iter()
            .any(|root| root.is_workspace && root.path == folder)
        {
            return;
        }
        let mut root = Root::open(folder, None, &self.setting, &self.texts);
        root.is_workspace = true;
        self.roots.push(root);
    }

    fn notification(&mut self, one: Notification) {
        if self.phase != Phase::Works {
            return;
        }
        let Notification { method, params } = one;
        let done = match method.as_str() {
            lsp::notification::Initialized::METHOD => {
                self.register();
                Ok(())
            }
            lsp::notification::DidOpenTextDocument::METHOD => {
                with(&params, |params| self.did_open(params))
            }
            lsp::notification::DidChangeTextDocument::METHOD => {
                with(&params, |params| self.did_change(params))
            }
            lsp::notification::DidSaveTextDocument::METHOD => {
                with(&params, |params: lsp::DidSaveTextDocumentParams| {
                    self.changed(&params.text_document.uri);
                })
            }
            lsp::notification::DidCloseTextDocument::METHOD => {
                with(&params, |params| self.did_close(params))
            }
            lsp::notification::DidChangeWatchedFiles::METHOD => {
                with(&params, |params: lsp::DidChangeWatchedFilesParams| {
                    for change in params.changes {
                        self.changed(&change.uri);
                    }
                })
            }
            lsp::notification::DidChangeWorkspaceFolders::METHOD => {
                with(&params, |params| self.did_change_folders(params))
            }
            // What a server does not know it may pass over.
            _ => Ok(()),
        };
        if let Err(text) = done {
            self.log(format!("`{method}` cannot be read: {text}"));
        }
    }

    fn log(&self, message: String) {
        let typ = lsp::MessageType::WARNING;
        self.tell::<lsp::notification::LogMessage>(lsp::LogMessageParams { typ, message });
    }

    /// Asks the editor to tell of files that change.
    fn register(&mut self) {
        if !self.client.watches {
            return;
        }
        let params = json!({"registrations": [{
            "id": "files",
            "method": lsp::notification::DidChangeWatchedFiles::METHOD,
            "registerOptions": {"watchers": [{"globPattern": "**/*"}]},
        }]});
        let id = RequestId::from("aebuild-files".to_owned());
        let method = lsp::request::RegisterCapability::METHOD.to_owned();
        self.send(Request::new(id, method, params));
    }

    fn did_open(&mut self, params: lsp::DidOpenTextDocumentParams) {
        let document = params.text_document;
        let Some(path) = path_of(&document.uri) else {
            return;
        };
        self.texts.set(&path, &document.text);
        let document = Document::new(document.text, document.version);
        self.documents.insert(path.clone(), document);
        self.find_root(&path);
        self.changed_path(&path);
    }

    fn did_change(&mut self, params: lsp::DidChangeTextDocumentParams) {
        let Some(path) = path_of(&params.text_document.uri) else {
            return;
        };
        let encoding = self.client.encoding;
        let Some(document) = self.documents.get_mut(&path) else {
            return self.log(format!("`{}` is not open", path.display()));
        };
        document.version = params.text_document.version;
        let is_within = document.edit(params.content_changes, encoding);
        self.texts.set(&path, &document.text);
        if !is_within {
            self.log(format!(
                "a change of `{}` is outside its text",
                path.display()
            ));
        }
        self.find_root(&path);
        self.changed_path(&path);
        for root in &mut self.roots {
            root.note_typed(&path);
        }
    }

    fn did_close(&mut self, params: lsp::DidCloseTextDocumentParams) {
        let Some(path) = path_of(&params.text_document.uri) else {
            return;
        };
        self.documents.remove(&path);
        self.texts.remove(&path);
        self.changed_path(&path);
        let documents = &self.documents;
        let is_left =
            |root: &Root| root.is_workspace || documents.keys().any(|document| root.has(document));
        let (left, gone) = std::mem::take(&mut self.roots)
            .into_iter()
            .partition(is_left);
        self.roots = left;
        self.retract(gone);
    }

    fn did_change_folders(&mut self, params: lsp::DidChangeWorkspaceFoldersParams) {
        let removed: Vec<PathBuf> = params
            .event
            .removed
            .iter()
            .filter_map(|one| path_of(&one.uri))
            .collect();
        let is_left = |root: &Root| !root.is_workspace || !removed.contains(&root.path);
        let (left, gone) = std::mem::take(&mut self.roots)
            .into_iter()
            .partition(is_left);
        self.roots = left;
        self.retract(gone);
        for folder in params.event.added {
            if let Some(folder) = path_of(&folder.uri) {
                self.open_workspace(folder);
            }
        }
        let open: Vec<PathBuf> = self.documents.keys().cloned().collect();
        for path in open {
            self.find_root(&path);
        }
    }

    fn retract(&self, roots: Vec<Root>) {
        for mut root in roots {
            for params in root.retract(&self.documents) {
                self.tell::<lsp::notification::PublishDiagnostics>(params);
            }
        }
    }

    fn changed(&mut self, uri: &lsp::Uri) {
        if let Some(path) = path_of(uri) {
            self.changed_path(&path);
        }
    }

    /// Notes that a file may be different.
    fn changed_path(&mut self, path: &Path) {
        let is_ours = |part: std::path::Component<'_>| {
            NOT_WATCHED.iter().any(|name| part.as_os_str() == *name)
        };
        for root in &mut self.roots {
            let below = path.strip_prefix(&root.path).unwrap_or(path);
            let is_inside = below != path || root.has(path);
            if is_inside && !below.components().any(is_ours) {
                root.note(Change::Path(path.to_owned()));
            }
        }
    }

    /// Makes sure that a document has the session of its folder, if it is in one.
    fn find_root(&mut self, path: &Path) {
        if self.root_of(path).is_some() {
            return;
        }
        if let Some(folder) = folder_above(path) {
            // A folder that the editor opened may have become a task folder meanwhile; it opens itself.
            if self
                .roots
                .iter()
                .any(|root| root.path == folder && root.lone.is_none())
            {
                return;
            }
            let root = Root::open(folder, None, &self.setting, &self.texts);
            if root.session.is_some() && root.has(path) {
                self.roots.push(root);
                return;
            }
        }
        let text = self
            .documents
            .get(path)
            .map_or("", |document| &document.text);
        let is_json = path.extension().is_some_and(|ending| ending == "json");
        if is_json && text.contains("\"type\"") && is_task(text, self.setting.registry) {
            let Some(folder) = path.parent() else { return };
            let lone = Some(path.to_owned());
            let root = Root::open(folder.to_owned(), lone, &self.setting, &self.texts);
            self.roots.push(root);
        }
    }

    /// Returns the position of the root that has a file.
    pub(super) fn root_of(&self, path: &Path) -> Option<usize> {
        self.roots.iter().position(|root| root.has(path))
    }

    /// Looks for faults and publishes those that differ.
    fn publish(&mut self) {
        for at in 0..self.roots.len() {
            self.publish_root(at);
        }
    }

    /// Takes in what was typed in a root, looks for faults, and publishes those that differ.
    pub(super) fn publish_root(&mut self, at: usize) {
        let form = Form {
            encoding: self.client.encoding,
            has_related: self.client.has_related,
        };
        let root = &mut self.roots[at];
        root.apply(&self.setting);
        for params in root.publish(&self.documents, form) {
            self.tell::<lsp::notification::PublishDiagnostics>(params);
        }
    }
}

/// Reads the parameters of a message.
fn with<'v, P: Deserialize<'v>>(params: &'v Value, act: impl FnOnce(P)) -> Result<(), String> {
    act(P::deserialize(params).map_err(|error| error.to_string())?);
    Ok(())
}

impl Client {
    fn of(can: &lsp::ClientCapabilities) -> Self {
        let general = can.general.as_ref();
        let encodings = general.and_then(|general| general.position_encodings.as_ref());
        let has_utf8 = encodings.is_some_and(|all| all.contains(&lsp::PositionEncodingKind::UTF8));
        let text = can.text_document.as_ref();
        let workspace = can.workspace.as_ref();
        let is_set = |flag: Option<bool>| flag.unwrap_or_default();
        Client {
            encoding: match has_utf8 {
                true => Encoding::Utf8,
                false => Encoding::Utf16,
            },
            has_related: text
                .and_then(|text| text.publish_diagnostics.as_ref())
                .is_some_and(|publish| is_set(publish.related_information)),
            has_snippets: text
                .and_then(|text| text.completion.as_ref()?.completion_item.as_ref())
                .is_some_and(|item| is_set(item.snippet_support)),
            has_versioned_edits: workspace
                .and_then(|workspace| workspace.workspace_edit.as_ref())
                .is_some_and(|edit| is_set(edit.document_changes)),
            watches: workspace
                .and_then(|workspace| workspace.did_change_watched_files)
                .is_some_and(|watched| is_set(watched.dynamic_registration)),
        }
    }
}
