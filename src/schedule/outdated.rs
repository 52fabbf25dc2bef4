//! What the author changed while the run goes on.

use super::state::Scheduler;
use super::{Done, Phase};
use crate::event::StepEvent;
use crate::graph::StepIx;

impl Scheduler<'_> {
    /// Lets these steps and what waits for them go no further: their results would be of no use. What else runs goes on.
    pub(super) fn outdate(&mut self, steps: &[StepIx]) {
        if self.closed.is_some() {
            return;
        }
        let span = self.outdated_with(steps);
        self.outdated.extend(span.iter().copied());
        for step in span {
            match self.phase(step) {
                Phase::Queued | Phase::Running => {
                    self.is_cut = true;
                    self.call_back(step);
                }
                Phase::Waiting | Phase::Held(_) | Phase::Asleep => self.leave_undone(step),
                Phase::Settling | Phase::Aborting | Phase::Done(_) => {}
            }
        }
    }

    /// Skips a step that is outdated.
    pub(super) fn leave_undone(&mut self, step: StepIx) {
        self.set(step, Phase::Done(Done::Skipped));
        if !self.is_left_out(step) {
            self.is_cut = true;
            self.tell(step, StepEvent::Skipped);
        }
    }

    /// Returns steps, what waits for them, and the others of their groups, of which a part is worth nothing.
    fn outdated_with(&self, steps: &[StepIx]) -> Vec<StepIx> {
        let mut span = self.plan.graph.span_of(steps);
        loop {
            let mut all = span.clone();
            for &step in &span {
                if let Some(at) = self.world.groups.cluster_of(step) {
                    all.extend(&self.world.groups.clusters()[at].members);
                }
            }
            let wider = self.plan.graph.span_of(&all);
            if wider.len() == span.len() {
                return span;
            }
            span = wider;
        }
    }
}
