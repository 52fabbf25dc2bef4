//! The steps of a group, as the envs on which they work side by side see them.

use std::sync::Arc;

use tokio::sync::{mpsc, watch};

use super::executor::Moment;
use crate::gateway;
use crate::graph::StepIx;
use crate::resource::ResourceId;
use crate::schedule::{Phase, Scheduler, TaskPlan};
use crate::step::sandbox::BoxFuture;

/// How a step goes on, as far as others wait for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Going {
    /// It waits for other steps.
    Waits,
    /// It goes on by itself.
    Moves,
    /// It is over, or works on nothing any more.
    Over,
}

/// How each step of a task goes on, for the steps of its groups.
pub(super) type Goings = watch::Sender<Arc<Vec<Going>>>;

/// Tells the groups of a task how its steps go on; there is nothing to tell where it has none.
pub(super) fn tell(goings: &Goings, plan: &TaskPlan, scheduler: &Scheduler<'_>) {
    if plan.groups.is_empty() {
        return;
    }
    let going = |at: StepIx| match scheduler.phase(at) {
        Phase::Waiting | Phase::Held(_) => Going::Waits,
        Phase::Queued | Phase::Running | Phase::Aborting | Phase::Asleep => Going::Moves,
        Phase::Settling | Phase::Done(_) => Going::Over,
    };
    let now: Vec<Going> = plan.graph.steps().map(going).collect();
    goings.send_if_modified(|told| {
        let is_new = **told != now;
        if is_new {
            *told = Arc::new(now);
        }
        is_new
    });
}

/// The other steps of a group, as one of them sees them.
pub(super) struct Company {
    plan: Arc<TaskPlan>,
    others: Vec<StepIx>,
    goings: watch::Receiver<Arc<Vec<Going>>>,
    told: mpsc::UnboundedSender<Moment>,
}

impl Company {
    /// Returns the others with which a step works on a resource; `None` where there are none.
    pub(super) fn of(
        plan: &Arc<TaskPlan>,
        step: StepIx,
        resource: &ResourceId,
        goings: &watch::Receiver<Arc<Vec<Going>>>,
        told: &mpsc::UnboundedSender<Moment>,
    ) -> Option<Arc<dyn gateway::Company>> {
        let group = plan.group_of(step, resource)?;
        let others = group.members.iter().filter(|other| **other != step);
        Some(Arc::new(Company {
            plan: plan.clone(),
            others: others.copied().collect(),
            goings: goings.clone(),
            told: told.clone(),
        }))
    }
}

impl gateway::Company for Company {
    fn may_come(&self, resting: &[String]) -> bool {
        let goings = self.goings.borrow().clone();
        let going = |step: StepIx| goings.get(step.at()).copied();
        let rest: Vec<StepIx> = resting
            .iter()
            .filter_map(|id| self.plan.position(id))
            .collect();
        let goes_on = |step: StepIx| going(step) == Some(Going::Moves) && !rest.contains(&step);
        let graph = &self.plan.graph;
        self.others.iter().any(|&other| {
            if going(other) == Some(Going::Over) || rest.contains(&other) {
                return false;
            }
            // What waits for one that rests cannot be waited for.
            let is_stuck = rest.iter().any(|&step| graph.is_ancestor(step, other));
            let comes = |step: StepIx| step == other || graph.is_ancestor(step, other);
            !is_stuck && graph.steps().any(|step| goes_on(step) && comes(step))
        })
    }

    fn changed(&self) -> BoxFuture<'_, ()> {
        let mut goings = self.goings.clone();
        goings.mark_unchanged();
        Box::pin(async move {
            if goings.changed().await.is_err() {
                // The task is over, and so is whoever asks.
                std::future::pending::<()>().await;
            }
        })
    }

    fn rests(&self) {
        // Where nobody listens any more, there are no slots either.
        let _ = self.told.send(Moment::Rests);
    }
}
