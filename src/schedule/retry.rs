//! Failures and retries: a retry span is a cache invalidation.
//!
//! `retry_config` is decided before `fail_task_on_error`. Rolling back drops the span's outputs and sets its steps back to
//! waiting; resources that were made before the span come back at the version that they had, since each step asks for
//! the version that its ancestors left. Steps outside the span go on running and keep their outputs. A retry is refused
//! only where it would be wrong: a step outside the span changed, while the span ran, a resource that the span changed too.

use super::phase::{Done, Phase, TaskEnd};
use super::state::{Failure, Scheduler};
use super::{Command, PlannedStep, Retry, StepPart};
use crate::context::{Entry, Place};
use crate::event::StepEvent;
use crate::graph::StepIx;
use crate::json::{Value, json};
use crate::rebuild::DirtyReason;
use crate::resource::{ResourceId, ResourceKind, Touch, Version};
use crate::step::StepError;
use crate::task::OnError;
use std::collections::BTreeSet;

impl Scheduler<'_> {
    /// Takes in that a step failed: retry, else tolerate, else fail the task.
    pub(super) fn failed(&mut self, step: StepIx, error: StepError, started_us: i64, took_us: u64) {
        let fatal = self.on_error(step) == OnError::FailTask;
        self.failures.push(Failure {
            step,
            error: error.clone(),
            started_us,
            took_us,
            fatal,
            retried: false,
        });
        self.tell(
            step,
            StepEvent::Failed {
                error_type: error.kind.to_owned(),
                error: error.message,
                fatal,
                took_us,
            },
        );
        if self.closed.is_none()
            && !self.no_retries
            && self.planned(step).part != StepPart::CachedOnly
            && let Some(retry) = self.planned(step).retry
        {
            let used = self.retries_used.get(&step).copied().unwrap_or(0);
            if used < retry.max_retries {
                match self.conflict(step, retry.from) {
                    None => {
                        self.roll_back(step, retry, used);
                        return;
                    }
                    Some(why) => self.refuse(step, why),
                }
            }
        }
        if fatal {
            self.set(step, Phase::Done(Done::Failed));
            self.close(TaskEnd::Failed);
        } else if self.steps[step.at()].unsettled > 0 {
            self.steps[step.at()].tolerated = true;
            self.set(step, Phase::Settling);
        } else {
            self.release(step, Done::Tolerated);
        }
    }

    fn roll_back(&mut self, failed: StepIx, retry: Retry, used: u32) {
        self.retries_used.insert(failed, used + 1);
        let attempt = used + 2;
        let plan = self.plan.clone();
        let span = plan.graph.span(retry.from);
        self.forgive(&span);
        self.restore_groups(&span);
        let failed_id = plan.steps[failed.at()].id.clone();
        let mut retired = Vec::new();
        for &step in &span {
            let was = self.phase(step).clone();
            self.undo(step);
            self.world.forget(step);
            if was == Phase::Done(Done::Deferred) {
                for (resource, touch) in &plan.steps[step.at()].touches {
                    if *touch == Touch::Creates && self.retire(resource) {
                        retired.push((resource.kind, handle_of(&plan.steps[step.at()])));
                    }
                }
            }
            let reached = was != Phase::Waiting || step == failed;
            if reached {
                self.tell(
                    step,
                    StepEvent::RolledBack {
                        failed: failed_id.clone(),
                        attempt,
                    },
                );
            }
            // A step that the lost state of a live thing runs again is at the attempt that it was at.
            self.steps[step.at()].rolled_back += u32::from(reached);
            if reached && plan.steps[step.at()].live.is_none() {
                self.steps[step.at()].forced = Some(vec![DirtyReason::RolledBack { attempt }]);
            }
        }
        let ids: Vec<&str> = span
            .iter()
            .map(|s| plan.steps[s.at()].id.as_str())
            .collect();
        let failed_at = self.failures.last();
        let at_us = failed_at.map_or(0, |failure| failure.started_us + failure.took_us as i64);
        self.resets.push(json!({
            "attempt": attempt,
            "at_utc": crate::system::timestamp(at_us),
            "step_id": failed_id.as_str(),
            "retry_from_step_id": plan.steps[retry.from.at()].id.as_str(),
            "replayed": ids,
            "rolled_back_sandboxes": retired_json(&retired),
        }));
        let wait = retry.backoff_ms as f64 * retry.backoff_factor.powi(used as i32);
        let after_ms = (wait as u64).min(retry.max_backoff_ms);
        if after_ms > 0 && self.phase(retry.from) == &Phase::Waiting {
            self.set(retry.from, Phase::Asleep);
            *self.asleep.entry(retry.from).or_default() += 1;
            self.commands.push(Command::Wake {
                step: retry.from,
                after_ms,
            });
        }
        self.recount();
    }

    /// Marks the failures of steps that are undone, which are in list order, as made good.
    pub(super) fn forgive(&mut self, undone: &[StepIx]) {
        for failure in &mut self.failures {
            failure.retried |= undone.binary_search(&failure.step).is_ok();
        }
    }

    /// Returns the groups that have a member in the span.
    fn groups_in(&self, span: &[StepIx]) -> BTreeSet<usize> {
        span.iter()
            .flat_map(|step| self.world.groups.of_step(*step))
            .copied()
            .collect()
    }

    /// Sets the groups that the span has a part in back to the version at which the span found them.
    fn restore_groups(&mut self, span: &[StepIx]) {
        for at in self.groups_in(span) {
            let group = &self.plan.groups[at];
            let started = |step: &&StepIx| self.steps[step.at()].started > 0;
            let is_inside = |step: &&StepIx| span.binary_search(step).is_ok();
            // Where none ran outside the span, the group starts over from whatever its ancestors leave this time.
            if !group
                .members
                .iter()
                .filter(started)
                .any(|step| !is_inside(&step))
            {
                self.world.set_group_now(at, None);
                continue;
            }
            let first = group
                .members
                .iter()
                .filter(is_inside)
                .filter(|step| self.has_changed(**step, &group.resource))
                .min_by_key(|step| self.steps[step.at()].started);
            // Where none inside changed anything, the state is that of those outside.
            let Some(first) = first else { continue };
            let found = self.steps[first.at()].at_start.iter();
            let found: Option<Version> = found
                .filter(|found| found.resource == group.resource)
                .map(|found| found.version)
                .next();
            self.world.set_group_now(at, found);
        }
    }

    /// Returns why a retry would be wrong: a step outside the span changed a resource while the span changed it too.
    fn conflict(&self, failed: StepIx, from: StepIx) -> Option<String> {
        let span = self.plan.graph.span(from);
        for at in self.groups_in(&span) {
            let group = &self.plan.groups[at];
            let (inside, outside): (Vec<StepIx>, Vec<StepIx>) = group
                .members
                .iter()
                .copied()
                .filter(|&step| self.has_changed(step, &group.resource))
                .partition(|step| span.binary_search(step).is_ok());
            let Some(&first) = inside
                .iter()
                .min_by_key(|step| self.steps[step.at()].started)
            else {
                continue;
            };
            let since = self.steps[first.at()].started;
            let window = |step: StepIx| {
                let mut found = self.steps[step.at()].at_start.iter();
                found
                    .find(|found| found.resource == group.resource)
                    .map(|found| found.window)
            };
            let windows: BTreeSet<Option<u64>> = inside.iter().map(|step| window(*step)).collect();
            for other in outside {
                let run = &self.steps[other.at()];
                let runs = matches!(run.phase, Phase::Running | Phase::Aborting);
                if runs || run.ended > since || windows.contains(&window(other)) {
                    let id = |step: StepIx| &self.planned(step).id;
                    return Some(format!(
                        "cannot retry `{}` from `{}`: `{}` is outside the span and changed {} while `{}` changed it too",
                        id(failed),
                        id(from),
                        id(other),
                        group.resource,
                        id(first),
                    ));
                }
            }
        }
        None
    }

    /// Returns whether a step that has started changed a resource, as far as one can tell.
    fn has_changed(&self, step: StepIx, resource: &ResourceId) -> bool {
        let run = &self.steps[step.at()];
        if run.started == 0 {
            return false;
        }
        match self.plan.touch(step, resource) {
            Some(Touch::Mutates) => true,
            Some(Touch::MayMutate) => match &run.output {
                Some(output) if matches!(run.phase, Phase::Done(_)) => output
                    .effects
                    .iter()
                    .any(|effect| effect.resource == *resource),
                _ => true,
            },
            Some(Touch::Creates | Touch::Observes | Touch::Retires) | None => false,
        }
    }

    /// Returns `failed_steps` and `retry_resets` as entries of the context.
    pub(super) fn failure_entries(&self) -> Vec<Entry> {
        let mut entries = Vec::new();
        for failure in &self.failures {
            let planned = self.planned(failure.step);
            let mut row = json!({
                "step_id": planned.id.as_str(),
                "step_type": planned.kind,
                "error": failure.error.message,
                "error_type": failure.error.kind,
                "started_at_utc": (failure.started_us != 0).then(|| crate::system::timestamp(failure.started_us)),
                "duration_seconds": failure.took_us as f64 / 1e6,
                "is_fatal": failure.fatal,
            });
            if let (true, Value::Object(row)) = (failure.retried, &mut row) {
                row.insert("retried".to_owned(), Value::Bool(true));
            }
            entries.push(Entry::data(
                Place::Append(vec!["failed_steps".to_owned()]),
                row,
            ));
        }
        for reset in &self.resets {
            let place = Place::Append(vec!["retry_resets".to_owned()]);
            entries.push(Entry::data(place, reset.clone()));
        }
        entries
    }
}

/// Returns how the live thing of a step can be reached, as `retry_resets` lists it.
fn handle_of(step: &PlannedStep) -> Value {
    let entry = step.live.iter().flat_map(|output| &output.entries).next();
    let field = |name: &str| entry.and_then(|entry| entry.value.get(name).cloned());
    json!({"sandbox_id": field("sandbox_id"), "sandbox_type": field("sandbox_type")})
}

fn retired_json(retired: &[(ResourceKind, Value)]) -> Value {
    let of = |kind: ResourceKind| -> Vec<&Value> {
        let of_kind = retired.iter().filter(|(other, _)| *other == kind);
        of_kind.map(|(_, handle)| handle).collect()
    };
    json!({
        "deployed_envs": of(ResourceKind::Env),
        "deployed_agents": of(ResourceKind::Agent),
        "deployed_sandboxes": of(ResourceKind::Sandbox),
    })
}
