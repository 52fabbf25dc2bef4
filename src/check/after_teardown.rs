//! Steps that need what a step before them has ended.

use std::collections::BTreeMap;

use super::reach::Reach;
use super::{Checked, Rule};
use crate::diagnostic::{Diagnostic, Severity};
use crate::graph::StepIx;
use crate::resource::{ResourceId, Touch};

/// The rule.
pub(super) const RULE: Rule = Rule {
    codes: &[("used-after-teardown", Severity::Error)],
    doc: "What a step has ended is not there for the steps that wait for it, and nothing makes it anew: a name is made once.",
    run,
};

/// How many steps after a teardown are looked at for one resource.
const MAX_USERS: usize = 64;

fn run(checked: &Checked<'_>, faults: &mut Vec<Diagnostic>) {
    let mut ended: BTreeMap<&ResourceId, (Vec<StepIx>, Vec<StepIx>)> = BTreeMap::new();
    let touches = || checked.graph.steps().zip(checked.touches);
    let retires = |touch: Touch| touch == Touch::Retires;
    for (step, touched) in touches() {
        for (resource, _) in touched.iter().filter(|(_, touch)| retires(*touch)) {
            ended.entry(resource).or_default().0.push(step);
        }
    }
    if ended.is_empty() {
        return;
    }
    for (step, touched) in touches() {
        // That a name is made a second time is told by whoever looks at names.
        let uses = |touch: Touch| !matches!(touch, Touch::Retires | Touch::Creates);
        for (resource, _) in touched.iter().filter(|(_, touch)| uses(*touch)) {
            if let Some((_, users)) = ended.get_mut(resource) {
                users.push(step);
            }
        }
    }
    let mut reach = Reach::new(checked.graph);
    for (resource, (ends, users)) in ended {
        let Some(&end) = ends.first() else { continue };
        let after = users.iter().copied().filter(|&user| user > end);
        let mut after = after.take(MAX_USERS);
        if let Some(user) = after.find(|&user| reach.is_ancestor(end, user)) {
            faults.push(used(checked, resource, end, user));
        }
    }
}

fn used(checked: &Checked<'_>, resource: &ResourceId, end: StepIx, user: StepIx) -> Diagnostic {
    let (places, id, end_id) = (checked.places, checked.id(user), checked.id(end));
    let headline = format!("step `{id}` uses {resource}, which `{end_id}` has ended before it");
    Diagnostic::error("used-after-teardown", headline)
        .label(places.source(), places.id(end), "ends it")
        .primary(places.source(), places.id(user), "uses it afterwards")
        .help(format!(
            "move step `{end_id}` behind step `{id}`, or delete it: what a task made is ended in any case"
        ))
}
