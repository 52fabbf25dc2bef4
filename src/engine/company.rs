//! The steps of a group, as the envs on which they work side by side see them.

use std::collections::BTreeSet;
use std::sync::Arc;

use tokio::sync::{mpsc, watch};

use super::executor::Moment;
use crate::gateway;
use crate::graph::{StepGraph, StepIx};
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

/// Returns whether one of these steps goes on, or may begin before one of those that rest goes on.
fn comes(graph: &StepGraph, others: &[StepIx], goings: &[Going], rest: &BTreeSet<StepIx>) -> bool {
    let is = |step: StepIx, going: Going| goings.get(step.at()) == Some(&going);
    let goes_on = |step: StepIx| is(step, Going::Moves) && !rest.contains(&step);
    let to_come = others
        .iter()
        .copied()
        .filter(|other| !is(*other, Going::Over) && !rest.contains(other));
    let mut to_come = to_come.peekable();
    if to_come.peek().is_none() {
        return false;
    }
    let moving: Vec<StepIx> = graph.steps().filter(|step| goes_on(*step)).collect();
    to_come.any(|other| {
        // What waits for one that rests cannot be waited for.
        let is_stuck = rest.iter().any(|step| graph.is_ancestor(*step, other));
        let leads = |step: &StepIx| *step == other || graph.is_ancestor(*step, other);
        !is_stuck && moving.iter().any(leads)
    })
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
        let rest = resting.iter().filter_map(|id| self.plan.position(id));
        comes(&self.plan.graph, &self.others, &goings, &rest.collect())
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::Edges;

    #[test]
    fn who_may_come_is_waited_for_but_not_who_waits_for_who_rests() {
        // 0 -> 1 -> 2 and 3 -> 4; the steps 1, 2 and 4 work on one env.
        let on = |steps: &[u32]| Edges::Steps(steps.iter().copied().map(StepIx).collect());
        let edges = vec![on(&[]), on(&[0]), on(&[1]), on(&[]), on(&[3])];
        let graph = StepGraph::from_edges(edges);
        let check = |goings: &str, rest: &[u32], wanted: bool| {
            let going = |letter: char| match letter {
                'w' => Going::Waits,
                'm' => Going::Moves,
                _ => Going::Over,
            };
            let goings: Vec<Going> = goings.chars().map(going).collect();
            let rest = rest.iter().copied().map(StepIx).collect();
            let others = [1, 2, 4].map(StepIx);
            assert_eq!(comes(&graph, &others, &goings, &rest), wanted, "{goings:?}");
        };
        check("", &[], false);
        check("ooooo", &[], false);
        // One runs, and the others rest.
        check("omwom", &[1], true);
        check("omwom", &[1, 4], false);
        // What leads to one runs.
        check("omwmw", &[1], true);
        // It is held, and nobody leads to it.
        check("omwow", &[1], false);
        // What is not of the group, and leads to nobody of it, is no matter.
        check("moooo", &[4], false);
        check("mwwoo", &[], true);
        // The next in line waits for the one that rests.
        check("omwoo", &[1], false);
    }
}
