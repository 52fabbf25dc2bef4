//! The steps of a task, as an outline.

use super::{Scene, inside, text};
use crate::diagnostic::Span;
use crate::json::Node;

/// A step in the outline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Symbol {
    /// Its id, or its position where it has none.
    pub name: String,
    /// Its type.
    pub kind: String,
    /// Its object.
    pub span: Span,
    /// Its id.
    pub id: Span,
}

/// Returns the steps in the order of the text.
pub fn symbols(scene: &Scene<'_>) -> Vec<Symbol> {
    let steps = scene.steps().map(|(at, node)| {
        let id = node
            .get("id")
            .filter(|id| id.as_str().is_some_and(|id| !id.is_empty()));
        Symbol {
            name: id
                .and_then(Node::as_str)
                .map_or_else(|| format!("step {}", at + 1), str::to_owned),
            kind: text(node, "type").to_owned(),
            span: node.span,
            id: id.map_or(node.span, |id| inside(scene.source, id.span)),
        }
    });
    steps.collect()
}
