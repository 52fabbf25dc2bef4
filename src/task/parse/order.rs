//! What the steps of a task say of each other: ids that are unique, and edges that point backwards.

use std::collections::{HashMap, HashSet, VecDeque};

use super::faults::Faults;
use super::names::{composed, folded, looks_like, mixes_scripts};
use super::places::Places;
use super::step::clip;
use crate::diagnostic::{Diagnostic, Fix, cut, meant};
use crate::json::Span;
use crate::task::StepIx;
use crate::task::{DependsOn, StepDecl, Task};

/// How many steps are visited in search of cycles; beyond it an edge that points forward is called just that.
const MAX_VISITS: usize = 500_000;

/// Checks the ids of all steps and every reference to them.
pub(super) fn check(task: &Task, places: &Places, faults: &mut Faults<'_>) {
    let by_id = ids(task, places, faults);
    let mut forward = Vec::new();
    for (at, step) in task.steps.iter().enumerate() {
        let step_ix = StepIx(at as u32);
        if let DependsOn::Steps(edges) = &step.depends_on {
            for edge in edges {
                match by_id.get(edge.as_str()) {
                    None => unknown(task, places, step_ix, edge.as_str(), faults),
                    Some(&other) if other == step_ix => own(step, places, step_ix, faults),
                    Some(&other) if other > step_ix => forward.push((step_ix, other)),
                    Some(_) => {}
                }
            }
        }
        if let Some(retry) = &step.retry
            && !by_id.contains_key(retry.from.as_str())
        {
            let span = places
                .retry_target(step_ix)
                .unwrap_or_else(|| places.id(step_ix));
            faults.error(span, |source| {
                let headline = format!(
                    "the retry of step `{}` goes back to `{}`, which is no step of this task",
                    clip(step.id.as_str()),
                    clip(retry.from.as_str())
                );
                Diagnostic::error("unknown-retry-target", headline)
                    .primary(source, span, "no step has this id")
                    .meant(meant(retry.from.as_str(), known(task)))
            });
        }
    }
    backward(task, places, &by_id, &forward, faults);
}

/// Returns the position of each id, the first one where several steps have it.
fn ids<'t>(task: &'t Task, places: &Places, faults: &mut Faults<'_>) -> HashMap<&'t str, StepIx> {
    let mut by_id: HashMap<&str, StepIx> = HashMap::with_capacity(task.steps.len());
    let mut by_form: HashMap<String, StepIx> = HashMap::new();
    let mut by_fold: HashMap<String, StepIx> = HashMap::with_capacity(task.steps.len());
    for (at, step) in task.steps.iter().enumerate() {
        let (step_ix, id) = (StepIx(at as u32), step.id.as_str());
        if id.is_empty() {
            continue;
        }
        let same = by_id
            .get(id)
            .or_else(|| by_form.get(&composed(id)).filter(|_| !id.is_ascii()));
        if let Some(&first) = same {
            duplicate(task, places, first, step_ix, faults);
        } else if let Some(&first) = by_fold.get(&folded(id)) {
            differs_in_case(task, places, first, step_ix, faults);
        }
        by_id.entry(id).or_insert(step_ix);
        if !id.is_ascii() {
            by_form.entry(composed(id)).or_insert(step_ix);
        }
        by_fold.entry(folded(id)).or_insert(step_ix);
    }
    for (at, step) in task.steps.iter().enumerate() {
        let step_ix = StepIx(at as u32);
        if let Some(latin) = looks_like(step.id.as_str()) {
            let twin = by_id
                .get(latin.as_str())
                .copied()
                .filter(|&twin| twin != step_ix);
            if twin.is_some() || mixes_scripts(step.id.as_str()) {
                confusable(task, places, step_ix, &latin, twin, faults);
            }
        }
    }
    by_id
}

fn duplicate(task: &Task, places: &Places, first: StepIx, again: StepIx, faults: &mut Faults<'_>) {
    let (one, other) = (
        task.steps[first.at()].id.as_str(),
        task.steps[again.at()].id.as_str(),
    );
    faults.error(places.id(again), |source| {
        let headline = match one == other {
            true => format!("two steps have the id `{}`", clip(other)),
            false => format!(
                "two steps have the id `{}`, written in two Unicode forms",
                clip(other)
            ),
        };
        Diagnostic::error("duplicate-id", headline)
            .label(source, places.id(first), "first here")
            .primary(source, places.id(again), "and again here")
            .help("give one of them another id")
    });
}

