//! Undoing: what is lost is made again, steps go back to waiting, windows are spoiled, things are ended.

use std::collections::BTreeSet;

use super::resources::{Found, Live, MOST_RERUNS, Maker, changes};
use super::state::Scheduler;
use super::{Command, Done, Phase};
use crate::event::StepEvent;
use crate::graph::StepIx;
use crate::rebuild::DirtyReason;
use crate::resource::ResourceId;
use crate::step::StepError;

impl Scheduler<'_> {
    /// A version cannot be had any more: the steps that made it run again.
    pub(super) fn lost(&mut self, step: StepIx, resource: &ResourceId) {
        let found = &self.steps[step.at()].at_start;
        let lost = found.iter().find(|found| found.resource == *resource);
        self.lost_versions.extend(lost.map(|found| found.version));
        if let Some(live) = self.live.get_mut(resource) {
            live.version = None;
        }
        if self.closed.is_some() {
            self.set(step, Phase::Done(Done::Skipped));
            self.tell(step, StepEvent::Skipped);
            return;
        }
        let maker = self
            .needed(step, resource)
            .map_or(Maker::Nobody, |(_, maker)| maker);
        self.rerun_maker(step, resource, maker, None);
    }

    pub(super) fn rerun_maker(
        &mut self,
        step: StepIx,
        resource: &ResourceId,
        maker: Maker,
        why: Option<&'static str>,
    ) {
        let reason = DirtyReason::StateLost {
            resource: resource.clone(),
            needed_by: self.planned(step).id.clone(),
            why,
        };
        let makers = match maker {
            Maker::Nobody => Vec::new(),
            Maker::Step(maker) => vec![maker],
            Maker::Group(at) => self.plan.groups[at].members.clone(),
        };
        self.set(step, Phase::Waiting);
        let reruns = self.reruns.entry(step).or_default();
        *reruns += 1;
        if makers.is_empty() {
            self.fail_unstarted(step, format!("{resource} could not be made"));
        } else if *reruns > MOST_RERUNS {
            let why = format!(
                "the state of {resource} is lost each time before it can be used: a step before leaves it unusable, or \
                 `depends_on` is missing between the steps that use it"
            );
            self.fail_unstarted(step, why);
        } else {
            let run_again =
                |step: &StepIx| self.planned(*step).live.is_none() && !self.is_left_out(*step);
            let back = makers
                .into_iter()
                .filter(run_again)
                .map(|maker| (maker, Some(reason.clone())));
            let mut back: Vec<(StepIx, Option<DirtyReason>)> = back.collect();
            // A member of its own group that lost the state starts over with the others.
            back.retain(|(maker, _)| *maker != step);
            self.send_back(back);
            if self.phase(step) == &Phase::Waiting {
                self.wait_again(step);
            }
        }
    }

    /// Fails a step that cannot even start.
    pub(super) fn fail_unstarted(&mut self, step: StepIx, message: String) {
        self.failed(step, StepError::new(message), 0, 0);
    }

    /// Sets steps and everything that waits for them back to waiting; a group that ran goes back whole.
    pub(super) fn send_back(&mut self, mut roots: Vec<(StepIx, Option<DirtyReason>)>) {
        if roots.is_empty() {
            return;
        }
        let plan = self.plan.clone();
        let groups = self.world.groups.clone();
        let span = loop {
            let from: Vec<StepIx> = roots.iter().map(|(step, _)| *step).collect();
            let span = plan.graph.span_of(&from);
            let n_roots = roots.len();
            let started = |step: &StepIx| self.steps[step.at()].started > 0;
            let clusters: BTreeSet<usize> = span
                .iter()
                .filter(|s| started(s))
                .filter_map(|s| groups.cluster_of(*s))
                .collect();
            for cluster in clusters.into_iter().map(|at| &groups.clusters()[at]) {
                for &at in &cluster.groups {
                    self.world.set_group_now(at, None);
                }
                let first = cluster
                    .members
                    .iter()
                    .find(|member| span.binary_search(member).is_ok());
                let Some(&first) = first else { continue };
                for &member in cluster.members.iter().filter(|member| started(member)) {
                    if span.binary_search(&member).is_err() {
                        roots.push((member, Some(groups.reason(&plan, member, first))));
                    }
                }
            }
            if roots.len() == n_roots {
                break span;
            }
        };
        for (step, reason) in roots {
            if let Some(reason) = reason {
                self.steps[step.at()].forced = Some(vec![reason]);
            }
        }
        self.forgive(&span);
        for &step in &span {
            self.undo(step);
        }
        self.recount();
    }

    /// Undoes a step: drops its output, calls it back where it runs.
    pub(super) fn undo(&mut self, step: StepIx) {
        let plan = self.plan.clone();
        self.spoil_windows(step);
        self.world.drop_step(&plan, step);
        self.turns += 1;
        let turn = self.turns;
        let run = &mut self.steps[step.at()];
        run.turn = turn;
        run.output = None;
        run.tolerated = false;
        match run.phase {
            Phase::Queued | Phase::Running => self.call_back(step),
            Phase::Aborting => {}
            Phase::Waiting | Phase::Held(_) | Phase::Settling | Phase::Asleep | Phase::Done(_) => {
                run.started = 0;
                self.set(step, Phase::Waiting);
            }
        }
    }

    pub(super) fn call_back(&mut self, step: StepIx) {
        let had_started = self.phase(step) == &Phase::Running;
        self.set(step, Phase::Aborting);
        self.commands.push(Command::Abort(step));
        if had_started {
            return;
        }
        // Others may count on it to bring a live thing to the state that all of them need.
        for Found {
            resource,
            window: id,
            ..
        } in self.steps[step.at()].at_start.clone()
        {
            let window = self
                .live
                .get(&resource)
                .and_then(|live| live.window.as_ref());
            if window.is_some_and(|window| window.id == id && !window.reached) {
                self.spoil(&resource, id);
            }
        }
    }

    /// Spoils the windows in which a step may have changed something.
    pub(super) fn spoil_windows(&mut self, step: StepIx) {
        if self.steps[step.at()].started == 0 {
            return;
        }
        let found = self.steps[step.at()].at_start.clone();
        for Found {
            resource, window, ..
        } in found
        {
            if self.plan.touch(step, &resource).is_some_and(changes) {
                self.spoil(&resource, window);
            }
        }
    }

    /// Spoils a window if it is still open: calls back those who have not started in it.
    pub(super) fn spoil(&mut self, resource: &ResourceId, id: u64) {
        let live = self.live.get_mut(resource);
        let Some(window) = live.and_then(|live| live.window.as_mut()) else {
            return;
        };
        if window.id != id || std::mem::replace(&mut window.spoiled, true) {
            return;
        }
        for other in window.entered.clone() {
            let is_in = self.steps[other.at()]
                .at_start
                .iter()
                .any(|found| found.window == id);
            if is_in && self.phase(other) == &Phase::Queued {
                self.call_back(other);
            }
        }
    }

    /// Takes in that a step has all that it needs.
    pub(super) fn reach_windows(&mut self, step: StepIx) {
        for Found {
            resource,
            window: id,
            ..
        } in &self.steps[step.at()].at_start
        {
            if let Some(window) = self
                .live
                .get_mut(resource)
                .and_then(|live| live.window.as_mut())
                && window.id == *id
            {
                window.reached = true;
            }
        }
    }

    /// Ends a live thing, as soon as nobody uses it.
    pub(super) fn retire(&mut self, resource: &ResourceId) -> bool {
        let Some(live) = self.live.get_mut(resource) else {
            return false;
        };
        if !live.exists || live.ending {
            return false;
        }
        if live.window.is_some() {
            live.ending = true;
        } else {
            *live = Live::default();
            self.commands.push(Command::Retire(resource.clone()));
        }
        true
    }

    /// A step that was called back has stopped.
    pub(super) fn after_abort(&mut self, step: StepIx) {
        self.steps[step.at()].started = 0;
        if self.closed.is_some() || self.outdated.contains(&step) {
            self.set(step, Phase::Done(Done::Skipped));
            return;
        }
        self.set(step, Phase::Waiting);
        self.wait_again(step);
    }

    /// Tells why a retry is refused.
    pub(super) fn refuse(&mut self, step: StepIx, why: String) {
        self.tell(step, StepEvent::RetryRefused { why });
    }
}
