//! Steps that look at a resource while another may be changing it.

use std::collections::HashMap;

use super::reach::Reach;
use super::{Checked, Rule, edges};
use crate::diagnostic::{Diagnostic, Severity};
use crate::graph::StepIx;
use crate::resource::{ResourceId, Touch};

/// The rule.
pub(super) const RULE: Rule = Rule {
    codes: &[("unordered-observer", Severity::Warning)],
    doc: "A step that reads a resource sees one thing or another, depending on chance, when a step that changes the resource \
          is not ordered with it.",
    run,
};

/// How many changes before and after a step in the list are looked at.
const MAX_NEIGHBOURS: usize = 64;

fn run(checked: &Checked<'_>, faults: &mut Vec<Diagnostic>) {
    let mut touched: HashMap<ResourceId, (Vec<StepIx>, Vec<StepIx>)> = HashMap::new();
    for (step, touches) in checked.graph.steps().zip(checked.touches) {
        for (resource, touch) in touches {
            let (changes, observes) = touched.entry(resource.clone()).or_default();
            match touch {
                Touch::Mutates | Touch::Retires => changes.push(step),
                Touch::Observes | Touch::MayMutate => observes.push(step),
                Touch::Creates => {}
            }
        }
    }
    let ids = checked.ids();
    let is_clear = |step: StepIx| !checked.has_doubtful_edges(step, &ids);
    let mut reach = Reach::new(checked.graph);
    let mut touched: Vec<_> = touched.into_iter().collect();
    touched.sort_by(|(a, _), (b, _)| a.cmp(b));
    for (resource, (changes, observes)) in touched {
        for observer in observes.into_iter().filter(|&step| is_clear(step)) {
            let here = changes.partition_point(|&change| change < observer);
            let before = changes[..here].iter().rev().take(MAX_NEIGHBOURS);
            let after = changes[here..].iter().take(MAX_NEIGHBOURS);
            let mut near = before.chain(after).copied();
            let mut is_near =
                |change: StepIx| reach.are_unordered(change, observer) && is_clear(change);
            if let Some(change) = near.find(|&change| is_near(change)) {
                faults.push(unordered(checked, &resource, observer, change));
            }
        }
    }
}

fn unordered(
    checked: &Checked<'_>,
    resource: &ResourceId,
    observer: StepIx,
    change: StepIx,
) -> Diagnostic {
    let (id, other) = (checked.id(observer), checked.id(change));
    let (first, second) = if change < observer {
        (other, id)
    } else {
        (id, other)
    };
    let places = checked.places;
    let headline = format!("step `{id}` reads {resource} while step `{other}` may be changing it");
    Diagnostic::warning("unordered-observer", headline)
        .label(places.source(), places.id(change), "changes it")
        .primary(
            places.source(),
            places.id(observer),
            "reads it, in no order with the change",
        )
        .help(format!(
            "add {{\"task_step_id\": \"{first}\"}} to the `depends_on` of `{second}`"
        ))
        .fix(edges::wait_for(
            checked,
            observer.max(change),
            observer.min(change),
        ))
}
