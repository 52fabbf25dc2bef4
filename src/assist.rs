//! Answers what an author asks while writing: what fits here, what is this, where is it made, who names it.
//!
//! Everything is read off the tree of the text, which is there for a text that does not parse too, and off the folder and
//! the configuration. Nothing here knows an editor, a protocol or a run.

mod complete;
mod cursor;
mod definition;
mod fields;
mod hover;
mod names;
mod rename;
pub mod settings;
mod symbols;

use crate::check::EnvTools;
use crate::diagnostic::{Source, Span};
use crate::json::Node;
use crate::step::Registry;
use crate::task::config::Config;
use crate::task::folder::TaskFolder;

pub use complete::{Completion, CompletionKind, complete};
pub use definition::{Target, definitions, targets};
pub use hover::{Hover, hover};
pub use names::{Name, Noun, Site, names_at, sites};
pub use rename::{Refused, Rename, is_name, one_with, rename};
pub use symbols::{Symbol, symbols};

/// A task file as its author sees it at the moment.
#[derive(Clone, Copy)]
pub struct Scene<'a> {
    /// The text.
    pub source: &'a Source,
    /// What could be read of it.
    pub root: &'a Node,
    /// The folder that it is in.
    pub folder: &'a TaskFolder,
    /// What `aebuild.toml` says.
    pub config: &'a Config,
    /// The step types.
    pub types: Registry,
    /// The tools of the envs that are compiled in.
    pub tools: &'a EnvTools,
}

/// An edit of one file: what is replaced, and what is written instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replacement {
    /// The bytes that are replaced.
    pub span: Span,
    /// The text that is written instead.
    pub text: String,
}

impl<'a> Scene<'a> {
    /// Returns the objects of the steps, in the order of the text, each with its position in the list.
    fn steps(&self) -> impl Iterator<Item = (usize, &'a Node)> + use<'a> {
        let items = self.root.as_array().unwrap_or_default();
        let steps = items.iter().enumerate();
        steps.filter(|(_, node)| node.as_object().is_some())
    }

    /// Returns the innermost value at an offset, with the keys that lead to it; `None` between steps.
    fn node_at(&self, offset: usize) -> Option<Found<'a>> {
        let items = self.root.as_array()?;
        // Later steps start later, so the one that has the offset is found without a walk.
        let at = items.partition_point(|item| item.span.start as usize <= offset);
        let step = items.get(at.checked_sub(1)?)?;
        let mut found = Found {
            step,
            keys: Vec::new(),
            node: step,
            key_span: None,
        };
        if !touches(step.span, offset) {
            return None;
        }
        loop {
            let next = match &found.node.kind {
                crate::json::NodeKind::Object(members) => {
                    let member = members.iter().find(|member| {
                        touches(member.key_span, offset) || touches(member.value.span, offset)
                    });
                    let Some(member) = member else {
                        return Some(found);
                    };
                    found.keys.push(member.key.as_str());
                    if touches(member.key_span, offset) {
                        found.key_span = Some(member.key_span);
                        found.node = &member.value;
                        return Some(found);
                    }
                    &member.value
                }
                crate::json::NodeKind::Array(items) => {
                    match items.iter().find(|item| touches(item.span, offset)) {
                        Some(item) => item,
                        None => return Some(found),
                    }
                }
                _ => return Some(found),
            };
            found.node = next;
        }
    }
}

/// What stands at an offset.
struct Found<'a> {
    /// The step that has it.
    step: &'a Node,
    /// The keys that lead from the step to it; positions in lists are left out.
    keys: Vec<&'a str>,
    /// The value, or the value of the key.
    node: &'a Node,
    /// The bytes of the key, where the offset is in a key.
    key_span: Option<Span>,
}

impl<'a> Found<'a> {
    /// Returns the name of the type of the step.
    fn kind(&self) -> &'a str {
        text(self.step, "type")
    }
}

/// Returns whether an offset is in a span or at one of its ends, as a cursor is.
fn touches(span: Span, offset: usize) -> bool {
    span.start as usize <= offset && offset <= span.end as usize
}

/// Returns the text of a member, empty where there is none.
fn text<'n>(node: &'n Node, key: &str) -> &'n str {
    node.get(key).and_then(Node::as_str).unwrap_or_default()
}

/// Returns the span of what stands between the quotes of a string.
fn inside(source: &Source, span: Span) -> Span {
    let raw = source.slice(span);
    let quoted = |quote: char| raw.len() >= 2 && raw.starts_with(quote) && raw.ends_with(quote);
    match quoted('"') || quoted('\'') {
        true => Span::new(span.start as usize + 1, span.end as usize - 1),
        false => span,
    }
}

#[cfg(test)]
mod tests;
