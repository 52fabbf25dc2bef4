//! What editors ask of a place in a document.

use std::path::{Path, PathBuf};

use lsp_server::ErrorCode;
use lsp_types as lsp;
use lsp_types::request::Request as _;
use serde::Deserialize;

use super::publish::Texts;
use super::server::{Client, Server};
use super::text::Encoding;
use super::uri::{path_of, uri_of};
use crate::diagnostic::Span;
use crate::json::{Value, json, to_value};
use crate::session::{Completion, CompletionKind, FileEdit, Location};

/// Why a request has no answer.
pub(super) type Refusal = (ErrorCode, String);

/// Returns what the server can.
pub(super) fn capabilities(client: Client) -> Value {
    json!({
        "positionEncoding": match client.encoding {
            Encoding::Utf8 => "utf-8",
            Encoding::Utf16 => "utf-16",
        },
        "textDocumentSync": {"openClose": true, "change": 2, "save": {"includeText": false}},
        "completionProvider": {"triggerCharacters": ["\"", ":", "{", "[", ","]},
        "hoverProvider": true,
        "definitionProvider": true,
        "referencesProvider": true,
        "renameProvider": {"prepareProvider": true},
        "documentSymbolProvider": true,
        "documentFormattingProvider": true,
        "codeActionProvider": {"codeActionKinds": ["quickfix", super::fix::FIX_ALL]},
        "workspace": {"workspaceFolders": {"supported": true, "changeNotifications": true}},
    })
}

/// A place in a document of a root.
struct Place {
    root: usize,
    path: PathBuf,
    shown: String,
    offset: usize,
}

impl Server {
    /// Answers a request.
    pub(super) fn answer(&mut self, method: &str, params: Value) -> Result<Value, Refusal> {
        match method {
            lsp::request::Completion::METHOD => self.completion(read(&params)?),
            lsp::request::HoverRequest::METHOD => self.hover(read(&params)?),
            lsp::request::GotoDefinition::METHOD => self.definition(read(&params)?),
            lsp::request::References::METHOD => self.references(read(&params)?),
            lsp::request::PrepareRenameRequest::METHOD => self.prepare_rename(read(&params)?),
            lsp::request::Rename::METHOD => self.rename(read(&params)?),
            lsp::request::DocumentSymbolRequest::METHOD => self.symbols(read(&params)?),
            lsp::request::Formatting::METHOD => self.formatting(read(&params)?),
            lsp::request::CodeActionRequest::METHOD => self.code_actions(read(&params)?),
            _ => Err((
                ErrorCode::MethodNotFound,
                format!("aebuild has no `{method}`"),
            )),
        }
    }

    /// Finds the place that a request is about; `None` where no task folder has it.
    fn place(&self, at: &lsp::TextDocumentPositionParams) -> Result<Option<Place>, Refusal> {
        let Some(path) = path_of(&at.text_document.uri) else {
            return Ok(None);
        };
        let Some(document) = self.documents.get(&path) else {
            return Ok(None);
        };
        let Some(root) = self.root_of(&path) else {
            return Ok(None);
        };
        let offset = document.offset(at.position, self.client.encoding);
        let offset = offset.ok_or_else(|| {
            let line = at.position.line;
            (
                ErrorCode::InvalidParams,
                format!("`{}` has no line {line}, counted from 0", path.display()),
            )
        })?;
        let shown = self.roots[root].shown(&path).unwrap_or_default();
        Ok(Some(Place {
            root,
            path,
            shown,
            offset,
        }))
    }

    fn completion(&mut self, params: lsp::CompletionParams) -> Result<Value, Refusal> {
        let Some(place) = self.place(&params.text_document_position)? else {
            return Ok(Value::Null);
        };
        let text = &self.documents[&place.path].text;
        let found = match &mut self.roots[place.root].session {
            Some(session) if is_toml(&place.path) => {
                session.complete_settings(&place.path, text, place.offset)
            }
            Some(session) => session.complete(&place.shown, place.offset),
            None => Vec::new(),
        };
        let items = found.iter().enumerate();
        let items = items.map(|(at, one)| self.completion_item(&place.path, at, one));
        Ok(json!({"isIncomplete": false, "items": items.collect::<Vec<_>>()}))
    }

