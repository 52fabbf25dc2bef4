//! Reads a task file: from text to a [`Task`], with every fault of the file and the place of everything in it.
//!
//! Reading is pure. It knows the types of steps only through [`StepTypes`], and it does not know other files, so a name
//! of an artifact or of what another step makes is not looked at here.

pub(crate) mod faults;
pub mod names;
mod order;
mod places;
mod step;
pub(crate) mod toml;

pub(crate) mod hide;

use std::sync::Arc;

use crate::diagnostic::{Diagnostic, Source};
use crate::json::{self, Node, NodeKind, Value};
use crate::task::{StepIx, Task};
use faults::Faults;

pub use places::Places;
pub use step::{COMMON_FIELDS, MAX_RETRIES, common_schema};
pub use toml::Written;

/// The types that steps may have.
pub trait StepTypes {
    /// Returns the JSON Schema of the fields of a type.
    fn schema(&self, kind: &str) -> Option<&Value>;
    /// Returns the names of all types.
    fn names(&self) -> Vec<&str>;
}

/// What a task file says.
#[derive(Clone, Debug, PartialEq)]
pub struct Parsed {
    /// The steps that could be read, in the order of the file, as values only.
    pub task: Arc<Task>,
    /// Where everything was written.
    pub places: Places,
    /// All faults of the file.
    pub faults: Vec<Diagnostic>,
    /// Whether the task may run: the file has no error.
    pub readable: bool,
}

/// After one of these, what follows in the file may not be what it seems, so nothing more is said of it.
const DISORDER: [&str; 16] = [
    "colon-in-array",
    "file-too-large",
    "mismatched-bracket",
    "missing-colon",
    "missing-key",
    "more-faults",
    "nesting-too-deep",
    "odd-quotes",
    "second-document",
    "too-many-members",
    "too-many-values",
    "unclosed-object",
    "unclosed-string",
    "unexpected-character",
    "unfinished",
    "unopened-bracket",
];

/// Reads the task with this name from its file.
pub fn parse(name: &str, source: &Source, types: &dyn StepTypes) -> Parsed {
    let parsed = json::parse(source);
    let is_orderly = !parsed
        .faults
        .iter()
        .any(|fault| DISORDER.contains(&fault.code.as_str()));
    let mut faults = Faults::new(source);
    faults.extend(parsed.faults);
    let root = parsed.root.unwrap_or(Node {
        span: json::Span::at(0),
        kind: NodeKind::Bad,
    });
    let mut steps = Vec::new();
    let mut index = Vec::new();
    if is_orderly {
        for (at, node) in list(&root, &mut faults).iter().enumerate() {
            if let Some(step) = step::read(node, at, types, &mut faults) {
                steps.push(Arc::new(step));
                index.push(at as u32);
            }
        }
    }
    let task = Task {
        name: name.to_owned(),
        steps,
    };
    let places = Places::new(source, Arc::new(root), index);
    order::check(&task, &places, &mut faults);
    let mut faults = faults.finish();
    doubt_numbers(&task, &places, &mut faults);
    let readable = !faults.iter().any(Diagnostic::is_error);
    Parsed {
        task: Arc::new(task),
        places,
        faults,
        readable,
    }
}

/// Takes back the fixes that make texts of numbers in `depends_on` where no step has such an id.
fn doubt_numbers(task: &Task, places: &Places, faults: &mut [Diagnostic]) {
    let is_number = |fault: &&mut Diagnostic| {
        let place = fault.place().map(|label| places.source().slice(label.span));
        let is_number = place.is_some_and(|text| text.parse::<f64>().is_ok());
        is_number && fault.code.as_str() == "wrong-type" && !fault.fixes.is_empty()
    };
    for fault in faults.iter_mut().filter(is_number) {
        let Some(span) = fault.place().map(|label| label.span) else {
            continue;
        };
        let steps = (0..task.steps.len() as u32).map(StepIx);
        let mut edges = steps.filter_map(|step| places.depends_on(step));
        let is_edge = edges.any(|edges| edges.start <= span.start && span.end <= edges.end);
        let id = places.source().slice(span);
        if is_edge && !task.steps.iter().any(|step| step.id.as_str() == id) {
            fault.fixes.clear();
        }
    }
}

/// Returns the steps of a file, which must be the items of a list that is not empty.
fn list<'n>(root: &'n Node, faults: &mut Faults<'_>) -> &'n [Node] {
    match &root.kind {
        NodeKind::Array(items) if items.is_empty() => {
            faults.error(root.span, |source| {
                Diagnostic::error("empty-task", "the task has no step")
                    .primary(source, root.span, "at least one step is needed here")
                    .help("add a step, such as {\"id\": \"..\", \"type\": \"..\"}")
            });
            &[]
        }
        NodeKind::Array(items) => items,
        NodeKind::Bad => &[],
        NodeKind::Object(members) => {
            let wrapped = members
                .iter()
                .find(|member| member.value.as_array().is_some());
            faults.error(root.span, |source| {
                let fault =
                    Diagnostic::error("not-a-list", "a task is a list of steps, not an object")
                        .primary(source, places::opening(root.span), "a `[` is needed here");
                match wrapped {
                    Some(member) => fault
                        .label(
                            source,
                            places::opening(member.value.span),
                            "the list starts here",
                        )
                        .help(format!(
                            "write the list of `{}` itself, without the object",
                            member.key
                        )),
                    None => fault.help("put the step in `[` and `]`"),
                }
            });
            &[]
        }
        _ => {
            faults.error(root.span, |source| {
                let headline = format!("a task is a list of steps, not {}", root.kind_name());
                Diagnostic::error("not-a-list", headline)
                    .primary(source, root.span, "a list is needed here")
                    .help("write the steps in `[` and `]`")
            });
            &[]
        }
    }
}

#[cfg(test)]
mod tests;
