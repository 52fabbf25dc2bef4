//! Edges that carry nothing: the step that waits uses nothing of what it waits for.

use std::collections::HashMap;

use super::reach::Reach;
use super::{Checked, Rule, edges};
use crate::context::Lookup;
use crate::diagnostic::{Diagnostic, Severity};
use crate::graph::StepIx;
use crate::resource::{ResourceId, Touch};
use crate::step::Determinism;
use crate::task::DependsOn;

/// The rule.
pub(super) const RULE: Rule = Rule {
    codes: &[("unneeded-edge", Severity::Hint)],
    doc: "A step that waits for another of which it uses nothing runs later than it could. It does not run more often: what it \
          has not looked up does not make it dirty. It is told of steps alone that nobody waits for and whose fields name all \
          that they use.",
    run,
};

/// The most steps that one step may need; of one that needs more nothing is said.
const MAX_NEEDED: usize = 64;

fn run(checked: &Checked<'_>, faults: &mut Vec<Diagnostic>) {
    let n = checked.graph.len();
    let mut is_awaited = vec![false; n];
    let positions: HashMap<&str, StepIx> = checked
        .graph
        .steps()
        .map(|step| (checked.id(step), step))
        .collect();
    for step in &checked.task.steps {
        match &step.depends_on {
            // It waits for all before it, and perhaps for a reason.
            DependsOn::Earlier => {}
            DependsOn::Steps(edges) => {
                for edge in edges {
                    if let Some(other) = positions.get(edge.as_str()) {
                        is_awaited[other.at()] = true;
                    }
                }
            }
        }
    }
    let last_of_all = checked
        .task
        .steps
        .iter()
        .rposition(|step| step.depends_on == DependsOn::Earlier);
    let mut made: HashMap<Lookup, Vec<StepIx>> = HashMap::new();
    let mut touched: HashMap<&ResourceId, Vec<StepIx>> = HashMap::new();
    for (step, built) in checked.built() {
        for name in built.provides() {
            made.entry(name.lookup).or_default().push(step);
        }
        for (resource, _) in &checked.touches[step.at()] {
            touched.entry(resource).or_default().push(step);
        }
    }
    let mut reach = Reach::new(checked.graph);
    for (step, built) in checked.built() {
        let declared = &checked.task.steps[step.at()];
        let DependsOn::Steps(edges) = &declared.depends_on else {
            continue;
        };
        let is_last = last_of_all.is_none_or(|last| last < step.at()) && !is_awaited[step.at()];
        if !is_last || !built.reads_are_all() || edges.is_empty() || declared.retry.is_some() {
            continue;
        }
        let mut needed: Vec<StepIx> = Vec::new();
        for read in built.reads() {
            needed.extend(made.get(&read.lookup).into_iter().flatten());
        }
        for (resource, _) in &checked.touches[step.at()] {
            needed.extend(touched.get(resource).into_iter().flatten());
        }
        needed.retain(|&other| other < step);
        // Who reads what no step is known to make may have it from anywhere.
        let finds_all = built
            .reads()
            .iter()
            .all(|read| made.contains_key(&read.lookup));
        if needed.len() > MAX_NEEDED || !finds_all {
            continue;
        }
        for edge in edges {
            let Some(&other) = positions.get(edge.as_str()) else {
                continue;
            };
            let brings = |needed: &StepIx| *needed == other || reach.is_ancestor(*needed, other);
            if needed.iter().any(brings) || gates(checked, other) {
                continue;
            }
            faults.push(unneeded(checked, step, other));
        }
    }
}

/// Returns whether a step may be waited for because of when it happens, and not because of what it gives.
fn gates(checked: &Checked<'_>, step: StepIx) -> bool {
    let Some(built) = &checked.steps[step.at()] else {
        return true;
    };
    let ends = checked.touches[step.at()]
        .iter()
        .any(|(_, touch)| *touch == Touch::Retires);
    let says_nothing = built.provides().is_empty() && built.touches().is_empty();
    ends || says_nothing
        || built.determinism() == Determinism::Volatile
        || built.sets_clock().is_some()
        || built.executors().is_some()
}

fn unneeded(checked: &Checked<'_>, step: StepIx, other: StepIx) -> Diagnostic {
    let (places, id, other_id) = (checked.places, checked.id(step), checked.id(other));
    let headline = format!("step `{id}` waits for `{other_id}`, and uses nothing of it");
    let span = places
        .edge(step, other_id)
        .unwrap_or_else(|| places.id(step));
    Diagnostic::hint("unneeded-edge", headline)
        .primary(places.source(), span, "only delays the step")
        .note(format!(
            "`{id}` does not run again because of `{other_id}`, but starts only after it, and not at all where it fails the task"
        ))
        .help(format!("delete `{other_id}` from the `depends_on` of `{id}`"))
        .fix(edges::wait_no_more(checked, step, other))
}
