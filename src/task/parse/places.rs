//! Where everything of a task was written, kept apart from what it says.

use std::sync::Arc;

use crate::diagnostic::Source;
use crate::json::{Node, NodeKind, Span};
use crate::task::StepIx;

/// The positions of a task in its file.
#[derive(Clone, Debug, PartialEq)]
pub struct Places {
    source: Source,
    root: Arc<Node>,
    /// For each step, the index of its object in the list of the file.
    index: Vec<u32>,
}

impl Places {
    pub(super) fn new(source: &Source, root: Arc<Node>, index: Vec<u32>) -> Self {
        Places {
            source: source.clone(),
            root,
            index,
        }
    }

    /// Returns the file.
    pub fn source(&self) -> &Source {
        &self.source
    }

    /// Returns what could be read of the whole text.
    pub fn root(&self) -> &Node {
        &self.root
    }

    /// Returns the span of a step's object.
    pub fn step(&self, step: StepIx) -> Span {
        self.node(step).map_or(self.root.span, |node| node.span)
    }

    /// Returns the span of a step's opening bracket, for what the step lacks.
    pub fn opening(&self, step: StepIx) -> Span {
        opening(self.step(step))
    }

    /// Returns the span of a step's id, else of its opening bracket.
    pub fn id(&self, step: StepIx) -> Span {
        self.value(step, "id").unwrap_or_else(|| self.opening(step))
    }

    /// Returns the span of a step's type, else of its opening bracket.
    pub fn kind(&self, step: StepIx) -> Span {
        self.value(step, "type")
            .unwrap_or_else(|| self.opening(step))
    }

    /// Returns the span of what a JSON pointer below the step leads to.
    ///
    /// Where nothing stands there, the nearest parent that exists counts; for a field that the step does not have, that
    /// is the step.
    pub fn field(&self, step: StepIx, pointer: &str) -> Span {
        let Some(mut at) = self.node(step) else {
            return self.root.span;
        };
        for part in pointer.split('/').skip(1) {
            let part = part.replace("~1", "/").replace("~0", "~");
            let next = match &at.kind {
                NodeKind::Object(_) => at.get(&part),
                NodeKind::Array(items) => part.parse::<usize>().ok().and_then(|ix| items.get(ix)),
                _ => None,
            };
            match next {
                Some(next) => at = next,
                None => break,
            }
        }
        at.span
    }

    /// Returns what a JSON pointer below the step leads to, as it is written.
    pub fn written(&self, step: StepIx, pointer: &str) -> Option<&Node> {
        self.node(step)?.pointer(pointer)
    }

    /// Returns the span of what a JSON pointer below the step leads to, if it leads to something.
    pub fn exact(&self, step: StepIx, pointer: &str) -> Option<Span> {
        Some(self.node(step)?.pointer(pointer)?.span)
    }

    /// Returns the span of a field as [`Places::field`] does, but that of the type for a field that the step lacks.
    pub fn field_or_kind(&self, step: StepIx, pointer: &str) -> Span {
        let span = self.field(step, pointer);
        if span == self.step(step) {
            self.kind(step)
        } else {
            span
        }
    }

    /// Returns the span of a step's key.
    pub fn key(&self, step: StepIx, name: &str) -> Option<Span> {
        Some(self.node(step)?.member(name)?.key_span)
    }

    /// Returns the span of the value of `depends_on`.
    pub fn depends_on(&self, step: StepIx) -> Option<Span> {
        self.value(step, "depends_on")
    }

    /// Returns the value of `depends_on` with its places.
    pub fn dependencies(&self, step: StepIx) -> Option<&Node> {
        self.node(step)?.get("depends_on")
    }

    /// Returns the span of the first entry of `depends_on` that names this step.
    pub fn edge(&self, step: StepIx, id: &str) -> Option<Span> {
        let entries = self.node(step)?.get("depends_on")?.as_array()?;
        let named = entries.iter().filter_map(edge_id);
        named
            .filter(|node| node.as_str() == Some(id))
            .map(|node| node.span)
            .next()
    }

    /// Returns the span of the whole entry of a step's `depends_on` with this id.
    pub fn edge_entry(&self, step: StepIx, id: &str) -> Option<Span> {
        let mut entries = self.node(step)?.get("depends_on")?.as_array()?.iter();
        let is_it = |entry: &&Node| edge_id(entry).and_then(Node::as_str) == Some(id);
        entries.find(is_it).map(|entry| entry.span)
    }

    /// Returns whether `depends_on` is omitted, or a list in which every entry names something.
    pub fn edges_are_whole(&self, step: StepIx) -> bool {
        let Some(written) = self.node(step).and_then(|node| node.get("depends_on")) else {
            return true;
        };
        match &written.kind {
            NodeKind::Null => true,
            NodeKind::Array(entries) => entries.iter().all(|entry| edge_id(entry).is_some()),
            _ => false,
        }
    }

    /// Returns the span of a step's `retry_config`, else of its key.
    pub fn retry(&self, step: StepIx) -> Option<Span> {
        self.value(step, "retry_config")
    }

    /// Returns the span of the step that a retry goes back to.
    pub fn retry_target(&self, step: StepIx) -> Option<Span> {
        let config = self.node(step)?.get("retry_config")?;
        let target = config
            .get("retry_from_step_id")
            .or_else(|| config.get("go_to_step_id"))?;
        Some(target.span)
    }

    fn value(&self, step: StepIx, key: &str) -> Option<Span> {
        Some(self.node(step)?.get(key)?.span)
    }

    fn node(&self, step: StepIx) -> Option<&Node> {
        self.root
            .as_array()?
            .get(*self.index.get(step.at())? as usize)
    }
}

/// Returns the string node of a dependency entry, in either form.
pub(super) fn edge_id(entry: &Node) -> Option<&Node> {
    match &entry.kind {
        NodeKind::String(_) => Some(entry),
        NodeKind::Object(_) => entry
            .get("task_step_id")
            .filter(|node| node.as_str().is_some()),
        _ => None,
    }
}

/// Returns the span of the bracket that a container starts with.
pub(super) fn opening(span: Span) -> Span {
    Span {
        start: span.start,
        end: span.end.min(span.start.saturating_add(1)),
    }
}
