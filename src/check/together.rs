//! Steps that change one resource and do not wait for each other: they count as one.

use std::collections::BTreeMap;

use super::reach::Reach;
use super::{Checked, Rule, edges};
use crate::diagnostic::{Diagnostic, Severity};
use crate::graph::StepIx;
use crate::resource::{ResourceId, Touch};

/// The rule.
pub(super) const RULE: Rule = Rule {
    codes: &[("unordered-changes", Severity::Hint)],
    doc: "Changes of one resource that do not wait for each other interleave, so the steps are one group: when one of them must \
          run, all run. Prompts that work on one env at once are meant so, and nothing is said of them.",
    run,
};

fn run(checked: &Checked<'_>, faults: &mut Vec<Diagnostic>) {
    let mut changes: BTreeMap<&ResourceId, Vec<StepIx>> = BTreeMap::new();
    for (step, touched) in checked.graph.steps().zip(checked.touches) {
        for (resource, touch) in touched {
            if *touch == Touch::Mutates {
                changes.entry(resource).or_default().push(step);
            }
        }
    }
    let prompts = |step: StepIx| {
        let built = checked.steps[step.at()].as_ref();
        built.is_some_and(|step| step.prompts())
    };
    let mut reach = Reach::new(checked.graph);
    for (resource, steps) in changes {
        // Neighbours in the list: what is in order with both its neighbours is nearly always in order with all.
        let mut pairs = steps.windows(2).filter(|pair| {
            !(prompts(pair[0]) && prompts(pair[1])) && reach.are_unordered(pair[0], pair[1])
        });
        let Some(pair) = pairs.next() else { continue };
        let more = pairs.count();
        faults.push(pair_of(checked, resource, pair[0], pair[1], more));
    }
}

fn pair_of(
    checked: &Checked<'_>,
    resource: &ResourceId,
    first: StepIx,
    second: StepIx,
    more: usize,
) -> Diagnostic {
    let (places, one, other) = (checked.places, checked.id(first), checked.id(second));
    let headline = format!(
        "steps `{one}` and `{other}` both change {resource} and do not wait for each other, so they are kept and run again as one"
    );
    let fault = Diagnostic::hint("unordered-changes", headline)
        .label(places.source(), places.id(first), "changes it")
        .primary(places.source(), places.id(second), "changes it as well")
        .help(format!(
            "add {{\"task_step_id\": \"{one}\"}} to the `depends_on` of `{other}`"
        ))
        .fix(edges::wait_for(checked, second, first));
    match more {
        0 => fault,
        1 => fault.note("so is one more pair of steps that change it"),
        n => fault.note(format!("so are {n} more pairs of steps that change it")),
    }
}
