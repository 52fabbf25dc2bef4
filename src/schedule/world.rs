//! What is true so far in a task: the outputs there are, and the versions that resources were left in.

use std::collections::HashMap;
use std::sync::Arc;

use super::TaskPlan;
use super::groups::Groups;
use crate::context::{Lookup, Output, Outputs};
use crate::digest::Digest;
use crate::graph::StepIx;
use crate::rebuild::{self, DirtyReason, Present, Question, ReadKey, Trace, Verdict};
use crate::resource::{Effect, ResourceId, ResourceKind, Version};

/// The outputs and effects of the steps that are done.
#[derive(Clone, Debug)]
pub(super) struct World {
    pub(super) outputs: Outputs,
    pub(super) groups: Arc<Groups>,
    effects: HashMap<ResourceId, Vec<(StepIx, Version)>>,
    /// For each group, the state that the members which ran so far left together.
    group_now: Vec<Option<Version>>,
    /// What steps came to in this run: a step that is set back finds its own result, and no second sample is taken.
    fresh: HashMap<StepIx, Arc<Trace>>,
}

impl World {
    pub(super) fn new(plan: &TaskPlan, groups: Arc<Groups>) -> Self {
        World {
            outputs: Outputs::new(plan.steps.len(), plan.initial.clone()),
            groups,
            effects: HashMap::new(),
            group_now: vec![None; plan.groups.len()],
            fresh: HashMap::new(),
        }
    }

    /// Takes in the output of a step, with its effects.
    pub(super) fn add(&mut self, step: StepIx, output: Arc<Output>) {
        for effect in &output.effects {
            self.add_effect(step, effect);
        }
        self.outputs.insert(step, output);
    }

    /// Takes in the effect of a step.
    pub(super) fn add_effect(&mut self, step: StepIx, effect: &Effect) {
        let effects = self.effects.entry(effect.resource.clone()).or_default();
        match effects.binary_search_by_key(&step, |(other, _)| *other) {
            Ok(at) => effects[at].1 = effect.after,
            Err(at) => effects.insert(at, (step, effect.after)),
        }
    }

    /// Drops the output and the effects of a step.
    pub(super) fn drop_step(&mut self, plan: &TaskPlan, step: StepIx) {
        let output = self.outputs.remove(step);
        let touched = plan.steps[step.at()]
            .touches
            .iter()
            .map(|(resource, _)| resource);
        let changed = output
            .iter()
            .flat_map(|output| &output.effects)
            .map(|e| &e.resource);
        for resource in touched.chain(changed) {
            if let Some(effects) = self.effects.get_mut(resource)
                && let Ok(at) = effects.binary_search_by_key(&step, |(other, _)| *other)
            {
                effects.remove(at);
            }
        }
    }

    /// Remembers what a step came to in this run.
    pub(super) fn remember(&mut self, step: StepIx, trace: Trace) {
        self.fresh.insert(step, Arc::new(trace));
    }

    /// Forgets what a step came to in this run.
    pub(super) fn forget(&mut self, step: StepIx) {
        self.fresh.remove(&step);
    }

    /// Returns the state that the members of a group which ran so far left.
    pub(super) fn group_now(&self, group: usize) -> Option<Version> {
        self.group_now[group]
    }

    /// Sets or forgets the state that the members of a group left.
    pub(super) fn set_group_now(&mut self, group: usize, now: Option<Version>) {
        self.group_now[group] = now;
    }

    /// Returns the version at which a step finds a resource, and the step that left it so.
    ///
    /// Members of the step's own group do not count: all of them start from one version.
    pub(super) fn version_before(
        &self,
        plan: &TaskPlan,
        step: StepIx,
        resource: &ResourceId,
    ) -> Option<(Version, Option<StepIx>)> {
        let lookup = match resource.kind {
            ResourceKind::Env => Lookup::Env(resource.name.clone()),
            ResourceKind::Agent => Lookup::Agent(resource.name.clone()),
            ResourceKind::Sandbox => Lookup::Sandbox(resource.name.clone()),
        };
        let answer = self.outputs.find(&plan.graph, step, &lookup);
        let group = self.groups.on(plan, step, resource);
        for &(other, version) in self.effects.get(resource).into_iter().flatten().rev() {
            if answer.from.is_some_and(|made_by| made_by > other) {
                // It was made anew after that.
                break;
            }
            let theirs = self.groups.on(plan, other, resource);
            if (group.is_some() && theirs == group) || !plan.graph.is_ancestor(other, step) {
                continue;
            }
            let now = theirs.and_then(|at| self.group_now[at]);
            return Some((now.unwrap_or(version), Some(other)));
        }
        answer
            .digest
            .map(|digest| (Version::Created(digest), answer.from))
    }