fn differs_in_case(
    task: &Task,
    places: &Places,
    first: StepIx,
    again: StepIx,
    faults: &mut Faults<'_>,
) {
    let (one, other) = (
        task.steps[first.at()].id.as_str(),
        task.steps[again.at()].id.as_str(),
    );
    faults.warning(places.id(again), |source| {
        Diagnostic::warning(
            "ids-differ-in-case",
            format!(
                "ids `{}` and `{}` differ in case only",
                clip(one),
                clip(other)
            ),
        )
        .label(source, places.id(first), "one here")
        .primary(source, places.id(again), "the other here")
        .help("give one of them a name of its own")
    });
}

fn confusable(
    task: &Task,
    places: &Places,
    step: StepIx,
    latin: &str,
    twin: Option<StepIx>,
    faults: &mut Faults<'_>,
) {
    let id = task.steps[step.at()].id.as_str();
    faults.warning(places.id(step), |source| {
        let odd = id
            .chars()
            .find(|&c| !latin.contains(c))
            .map_or(0, u32::from);
        let headline = format!(
            "id `{}` looks like `{}`, but has U+{odd:04X}",
            clip(id),
            clip(latin)
        );
        let fault = Diagnostic::warning("confusable-id", headline)
            .primary(source, places.id(step), "not all letters are Latin")
            .help(format!("write `{}` in Latin letters", clip(latin)));
        match twin {
            Some(twin) => fault.label(source, places.id(twin), "looks the same"),
            None => fault,
        }
    });
}

fn unknown(task: &Task, places: &Places, step: StepIx, edge: &str, faults: &mut Faults<'_>) {
    let span = edge_span(places, step, edge, faults);
    let id = task.steps[step.at()].id.as_str();
    faults.error(span, |source| {
        let same = known(task).find(|known| composed(known) == composed(edge));
        let help = "write it in the Unicode form in which the step's id is written";
        let near = same
            .is_none()
            .then(|| meant(edge, known(task).filter(|&known| known != id)));
        let headline = format!(
            "step `{}` depends on `{}`, which is no step of this task",
            clip(id),
            clip(edge)
        );
        Diagnostic::error("unknown-dependency", headline)
            .primary(source, span, "no step has this id")
            .help(same.map(|_| help.to_owned()))
            .meant(near.flatten())
    });
}

fn own(step: &StepDecl, places: &Places, step_ix: StepIx, faults: &mut Faults<'_>) {
    let id = step.id.as_str();
    let span = places
        .edge(step_ix, id)
        .unwrap_or_else(|| places.id(step_ix));
    let entry = places.edge_entry(step_ix, id);
    faults.error(span, |source| {
        Diagnostic::error(
            "self-dependency",
            format!("step `{}` depends on itself", clip(id)),
        )
        .primary(source, span, "its own id")
        .help("delete the entry")
        .fix(entry.map(|entry| {
            let cut = cut(&source.text, entry);
            Fix::offered("delete the entry").edit(source, cut, "")
        }))
    });
}

/// Returns where a step names another; of a fault that is only counted, the step itself is near enough.
fn edge_span(places: &Places, step: StepIx, edge: &str, faults: &Faults<'_>) -> Span {
    let exact = if faults.is_full() {
        None
    } else {
        places.edge(step, edge)
    };
    exact.unwrap_or_else(|| places.id(step))
}

fn known(task: &Task) -> impl Iterator<Item = &str> {
    task.steps
        .iter()
        .map(|step| step.id.as_str())
        .filter(|id| !id.is_empty())
}