    fn completion_item(&self, path: &Path, at: usize, one: &Completion) -> Value {
        let document = &self.documents[path];
        let is_snippet = self.client.has_snippets && one.snippet != one.text;
        let text = if is_snippet { &one.snippet } else { &one.text };
        let typed = document.text.get(one.replace.range()).unwrap_or_default();
        let quote = if typed.starts_with('"') { "\"" } else { "" };
        let kind = match one.kind {
            CompletionKind::Field => lsp::CompletionItemKind::FIELD,
            CompletionKind::StepType => lsp::CompletionItemKind::CLASS,
            CompletionKind::Value => lsp::CompletionItemKind::ENUM_MEMBER,
            CompletionKind::Name(_) => lsp::CompletionItemKind::REFERENCE,
            CompletionKind::File => lsp::CompletionItemKind::FILE,
        };
        let item = lsp::CompletionItem {
            label: one.label.clone(),
            kind: Some(kind),
            detail: one.detail.clone(),
            documentation: one.doc.clone().map(|value| {
                lsp::Documentation::MarkupContent(lsp::MarkupContent {
                    kind: lsp::MarkupKind::Markdown,
                    value,
                })
            }),
            // What is typed has its quote, so what it is held against needs one too.
            filter_text: Some(format!("{quote}{}", one.label)),
            sort_text: Some(format!("{at:04}")),
            insert_text_format: Some(match is_snippet {
                true => lsp::InsertTextFormat::SNIPPET,
                false => lsp::InsertTextFormat::PLAIN_TEXT,
            }),
            text_edit: Some(lsp::CompletionTextEdit::Edit(lsp::TextEdit {
                range: document.range(one.replace, self.client.encoding),
                new_text: text.clone(),
            })),
            ..lsp::CompletionItem::default()
        };
        to_value(item).unwrap_or_default()
    }

    fn hover(&mut self, params: lsp::HoverParams) -> Result<Value, Refusal> {
        let Some(place) = self.place(&params.text_document_position_params)? else {
            return Ok(Value::Null);
        };
        let Some(session) = &mut self.roots[place.root].session else {
            return Ok(Value::Null);
        };
        let text = &self.documents[&place.path].text;
        let found = match is_toml(&place.path) {
            true => session.hover_settings(&place.path, text, place.offset),
            false => session.hover(&place.shown, place.offset),
        };
        let Some(hover) = found else {
            return Ok(Value::Null);
        };
        let mut value = hover.text;
        let step = hover.step.as_deref();
        if let Some(result) = step.and_then(|step| session.result_of(&place.shown, step)) {
            value.push_str("\n\n---\n\n");
            value.push_str(&super::told::result(&result));
        }
        let range = self.documents[&place.path].range(hover.span, self.client.encoding);
        Ok(json!({"contents": {"kind": "markdown", "value": value}, "range": range}))
    }

    fn definition(&mut self, params: lsp::GotoDefinitionParams) -> Result<Value, Refusal> {
        let Some(place) = self.place(&params.text_document_position_params)? else {
            return Ok(Value::Null);
        };
        let text = &self.documents[&place.path].text;
        let found = match &mut self.roots[place.root].session {
            Some(session) if is_toml(&place.path) => {
                session.definitions_in_settings(&place.path, text, place.offset)
            }
            Some(session) => session
                .definitions(&place.shown, place.offset)
                .map_or_else(Vec::new, |(_, locations)| locations),
            None => Vec::new(),
        };
        Ok(self.locations(&found))
    }

    fn references(&mut self, params: lsp::ReferenceParams) -> Result<Value, Refusal> {
        let Some(place) = self.place(&params.text_document_position)? else {
            return Ok(Value::Null);
        };
        let Some(session) = &mut self.roots[place.root].session else {
            return Ok(Value::Null);
        };
        let with_makers = params.context.include_declaration;
        let found = session.references(&place.shown, place.offset, with_makers);
        Ok(self.locations(&found))
    }

    fn locations(&self, found: &[Location]) -> Value {
        let mut texts = Texts::default();
        let told = found.iter().filter_map(|one| {
            let is_open = self.documents.contains_key(&one.path);
            let range = match &one.source {
                Some(source) => texts.range(source, one.span, is_open, self.client.encoding),
                None => lsp::Range::default(),
            };
            Some(json!({"uri": uri_of(&one.path)?, "range": range}))
        });
        Value::Array(told.collect())
    }

