//! Faults as editors show them, published by file and only where they differ.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use lsp_types::{
    DiagnosticRelatedInformation, DiagnosticSeverity, DiagnosticTag, Location, NumberOrString,
    PublishDiagnosticsParams, Range,
};

use super::root::Root;
use super::text::{Document, Encoding, Starts};
use super::uri::uri_of;
use crate::diagnostic::{Diagnostic, Label, Severity, Source, Span};
use crate::session::Session;

/// The faults of one file as they were published.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Faults {
    /// The faults.
    pub faults: Vec<Diagnostic>,
    /// The version of the document that they are of, where it is open.
    pub version: Option<i32>,
}

/// How faults are told.
#[derive(Clone, Copy)]
pub(super) struct Form {
    /// How the editor counts.
    pub encoding: Encoding,
    /// Whether it shows places that explain.
    pub has_related: bool,
}

/// The texts of the sources of faults, each with its lines found once.
#[derive(Default)]
pub(super) struct Texts<'a>(HashMap<&'a str, Starts>);

impl<'a> Texts<'a> {
    /// Returns the range of a span, as the editor sees the text.
    pub(super) fn range(
        &mut self,
        source: &'a Source,
        span: Span,
        is_open: bool,
        encoding: Encoding,
    ) -> Range {
        let starts = self
            .0
            .entry(&source.name)
            .or_insert_with(|| Starts::of(&source.text));
        let mut range = starts.range(&source.text, span, encoding);
        // An editor hides the byte order mark of what it opens from disk.
        if !is_open && source.text.starts_with('\u{feff}') {
            let mark = match encoding {
                Encoding::Utf8 => 3,
                Encoding::Utf16 => 1,
            };
            for position in [&mut range.start, &mut range.end] {
                if position.line == 0 {
                    position.character = position.character.saturating_sub(mark);
                }
            }
        }
        range
    }
}

impl Root {
    /// Looks for faults if there may be others, and returns what is to be published.
    pub(super) fn publish(
        &mut self,
        documents: &HashMap<PathBuf, Document>,
        form: Form,
    ) -> Vec<PublishDiagnosticsParams> {
        let Some(faults) = self.faults() else {
            return Vec::new();
        };
        let Some(session) = &self.session else {
            return Vec::new();
        };
        let mut paths: HashMap<String, PathBuf> = HashMap::new();
        let mut by_file: BTreeMap<PathBuf, Vec<Diagnostic>> = BTreeMap::new();
        for fault in faults {
            let path = match fault.place() {
                Some(label) => match paths.get(&label.source.name) {
                    Some(path) => path.clone(),
                    None => {
                        let name = label.source.name.clone();
                        let path = file_of(session, &self.path, &name);
                        paths.insert(name, path.clone());
                        path
                    }
                },
                None => named(session, &self.path, &fault),
            };
            by_file.entry(path).or_default().push(fault);
        }
        let mut out = Vec::new();
        let gone = self
            .published
            .keys()
            .filter(|path| !by_file.contains_key(*path));
        for path in gone.cloned().collect::<Vec<_>>() {
            self.published.remove(&path);
            out.extend(params(&path, Vec::new(), documents));
        }
        for (path, faults) in by_file {
            let version = documents.get(&path).map(|document| document.version);
            let faults = Faults { faults, version };
            let is_known = self
                .published
                .get(&path)
                .is_some_and(|known| known.faults == faults.faults);
            if is_known {
                continue;
            }
            let mut texts = Texts::default();
            let resolve = |name: &str| match paths.get(name) {
                Some(path) => path.clone(),
                None => file_of(session, &self.path, name),
            };
            let told = faults
                .faults
                .iter()
                .map(|fault| told(fault, &path, documents, &resolve, &mut texts, form));
            let told = told.collect();
            out.extend(params(&path, told, documents));
            self.published.insert(path, faults);
        }
        out
    }

    /// Returns what takes back all that was published.
    pub(super) fn retract(
        &mut self,
        documents: &HashMap<PathBuf, Document>,
    ) -> Vec<PublishDiagnosticsParams> {
        let paths = std::mem::take(&mut self.published).into_keys();
        paths
            .filter_map(|path| params(&path, Vec::new(), documents))
            .collect()
    }

    /// Returns the file of a source.
    pub(super) fn file_of(&self, name: &str) -> PathBuf {
        match &self.session {
            Some(session) => file_of(session, &self.path, name),
            None => self.path.join(name),
        }
    }
}

fn file_of(session: &Session, root: &Path, name: &str) -> PathBuf {
    session.file_of(name).unwrap_or_else(|| root.join(name))
}

/// Returns what a fault without a place names, else the root.
fn named(session: &Session, root: &Path, fault: &Diagnostic) -> PathBuf {
    let names = fault.headline.split('`').skip(1).step_by(2);
    let mut files = names.filter_map(|name| session.file_of(name));
    files.next().unwrap_or_else(|| root.to_owned())
}

fn params(
    path: &Path,
    diagnostics: Vec<lsp_types::Diagnostic>,
    documents: &HashMap<PathBuf, Document>,
) -> Option<PublishDiagnosticsParams> {
    Some(PublishDiagnosticsParams {
        uri: uri_of(path)?,
        diagnostics,
        version: documents.get(path).map(|document| document.version),
    })
}

fn told<'a>(
    fault: &'a Diagnostic,
    path: &Path,
    documents: &HashMap<PathBuf, Document>,
    resolve: &dyn Fn(&str) -> PathBuf,
    texts: &mut Texts<'a>,
    form: Form,
) -> lsp_types::Diagnostic {
    let place = fault.place();
    let mut range = |label: &'a Label, path: &Path| {
        let is_open = documents.contains_key(path);
        texts.range(&label.source, label.span, is_open, form.encoding)
    };
    let at = place.map_or_else(Range::default, |label| range(label, path));
    let others = fault.labels.iter().filter(|label| {
        let is_place = place.is_some_and(|place| std::ptr::eq(place, *label));
        form.has_related && !is_place
    });
    let related: Vec<DiagnosticRelatedInformation> = others
        .filter_map(|label| {
            let path = resolve(&label.source.name);
            let message = match label.text.is_empty() {
                true => "here".to_owned(),
                false => label.text.clone(),
            };
            Some(DiagnosticRelatedInformation {
                location: Location::new(uri_of(&path)?, range(label, &path)),
                message,
            })
        })
        .collect();
    let mut message = fault.headline.clone();
    let notes = fault.notes.iter().map(|note| format!("\nnote: {note}"));
    let help = fault.help.iter().map(|help| format!("\nhelp: {help}"));
    message.extend(notes.chain(help));
    let is_hint = fault.severity == Severity::Hint;
    let is_unused = is_hint
        && ["unused", "unneeded"]
            .iter()
            .any(|start| fault.code.as_str().starts_with(start));
    lsp_types::Diagnostic {
        range: at,
        severity: Some(match fault.severity {
            Severity::Error => DiagnosticSeverity::ERROR,
            Severity::Warning => DiagnosticSeverity::WARNING,
            Severity::Hint => DiagnosticSeverity::HINT,
        }),
        code: Some(NumberOrString::String(fault.code.as_str().to_owned())),
        source: Some("aebuild".to_owned()),
        message,
        related_information: (!related.is_empty()).then_some(related),
        tags: is_unused.then(|| vec![DiagnosticTag::UNNECESSARY]),
        ..lsp_types::Diagnostic::default()
    }
}
