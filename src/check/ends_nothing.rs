//! Teardowns of what no step makes.

use std::collections::HashSet;

use super::{Checked, Rule};
use crate::diagnostic::{Diagnostic, Fix, Severity, nearest};
use crate::graph::StepIx;
use crate::json::Value;
use crate::resource::{ResourceId, ResourceKind, Touch};
use crate::task::parse::names::has_placeholder;

/// The rule.
pub(super) const RULE: Rule = Rule {
    codes: &[("ends-nothing", Severity::Warning)],
    doc: "A teardown passes over what is not there, so a slip in a name leaves what was meant running until the end of the task.",
    run,
};

fn run(checked: &Checked<'_>, faults: &mut Vec<Diagnostic>) {
    let touches = || checked.graph.steps().zip(checked.touches);
    let of = |wanted: Touch| {
        touches().flat_map(move |(step, touched)| {
            let found = touched.iter().filter(move |(_, touch)| *touch == wanted);
            found.map(move |(resource, _)| (step, resource))
        })
    };
    let made: HashSet<&ResourceId> = of(Touch::Creates).map(|(_, resource)| resource).collect();
    let mut unknown = of(Touch::Retires).filter(|(_, resource)| !made.contains(resource));
    let Some(first) = unknown.next() else { return };
    let partial = checked.partial_names();
    for (step, resource) in std::iter::once(first).chain(unknown) {
        let name = resource.name.as_str();
        if has_placeholder(name) || partial.contains(name) {
            continue;
        }
        let of_kind = made.iter().filter(|other| other.kind == resource.kind);
        let mut names: Vec<&str> = of_kind.map(|other| other.name.as_str()).collect();
        names.sort_unstable();
        faults.push(nothing(checked, step, resource, nearest(name, names)));
    }
}

fn nothing(
    checked: &Checked<'_>,
    step: StepIx,
    resource: &ResourceId,
    near: Option<&str>,
) -> Diagnostic {
    let list = match resource.kind {
        ResourceKind::Env => "env_ids",
        ResourceKind::Agent => "agent_names",
        ResourceKind::Sandbox => "sandbox_names",
    };
    let fields = &checked.task.steps[step.at()].fields;
    let items = fields.get(list).and_then(Value::as_array);
    let at = items.and_then(|items| {
        items
            .iter()
            .position(|item| *item == resource.name.as_str())
    });
    let places = checked.places;
    let span = places.field_or_kind(step, &format!("/{list}/{}", at.unwrap_or(0)));
    let id = checked.id(step);
    let headline = format!("step `{id}` ends {resource}, which no step makes");
    let fix = near.map(|near| {
        Fix::offered(format!("write `{near}`")).edit(
            places.source(),
            span,
            Value::from(near).to_string(),
        )
    });
    Diagnostic::warning("ends-nothing", headline)
        .primary(places.source(), span, "nothing has this name")
        .help(match near {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("delete `{}`", resource.name),
        })
        .fix(fix)
}