    fn prepare_rename(
        &mut self,
        params: lsp::TextDocumentPositionParams,
    ) -> Result<Value, Refusal> {
        let Some(place) = self.place(&params)? else {
            return Ok(Value::Null);
        };
        let Some(session) = &mut self.roots[place.root].session else {
            return Ok(Value::Null);
        };
        let found = session.can_rename(&place.shown, place.offset);
        let span: Option<Span> = found.map_err(|refused| (ErrorCode::RequestFailed, refused.0))?;
        let document = &self.documents[&place.path];
        let range = span.map(|span| document.range(span, self.client.encoding));
        Ok(to_value(range).unwrap_or_default())
    }

    fn rename(&mut self, params: lsp::RenameParams) -> Result<Value, Refusal> {
        let Some(place) = self.place(&params.text_document_position)? else {
            return Ok(Value::Null);
        };
        let Some(session) = &mut self.roots[place.root].session else {
            return Ok(Value::Null);
        };
        let found = session.rename(&place.shown, place.offset, &params.new_name);
        let found = found.map_err(|refused| (ErrorCode::RequestFailed, refused.0))?;
        Ok(found.map_or(Value::Null, |files| self.workspace_edit(&files)))
    }

    /// Returns edits as the editor makes them.
    pub(super) fn workspace_edit(&self, files: &[FileEdit]) -> Value {
        let mut texts = Texts::default();
        let (mut versioned, mut plain) = (Vec::new(), crate::json::Map::new());
        for file in files {
            let Some(uri) = uri_of(&file.path) else {
                continue;
            };
            let document = self.documents.get(&file.path);
            let edits = file.edits.iter().map(|edit| {
                let range = texts.range(
                    &file.source,
                    edit.span,
                    document.is_some(),
                    self.client.encoding,
                );
                json!({"range": range, "newText": edit.text})
            });
            let edits: Vec<Value> = edits.collect();
            let version = document.map(|document| document.version);
            plain.insert(uri.as_str().to_owned(), Value::Array(edits.clone()));
            versioned.push(json!({
                "textDocument": {"uri": uri, "version": version},
                "edits": edits,
            }));
        }
        match self.client.has_versioned_edits {
            true => json!({"documentChanges": versioned}),
            false => json!({"changes": plain}),
        }
    }

    fn symbols(&mut self, params: lsp::DocumentSymbolParams) -> Result<Value, Refusal> {
        let at = lsp::TextDocumentPositionParams {
            text_document: params.text_document,
            position: lsp::Position::default(),
        };
        let Some(place) = self.place(&at)? else {
            return Ok(Value::Null);
        };
        let Some(session) = &mut self.roots[place.root].session else {
            return Ok(Value::Null);
        };
        let found = session.symbols(&place.shown);
        let document = &self.documents[&place.path];
        let told = found.into_iter().map(|one| {
            json!({
                "name": one.name,
                "detail": one.kind,
                "kind": lsp::SymbolKind::OBJECT,
                "range": document.range(one.span, self.client.encoding),
                "selectionRange": document.range(one.id, self.client.encoding),
            })
        });
        Ok(Value::Array(told.collect()))
    }
}

impl Server {
    /// Lays a task file out, whatever the editor says of tabs and widths: there is one layout.
    fn formatting(&mut self, params: lsp::DocumentFormattingParams) -> Result<Value, Refusal> {
        let path = path_of(&params.text_document.uri);
        let root = path.as_ref().and_then(|path| self.root_of(path));
        let (Some(path), Some(root)) = (path, root) else {
            return Ok(Value::Null);
        };
        let document = self.documents.get(&path);
        // What a task puts into a sandbox is laid out by its author.
        let document = document.filter(|_| self.roots[root].is_task(&path));
        let edit = document.map(|document| super::format::edit(document, self.client.encoding));
        Ok(edit.map_or(Value::Null, |edit| {
            to_value(Vec::from_iter(edit)).unwrap_or_default()
        }))
    }
}

fn is_toml(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == "toml")
}

fn read<'v, P: Deserialize<'v>>(params: &'v Value) -> Result<P, Refusal> {
    P::deserialize(params).map_err(|error| (ErrorCode::InvalidParams, error.to_string()))
}
