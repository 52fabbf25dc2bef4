//! What the command line says of steps: which run in any case, which must be kept, which are left out.

use super::load::Unit;
use super::{RunOptions, SessionError};
use crate::diagnostic::nearest;
use crate::graph::StepIx;
use crate::rebuild::DirtyReason;
use crate::schedule::{StepPart, TaskPlan};

/// Applies what the command line says of steps.
pub(super) fn apply_options(
    plan: &mut TaskPlan,
    unit: &Unit,
    options: &RunOptions,
) -> Result<(), SessionError> {
    let force = |plan: &mut TaskPlan, step: StepIx, by: &'static str| {
        let step = &mut plan.steps[step.at()];
        if step.live.is_none() {
            step.forced = Some(DirtyReason::Forced { by });
        }
    };
    let all: Vec<StepIx> = plan.graph.steps().collect();
    if options.fresh {
        all.iter().for_each(|&step| force(plan, step, "--fresh"));
    }
    for wanted in &options.rerun {
        if let Some(step) = find_step(plan, unit, wanted)? {
            force(plan, step, "--rerun");
        }
    }
    if let Some(wanted) = &options.from
        && let Some(step) = find_step(plan, unit, wanted)?
    {
        for step in plan.graph.span(step) {
            force(plan, step, "--from");
        }
    }
    for (wanted, only) in [(&options.until, false), (&options.only, true)] {
        let Some(wanted) = wanted else { continue };
        let Some(step) = find_step(plan, unit, wanted)? else {
            continue;
        };
        let needed = plan.graph.ancestors(step);
        for &other in &all {
            if other != step && !needed[other.at()] {
                plan.steps[other.at()].part = StepPart::LeftOut;
            } else if only && other != step {
                plan.steps[other.at()].part = StepPart::CachedOnly;
            }
        }
        if only {
            force(plan, step, "--only");
        }
    }
    if options.cached_only {
        for step in plan
            .steps
            .iter_mut()
            .filter(|step| step.part == StepPart::Free)
        {
            step.part = StepPart::CachedOnly;
        }
    }
    Ok(())
}

/// Finds the step that the command line means; `None` where it means a step of another task.
pub(super) fn find_step(
    plan: &TaskPlan,
    unit: &Unit,
    wanted: &str,
) -> Result<Option<StepIx>, SessionError> {
    let id = match wanted.split_once('/') {
        Some((task, id)) if task == unit.name => id,
        Some((_, _)) if plan.position(wanted).is_none() => return Ok(None),
        _ => wanted,
    };
    if let Some(step) = plan.position(id) {
        return Ok(Some(step));
    }
    let near = nearest(id, plan.steps.iter().map(|step| step.id.as_str()));
    Err(SessionError::Usage {
        message: format!("`{}` has no step `{id}`", unit.shown),
        help: near.map(|near| format!("did you mean `{near}`?")),
    })
}
