//! How a run ends before its end.

use std::collections::HashMap;

use tokio::sync::mpsc;

use super::{Active, Dispatcher, Message, StepKeys, TaskJob, TaskResult, Told};
use crate::event::RunEvent;
use crate::graph::StepIx;
use crate::schedule::{Ended, Input, Pool};

/// Returns whether a step has failed.
pub(super) fn is_failure(message: &Message) -> bool {
    let Message::Ended { ended, .. } = message else {
        return false;
    };
    matches!(ended, Ended::Failed(_))
}

/// Returns the steps whose key is not what it should be.
fn outdated(job: &TaskJob, keys: &StepKeys) -> Vec<StepIx> {
    let of_task = keys.get(&job.shown);
    let is_outdated = |step: &StepIx| {
        let planned = &job.plan.steps[step.at()];
        let key = of_task.and_then(|keys| keys.get(&planned.id));
        key != Some(&planned.key.fingerprint)
    };
    job.plan.graph.steps().filter(is_outdated).collect()
}

/// Returns what a task begins with, where some of its steps may be outdated already.
pub(super) fn begin(job: &TaskJob, keys: Option<&StepKeys>) -> Input {
    let steps = keys.map_or(Vec::new(), |keys| outdated(job, keys));
    match steps.is_empty() {
        true => Input::Begin,
        false => Input::Outdated(steps),
    }
}

impl<'a> Dispatcher<'a> {
    /// Lets go on what still has the key that it should have.
    pub(super) async fn keep_only(
        &mut self,
        keys: &StepKeys,
        active: &mut HashMap<usize, Active<'a>>,
        results: &mut [Option<TaskResult>],
        pool: &mut Pool<(usize, StepIx)>,
        send: &mpsc::UnboundedSender<Message>,
    ) {
        let of_task = |(at, task): (&usize, &Active<'a>)| (*at, outdated(&task.job, keys));
        let all: Vec<(usize, Vec<StepIx>)> = active.iter().map(of_task).collect();
        for (at, steps) in all.into_iter().filter(|(_, steps)| !steps.is_empty()) {
            self.feed(at, Input::Outdated(steps), active, results, pool, send)
                .await;
        }
    }

    /// Has the tasks drained and torn down for which that is wanted.
    pub(super) async fn cancel(
        &mut self,
        active: &mut HashMap<usize, Active<'a>>,
        results: &mut [Option<TaskResult>],
        pool: &mut Pool<(usize, StepIx)>,
        send: &mpsc::UnboundedSender<Message>,
        wanted: fn(&Active<'a>) -> bool,
    ) {
        let ids = active.iter().filter(|(_, task)| wanted(task));
        let ids: Vec<usize> = ids.map(|(at, _)| *at).collect();
        for at in ids {
            self.feed(at, Input::Cancel, active, results, pool, send)
                .await;
        }
    }

    /// Returns whether a limit kept a model from being asked, and tells of it.
    pub(super) fn is_over_budget(&mut self) -> bool {
        let Some(limit) = self.models.over_budget() else {
            return false;
        };
        let text = format!("the run stops: it has reached {limit}");
        (self.tell)(Told::Event(RunEvent::Notice { text }));
        true
    }
}
