//! Retries: where they go back to, and what they would roll back under another step's feet.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::reach::Reach;
use super::{Checked, Rule, edges};
use crate::diagnostic::{Diagnostic, Severity};
use crate::graph::StepIx;
use crate::resource::{ResourceId, Touch};

/// The rule of targets.
pub(super) const TARGET: Rule = Rule {
    codes: &[("retry-target-not-an-ancestor", Severity::Error)],
    doc: "A retry runs the named step and all that waits for it again. It helps only if the step that failed is among them.",
    run: target,
};

/// The rule of conflicts.
pub(super) const CONFLICT: Rule = Rule {
    codes: &[("retry-span-conflict", Severity::Warning)],
    doc: "A retry restores what its span changed. A step outside the span that changes the same thing at the same time \
          would lose its change, so the retry would be refused.",
    run: conflict,
};

/// How many changes outside a span are looked at for one resource.
const MAX_CHANGES: usize = 64;

fn positions<'a>(checked: &Checked<'a>) -> HashMap<&'a str, StepIx> {
    let mut positions = HashMap::with_capacity(checked.task.steps.len());
    for (at, step) in checked.task.steps.iter().enumerate() {
        positions
            .entry(step.id.as_str())
            .or_insert(StepIx(at as u32));
    }
    positions
}

fn retries<'a>(checked: &Checked<'a>) -> Vec<(StepIx, StepIx, u32)> {
    let steps = checked.task.steps.iter().enumerate();
    let declared: Vec<_> = steps
        .filter_map(|(at, step)| Some((StepIx(at as u32), step.retry.as_ref()?)))
        .collect();
    if declared.is_empty() {
        return Vec::new();
    }
    let positions = positions(checked);
    let known = declared.into_iter().filter_map(|(step, retry)| {
        Some((
            step,
            *positions.get(retry.from.as_str())?,
            retry.max_retries,
        ))
    });
    known.collect()
}

fn target(checked: &Checked<'_>, faults: &mut Vec<Diagnostic>) {
    let mut reach = Reach::new(checked.graph);
    for (step, from, _) in retries(checked) {
        if from == step || reach.is_ancestor(from, step) {
            continue;
        }
        let places = checked.places;
        let (id, target) = (checked.id(step), checked.id(from));
        let span = places.retry_target(step).unwrap_or_else(|| places.id(step));
        let headline = match from > step {
            true => {
                format!("the retry of step `{id}` goes back to `{target}`, which comes after it")
            }
            false => format!(
                "the retry of step `{id}` goes back to `{target}`, which it does not depend on"
            ),
        };
        let help = match from > step {
            true => "name the step itself, or a step that it depends on".to_owned(),
            false => format!(
                "add {{\"task_step_id\": \"{target}\"}} to the `depends_on` of `{id}`, or name a step that it depends on"
            ),
        };
        faults.push(
            Diagnostic::error("retry-target-not-an-ancestor", headline)
                .primary(places.source(), span, "not among what it waits for")
                .help(help)
                .fix(edges::wait_for(checked, step, from)),
        );
    }
}

fn conflict(checked: &Checked<'_>, faults: &mut Vec<Diagnostic>) {
    let retries: Vec<_> = retries(checked)
        .into_iter()
        .filter(|&(.., max)| max > 0)
        .collect();
    if retries.is_empty() {
        return;
    }
    let mut changes: BTreeMap<ResourceId, Vec<StepIx>> = BTreeMap::new();
    for (step, touches) in checked.graph.steps().zip(checked.touches) {
        for (resource, touch) in touches {
            if matches!(touch, Touch::Mutates | Touch::Creates | Touch::Retires) {
                changes.entry(resource.clone()).or_default().push(step);
            }
        }
    }
    changes.retain(|_, steps| steps.len() > 1);
    let mut reach = Reach::new(checked.graph);
    let mut done: HashSet<StepIx> = HashSet::new();
    for (step, from, _) in retries {
        if changes.is_empty() || !done.insert(from) || done.len() > MAX_CHANGES {
            continue;
        }
        let mut is_inside = vec![false; checked.graph.len()];
        for member in checked.graph.span(from) {
            is_inside[member.at()] = true;
        }
        for (resource, steps) in &changes {
            let inside: Vec<StepIx> = steps
                .iter()
                .copied()
                .filter(|step| is_inside[step.at()])
                .take(MAX_CHANGES)
                .collect();
            let outside = steps
                .iter()
                .copied()
                .filter(|step| !is_inside[step.at()])
                .take(MAX_CHANGES);
            for other in outside {
                let Some(&member) = inside
                    .iter()
                    .find(|&&member| reach.are_unordered(other, member))
                else {
                    continue;
                };
                faults.push(overlap(checked, resource, step, other, member));
                break;
            }
        }
    }
}

fn overlap(
    checked: &Checked<'_>,
    resource: &ResourceId,
    retrying: StepIx,
    other: StepIx,
    member: StepIx,
) -> Diagnostic {
    let places = checked.places;
    let (id, other_id, member_id) = (checked.id(retrying), checked.id(other), checked.id(member));
    let (first, second) = if other < member {
        (other_id, member_id)
    } else {
        (member_id, other_id)
    };
    let headline = format!(
        "a retry of step `{id}` would be refused: step `{other_id}` may change {resource} while `{member_id}` does"
    );
    let span = places
        .retry(retrying)
        .unwrap_or_else(|| places.id(retrying));
    Diagnostic::warning("retry-span-conflict", headline)
        .primary(
            places.source(),
            span,
            format!("would roll `{member_id}` back"),
        )
        .label(
            places.source(),
            places.id(other),
            "changes it too, and is not rolled back",
        )
        .help(format!(
            "add {{\"task_step_id\": \"{first}\"}} to the `depends_on` of `{second}`"
        ))
        .fix(edges::wait_for(
            checked,
            other.max(member),
            other.min(member),
        ))
}
