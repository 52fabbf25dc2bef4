//! Edits of `depends_on` that keep how the list is written.

use super::Checked;
use crate::diagnostic::{Fix, Span};
use crate::graph::StepIx;
use crate::json::{Node, NodeKind, Value};

/// Returns the fix that makes a step wait for an earlier one; `None` where it waits for every earlier step already, or its
/// list cannot be edited.
pub(super) fn wait_for(checked: &Checked<'_>, step: StepIx, other: StepIx) -> Option<Fix> {
    let places = checked.places;
    let (id, other_id) = (checked.id(step), checked.id(other));
    if other >= step || other_id.is_empty() || !places.edges_are_whole(step) {
        return None;
    }
    let list = places.dependencies(step)?;
    let entries = list.as_array()?;
    let text = &places.source().text;
    let named = Value::from(other_id);
    let entry = match entries.last().map_or_else(|| usual(checked), Form::of) {
        Form::Bare => named.to_string(),
        Form::Object => format!("{{\"task_step_id\": {named}}}"),
    };
    let fix = Fix::offered(format!("make `{id}` wait for `{other_id}`"));
    let Some(last) = entries.last() else {
        return Some(fix.edit(places.source(), list.span, format!("[{entry}]")));
    };
    // What stands before the last entry, since the one before it or the bracket, stands before the new one too.
    let from = match entries.len() {
        1 => list.span.start as usize + 1,
        n => entries[n - 2].span.end as usize,
    };
    let before = text.get(from..last.span.start as usize)?;
    let space = match before.rfind('\n') {
        Some(line) => &before[line..],
        None => " ",
    };
    // A comment in between is not written twice.
    let space = if space.trim().is_empty() { space } else { " " };
    let at = Span::at(last.span.end as usize);
    Some(fix.edit(places.source(), at, format!(",{space}{entry}")))
}

/// Returns the fix that takes an edge out of the list of a step.
pub(super) fn wait_no_more(checked: &Checked<'_>, step: StepIx, other: StepIx) -> Option<Fix> {
    let places = checked.places;
    let (id, other_id) = (checked.id(step), checked.id(other));
    let list = places.dependencies(step)?;
    let entries = list.as_array()?;
    let named = entries
        .iter()
        .position(|entry| Form::id(entry) == Some(other_id))?;
    let start_of = |at: usize| entries[at].span.start as usize;
    let span = if named + 1 < entries.len() {
        Span::new(start_of(named), start_of(named + 1))
    } else if named > 0 {
        let end = entries[named].span.end as usize;
        Span::new(entries[named - 1].span.end as usize, end)
    } else {
        entries[named].span
    };
    let fix = Fix::offered(format!("let `{id}` not wait for `{other_id}`"));
    Some(fix.edit(places.source(), span, ""))
}

/// How an entry of `depends_on` is written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// As the id alone.
    Bare,
    /// As an object that has the id.
    Object,
}

impl Form {
    fn of(entry: &Node) -> Form {
        match entry.kind {
            NodeKind::String(_) => Form::Bare,
            _ => Form::Object,
        }
    }

    fn id(entry: &Node) -> Option<&str> {
        entry
            .as_str()
            .or_else(|| entry.get("task_step_id")?.as_str())
    }
}

/// Returns the form of the first entry of the task.
fn usual(checked: &Checked<'_>) -> Form {
    let mut lists = checked
        .graph
        .steps()
        .filter_map(|step| checked.places.dependencies(step)?.as_array()?.first());
    lists.next().map_or(Form::Object, Form::of)
}