    /// Answers a read of a step as things stand.
    pub(super) fn present(&self, plan: &TaskPlan, step: StepIx, read: &ReadKey) -> Present {
        match read {
            ReadKey::Lookup(lookup) => {
                let answer = self.outputs.find(&plan.graph, step, lookup);
                (answer.digest, answer.from)
            }
            ReadKey::State(resource) => match self.version_before(plan, step, resource) {
                Some((version, by)) => (Some(version.digest()), by),
                None => (None, None),
            },
            ReadKey::Group(resource) => {
                let group = self.groups.on(plan, step, resource);
                (group.map(|at| self.groups.digest(at)), None)
            }
            ReadKey::GroupRun => (None, None),
        }
    }

    /// Verifies a step as things stand; of the traces that come from a run of its group, only those of `run` count where
    /// one is given.
    pub(super) fn verify(&self, plan: &TaskPlan, step: StepIx, run: Option<Digest>) -> Verdict {
        let planned = &plan.steps[step.at()];
        match run {
            None => match self.fresh.get(&step) {
                Some(fresh) => match self.verify_against(plan, step, std::slice::from_ref(fresh)) {
                    Verdict::Dirty(_) => self.verify_against(plan, step, &planned.candidates),
                    hit => hit,
                },
                None => self.verify_against(plan, step, &planned.candidates),
            },
            Some(_) => {
                let of_run = planned
                    .candidates
                    .iter()
                    .filter(|trace| trace.group_run() == run);
                let of_run: Vec<Arc<Trace>> = of_run.cloned().collect();
                self.verify_against(plan, step, &of_run)
            }
        }
    }

    /// Returns the runs of its group of which a trace may stand in for a step.
    pub(super) fn runs_that_fit(&self, plan: &TaskPlan, step: StepIx) -> Vec<Digest> {
        let candidates = plan.steps[step.at()].candidates.chunks(1);
        candidates
            .filter_map(|one| match self.verify_against(plan, step, one) {
                Verdict::Hit(trace) => trace.group_run(),
                Verdict::Dirty(_) => None,
            })
            .collect()
    }

    fn verify_against(&self, plan: &TaskPlan, step: StepIx, candidates: &[Arc<Trace>]) -> Verdict {
        let planned = &plan.steps[step.at()];
        if let Some(reason) = &planned.forced {
            return Verdict::Dirty(vec![reason.clone()]);
        }
        // A result from when the step was not in a group says nothing of what the group leaves.
        let mut alone = None;
        let mut in_groups = Vec::new();
        for trace in candidates
            .iter()
            .filter(|_| !self.groups.of_step(step).is_empty())
        {
            let is_read = |at: &&usize| {
                let key = ReadKey::Group(plan.groups[**at].resource.clone());
                trace.reads.iter().any(|read| read.key == key)
            };
            match self.groups.of_step(step).iter().find(|at| !is_read(at)) {
                None => in_groups.push(trace.clone()),
                Some(at) => alone = Some(*at),
            }
        }
        if let (Some(at), true) = (alone, in_groups.is_empty()) {
            return Verdict::Dirty(vec![DirtyReason::ReadChanged {
                read: ReadKey::Group(plan.groups[at].resource.clone()),
                old: None,
                new: Some(self.groups.digest(at)),
                by: None,
            }]);
        }
        let question = Question {
            key: &planned.key,
            determinism: planned.determinism,
            candidates: if alone.is_some() {
                &in_groups
            } else {
                candidates
            },
            previous: planned.previous.as_ref(),
        };
        rebuild::verify(question, &mut |read| self.present(plan, step, read))
    }

    /// Returns a run that fits a step and all of these others of its cluster.
    pub(super) fn common_run(
        &self,
        plan: &TaskPlan,
        step: StepIx,
        others: &[StepIx],
    ) -> Option<Digest> {
        let mut fit = self.runs_that_fit(plan, step);
        for &other in others {
            if fit.is_empty() {
                break;
            }
            let theirs = self.runs_that_fit(plan, other);
            fit.retain(|run| theirs.contains(run));
        }
        fit.first().copied()
    }
}