/// Reports edges that point forward: as a cycle where they close one, else as a step to move.
fn backward(
    task: &Task,
    places: &Places,
    by_id: &HashMap<&str, StepIx>,
    forward: &[(StepIx, StepIx)],
    faults: &mut Faults<'_>,
) {
    let mut cycles: Vec<Vec<StepIx>> = Vec::new();
    let mut plain = Vec::new();
    let mut visits = 0;
    for &(step, other) in forward {
        if faults.is_full() || visits > MAX_VISITS {
            plain.push((step, other));
            continue;
        }
        match path(task, by_id, other, step, &mut visits) {
            Some(path) => cycles.push(path),
            None => plain.push((step, other)),
        }
    }
    cycles.sort_by_key(Vec::len);
    let mut named: HashSet<StepIx> = HashSet::new();
    for cycle in cycles {
        if cycle.iter().all(|step| !named.contains(step)) {
            report_cycle(task, places, &cycle, faults);
            named.extend(cycle);
        }
    }
    for (step, other) in plain {
        let (id, edge) = (
            task.steps[step.at()].id.as_str(),
            task.steps[other.at()].id.as_str(),
        );
        if named.contains(&step) && named.contains(&other) {
            continue;
        }
        let span = edge_span(places, step, edge, faults);
        faults.error(span, |source| {
            let headline = format!(
                "step `{}` depends on `{}`, which comes after it",
                clip(id),
                clip(edge)
            );
            Diagnostic::error("forward-dependency", headline)
                .primary(source, span, "needed here")
                .label(source, places.id(other), "comes only here")
                .help(format!(
                    "move step `{}` before step `{}`",
                    clip(edge),
                    clip(id)
                ))
        });
    }
}

/// Returns the shortest way along dependencies from `from` to `to`, both included, unless there is none.
fn path(
    task: &Task,
    by_id: &HashMap<&str, StepIx>,
    from: StepIx,
    to: StepIx,
    visits: &mut usize,
) -> Option<Vec<StepIx>> {
    let mut came_from: HashMap<StepIx, StepIx> = HashMap::new();
    let mut todo = VecDeque::from([from]);
    while let Some(at) = todo.pop_front() {
        *visits += 1;
        if at == to {
            let mut path = vec![at];
            while let Some(&before) = came_from.get(path.last()?) {
                path.push(before);
                if before == from {
                    break;
                }
            }
            path.reverse();
            return Some(path);
        }
        let DependsOn::Steps(edges) = &task.steps[at.at()].depends_on else {
            continue;
        };
        for next in edges.iter().filter_map(|edge| by_id.get(edge.as_str())) {
            if *next != from && !came_from.contains_key(next) {
                came_from.insert(*next, at);
                todo.push_back(*next);
            }
        }
    }
    None
}

fn report_cycle(task: &Task, places: &Places, cycle: &[StepIx], faults: &mut Faults<'_>) {
    let id = |step: StepIx| task.steps[step.at()].id.as_str();
    let least = cycle
        .iter()
        .enumerate()
        .min_by_key(|(_, step)| **step)
        .map_or(0, |(at, _)| at);
    let cycle: Vec<StepIx> = (0..cycle.len())
        .map(|at| cycle[(least + at) % cycle.len()])
        .collect();
    let edge = |at: usize| {
        let (step, other) = (cycle[at], cycle[(at + 1) % cycle.len()]);
        places
            .edge(step, id(other))
            .unwrap_or_else(|| places.id(step))
    };
    faults.error(edge(0), |source| {
        let mut names: Vec<String> = cycle
            .iter()
            .map(|&s| format!("`{}`", clip(id(s))))
            .collect();
        if names.len() > 8 {
            let more = format!("{} more steps", names.len() - 6);
            names.splice(4..names.len() - 2, [more]);
        }
        names.push(format!("`{}`", clip(id(cycle[0]))));
        let headline = format!("steps wait for each other: {}", names.join(" → "));
        let mut fault = Diagnostic::error("dependency-cycle", headline).primary(
            source,
            edge(0),
            format!("waits for `{}`", clip(id(cycle[1 % cycle.len()]))),
        );
        for at in 1..cycle.len().min(4) {
            let other = id(cycle[(at + 1) % cycle.len()]);
            fault = fault.label(source, edge(at), format!("waits for `{}`", clip(other)));
        }
        fault.help("delete one of these dependencies")
    });
}
